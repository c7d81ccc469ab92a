"""Scene "rod-push": a vertical rod that pushes a box over a plane along a prescribed path.

The rod cannot turn and moves along x only. It has a heavy drive and a stiff servo, so that it follows its path whatever
it pushes: `command` gives the control for a desired position, speed and acceleration. (A mocap body would not do: its
velocity is zero in MuJoCo's contacts.) It hovers a little, so that it touches only the box.

For a physics without joints, `mocap=1` makes the rod a mocap body after all.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from stickslip.parameters import checked, parameter
from stickslip.scenes import look, plane
from stickslip.scenes.scene import Scene

if TYPE_CHECKING:
    import mujoco

RADIUS = 0.03
"""Radius of the rod [m]."""
MASS = 2.0
"""Mass of the rod [kg]."""
ARMATURE = 2000.0
"""Inertia of the rod's drive [kg]."""
STIFFNESS = 2e6
"""Stiffness of the servo [N/m]: the box's friction moves the rod by some 10 um."""
DAMPING = 2.0 * math.sqrt(STIFFNESS * (ARMATURE + MASS))
"""Damping of the servo [N s/m], critical."""


@checked
@dataclasses.dataclass(frozen=True)
class Parameters:
    """Of the scene."""

    mu: float = plane.mu()
    offset: float = parameter(0.0, "distance of the rod's path from the box's center, along +y [m]", -0.2, 0.2)
    distance: float = parameter(0.16, "initial distance from the rod's axis to the box's center [m]", 0.03, 10.0)
    mass: float = parameter(4.0, "mass of the box [kg]", 0.001, 1000.0)
    half: float = parameter(0.1, "half of the box's side [m]", 0.005, 1.0)
    mocap: int = parameter(0, "1: the rod is a mocap body, without joint and servo", 0, 1)


def command(position: Any, speed: Any, acceleration: Any) -> Any:
    """The control that moves the rod through a position [m] with that speed and acceleration, without lag."""
    return position + (DAMPING * speed + (ARMATURE + MASS) * acceleration) / STIFFNESS


def _edit(spec: mujoco.MjSpec, p: Parameters) -> None:
    look.set_extent(spec, (0.0, 0.0, p.half), 1.0)
    plane.set_friction(spec, p.mu, "plane", "box", "rod")
    spec.body("box").pos[2] = look.rounded(p.half)
    spec.geom("box").size, spec.geom("box").mass = look.numbers((p.half,) * 3), look.rounded(p.mass)
    rod = spec.body("rod")
    rod.pos[:2] = look.numbers((-p.distance, p.offset))
    if p.mocap:
        rod.mocap = True
        spec.delete(spec.actuator("rod"))
        spec.delete(spec.joint("rod"))


SCENE = Scene("rod-push", "a vertical rod on a stiff servo that pushes a box over a plane", Parameters, _edit)
