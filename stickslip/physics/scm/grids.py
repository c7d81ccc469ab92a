"""Quads on the surfaces of primitives, their edges on the edges of the shape.

Each function returns a `Quads`: faces of four corners, seen counter-clockwise from outside, with the point and the
normal of each where the true surface has them.
"""

import dataclasses

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Quads:
    """Faces of a surface.

    Attributes:
        point: of each face, on the surface             (n, 3)
        normal: outwards, of unit length                (n, 3)
        area: of each face, m^2                         (n,)
        vertices: corners of faces                      (v, 3)
        faces: their four corners; a triangle has its last one twice  (n, 4)
    """

    point: Array
    normal: Array
    area: Array
    vertices: Array
    faces: NDArray[np.int64]


def _patch(corners: Array) -> tuple[Array, NDArray[np.int64]]:
    """Vertices and faces of a grid of corners, (i, j, 3), that looks along the cross product of its two directions."""
    rows, columns = corners.shape[:2]
    index = np.arange(rows * columns).reshape(rows, columns)
    faces = np.stack([index[:-1, :-1], index[1:, :-1], index[1:, 1:], index[:-1, 1:]], axis=-1)
    return corners.reshape(-1, 3), faces.reshape(-1, 4)


def areas(vertices: Array, faces: NDArray[np.int64]) -> Array:
    """Area of each face, as two triangles; vertices (..., v, 3)."""
    a, b, c, d = (vertices[..., faces[:, k], :] for k in range(4))
    halves = np.linalg.norm(np.cross(b - a, c - a), axis=-1) + np.linalg.norm(np.cross(c - a, d - a), axis=-1)
    return 0.5 * halves


def _joined(patches: list[tuple[Array, NDArray[np.int64]]]) -> tuple[Array, NDArray[np.int64]]:
    """One surface of several patches; vertices that coincide become one."""
    start = np.cumsum([0, *(len(vertices) for vertices, _ in patches)])
    vertices = np.concatenate([vertices for vertices, _ in patches])
    faces = np.concatenate([faces + first for (_, faces), first in zip(patches, start, strict=False)])
    scale = float(np.abs(vertices).max()) or 1.0
    _, first, same = np.unique(np.round(vertices / scale, 9), axis=0, return_index=True, return_inverse=True)
    return vertices[first], same.reshape(-1)[faces]


def _finish(
    patches: list[tuple[Array, NDArray[np.int64]]], point: Array, normal: Array, area: Array | None = None
) -> Quads:
    vertices, faces = _joined(patches)
    return Quads(point, normal, areas(vertices, faces) if area is None else area, vertices, faces)


_SIDES = np.array(
    # across, along: their cross product looks outwards
    [
        [[0, 1, 0], [0, 0, 1]],
        [[0, 0, 1], [0, 1, 0]],
        [[0, 0, 1], [1, 0, 0]],
        [[1, 0, 0], [0, 0, 1]],
        [[1, 0, 0], [0, 1, 0]],
        [[0, 1, 0], [1, 0, 0]],
    ],
    dtype=float,
)


def box(half: Array, spacing: float) -> Quads:
    """Grids on the six sides, at least two by two so that a side rests on more than its centre."""
    half = np.asarray(half, dtype=float)
    counts = np.maximum(np.rint(2.0 * half / spacing).astype(int), 2)
    patches, points, normals = [], [], []
    for across, along in _SIDES:
        out = np.cross(across, along)
        m, n = int(counts @ across), int(counts @ along)
        s, t = np.linspace(-1.0, 1.0, m + 1), np.linspace(-1.0, 1.0, n + 1)
        corners = half * (out + s[:, None, None] * across + t[None, :, None] * along)
        patches.append(_patch(corners))
        s, t = 0.5 * (s[1:] + s[:-1]), 0.5 * (t[1:] + t[:-1])
        middles = half * (out + s[:, None, None] * across + t[None, :, None] * along)
        points.append(middles.reshape(-1, 3))
        normals.append(np.broadcast_to(out, (m * n, 3)))
    return _finish(patches, np.concatenate(points), np.concatenate(normals))


def _bulged(flat: Array) -> Array:
    """Points of a cube from -1 to 1 on the unit sphere, at even angles."""
    angle = np.where(np.abs(flat) < 1.0 - 1e-12, np.tan(0.25 * np.pi * flat), np.sign(flat))
    return angle / np.linalg.norm(angle, axis=-1, keepdims=True)


def _cube_sphere(n: int) -> tuple[list[tuple[Array, NDArray[np.int64]]], Array]:
    """Patches and middles of the unit sphere, n by n on each of six sides."""
    patches, middles = [], []
    edge = np.linspace(-1.0, 1.0, n + 1)
    middle = 0.5 * (edge[1:] + edge[:-1])
    for across, along in _SIDES:
        out = np.cross(across, along)
        patches.append(_patch(_bulged(out + edge[:, None, None] * across + edge[None, :, None] * along)))
        middles.append(_bulged(out + middle[:, None, None] * across + middle[None, :, None] * along).reshape(-1, 3))
    return patches, np.concatenate(middles)


def ellipsoid(radii: Array, spacing: float) -> Quads:
    """A sphere's quads, stretched."""
    radii = np.asarray(radii, dtype=float)
    n = max(int(np.rint(0.5 * np.pi * np.exp(np.log(radii).mean()) / spacing)), 2)
    patches, middles = _cube_sphere(n)
    patches = [(radii * vertices, faces) for vertices, faces in patches]
    normal = middles / radii
    return _finish(patches, radii * middles, normal / np.linalg.norm(normal, axis=1, keepdims=True))


def sphere(radius: float, spacing: float) -> Quads:
    """A cube's quads blown up to a sphere."""
    return ellipsoid(np.full(3, radius), spacing)


def _disk(n: int) -> tuple[Array, Array]:
    """Corners and middles of the unit disk, n by n: a square whose rings become circles."""

    def bent(s: Array) -> Array:
        x, y = np.meshgrid(s, s, indexing="ij")
        radius = np.maximum(np.abs(x), np.abs(y))
        with np.errstate(divide="ignore", invalid="ignore"):
            wide = np.where(np.abs(x) >= np.abs(y), y / x, x / y)
        turn = 0.25 * np.pi * np.nan_to_num(wide)
        a, b = radius * np.cos(turn), radius * np.sin(turn)
        first = np.abs(x) >= np.abs(y)
        px = np.where(first, np.sign(x) * a, np.sign(y) * b)
        py = np.where(first, np.sign(x) * b, np.sign(y) * a)
        return np.stack([px, py], axis=-1)

    edge = np.linspace(-1.0, 1.0, n + 1)
    return bent(edge), bent(0.5 * (edge[1:] + edge[:-1]))


def _round(radius: float, spacing: float) -> int:
    """Quads along a quarter of a circle, an even number."""
    return 2 * max(int(np.rint(0.25 * np.pi * radius / spacing)), 1)


def _wall(radius: float, half: float, n: int, spacing: float) -> tuple[tuple[Array, NDArray[np.int64]], Array, Array]:
    """Patch, points and normals of the side of a cylinder, 4 n quads around."""
    rows = max(int(np.rint(2.0 * half / spacing)), 2)
    # at the angles that the edge of the disk, and a half of the sphere, have
    turn = 0.25 * np.pi * (2.0 * np.arange(4 * n + 1) / n - 1.0)
    height = np.linspace(-half, half, rows + 1)
    ring = np.stack([radius * np.cos(turn), radius * np.sin(turn)], axis=-1)
    corners = np.concatenate(
        [
            np.broadcast_to(ring[:, None], (len(turn), rows + 1, 2)),
            np.broadcast_to(height[None, :, None], (len(turn), rows + 1, 1)),
        ],
        axis=-1,
    )
    turn, height = 0.5 * (turn[1:] + turn[:-1]), 0.5 * (height[1:] + height[:-1])
    out = np.stack([np.cos(turn), np.sin(turn), np.zeros_like(turn)], axis=-1)
    normal = np.repeat(out, rows, axis=0)
    point = radius * normal
    point[:, 2] = np.tile(height, len(turn))
    return _patch(corners), point, normal


def cylinder(radius: float, half: float, spacing: float) -> Quads:
    """A wall, and two disks whose quads meet those of the wall at the edge."""
    n = _round(radius, spacing)
    wall, point, normal = _wall(radius, half, n, spacing)
    corner, middle = _disk(n)
    patches, points, normals = [wall], [point], [normal]
    for up in (1.0, -1.0):
        place = corner if up > 0 else corner[:, ::-1]
        patches.append(_patch(np.concatenate([radius * place, np.full((n + 1, n + 1, 1), up * half)], axis=-1)))
        flat = (middle if up > 0 else middle[:, ::-1]).reshape(-1, 2)
        points.append(np.column_stack([radius * flat, np.full(n * n, up * half)]))
        normals.append(np.tile([0.0, 0.0, up], (n * n, 1)))
    return _finish(patches, np.concatenate(points), np.concatenate(normals))


def capsule(radius: float, half: float, spacing: float) -> Quads:
    """A wall between two halves of a sphere, whose quads meet."""
    n = _round(radius, spacing)
    wall, point, normal = _wall(radius, half, n, spacing)
    patches, points, normals = [wall], [point], [normal]
    sides, middles = _cube_sphere(n)
    # the four sides around are cut in half at the equator: n is even
    for k, (vertices, faces) in enumerate(sides):
        middle = middles[k * n * n : (k + 1) * n * n]
        for up in (1.0, -1.0):
            kept = up * middle[:, 2] > 0.0
            if kept.any():
                patches.append((radius * vertices + [0.0, 0.0, up * half], faces[kept]))
                points.append(radius * middle[kept] + [0.0, 0.0, up * half])
                normals.append(middle[kept])
    quads = _finish(patches, np.concatenate(points), np.concatenate(normals))
    used = np.unique(quads.faces)
    place = np.zeros(len(quads.vertices), dtype=np.int64)
    place[used] = np.arange(len(used))
    return dataclasses.replace(quads, vertices=quads.vertices[used], faces=place[quads.faces])


def area_of(kind: str, size: Array) -> float:
    """Surface of a primitive, m^2."""
    a, b, c = (float(x) for x in size)
    if kind == "box":
        return 8.0 * (a * b + b * c + c * a)
    if kind == "sphere":
        return 4.0 * np.pi * a * a
    if kind == "cylinder":
        return 2.0 * np.pi * a * (a + 2.0 * b)
    if kind == "capsule":
        return 4.0 * np.pi * a * (a + b)
    p = 1.6075  # Thomsen's formula, within 1.1 %
    mean = ((a * b) ** p + (b * c) ** p + (c * a) ** p) / 3.0
    return 4.0 * np.pi * mean ** (1.0 / p)


def frames(normal: Array) -> Array:
    """Normal and two tangents, (n, 3, 3)."""
    beside = np.where(np.abs(normal[:, :1]) < 0.5, [[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]])
    first = np.cross(normal, beside)
    first /= np.maximum(np.linalg.norm(first, axis=1, keepdims=True), 1e-30)
    return np.stack([normal, first, np.cross(normal, first)], axis=1).astype(float)
