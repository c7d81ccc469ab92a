"""Convex hulls of meshes: faces, inradius, and by how much they exceed the mesh; on the host."""

import mujoco
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

CONVEX = 0.03
"""Volume of a hull over that of its mesh, less 1, up to which the mesh counts as convex."""
SAME_NORMAL = 1e-5
SAME_OFFSET = 1e-6
"""Largest difference of two faces in one plane: of unit normals, and of offsets over the size. Vertices are single."""


def mesh_faces(mjm: mujoco.MjModel, mesh: int) -> Array | None:
    """Faces of a mesh's hull as MuJoCo found it, rows (normal, offset), (nface, 4); None if it has none."""
    triangles = _hull_triangles(mjm, mesh)
    return None if triangles is None else hull_faces(mesh_vertices(mjm, mesh), triangles)


def mesh_vertices(mjm: mujoco.MjModel, mesh: int) -> Array:
    """Vertices of a mesh in the frame of its geoms, (nvert, 3)."""
    start = int(mjm.mesh_vertadr[mesh])
    return mjm.mesh_vert[start : start + int(mjm.mesh_vertnum[mesh])].astype(np.float64)


def mesh_triangles(mjm: mujoco.MjModel, mesh: int) -> NDArray[np.integer]:
    """Triangles of a mesh, numbers of vertices, (nface, 3)."""
    start = int(mjm.mesh_faceadr[mesh])
    return mjm.mesh_face[start : start + int(mjm.mesh_facenum[mesh])]


def volume(vert: Array, triangles: NDArray[np.integer]) -> float:
    """Inside a surface; NaN if it is not closed, or inside out."""
    if not is_closed(vert, triangles):
        return float("nan")
    inside = float(np.linalg.det(vert[triangles] - vert.mean(axis=0)).sum()) / 6.0
    return inside if inside > 0.0 else float("nan")


def hull_volume(mjm: mujoco.MjModel, mesh: int) -> float:
    """Of a mesh's hull as MuJoCo found it; NaN if it has none."""
    triangles, vert = _hull_triangles(mjm, mesh), mesh_vertices(mjm, mesh)
    if triangles is None:
        return float("nan")
    return float(np.abs(np.linalg.det(vert[triangles] - vert.mean(axis=0))).sum()) / 6.0


def hull_excess(mjm: mujoco.MjModel, mesh: int) -> float:
    """Volume of a mesh's hull over that of the mesh, less 1; NaN if one of them is unknown."""
    return hull_volume(mjm, mesh) / volume(mesh_vertices(mjm, mesh), mesh_triangles(mjm, mesh)) - 1.0


def is_closed(vert: Array, triangles: NDArray[np.integer]) -> bool:
    """Whether each edge of a surface runs once in each direction; vertices at one place are one."""
    same = np.unique(vert, axis=0, return_inverse=True)[1].reshape(-1)[triangles]
    edges = np.concatenate([same[:, [0, 1]], same[:, [1, 2]], same[:, [2, 0]]])
    edges = edges[edges[:, 0] != edges[:, 1]]
    there, back = (np.sort(e[:, 0].astype(np.int64) * len(vert) + e[:, 1]) for e in (edges, edges[:, ::-1]))
    return bool(np.array_equal(there, back))


def _hull_triangles(mjm: mujoco.MjModel, mesh: int) -> NDArray[np.integer] | None:
    """Of the hull as MuJoCo found it, numbers of vertices, (nface, 3); None if there is none."""
    adr = int(mjm.mesh_graphadr[mesh])
    if adr < 0:
        return None
    graph = mjm.mesh_graph[adr:]
    nvert, nface = int(graph[0]), int(graph[1])
    return graph[2 + 3 * nvert + 3 * nface :][: 3 * nface].reshape(-1, 3)


def hull_faces(vert: Array, triangles: NDArray[np.integer]) -> Array:
    """Faces of a convex surface, the largest first.

    Triangles in one plane are one face: a cell would be counted twice otherwise.
    """
    corners = vert[triangles]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    areas = np.linalg.norm(normals, axis=1)
    middle = vert[np.unique(triangles)].mean(axis=0)
    size = float(np.abs(vert - middle).max())
    order = [int(t) for t in np.argsort(-areas) if areas[t] > 1e-9 * size**2]
    faces: list[Array] = []
    sizes: list[float] = []
    for t in order:
        normal = normals[t] / areas[t]
        if normal @ (corners[t, 0] - middle) < 0.0:
            normal = -normal
        offset = float((vert @ normal).max())
        for i, face in enumerate(faces):
            if np.abs(face[:3] - normal).max() < SAME_NORMAL and abs(face[3] - offset) < SAME_OFFSET * size:
                sizes[i] += areas[t]
                break
        else:
            faces.append(np.array([*normal, offset]))
            sizes.append(areas[t])
    return np.array(faces)[np.argsort(-np.array(sizes), kind="stable")]


def inradius(faces: Array) -> float:
    """Of the largest sphere inside: the least depth, softened less and less, is climbed by Newton's method."""
    normals, offsets = faces[:, :3], faces[:, 3]
    size = float(np.abs(offsets).max())
    x = np.zeros(3)
    t = size
    while t > 1e-9 * size:
        for _ in range(20):
            depth = offsets - normals @ x
            w = np.exp(-(depth - depth.min()) / t)
            w /= w.sum()
            slope = -w @ normals
            if np.linalg.norm(slope) < 1e-3:
                break
            spread = normals + slope
            curve = (spread.T * w) @ spread / t + 1e-6 / size * np.eye(3)
            move = np.linalg.solve(curve, slope)
            move *= min(1.0, size / float(np.linalg.norm(move)))
            step = 1.0
            while step > 1e-4 and _soft(offsets - normals @ (x + step * move), t) < _soft(depth, t):
                step *= 0.5
            x = x + step * move
        t *= 0.3
    return float((offsets - normals @ x).min())


def _soft(depth: Array, t: float) -> float:
    low = float(depth.min())
    return low - t * float(np.log(np.exp(-(depth - low) / t).sum()))
