"""Scene "eccentric-box": a box stands on the floor with its load off the middle.

With the eccentricity e along x and E/H the slope of the pressure, a base of a (along y) times b (along x) tilts by
m g e / (E a b^3 / 12 H). One side lifts at e = b/6; then a length of 3 (b/2 - e) is pressed. The box tips at b/2. Four
corners tilt by a third of that, and none of them lifts before the box tips. The center of mass is in the face the box
stands on, as if a plate of lead lay there, so that tilting does not move the load.

`user` gives modulus and depth, and the stiffness of a point contact with which four corners sink as deep as the patch
does. The floor is rigid.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from stickslip.parameters import checked, parameter
from stickslip.scenes import look
from stickslip.scenes.scene import Scene

if TYPE_CHECKING:
    import mujoco

HALF = 0.05
"""Half of the height of the box [m], the depth of its pressure."""


@checked
@dataclasses.dataclass(frozen=True)
class Parameters:
    """Of the scene."""

    eccentricity: float = parameter(0.01, "distance of the center of mass from the middle, along x [m]", -1.0, 1.0)
    length: float = parameter(0.1, "side of the box along x [m]", 0.1, 1.0)
    width: float = parameter(0.1, "side of the box along y [m]", 0.1, 1.0)
    mass: float = parameter(4.0, "mass of the box [kg]", 0.001, 1000.0)
    mu: float = parameter(0.5, "friction coefficient", 0.0, 5.0)
    modulus: float = parameter(1e7, "hydroelastic modulus of the box [Pa]", 1.0, 1e12)


def _edit(spec: mujoco.MjSpec, p: Parameters) -> None:
    look.set_friction(spec, p.mu, "floor", "box")
    body, geom = spec.body("box"), spec.geom("box")
    geom.size = look.numbers((0.5 * p.length, 0.5 * p.width, HALF))
    geom.userdata[0] = look.rounded(0.25 * p.modulus / HALF * p.length * p.width)
    geom.userdata[3] = look.rounded(p.modulus)
    x, y, z = p.length**2, p.width**2, (2.0 * HALF) ** 2
    body.mass, body.ipos = look.rounded(p.mass), look.numbers((p.eccentricity, 0.0, -HALF))
    body.inertia = look.numbers(p.mass * each / 12.0 for each in (y + z, x + z, x + y))
    spec.geom("load").pos[0] = look.rounded(p.eccentricity)


SCENE = Scene(
    "eccentric-box",
    "a box that carries its load off the middle: tilts, lifts one side beyond a sixth of it, tips beyond a half",
    Parameters,
    _edit,
)
