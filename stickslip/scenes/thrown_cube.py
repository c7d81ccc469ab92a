"""Scene "thrown-cube": a cube thrown over a plane, from any height and with any spin about its direction of motion.

From height 0 without spin it slides v^2 / (2 mu g) and never leaves the plane. From above and with spin it falls,
rolls and slides until it rests.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from stickslip.parameters import checked, parameter
from stickslip.scenes import look
from stickslip.scenes.scene import Scene

if TYPE_CHECKING:
    import mujoco

GRAVITY = 9.81
"""Gravity [m/s^2]."""


@checked
@dataclasses.dataclass(frozen=True)
class Parameters:
    """Of the scene."""

    mu: float = parameter(0.5, "friction coefficient between cube and plane", 0.0, 5.0)
    mass: float = parameter(0.01, "mass of the cube [kg]", 0.001, 1000.0)
    half: float = parameter(0.05, "half of the cube's side [m]", 0.005, 1.0)
    height: float = parameter(0.2, "initial height of the cube's bottom face [m]", 0.0, 10.0)
    speed: float = parameter(1.0, "initial velocity along x [m/s]", -20.0, 20.0)
    spin: float = parameter(20.0, "initial angular velocity about x [rad/s]", -100.0, 100.0)


def _edit(spec: mujoco.MjSpec, p: Parameters) -> None:
    slide = min(abs(p.speed) * abs(p.speed) / (2.0 * max(p.mu, 0.05) * GRAVITY), 2.0)
    reach = 0.5 * (slide + p.height) + 4.0 * p.half
    middle = (0.5 * slide if p.speed >= 0 else -0.5 * slide, 0.0, 0.3 * p.height + p.half)
    look.set_extent(spec, middle, 2.0 * reach)
    look.set_lights(spec, (middle[0], 0.0, 0.0), 3.0 * reach)
    look.set_camera(spec, (middle[0] + 0.5 * reach, -2.6 * reach, middle[2] + 1.2 * reach), middle)
    look.set_friction(spec, p.mu, "floor", "cube")
    spec.body("cube").pos[2] = look.rounded(p.half + p.height)
    spec.geom("cube").size, spec.geom("cube").mass = look.numbers((p.half,) * 3, 9), look.rounded(p.mass)
    spec.key("home").qvel = [look.rounded(p.speed), 0.0, 0.0, look.rounded(p.spin), 0.0, 0.0]


SCENE = Scene(
    "thrown-cube",
    "a cube thrown over a plane from a height and with a spin: free fall, rolling, sliding, rest",
    Parameters,
    _edit,
)
