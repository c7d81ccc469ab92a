"""Profiles: the cost over one parameter with the others fitted again, and the interval that it gives."""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from stickslip.identification import search
from stickslip.identification.response import Response
from stickslip.identification.search import EDGE, Array, Evaluate

RISE = 3.84
"""By how much the cost may rise within the interval: 95 % of a chi-square distribution with one degree of freedom."""
_OFFSETS = np.array([0.7, 1.4, 2.0, 2.8, 5.0, 15.0])
"""Where a profile is looked at, in standard errors as the Jacobian has them."""
_REFINE = np.array([0.25, 0.5, 0.75])
_CLOSE, _NARROW = 2.5, 0.01
"""The end of an interval is interpolated to a point whose cost is so many times the rise, or that is so near."""
_ITERATIONS = 2
_ROUGH, _JUMP = 0.25, 0.01
"""Roughness counts from this share of the variance by noise on, or if costs jump: by twice the root of the sum of the
squares that are left, which is 0.2 here, a twentieth of the rise."""


@dataclasses.dataclass(eq=False)
class Profile:
    """The cost over one coordinate, the others fitted.

    Attributes:
        z: points of the coordinate, ascending                 (n,)
        rise: cost above the lowest, over its scale            (n,)
        low, high: ends of the interval
        better: coordinates of a candidate that is better than the best so far; None: there was none
    """

    z: Array
    rise: Array
    low: float
    high: float
    better: Array | None = None


def profile(evaluate: Evaluate, found: search.Found, around: Response, k: int, scale: float) -> Profile:
    """The profile of coordinate k.

    Where the response is rough, costs say little: the profile is then that of the regression, with what roughness does
    to the parameters in its width.

    Args:
        evaluate: residuals of candidates
        found: the best candidate, and all that were seen
        around: the response there
        k: number of the coordinate
        scale: by which costs are divided: the square of the residual over its floor
    """
    z, free, normal = found.z, np.arange(len(found.z)) != k, around.normal
    noise = scale * around.covariance[k, k]
    if around.scatter[k, k] > _ROUGH * noise or around.left > _JUMP * scale:
        return _quadratic(z[k], float(np.sqrt(noise + around.scatter[k, k])))
    error = min(max(float(np.sqrt(noise)), 1e-4), 1.0)
    points = _clipped(z[k] + error * np.concatenate([-_OFFSETS[::-1], _OFFSETS]), z[k])
    at, rise = np.array([z[k]]), np.array([0.0])
    starts = z[None]
    while len(points):
        begin = _beginnings(found, starts, at, points, normal, k)
        placed, costs, _ = search.polish(evaluate, begin, np.tile(free, (len(begin), 1)), _ITERATIONS)
        if costs.min() < found.cost - 0.5 * scale:
            return Profile(at, rise, z[k], z[k], placed[costs.argmin()])
        order = np.argsort(np.concatenate([at, points]))
        at = np.concatenate([at, points])[order]
        rise = np.concatenate([rise, (costs - found.cost) / scale])[order]
        starts = np.concatenate([starts, placed])[order]
        points = _open(at, rise, z[k], error)
    near = (found.costs - found.cost) / scale < RISE  # another mode of the cost counts, too
    others = found.seen[near, k]
    low = min(_crossing(at, rise, -1), others.min(initial=z[k]))
    high = max(_crossing(at, rise, +1), others.max(initial=z[k]))
    return Profile(at, rise, float(low), float(high))


def _quadratic(centre: float, error: float) -> Profile:
    """The profile of a normal distribution."""
    at = (centre + error * np.linspace(-4.0, 4.0, 17)).clip(-EDGE, EDGE)
    reach = np.sqrt(RISE) * error
    ends = np.clip([centre - reach, centre + reach], -EDGE, EDGE)
    return Profile(at, ((at - centre) / error) ** 2, float(ends[0]), float(ends[1]))


def _clipped(points: Array, centre: float) -> Array:
    inside = np.unique(points.clip(-EDGE, EDGE))
    return inside[np.abs(inside - centre) > 1e-6]


def _beginnings(
    found: search.Found, starts: Array, at: Array, points: Array, normal: Array, k: int
) -> NDArray[np.floating]:
    """Where the fits of the other coordinates begin: at the nearest point that was fitted, moved along the valley."""
    free = np.flatnonzero(np.arange(len(found.z)) != k)
    nearest = np.abs(points[:, None] - at[None]).argmin(axis=1)
    out = starts[nearest].copy()
    if len(free):
        matrix = normal[np.ix_(free, free)]
        slope = -np.linalg.lstsq(matrix, normal[free, k], rcond=1e-9)[0]
        move = (points - out[:, k])[:, None] * slope[None]
        out[:, free] += move.clip(-1.0, 1.0)
    out[:, k] = points
    return out.clip(-EDGE, EDGE)


def _open(at: Array, rise: Array, centre: float, error: float) -> Array:
    """Points that are still missing: between the last one below the rise and the first above, and up to the bounds."""
    missing: list[float] = []
    for sign in (-1, 1):
        side = sign * (at - centre) >= 0.0
        where, height = at[side][::sign], rise[side][::sign]
        below = np.flatnonzero(height < RISE)
        last = int(below.max()) if below.size else 0
        if last == len(where) - 1:
            edge = sign * EDGE
            if abs(where[last] - edge) > 1e-6:
                reach = 3.0 * max(abs(where[last] - centre), error)
                missing.append(float(np.clip(centre + sign * reach, -EDGE, EDGE)))
        elif height[last + 1] > _CLOSE * RISE and abs(where[last + 1] - where[last]) > _NARROW:
            missing += list(where[last] + _REFINE * (where[last + 1] - where[last]))
    return np.array(missing)


def _crossing(at: Array, rise: Array, sign: int) -> float:
    """Where the profile leaves the interval for good, on one side; the bound if it never does."""
    below = np.flatnonzero(rise < RISE)
    last = int(below.max() if sign > 0 else below.min())
    after = last + sign
    if not 0 <= after < len(at):
        return sign * EDGE
    a, b = (np.sqrt(max(float(rise[i]), 0.0)) for i in (last, after))
    return float(at[last] + (np.sqrt(RISE) - a) / (b - a) * (at[after] - at[last]))
