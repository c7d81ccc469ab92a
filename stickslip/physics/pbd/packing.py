"""Spheres in place of a geom: a grid in a box, a chain in a rod, the best of many lattices in all else.

Those that are there to touch with are moved to the surface then. Geoms of one shape and size are packed once.
"""

import dataclasses
import hashlib
import itertools
import math
import threading
from collections.abc import Callable, Hashable

import mujoco
import numpy as np

from stickslip.errors import InputError, Unsupported
from stickslip.physics.pbd import lattice, seating
from stickslip.physics.pbd.lattice import MOST_SPHERES
from stickslip.physics.pbd.solids import Array, Cylinder, Ellipsoid, Polyhedron, Solid, ball, closed

_ROUNDING = 1e-9
"""Of numbers of spheres."""
_CELLS = 256
"""Along each side of the square over which overlapping spheres are integrated: to 1e-4."""
_MOST_KEPT = 256
"""Packings that are kept, of MOST_SPHERES altogether."""


@dataclasses.dataclass(frozen=True)
class Packing:
    """Spheres that stand for a geom, in the geom's frame; they cannot be written to.

    They do not overlap, except in a box along whose sides no whole number of them goes, in a capsule whose straight
    part is shorter than it is wide, and if they are seated.

    Attributes:
        centre: [m]                                          (n, 3)
        radius: [m]                                          (n,)
        coverage: share of the geom's volume that they fill
    """

    centre: Array
    radius: Array
    coverage: float


_kept: dict[Hashable, Packing] = {}
_lock = threading.Lock()


def pack(mjm: mujoco.MjModel, geom: int, resolution: int, mesh_resolution: int, *, seated: bool) -> Packing:
    """Spheres that stand for a geom.

    Args:
        mjm: the model
        geom: the geom's index
        resolution: spheres along the shortest side of a primitive's bounding box, at least 1
        mesh_resolution: the same of a mesh, in the axes of its file, at least 2
        seated: whether the spheres are there to touch with, rather than for their mass: then those near the surface
            touch it, and may overlap, and a sphere stands for itself

    Raises:
        InputError: a resolution out of range, a mesh that encloses no volume, no sphere that fits, or too many
        Unsupported: a geom that has no inside
    """
    _check("resolution", resolution, 1)
    _check("mesh_resolution", mesh_resolution, 2)
    name = f"geom '{mjm.geom(geom).name}'" if mjm.geom(geom).name else f"geom {geom}"
    kind, size = mujoco.mjtGeom(int(mjm.geom_type[geom])), np.array(mjm.geom_size[geom], dtype=float)
    if kind == mujoco.mjtGeom.mjGEOM_MESH:
        return _pack_mesh(mjm, int(mjm.geom_dataid[geom]), name, mesh_resolution, seated=seated)
    key = (kind, *size.tolist(), resolution, seated)
    return _once(key, lambda: _pack_primitive(name, kind, size, resolution, seated=seated))


def _check(name: str, value: object, low: int) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < low:
        raise InputError(f"{name} is {value!r}: it must be a whole number, at least {low}")


def _once(key: Hashable, make: Callable[[], Packing]) -> Packing:
    """What was made for the key, if that was not long ago; errors are not kept, as they name the geom."""
    found = _kept.get(key)
    if found is None:
        found = make()
        found.centre.flags.writeable = found.radius.flags.writeable = False
        with _lock:
            _kept[key] = found
            while len(_kept) > _MOST_KEPT or sum(len(each.radius) for each in _kept.values()) > MOST_SPHERES:
                _kept.pop(next(iter(_kept)))
    return found


def _pack_primitive(name: str, kind: mujoco.mjtGeom, size: Array, resolution: int, *, seated: bool) -> Packing:
    G = mujoco.mjtGeom
    radius, half = float(size[0]), float(size[1])
    if kind == G.mjGEOM_BOX:
        return _pack_box(name, size, resolution)
    if kind == G.mjGEOM_CAPSULE:
        count = max(2, _whole(half / radius) + 1)
        volume = math.pi * radius**2 * (2.0 * half + 4.0 / 3.0 * radius)
        return _grid(name, np.array([radius, radius, half + radius]), (1, 1, count), radius, volume)
    if kind == G.mjGEOM_CYLINDER and half >= 2.0 * radius * (1.0 - _ROUNDING):
        volume = 2.0 * math.pi * radius**2 * half
        return _grid(name, np.array([radius, radius, half]), (1, 1, _whole(half / radius)), radius, volume)
    if kind == G.mjGEOM_SPHERE and seated:
        return Packing(np.zeros((1, 3)), np.array([radius]), 1.0)
    if kind == G.mjGEOM_CYLINDER:
        solid = Cylinder(name, radius, half)
    elif kind == G.mjGEOM_SPHERE:
        solid = Ellipsoid(name, np.full(3, radius))
    elif kind == G.mjGEOM_ELLIPSOID:
        solid = Ellipsoid(name, size)
    else:
        raise Unsupported(
            f"{name} is of type {kind.name.removeprefix('mjGEOM_').lower()}, which has no inside to pack with spheres: "
            "make it a box, sphere, capsule, cylinder, ellipsoid or mesh, or fix its body to the world"
        )
    return _pack_solid(solid, resolution, "resolution", seated=seated)


def _pack_mesh(mjm: mujoco.MjModel, mesh: int, name: str, resolution: int, *, seated: bool) -> Packing:
    """Packed in the axes of the mesh's file, in which bodies tend to stand; MuJoCo turns it to its axes of inertia."""
    adr, num = int(mjm.mesh_vertadr[mesh]), int(mjm.mesh_vertnum[mesh])
    vertices = mjm.mesh_vert[adr : adr + num]
    adr, num = int(mjm.mesh_faceadr[mesh]), int(mjm.mesh_facenum[mesh])
    faces, quat = mjm.mesh_face[adr : adr + num], mjm.mesh_quat[mesh]
    name = f"{name} (mesh '{mjm.mesh(mesh).name}')"

    def make() -> Packing:
        turn = np.zeros(9)
        mujoco.mju_quat2Mat(turn, quat)
        turn = turn.reshape(3, 3)
        corners, corners_of = closed(name, vertices.astype(float), faces)
        solid = Polyhedron(name, corners @ turn.T, corners_of)
        found = _pack_solid(solid, resolution, "mesh_resolution", seated=seated)
        return dataclasses.replace(found, centre=found.centre @ turn)

    content = [hashlib.sha256(x.tobytes()).digest() for x in (vertices, faces, quat)]
    return _once((mujoco.mjtGeom.mjGEOM_MESH, *content, resolution, seated), make)


def _pack_solid(solid: Solid, resolution: int, setting: str, *, seated: bool) -> Packing:
    radius = 0.5 * float((solid.high - solid.low).min()) / resolution
    centre = lattice.best(solid, radius, f"{setting}, which is {resolution}")
    filled = len(centre) * ball(radius)
    if seated:
        centre = seating.seat(solid, centre, radius)
        filled = seating.union(centre, radius)
    return Packing(centre, np.full(len(centre), radius), filled / solid.volume)


# boxes and rods


def _whole(x: float) -> int:
    """The whole number below x, or the one that it misses by rounding."""
    return math.floor(x * (1.0 + _ROUNDING))


def _pack_box(name: str, half: Array, resolution: int) -> Packing:
    radius = float(half.min()) / resolution
    # to the nearest whole number, of two as near to the lower: those do not overlap
    nx, ny, nz = (max(resolution, math.ceil(side / radius * (1.0 - _ROUNDING) - 0.5)) for side in half)
    return _grid(name, half, (nx, ny, nz), radius, 8.0 * float(np.prod(half)))


def _grid(name: str, half: Array, count: tuple[int, int, int], radius: float, volume: float) -> Packing:
    """Rows of spheres in a box, spread evenly between its faces, which the outermost touch; `half` its sides [m]."""
    total = math.prod(count)
    if total > MOST_SPHERES:
        raise InputError(
            f"{name} would take {total:,} spheres of radius {radius:.3g} m, and at most {MOST_SPHERES:,} are allowed: "
            "lower the resolution, or make the geom less long and thin"
        )
    reach = half - radius
    rows = [np.linspace(-x, x, n) if n > 1 else np.zeros(1) for x, n in zip(reach, count, strict=True)]
    centre = np.stack(np.meshgrid(*rows, indexing="ij"), axis=-1).reshape(-1, 3)
    spacing = np.array([2.0 * x / (n - 1) if n > 1 else math.inf for x, n in zip(reach, count, strict=True)])
    apart = spacing.min() >= 2.0 * radius * (1.0 - _ROUNDING)
    filled = total * ball(radius) if apart else _union(radius, spacing, count)
    return Packing(centre, np.full(total, radius), filled / volume)


def _union(radius: float, spacing: Array, count: tuple[int, int, int]) -> float:
    """Volume of a grid of spheres that overlap [m^3]: of the octants of each, the part that is nearest to it."""
    step = (np.arange(_CELLS) + 0.5) / _CELLS
    total = 0.0
    for outer in itertools.product((True, False), repeat=3):
        octants = math.prod(2 if out else 2 * n - 2 for out, n in zip(outer, count, strict=True))
        x, y, z = np.where(outer, 1.0, np.minimum(0.5 * spacing / radius, 1.0))
        height = np.sqrt(np.maximum(1.0 - (step[:, None] * x) ** 2 - (step * y) ** 2, 0.0))
        total += octants * x * y * float(np.minimum(height, z).mean())
    return total * radius**3
