"""Signed distance from points to geoms that no contact moves, in the geom's frame."""

from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
import warp as wp

from stickslip.physics.pbd.surfaces import Nearest, nearest_ellipsoid, nearest_hfield, nearest_mesh, signed

wp.set_module_options({"enable_backward": False})

_Geom = mujoco.mjtGeom
_PLANE = wp.constant(int(_Geom.mjGEOM_PLANE))
_HFIELD = wp.constant(int(_Geom.mjGEOM_HFIELD))
_SPHERE = wp.constant(int(_Geom.mjGEOM_SPHERE))
_CAPSULE = wp.constant(int(_Geom.mjGEOM_CAPSULE))
_ELLIPSOID = wp.constant(int(_Geom.mjGEOM_ELLIPSOID))
_CYLINDER = wp.constant(int(_Geom.mjGEOM_CYLINDER))
_BOX = wp.constant(int(_Geom.mjGEOM_BOX))
_MESH = wp.constant(int(_Geom.mjGEOM_MESH))
_KINDS = (_PLANE, _HFIELD, _SPHERE, _CAPSULE, _ELLIPSOID, _CYLINDER, _BOX, _MESH)

_TINY = wp.constant(wp.float64(1.0e-15))  # a vector shorter than this has no direction [m]


@wp.struct
class Colliders:
    """Geoms of the world and of mocap bodies; constant. One entry per collider, except `hfield_data`.

    Attributes:
        kind: mujoco.mjtGeom
        size: MuJoCo's geom_size [m]
        mesh: id of a wp.Mesh; 0 where there is none
        low, high: the box that it is in; a plane's goes on for ever [m]
        hfield_adr: start of its heights in `hfield_data`; -1 where there are none
        hfield_nrow, hfield_ncol
        hfield_size: half lengths in x and y, height of 1 in `hfield_data`, depth of the base [m]
        hfield_data: heights from 0 to 1 of all height fields, row by row   (nhfielddata,)
    """

    kind: wp.array[int]
    size: wp.array[wp.vec3d]
    mesh: wp.array[wp.uint64]
    low: wp.array[wp.vec3d]
    high: wp.array[wp.vec3d]
    hfield_adr: wp.array[int]
    hfield_nrow: wp.array[int]
    hfield_ncol: wp.array[int]
    hfield_size: wp.array[wp.vec4d]
    hfield_data: wp.array[float]


@wp.func
def nearest(colliders: Colliders, collider: int, point: wp.vec3d, reach: wp.float64) -> Nearest:
    """Of a point in the geom's frame [m].

    Where the point is farther away than `reach` [m], dist is just some number above reach and the normal means nothing.
    Inside, both are true at any depth.
    """
    kind = colliders.kind[collider]
    size = colliders.size[collider]
    if kind == _PLANE:
        return _nearest_plane(point)
    if kind == _SPHERE:
        return _nearest_capsule(size[0], wp.float64(0.0), point)
    if kind == _CAPSULE:
        return _nearest_capsule(size[0], size[1], point)
    if kind == _CYLINDER:
        return _nearest_cylinder(size[0], size[1], point)
    if kind == _BOX:
        return _nearest_box(size, point)
    if kind == _ELLIPSOID:
        return nearest_ellipsoid(size, point)
    if kind == _MESH:
        return nearest_mesh(colliders.mesh[collider], colliders.low[collider], colliders.high[collider], point, reach)
    return nearest_hfield(
        colliders.hfield_data,
        colliders.hfield_adr[collider],
        colliders.hfield_nrow[collider],
        colliders.hfield_ncol[collider],
        colliders.hfield_size[collider],
        point,
        reach,
    )


@wp.func
def may_reach(colliders: Colliders, collider: int, point: wp.vec3d, reach: wp.vec3d) -> bool:
    """Whether a collider may be in a box around a point in its frame; False only if it is not."""
    return is_within(point, colliders.low[collider], colliders.high[collider], reach)


@wp.func
def is_within(point: wp.vec3d, low: wp.vec3d, high: wp.vec3d, reach: wp.vec3d) -> bool:
    """Whether a box around a point overlaps the one from low to high."""
    inside = bool(True)
    for i in range(3):
        if point[i] + reach[i] < low[i] or point[i] - reach[i] > high[i]:
            inside = False
    return inside


@wp.func
def _nearest_plane(point: wp.vec3d) -> Nearest:
    """Of the half space below z = 0; MuJoCo's planes have no end for contacts, whatever their size."""
    out = Nearest()
    out.dist = point[2]
    out.normal = wp.vec3d(wp.float64(0.0), wp.float64(0.0), wp.float64(1.0))
    return out


@wp.func(inline=False)
def _nearest_capsule(radius: wp.float64, half: wp.float64, point: wp.vec3d) -> Nearest:
    """Of a capsule along z, or a sphere if half is 0; on the axis itself the normal is x."""
    arm = wp.vec3d(point[0], point[1], point[2] - wp.clamp(point[2], -half, half))
    length = wp.length(arm)
    out = Nearest()
    out.dist = length - radius
    out.normal = wp.vec3d(wp.float64(1.0), wp.float64(0.0), wp.float64(0.0))
    if length > _TINY:
        out.normal = arm / length
    return out


@wp.func(inline=False)
def _nearest_cylinder(radius: wp.float64, half: wp.float64, point: wp.vec3d) -> Nearest:
    """Of a cylinder along z: its side, its caps, or from outside the rim between them; on the axis the side is at x."""
    zero = wp.float64(0.0)
    from_axis = wp.sqrt(point[0] * point[0] + point[1] * point[1])
    side = wp.vec3d(wp.float64(1.0), zero, zero)
    if from_axis > _TINY:
        side = wp.vec3d(point[0] / from_axis, point[1] / from_axis, zero)
    cap = wp.vec3d(zero, zero, signed(wp.float64(1.0), point[2]))
    over_side = from_axis - radius
    over_cap = wp.abs(point[2]) - half

    out = Nearest()
    if over_side > zero and over_cap > zero:
        arm = over_side * side + over_cap * cap
        out.dist = wp.length(arm)
        out.normal = arm / wp.max(out.dist, _TINY)
    elif over_side >= over_cap:
        out.dist = over_side
        out.normal = side
    else:
        out.dist = over_cap
        out.normal = cap
    return out


@wp.func
def _nearest_box(size: wp.vec3d, point: wp.vec3d) -> Nearest:
    """Of a box with half lengths size; inside, its nearest face; the first on a tie."""
    zero = wp.float64(0.0)
    over = wp.vec3d(wp.abs(point[0]), wp.abs(point[1]), wp.abs(point[2])) - size
    arm = wp.max(over, wp.vec3d(zero))
    length = wp.length(arm)
    out = Nearest()
    if length > _TINY:
        out.dist = length
        out.normal = arm / length
    else:
        axis = int(wp.argmax(over))
        out.dist = over[axis]
        out.normal[axis] = wp.float64(1.0)
    for i in range(3):
        out.normal[i] = signed(out.normal[i], point[i])
    return out


def make_colliders(mjm: mujoco.MjModel, geoms: Sequence[int]) -> tuple[Colliders, list[Any]]:
    """Geoms of a model as colliders, in that order, on the current device.

    Returns:
        the colliders, and what must live as long as they are used
    """
    n = len(geoms)
    kind, dataid = mjm.geom_type[list(geoms)], mjm.geom_dataid[list(geoms)]
    meshes: dict[int, wp.Mesh] = {}
    mesh_id = np.zeros(n, dtype=np.uint64)
    size = mjm.geom_size[list(geoms)]
    half = np.stack([_half(k, s) for k, s in zip(kind, size, strict=True)]) if n else np.zeros((0, 3))
    box = np.stack([-half, half])
    hfield_shape, hfield_size = np.tile(np.array([[-1], [0], [0]], dtype=np.int32), (1, n)), np.zeros((n, 4))
    for i, data in enumerate(dataid):
        if kind[i] == _Geom.mjGEOM_PLANE:
            box[:, i] = (-np.inf, -np.inf, -np.inf), (np.inf, np.inf, 0.0)
        elif kind[i] == _Geom.mjGEOM_MESH:
            vert, face = _mesh(mjm, data)
            if data not in meshes:
                points, indices = wp.array(vert, dtype=wp.vec3), wp.array(face.ravel(), dtype=int)
                meshes[data] = wp.Mesh(points, indices, support_winding_number=True)
            mesh_id[i], box[:, i] = meshes[data].id, (vert.min(axis=0), vert.max(axis=0))
        elif kind[i] == _Geom.mjGEOM_HFIELD:
            hfield_shape[:, i] = mjm.hfield_adr[data], mjm.hfield_nrow[data], mjm.hfield_ncol[data]
            hfield_size[i] = x, y, top, base = mjm.hfield_size[data]
            box[:, i] = (-x, -y, -base), (x, y, top)

    out = Colliders()
    out.kind = wp.array(kind, dtype=int)
    out.size = wp.array(size, dtype=wp.vec3d)
    out.mesh = wp.array(mesh_id, dtype=wp.uint64)
    out.low, out.high = (wp.array(corner, dtype=wp.vec3d) for corner in box)
    out.hfield_adr, out.hfield_nrow, out.hfield_ncol = (wp.array(a, dtype=int) for a in hfield_shape)
    out.hfield_size = wp.array(hfield_size, dtype=wp.vec4d)
    out.hfield_data = wp.array(mjm.hfield_data, dtype=float)
    return out, list(meshes.values())


def _half(kind: int, size: np.ndarray) -> np.ndarray:
    """Half sides of the box around a primitive, about its middle [m]; MuJoCo's geom_aabb need not follow geom_size."""
    if kind == _Geom.mjGEOM_SPHERE:
        return size[[0, 0, 0]]
    if kind == _Geom.mjGEOM_CAPSULE:
        return size[[0, 0, 0]] + [0.0, 0.0, size[1]]
    if kind == _Geom.mjGEOM_CYLINDER:
        return size[[0, 0, 1]]
    return size


def unsupported(mjm: mujoco.MjModel, geoms: Sequence[int]) -> list[str]:
    """Why geoms cannot be colliders, a sentence each; none if they all can."""
    out = []
    for geom in geoms:
        name = f"geom {geom}" + (f" ({mjm.geom(geom).name})" if mjm.geom(geom).name else "")
        kind = mjm.geom_type[geom]
        if kind not in _KINDS:
            out.append(f"{name} is a {_Geom(kind).name}, to which no distance is known.")
        elif kind == _Geom.mjGEOM_MESH:
            out += [f"{name} {why}" for why in _mesh_faults(*_mesh(mjm, mjm.geom_dataid[geom]))]
    return out


def _mesh(mjm: mujoco.MjModel, mesh: int) -> tuple[np.ndarray, np.ndarray]:
    """Corners (nvert, 3) [m] and triangles (nface, 3) of a mesh, in the frame of its geoms."""
    vert, face = mjm.mesh_vertadr[mesh], mjm.mesh_faceadr[mesh]
    return mjm.mesh_vert[vert:][: mjm.mesh_vertnum[mesh]], mjm.mesh_face[face:][: mjm.mesh_facenum[mesh]]


def _mesh_faults(vert: np.ndarray, face: np.ndarray) -> list[str]:
    """What keeps triangles from telling inside from outside; corners at the same place are one corner."""
    places, merged = np.unique(vert + 0.0, axis=0, return_inverse=True)  # + 0.0: -0.0 is the same place
    face = merged.reshape(-1)[face]
    edges = np.concatenate([face[:, [0, 1]], face[:, [1, 2]], face[:, [2, 0]]])
    edges = edges[edges[:, 0] != edges[:, 1]]  # of a triangle that has shrunk to a line
    lines, of_edge = np.unique(np.sort(edges, axis=1), axis=0, return_inverse=True)
    balance = np.zeros(len(lines), dtype=int)
    np.add.at(balance, of_edge.reshape(-1), np.where(edges[:, 0] < edges[:, 1], 1, -1))
    if n := int(np.count_nonzero(balance)):
        return [f"is a mesh with open edges ({n}): close its surface, with all triangles the same way round."]
    a, b, c = (places[face[:, i]].astype(np.float64) for i in range(3))
    if np.sum(a * np.cross(b, c)) <= 0.0:
        return ["is a mesh whose triangles face inward, or that encloses nothing: turn them round."]
    return []
