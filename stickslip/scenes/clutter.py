"""Scenes "soft-clutter" and "hard-clutter": twenty bodies fall into a bin (CENIC, Fig. 6 d and e).

There are four piles of five. Every body is compliant and the bin is rigid: a body against the bin has the given
stiffness, two bodies against each other half of it. A cube touches with 26 small spheres in its surface, and its faces
touch spheres only. Two faces never meet, so the number of contact points is smooth in the pose. With `plain=1` a cube
is a box and nothing else.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import TYPE_CHECKING

from stickslip.parameters import checked, parameter
from stickslip.scenes import look
from stickslip.scenes.scene import Scene

if TYPE_CHECKING:
    import mujoco

RADIUS = 0.05
"""Radius of a sphere and half of a cube's side [m]."""
BEAD = 1.0 / 60.0
"""Radius of the spheres in a cube's surface [m]."""
DISSIPATION = 10.0
"""Hunt-Crossley dissipation [s/m]."""
_COLUMNS = ((0.2, 0.2), (-0.2, 0.2), (-0.2, -0.2), (0.2, -0.2))
_COLORS = ("blue", "teal", "sand", "coral", "plum")

# Bodies touch everything, the faces of cubes touch bodies only. The bin in clutter.xml is 4, 8.
_BODY = {"contype": 1, "conaffinity": 5}
_FACE = {"contype": 2, "conaffinity": 1}


@checked
@dataclasses.dataclass(frozen=True)
class Soft:
    """Parameters of "soft-clutter"."""

    stiffness: float = parameter(1e3, "stiffness of a body [N/m]", 1.0, 1e9)
    layers: int = parameter(5, "bodies in each of the four piles", 1, 40)


@checked
@dataclasses.dataclass(frozen=True)
class Hard:
    """Parameters of "hard-clutter"."""

    stiffness: float = parameter(1e5, "stiffness of a body [N/m]", 1.0, 1e9)
    layers: int = parameter(5, "bodies in each of the four piles", 1, 40)
    plain: int = parameter(0, "1: cubes are boxes, without spheres in their surface", 0, 1)
    timeconst: float = parameter(0.02, "time constant in solref, for a physics that uses no stiffness [s]", 1e-4, 1.0)


def _spread(index: int, dimension: int) -> float:
    """A number in [0, 1) from a low-discrepancy sequence."""
    return math.modf(0.5 + (index + 1) * (0.8191725134, 0.6710436067, 0.5497004779, 0.4503062340)[dimension])[0]


def _orientation(index: int) -> list[float]:
    """A quaternion, evenly distributed over all rotations."""
    u, v, w = (_spread(index, k) for k in range(3))
    a, b = math.sqrt(1.0 - u), math.sqrt(u)
    v, w = 2.0 * math.pi * v, 2.0 * math.pi * w
    return look.numbers((a * math.sin(v), a * math.cos(v), b * math.sin(w), b * math.cos(w)))


def _add_bodies(spec: mujoco.MjSpec, stiffness: float, layers: int, *, cubes: bool, plain: bool) -> None:
    for index in range(4 * layers):
        layer, column = divmod(index, 4)
        x, y = _COLUMNS[column]
        jitter = [0.002 * (_spread(index, k) - 0.5) for k in (2, 3)]
        cube = cubes and (layer + column) % 2 == 0
        body = spec.worldbody.add_body(
            name=f"{'cube' if cube else 'sphere'}_{layer}_{column}",
            pos=look.numbers((x + jitter[0], y + jitter[1], 0.075 + 0.15 * layer)),
            quat=_orientation(index),
        )
        body.add_freejoint()
        user = [look.rounded(stiffness), DISSIPATION]
        _add_geoms(body, user, _COLORS[layer % 5], cube=cube, plain=plain)


def _add_geoms(body: mujoco.MjsBody, user: list[float], material: str, *, cube: bool, plain: bool) -> None:
    from mujoco import mjtGeom

    if not cube:
        body.add_geom(type=mjtGeom.mjGEOM_SPHERE, size=[RADIUS, 0, 0], userdata=user, material=material, **_BODY)
        return
    side = _BODY if plain else _FACE
    body.add_geom(type=mjtGeom.mjGEOM_BOX, size=[RADIUS] * 3, userdata=user, material=material, **side)
    if plain:
        return
    steps = (-(RADIUS - BEAD), 0.0, RADIUS - BEAD)
    for pos in itertools.product(steps, repeat=3):
        if any(pos):
            size, where = [look.rounded(BEAD), 0, 0], look.numbers(pos)
            body.add_geom(type=mjtGeom.mjGEOM_SPHERE, size=size, pos=where, mass=0, userdata=user, group=3, **_BODY)


def _soft(spec: mujoco.MjSpec, p: Soft) -> None:
    _add_bodies(spec, p.stiffness, p.layers, cubes=False, plain=False)
    look.set_buffers(spec, 40 * p.layers, 120 * p.layers)


def _hard(spec: mujoco.MjSpec, p: Hard) -> None:
    spec.numeric("stiction_velocity").data = [1e-4]
    spec.default.geom.solref[0] = look.rounded(p.timeconst)
    for geom in spec.geoms:
        geom.solref[0] = look.rounded(p.timeconst)
    _add_bodies(spec, p.stiffness, p.layers, cubes=True, plain=bool(p.plain))
    look.set_buffers(spec, 120 * p.layers, 360 * p.layers)


SOFT = Scene(
    "soft-clutter", "twenty soft spheres fall into a bin: many dofs, soft contact", Soft, _soft, file="clutter.xml"
)
HARD = Scene(
    "hard-clutter",
    "ten spheres and ten cubes, stiff and rough, fall into a bin: many contacts that stick and slip",
    Hard,
    _hard,
    file="clutter.xml",
)
