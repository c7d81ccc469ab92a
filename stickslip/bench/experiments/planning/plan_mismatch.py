"""`plan-mismatch`: a LEAP-like hand turns an object whose friction, mass and size are not those of the plan's model.

The plant differs by a factor, in one of the three or in all at once: friction lower, mass and size higher if the
factor is above 1. Plans are made with the model as given, or with an ensemble: each sample is rolled out in several
models that differ from it, and costs their mean or the worst of them. Ensembles have as many rollouts in all, so they
have fewer samples. Every plan takes the same time and acts when it is ready, on a clock that is counted. What predicts
the state over the camera's delay has the plan's model too.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from stickslip.bench.experiment import Experiment, Outcome, Score, Trial
from stickslip.bench.experiments.planning import trials as planning
from stickslip.bench.report import style
from stickslip.bench.result import Result
from stickslip.errors import InputError
from stickslip.mpc import variation
from stickslip.mpc.planners.sampling import planner as sampling
from stickslip.mpc.realtime.paced import run_paced
from stickslip.mpc.task import compile_problem
from stickslip.mpc.tasks import TASKS
from stickslip.parameters import parameter
from stickslip.physics.base import Physics

ALL = "all"
"""Friction, mass and size at once."""
ONE, MEAN, WORST = "one model", "mean of models", "worst of models"
WAYS = {ONE: ("o", "-"), MEAN: ("s", "--"), WORST: ("^", ":")}
"""How plans are made, with marker and line of the picture."""


@dataclasses.dataclass(frozen=True)
class Settings:
    task: str = parameter("leap-yaw", "task, with its first object")
    what: tuple[str, ...] = parameter((*variation.WHAT, ALL), "what is wrong", choices=(*variation.WHAT, ALL))
    errors: tuple[float, ...] = parameter((-0.3, -0.15, 0.0, 0.15, 0.3), "relative errors", low=-0.9, high=10.0)
    trials: int = parameter(20, "trials of a case", low=1, high=10_000)
    rollouts: int = parameter(256, "rollouts of a plan, over all models", low=4, high=1 << 20)
    models: int = parameter(4, "models of an ensemble", low=2, high=1000)
    spread: float = parameter(0.3, "largest change of friction and mass in an ensemble", low=0.0, high=0.9)
    size_spread: float = parameter(0.1, "largest change of size in an ensemble", low=0.0, high=0.9)
    plan_time: float = parameter(0.012, "time that a plan takes [s]", low=0.0, high=10.0)
    longest: int = parameter(400, "control steps of a trial, at most", low=2, high=100_000)
    horizon: int | None = parameter(None, "time steps of a rollout; none: the task's", low=1, high=100_000, kind=int)


@dataclasses.dataclass(frozen=True)
class Case:
    """What differs, by how much, and how plans are made."""

    what: str
    error: float
    way: str


class PlanMismatch(Experiment[Settings]):
    name = "plan-mismatch"
    summary = "a LEAP-like hand turns an object that is not as planned for: success against the error, with ensembles"
    source = "stickslip"
    settings = Settings
    cpu = {"errors": (0.3,), "trials": 2, "rollouts": 32, "longest": 120}
    quick = {"what": (ALL,), "errors": (0.3,), "trials": 2, "rollouts": 8, "models": 2, "longest": 3, "horizon": 6}
    only = ("cone-sweep",)

    def cases(self, settings: Settings) -> Mapping[str, Case]:
        if settings.task not in TASKS:
            raise InputError(f"task is {settings.task!r}: there is no such task; there are: {', '.join(TASKS)}")
        return {
            _label(what, error, way): Case(what, error, way)
            for what in settings.what
            for way in WAYS
            for error in settings.errors
        }

    def measure(self, case: Case, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        task = dataclasses.replace(TASKS[settings.task], longest=settings.longest)
        problem = compile_problem(task)
        models = 1 if case.way == ONE else settings.models
        how = sampling.Mppi(
            samples=settings.rollouts // models,
            horizon=settings.horizon,
            models=models,
            spread=settings.spread,
            size_spread=settings.size_spread,
            risk="worst" if case.way == WORST else "mean",
        )
        batch = sampling.Batch(problem, physics, how, trial.device, settings.trials)

        def share(steps: int, ended: int) -> None:
            trial.progress(min(1.0, max(steps / settings.longest, ended / settings.trials)))

        ran = run_paced(
            variation.varied(problem, **_factors(case)),
            batch,
            range(trial.seed, trial.seed + settings.trials),
            settings.plan_time,
            believed=problem,
            progress=share,
        )
        problems = planning.failures(ran) + planning.notes(ran)
        return Outcome(planning.metrics(task, ran), planning.series(task, ran), problems)

    def scores(self, settings: Settings) -> Sequence[Score]:
        worst = max(settings.errors)
        return [
            Score(
                f"MPPI, {settings.what[-1]} {100 * worst:g} % wrong, {way}: success",
                _label(settings.what[-1], worst, way),
                "success",
                "",
                "high",
            )
            for way in WAYS
        ]

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        title = f"plan-mismatch: {settings.task}, {settings.trials} trials a point, {settings.rollouts} rollouts a plan"
        fig, axes = style.figure(title, 1, len(settings.what), width=14.0, height=3.6)
        errors = sorted(settings.errors)
        ways = list(WAYS)
        for column, kind in enumerate(settings.what):
            ax = axes[0, column]
            for method in result.methods:
                for way, (marker, line) in WAYS.items():
                    y = [result.metric(method, _label(kind, error, way), "success") for error in errors]
                    label = f"{style.short(method)}, {way}"
                    x = [100 * error + ways.index(way) - 1.0 for error in errors]  # apart, so that all are seen
                    style.line(ax, result, method, x, y, label=label, marker=marker, ls=line)
            style.label(ax, f"error in {kind}", "error [%]", "success")
            ax.set_ylim(-0.05, 1.05)
        style.legend(fig, axes)
        return fig


def _factors(case: Case) -> dict[str, float]:
    """Factors of the plant. In all at once, friction is lower where mass and size are higher: the harder way."""
    if case.what != ALL:
        return {case.what: 1.0 + case.error}
    return {"friction": 1.0 - case.error, "mass": 1.0 + case.error, "size": 1.0 + case.error}


def _label(what: str, error: float, way: str) -> str:
    return f"{what} {100 * error:+g} %, {way}"
