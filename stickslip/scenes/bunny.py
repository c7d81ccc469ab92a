"""Scene "bunny": the Stanford bunny that just touches an endless plane, flat or tilted, to be pushed or turned.

It rests on a face of its convex hull, which is what MuJoCo collides, but has the mass properties of its true shape.
The frame of the body is in its centre of mass. The mesh comes with Warp's examples and takes usd-core to read. Where it
cannot be read, a shape of our own stands in for it, and a warning says so; parameter `mesh` asks for one of the two.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from stickslip.scenes import plane
from stickslip.scenes.scene import Parameter, Scene

if TYPE_CHECKING:
    from stickslip.scenes.mesh import Mesh

MASS = 2.176
"""kg."""
STAND_IN, BUNNY, EITHER = 0, 1, -1
"""Values of the parameter `mesh`."""


def shape(mesh: int) -> Mesh:
    """The mesh that the parameter `mesh` asks for, at rest; raises MissingExtra if it is the bunny and not there."""
    from stickslip.scenes import mesh as meshes

    if mesh == EITHER:
        reason = meshes.missing_bunny()
        if reason is not None:
            warnings.warn(f"a shape of our own stands in for the bunny: {reason}", UserWarning, stacklevel=2)
        mesh = BUNNY if reason is None else STAND_IN
    return meshes.bunny() if mesh == BUNNY else meshes.stand_in()


def _content(angle: float, mu: float, mesh: int) -> str:
    body = shape(mesh)
    geom = f'<geom name="bunny" type="mesh" mesh="bunny" mass="{MASS:.9g}" material="cream"'
    return plane.content(angle, mu, "bunny", -float(body.vertices[:, 2].min()), geom, body.asset("bunny"))


SCENE = Scene(
    name="bunny",
    summary="the Stanford bunny that just touches an endless plane, flat or tilted; collided as its convex hull",
    content=_content,
    nconmax=8,
    njmax=32,
    parameters=(
        plane.ANGLE,
        plane.MU,
        Parameter("mesh", EITHER, EITHER, BUNNY, "1: the bunny; 0: its stand-in; -1: the bunny if it can be read"),
    ),
)
