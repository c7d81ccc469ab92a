"""What a built-in scene is: an MJCF file, its parameters, and the function that edits the file's spec by them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stickslip import parameters
from stickslip.errors import InputError, SceneError
from stickslip.scenes import look
from stickslip.spec import make

if TYPE_CHECKING:
    import mujoco

FOLDER = Path(__file__).parent
"""Where the MJCF files of scenes are."""


@dataclasses.dataclass(frozen=True)
class NoParameters:
    """Parameters of a scene that has none."""


def _keep(spec: mujoco.MjSpec, values: Any) -> None:
    """Edit nothing."""


@dataclasses.dataclass(frozen=True)
class Scene:
    """A built-in scene.

    Attributes:
        name: its name in `stickslip.load`
        summary: one line: what it contains and what it is good for
        kind: dataclass of its parameters
        edit: applies parameters to the spec of the file
        file: name of the MJCF file in this folder, the scene with default parameters; by default from the scene's name
    """

    name: str
    summary: str
    kind: type = NoParameters
    edit: Callable[[mujoco.MjSpec, Any], None] = _keep
    file: str = ""

    @property
    def path(self) -> Path:
        """The scene's MJCF file."""
        return FOLDER / (self.file or f"{self.name.replace('-', '_')}.xml")

    @property
    def parameters(self) -> Iterable[dataclasses.Field[Any]]:
        """The declarations of its parameters."""
        return parameters.fields(self.kind).values()

    def values(self, **given: object) -> Any:
        """The parameters as an instance of `kind`: given ones, as values or text, and defaults.

        Raises SceneError for an unknown name or a value that is not allowed.
        """
        try:
            return make(self.kind, given, "")
        except InputError as error:
            raise SceneError(f"scene {self.name!r}: {error}") from error

    def spec(self, **given: object) -> mujoco.MjSpec:
        """The scene as an editable MuJoCo spec."""
        import mujoco

        values = self.values(**given)
        spec = mujoco.MjSpec.from_file(str(self.path))
        spec.modelname = self.name
        self.edit(spec, values)
        return spec

    def buffers(self, **given: object) -> tuple[int, int]:
        """Contacts and constraint rows to allocate per world: (nconmax, njmax)."""
        return look.buffers(self.spec(**given))
