"""Scene "conveyor": a block on an oscillating belt alternately sticks and slips (CENIC, Fig. 14).

The belt is a slab on a slide joint with a spring. It is so heavy that the block hardly slows it: it moves as
amplitude cos(2 pi t / period), starting from rest at its turning point. While the belt's acceleration is below `static`
times gravity the block moves with it. Above, it breaks loose and accelerates by `mu` times gravity until its velocity
is the belt's again. By default the belt's peak acceleration is 1.13 times gravity, so the block does both in each half
period; from 1.3 on it slips all the time. A physics with one friction coefficient uses `mu`.

The belt oscillates freely, and an integrator that dissipates energy damps it: compare with the belt's own motion. The
block is flat, so that it rocks little when the belt drags it; rocking moves the contact points and changes their load.
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

BELT_MASS = 1000.0
"""Mass of the belt [kg]."""
MASS = 1.0
"""Mass of the block [kg]."""
BLOCK = (0.1, 0.1, 0.02)
"""Half sizes of the block [m]."""
TOP = 0.1
"""Height of the belt's surface [m]."""
THICKNESS = 0.04
"""Thickness of the belt [m]."""
STIFFNESS = 1e5
"""Stiffness of the block, and of the belt [N/m]."""
DEPTH = MASS * 9.81 / (4.0 * 0.5 * STIFFNESS)
"""Penetration at which the four corners of the block carry it: its initial depth [m]."""


@checked
@dataclasses.dataclass(frozen=True)
class Parameters:
    """Of the scene."""

    amplitude: float = parameter(0.28, "amplitude of the belt's oscillation [m]", 0.0, 1.0)
    period: float = parameter(1.0, "period of the belt's oscillation [s]", 0.05, 100.0)
    static: float = parameter(1.0, "static friction coefficient; at least `mu` is used", 0.0, 5.0)
    mu: float = parameter(0.5, "dynamic friction coefficient", 0.0, 5.0)


def _edit(spec: mujoco.MjSpec, p: Parameters) -> None:
    half = 0.2 + 2.6 * p.amplitude  # long enough up to twice gravity
    far = 0.3 + 2.4 * (half + 0.5 * p.amplitude)
    middle = (0.0, 0.0, TOP)
    look.set_extent(spec, middle, 2.0 * half)
    look.set_lights(spec, middle, 2.0 * half)
    look.set_camera(spec, (0.12 * far, -0.8 * far, TOP + 0.5 * far), middle)
    look.set_friction(spec, p.mu, "floor", "belt", "block")
    for name in ("belt", "block"):
        spec.geom(name).userdata[2] = look.rounded(p.static)
    rate = 2.0 * math.pi / p.period
    spec.joint("belt").stiffness[0] = look.rounded(BELT_MASS * rate * rate)
    spec.geom("belt").size[0] = look.rounded(half)
    _set_stripes(spec, half)
    start, lift = look.rounded(p.amplitude), look.rounded(TOP - DEPTH + BLOCK[2])
    spec.body("block").pos = [start, 0.0, lift]
    spec.key("home").qpos = [start, start, 0.0, lift, 1.0, 0.0, 0.0, 0.0]


def _set_stripes(spec: mujoco.MjSpec, half: float) -> None:
    """Draw a stripe every 0.15 m on a belt of half that length."""
    from mujoco import mjtGeom

    belt = spec.body("belt")
    for stripe in belt.geoms[1:]:
        spec.delete(stripe)
    count = math.floor(half / 0.15)
    for k in range(-count, count + 1):
        belt.add_geom(
            type=mjtGeom.mjGEOM_BOX,
            size=[0.006, 0.2, 0.0005],
            pos=[look.rounded(0.15 * k, 6), 0.0, 0.5 * THICKNESS],
            mass=0.0,
            material="cream",
            contype=0,
            conaffinity=0,
        )


SCENE = Scene(
    "conveyor",
    "a block on an oscillating belt: static and dynamic friction, stick and slip",
    Parameters,
    _edit,
)
