"""Scene "box-on-slope": a box at rest on an incline; it stays if mu > tan(angle) and slides otherwise.

Sliding from rest it covers g (sin(angle) - mu cos(angle)) t^2 / 2. The incline is an infinite plane, drawn as a plank;
the floor below is visual only, so that nothing stops the box.
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


@checked
@dataclasses.dataclass(frozen=True)
class Parameters:
    """Of the scene."""

    angle: float = parameter(0.25, "slope of the incline [rad]", 0.0, 1.2)
    mu: float = parameter(0.4, "friction coefficient between box and incline", 0.0, 5.0)
    mass: float = parameter(4.0, "mass of the box [kg]", 0.001, 1000.0)
    half: float = parameter(0.05, "half of the box's side [m]", 0.005, 1.0)
    overlap: float = parameter(1e-5, "initial depth of the box in the incline, so that they touch [m]", 0.0, 0.001)


def _edit(spec: mujoco.MjSpec, p: Parameters) -> None:
    half, sine, cosine = p.half, math.sin(p.angle), math.cos(p.angle)
    uphill, downhill, thick = 6.0 * half, 34.0 * half, 0.4 * half
    along = 0.5 * (downhill - uphill)
    target = (8.0 * half * cosine, 0.0, -9.0 * half * sine)
    look.set_extent(spec, (0.0, 0.0, 0.0), 20.0 * half)
    look.set_lights(spec, (0.0, 0.0, 0.0), 20.0 * half)
    look.set_camera(spec, (target[0] + 6.0 * half, -27.0 * half, target[2] + 12.0 * half), target)
    look.set_friction(spec, p.mu, "slope", "box")

    quat = look.numbers((math.cos(0.5 * p.angle), 0.0, math.sin(0.5 * p.angle), 0.0))
    box, plank = spec.body("box"), spec.geom("plank")
    box.quat = plank.quat = spec.geom("slope").quat = quat
    spec.geom("ground").pos[2] = look.rounded(-downhill * sine - 2.0 * thick, 7)
    plank.size = look.numbers((0.5 * (uphill + downhill), 5.0 * half, thick))
    plank.pos = look.numbers((along * cosine - thick * sine, 0.0, -along * sine - thick * cosine))
    lift = half - p.overlap
    box.pos = look.numbers((lift * sine, 0.0, lift * cosine))
    spec.geom("box").size, spec.geom("box").mass = look.numbers((half,) * 3, 9), look.rounded(p.mass)


SCENE = Scene(
    "box-on-slope", "a box at rest on an incline: sticks if mu > tan(angle), slides otherwise", Parameters, _edit
)
