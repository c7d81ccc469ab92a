"""Scene "sphere-spin": a sphere spins about the vertical while its weight presses it on a plane.

Torsional friction decelerates it at torsion * m * g / I, with I = 2/5 m r^2, until it stops.
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
"""Radius of the sphere [m]."""


@checked
@dataclasses.dataclass(frozen=True)
class Parameters:
    """Of the scene."""

    torsion: float = parameter(0.005, "torsional friction coefficient [m]", 0.0, 1.0)
    spin: float = parameter(10.0, "initial angular velocity [rad/s]", -100.0, 100.0)


def _edit(spec: mujoco.MjSpec, p: Parameters) -> None:
    for name in ("floor", "sphere"):
        spec.geom(name).friction[1] = look.rounded(p.torsion)
    spec.key("home").qvel = [0.0, look.rounded(p.spin)]


SCENE = Scene(
    "sphere-spin",
    "a sphere pressed on a plane, spinning about the vertical: torsional friction (condim 4)",
    Parameters,
    _edit,
)
