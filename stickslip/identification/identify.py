"""`identify`: checks what is given, searches, and finds intervals."""

import dataclasses
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from stickslip import spec
from stickslip.errors import InputError, StickslipError
from stickslip.identification import fit, profiles, response, search
from stickslip.identification.fit import Estimate, Fit
from stickslip.identification.measure import Measure
from stickslip.identification.parameter import Parameter
from stickslip.identification.parameters import Delay, Friction
from stickslip.identification.rollouts import LOST, Rollouts
from stickslip.identification.trial import Trial
from stickslip.mjcf import load
from stickslip.physics import registry
from stickslip.physics.base import Physics
from stickslip.progress import progress_bar
from stickslip.simulation.simulation import resolve_device

FEWEST = 8
"""Candidates of a generation, at least."""
WORLDS_CPU, WORLDS_CUDA = 64, 2048
"""Worlds at a time, unless they are given."""
_MOVES = 3.0
"""A measurement that changes by fewer times its noise does not move."""
_RESTARTS = 3
_DRAWS = 16
"""Candidates within the intervals, from which held-out trials get their floor."""
_PROBES = 4
"""Candidates from which each parameter is moved to its bounds, to see whether anything depends on it."""


def identify(
    model: str | os.PathLike[str] | mujoco.MjSpec | mujoco.MjModel,
    physics: str | Physics[Any, Any] | None = None,
    *,
    data: Sequence[Trial],
    held_out: Sequence[Trial],
    parameters: Sequence[Parameter],
    measure: Measure | Sequence[str] | str | None = None,
    nworld: int | None = None,
    generations: int = 25,
    seed: int = 0,
    device: str | None = None,
    threads: int = 1,
    progress: bool = False,
) -> Fit:
    """Identify parameters of a model under a contact physics from trials.

    CMA-ES searches over worlds, one candidate and trial each; least squares find the last digits; profiles give
    intervals. The same seed gives the same result on a CPU.

    Args:
        model: the model, as for `load`; its timestep is that of the rollouts
        physics: the contact physics, or its name; None: the default
        data: trials to fit
        held_out: trials that are not fitted, but tested; `()` if there are none, and the result says so
        parameters: what to identify: `Friction`, `Mass`, `Stiffness`, ...
        measure: names of channels, or a `Measure`; None: the channels that the trials name
        nworld: worlds at a time; None: 64 on a CPU, 2048 on a GPU, and at least 8 candidates
        generations: of CMA-ES, at most
        seed: of random numbers
        device: such as cpu or cuda:0; None: the first GPU, or the CPU
        threads: that share the worlds, on a CPU
        progress: show a bar
    """
    began = time.perf_counter()
    mjm = load(model)
    named = registry.DEFAULT if physics is None else physics
    chosen = spec.resolve(named, registry.PHYSICS, "physics") if isinstance(named, str) else named
    _check(data, held_out, parameters, generations)
    place = str(resolve_device(device))
    if nworld is None:
        nworld = max(WORLDS_CUDA if place.startswith("cuda") else WORLDS_CPU, FEWEST * len(data))
    if nworld < 4 * len(data):
        raise InputError(f"nworld is {nworld}: a generation has 4 candidates or more, so {4 * len(data)} worlds here")
    rollouts = Rollouts(mjm, chosen, data, parameters, measure, nworld, place, threads)
    told = _Told(progress, generations + len(parameters))
    with told.bar:
        result = _search(rollouts, parameters, generations, seed, told)
    values = search.Coordinates(parameters).values(result.z)
    count, lost = rollouts.count, rollouts.lost
    tested, spread, seen = None, None, ()
    if held_out:
        test = Rollouts(mjm, chosen, held_out, parameters, measure, _DRAWS * len(held_out), place, threads)
        tested, spread = _test(test, parameters, result, seed)
        seen = tuple(test.predict(values))
    return Fit(
        estimates={estimate.parameter.name: estimate for estimate in result.estimates},
        residual=result.residual,
        floor=result.floor,
        held_out=tested,
        held_out_floor=spread,
        physics=spec.written(chosen.name, chosen),
        trials=tuple(data),
        held_out_trials=tuple(held_out),
        predicted=tuple(rollouts.predict(values)),
        held_out_predicted=seen,
        rollouts=count,
        lost=lost,
        seconds=time.perf_counter() - began,
        history=tuple(result.history),
        mjm=mjm,
    )


class _Told:
    """The bar over generations and profiles."""

    def __init__(self, shown: bool, total: int) -> None:
        self.bar = progress_bar(Console(stderr=True, quiet=not shown))
        self._task = self.bar.add_task("identify", total=total)

    def __call__(self, text: str) -> None:
        self.bar.update(self._task, advance=1, description=text)


@dataclasses.dataclass(frozen=True, eq=False)
class _Result:
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


def _search(
    rollouts: Rollouts, parameters: Sequence[Parameter], generations: int, seed: int, told: Callable[[str], None]
) -> _Result:
    coordinates = search.Coordinates(parameters)

    def evaluate(z: NDArray[np.floating]) -> NDArray[np.floating]:
        return search.huber(rollouts.residuals(coordinates.values(z)))

    _refuse_useless(evaluate, parameters, seed)
    n = rollouts.nresidual

    def tell(cost: float) -> None:
        told(f"search, residual over noise {np.sqrt(cost / n):.3g}")

    found = search.sample(evaluate, len(parameters), rollouts.candidates, generations, seed, tell)
    z = found.z
    for _ in range(_RESTARTS):  # a profile may find something better
        around = response.settle(evaluate, z, seed)
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
    off = _rms(rollouts, coordinates.values(found.z), len(parameters))
    covariance = scale * around.covariance + around.scatter
    return _Result(found.z, covariance, off, around.floor, estimates, found.best)


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


def _test(
    rollouts: Rollouts, parameters: Sequence[Parameter], result: _Result, seed: int
) -> tuple[float, float]:  # fmt: skip
    """Residual over noise of held-out trials, and what it is, about, if the model is right.

    Parameters that are identified may be anywhere in their intervals. What their candidates differ by, roughness
    included, the recording may be off by from each of them.
    """
    coordinates = search.Coordinates(parameters)
    known = np.array([estimate.identified for estimate in result.estimates])
    draws = np.random.default_rng(seed).multivariate_normal(np.zeros(len(known)), result.covariance, _DRAWS)
    points = np.clip(result.z + np.where(known, draws, 0.0), -search.EDGE, search.EDGE)
    found = rollouts.residuals(coordinates.values(points))
    found = found[np.abs(found).max(axis=1) < LOST]
    spread = float(found.var(axis=0, ddof=1).mean()) if len(found) > 1 else 0.0
    return _rms(rollouts, coordinates.values(result.z), 0), float(np.sqrt(1.0 + 2.0 * spread))


def _rms(rollouts: Rollouts, values: NDArray[np.floating], fitted: int) -> float:
    """Root mean square of what the measurements are off by, over their noise."""
    off = rollouts.residuals(values[None])[0]
    return float(np.sqrt((off**2).sum() / max(1, len(off) - fitted)))


def _check(
    data: Sequence[Trial], held_out: Sequence[Trial], parameters: Sequence[Parameter], generations: int
) -> None:  # fmt: skip
    for name, trials in (("data", data), ("held_out", held_out)):
        if isinstance(trials, Trial) or not all(isinstance(trial, Trial) for trial in trials):
            raise InputError(f"{name} must be a list of trials, got {trials!r:.80}")
    if not data:
        raise InputError("data is empty: give one trial or more")
    if not parameters:
        raise InputError("parameters is empty: name what to identify, such as Friction('box', 0.05, 2.0)")
    for parameter in parameters:
        if not isinstance(parameter, Parameter):
            raise InputError(f"parameters must be Friction, Mass, ..., got {parameter!r:.80}")
    names = [parameter.name for parameter in parameters]
    doubled = [name for name in names if names.count(name) > 1]
    if doubled:
        raise InputError(f"two parameters are the {doubled[0]}; name it once")
    if sum(isinstance(parameter, Delay) for parameter in parameters) > 2:
        raise InputError("there can be one delay of measurements and one of controls")
    if isinstance(generations, bool) or not isinstance(generations, int) or generations < 1:
        raise InputError(f"generations is {generations!r}: it must be a whole number of 1 or more")
    moves = [
        float((np.ptp(np.where(np.isfinite(trial.noise), trial.measured, trial.measured[:1]), axis=0)
               / np.min(trial.noise, axis=0)).max())
        for trial in data
    ]  # fmt: skip
    if max(moves) < _MOVES:
        raise InputError(
            f"nothing moves in the data: no measurement changes by more than {max(moves):.2g} times its noise; take "
            "trials with motion"
        )
