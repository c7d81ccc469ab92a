"""Scene "scaling": twelve bodies, small enough to run in thousands of worlds at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stickslip.scenes import look, pile
from stickslip.scenes.scene import NoParameters, Scene

if TYPE_CHECKING:
    import mujoco


def _edit(spec: mujoco.MjSpec, p: NoParameters) -> None:
    pile.add_layers(spec, ["cube", "capsule", "sphere"], 2)
    look.set_buffers(spec, 48, 192)


SCENE = Scene(
    "scaling",
    "2 x 2 cubes, capsules and spheres dropped onto a block; for many worlds at once",
    NoParameters,
    _edit,
    file=pile.FILE,
)
