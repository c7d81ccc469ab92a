"""Scene "pendulum": a ball on a massless rod, released from rest, without damping and without contact.

The energy m g l (1 - cos(angle)) + I (d angle/dt)^2 / 2 is conserved, with I = m (l^2 + 2/5 r^2).
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from stickslip.parameters import checked, parameter
from stickslip.scenes import look
from stickslip.scenes.scene import Scene

if TYPE_CHECKING:
    import mujoco

RADIUS = 0.06
"""Radius of the ball [m]."""


@checked
@dataclasses.dataclass(frozen=True)
class Parameters:
    """Of the scene."""

    length: float = parameter(1.0, "distance from the pivot to the ball's center [m]", 0.1, 100.0)
    mass: float = parameter(1.0, "mass of the ball [kg]", 0.001, 1000.0)
    angle: float = parameter(0.5 * math.pi, "initial angle from the lowest point [rad]", -3.1, 3.1)


def _edit(spec: mujoco.MjSpec, p: Parameters) -> None:
    pivot = 1.25 * p.length + 2.0 * RADIUS
    middle = (0.0, 0.0, 0.6 * pivot)
    look.set_extent(spec, middle, 2.0 * pivot)
    look.set_lights(spec, middle, 1.5 * pivot)
    look.set_camera(spec, (0.5 * pivot, -2.3 * pivot, 1.1 * pivot), middle)
    spec.body("pendulum").pos[2] = look.rounded(pivot)
    spec.geom("rod").fromto[5] = spec.geom("ball").pos[2] = look.rounded(-p.length)
    spec.geom("ball").mass = look.rounded(p.mass)
    spec.key("home").qpos = [look.rounded(p.angle)]


SCENE = Scene("pendulum", "a free pendulum released from rest: energy and period without contact", Parameters, _edit)
