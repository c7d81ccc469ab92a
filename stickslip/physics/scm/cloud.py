"""Clouds: the points with normals that stand for the surface of a geom, and a check of them."""

import dataclasses

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.errors import InputError
from stickslip.physics.scm import grids
from stickslip.physics.scm.grids import Quads
from stickslip.physics.scm.remesh import remesh

Array = NDArray[np.float64]

_KINDS = {
    int(mujoco.mjtGeom.mjGEOM_SPHERE): "sphere",
    int(mujoco.mjtGeom.mjGEOM_CAPSULE): "capsule",
    int(mujoco.mjtGeom.mjGEOM_ELLIPSOID): "ellipsoid",
    int(mujoco.mjtGeom.mjGEOM_CYLINDER): "cylinder",
    int(mujoco.mjtGeom.mjGEOM_BOX): "box",
}


@dataclasses.dataclass(frozen=True)
class Cloud:
    """Points of a surface, in the frame of its geom.

    Attributes:
        quads: points, normals, areas and the faces they stand for
        spacing: distance between neighbours, m
        open: whether it is a plane, which has no points that could touch anything
    """

    quads: Quads
    spacing: float
    open: bool = False


def plane() -> Cloud:
    """The one point of a plane, whose normal is z."""
    up = np.array([[0.0, 0.0, 1.0]])
    none = Quads(np.zeros((1, 3)), up, np.ones(1), np.zeros((0, 3)), np.zeros((0, 4), dtype=np.int64))
    return Cloud(none, 1.0, open=True)


def cloud_of(mjm: mujoco.MjModel, geom: int, points: int) -> Cloud:
    """The cloud of a geom with about so many points."""
    kind, size = int(mjm.geom_type[geom]), mjm.geom_size[geom].copy()
    if kind == mujoco.mjtGeom.mjGEOM_PLANE:
        return plane()
    if kind == mujoco.mjtGeom.mjGEOM_MESH:
        vertices, triangles = mesh_of(mjm, geom)
        quads = remesh(vertices, triangles, points, _name(mjm, geom))
        return Cloud(quads, float(np.sqrt(quads.area.mean())))
    if kind not in _KINDS:
        raise InputError(f"geom {_name(mjm, geom)} has type {mujoco.mjtGeom(kind).name}: it has no surface of points")
    name = _KINDS[kind]
    if name == "sphere":
        size[:] = size[0]
    spacing = float(np.sqrt(grids.area_of(name, size) / points))
    if name == "box":
        quads = grids.box(size, spacing)
    elif name == "cylinder":
        quads = grids.cylinder(size[0], size[1], spacing)
    elif name == "capsule":
        quads = grids.capsule(size[0], size[1], spacing)
    else:
        quads = grids.ellipsoid(size, spacing)
    return Cloud(quads, float(np.sqrt(quads.area.mean())))


def mesh_of(mjm: mujoco.MjModel, geom: int) -> tuple[Array, NDArray[np.int64]]:
    """Vertices and triangles of a mesh geom, in its frame."""
    mesh = int(mjm.geom_dataid[geom])
    first, count = mjm.mesh_vertadr[mesh], mjm.mesh_vertnum[mesh]
    face, number = mjm.mesh_faceadr[mesh], mjm.mesh_facenum[mesh]
    return mjm.mesh_vert[first : first + count].astype(float), mjm.mesh_face[face : face + number].astype(np.int64)


def _name(mjm: mujoco.MjModel, geom: int) -> str:
    return repr(mujoco.mj_id2name(mjm, mujoco.mjtObj.mjOBJ_GEOM, geom) or f"geom {geom}")


@dataclasses.dataclass(frozen=True)
class Report:
    """What is known of a cloud.

    Attributes:
        points: how many
        spacing: distance between neighbours, m
        area, volume: of what they enclose, m^2 and m^3
        gap: length of the sum of normals times areas, over the area; 0 for a closed surface
        edges: edges that do not have exactly one face on each side
        flipped: points whose normal does not look out of the surface
        unevenness: largest area of a face over the smallest
    """

    points: int
    spacing: float
    area: float
    volume: float
    gap: float
    edges: int
    flipped: int
    unevenness: float

    @property
    def problems(self) -> list[str]:
        """What makes the cloud unfit, one sentence each."""
        found = []
        if self.points == 0:
            return ["it has no points"]
        if not (np.isfinite(self.area) and np.isfinite(self.volume)):
            return ["it has points or normals that are not finite"]
        if self.edges:
            found.append(f"the surface is open: {self.edges} edges lack a face on one side")
        elif self.gap > 0.02:
            found.append(f"the surface is open: normals times areas sum up to {self.gap:.3g} of the area, not to 0")
        if self.flipped == self.points:
            found.append("all normals look inwards: reverse the order of the corners of faces")
        elif self.flipped:
            found.append(f"{self.flipped} of {self.points} normals look inwards: make faces turn the same way")
        elif self.volume <= 0.0:
            found.append(f"it encloses no volume ({self.volume:.3g} m^3)")
        return found


def examine(cloud: Cloud) -> Report:
    """Find out whether a cloud encloses something and looks outwards."""
    q = cloud.quads
    n = len(q.point)
    if n == 0:
        return Report(0, 0.0, 0.0, 0.0, 0.0, 0, 0, 1.0)
    if cloud.open:
        return Report(n, cloud.spacing, 1.0, 1.0, 0.0, 0, 0, 1.0)
    area = float(q.area.sum())
    centred = q.point - q.point.mean(axis=0)
    volume = float((np.sum(centred * q.normal, axis=1) * q.area).sum() / 3.0)
    gap = float(np.linalg.norm(q.normal.T @ q.area) / area)
    flipped = _flipped(q)
    uneven = float(q.area.max() / max(q.area.min(), 1e-30))
    return Report(n, cloud.spacing, area, volume, gap, _loose_edges(q), flipped, uneven)


def _loose_edges(q: Quads) -> int:
    """Edges that are not run along once in each direction."""
    if not len(q.vertices):
        return 0
    edges = np.concatenate([q.faces[:, [k, (k + 1) % 4]] for k in range(4)])
    edges = edges[edges[:, 0] != edges[:, 1]]  # of triangles
    keys = edges[:, 0] * len(q.vertices) + edges[:, 1]
    back = edges[:, 1] * len(q.vertices) + edges[:, 0]
    there, count = np.unique(keys, return_counts=True)
    return int(np.sum(~np.isin(back, there)) + np.sum(count[count > 1] - 1))


def _flipped(q: Quads) -> int:
    """Points whose normal looks to where the surface winds around: once inside, not at all outside.

    Of faces the winding number is exact, however sharp their edges are. Points without faces are taken as sources, and
    looked at from further off.
    """
    far = (0.2 if len(q.faces) else 1.0) * np.sqrt(q.area)[:, None] * q.normal
    winding = _of_faces if len(q.faces) else _of_sources
    out, inside = (np.abs(winding(q, q.point + side * far)) for side in (1.0, -1.0))
    return int(np.sum(out > inside + 0.25))


def _of_sources(q: Quads, at: Array) -> Array:
    total = np.zeros(len(at))
    for start in range(0, len(at), 512):
        away = q.point[None] - at[start : start + 512, None]
        cube = np.maximum(np.sum(away**2, axis=2), 1e-30) ** 1.5
        total[start : start + 512] = np.sum(np.einsum("ijk,jk->ij", away, q.normal) / cube * q.area, axis=1)
    return total / (4.0 * np.pi)


def _of_faces(q: Quads, at: Array) -> Array:
    """Solid angles of triangles, by van Oosterom and Strackee."""
    corners = np.concatenate([q.faces[:, [0, 1, 2]], q.faces[q.faces[:, 2] != q.faces[:, 3]][:, [0, 2, 3]]])
    total = np.zeros(len(at))
    for start in range(0, len(at), 64):
        a, b, c = (q.vertices[corners[:, k]][None] - at[start : start + 64, None] for k in range(3))
        la, lb, lc = (np.linalg.norm(x, axis=2) for x in (a, b, c))
        triple = np.einsum("ijk,ijk->ij", a, np.cross(b, c))
        ab, bc, ca = (np.einsum("ijk,ijk->ij", x, y) for x, y in ((a, b), (b, c), (c, a)))
        total[start : start + 64] = np.sum(2.0 * np.arctan2(triple, la * lb * lc + ab * lc + bc * la + ca * lb), axis=1)
    return total / (4.0 * np.pi)


def check(cloud: Cloud, name: str) -> None:
    """Raise InputError unless a cloud can stand for a body."""
    problems = examine(cloud).problems
    if problems:
        raise InputError(f"the points of geom {name} cannot be used: " + "; ".join(problems))
