"""Scene "bullet": a small body shot straight down at a thin plate, which must stop it.

Contacts are detected where the distance is below margin + gap and active where it is below the margin. So `gap` shows
a physics what it may hit within a step; whether it uses that is its choice. The gaps of two geoms add up; here the
bullet has all of it.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from stickslip.parameters import checked, parameter
from stickslip.scenes import look
from stickslip.scenes.scene import Scene

if TYPE_CHECKING:
    import mujoco

HEIGHT = 0.3
"""Initial height of the bullet's lowest point above the plate [m]."""


@checked
@dataclasses.dataclass(frozen=True)
class Parameters:
    """Of the scene."""

    speed: float = parameter(5.0, "initial downward velocity [m/s]", 0.0, 100.0)
    thickness: float = parameter(0.005, "thickness of the plate, and of a flat bullet [m]", 0.0001, 1.0)
    radius: float = parameter(0.01, "radius of the ball, or half the side of a flat bullet [m]", 0.001, 0.1)
    gap: float = parameter(0.0, "distance at which contacts are detected before they act [m]", 0.0, 10.0)
    flat: int = parameter(0, "0: the bullet is a ball, 1: it is a plate", 0, 1)


def _edit(spec: mujoco.MjSpec, p: Parameters) -> None:
    import mujoco

    half = 0.5 * p.thickness
    plate, bullet = spec.geom("plate"), spec.geom("bullet")
    plate.size[2], plate.pos[2] = look.rounded(half), look.rounded(-half)
    if p.flat:
        bullet.type, bullet.size = mujoco.mjtGeom.mjGEOM_BOX, look.numbers((p.radius, p.radius, half), 9)
    else:
        bullet.size[0] = look.rounded(p.radius)
    bullet.gap = look.rounded(p.gap)
    spec.body("bullet").pos[2] = look.rounded(HEIGHT + (half if p.flat else p.radius))
    spec.key("home").qvel = [0.0, 0.0, look.rounded(-p.speed), 0.0, 0.0, 0.0]


SCENE = Scene(
    "bullet",
    "a small ball or plate shot down at a thin plate: fast bodies tunnel through what a step jumps over",
    Parameters,
    _edit,
)
