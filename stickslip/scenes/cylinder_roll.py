"""Scene "cylinder-roll": a cylinder rolls without slip along x.

Rolling friction decelerates it at (rolling / r) * g / (1 + I / (m r^2)) = (2/3) g rolling / r for a solid cylinder.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from stickslip.parameters import checked, parameter
from stickslip.scenes import look
from stickslip.scenes.scene import Scene

if TYPE_CHECKING:
    import mujoco

RADIUS = 0.1
"""Radius of the cylinder [m]."""


@checked
@dataclasses.dataclass(frozen=True)
class Parameters:
    """Of the scene."""

    rolling: float = parameter(0.001, "rolling friction coefficient [m]", 0.0, 1.0)
    speed: float = parameter(1.0, "initial velocity [m/s]", -20.0, 20.0)


def _edit(spec: mujoco.MjSpec, p: Parameters) -> None:
    for name in ("floor", "cylinder"):
        spec.geom(name).friction[2] = look.rounded(p.rolling)
    spec.key("home").qvel = [look.rounded(p.speed), 0.0, 0.0, 0.0, look.rounded(p.speed / RADIUS), 0.0]


SCENE = Scene(
    "cylinder-roll", "a cylinder rolling without slip on a plane: rolling friction (condim 6)", Parameters, _edit
)
