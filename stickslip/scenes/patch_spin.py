"""Scene "patch-spin": a box, a disc or a sphere spins on the floor, and may slide, until friction stops it.

With a contact patch the torque is mu m g times an arm that the pressure decides: 2/3 R of a disc, 0.3826 a of a square,
8/15 of the patch's radius of a sphere. Points at the corners have another arm, and one point has none: friction is
sliding friction alone (condim 3). The center of mass of box and disc is in the face they stand on, so that friction
does not tip them. A sphere's patch has the radius sqrt(2 R x), x = sqrt(m g / (pi E)).

`user` gives stiffness and dissipation of a point contact, and modulus and depth of a hydroelastic one. The floor is
rigid.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from stickslip.parameters import checked, parameter
from stickslip.scenes import look
from stickslip.scenes.scene import Scene

if TYPE_CHECKING:
    import mujoco

HALF = 0.02
"""Half of the height of box and disc [m]."""
SHAPES = ("box", "disc", "sphere")


@checked
@dataclasses.dataclass(frozen=True)
class Parameters:
    """Of the scene."""

    shape: str = parameter("box", "shape of the body", choices=SHAPES)
    length: float = parameter(0.1, "side of the box along x, or diameter [m]", 0.05, 1.0)
    width: float = parameter(0.1, "side of the box along y [m]", 0.05, 1.0)
    mass: float = parameter(1.0, "mass of the body [kg]", 0.001, 1000.0)
    mu: float = parameter(0.5, "friction coefficient", 0.0, 5.0)
    modulus: float = parameter(1e6, "hydroelastic modulus of the body [Pa]; 0: point contact", 0.0, 1e12)
    spin: float = parameter(10.0, "initial angular velocity about the vertical [rad/s]", -100.0, 100.0)
    speed: float = parameter(0.0, "initial velocity along x [m/s]", -10.0, 10.0)


def inertia(p: Parameters) -> tuple[float, float, float]:
    """Principal moments of inertia of the solid body about its middle [kg m^2]."""
    half = 0.5 * p.length
    if p.shape == "sphere":
        about = 0.4 * p.mass * half**2
        return about, about, about
    if p.shape == "disc":
        across = p.mass * (3.0 * half**2 + (2.0 * HALF) ** 2) / 12.0
        return across, across, 0.5 * p.mass * half**2
    x, y, z = p.length**2, p.width**2, (2.0 * HALF) ** 2
    return p.mass * (y + z) / 12.0, p.mass * (x + z) / 12.0, p.mass * (x + y) / 12.0


def _edit(spec: mujoco.MjSpec, p: Parameters) -> None:
    import mujoco

    kinds = {"box": mujoco.mjtGeom.mjGEOM_BOX, "disc": mujoco.mjtGeom.mjGEOM_CYLINDER}
    half = 0.5 * p.length
    sizes = {"box": (half, 0.5 * p.width, HALF), "disc": (half, HALF, 0.0), "sphere": (half, 0.0, 0.0)}
    height = half if p.shape == "sphere" else HALF
    look.set_friction(spec, p.mu, "floor", "body")
    body, geom = spec.body("body"), spec.geom("body")
    geom.type, geom.size = kinds.get(p.shape, mujoco.mjtGeom.mjGEOM_SPHERE), look.numbers(sizes[p.shape])
    geom.userdata[3], geom.userdata[4] = look.rounded(p.modulus), look.rounded(height)
    body.pos[2] = look.rounded(height)
    body.mass, body.inertia = look.rounded(p.mass), look.numbers(inertia(p))
    body.ipos = [0.0, 0.0, 0.0 if p.shape == "sphere" else -HALF]
    spec.key("home").qvel = look.numbers((p.speed, 0.0, 0.0, 0.0, 0.0, p.spin))


SCENE = Scene(
    "patch-spin",
    "a box, a disc or a sphere that spins on the floor, and may slide: the torque of a contact patch",
    Parameters,
    _edit,
)
