"""A lane: one physics on the page, with its simulation, and what is read out of it for a frame."""

import dataclasses
import time
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from stickslip import spec
from stickslip.errors import Unsupported
from stickslip.physics.base import Contacts, Physics
from stickslip.readout import Patches
from stickslip.simulation import Simulation
from stickslip.state import State


@dataclasses.dataclass(frozen=True)
class Shot:
    """What a frame shows of one lane; arrays on the host.

    Attributes:
        label: the physics, with the parameters that are not the default
        time: of world 0, s
        qpos, qvel: of all worlds                                      (nworld, nq), (nworld, nv)
        mocap_pos, mocap_quat: of mocap bodies; None: the model has none
        contacts: with the forces of the physics; None: not asked for
        patches: None: not asked for, or the physics has none
        sensordata: (nworld, nsensordata); None: the physics has none
        ctrl: (nworld, nu)
        step_ms: wall time of a step of all worlds
        messages: what `health` says
    """

    label: str
    time: float
    qpos: NDArray[np.floating]
    qvel: NDArray[np.floating]
    mocap_pos: NDArray[np.floating] | None = None
    mocap_quat: NDArray[np.floating] | None = None
    contacts: Contacts | None = None
    patches: Patches | None = None
    sensordata: NDArray[np.floating] | None = None
    ctrl: NDArray[np.floating] | None = None
    step_ms: float = 0.0
    messages: tuple[str, ...] = ()

    @property
    def deepest(self) -> float:
        """Depth of the deepest contact, m."""
        contacts = self.contacts
        return 0.0 if contacts is None else max(0.0, float(-contacts.dist.min(initial=0.0)))


class Lane:
    """A simulation on the page.

    Everything of it runs in one thread, that of the session.
    """

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.step_ms = 0.0
        self._messages: tuple[str, ...] = ()
        self._looked = 0.0
        self._has_sensors = True

    @property
    def physics(self) -> Physics[Any, Any]:
        return self.sim.physics

    @property
    def label(self) -> str:
        """The physics, as "name:key=value,..."."""
        physics = self.sim.physics
        inner: Any = getattr(physics, "physics", physics)  # of threads
        return spec.written(inner.name, inner)

    def compile(self) -> None:
        """Compile what a step and a frame need."""
        self.sim.compile()
        self.shot(contacts=True, patches=True)

    def step(self, n: int) -> None:
        """Advance, and note the wall time of a step."""
        start = time.perf_counter()
        self.sim.step(n)
        wp.synchronize_device(self.sim.device)
        now = 1e3 * (time.perf_counter() - start) / max(1, n)
        self.step_ms = now if self.step_ms == 0.0 else 0.9 * self.step_ms + 0.1 * now

    def shot(self, *, contacts: bool, patches: bool) -> Shot:
        """What a frame shows; `health` is asked for once a second."""
        sim = self.sim
        mocap = sim.mjm.nmocap > 0
        if time.monotonic() - self._looked > 1.0:
            self._looked = time.monotonic()
            self._messages = tuple(sim.health().messages)
        return Shot(
            label=self.label,
            time=float(sim.time.numpy()[0]),
            qpos=sim.qpos.numpy().copy(),
            qvel=sim.qvel.numpy().copy(),
            mocap_pos=sim.mocap_pos.numpy().copy() if mocap else None,
            mocap_quat=sim.mocap_quat.numpy().copy() if mocap else None,
            contacts=sim.contacts() if contacts else None,
            patches=sim.patches() if patches and hasattr(sim.physics, "patches") else None,
            sensordata=self._sensors(),
            ctrl=sim.ctrl.numpy().copy() if sim.mjm.nu else None,
            step_ms=self.step_ms,
            messages=self._messages,
        )

    def _sensors(self) -> NDArray[np.floating] | None:
        if not self.sim.mjm.nsensordata or not self._has_sensors:
            return None
        try:
            return self.sim.sensordata.numpy().copy()
        except Unsupported:
            self._has_sensors = False
            return None


def moved(state: State, sim: Simulation) -> None:
    """Put a simulation into a state of another physics: all parts that both have, without the memory."""
    own = sim.physics.arrays(sim._m, sim.d)
    plain = state.without_memory()
    missing = {name: None for name in plain.parts if name not in own}
    sim.set_state(dataclasses.replace(plain, **missing))
