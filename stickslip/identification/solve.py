"""The best parameters of anything that has residuals, with intervals: search, least squares, profiles."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stickslip.errors import InputError, StickslipError
from stickslip.identification import fit, profiles, response, search
from stickslip.identification.fit import Estimate
from stickslip.identification.parameter import Parameter
from stickslip.identification.parameters import Friction

_RESTARTS = 3
_PROBES = 4
"""Candidates from which each parameter is moved to its bounds, to see whether anything depends on it."""


class Problem(Protocol):
    """What is off by how much, for candidates."""

    @property
    def candidates(self) -> int:
        """Candidates of a generation."""
        ...

    @property
    def nresidual(self) -> int:
        """Number of measurements."""
        ...

    def residuals(self, values: NDArray[np.floating]) -> NDArray[np.floating]:
        """What measurements are off by, over their noise, for candidates (n, nparameter): (n, nresidual)."""
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class Solution:
    """What was found: the best parameters, and what else `Fit` is made of.

    Attributes:
        z: coordinates of the best parameters                              (n,)
        covariance: of them, by noise and roughness                        (n, n)
        residual, floor: over the noise, as in `Fit`
        estimates: one for each parameter
        history: the lowest cost after each generation of the search
    """

    z: NDArray[np.floating]
    covariance: NDArray[np.floating]
    residual: float
    floor: float
    estimates: list[Estimate]
    history: list[float]


def solve(
    problem: Problem,
    parameters: Sequence[Parameter],
    generations: int,
    seed: int,
    told: Callable[[str], None],
    *,
    smooth: bool = False,
) -> Solution:
    """The best parameters and their intervals.

    Args:
        problem: residuals of candidates
        parameters: what the columns of candidates are
        generations: of CMA-ES, at most
        seed: of random numbers
        told: is told what is done
        smooth: whether residuals are a formula, which does not jump; least squares then end the search
    """
    coordinates = search.Coordinates(parameters)

    def evaluate(z: NDArray[np.floating]) -> NDArray[np.floating]:
        return search.huber(problem.residuals(coordinates.values(z)))

    _refuse_useless(evaluate, parameters, seed)
    n = problem.nresidual

    def tell(cost: float) -> None:
        told(f"search, residual over noise {np.sqrt(cost / n):.3g}")

    found = search.sample(evaluate, len(parameters), problem.candidates, generations, seed, tell)
    z = found.z
    for _ in range(_RESTARTS):  # a profile may find something better
        around = response.differentiate(evaluate, z) if smooth else response.settle(evaluate, z, seed)
        scale = max(1.0, around.cost / max(1, n - len(parameters)) / around.floor**2)
        found = dataclasses.replace(found, z=around.z, cost=float(search.cost(evaluate(around.z[None]))[0]))
        curves: list[profiles.Profile] = []
        for k, parameter in enumerate(parameters):
            told(f"interval of {parameter.name}")
            curves.append(profiles.profile(evaluate, found, around, k, scale))
            if curves[-1].better is not None:
                break
        if curves[-1].better is None:
            break
        z = curves[-1].better
    else:
        raise StickslipError(
            f"profiles still found better values after {_RESTARTS} searches: the cost has many minima; take more "
            "worlds or generations, or shorter trials"
        )
    estimates = [_estimate(parameters, coordinates, found.z, k, curve) for k, curve in enumerate(curves)]
    left = problem.residuals(coordinates.values(found.z)[None])[0]
    off = float(np.sqrt((left**2).sum() / max(1, n - len(parameters))))
    covariance = scale * around.covariance + around.scatter
    return Solution(found.z, covariance, off, around.floor, estimates, found.best)


def _estimate(
    parameters: Sequence[Parameter],
    coordinates: search.Coordinates,
    z: NDArray[np.floating],
    k: int,
    curve: profiles.Profile,
) -> Estimate:
    def value(at: NDArray[np.floating]) -> NDArray[np.floating]:
        rows = np.tile(z, (len(at), 1))
        rows[:, k] = at
        return coordinates.values(rows)[:, k]

    best, low, high = value(np.array([z[k], curve.low, curve.high])).tolist()
    shape = np.stack([value(curve.z), curve.rise], axis=1)
    return Estimate(parameters[k], best, low, high, fit.judge(parameters[k], low, high), shape)


def _refuse_useless(evaluate: search.Evaluate, parameters: Sequence[Parameter], seed: int) -> None:
    """Raise InputError for a parameter that changes no measurement, wherever it is moved from bound to bound."""
    rng = np.random.default_rng(seed)
    dim = len(parameters)
    base = rng.uniform(-1.5, 1.5, (_PROBES, dim))
    points = np.tile(base, (2 * dim, 1, 1))
    for k in range(dim):
        points[2 * k, :, k], points[2 * k + 1, :, k] = -search.EDGE, search.EDGE
    found = evaluate(points.reshape(-1, dim)).reshape(dim, 2, _PROBES, -1)
    for k, parameter in enumerate(parameters):
        if (found[k, 0] == found[k, 1]).all():
            hint = ""
            if isinstance(parameter, Friction):
                hint = (
                    "; the friction of a contact is the larger one of two geoms: name both, or give one a priority in "
                    "the model"
                )
            raise InputError(
                f"no measurement depends on the {parameter.name}, from {parameter.low:g} to {parameter.high:g}: leave "
                f"it out, or take trials in which it matters{hint}"
            )
