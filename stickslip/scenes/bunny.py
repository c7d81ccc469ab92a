"""Scene "bunny": the Stanford bunny that just touches an infinite plane, flat or tilted, to be pushed or turned.

It rests on a face of its convex hull, which is what MuJoCo collides, but has the mass properties of its true shape.
The body frame is at its center of mass. The mesh comes with Warp's examples and needs usd-core to be read. If it cannot
be read, a shape of our own replaces it, with a warning; the parameter `mesh` selects one of the two.
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import TYPE_CHECKING

from stickslip.parameters import checked, parameter
from stickslip.scenes import plane
from stickslip.scenes.scene import Scene

if TYPE_CHECKING:
    import mujoco

    from stickslip.scenes.mesh import Mesh

MASS = 2.176
"""Mass [kg]."""
STAND_IN, BUNNY, EITHER = 0, 1, -1
"""Values of the parameter `mesh`."""


@checked
@dataclasses.dataclass(frozen=True)
class Parameters:
    """Of the scene."""

    angle: float = plane.angle()
    mu: float = plane.mu()
    mesh: int = parameter(EITHER, "1: the bunny, 0: its stand-in, -1: the bunny if it can be read", EITHER, BUNNY)


def shape(mesh: int) -> Mesh:
    """The mesh that the parameter `mesh` selects, at rest; raises MissingExtra if the bunny cannot be read."""
    from stickslip.scenes import mesh as meshes

    if mesh == EITHER:
        reason = meshes.missing_bunny()
        if reason is not None:
            warnings.warn(f"a shape of our own stands in for the bunny: {reason}", UserWarning, stacklevel=2)
        mesh = BUNNY if reason is None else STAND_IN
    return meshes.bunny() if mesh == BUNNY else meshes.stand_in()


def _edit(spec: mujoco.MjSpec, p: Parameters) -> None:
    """Replace the box of "pushed-box" by the mesh."""
    import mujoco

    body, joint, geom = spec.body("box"), spec.joint("box"), spec.geom("box")
    body.name = joint.name = geom.name = "bunny"
    found = shape(p.mesh)
    found.add_to(spec, "bunny")
    geom.type, geom.meshname, geom.size = mujoco.mjtGeom.mjGEOM_MESH, "bunny", [0.0, 0.0, 0.0]
    geom.mass, geom.material = MASS, "cream"
    plane.tilt(spec, p.angle, "bunny", -float(found.vertices[:, 2].min()))
    plane.set_friction(spec, p.mu, "plane", "bunny")


SCENE = Scene(
    "bunny",
    "the Stanford bunny that just touches an infinite plane, flat or tilted; collides as its convex hull",
    Parameters,
    _edit,
    file="pushed_box.xml",
)
