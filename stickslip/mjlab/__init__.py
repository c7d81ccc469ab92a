"""mjlab on a physics of stickslip: `stickslip.mjlab.use("cone-sweep")`, and environments are made with it.

mjlab steps its environments with MuJoCo Warp. `use` puts a module with MuJoCo Warp's names in its place wherever mjlab
calls it. `docs/mjlab.md` has the installation.
"""

from types import TracebackType
from typing import TYPE_CHECKING, Any, final

from stickslip.mjlab.versions import TESTED as TESTED

if TYPE_CHECKING:
    from stickslip.physics.base import Physics

__all__ = ["TESTED", "Use", "current", "restore", "use"]


@final
class Use:
    """What `use` returns: as a context manager, it brings back the physics that was in use before.

    Attributes:
        physics: the physics in use, as it is written on a command line: "cone-sweep:substeps=4"
    """

    def __init__(self, before: Any, physics: str) -> None:
        self._before = before
        self.physics = physics

    def __enter__(self) -> "Use":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from stickslip.mjlab import backend

        backend.choose(self._before)

    def __repr__(self) -> str:
        return f"<mjlab with {self.physics}>"


def use(physics: "str | Physics[Any, Any]" = "cone-sweep", *, any_version: bool = False, **parameters: Any) -> Use:
    """Let mjlab make its environments with a physics of stickslip.

    It makes no difference whether mjlab was imported before. Environments that are there already keep their physics.

    Args:
        physics: its name, "cone-sweep", "comfree" or "mujoco" (MuJoCo Warp itself), also as "name:key=value"; or the
            physics itself
        any_version: take a version of mjlab that was not tested
        parameters: of the physics, such as `substeps=4`

    Raises:
        MissingExtra: mjlab is not installed
        Unsupported: the physics cannot be put in the place of MuJoCo Warp, or a package has an untested version
        InputError: there is no such physics or parameter, or a value is out of its limits
    """
    from stickslip.mjlab import versions

    versions.check(any_version)
    from stickslip.mjlab import backend, places

    chosen = backend.choice_of(physics, parameters)
    places.replace(backend.BACKEND)
    return Use(backend.choose(chosen), chosen.name)


def restore() -> None:
    """Let mjlab make its environments with MuJoCo Warp again; those that are there keep their physics."""
    from stickslip.mjlab import backend

    backend.choose(backend.MUJOCO)


def current() -> str:
    """The physics that new environments get, as it is written on a command line: "cone-sweep:substeps=4"."""
    from stickslip.mjlab import backend

    return backend.chosen().name
