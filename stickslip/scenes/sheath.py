"""Scene "sheath": a sphere that a constant force drives along a plane, with a small gap below a second plane.

It cannot rotate. By Coulomb's law it accelerates at force/mass - mu g and never touches the upper plane. Convex contact
models lift sliding bodies, so the upper plane brakes it too. The planes are infinite; a pane of the upper one is drawn.
"""

from __future__ import annotations

import dataclasses
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

    mu: float = parameter(0.3, "friction coefficient between sphere and planes", 0.0, 5.0)
    mass: float = parameter(0.2, "mass of the sphere [kg]", 0.001, 1000.0)
    radius: float = parameter(0.05, "radius of the sphere [m]", 0.005, 1.0)
    gap: float = parameter(0.002, "initial distance between sphere and upper plane [m]", 0.0, 1.0)
    force: float = parameter(1.0, "constant force along x [N]", -1000.0, 1000.0)


def _edit(spec: mujoco.MjSpec, p: Parameters) -> None:
    radius, top, thick = p.radius, 2.0 * p.radius + p.gap, 0.1 * p.radius
    middle = (7.0 * radius, 0.0, radius)
    look.set_extent(spec, middle, 12.0 * radius)
    look.set_lights(spec, (middle[0], 0.0, 0.0), 20.0 * radius)
    look.set_camera(spec, (10.0 * radius, -17.0 * radius, 6.0 * radius), middle)
    look.set_friction(spec, p.mu, "lower", "upper", "sphere")
    pane, sphere, motor = spec.geom("pane"), spec.geom("sphere"), spec.actuator("force")
    spec.geom("upper").pos[2] = look.rounded(top)
    pane.size = look.numbers((10.0 * radius, 2.0 * radius, thick))
    pane.pos = look.numbers((7.0 * radius, 0.0, top + thick))
    spec.body("sphere").pos[2] = sphere.size[0] = look.rounded(radius)
    sphere.mass = look.rounded(p.mass)
    most = look.rounded(10.0 * max(abs(p.force), 1.0))
    motor.ctrlrange = [-most, most]
    spec.key("home").ctrl = [look.rounded(p.force)]


SCENE = Scene(
    "sheath",
    "a sphere driven along a plane, with a small gap below a second one: convex models lift it and brake on both",
    Parameters,
    _edit,
)
