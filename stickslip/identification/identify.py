"""`identify`: checks what is given, searches, and tests."""

import os
import time
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from stickslip import spec
from stickslip.errors import InputError
from stickslip.identification import search
from stickslip.identification.fit import Fit
from stickslip.identification.measure import Measure
from stickslip.identification.parameter import Parameter
from stickslip.identification.parameters import Delay
from stickslip.identification.rollouts import LOST, Rollouts
from stickslip.identification.solve import Solution, solve
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
_DRAWS = 16
"""Candidates within the intervals, from which held-out trials get their floor."""


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
        result = solve(rollouts, parameters, generations, seed, told)
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


def _test(
    rollouts: Rollouts, parameters: Sequence[Parameter], result: Solution, seed: int
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
    return _rms(rollouts, coordinates.values(result.z)), float(np.sqrt(1.0 + 2.0 * spread))


def _rms(rollouts: Rollouts, values: NDArray[np.floating]) -> float:
    """Root mean square of what the measurements are off by, over their noise."""
    return float(np.sqrt((rollouts.residuals(values[None])[0] ** 2).mean()))


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
