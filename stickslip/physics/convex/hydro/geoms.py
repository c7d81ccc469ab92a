"""Hydroelastic parameters of geoms, and their fields, from the model."""

import dataclasses
import warnings

import mujoco
import numpy as np
import warp as wp
from numpy.typing import NDArray

from stickslip.errors import InputError
from stickslip.hull import CONVEX, hull_excess, inradius, mesh_faces, mesh_vertices
from stickslip.physics.convex.custom import called, geom_user, numeric
from stickslip.physics.convex.hydro.fields import (
    BOX,
    CAPSULE,
    CYLINDER,
    ELLIPSOID,
    HULL,
    PLANE,
    SPHERE,
    Fields,
    vec4,
)

MODULUS, DEPTH = 3, 4
"""Places of modulus and depth in `user` of a geom."""
POINTS = (8, 2)
"""Directions of a polar patch, and points on each."""
MOST_POINTS = (32, 8)
UNBOUNDED = 1e10
"""Radius of a plane, m."""

_GEOM = mujoco.mjtGeom
_ROUND = {
    _GEOM.mjGEOM_SPHERE: SPHERE,
    _GEOM.mjGEOM_CAPSULE: CAPSULE,
    _GEOM.mjGEOM_ELLIPSOID: ELLIPSOID,
    _GEOM.mjGEOM_CYLINDER: CYLINDER,
}
_FLAT = {_GEOM.mjGEOM_PLANE: PLANE, _GEOM.mjGEOM_BOX: BOX, _GEOM.mjGEOM_MESH: HULL}
_LEFT_OUT = {_GEOM.mjGEOM_HFIELD: "height fields", _GEOM.mjGEOM_SDF: "signed distance fields"}


@dataclasses.dataclass(frozen=True)
class Material:
    """Hydroelastic parameters of all geoms.

    Attributes:
        modulus: E, Pa; 0: rigid                                        (ngeom,)
        depth: H, m; 0: the inradius                                    (ngeom,)
        has_field: whether the shape has a pressure field               (ngeom,)
        left_out: kinds of geoms with a modulus but no field, and how many there are
        points: M and G of a polar patch
    """

    modulus: NDArray[np.float64]
    depth: NDArray[np.float64]
    has_field: NDArray[np.bool_]
    left_out: dict[str, int]
    points: tuple[int, int]


def read_material(mjm: mujoco.MjModel, modulus: float | None) -> Material:
    """Moduli and depths: the physics', or else a geom's own, or else the model's.

    The modulus of the physics and that of the model are for geoms of moving bodies; a fixed one has its own, or none.
    """
    moving = mjm.body_weldid[mjm.geom_bodyid] != 0
    of_model, depth = numeric(mjm, "hydroelastic_modulus"), numeric(mjm, "hydroelastic_depth")
    moduli = geom_user(mjm, MODULUS)
    moduli = np.where((moduli == 0.0) & moving & (of_model is not None), of_model or 0.0, moduli)
    if modulus is not None:
        moduli = np.where(moving, modulus, moduli)
    touches = (mjm.geom_contype | mjm.geom_conaffinity) != 0
    touches[mjm.pair_geom1] = touches[mjm.pair_geom2] = True
    moduli = np.where(touches, moduli, 0.0)
    depths = geom_user(mjm, DEPTH)
    depths = np.where((depths == 0.0) & (depth is not None), depth or 0.0, depths)
    fields = [kind in _ROUND or kind in _FLAT for kind in map(_GEOM, mjm.geom_type)]
    has_field = np.array(fields, dtype=bool)
    left_out: dict[str, int] = {}
    for geom in np.flatnonzero(moduli > 0.0):
        kind = _GEOM(mjm.geom_type[geom])
        reason = _LEFT_OUT.get(kind)
        if kind == _GEOM.mjGEOM_MESH and mjm.mesh_graphadr[mjm.geom_dataid[geom]] < 0:
            reason, has_field[geom] = "meshes without a convex hull", False
        if reason:
            left_out[reason] = left_out.get(reason, 0) + 1
        elif kind == _GEOM.mjGEOM_PLANE and depths[geom] == 0.0:
            raise InputError(
                f"geom {geom} is a plane with a hydroelastic modulus of {moduli[geom]:g} Pa and no depth: "
                'name one, <geom user="k d mu_s E H"> (index 4) or <numeric name="hydroelastic_depth">, in m'
            )
    for geom in np.flatnonzero((moduli == 0.0) & (mjm.geom_type == int(_GEOM.mjGEOM_MESH))):
        has_field[geom] = mjm.mesh_graphadr[mjm.geom_dataid[geom]] >= 0
    return Material(moduli, depths, has_field, left_out, _points(mjm))


def _points(mjm: mujoco.MjModel) -> tuple[int, int]:
    """M and G of a polar patch."""
    index = mujoco.mj_name2id(mjm, mujoco.mjtObj.mjOBJ_NUMERIC, "hydroelastic_points")
    if index < 0:
        return POINTS
    adr, size = int(mjm.numeric_adr[index]), int(mjm.numeric_size[index])
    given = mjm.numeric_data[adr : adr + size].tolist()
    fits = len(given) == 2 and all(v == int(v) for v in given)
    if not (fits and 3 <= given[0] <= MOST_POINTS[0] and 1 <= given[1] <= MOST_POINTS[1]):
        raise InputError(
            f"<numeric name='hydroelastic_points'> is {given}: it must be two whole numbers, "
            f'directions from 3 to {MOST_POINTS[0]} and points on each from 1 to {MOST_POINTS[1]}, as in data="8 2"'
        )
    return int(given[0]), int(given[1])


def is_flat(mjm: mujoco.MjModel) -> NDArray[np.bool_]:
    """Whether the field of each geom is a minimum of planes, (ngeom,)."""
    return np.isin(mjm.geom_type, [int(kind) for kind in _FLAT])


def fields_of(mjm: mujoco.MjModel, material: Material, used: NDArray[np.integer]) -> tuple[Fields, NDArray[np.integer]]:
    """Fields of the geoms in use, and how many faces each has."""
    n = mjm.ngeom
    kind, depth, radius = np.full(n, -1), np.ones(n), np.full(n, UNBOUNDED)
    adr, num = np.zeros(n, dtype=int), np.zeros(n, dtype=int)
    faces: list[NDArray[np.float64]] = []
    hulls: dict[int, tuple[NDArray[np.float64], float]] = {}
    count = 0
    for geom in map(int, used):
        shape, size = _GEOM(mjm.geom_type[geom]), mjm.geom_size[geom]
        own = np.zeros((0, 4))
        inside = 1.0
        if shape in _ROUND:
            kind[geom], num[geom] = int(_ROUND[shape]), 3 if shape == _GEOM.mjGEOM_CYLINDER else 1
            inside = {_GEOM.mjGEOM_ELLIPSOID: size.min(), _GEOM.mjGEOM_CYLINDER: size[:2].min()}.get(shape, size[0])
            radius[geom] = {
                _GEOM.mjGEOM_SPHERE: size[0],
                _GEOM.mjGEOM_CAPSULE: size[0] + size[1],
                _GEOM.mjGEOM_ELLIPSOID: size.max(),
                _GEOM.mjGEOM_CYLINDER: np.hypot(size[0], size[1]),
            }[shape]
        elif shape == _GEOM.mjGEOM_PLANE:
            own = np.array([[0.0, 0.0, 1.0, 0.0]])
        elif shape == _GEOM.mjGEOM_BOX:
            normals = np.concatenate([np.eye(3), -np.eye(3)])
            own = np.concatenate([normals, np.tile(size, 2)[:, None]], axis=1)
            inside, radius[geom] = size.min(), np.linalg.norm(size)
        else:
            mesh = int(mjm.geom_dataid[geom])
            if mesh not in hulls:
                found = mesh_faces(mjm, mesh)
                assert found is not None
                hulls[mesh] = found, inradius(found)
            own, inside = hulls[mesh]
            radius[geom] = np.linalg.norm(mesh_vertices(mjm, mesh), axis=1).max()
        if len(own):
            kind[geom], num[geom], adr[geom] = int(_FLAT[shape]), len(own), count
            faces.append(own)
            count += len(own)
        depth[geom] = material.depth[geom] if material.depth[geom] > 0.0 else inside
    _warn_concave(mjm, material, used)
    fields = Fields()
    fields.kind, fields.adr, fields.num = (wp.array(v.astype(np.int32), dtype=int) for v in (kind, adr, num))
    fields.geom_hydroelastic = wp.array(material.modulus[None], dtype=float)
    fields.depth, fields.radius = wp.array(depth, dtype=wp.float64), wp.array(radius, dtype=wp.float64)
    fields.size = wp.array(mjm.geom_size.astype(float), dtype=wp.vec3d)
    fields.face = wp.array(np.concatenate(faces) if faces else np.zeros((1, 4)), dtype=vec4)
    return fields, np.where((kind >= 0) & (kind <= int(HULL)), num, 0)


def _warn_concave(mjm: mujoco.MjModel, material: Material, used: NDArray[np.integer]) -> None:
    """Say which geoms with a modulus touch as hulls that are clearly larger than their meshes, and by how much."""
    found: dict[int, float] = {}
    said = []
    for geom in map(int, used):
        if mjm.geom_type[geom] == int(_GEOM.mjGEOM_MESH) and material.modulus[geom] > 0.0:
            mesh = int(mjm.geom_dataid[geom])
            if mesh not in found:
                found[mesh] = hull_excess(mjm, mesh)
            if found[mesh] > CONVEX:
                said.append(f"geom {called(mjm, geom)} by {100.0 * found[mesh]:.0f} %")
    if said:
        warnings.warn(
            "geoms with a hydroelastic modulus touch as the convex hulls of their meshes, which have more volume: "
            f"{', '.join(said)}; `stickslip.decompose` replaces such geoms by convex pieces",
            stacklevel=6,
        )
