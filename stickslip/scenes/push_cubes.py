"""Scene "push-cubes": a bar on a slide joint, moved by a position servo, that pushes cubes over the floor.

The cubes stand in rows of five, each rotated, so that they meet the bar and one another at corners and edges. Plates at
the ends of the bar keep them in front of it. The bar does not touch the floor and is frictionless, so it carries none
of the cubes' weight: pushing them takes mu times that. Its servo is critically damped: it follows a moving target with
a lag of 2 / STIFF seconds.
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

HALF = 0.02
"""Half of a cube's side [m]."""
PITCH = 0.08
"""Distance between neighbours [m]; rotated cubes leave 23 mm free."""
ROW = 5
"""Cubes in a row across the bar's path."""
BAR_MASS = 1.0
"""Mass of the bar [kg]."""
STIFF = 100.0
"""Natural frequency of the servo with the bar alone [rad/s]."""
GAIN, DAMPING = BAR_MASS * STIFF**2, 2.0 * BAR_MASS * STIFF
"""Of the servo [N/m] and [N s/m]."""


@checked
@dataclasses.dataclass(frozen=True)
class Parameters:
    """Of the scene."""

    n: int = parameter(10, "number of cubes", 1, 10)
    mu: float = parameter(0.5, "friction coefficient of floor and cubes", 0.0, 5.0)
    mass: float = parameter(0.1, "mass of a cube [kg]", 0.001, 1000.0)


def _edit(spec: mujoco.MjSpec, p: Parameters) -> None:
    import mujoco

    look.set_friction(spec, p.mu, "floor")
    for index in range(p.n):
        row, place = divmod(index, ROW)
        side = (place + 1) // 2 * (1 if place % 2 else -1)  # from the middle outwards
        angle = 0.5 * math.pi * math.modf(0.35 + index * 0.754877666)[0]
        name = f"cube_{index}"
        body = spec.worldbody.add_body(
            name=name,
            pos=look.numbers((row * PITCH, side * PITCH, HALF)),
            quat=look.numbers((math.cos(0.5 * angle), 0.0, 0.0, math.sin(0.5 * angle))),
        )
        body.add_freejoint()
        body.add_geom(
            name=name,
            type=mujoco.mjtGeom.mjGEOM_BOX,
            size=[HALF] * 3,
            mass=look.rounded(p.mass),
            material=("coral", "sand", "teal", "blue", "plum")[place],
            contype=3,
            conaffinity=3,
        )
        look.set_friction(spec, p.mu, name)
    # Four on the floor each, the rest on the bar and between cubes. The most that MuJoCo in C finds in six random
    # starts: 8, 35 and 63 contacts for 1, 5 and 10 cubes.
    nconmax = 8 + 8 * p.n
    look.set_buffers(spec, nconmax, 4 * nconmax)


SCENE = Scene("push-cubes", "a bar on a position servo that pushes up to ten cubes over the floor", Parameters, _edit)
