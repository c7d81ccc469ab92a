"""`rollouts`: how many rollouts a minute an identification has, of a finger that pushes a T for 0.8 s.

A rollout is one candidate in one trial. Timed is all that a generation takes: to write candidates into their worlds, to
simulate the two pushes of `identify`, to bring what is measured to the host, and to compare it. Candidates are spread
over all bounds, as in the first generation. Nothing is compiled or allocated then.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stickslip.bench import timing
from stickslip.bench.experiment import Experiment, Outcome, Score, Trial, problems
from stickslip.bench.experiments.identification.identify import FITTED, parameters
from stickslip.bench.report import series, style
from stickslip.bench.result import Result
from stickslip.identification import pushes, search
from stickslip.identification.rollouts import Rollouts
from stickslip.mjcf import load
from stickslip.parameters import parameter
from stickslip.physics.base import Physics

FRICTION, MASS, PLACE = 0.35, 0.8, 0.001
"""Of the recordings, as in `identify`."""


@dataclasses.dataclass(frozen=True)
class Settings:
    worlds: tuple[int, ...] = parameter(
        (2048, 8192, 32768), "rollouts at a time (fewer on a CPU)", low=len(FITTED), high=1 << 20
    )
    duration: float = parameter(0.8, "of a rollout [s]", low=0.05, high=10.0)
    timestep: float = parameter(0.004, "length of a step [s]", low=1e-4, high=0.01)
    repeats: int = parameter(3, "generations that are timed, of which the median counts", low=1, high=1000)
    threads: int = parameter(1, "that share the worlds on a CPU", low=1, high=1024)


class RolloutRate(Experiment[Settings]):
    name = "rollouts"
    summary = "rollouts a minute while friction and mass of a pushed T are identified"
    source = "stickslip"
    settings = Settings
    cpu = {"worlds": (64, 640), "threads": 2}
    quick = {"worlds": (4,), "duration": 0.1, "repeats": 1}
    timing = True

    def cases(self, settings: Settings) -> Mapping[str, int]:
        return {f"{worlds} worlds": worlds for worlds in settings.worlds}

    def measure(self, case: int, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        data = [
            pushes.record(
                push, FRICTION, MASS, place=PLACE, timestep=settings.timestep, duration=settings.duration, name=name
            )
            for name, push in FITTED.items()
        ]
        mjm = load(pushes.SCENE, timestep=settings.timestep)
        rollouts = Rollouts(mjm, physics, data, parameters(), None, case, trial.device, settings.threads)
        z = trial.random().uniform(-3.0, 3.0, (rollouts.candidates, 2))
        values = search.Coordinates(parameters()).values(z)
        rollouts.residuals(values)
        count, rollouts.lost, seconds = len(values) * len(data), 0, []
        with timing.undisturbed():
            for repeat in range(settings.repeats):
                seconds.append(timing.elapsed(rollouts.sim, lambda: rollouts.residuals(values), 1, trial))
                trial.progress((repeat + 1) / settings.repeats)
        middle = float(np.median(seconds))
        metrics = {
            "rollouts_per_minute": 60.0 * count / middle if middle > 0.0 else float("nan"),
            "seconds_for_640": 640.0 * middle / count,
            "lost_percent": 100.0 * rollouts.lost * len(data) / (count * settings.repeats),
        }
        return Outcome(metrics, {"seconds": seconds}, problems(rollouts.sim))

    def relate(self, result: Result) -> None:
        timing.add_ratios(result, "rollouts_per_minute", "speedup", best="high")

    def scores(self, settings: Settings) -> Sequence[Score]:
        return [
            Score(f"rollouts of {settings.duration:g} s in a minute, {case}", case, "rollouts_per_minute", "", "high")
            for case in self.cases(settings)
        ]

    def draw(self, result: Result) -> Any:
        title = f"rollouts: identification on {result.machine['device']}"
        fig, axes = style.figure(title, 1, 1, height=4.0, width=11.0)
        series.bars(axes[0, 0], result, result.cases, "rollouts_per_minute", result.cases)
        duration = result.settings["duration"]
        style.label(axes[0, 0], f"rollouts of {duration:g} s in a minute, all that a generation takes", "", "")
        style.legend(fig, axes)
        return fig
