"""Scene "hand": a palm-up hand with three fingers and a thumb, 16 hinges, that holds a cube with its fingertips.

Sizes and masses are close to those of the Allegro hand. The grasp was found by solving for the joint angles that put
the fingertips on two opposite faces of the cube, then moving the servo targets inwards by J^T f / kp for the desired
contact forces f. The cube hangs in the grasp, a little above the palm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stickslip.scenes import finger
from stickslip.scenes.scene import NoParameters, Scene

if TYPE_CHECKING:
    import mujoco

HALF = 0.0325
"""Half of the cube's side [m]."""
PALM = 0.12
"""Height of the palm's top face above the floor [m]."""
GAP = 0.006
"""Initial height of the cube's bottom face above the palm [m]."""
CUBE = (0.012, 0.0, PALM + GAP + HALF)
"""Initial position of the cube's center [m]."""


def _edit(spec: mujoco.MjSpec, p: NoParameters) -> None:
    finger.share_materials(spec)


SCENE = Scene(
    "hand",
    "a palm-up hand with three fingers and a thumb, 16 hinges, that holds a cube with its fingertips",
    NoParameters,
    _edit,
)
