"""Scene "cylinder": a tilted cylinder falls on a table and comes to rest on its side (CENIC, Fig. 6 a).

Its rim is sharp: it lands on one point of it, tips, and lies on a line, and the force jumps at each of these events. It
moves nearly along its axis, so it slides rather than rolls. The table is rigid, so the contact has the given stiffness.

MuJoCo Warp's collision detection misses some contacts (2 to 12 %, depending on the position) of a cylinder that lies as
shallow as here, 0.03 mm, on a box. It then rattles by some mm/s. With `plane=1` the table is an infinite plane, where
that does not happen.

With `modulus` the contact is a patch (hydroelastic), as in the paper, which does not give its value.
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

    stiffness: float = parameter(1e6, "stiffness of the cylinder [N/m]", 1.0, 1e9)
    mu: float = parameter(1.0, "friction coefficient", 0.0, 5.0)
    speed: float = parameter(1.0, "initial velocity along y [m/s]", -3.0, 3.0)
    modulus: float = parameter(0.0, "hydroelastic modulus of the cylinder [Pa]; 0: point contact", 0.0, 1e12)
    plane: int = parameter(0, "0: the table is a box, 1: its top is an infinite plane", 0, 1)


def _edit(spec: mujoco.MjSpec, p: Parameters) -> None:
    import mujoco

    look.set_friction(spec, p.mu, "floor", "table", "cylinder")
    spec.geom("cylinder").userdata[0] = look.rounded(p.stiffness)
    spec.key("home").qvel[1] = look.rounded(p.speed)
    if p.modulus:
        spec.nuser_geom = 5
        data = spec.geom("cylinder").userdata
        spec.geom("cylinder").userdata = [data[0], data[1], data[2], look.rounded(p.modulus), 0.0]
        look.set_buffers(spec, 48, 192)
    if p.plane:
        table = spec.geom("table")
        table.type, table.pos[2] = mujoco.mjtGeom.mjGEOM_PLANE, table.size[2]


SCENE = Scene("cylinder", "a tilted cylinder falls on a table: forces that jump at a sharp rim", Parameters, _edit)
