"""Surfaces of triangles: every one is looked at, in NumPy."""

import numpy as np


def mesh_asset(vert: np.ndarray, face: np.ndarray, options: str = "") -> str:
    numbers = (" ".join(map(str, a.ravel())) for a in (vert, face))
    return '<mesh name="mesh" vertex="{}" face="{}" {}/>'.format(*numbers, options)


def torus(big: float = 0.2, small: float = 0.07, n: int = 24, m: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Corners and triangles of a ring with a hole."""
    u, v = np.meshgrid(2 * np.pi * np.arange(n) / n, 2 * np.pi * np.arange(m) / m, indexing="ij")
    r = big + small * np.cos(v)
    vert = np.stack([r * np.cos(u), r * np.sin(u), small * np.sin(v)], axis=-1).reshape(-1, 3)
    i, j = (a.ravel() for a in np.meshgrid(np.arange(n), np.arange(m), indexing="ij"))
    a, b, c, d = (((i + di) % n) * m + (j + dj) % m for di, dj in ((0, 0), (1, 0), (1, 1), (0, 1)))
    return vert, np.concatenate([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)])


def distance_to_triangles(points: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Distances (n,) to the nearest of all triangles: the foot on its plane where that is inside, or on its sides."""
    p, t = points[:, None], corners[None]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    height = np.sum((p - t[:, :, 0]) * normal, axis=2)
    inside, best = np.ones(height.shape, dtype=bool), np.full(height.shape, np.inf)
    for i in range(3):
        a, side = t[:, :, i], t[:, :, (i + 1) % 3] - t[:, :, i]
        inside &= np.sum(np.cross(side, p - a) * normal, axis=2) >= 0.0
        along = np.clip(np.sum((p - a) * side, axis=2) / np.sum(side * side, axis=2), 0.0, 1.0)
        best = np.minimum(best, np.linalg.norm(p - a - along[..., None] * side, axis=2))
    return np.where(inside, np.abs(height), best).min(axis=1)


def winding_number(points: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """How often triangles go round points (n,): 1 inside, 0 outside (van Oosterom and Strackee)."""
    a, b, c = (corners[None, :, i] - points[:, None] for i in range(3))
    la, lb, lc = (np.linalg.norm(v, axis=2) for v in (a, b, c))
    det = np.sum(a * np.cross(b, c), axis=2)
    dots = [np.sum(v * w, axis=2) for v, w in ((a, b), (b, c), (c, a))]
    return 2.0 * np.arctan2(det, la * lb * lc + dots[0] * lc + dots[1] * la + dots[2] * lb).sum(axis=1) / (4.0 * np.pi)
