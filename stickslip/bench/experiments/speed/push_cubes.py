"""`push-cubes`: a bar pushes one to ten cubes over the floor; how long a step takes, beside the convex model.

The paper compares the time of a step of its closed form with that of the quadratic program it approximates, in a scene
described as a bar on a position servo, whose target moves by 1 mm a step, cubes, and a frictional ground.
Sizes, masses and friction are ours, and the cubes' shifts and turns at the start are random, as the paper's are. The
paper's models are quasi-dynamic; all of ours, `qp` included, are dynamic, so a step has a length, 2 ms.

`qp` runs on the host, from Python, which takes most of its step; OSQP's own time is reported beside it (`solver_ms`).
The paper names no tolerance, so ratios are to OSQP's default, 0.001; `qp` itself is stricter. Every other method runs
compiled kernels on the device, one world alone, which no GPU is made for. Times are medians over the steps, which a
machine with other work to do disturbs least.

Whether the pushing is right is checked too. The bar is smooth and carries no weight, so once all cubes slide it must
push with mu times their weight. That force is the servo's, less what speeds the bar up, over the last quarter of the
run. The servo's is the one that the physics reports, which is the one that it applied: most take it as it is at the
start of a step, `icf`, whose actuators are implicit, as it is at the end. Error control takes steps of its own in
between and does not report their mean, so there is no such metric for `cenic`.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stickslip.bench import methods, timing
from stickslip.bench.baselines.host import HostData
from stickslip.bench.baselines.qp import TimedSolver
from stickslip.bench.experiment import (
    GRAVITY,
    SAMPLES,
    Experiment,
    Outcome,
    Reported,
    Score,
    Trial,
    problems,
    state_of,
    unless_lost,
)
from stickslip.bench.references import timesteps
from stickslip.bench.report import style
from stickslip.bench.result import Result
from stickslip.parameters import parameter
from stickslip.physics.base import Physics
from stickslip.scenes.push_cubes import BAR_MASS
from stickslip.simulation import Simulation

SHIFT = 0.01
"""Largest shift of a cube at the start, along x and along y [m]."""
RIVAL = "qp:tolerance=0.001"
"""The method whose step time the paper compares with."""


@dataclasses.dataclass(frozen=True)
class Settings:
    counts: tuple[int, ...] = parameter((1, 2, 5, 10), "number of cubes", low=1, high=10)
    steps: int = parameter(1000, "steps of the run", low=4, high=1_000_000)
    advance: float = parameter(0.001, "how far the bar's target moves in a step [m]", low=1e-6, high=0.1)
    timestep: float = parameter(0.002, "length of a step [s]", low=1e-5, high=0.1)
    mu: float = parameter(0.5, "coefficient of friction of floor and cubes", low=0.0, high=5.0)
    mass: float = parameter(0.1, "mass of a cube [kg]", low=1e-3, high=1e3)
    warm_up: int = parameter(
        5, "steps before the timing, from which the run then goes back to its start", low=1, high=1000
    )


def pushing_force(settings: Settings, count: int) -> float:
    """What it takes to push `count` cubes at a steady speed [N]."""
    return settings.mu * count * settings.mass * GRAVITY


def load(servo: NDArray[Any], velocity: NDArray[Any], timestep: float) -> float:
    """Mean force on the bar against its way [N].

    Args:
        servo: force of the servo in each step, N                                (n,)
        velocity: of the bar before each step and after the last one, m/s        (n + 1,)
        timestep: s
    """
    return float(servo.mean() - BAR_MASS * (velocity[-1] - velocity[0]) / (len(servo) * timestep))


def scattered(qpos: NDArray[Any], random: np.random.Generator) -> NDArray[Any]:
    """A start with every cube shifted and turned: qpos of the bar and the cubes, (1 + 7 n,)."""
    start = qpos.copy()
    cubes = start[1:].reshape(-1, 7)
    cubes[:, :2] += random.uniform(-SHIFT, SHIFT, (len(cubes), 2))
    half = random.uniform(-0.5 * np.pi, 0.5 * np.pi, len(cubes))
    cubes[:, 3:] = 0.0
    cubes[:, 3], cubes[:, 6] = np.cos(half), np.sin(half)
    return start


def _label(count: int) -> str:
    return f"{count} cube{'s' if count > 1 else ''}"


class PushCubes(Experiment[Settings]):
    name = "push-cubes"
    summary = "a bar pushes one to ten cubes: time of a step beside the convex model, and the force it takes"
    source = "Complementarity-Free Multi-Contact Modeling and Optimization for Dexterous Manipulation, Fig. 3"
    settings = Settings
    quick = {"counts": (2,), "steps": 40}
    extra = (RIVAL, "qp")
    timing = True

    def cases(self, settings: Settings) -> Mapping[str, int]:
        return {_label(count): count for count in settings.counts}

    def measure(self, case: int, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        scene = f"push-cubes:n={case},mu={settings.mu!r},mass={settings.mass!r}"
        sim = trial.simulation(scene, physics, timestep=settings.timestep)
        timing.warm_up(sim, settings.warm_up)
        start = scattered(state_of(sim)["qpos"][0], trial.random())
        sim.qpos = start
        bar, servo, ms, solver_ms, depth = _push(sim, settings, trial)
        late = settings.steps - max(1, round(timesteps.LATE * settings.steps))
        reported = not methods.has(physics, "accuracy")
        force = load(servo[late:], bar[late:, 1], settings.timestep) if reported else np.nan
        moved = (state_of(sim)["qpos"][0] - start)[1:].reshape(-1, 7)[:, 0]
        exact = pushing_force(settings, case)
        metrics = {
            "ms_per_step": np.median(ms),
            "mean_ms": ms.mean(),
            "solver_ms": np.median(solver_ms),
            "force": force,
            "expected_force": exact,
            "force_error_percent": 100.0 * (force / exact - 1.0) if exact else np.nan,
            "bar_behind_mm": 1e3 * (settings.advance * settings.steps - bar[-1, 0]),
            "pushed_mm": 1e3 * moved.mean(),
            "penetration_mm": 1e3 * depth.max(),
        }
        metrics = unless_lost(metrics, bar, moved)
        stored = slice(None, None, -(-settings.steps // SAMPLES))
        drawn = {"time": settings.timestep * np.arange(1, settings.steps + 1)[stored], "ms": ms[stored]}
        return Outcome(metrics, drawn, problems(sim))

    def relate(self, result: Result) -> None:
        for case in result.cases:
            rival, solver = (result.metric(RIVAL, case, name) for name in ("ms_per_step", "solver_ms"))
            for label in result.ran(case) if np.isfinite(rival) else ():
                own = result.metric(label, case, "ms_per_step")
                ratios = {"over_qp": rival / own, "over_qp_solver": solver / own} if own else {}
                result.outcomes[label][case]["metrics"].update(ratios)

    def scores(self, settings: Settings) -> Sequence[Score]:
        most = max(settings.counts)
        about = f"{_label(most)} that a bar pushes"
        return [
            Score(f"step of {about}", _label(most), "ms_per_step", "ms"),
            Score(f"error of the force on {about}", _label(most), "force_error_percent", "%", absent="not known"),
            Score(f"deepest contact of {about}", _label(most), "penetration_mm", "mm"),
        ]

    def reported(self, result: Result) -> Sequence[Reported]:
        rows = []
        for case in result.cases:
            step, solver = (result.metric("comfree", case, name) for name in ("over_qp", "over_qp_solver"))
            if np.isfinite(step):
                where = f"{timing.times(step)} on {result.machine['device']} ({timing.times(solver)} OSQP alone)"
                rows.append(Reported(f"speed of ComFree over the QP, {case}", "5 x on an Apple M2 Pro", where))
        return rows

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        fig, axes = style.figure("push-cubes: a bar pushes cubes over the floor", 2, 2)
        (times, ratios), (forces, depths) = axes
        counts, cases = sorted(settings.counts), [_label(count) for count in sorted(settings.counts)]
        labels = [c for c in result.methods if any(result.has(c, case) for case in cases)]

        def values(name: str) -> dict[str, list[float]]:
            return {c: [result.metric(c, case, name) for case in cases] for c in labels}

        for method in labels:
            style.line(times, result, method, counts, values("ms_per_step")[method], marker="o", ms=4)
        for method, alone in values("solver_ms").items():
            if np.isfinite(alone).any():
                look = {"ls": ":", "marker": "o", "ms": 4, "label": f"{style.short(method)}, OSQP alone"}
                style.line(times, result, method, counts, alone, **look)
        times.set_yscale("log")
        times.set_xticks(counts)
        style.label(times, "time of a step, median", "cubes", "time [ms]")
        if RIVAL in labels:
            style.bars(ratios, result, cases, values("over_qp"), log=True)
        style.label(ratios, f"how many times faster than {style.short(RIVAL)}", "", "times")
        style.bars(forces, result, cases, values("force_error_percent"), log=True)
        style.label(
            forces, f"error of the force on the bar, last {timesteps.LATE:.0%} of the run, magnitude", "", "error [%]"
        )
        style.bars(depths, result, cases, values("penetration_mm"), log=True)
        style.label(depths, "deepest contact", "", "depth [mm]")
        style.legend(fig, axes)
        return fig


def _push(sim: Simulation, settings: Settings, trial: Trial) -> tuple[NDArray[np.float64], ...]:
    """What a run gave: the bar, its servo, times and depths.

    Place and speed of the bar (n + 1, 2), forces of its servo [N] (n,), milliseconds of each step and of its solver
    (n,), depths now and then [m]. The solver's are NaN if the physics does not tell them.
    """
    bar, servo, ms = np.zeros((settings.steps + 1, 2)), np.zeros(settings.steps), np.zeros(settings.steps)
    solver_ms, depth = [], [0.0]
    physics = sim.physics

    def elapsed() -> float:
        return physics.solver_seconds(sim.d) if isinstance(physics, TimedSolver) else np.nan

    stride = -(-settings.steps // SAMPLES)
    with timing.undisturbed():
        for step in range(settings.steps):
            bar[step] = sim.qpos.numpy()[0, 0], sim.qvel.numpy()[0, 0]
            sim.ctrl = [settings.advance * (step + 1)]
            before = elapsed()
            ms[step] = 1e3 * timing.timed(sim, 1, trial)
            servo[step] = _servo(sim.d)
            solver_ms.append(1e3 * (elapsed() - before))
            if step % stride == 0:
                depth.append(max(0.0, float(-sim.contacts().dist.min(initial=0.0))))
                trial.progress(step / settings.steps)
    bar[-1] = sim.qpos.numpy()[0, 0], sim.qvel.numpy()[0, 0]
    return bar, servo, ms, np.array(solver_ms), np.array(depth)


def _servo(d: Any) -> float:
    """The force of the servo that the last step had [N]."""
    return float(d.worlds[0].actuator_force[0] if isinstance(d, HostData) else d.actuator_force.numpy()[0, 0])
