"""Faces and inradius of convex hulls, on the host."""

import mujoco
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SAME_NORMAL = 1e-5
SAME_OFFSET = 1e-6
"""Largest difference of two faces in one plane: of unit normals, and of offsets over the size. Vertices are single."""


def mesh_faces(mjm: mujoco.MjModel, mesh: int) -> Array | None:
    """Faces of a mesh's hull as MuJoCo found it, rows (normal, offset), (nface, 4); None if it has none."""
    adr = int(mjm.mesh_graphadr[mesh])
    if adr < 0:
        return None
    graph = mjm.mesh_graph[adr:]
    nvert, nface = int(graph[0]), int(graph[1])
    triangles = graph[2 + 3 * nvert + 3 * nface :][: 3 * nface].reshape(-1, 3)
    start = int(mjm.mesh_vertadr[mesh])
    vert = mjm.mesh_vert[start : start + int(mjm.mesh_vertnum[mesh])].astype(np.float64)
    return hull_faces(vert, triangles)


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
