"""`coverage`: how often an interval holds the truth, over many Ts, pushes and noises.

Each time a T of another friction and mass is pushed twice by a finger that starts a little elsewhere, in the physics
itself, and both are identified from what a camera with noise sees. So the model is right. What is left is noise, how
rough contact is, and whether the search finds the minimum. An interval of 95 % should hold the truth in 19 of 20. The
error tells that it is no wider than it has to be.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stickslip import identification
from stickslip.bench.experiment import Experiment, Outcome, Score, Trial
from stickslip.bench.experiments.identification.identify import PARAMETERS, parameters
from stickslip.bench.report import style
from stickslip.bench.result import Result
from stickslip.errors import MissingExtra, StickslipError, Unsupported
from stickslip.identification import pushes
from stickslip.mjcf import load
from stickslip.parameters import parameter
from stickslip.physics.base import Physics

CASE = "its own data"
RANGES = {"friction": (0.2, 0.6), "mass": (0.4, 1.6)}
"""Of the truth."""
AWAY = 0.005
"""How far the finger may be from the middle of the T [m]."""


@dataclasses.dataclass(frozen=True)
class Settings:
    times: int = parameter(20, "Ts that are identified", low=1, high=100_000)
    noise: float = parameter(0.001, "standard deviation of a measured place [m]", low=1e-6, high=0.1)
    duration: float = parameter(0.8, "of a push [s]", low=0.3, high=10.0)
    timestep: float = parameter(0.004, "length of a step [s]", low=1e-4, high=0.01)
    worlds: int = parameter(2048, "candidates and pushes at a time (fewer on a CPU)", low=8, high=1 << 20)
    generations: int = parameter(12, "of the search, at most", low=1, high=1000)


class Coverage(Experiment[Settings]):
    name = "coverage"
    summary = "how often intervals of friction and mass hold the truth, over many Ts, pushes and noises"
    source = "stickslip"
    settings = Settings
    cpu = {"worlds": 32}
    quick = {"times": 1, "duration": 0.4, "timestep": 0.008, "worlds": 8, "generations": 2}
    only = ("mujoco", "comfree", "cone-sweep", "icf")

    def cases(self, settings: Settings) -> Mapping[str, str]:
        return {CASE: CASE}

    def measure(self, case: str, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        random, mjm = trial.random(), load(pushes.SCENE, timestep=settings.timestep)
        rows: dict[str, list[float]] = {
            f"{name}_{what}": [] for name in PARAMETERS for what in ("truth", "low", "value", "high")
        }
        failed: list[str] = []
        for time in range(settings.times):
            truth = {name: math.exp(random.uniform(*np.log(ends))) for name, ends in RANGES.items()}
            data = [
                pushes.spoil(
                    pushes.record(
                        push.beside(random.uniform(-AWAY, AWAY)), truth["friction"], truth["mass"],
                        place=settings.noise, timestep=settings.timestep, duration=settings.duration,
                        physics=physics, device=trial.device,
                    ),
                    random,
                )
                for push in (pushes.FOOT, pushes.TOP)
            ]  # fmt: skip
            try:
                found = identification.identify(
                    mjm, physics, data=data, held_out=(), parameters=parameters(), nworld=settings.worlds,
                    generations=settings.generations, seed=trial.seed + time, device=trial.device,
                )  # fmt: skip
            except (Unsupported, MissingExtra):
                raise
            except StickslipError as error:
                failed.append(f"no fit of T {time}: {error}")
                found = None
            for name, long in PARAMETERS.items():
                estimate = None if found is None else found.estimates[long]
                row = (math.nan,) * 3 if estimate is None else (estimate.low, estimate.value, estimate.high)
                for what, number in zip(("truth", "low", "value", "high"), (truth[name], *row), strict=True):
                    rows[f"{name}_{what}"].append(number)
            trial.progress((time + 1) / settings.times)
        metrics = {}
        for name in PARAMETERS:
            true, low, value, high = (np.array(rows[f"{name}_{what}"]) for what in ("truth", "low", "value", "high"))
            metrics |= {
                f"{name}_held": float(((low <= true) & (true <= high)).sum()),
                f"{name}_error_percent": 100.0 * float(np.sqrt(np.mean((value / true - 1.0) ** 2))),
                f"{name}_width_percent": 100.0 * float(np.median((high - low) / true)),
            }
        return Outcome(metrics, rows, failed)

    def scores(self, settings: Settings) -> Sequence[Score]:
        return [
            score
            for name in PARAMETERS
            for score in (
                Score(f"{name} inside its interval, of {settings.times} times", CASE, f"{name}_held", "", "high"),
                Score(f"error of {name}, root mean square", CASE, f"{name}_error_percent", "%"),
            )
        ]  # fmt: skip

    def draw(self, result: Result) -> Any:
        ran, times = result.ran(CASE), result.settings["times"]
        title = f"coverage: {times} Ts, each identified from its own two pushes"
        fig, axes = style.figure(title, len(PARAMETERS), max(len(ran), 1), width=15.0, height=2.9)
        for row, name in zip(axes, PARAMETERS, strict=True):
            for ax, method in zip(row, ran, strict=False):
                true, low, value, high = (
                    result.series(method, CASE, f"{name}_{what}") for what in ("truth", "low", "value", "high")
                )
                order = np.argsort(true)
                low, value, high = (100.0 * (part[order] / true[order] - 1.0) for part in (low, value, high))
                shade = style.colour(method, list(result.methods))
                ax.errorbar(
                    np.arange(len(value)), value, [value - low, high - value], fmt="o", ms=3.5, lw=1.2, color=shade,
                    label=style.short(method),
                )  # fmt: skip
                ax.axhline(0.0, ls="--", color=style.REFERENCE, lw=1.2)
                held = result.metric(method, CASE, f"{name}_held")
                style.label(
                    ax, f"{name}: {style.number(held)} of {times} hold the truth", f"Ts by their {name}", "error [%]"
                )
        style.legend(fig, axes)
        return fig
