"""`plan-delay`: a LEAP-like hand turns an object that it sees late; with and without look-ahead.

Joint states come at 100 Hz, the object's pose at 25 Hz with noise, and later by the delay that is varied. Every plan
takes the same time and acts when it is ready. The clock is counted, not waited for, so that all trials of a case go
side by side, and neither the machine nor the speed of the physics counts. Starts, goals and noise are the same with and
without look-ahead.

With look-ahead a plan begins from the state predicted for the time at which it acts, without from the last
measurements. MPPI plans with the physics that is compared. What predicts is MuJoCo in C, which is also the plant: the
prediction knows masses, friction and servos of the plant, as it would not know those of a real hand.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from stickslip.bench.experiment import Experiment, Outcome, Score, Trial
from stickslip.bench.experiments.planning import trials as planning
from stickslip.bench.report import style
from stickslip.bench.result import Result
from stickslip.errors import InputError
from stickslip.mpc.planners.sampling import planner as sampling
from stickslip.mpc.realtime.paced import run_paced
from stickslip.mpc.realtime.sensors import Sensors
from stickslip.mpc.task import compile_problem
from stickslip.mpc.tasks import TASKS
from stickslip.parameters import parameter
from stickslip.physics.base import Physics

WAYS = {True: "with look-ahead", False: "without"}
"""How the label of a case ends."""


@dataclasses.dataclass(frozen=True)
class Settings:
    tasks: tuple[str, ...] = parameter(("leap-yaw", "leap-roll"), "tasks, each with its first object")
    delays: tuple[float, ...] = parameter(
        (0.0, 0.04, 0.08, 0.12, 0.16, 0.2), "times between a pose and its message [s]", low=0.0, high=1.0
    )
    trials: int = parameter(20, "trials of a case", low=1, high=10_000)
    plan_time: float = parameter(0.012, "time that a plan takes [s]", low=0.0, high=10.0)
    longest: int = parameter(400, "control steps of a trial, at most", low=2, high=100_000)
    samples: int = parameter(256, "rollouts of a plan", low=2, high=1 << 20)
    horizon: int | None = parameter(None, "time steps of a rollout; none: the task's", low=1, high=100_000, kind=int)


@dataclasses.dataclass(frozen=True)
class Case:
    """A task, the delay of the camera [s], and whether plans look ahead."""

    task: str
    delay: float
    look_ahead: bool


class PlanDelay(Experiment[Settings]):
    name = "plan-delay"
    summary = "a LEAP-like hand turns an object that it sees late: success against the camera's delay, with look-ahead"
    source = "stickslip"
    settings = Settings
    cpu = {"tasks": ("leap-yaw",), "delays": (0.0, 0.2), "trials": 2, "longest": 150, "samples": 32}
    quick = {
        "tasks": ("leap-yaw",), "delays": (0.02,), "trials": 2, "longest": 3, "samples": 4, "horizon": 6,
    }  # fmt: skip
    only = ("cone-sweep",)

    def cases(self, settings: Settings) -> Mapping[str, Case]:
        for name in settings.tasks:
            if name not in TASKS:
                raise InputError(f"tasks is {name!r}: there is no such task; there are: {', '.join(TASKS)}")
        return {
            _label(name, delay, look_ahead): Case(name, delay, look_ahead)
            for name in settings.tasks
            for look_ahead in WAYS
            for delay in settings.delays
        }

    def measure(self, case: Case, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        problem = compile_problem(dataclasses.replace(TASKS[case.task], longest=settings.longest))
        how = sampling.Mppi(samples=settings.samples, horizon=settings.horizon)
        batch = sampling.Batch(problem, physics, how, trial.device, settings.trials)

        def share(steps: int, ended: int) -> None:
            trial.progress(min(1.0, max(steps / settings.longest, ended / settings.trials)))

        ran = run_paced(
            problem,
            batch,
            range(trial.seed, trial.seed + settings.trials),
            settings.plan_time,
            sensors=Sensors(delay=case.delay),
            look_ahead=case.look_ahead,
            progress=share,
        )
        problems = planning.failures(ran) + planning.notes(ran)
        return Outcome(planning.metrics(problem.task, ran), planning.series(problem.task, ran), problems)

    def scores(self, settings: Settings) -> Sequence[Score]:
        last = max(settings.delays)
        return [
            Score(
                f"MPPI, {name}, poses {1e3 * last:g} ms late, {way}: success",
                _label(name, last, look_ahead),
                "success",
                "",
                "high",
            )
            for name in settings.tasks
            for look_ahead, way in WAYS.items()
        ]

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        title = f"plan-delay: {settings.trials} trials a point, a plan takes {1e3 * settings.plan_time:g} ms"
        fig, axes = style.figure(title, 2, len(settings.tasks), width=6.0 * max(2, len(settings.tasks)), height=3.2)
        delays = sorted(settings.delays)
        for column, name in enumerate(settings.tasks):
            for row, (metric, what) in enumerate(
                (("success", "share of trials that succeeded"), ("steps", "control steps until then, median"))
            ):
                ax = axes[row, column]
                for method in result.methods:
                    for look_ahead, way in WAYS.items():
                        cases = [_label(name, delay, look_ahead) for delay in delays]
                        y = [result.metric(method, case, metric) for case in cases]
                        kind = {"marker": "o", "ls": "-"} if look_ahead else {"marker": "s", "ls": "--", "mfc": "white"}
                        label = f"{style.short(method)}, {way}"
                        style.line(ax, result, method, [1e3 * delay for delay in delays], y, label=label, **kind)
                style.label(ax, f"{name}: {what}", "delay of the camera [ms]", metric)
            axes[0, column].set_ylim(-0.05, 1.05)
        style.legend(fig, axes)
        return fig


def _label(task: str, delay: float, look_ahead: bool) -> str:
    return f"{task}, {1e3 * delay:g} ms, {WAYS[look_ahead]}"
