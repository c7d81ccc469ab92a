"""Scene "pushed-box": a box that just touches an infinite plane, flat or tilted, to be pushed or turned.

A force F through its center moves it by (F/m - mu g) t^2 / 2. A torque T about the normal turns it, without friction,
by T t^2 / (2 I). On a slope it slides g (sin(angle) - mu cos(angle)) t^2 / 2.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from stickslip.parameters import checked, parameter
from stickslip.scenes import look, plane
from stickslip.scenes.scene import Scene

if TYPE_CHECKING:
    import mujoco


@checked
@dataclasses.dataclass(frozen=True)
class Parameters:
    """Of the scene."""

    angle: float = plane.angle()
    mu: float = plane.mu()
    mass: float = parameter(4.0, "mass of the box [kg]", 0.001, 1000.0)
    half: float = parameter(0.1, "half of the box's side [m]", 0.005, 1.0)


def _edit(spec: mujoco.MjSpec, p: Parameters) -> None:
    plane.tilt(spec, p.angle, "box", p.half)
    plane.set_friction(spec, p.mu, "plane", "box")
    spec.geom("box").size, spec.geom("box").mass = look.numbers((p.half,) * 3), look.rounded(p.mass)


SCENE = Scene(
    "pushed-box",
    "a box that just touches an infinite plane, flat or tilted, to be pushed or turned",
    Parameters,
    _edit,
)
