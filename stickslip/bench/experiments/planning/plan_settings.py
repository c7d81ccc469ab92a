"""`plan-settings`: which sampling planner, with which settings, turns what is hardest for a LEAP-like hand.

As in `plan-mppi`, a plan is timed alone and then acts when it would be ready, so that a planner that takes longer acts
later. The time step, horizon and noise of the tasks `leap-yaw` and `leap-roll` are chosen by this experiment.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from stickslip.bench.experiment import Experiment, Outcome, Score, Trial
from stickslip.bench.experiments.planning import trials as planning
from stickslip.bench.experiments.planning.plan_mppi import time_plan
from stickslip.bench.report import series, style
from stickslip.bench.result import Result
from stickslip.errors import InputError
from stickslip.mpc.planners.catalogue import SAMPLING, settings_of
from stickslip.mpc.planners.sampling import planner as sampling
from stickslip.mpc.realtime.paced import run_paced
from stickslip.mpc.task import compile_problem
from stickslip.mpc.tasks import TASKS
from stickslip.parameters import parameter
from stickslip.physics.base import Physics

PLANNERS = (
    "mppi:dt=0.004,horizon=48,std=0.02",
    "mppi:dt=0.012,horizon=16,std=0.035",
    "mppi:dt=0.012,horizon=24,std=0.035",
    "mppi:dt=0.024,horizon=12,std=0.05",
    "mppi:dt=0.024,horizon=12,std=0.05,temperature=0.001",
    "mppi:dt=0.024,horizon=12,std=0.05,top_fraction=0.1,temperature=1",
    "predictive:dt=0.024,horizon=12,std=0.05",
    "cem:dt=0.024,horizon=12,std=0.05,iterations=1",
    "cem:dt=0.024,horizon=12,std=0.05,iterations=2",
    "dial:dt=0.024,horizon=12,std=0.05,iterations=2",
)
"""Steps from a sixth of a control step to a whole one, with noise that is the same in a control step."""


@dataclasses.dataclass(frozen=True)
class Settings:
    planners: tuple[str, ...] = parameter(PLANNERS, "planners, with settings")
    scenes: tuple[str, ...] = parameter(
        ("leap-yaw tin", "leap-roll cylinder", "leap-roll duck"), "tasks, each with an object"
    )
    trials: int = parameter(20, "trials of each planner in each scene", low=1, high=10_000)
    longest: int = parameter(250, "control steps of a trial, at most", low=2, high=100_000)
    plans: int = parameter(20, "plans that are timed", low=1, high=100_000)


class PlanSettings(Experiment[Settings]):
    name = "plan-settings"
    summary = "a LEAP-like hand turns what is hardest to turn: sampling planners and their settings compared"
    source = "stickslip"
    settings = Settings
    cpu = {
        "planners": ("mppi:samples=32", "cem:samples=32,iterations=1"), "scenes": ("leap-yaw tin",), "trials": 1,
        "longest": 120, "plans": 3,
    }  # fmt: skip
    quick = {
        "planners": ("mppi:samples=4,horizon=4",), "scenes": ("leap-yaw cube",), "trials": 1, "longest": 2, "plans": 1,
    }  # fmt: skip
    only = ("cone-sweep",)
    timing = True

    def cases(self, settings: Settings) -> Mapping[str, str]:
        for planner in settings.planners:
            if planner.partition(":")[0] not in SAMPLING:
                raise InputError(f"planners is {planner!r}: it must be one that samples: {', '.join(SAMPLING)}")
            settings_of(planner)
        for scene in settings.scenes:
            _parts(scene)
        return {planner: planner for planner in settings.planners}

    def measure(self, case: str, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        how: Any = settings_of(case)
        seeds = range(trial.seed, trial.seed + settings.trials)
        metrics, values, problems, ran = {}, {}, [], []
        for place, scene in enumerate(settings.scenes):

            def share(steps: int, ended: int, place: int = place) -> None:
                done = min(1.0, max(steps / settings.longest, ended / len(seeds)))
                trial.progress((place + done) / len(settings.scenes))

            name, thing = _parts(scene)
            task = dataclasses.replace(TASKS[name], longest=settings.longest)
            problem = compile_problem(task, thing)
            times = time_plan(problem, sampling.Sampler(problem, physics, how, trial.device), settings.plans, trial)
            batch = sampling.Batch(problem, physics, how, trial.device, len(seeds))
            trials = run_paced(problem, batch, seeds, 1e-3 * times["plan_p50_ms"], progress=share)
            ran += trials
            problems += planning.failures(trials) + planning.notes(trials)
            metrics |= {f"{key} {scene}": value for key, value in times.items()}
            metrics[f"success {scene}"] = planning.metrics(task, trials)["success"]
            values |= {f"{key} {scene}": series for key, series in planning.series(task, trials).items()}
            for key, value in times.items():  # the slowest scene counts
                metrics[key] = max(value, metrics.get(key, 0.0))
        metrics |= {key: value for key, value in planning.metrics(task, ran).items() if key != "trials"}
        return Outcome(metrics, values, list(dict.fromkeys(problems)))

    def scores(self, settings: Settings) -> Sequence[Score]:
        return [Score(f"{planner}: success", planner, "success", "", "high") for planner in self.cases(settings)]

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        where = result.machine["device"]
        title = f"plan-settings: {', '.join(settings.scenes)}, {settings.trials} trials each, on {where}"
        fig, axes = style.figure(title, 3, 1, width=12.0, height=3.4)
        ticks = [case.replace(":", ":\n").replace(",", "\n") for case in result.cases]
        for ax, name, title, y in (
            (axes[0, 0], "success", "share of trials that succeeded", "success"),
            (axes[1, 0], "steps", "control steps until then, median", "steps"),
            (axes[2, 0], "plan_p50_ms", "time of a plan, median, slowest scene", "time [ms]"),
        ):
            series.bars(ax, result, result.cases, name, ticks if ax is axes[2, 0] else [""] * len(ticks), log=False)
            style.label(ax, title, "", y)
        style.legend(fig, axes)
        return fig


def _parts(scene: str) -> tuple[str, str]:
    """Task and object of a scene; raises InputError if there is none of that name."""
    name, _, thing = scene.partition(" ")
    if name not in TASKS or thing not in TASKS[name].objects:
        known = ", ".join(f"{task.name} {thing}" for task in TASKS.values() for thing in task.objects[:1])
        raise InputError(f"scenes is {scene!r}: it must be a task and one of its objects, such as: {known}")
    return name, thing
