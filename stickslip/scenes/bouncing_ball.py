"""Scene "bouncing-ball": a ball falls onto an elastic floor.

MuJoCo's direct form `solref="-k -b"` sets stiffness and damping per unit of effective contact mass, here the ball's.
So k = stiffness / mass and b = 0 is an undamped spring of the given stiffness; the default `solimp` makes it a little
softer in the first millimetre. A physics that does not use `solref` bounces by its own rule.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from stickslip.parameters import checked, parameter
from stickslip.scenes import look
from stickslip.scenes.scene import Scene

if TYPE_CHECKING:
    import mujoco

RADIUS = 0.05
"""Radius of the ball [m]."""


@checked
@dataclasses.dataclass(frozen=True)
class Parameters:
    """Of the scene."""

    height: float = parameter(1.0, "initial height of the ball's lowest point above the floor [m]", 0.01, 100.0)
    mass: float = parameter(0.1, "mass of the ball [kg]", 0.001, 1000.0)
    stiffness: float = parameter(1000.0, "contact stiffness [N/m]", 1.0, 1e8)


def _edit(spec: mujoco.MjSpec, p: Parameters) -> None:
    top = p.height + 2.0 * RADIUS
    middle = (0.0, 0.0, 0.45 * top)
    look.set_extent(spec, middle, 1.2 * top)
    look.set_lights(spec, middle, 1.5 * top)
    look.set_camera(spec, (0.9 * top, -1.5 * top, 0.9 * top), middle)
    for name in ("floor", "ball"):
        spec.geom(name).solref[0] = look.rounded(-p.stiffness / p.mass)
    spec.geom("ball").mass = look.rounded(p.mass)
    spec.body("ball").pos[2] = look.rounded(p.height + RADIUS)


SCENE = Scene(
    "bouncing-ball",
    "a ball dropped on a floor that is a spring without a damper: energy of an elastic contact",
    Parameters,
    _edit,
)
