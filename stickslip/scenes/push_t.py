"""Scene "push-t": a T on the floor, and a ball on two servos that can push it around.

The T is 25 cm wide and 20 cm long and made of two boxes. The ball moves in the plane at half the height of the T and
touches only the T.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from stickslip.parameters import checked, parameter
from stickslip.scenes import look, plane
from stickslip.scenes.scene import Scene

if TYPE_CHECKING:
    import mujoco

WIDTH, LENGTH, BEAM, HEIGHT = 0.25, 0.20, 0.05, 0.05
"""Of the T: along x, along y, of its bars, and along z [m]."""
RADIUS = 0.02
"""Radius of the ball [m]."""
FINGER = 0.2
"""Mass of the ball and its drive [kg]."""
KP, KV = 200.0, 12.0
"""Gains of the servos [N/m], [N s/m]: nearly critical."""


@checked
@dataclasses.dataclass(frozen=True)
class Parameters:
    """Of the scene."""

    mu: float = plane.mu()
    mass: float = parameter(0.5, "mass of the T [kg]", 0.001, 1000.0)
    x: float = parameter(0.0, "initial position of the ball [m]", -1.0, 1.0)
    y: float = parameter(-0.2, "initial position of the ball [m]", -1.0, 1.0)


def centre() -> float:
    """Distance of the center of mass from the middle of the bar, along -y [m]."""
    bar, stem = WIDTH * BEAM, (LENGTH - BEAM) * BEAM
    return stem * 0.5 * LENGTH / (bar + stem)


def corners() -> tuple[tuple[float, float], ...]:
    """Corners of the T from above, in order around it, from its center of mass [m]."""
    half, beam = 0.5 * WIDTH, 0.5 * BEAM
    top, under, foot = centre() + beam, centre() - beam, centre() + beam - LENGTH
    right = ((half, top), (half, under), (beam, under), (beam, foot))
    return (*right, *((-x, y) for x, y in reversed(right)))


def _edit(spec: mujoco.MjSpec, p: Parameters) -> None:
    plane.set_friction(spec, p.mu, "floor", "bar", "stem", "finger")
    bar, stem = WIDTH * BEAM, (LENGTH - BEAM) * BEAM
    share = bar / (bar + stem)
    spec.geom("bar").mass = look.rounded(share * p.mass)
    spec.geom("stem").mass = look.rounded((1.0 - share) * p.mass)
    start, key = [look.rounded(p.x), look.rounded(p.y)], spec.key("home")
    key.qpos, key.ctrl = [0.0, 0.0, 0.5 * HEIGHT, 1.0, 0.0, 0.0, 0.0, *start], start


SCENE = Scene("push-t", "a T on the floor and a ball on two servos that pushes it", Parameters, _edit)
