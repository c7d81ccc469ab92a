"""Search: coordinates without bounds, CMA-ES over worlds, then least squares for the last digits."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from stickslip.errors import MissingExtra
from stickslip.identification.parameter import Parameter

Array = NDArray[np.floating]
Evaluate = Callable[[Array], Array]
"""Coordinates of candidates, (n, nparameter), to their residuals, (n, nresidual), as in `huber`."""

HUBER = 3.0
"""Residuals beyond so many times the noise count by their size, not by its square."""
EDGE = 7.0
"""The largest coordinate: within a thousandth of a bound."""
_SPREAD = 1.0
_STEP = 0.02
_STEPS = (0.002, 0.05)
_DAMPINGS = (0.0, 0.1, 10.0)
_ENOUGH = 0.05
"""Costs that differ by less are the same: a parameter is known to within 3.84."""


class Coordinates:
    """Maps parameters, by the logistic function between their bounds, to numbers without bounds."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self._ratio = np.array([p.ratio for p in parameters])
        ends = np.array([[p.low, p.high] for p in parameters], dtype=float).T
        self._low, self._high = (np.where(self._ratio, np.log(np.where(self._ratio, end, 1.0)), end) for end in ends)

    def values(self, z: Array) -> Array:
        """Parameters at coordinates, (..., nparameter)."""
        share = 1.0 / (1.0 + np.exp(-z))
        scale = self._low + (self._high - self._low) * share
        return np.where(self._ratio, np.exp(np.where(self._ratio, scale, 0.0)), scale)

    def at(self, values: Array) -> Array:
        """Coordinates of parameters within their bounds."""
        scale = np.where(self._ratio, np.log(np.where(self._ratio, values, 1.0)), values)
        share = np.clip((scale - self._low) / (self._high - self._low), 1e-9, 1.0 - 1e-9)
        return np.clip(np.log(share / (1.0 - share)), -EDGE, EDGE)


def huber(off: Array) -> Array:
    """Residuals whose squares add up to Huber's cost."""
    size = np.abs(off)
    return np.where(size <= HUBER, off, np.sign(off) * np.sqrt(HUBER * (2.0 * np.maximum(size, HUBER) - HUBER)))


def cost(residuals: Array) -> Array:
    """Cost of each candidate."""
    return np.einsum("...i,...i->...", residuals, residuals)


@dataclasses.dataclass(eq=False)
class Found:
    """What a search has come to.

    Attributes:
        z: coordinates of the best candidate                     (nparameter,)
        cost: its cost
        seen: coordinates of all candidates that were simulated  (n, nparameter)
        costs: their costs                                       (n,)
        best: the lowest cost after each generation
    """

    z: Array
    cost: float
    seen: Array
    costs: Array
    best: list[float]


def sample(
    evaluate: Evaluate, nparameter: int, population: int, generations: int, seed: int, told: Callable[[float], None]
) -> Found:
    """CMA-ES from the best of candidates that are spread over all bounds.

    Args:
        evaluate: residuals of candidates
        nparameter: number of coordinates
        population: candidates of a generation
        generations: at most
        seed: of random numbers
        told: is told the lowest cost after each generation
    """
    try:
        from cmaes import CMA
    except ImportError:
        raise MissingExtra("identification needs cmaes: pip install 'stickslip[identify]'") from None
    rng = np.random.default_rng(seed)
    strata = np.stack([rng.permutation(population) for _ in range(nparameter)], axis=1)
    share = (strata + rng.random(strata.shape)) / population
    z = np.log(share / (1.0 - share)).clip(-EDGE, EDGE)
    seen, costs, best = [z], [cost(evaluate(z))], []
    best.append(float(costs[0].min()))
    told(best[-1])
    cma = CMA(z[costs[0].argmin()], _SPREAD, seed=seed, population_size=max(population, 4))
    for _ in range(generations - 1):
        z = np.stack([cma.ask() for _ in range(cma.population_size)]).clip(-EDGE, EDGE)
        found = cost(evaluate(z))
        cma.tell(list(zip(z, found.tolist(), strict=True)))
        seen.append(z)
        costs.append(found)
        best.append(min(best[-1], float(found.min())))
        told(best[-1])
        half = np.sort(found)[: max(2, len(found) // 2)]
        if half[-1] - half[0] < _ENOUGH * max(1.0, half[0] * 1e-2) or cma.should_stop():
            break
    everything, every_cost = np.concatenate(seen), np.concatenate(costs)
    k = int(every_cost.argmin())
    return Found(everything[k].copy(), float(every_cost[k]), everything, every_cost, best)


def jacobians(evaluate: Evaluate, z: Array, free: NDArray[np.bool_], step: Array) -> tuple[Array, Array]:
    """Residuals (n, nresidual) and Jacobians (n, nresidual, nparameter) at n points, by central differences.

    Args:
        evaluate: residuals of candidates
        z: points, (n, nparameter)
        free: which coordinates of each may change, likewise; columns of the others are 0
        step: differences, (n, nparameter)
    """
    n, dim = z.shape
    points = [z]
    where = np.argwhere(free)
    shift = np.zeros((len(where), dim))
    shift[np.arange(len(where)), where[:, 1]] = step[where[:, 0], where[:, 1]]
    points += [z[where[:, 0]] + shift, z[where[:, 0]] - shift]
    found = evaluate(np.concatenate(points))
    out = np.zeros((n, found.shape[1], dim))
    ahead, behind = found[n : n + len(where)], found[n + len(where) :]
    slope = (ahead - behind) / (2.0 * step[where[:, 0], where[:, 1]])[:, None]
    out[where[:, 0], :, where[:, 1]] = slope
    return found[:n], out


def polish(
    evaluate: Evaluate, z: Array, free: NDArray[np.bool_], iterations: int
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Levenberg-Marquardt from n points at once: points, their costs, and J'J of each at the last point but one.

    Dampings are tried side by side. A step is taken only if the cost falls.
    """
    z, step = z.copy(), np.full(z.shape, _STEP)
    n, dim = z.shape
    alive = np.ones(n, dtype=bool)
    costs, normal = np.full(n, np.inf), np.zeros((n, dim, dim))
    for _ in range(iterations):
        rows = np.flatnonzero(alive)
        residuals, slopes = jacobians(evaluate, z[rows], free[rows], step[rows])
        costs[rows] = cost(residuals)
        normal[rows] = np.einsum("nrk,nrl->nkl", slopes, slopes)
        size = np.sqrt(np.einsum("nkk->nk", normal[rows]))
        step[rows] = np.clip(0.5 / np.maximum(size, 1e-12), *_STEPS)
        gradient = np.einsum("nrk,nr->nk", slopes, residuals)
        tries = np.stack([z[rows] + _steps(normal[rows], gradient, free[rows], d) for d in _DAMPINGS], axis=1)
        tries = tries.clip(-EDGE, EDGE)
        found = cost(evaluate(tries.reshape(-1, dim))).reshape(len(rows), -1)
        pick = found.argmin(axis=1)
        lower = found[np.arange(len(rows)), pick]
        better = lower < costs[rows]
        gain = costs[rows] - lower
        z[rows[better]] = tries[better, pick[better]]
        costs[rows[better]] = lower[better]
        alive[rows] = gain > _ENOUGH
        if not alive.any():
            break
    return z, costs, normal


def _steps(normal: Array, gradient: Array, free: NDArray[np.bool_], damping: float) -> Array:
    """Steps down, (n, nparameter), each at most 1 long."""
    out = np.zeros(gradient.shape)
    for k in range(len(out)):
        on = free[k]
        if not on.any():
            continue
        matrix = normal[k][np.ix_(on, on)]
        scale = np.diag(matrix)
        matrix = matrix + np.diag(damping * scale + 1e-9 * scale.max(initial=0.0) + 1e-12)
        step = np.zeros(len(on))
        step[on] = -np.linalg.solve(matrix, gradient[k][on])
        out[k] = step / max(1.0, float(np.abs(step).max()))
    return out
