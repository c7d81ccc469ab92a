"""The response of measurements to parameters around a point, and how rough it is.

Contacts that come and go make a rollout jump where a parameter changes a little, in some physics more than in others. A
difference quotient is then noise, and so is the lowest of many costs. So residuals are regressed on the parameters of
many candidates around a point. The regression gives the Jacobian and the best parameters; what it leaves is the
roughness. The measurements have theirs, too, and what it does to the parameters belongs into their interval.
"""

import dataclasses

import numpy as np

from stickslip.identification.search import EDGE, Array, Evaluate, cost, jacobians, polish

_ROUNDS = 10
_FIRST, _LEAST = 0.1, 0.001
"""Half the width of the region: at first, and at least."""
_SHRINK, _SAME = 3.0, 4.0
"""By how much a region shrinks, and by how much at least what is left then has to."""
_SMOOTH = 0.25
"""Share of the standard error up to which what is left does not matter."""
_POINTS, _MANY = 16, 64
"""Points of a region, at least; where the response is rough."""
_PRIOR = 1.0 / EDGE**2
"""Weight of a coordinate of 0, so that what no measurement depends on stays finite."""
_MOVES = 3
"""Regressions over many points, at most; there is another one if the best point is outside of the region."""
_ITERATIONS, _DIFFERENCE = 50, 1e-5
"""Of least squares on a formula, at most, and the differences of its Jacobian."""
_STILL = 0.1
"""A step of fewer standard errors is the last."""


@dataclasses.dataclass(eq=False)
class Response:
    """Measurements around the best parameters.

    Attributes:
        z: coordinates of the best parameters                                         (n,)
        cost: of them, by the regression
        normal: J'J                                                                   (n, n)
        rough: root mean square of what the regression leaves, over the noise
        left: sum of its squares over the measurements of a candidate
        scatter: covariance of the coordinates that this alone causes                 (n, n)
    """

    z: Array
    cost: float
    normal: Array
    rough: float
    left: float
    scatter: Array

    @property
    def floor(self) -> float:
        """Residual over noise of a model that is right: it and the measurements are as rough as each other."""
        return float(np.sqrt(1.0 + 2.0 * self.rough**2))

    @property
    def covariance(self) -> Array:
        """Covariance of the coordinates that the noise causes, (n, n)."""
        return np.linalg.inv(self.normal + _PRIOR * np.eye(len(self.z)))


def settle(evaluate: Evaluate, z: Array, seed: int) -> Response:
    """Gauss-Newton steps with Jacobians by regression, in ever smaller regions.

    What a regression leaves is roughness only if a smaller region leaves as much; else it is curvature. Where it is
    roughness, a regression over many points is the answer: the lowest of many costs is that of the luckiest jumps.
    """
    rng = np.random.default_rng(seed)
    width = around = np.full(len(z), _FIRST)
    best, left, first = None, np.full(len(z), np.inf), z
    for _ in range(_ROUNDS):
        found, step = _look(evaluate, z, width, rng)
        if best is not None and found.cost > best.cost + max(1.0, 0.01 * best.cost, best.left):  # too far: half the way
            z, width = 0.5 * (best.z + z), width / _SHRINK
            continue
        noise, rough = np.sqrt(np.diag(found.covariance)), np.sqrt(np.diag(found.scatter))
        if best is not None and (rough > left / _SAME).any() and (rough > _SMOOTH * noise).any():
            return _average(evaluate, best.z, around, rng)
        best, left, around = found, rough, width
        small = (rough < _SMOOTH * noise).all()
        if small and (np.abs(step) < _STILL * noise).all():
            break
        z = np.clip(z + step.clip(-1.0, 1.0), -EDGE, EDGE)
        width = np.clip(noise, _LEAST, _FIRST) if small else np.maximum(width / _SHRINK, _LEAST)
    assert best is not None
    before, after = cost(evaluate(np.stack([first, best.z])))
    if after < before + 1.0:
        return best
    return _average(evaluate, first, np.full(len(z), _FIRST), rng)  # smooth only where it ended


def differentiate(evaluate: Evaluate, z: Array) -> Response:
    """The response of a formula, which does not jump, at the end of Levenberg-Marquardt from a point."""
    free = np.ones((1, len(z)), dtype=bool)
    placed, costs, _ = polish(evaluate, z[None], free, _ITERATIONS)
    _, slopes = jacobians(evaluate, placed, free, np.full(placed.shape, _DIFFERENCE))
    normal = slopes[0].T @ slopes[0]
    return Response(placed[0], float(costs[0]), normal, 0.0, 0.0, np.zeros(normal.shape))


def _average(evaluate: Evaluate, z: Array, width: Array, rng: np.random.Generator) -> Response:
    """The response around the best point that a regression over many points foretells."""
    for _ in range(_MOVES):
        found, step = _look(evaluate, z, width, rng, _MANY)
        z = np.clip(z + step.clip(-1.0, 1.0), -EDGE, EDGE)
        if (np.abs(step) < width).all():
            break
    foretold = found.cost - step @ (found.normal + 2.0 * _PRIOR * np.eye(len(z))) @ step
    return dataclasses.replace(found, z=z, cost=max(float(foretold), 0.0))


def _look(
    evaluate: Evaluate, z: Array, width: Array, rng: np.random.Generator, least: int = _POINTS
) -> tuple[Response, Array]:
    """The response around a point, by that many candidates at least, and the step to the best point it foretells."""
    n = len(z)
    pairs = [(i, j) for i in range(n) for j in range(i, n)]
    terms = 1 + n + len(pairs)
    count = max(least, 2 * terms)
    at = rng.uniform(-1.0, 1.0, (count // 2, n))
    at = np.concatenate([at, -at])
    basis = np.concatenate(
        [np.ones((len(at), 1)), at, np.stack([at[:, i] * at[:, j] for i, j in pairs], axis=1)], axis=1
    )
    residuals = evaluate(z + width * at)
    weights = np.linalg.lstsq(basis, residuals, rcond=None)[0]
    left = (residuals - basis @ weights) * np.sqrt(len(at) / (len(at) - terms))
    centre, slope = weights[0], weights[1 : 1 + n].T / width
    normal = slope.T @ slope
    back = np.linalg.solve(normal + _PRIOR * np.eye(n), slope.T)
    shifts = left @ back.T
    scatter = shifts.T @ shifts / len(shifts)
    square = float((left**2).mean())
    return Response(z, float(cost(centre)), normal, square**0.5, square * left.shape[1], scatter), -back @ centre
