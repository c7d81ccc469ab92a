"""`env-steps`: what an environment for reinforcement learning adds to its physics.

Control steps of a task with random actions, torch in and torch out, with rewards, observations, ends and starts of
episodes; beside them the same timesteps of the same worlds alone. Positions, velocities and controls are kept before
each control step, and given back before its timesteps are taken alone: so both meet the same contacts, and both copy as
much. Batches of both take turns. Buffers have sizes of their own, so that the simulation asks for nothing on the host.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import mujoco
import numpy as np

from stickslip.bench import timing
from stickslip.bench.experiment import Experiment, Outcome, Score, Trial, problems
from stickslip.bench.report import style
from stickslip.bench.result import Result
from stickslip.parameters import parameter
from stickslip.physics.base import Physics


@dataclasses.dataclass(frozen=True)
class Settings:
    tasks: tuple[str, ...] = parameter(
        ("push-t", "cube-lift", "go1-velocity", "g1-velocity", "hand-cube"), "tasks of stickslip.envs"
    )
    worlds: tuple[int, ...] = parameter((1024, 4096), "numbers of worlds (fewer on a CPU)", low=1, high=1 << 20)
    steps: int = parameter(50, "control steps of a batch", low=1, high=100_000)
    batches: int = parameter(10, "batches of each", low=1, high=1000)
    warm_up: int = parameter(20, "control steps before", low=1, high=100_000)


@dataclasses.dataclass(frozen=True)
class Case:
    task: str
    worlds: int


class EnvSteps(Experiment[Settings]):
    name = "env-steps"
    summary = "control steps of environments for reinforcement learning, beside their physics alone"
    source = "stickslip"
    settings = Settings
    cpu = {"tasks": ("push-t", "cube-lift"), "worlds": (64,), "steps": 5, "batches": 8}
    quick = {"tasks": ("push-t",), "worlds": (2,), "steps": 2, "batches": 2, "warm_up": 1}
    only = ("mujoco", "comfree", "cone-sweep", "icf")
    timing = True

    def cases(self, settings: Settings) -> Mapping[str, Case]:
        pairs = itertools.product(settings.tasks, settings.worlds)
        return {_label(task, worlds): Case(task, worlds) for task, worlds in pairs}

    def measure(self, case: Case, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        from stickslip.envs import Env, needs
        from stickslip.envs.factory import model_of
        from stickslip.envs.tasks import load_task

        needs.torch()
        task = load_task(case.task)
        mjm = model_of(task)
        sizes = {name: _size(mjm, name) for name in ("nconmax", "njmax")}
        sim = trial.simulation(mjm, physics, nworld=case.worlds, timestep=task.timestep, **sizes)
        env = Env(sim, task, seed=trial.seed, check=False)
        actions = [env.state.random.uniform(-1.0, 1.0, env.naction) for _ in range(8)]
        turn = itertools.cycle(actions)
        before, control = (env.state.qpos, env.state.qvel), env.state.ctrl
        kept = [[array.clone() for array in (*before, control)] for _ in range(settings.steps)]

        def control_step(row: list[Any]) -> None:
            for array, place in zip(before, row, strict=False):
                place.copy_(array)
            env.step(next(turn))
            row[-1].copy_(control)

        def timesteps(row: list[Any]) -> None:
            for array, place in zip((*before, control), row, strict=True):
                array.copy_(place)
            sim.step(task.decimation)

        for _ in range(settings.warm_up):
            env.step(next(turn))
        seconds: dict[str, list[float]] = {"env": [], "physics": []}
        with timing.undisturbed():
            for batch in range(settings.batches):
                env.reset()
                env.spread()
                for name, run in (("env", control_step), ("physics", timesteps)):
                    rows = iter(kept)
                    took = timing.elapsed(sim, lambda run=run, rows=rows: run(next(rows)), settings.steps, trial)
                    seconds[name].append(took / settings.steps)
                trial.progress((batch + 1) / settings.batches)
        whole, alone = (np.array(seconds[name]) for name in ("env", "physics"))
        metrics = {
            "env_ms": 1e3 * float(np.median(whole)),
            "physics_ms": 1e3 * float(np.median(alone)),
            "overhead_percent": 100.0 * float(np.median(whole / alone) - 1.0),
            "control_steps_per_s": case.worlds / float(np.median(whole)),
        }
        series = {"env_ms": 1e3 * whole, "physics_ms": 1e3 * alone}
        return Outcome(timing.unless_diverged(sim, metrics), series, problems(sim))

    def scores(self, settings: Settings) -> Sequence[Score]:
        return [
            Score(f"time that an environment adds, {case}", case, "overhead_percent", "%")
            for case in self.cases(settings)
        ]

    def draw(self, result: Result) -> Any:
        fig, axes = style.figure(f"env-steps: control steps on {result.machine['device']}", 1, 1, height=4.0, width=9.0)
        ax, among, cases = axes[0][0], list(result.methods), result.cases
        width = 0.8 / max(len(among), 1)
        for number, label in enumerate(among):
            places = np.arange(len(cases)) + (number - (len(among) - 1) / 2) * width
            whole = [result.metric(label, case, "env_ms") for case in cases]
            alone = [result.metric(label, case, "physics_ms") for case in cases]
            shade = style.colour(label, among)
            ax.bar(places, whole, width * 0.9, color=shade, alpha=0.35)
            ax.bar(places, alone, width * 0.9, color=shade, label=style.short(label))
        ax.set_xticks(range(len(cases)), cases)
        style.label(ax, "a control step; dark: its physics alone", "", "ms of all worlds")
        style.legend(fig, axes)
        return fig


def _label(task: str, worlds: int) -> str:
    return f"{task}, {worlds} worlds"


def _size(mjm: mujoco.MjModel, name: str) -> int:
    """The size of a buffer that a task's model names."""
    return int(mjm.numeric(name).data[0])
