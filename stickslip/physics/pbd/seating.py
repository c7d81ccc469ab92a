"""Spheres to touch with: they may overlap, but lie against the surface from inside, so that a body rests on it."""

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from stickslip.physics.pbd.solids import Array, Solid, ball

_NEAR = 3.0
"""Depth of a centre, in radii, from which a sphere is moved to the surface: of the outer layer of any lattice."""
_ARRIVED = 1e-6
"""How far from its radius a centre may then be deep, against the longest side."""
_CROWDED = 0.5
"""Distance of centres, in radii, that lets one of two spheres at the surface go."""
_POINTS = 2**16
"""At which it is counted how many spheres are there."""
_SAMPLED = 2000
"""Spheres in which these points are, at most."""
_APART = 1.0 - 1e-6
"""Distance of centres, in diameters, from which spheres do not overlap but for rounding."""


def seat(solid: Solid, centre: Array, radius: float) -> Array:
    """Centres of spheres in a solid (n, 3) [m], those near its surface moved to touch it, and some more that do."""
    near = solid.nearest(centre)[0] < _NEAR * radius
    moved = _touch(solid, centre[near], radius)
    anchors = _touch(solid, solid.anchors(np.concatenate([moved, centre[~near]]), radius), radius)
    touching = np.concatenate([anchors, moved])
    kept = _spread(touching, _CROWDED * radius)
    kept[: len(anchors)] = True
    return np.concatenate([touching[kept], centre[~near]])


def _touch(solid: Solid, centre: Array, radius: float) -> Array:
    """Centres moved to the radius below the surface (n, 3) [m], or left where that fails.

    Of the sphere about a centre that reaches just to the surface, the inside is inside the solid; so a smaller one in
    it that touches it there touches the surface, too. That is one step away, whatever the surface is like.
    """
    depth, normal = solid.nearest(centre)
    moved = centre + (depth - radius)[:, None] * normal
    arrived = np.abs(solid.nearest(moved)[0] - radius) <= _ARRIVED * (solid.high - solid.low).max()
    return np.where(arrived[:, None], moved, centre)


def union(centre: Array, radius: float) -> float:
    """Volume of equal spheres that may overlap [m^3]: of each, what is left if shared with all that are there too."""
    sample = centre[:: math.ceil(len(centre) / _SAMPLED)]
    count = _POINTS // len(sample)
    k = np.arange(count) + 0.5
    z, turn = 1.0 - 2.0 * k / count, k * math.pi * (3.0 - math.sqrt(5.0))
    point = np.column_stack([np.sqrt(1.0 - z**2) * np.cos(turn), np.sqrt(1.0 - z**2) * np.sin(turn), z])
    point *= radius * np.cbrt(k * math.sqrt(2.0) % 1.0)[:, None]
    i, j = _pairs(sample, centre, 2.0 * radius * _APART)
    there = np.zeros((len(sample), count))
    np.add.at(there, i, np.sum(((sample[i] - centre[j])[:, None] + point) ** 2, axis=2) <= radius**2)
    return len(centre) * ball(radius) * float(np.mean(1.0 / there))


def _spread(centre: Array, least: float) -> NDArray[np.bool_]:
    """Which to keep of centres (n, 3) so that none is closer than that to one before."""
    kept = np.ones(len(centre), dtype=bool)
    i, j = _pairs(centre, centre, least)
    later = i < j
    for a, b in sorted(zip(i[later].tolist(), j[later].tolist(), strict=True)):
        kept[b] &= not kept[a]
    return kept


def _pairs(a: Array, b: Array, reach: float) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Indices of all points (n, 3) and (m, 3) that are closer than the reach, pair by pair; by cells of that width."""
    low = np.minimum(a.min(axis=0), b.min(axis=0)) - reach
    shape = np.ceil((np.maximum(a.max(axis=0), b.max(axis=0)) + 2.0 * reach - low) / reach).astype(np.int64)
    strides = np.array([shape[1] * shape[2], shape[2], 1])
    cell_a, cell_b = (((x - low) / reach).astype(np.int64) @ strides for x in (a, b))
    order = np.argsort(cell_b, kind="stable")
    cell_b = cell_b[order]
    pairs = []
    for x, y in itertools.product((-1, 0, 1), repeat=2):
        beside = cell_a + x * strides[0] + y * strides[1]
        first = np.searchsorted(cell_b, beside - 1, side="left")  # of three cells along z, which follow one another
        count = np.searchsorted(cell_b, beside + 1, side="right") - first
        i = np.repeat(np.arange(len(a)), count)
        j = order[np.arange(len(i)) + np.repeat(first - np.cumsum(count) + count, count)]
        close = np.sum((a[i] - b[j]) ** 2, axis=1) < reach**2
        pairs.append((i[close], j[close]))
    return np.concatenate([i for i, _ in pairs]), np.concatenate([j for _, j in pairs])
