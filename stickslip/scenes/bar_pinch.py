"""Scene "bar-pinch": a bar is held in the air off its center, between two pads that press with a given force.

Its weight turns it about the pads, and only their friction about the normal holds it. Square pads of side a hold the
moment 2 mu N 0.3826 a, N the force of each; round ones 2 mu N 8/15 c, c the radius of the patch. Corners of a square
hold 1.82 times as much as the patch does, if each carries a quarter of N, and one point on a round pad holds nothing.
The pads are soft, the bar is rigid: `user` gives stiffness and dissipation of a point contact, and modulus and depth of
a hydroelastic one.

The pads move on slide joints towards each other and touch the bar at the start; motors push them with a constant
force, and the slides are damped. The floor is below.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from stickslip.parameters import checked, parameter
from stickslip.scenes import look
from stickslip.scenes.scene import Scene

if TYPE_CHECKING:
    import mujoco

SIDE = 0.02
"""Side of a square pad, and radius of a round one [m]."""
DEPTH = 0.005
"""Half of the thickness of a square pad [m], the depth of its pressure."""
HALF = 0.01
"""Half of the thickness of the bar [m]."""


@checked
@dataclasses.dataclass(frozen=True)
class Parameters:
    """Of the scene."""

    pads: str = parameter("square", "shape of the pads", choices=("square", "round"))
    offset: float = parameter(0.1, "distance from the pads to the center of the bar [m]", 0.0, 0.13)
    mass: float = parameter(0.2, "mass of the bar [kg]", 0.001, 10.0)
    mu: float = parameter(1.0, "friction coefficient", 0.01, 5.0)
    force: float = parameter(20.0, "force of each pad [N]", 0.0, 1000.0)
    modulus: float = parameter(5e6, "hydroelastic modulus of the pads [Pa]; 0: point contact", 0.0, 1e12)


def _edit(spec: mujoco.MjSpec, p: Parameters) -> None:
    import mujoco

    look.set_friction(spec, p.mu, "left", "right", "bar")
    depth = DEPTH if p.pads == "square" else SIDE
    for name, side in (("left", 1.0), ("right", -1.0)):
        geom = spec.geom(name)
        geom.userdata[3], geom.userdata[4] = look.rounded(p.modulus), depth
        spec.body(name).pos[1] = look.rounded(side * (HALF + depth))
        if p.pads == "round":
            geom.type, geom.size = mujoco.mjtGeom.mjGEOM_SPHERE, [SIDE, 0.0, 0.0]
    spec.body("bar").pos[0] = look.rounded(p.offset)
    spec.geom("bar").mass = look.rounded(p.mass)
    spec.key("home").qpos[2] = look.rounded(p.offset)
    spec.key("home").ctrl = [look.rounded(p.force)] * 2


SCENE = Scene(
    "bar-pinch",
    "a bar held off its center between two pads: friction about the normal carries its moment",
    Parameters,
    _edit,
)
