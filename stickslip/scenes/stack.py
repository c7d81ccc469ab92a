"""Scene "stack": a tower of equal cubes at rest, so that every motion is contact compliance or noise.

The top cube may have another mass: 100 kg on cubes of 1 kg is hard for every contact solver.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from stickslip.parameters import checked, parameter
from stickslip.scenes import look
from stickslip.scenes.scene import Scene

if TYPE_CHECKING:
    import mujoco

_MATERIALS = ("blue", "sand", "teal", "coral", "plum")


@checked
@dataclasses.dataclass(frozen=True)
class Parameters:
    """Of the scene."""

    n: int = parameter(5, "number of cubes", 3, 10)
    half: float = parameter(0.05, "half of a cube's side [m]", 0.005, 1.0)
    mass: float = parameter(1.0, "mass of each cube but the top one [kg]", 0.001, 1000.0)
    top: float = parameter(1.0, "mass of the top cube [kg]", 0.001, 10000.0)
    mu: float = parameter(1.0, "friction coefficient", 0.0, 5.0)


def _edit(spec: mujoco.MjSpec, p: Parameters) -> None:
    import mujoco

    height = 2.0 * p.half * p.n
    middle = (0.0, 0.0, 0.5 * height)
    far = height + 5.0 * p.half
    look.set_extent(spec, middle, 1.2 * height)
    look.set_lights(spec, middle, 1.5 * height)
    look.set_camera(spec, (0.75 * far, -1.35 * far, 0.5 * height + 0.55 * far), (0.0, 0.0, 0.44 * height))
    look.set_friction(spec, p.mu, "floor")
    for index in range(p.n):
        name = f"box{index}"
        body = spec.worldbody.add_body(name=name, pos=[0.0, 0.0, look.rounded((2 * index + 1) * p.half)])
        body.add_freejoint(name=name)
        body.add_geom(
            name=name,
            type=mujoco.mjtGeom.mjGEOM_BOX,
            size=look.numbers((p.half,) * 3, 9),
            mass=look.rounded(p.top if index == p.n - 1 else p.mass),
            material=_MATERIALS[index % len(_MATERIALS)],
        )
        look.set_friction(spec, p.mu, name)
    # Two cubes that lie flat on one another, rotated, touch in at most 8 points, of four rows each.
    look.set_buffers(spec, 11 * p.n, 44 * p.n)


SCENE = Scene(
    "stack", "a tower of cubes at rest, one on the other: compliance, jitter and mass ratios", Parameters, _edit
)
