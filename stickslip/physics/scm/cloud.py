"""Clouds: the points with normals that stand for the surface of a geom, and a check of them."""

import dataclasses

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.errors import InputError
from stickslip.physics.scm import grids
from stickslip.physics.scm.grids import Quads
from stickslip.physics.scm.remesh import gather, remesh
from stickslip.state import check_finite

Array = NDArray[np.float64]

KINDS = {
    int(mujoco.mjtGeom.mjGEOM_SPHERE): "sphere",
    int(mujoco.mjtGeom.mjGEOM_CAPSULE): "capsule",
    int(mujoco.mjtGeom.mjGEOM_ELLIPSOID): "ellipsoid",
    int(mujoco.mjtGeom.mjGEOM_CYLINDER): "cylinder",
    int(mujoco.mjtGeom.mjGEOM_BOX): "box",
}
"""Shapes that are gridded."""


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
    if kind not in KINDS:
        raise InputError(f"geom {_name(mjm, geom)} has type {mujoco.mjtGeom(kind).name}: it has no surface of points")
    name = KINDS[kind]
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


def gathered(vertices: Array, triangles: NDArray[np.int64], points: int) -> Cloud:
    """A cloud of exactly so many points of a mesh that is closed, so that worlds can have different meshes.

    Args:
        vertices: in the frame of the geom, m        (v, 3)
        triangles: counter-clockwise from outside    (t, 3)
        points: how many
    """
    vertices, triangles = np.asarray(vertices, dtype=float), np.asarray(triangles, dtype=np.int64)
    if isinstance(points, bool) or not isinstance(points, int) or not 6 <= points <= 1_000_000:
        raise InputError(f"points is {points!r}: it must be a whole number from 6 to 1000000")
    if vertices.ndim != 2 or vertices.shape[1:] != (3,) or triangles.ndim != 2 or triangles.shape[1:] != (3,):
        raise InputError(f"vertices and triangles have shapes {vertices.shape} and {triangles.shape}, expected (n, 3)")
    if not len(triangles) or triangles.min() < 0 or triangles.max() >= len(vertices):
        raise InputError(
            f"there are {len(triangles)} triangles: there must be some, of vertices 0 to {len(vertices) - 1}"
        )
    check_finite("vertices", vertices)
    quads = gather(vertices, triangles, points)
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
    def is_open(self) -> bool:
        """Whether faces, or where there are none normals that look outwards, do not close up."""
        return self.edges > 0 or (self.gap > 0.02 and not self.flipped)

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
        elif self.is_open:
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
    uneven = float(q.area.max() / max(q.area.min(), 1e-30))
    return Report(n, cloud.spacing, area, volume, gap, len(loose_edges(q.faces)), int(flipped(q).sum()), uneven)


def loose_edges(faces: NDArray[np.int64]) -> NDArray[np.int64]:
    """Edges that lack a face on one side, or have two there, as pairs of vertices, (k, 2), however faces turn."""
    return _loose(_turned_alike(faces))


def _loose(faces: NDArray[np.int64]) -> NDArray[np.int64]:
    """Edges of faces, (n, 4), that are not run along once in each direction."""
    edges = np.concatenate([faces[:, [k, (k + 1) % 4]] for k in range(4)])
    edges = edges[edges[:, 0] != edges[:, 1]]  # of triangles
    size = int(faces.max(initial=0)) + 1
    keys, back = (edges[:, k] * size + edges[:, 1 - k] for k in range(2))
    _, first = np.unique(keys, return_index=True)
    again = np.ones(len(edges), dtype=bool)
    again[first] = False
    return np.concatenate([edges[~np.isin(back, keys)], edges[again]])


def _turned_alike(faces: NDArray[np.int64]) -> NDArray[np.int64]:
    """The faces, with those turned around that do not turn as most of the piece of surface that they belong to."""
    if not len(_loose(faces)):
        return faces
    beside: dict[tuple[int, int], list[tuple[int, bool]]] = {}
    for face, corners in enumerate(faces.tolist()):
        for a, b in zip(corners, [*corners[1:], corners[0]], strict=True):
            if a != b:
                beside.setdefault((min(a, b), max(a, b)), []).append((face, a < b))
    near: list[list[tuple[int, bool]]] = [[] for _ in faces]
    for pair in beside.values():
        if len(pair) == 2:
            (one, up), (two, down) = pair
            near[one].append((two, up == down))
            near[two].append((one, up == down))
    turn = np.zeros(len(faces), dtype=np.int64)  # 1 or -1 once a face is reached
    for start in range(len(faces)):
        if turn[start]:
            continue
        turn[start], piece = 1, [start]
        for face in piece:  # grows meanwhile
            for other, same_way in near[face]:
                if not turn[other]:
                    turn[other] = -turn[face] if same_way else turn[face]
                    piece.append(other)
        if turn[piece].sum() < 0:
            turn[piece] *= -1
    return np.where(turn[:, None] < 0, faces[:, ::-1], faces)


def flipped(q: Quads) -> NDArray[np.bool_]:
    """Points whose normal looks to where the surface winds around: once inside, not at all outside; (n,).

    Of faces the winding number is exact, however sharp their edges are, once they turn alike. Points without faces are
    taken as sources, and looked at from further off.
    """
    q = dataclasses.replace(q, faces=_turned_alike(q.faces))
    middle = q.vertices[q.faces].mean(axis=1) if len(q.faces) else q.point  # a point may bulge out of its face
    far = (0.2 if len(q.faces) else 1.0) * np.sqrt(q.area)[:, None] * q.normal
    winding = _of_faces if len(q.faces) else _of_sources
    out, inside = (np.abs(winding(q, middle + side * far)) for side in (1.0, -1.0))
    return out > inside + 0.25


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
