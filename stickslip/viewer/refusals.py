"""Which physics can run a model, and why the others cannot: asked in a thread, since some import much to answer."""

import threading

import mujoco

from stickslip.errors import StickslipError
from stickslip.physics.registry import PHYSICS, names


def refusal(name: str, mjm: mujoco.MjModel) -> str:
    """Why a physics cannot run a model; "" if it can."""
    try:
        physics = PHYSICS[name]()
        physics.check(mjm)
    except StickslipError as error:
        return str(error)
    except ImportError as error:
        return f"{name} needs a package that is not installed: {error}"
    except Exception as error:  # of a physics of another package: the others shall still answer
        return f"{type(error).__name__}: {error}"
    return ""


class Refusals:
    """Answers for the model that was asked about last.

    Attributes:
        found: why each physics cannot run it, "" if it can; None until all have answered
    """

    def __init__(self) -> None:
        self.found: dict[str, str] | None = None
        self._mjm: mujoco.MjModel | None = None
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def ask(self, mjm: mujoco.MjModel) -> None:
        """Begin to ask about a model, unless it is the one that was asked about last."""
        if mjm is not self._mjm:
            self._mjm, self.found = mjm, None
            self._thread = threading.Thread(target=self._find, args=(mjm,), name="stickslip-refusals", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Ask no further physics."""
        self._stop.set()

    @property
    def works(self) -> bool:
        """Whether a physics is still about to answer."""
        return self._thread is not None and self._thread.is_alive()

    def _find(self, mjm: mujoco.MjModel) -> None:
        found: dict[str, str] = {}
        for name in names():
            if self._stop.is_set() or mjm is not self._mjm:
                return
            found[name] = refusal(name, mjm)
        if mjm is self._mjm:
            self.found = found
