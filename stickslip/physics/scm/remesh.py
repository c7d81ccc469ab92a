"""Meshes as quads of even size."""

import contextlib
import ctypes
import importlib.util
import os
import sys
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from stickslip.errors import InputError
from stickslip.physics.scm.grids import Quads, areas

Array = NDArray[np.float64]


def remesh(vertices: Array, triangles: NDArray[np.int64], points: int, name: str) -> Quads:
    """About so many quads on a mesh.

    By field-aligned remeshing where its package is installed (the extra `quads`) and gives a closed surface; else by
    faces: triangles are divided until they are small enough, and those that lie together and have similar normals are
    merged.
    """
    if len(triangles) == 0 or not np.isfinite(vertices).all():
        raise InputError(f"the mesh of geom {name} has {len(triangles)} faces and must have some, with finite vertices")
    if importlib.util.find_spec("pynanoinstantmeshes") is not None:
        quads = _aligned(vertices, triangles, points)
        if quads is not None:
            return quads
    return by_faces(vertices, triangles, points)


def _aligned(vertices: Array, triangles: NDArray[np.int64], points: int) -> Quads | None:
    """Field-aligned quads, the same in every run, or None where they leave holes."""
    import pynanoinstantmeshes as pim  # type: ignore[import-not-found]

    with _silent():
        place, faces = pim.remesh(
            vertices.astype(np.float32),
            triangles.astype(np.uint32),
            points,
            align_to_boundaries=True,
            deterministic=True,
        )
    faces = faces.astype(np.int64)
    quads = _from_faces(place.astype(float), faces)
    once = np.concatenate([faces[:, [k, (k + 1) % 4]] for k in range(4)])
    there, count = np.unique(once[once[:, 0] != once[:, 1]], axis=0, return_counts=True)
    both = np.unique(np.concatenate([there, there[:, ::-1]]), axis=0)
    closed = len(both) == len(there) and (count == 1).all() and len(quads.point) == len(faces)
    return quads if closed and len(quads.point) > 0.3 * points else None


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Keep what native code prints off the standard output."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        with contextlib.suppress(TypeError):  # of what is buffered; there is no such library on Windows
            ctypes.CDLL(None).fflush(None)
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def _from_faces(vertices: Array, faces: NDArray[np.int64]) -> Quads:
    across = np.cross(vertices[faces[:, 2]] - vertices[faces[:, 0]], vertices[faces[:, 3]] - vertices[faces[:, 1]])
    length = np.linalg.norm(across, axis=1)
    kept = length > 0.0
    faces, across, length = faces[kept], across[kept], length[kept]
    triangle = faces[:, 2] == faces[:, 3]
    middle = vertices[faces].mean(axis=1)
    middle[triangle] = vertices[faces[triangle, :3]].mean(axis=1)
    return Quads(middle, across / length[:, None], areas(vertices, faces), vertices, faces)


def by_faces(vertices: Array, triangles: NDArray[np.int64], points: int) -> Quads:
    """About so many faces: large triangles divided, small ones merged."""
    vertices, triangles = welded(vertices, triangles)
    faces = np.column_stack([triangles, triangles[:, 2]])
    total = areas(vertices, faces).sum()
    target = total / points
    for _ in range(12):
        if areas(vertices, faces).max(initial=0.0) <= 2.0 * target or len(faces) > 4 * points:
            break
        vertices, faces = _divided(vertices, faces)
    quads = _from_faces(vertices, faces)
    return _merged(quads, points) if len(quads.point) > 1.5 * points else quads


def gather(vertices: Array, triangles: NDArray[np.int64], points: int) -> Quads:
    """Exactly so many points, each for the faces around it; without faces of their own."""
    vertices, triangles = welded(vertices, triangles)
    faces = np.column_stack([triangles, triangles[:, 2]])
    target = areas(vertices, faces).sum() / points
    while len(faces) < 4 * points or (areas(vertices, faces).max() > 2.0 * target and len(faces) < 64 * points):
        vertices, faces = _divided(vertices, faces)
    return _merged(_from_faces(vertices, faces), points)


def welded(vertices: Array, triangles: NDArray[np.int64]) -> tuple[Array, NDArray[np.int64]]:
    """The same with vertices that coincide as one."""
    scale = float(np.abs(vertices).max()) or 1.0
    _, first, same = np.unique(np.round(vertices / scale, 7), axis=0, return_index=True, return_inverse=True)
    return vertices[first], same.reshape(-1)[triangles]


def _divided(vertices: Array, faces: NDArray[np.int64]) -> tuple[Array, NDArray[np.int64]]:
    """Every triangle in four."""
    t = faces[:, :3]
    edges = np.sort(np.concatenate([t[:, [0, 1]], t[:, [1, 2]], t[:, [2, 0]]]), axis=1)
    unique, index = np.unique(edges, axis=0, return_inverse=True)
    index = index.reshape(-1) + len(vertices)
    a, b, c = index[: len(t)], index[len(t) : 2 * len(t)], index[2 * len(t) :]
    vertices = np.concatenate([vertices, vertices[unique].mean(axis=1)])
    out = np.concatenate(
        [
            np.column_stack([t[:, 0], a, c]),
            np.column_stack([a, t[:, 1], b]),
            np.column_stack([c, b, t[:, 2]]),
            np.column_stack([a, b, c]),
        ]
    )
    return vertices, np.column_stack([out, out[:, 2]])


def _merged(quads: Quads, points: int) -> Quads:
    """Faces gathered around so many of them, by where they are and where they look."""
    spacing = np.sqrt(quads.area.sum() / points)
    # a right angle counts as far as two spacings: patches do not go around edges
    feature = np.concatenate([quads.point / spacing, np.sqrt(2.0) * quads.normal], axis=1)
    owner = _nearest(feature, feature[_spread(feature, points)])
    for _ in range(10):
        weight = np.maximum(np.bincount(owner, quads.area, points), 1e-30)
        weighted = feature * quads.area[:, None]
        centre = np.stack([np.bincount(owner, weighted[:, i], points) for i in range(6)], axis=1) / weight[:, None]
        moved = _nearest(feature, centre)
        if len(np.unique(moved)) < points:  # one of them has lost all its faces
            break
        owner = moved
    _, owner = np.unique(owner, return_inverse=True)
    area = np.bincount(owner, quads.area)
    normal = np.stack([np.bincount(owner, quads.area * quads.normal[:, i]) for i in range(3)], axis=1)
    point = np.stack([np.bincount(owner, quads.area * quads.point[:, i]) for i in range(3)], axis=1) / area[:, None]
    length = np.linalg.norm(normal, axis=1)
    # a curved patch is less in area than in normals: what it covers is the sum of normals, so that the sum stays 0
    return Quads(point, normal / length[:, None], length, point, np.zeros((0, 4), dtype=np.int64))


def _spread(feature: Array, count: int) -> NDArray[np.int64]:
    """Indices far from each other: each is the farthest from those before."""
    chosen = np.zeros(count, dtype=np.int64)
    far = np.sum((feature - feature[0]) ** 2, axis=1)
    for k in range(1, count):
        chosen[k] = int(np.argmax(far))
        far = np.minimum(far, np.sum((feature - feature[chosen[k]]) ** 2, axis=1))
    return chosen


def _nearest(feature: Array, centre: Array) -> NDArray[np.int64]:
    out = np.zeros(len(feature), dtype=np.int64)
    norm = np.sum(centre**2, axis=1)
    for start in range(0, len(feature), 4096):
        some = feature[start : start + 4096]
        out[start : start + 4096] = np.argmin(norm - 2.0 * some @ centre.T, axis=1)
    return out
