"""The lattice of equal spheres that fills most of a solid.

A lattice is an orthogonal cell with points in it, repeated. Cubic ones are thin (0.52 of space), the others are the
densest there are (0.74); but a body is a few spheres wide, and how a lattice lies in it decides more. So each is tried
in several orientations and shifts, and stretched along the axes until its outermost layers touch the bounding box,
which takes no sphere closer to another.
"""

import functools
import itertools
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from stickslip.errors import InputError
from stickslip.physics.pbd.solids import Array, Solid, ball

MOST_SPHERES = 5_000_000
"""In place of one geom."""
_MOST_PLACES = 20_000_000
"""Of spheres in the bounding box of a geom, most of which may be outside the geom."""
_BUDGET = 400_000
"""Points at which the search among lattices ends, counted over all that were tried."""
_BATCH = 20_000
"""Points that are looked at together, at least."""
_NEAR = 0.98
"""Lattices that fill this share of what the best one fills are as good; that nearest to the bounding box is taken."""
_ROUNDING = 1e-9
"""Of numbers of layers."""
_DENSEST = math.pi / math.sqrt(18.0)
"""Share of space that equal spheres can fill."""


def best(solid: Solid, radius: float, setting: str) -> Array:
    """Centres of the lattice that fills most of a solid (n, 3) [m]; of those nearly as good, of the one that is nearest
    to the bounding box.

    Args:
        solid: what to fill
        radius: of the spheres [m]
        setting: what the radius follows from, for messages

    Raises:
        InputError: no sphere fits, or too many do
    """
    bounds = float(np.prod(solid.high - solid.low))
    for volume, most, what in ((solid.volume, MOST_SPHERES, "it"), (bounds, _MOST_PLACES, "its bounding box")):
        count = math.floor(volume * _DENSEST / ball(radius))
        if count > most:
            raise InputError(
                f"{solid.name}: about {count:,} spheres of radius {radius:.3g} m would go into {what}, and at most "
                f"{most:,} are allowed: lower {setting}"
            )
    found: list[tuple[int, float, Array]] = []
    looked = 0
    for batch in _batches(_lattices(solid.low + radius, solid.high - radius, radius, solid.slack)):
        fits = solid.fits(np.concatenate(batch), radius - solid.slack)
        looked += len(fits)
        for points, fit in zip(batch, np.split(fits, np.cumsum([len(points) for points in batch])[:-1]), strict=True):
            if fit.any():
                centre = points[fit]
                gaps = np.maximum(centre.min(axis=0) - solid.low, solid.high - centre.max(axis=0))
                found.append((len(centre), round(float(gaps.max()) / radius, 3), centre))
        least = _NEAR * max((count for count, _, _ in found), default=0)
        found = [entry for entry in found if entry[0] >= least]
        if found and looked > _BUDGET:
            break
    if not found:
        raise InputError(f"no sphere of radius {radius:.3g} m fits into {solid.name}: raise {setting}")
    return min(found, key=lambda entry: (entry[1], -entry[0]))[2]  # the first on a tie


def _batches(lattices: Iterator[Array]) -> Iterator[list[Array]]:
    """Lattices in lists of about _BATCH points: one at a time, small ones take longer to call for than to look at."""
    batch: list[Array] = []
    total = 0
    for points in lattices:
        batch.append(points)
        total += len(points)
        if total >= _BATCH:
            yield batch
            batch, total = [], 0
    if batch:
        yield batch


def _lattices(low: Array, high: Array, radius: float, slack: float) -> Iterator[Array]:
    """Centres between two corners, lattice by lattice (n, 3); in an order that has every kind early."""
    cells = [(cell * radius, points) for cell, points in _cells()]
    ends = list(zip((low - slack).tolist(), (high + slack).tolist(), strict=True))
    for phase in range(2):
        for cell, points in cells:
            origin, sides = _stretched(low, high, cell, points, phase)
            yield _points([_layers(ends[i], origin[i], sides[i], points[:, i]) for i in range(3)])

    @functools.cache
    def shifted(which: int, axis: int, shift: float) -> tuple[Array, NDArray[np.bool_]]:
        cell, points = cells[which]
        origin = 0.5 * (low[axis] + high[axis]) - shift * cell[axis]
        return _layers(ends[axis], origin, cell[axis], points[:, axis])

    shifts = itertools.product((0.0, 0.5, 0.25, 0.75), repeat=3)
    for shift in sorted(shifts, key=lambda s: sum(x % 0.5 > 0.0 for x in s)):
        for which in range(len(cells)):
            yield _points([shifted(which, axis, shift[axis]) for axis in range(3)])


def _layers(ends: tuple[float, float], origin: float, side: float, at: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Of places origin + (k + at) side along one axis, for some whole k and each point of a cell, (l, m): where they
    are, and which are between the ends; k is all for which any is."""
    first, last = math.floor((ends[0] - origin) / side) - 1, math.ceil((ends[1] - origin) / side)
    x = origin + np.add.outer(np.arange(first, last + 1.0), at) * side
    return x, (x >= ends[0]) & (x <= ends[1])


def _points(layers: list[tuple[Array, NDArray[np.bool_]]]) -> Array:
    """Places that are between the ends along all three axes (n, 3)."""
    (x, x_in), (y, y_in), (z, z_in) = layers
    i, j, k, m = np.nonzero(x_in[:, None, None] & y_in[:, None] & z_in)
    return np.stack([x[i, m], y[j, m], z[k, m]], axis=1)


@functools.cache
def _cells() -> list[tuple[Array, Array]]:
    """Cells of lattices of unit spheres: sides (3,), and points in sides of the cell (m, 3); the densest first."""
    a, b = math.sqrt(2.0), math.sqrt(3.0)
    # triangular layers, each shifted from the one below by a third of the cell or two: A B A B and A B C A B C
    layers = [np.array([[0.0, y], [0.5, (y + 0.5) % 1.0]]) for y in (0.0, 2.0 / 3.0, 1.0 / 3.0)]
    kinds: list[tuple[tuple[float, ...], Array]] = [
        ((2.0, 2.0 * b, 2.0 * n * a / b), np.concatenate([np.insert(layers[i], 2, i / n, axis=1) for i in range(n)]))
        for n in (2, 3)
    ]
    # the second again, with square layers: along their rows, and across
    kinds.append(((2.0, 2.0, 2.0 * a), np.array([[0.0, 0.0, 0.0], [0.5, 0.5, 0.5]])))
    kinds.append(((2.0 * a,) * 3, 0.5 * np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])))
    kinds.append(((2.0, 2.0, 2.0), np.zeros((1, 3))))
    turned: dict[tuple[float, ...], tuple[Array, Array]] = {}
    for sides, points in kinds:
        for order in ([0, 1, 2], [1, 0, 2], [2, 0, 1], [0, 2, 1], [1, 2, 0], [2, 1, 0]):
            cell = np.array(sides)[order]
            turned.setdefault((len(points), *cell), (cell, points[:, order]))
    return list(turned.values())


def _stretched(low: Array, high: Array, cell: Array, points: Array, phase: int) -> tuple[Array, Array]:
    """Origin and cell of a lattice whose layers along each axis end at `low` and `high`; a single one is between."""
    origin, sides = np.empty(3), cell.copy()
    for axis in range(3):
        levels = np.unique(points[:, axis])
        first = levels[phase % len(levels)]
        span = max(high[axis] - low[axis], 0.0) / cell[axis]
        heights = np.add.outer(np.arange(math.ceil(span) + 2), levels) - first
        last = heights[heights <= span * (1.0 + _ROUNDING)].max()
        if last > 0.0:
            sides[axis] *= max(span / last, 1.0)
        start = low[axis] if last > 0.0 else 0.5 * (low[axis] + high[axis])
        origin[axis] = start - first * sides[axis]
    return origin, sides
