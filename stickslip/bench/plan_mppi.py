"""`plan-mppi`: a LEAP-like hand turns an object in hand; MPPI plans with the physics that is compared.

Two ways: the plant waits for every plan, which shows how good a plan is; or it goes on in a process of its own, in real
time, with joint states at 100 Hz and the object's pose at 25 Hz, noisy and late, which shows what speed is worth. Plans
are timed alone, on the state a trial starts from.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stickslip.bench import planning, series, style
from stickslip.bench.experiment import Experiment, Outcome, Reported, Score, Trial, setting
from stickslip.bench.result import Result
from stickslip.errors import InputError
from stickslip.mpc import mppi
from stickslip.mpc import trial as mpc_trial
from stickslip.mpc.plant import Plant
from stickslip.mpc.realtime.loop import run_realtime
from stickslip.mpc.task import compile_problem
from stickslip.mpc.tasks import TASKS
from stickslip.physics.base import Physics

LIVE = ", real time"
"""Ends the label of a case whose plant does not wait."""


@dataclasses.dataclass(frozen=True)
class Settings:
    tasks: tuple[str, ...] = setting(("leap-yaw", "leap-roll"), "tasks")
    objects: int = setting(1, "objects of each task, at most", low=1, high=100)
    waiting: int = setting(5, "trials in which the plant waits; none if 0", low=0, high=10_000)
    live: int = setting(10, "trials in real time; none if 0", low=0, high=10_000)
    longest: int = setting(750, "control steps of a trial, at most", low=2, high=100_000)
    samples: int = setting(256, "rollouts of a plan", low=2, high=1 << 20)
    horizon: int = setting(48, "time steps of a rollout", low=1, high=100_000)
    plans: int = setting(50, "plans that are timed", low=1, high=100_000)


@dataclasses.dataclass(frozen=True)
class Case:
    """A task with an object, and whether the plant waits."""

    task: str
    object: str
    live: bool


class PlanMppi(Experiment[Settings]):
    name = "plan-mppi"
    summary = "a LEAP-like hand turns an object: MPPI with each physics as the plan's model, waiting and in real time"
    source = "ComFree-Sim: A GPU-Parallelized Analytical Contact Physics Engine, Table I"
    settings = Settings
    cpu = {"tasks": ("leap-yaw",), "waiting": 1, "live": 0, "longest": 250, "samples": 64, "plans": 5}
    quick = {
        "tasks": ("leap-yaw",), "waiting": 1, "live": 0, "longest": 2, "samples": 4, "horizon": 6, "plans": 1,
    }  # fmt: skip
    only = ("mujoco", "comfree")
    timing = True

    def cases(self, settings: Settings) -> Mapping[str, Case]:
        cases = {}
        for name in settings.tasks:
            if name not in TASKS:
                raise InputError(f"tasks is {name!r}: there is no such task; there are: {', '.join(TASKS)}")
            for thing in TASKS[name].objects[: settings.objects]:
                for live, trials in ((False, settings.waiting), (True, settings.live)):
                    if trials:
                        cases[f"{name} {thing}{LIVE if live else ''}"] = Case(name, thing, live)
        return cases

    def measure(self, case: Case, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        task = dataclasses.replace(TASKS[case.task], longest=settings.longest)
        problem = compile_problem(task, case.object)
        if physics.name == "comfree" and physics == type(physics)():
            physics = dataclasses.replace(physics, stiffness=mppi.STIFFNESS, damping=mppi.DAMPING)  # type: ignore[type-var]
        planner = mppi.Mppi(
            problem, physics, mppi.Settings(samples=settings.samples, horizon=settings.horizon), trial.device
        )
        planner.compile()
        ran, rates = [], []
        trials = settings.live if case.live else settings.waiting
        for place in range(trials):
            seed = trial.seed + place

            def share(steps: int, place: int = place) -> None:
                trial.progress((place + steps / settings.longest) / trials)

            if case.live:
                live = run_realtime(problem, planner, seed, progress=share)
                ran.append(live.trial)
                rates.append(live.plans_per_second)
            else:
                ran.append(mpc_trial.run(problem, planner, seed, progress=share))
        figures = planning.figures(ran) | _times(problem, planner, settings, trial)
        if rates:
            figures["plans_per_s"] = float(np.mean(rates))
        return Outcome(figures, planning.series(ran), planning.failures(ran))

    def relate(self, result: Result) -> None:
        """How many times faster than MuJoCo Warp a physics plans."""
        for label in result.contenders:
            for case in result.cases:
                if label != "mujoco" and result.has(label, case) and result.has("mujoco", case):
                    figures = result.outcomes[label][case]["figures"]
                    figures["speedup"] = result.figure("mujoco", case, "plan_p50_ms") / figures["plan_p50_ms"]

    def scores(self, settings: Settings) -> Sequence[Score]:
        first = next(iter(self.cases(settings)), "")
        return [
            Score(
                f"MPPI, {settings.samples} rollouts of {settings.horizon} steps: time of a plan",
                first,
                "plan_p50_ms",
                "ms",
            ),
            *(Score(f"MPPI, {case}: success", case, "success", "", "high") for case in self.cases(settings)),
        ]

    def reported(self, result: Result) -> Sequence[Reported]:
        rows = []
        for case in result.cases:
            if result.has("comfree", case) and result.has("mujoco", case) and case.startswith("leap-yaw cube"):
                ours, theirs = (result.figure(label, case, "plan_p50_ms") for label in ("comfree", "mujoco"))
                told = f"{style.number(ours)} ms against {style.number(theirs)} ms on {result.machine['device']}"
                rows.append(Reported(f"time of a plan, {case}", "28.2 ms against 54.6 ms on an RTX 4090", told))
                good = [f"{100 * result.figure(label, case, 'success'):.0f} %" for label in ("comfree", "mujoco")]
                rows.append(Reported(f"success, {case}", "80 % against 65 %", " against ".join(good)))
        return rows

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        title = f"plan-mppi: {settings.samples} rollouts of {settings.horizon} steps on {result.machine['device']}"
        fig, axes = style.figure(title, 1, 3, width=16.0, height=3.8)
        for ax, name, told, y in (
            (axes[0, 0], "plan_p50_ms", "time of a plan, median", "time [ms]"),
            (axes[0, 1], "success", f"share of trials that succeeded ({settings.waiting}, {settings.live})", "success"),
            (axes[0, 2], "steps", "control steps until then, median", "steps"),
        ):
            series.bars(ax, result, result.cases, name, result.cases, log=name == "plan_p50_ms")
            style.label(ax, told, "", y)
        style.legend(fig, axes)
        return fig


def _times(problem: Any, planner: mppi.Mppi, settings: Settings, trial: Trial) -> dict[str, float]:
    """Time of a plan from where a trial starts."""
    start, goal = mpc_trial.draw(problem, trial.seed)
    plant = Plant(problem)
    plant.reset(start, goal)
    planner.reset(goal, trial.seed)
    seconds = mppi.time_plans(planner, plant.observe(), settings.plans, warmup=2, clock=trial.clock)
    return {f"plan_{name}_ms": 1e3 * seconds[name] for name in ("p50", "p95")}
