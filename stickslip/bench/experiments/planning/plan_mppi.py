"""`plan-mppi`: a LEAP-like hand turns an object in hand; MPPI plans with the physics that is compared.

Plans are timed alone, on the state a trial starts from. Then, with every object, trials in which a plan takes that
time: joint states come at 100 Hz, the object's pose at 25 Hz, noisy and late, and a plan acts when it would be ready.
The clock is counted, not waited for, so that all trials go side by side. With the first object there are two other
ways: the plant waits for every plan, which shows how good plans are; and real time, with the plant in a process of its
own.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stickslip.bench.experiment import Experiment, Outcome, Reported, Score, Trial
from stickslip.bench.experiments.planning import trials as planning
from stickslip.bench.report import series, style
from stickslip.bench.result import Result
from stickslip.errors import InputError
from stickslip.mpc.planners.sampling import planner as sampling
from stickslip.mpc.realtime.loop import run_realtime
from stickslip.mpc.realtime.paced import run_paced
from stickslip.mpc.task import Problem, compile_problem
from stickslip.mpc.tasks import TASKS
from stickslip.mpc.trial import batch as trial_batch
from stickslip.mpc.trial import trial as mpc_trial
from stickslip.mpc.trial.plant import Plant
from stickslip.parameters import parameter
from stickslip.physics.base import Physics

COMFREE = "comfree:stiffness=0.1,damping=0.002"
"""ComFree with the paper's parameters for a hand."""
PACED, WAITING, LIVE = "", ", waiting", ", real time"
"""How the label of a case ends: by the plant's clock."""


@dataclasses.dataclass(frozen=True)
class Settings:
    tasks: tuple[str, ...] = parameter(("leap-yaw", "leap-roll"), "tasks")
    objects: int = parameter(4, "objects of each task, at most", low=1, high=100)
    trials: int = parameter(20, "trials in which a plan takes its time; none if 0", low=0, high=10_000)
    waiting: int = parameter(20, "trials with the first object in which the plant waits; none if 0", low=0, high=10_000)
    live: int = parameter(5, "trials with the first object in real time; none if 0", low=0, high=10_000)
    longest: int = parameter(400, "control steps of a trial, at most", low=2, high=100_000)
    samples: int = parameter(256, "rollouts of a plan", low=2, high=1 << 20)
    horizon: int | None = parameter(None, "time steps of a rollout; none: the task's", low=1, high=100_000, kind=int)
    dt: float | None = parameter(None, "time step of a rollout [s]; none: the task's", low=1e-4, high=1.0, kind=float)
    plans: int = parameter(50, "plans that are timed", low=1, high=100_000)


@dataclasses.dataclass(frozen=True)
class Case:
    """A task with an object, by which clock the plant goes, and the number of trials."""

    task: str
    object: str
    clock: str
    trials: int


class PlanMppi(Experiment[Settings]):
    name = "plan-mppi"
    summary = "a LEAP-like hand turns an object: MPPI with each physics as the plan's model, slow plans acting late"
    source = "ComFree-Sim: A GPU-Parallelized Analytical Contact Physics Engine, Table I"
    settings = Settings
    cpu = {
        "tasks": ("leap-yaw",), "objects": 1, "trials": 0, "waiting": 1, "live": 0, "longest": 250, "samples": 64,
        "plans": 5,
    }  # fmt: skip
    quick = {
        "tasks": ("leap-yaw",), "objects": 1, "trials": 2, "waiting": 1, "live": 0, "longest": 2, "samples": 4,
        "horizon": 6, "plans": 1,
    }  # fmt: skip
    only = ("cone-sweep", "mujoco", COMFREE)
    timing = True

    def cases(self, settings: Settings) -> Mapping[str, Case]:
        cases = {}
        for name in settings.tasks:
            if name not in TASKS:
                raise InputError(f"tasks is {name!r}: there is no such task; there are: {', '.join(TASKS)}")
            for place, thing in enumerate(TASKS[name].objects[: settings.objects]):
                more = {WAITING: settings.waiting, LIVE: settings.live} if place == 0 else {}
                for clock, trials in ({PACED: settings.trials} | more).items():
                    if trials:
                        cases[f"{name} {thing}{clock}"] = Case(name, thing, clock, trials)
        return cases

    def measure(self, case: Case, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        task = dataclasses.replace(TASKS[case.task], longest=settings.longest)
        problem = compile_problem(task, case.object)
        how = sampling.Mppi(samples=settings.samples, horizon=settings.horizon, dt=settings.dt)
        planner = sampling.Sampler(problem, physics, how, trial.device)
        metrics = time_plan(problem, planner, settings.plans, trial)
        seeds = range(trial.seed, trial.seed + case.trials)
        if case.clock == LIVE:
            ran, metrics["plans_per_s"] = _live(problem, planner, seeds, trial)
        else:
            del planner  # the batch needs room of its own
            batch = sampling.Batch(problem, physics, how, trial.device, case.trials)
            plan_time = None if case.clock == WAITING else 1e-3 * metrics["plan_p50_ms"]
            ran = _together(problem, batch, seeds, trial, plan_time)
        problems = planning.failures(ran) + planning.notes(ran)
        return Outcome(planning.metrics(task, ran) | metrics, planning.series(task, ran), problems)

    def relate(self, result: Result) -> None:
        """How many times faster than MuJoCo Warp a physics plans."""
        for label in result.methods:
            for case in result.cases:
                if label != "mujoco" and result.has(label, case) and result.has("mujoco", case):
                    metrics = result.outcomes[label][case]["metrics"]
                    metrics["speedup"] = result.metric("mujoco", case, "plan_p50_ms") / metrics["plan_p50_ms"]

    def scores(self, settings: Settings) -> Sequence[Score]:
        first = next(iter(self.cases(settings)), "")
        return [
            Score(
                f"MPPI, {settings.samples} rollouts: time of a plan",
                first,
                "plan_p50_ms",
                "ms",
            ),
            *(Score(f"MPPI, {case}: success", case, "success", "", "high") for case in self.cases(settings)),
        ]

    def reported(self, result: Result) -> Sequence[Reported]:
        rows = []
        for case in ("leap-yaw cube", f"leap-yaw cube{WAITING}"):
            if not rows and result.has(COMFREE, case) and result.has("mujoco", case):
                ours, theirs = (result.metric(label, case, "plan_p50_ms") for label in (COMFREE, "mujoco"))
                measured = f"{style.number(ours)} ms against {style.number(theirs)} ms on {result.machine['device']}"
                rows.append(Reported(f"time of a plan, {case}", "28.2 ms against 54.6 ms on an RTX 4090", measured))
                good = [f"{100 * result.metric(label, case, 'success'):.0f} %" for label in (COMFREE, "mujoco")]
                rows.append(Reported(f"success, {case}", "80 % against 65 %", " against ".join(good)))
        return rows

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        title = f"plan-mppi: {settings.samples} rollouts a plan on {result.machine['device']}"
        fig, axes = style.figure(title, 3, 1, width=12.0, height=3.2)
        for ax, name, title, y in (
            (axes[0, 0], "plan_p50_ms", "time of a plan, median", "time [ms]"),
            (axes[1, 0], "success", "share of trials that succeeded", "success"),
            (axes[2, 0], "steps", "control steps until then, median", "steps"),
        ):
            series.bars(ax, result, result.cases, name, result.cases, log=name == "plan_p50_ms")
            style.label(ax, title, "", y)
        style.legend(fig, axes)
        return fig


def time_plan(problem: Problem, planner: sampling.Sampler, plans: int, trial: Trial) -> dict[str, float]:
    """Median and 95th percentile of the time of plans from where a trial starts [ms]."""
    start, goal = mpc_trial.draw(problem, trial.seed)
    plant = Plant(problem)
    plant.reset(start, goal)
    planner.compile()
    planner.reset(goal, trial.seed)
    seconds = sampling.time_plans(planner, plant.observe(), plans, warmup=2, clock=trial.clock)
    return {f"plan_{name}_ms": 1e3 * seconds[name] for name in ("p50", "p95")}


def _together(
    problem: Problem, batch: sampling.Batch, seeds: Sequence[int], trial: Trial, plan_time: float | None
) -> list[mpc_trial.Trial]:
    """Trials side by side; a plan takes `plan_time` [s], or the plants wait if it is None."""

    def share(steps: int, ended: int) -> None:
        trial.progress(min(1.0, max(steps / problem.task.longest, ended / len(seeds))))

    if plan_time is None:
        return trial_batch.run(problem, batch, seeds, progress=share)
    return run_paced(problem, batch, seeds, plan_time, progress=share)


def _live(
    problem: Problem, planner: sampling.Sampler, seeds: Sequence[int], trial: Trial
) -> tuple[list[mpc_trial.Trial], float]:
    """Trials in real time one after another, and plans in a second."""
    ran, rates = [], []
    for place, seed in enumerate(seeds):

        def share(steps: int, place: int = place) -> None:
            trial.progress((place + steps / problem.task.longest) / len(seeds))

        live = run_realtime(problem, planner, seed, progress=share)
        ran.append(live.trial)
        rates.append(live.plans_per_second)
    return ran, float(np.mean(rates))
