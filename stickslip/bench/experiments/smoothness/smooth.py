"""`smooth`: time and memory of a step of smooth contact beside MJX, and of the gradient of a rollout.

The scene is the T that a ball pushes. It is timed high in the air, where nothing touches, on the floor, and on the
floor with the ball against it: a model whose cost does not depend on contacts takes the same time in all of them. Then
in many worlds at once. The T is two geoms, and has about twice the points that each is given (`points`).

Steps are timed in batches of many steps in one call, from an idle device to an idle device, and the median batch
counts. MJX, too, makes all steps of a batch in one compiled loop. `memory_mb` is what the compiler says that a step
needs: inputs, outputs and whatever lies between.

Of a physics that can be differentiated also a rollout of 100 steps is timed and the gradient of a cost of it by all its
controls. MJX's solver loops until it has converged, which cannot be differentiated backwards.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stickslip import mjcf
from stickslip.bench import timing
from stickslip.bench.experiment import Experiment, Outcome, Reported, Score, Trial, problems
from stickslip.bench.report import series, style
from stickslip.bench.result import Result
from stickslip.parameters import parameter
from stickslip.physics.base import DifferentiablePhysics, Physics
from stickslip.scenes import push_t
from stickslip.simulation import Simulation

AIR, FLOOR, PUSHED = "in the air", "on the floor", "pushed"
HIGH = 1000.0
"""Where the T falls in the air [m]: nothing is reached in any run."""


@dataclasses.dataclass(frozen=True)
class Settings:
    timestep: float = parameter(0.002, "length of a step [s]", low=1e-5, high=0.02)
    worlds: tuple[int, ...] = parameter((1024,), "numbers of worlds, besides one", low=2, high=1 << 20)
    settle: int = parameter(100, "steps before the timing", low=1, high=100_000)
    repeats: int = parameter(7, "batches of steps, of which the median counts", low=1, high=1000)
    steps: int = parameter(1000, "steps of a batch, in one call", low=1, high=100_000)
    longest: float = parameter(0.5, "time after which a batch has fewer steps [s]", low=1e-3, high=100.0)
    horizon: int = parameter(100, "steps of the rollout that is differentiated", low=1, high=100_000)


@dataclasses.dataclass(frozen=True)
class Case:
    """Where the T is, in how many worlds."""

    where: str
    worlds: int


def _label(where: str, worlds: int) -> str:
    return where if worlds == 1 else f"{where}, {worlds:,} worlds"


class Smooth(Experiment[Settings]):
    name = "smooth"
    summary = "time and memory of a step of a pushed T beside MJX, with and without contact, and of a gradient"
    source = "A Smooth Analytical Formulation of Collision Detection and Rigid Body Dynamics With Contact, Fig. 7"
    settings = Settings
    cpu = {"worlds": (16,)}
    quick = {"worlds": (2,), "settle": 1, "repeats": 2, "steps": 2, "horizon": 2}
    only = (
        "mjx", "mjx:integrator=rk4", "scm:integrator=euler", "scm:integrator=euler,points=13",
        "scm:integrator=euler,points=2000", "scm:integrator=rk4", "scm", "scm:contact=comfree",
    )  # fmt: skip
    timing = True

    def cases(self, settings: Settings) -> Mapping[str, Case]:
        cases = [Case(where, 1) for where in (AIR, FLOOR, PUSHED)]
        cases += [Case(PUSHED, worlds) for worlds in sorted(set(settings.worlds))]
        return {_label(case.where, case.worlds): case for case in cases}

    def measure(self, case: Case, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        mjm = mjcf.load("push-t", timestep=settings.timestep)
        sim = trial.simulation(mjm, physics, nworld=case.worlds)
        _place(sim, case.where)
        sim.step(settings.settle)
        seconds, contacts = timing.batches(sim, settings.repeats, settings.steps, settings.longest, trial)
        memory = getattr(physics, "memory", None)
        metrics = {
            "us": 1e6 * float(np.median(seconds)),
            "us_per_world": 1e6 * float(np.median(seconds)) / case.worlds,
            "contacts": float(contacts.mean()) / case.worlds,
        }
        if memory is not None and case.worlds > 1:
            metrics["memory_mb"] = 1e-6 * memory(sim.m, sim.d)
        trial.progress(0.5)
        if isinstance(physics, DifferentiablePhysics) and case == Case(PUSHED, 1):
            metrics |= _gradient(sim, physics, settings, trial)
        wrong = []
        if case.where == AIR and contacts.any():
            wrong.append("there was contact in the air")
        if case.where != AIR and not contacts.all():
            wrong.append("there was a moment without contact in what was timed")
        return Outcome(timing.unless_diverged(sim, metrics), problems=[*problems(sim), *wrong])

    def relate(self, result: Result) -> None:
        """How many times faster than MJX with the same integrator, and steps with contact over those without."""
        for label in result.methods:
            for case in result.cases:
                if not result.has(label, case):
                    continue
                metrics = result.outcomes[label][case]["metrics"]
                rival = _rival(result, label)
                other = result.metric(rival, case, "us") if rival else float("nan")
                if rival and label != rival and np.isfinite(other) and metrics.get("us"):
                    metrics["speedup"] = other / metrics["us"]
                free = result.metric(label, AIR, "us")
                if case in (FLOOR, PUSHED) and np.isfinite(free) and metrics.get("us"):
                    metrics["over_air"] = metrics["us"] / free

    def scores(self, settings: Settings) -> Sequence[Score]:
        most = _label(PUSHED, max(settings.worlds))
        return [
            Score("step of a pushed T", PUSHED, "us", "us"),
            Score("step of a pushed T over that of one in the air", PUSHED, "over_air", ""),
            Score(f"step of a pushed T, {max(settings.worlds):,} worlds", most, "us", "us"),
            Score(f"memory of a step, {max(settings.worlds):,} worlds", most, "memory_mb", "MB"),
            Score("gradient of a rollout over the rollout", PUSHED, "gradient_ratio", "", absent="not differentiable"),
        ]

    def reported(self, result: Result) -> Sequence[Reported]:
        rows = []
        for label, what, paper in (
            ("scm:integrator=euler", "Euler", "4.2 ms against 0.9 ms: 4.7 times faster with 4k points"),
            ("scm:integrator=rk4", "RK4", "12.5 ms against 17.9 ms: 0.7 times as fast with 4k points"),
        ):
            ratio, rival = result.metric(label, PUSHED, "speedup"), _rival(result, label)
            if rival and np.isfinite(ratio):
                ours, theirs = (style.number(result.metric(each, PUSHED, "us")) for each in (label, rival))
                measured = f"{theirs} us against {ours} us: {style.number(ratio)} times, on {result.machine['device']}"
                rows.append(Reported(f"step of MJX against one of SCM, {what}, a pushed T", paper, measured))
        return rows

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        many = [_label(PUSHED, worlds) for worlds in sorted(set(settings.worlds))]
        title = f"smooth: a T and a ball, steps of {1e3 * settings.timestep:g} ms on {result.machine['device']}"
        fig, axes = style.figure(title, 2, 1, width=15.0, height=3.9)
        top, bottom = style.split(axes[0, 0], 1), style.split(axes[1, 0], 3)
        alone = [AIR, FLOOR, PUSHED]
        ticks = [f"{case} ({_contacts(result, case)})" for case in alone]
        series.bars(top[0], result, alone, "us", ticks)
        style.label(top[0], "one world (contacts of mjx, pairs in contact of scm)", "", "time of a step [us]")
        series.bars(bottom[0], result, many, "us_per_world", many)
        style.label(bottom[0], "many worlds: time for each", "", "time of a step and world [us]")
        series.bars(bottom[1], result, many, "memory_mb", many)
        style.label(bottom[1], "memory of a step", "", "memory [MB]")
        series.bars(bottom[2], result, [PUSHED], "gradient_ratio", [f"{settings.horizon} steps"], log=False)
        style.label(bottom[2], "gradient of a rollout by its controls", "", "time over that of the rollout")
        style.legend(fig, [*top, *bottom])
        return fig


def _place(sim: Simulation, where: str) -> None:
    """Put T and ball where a case has them, with the ball's target just inside the T if it shall push."""
    qpos = np.array(sim.qpos.numpy(), dtype=float)
    foot = push_t.centre() + 0.5 * push_t.BEAM - push_t.LENGTH
    if where == AIR:
        qpos[:, 2] = HIGH
    gap = 0.0 if where == PUSHED else 0.2
    qpos[:, 7:9] = 0.0, foot - push_t.RADIUS - gap
    sim.qpos = qpos
    sim.ctrl = qpos[0, 7:9] + np.array([0.0, 0.004 if where == PUSHED else 0.0])


def _gradient(
    sim: Simulation, physics: DifferentiablePhysics[Any, Any], settings: Settings, trial: Trial
) -> dict[str, float]:
    """Seconds of a rollout from where the simulation is, and of the gradient of a cost of it."""
    ctrl = np.repeat(np.asarray(sim.ctrl.numpy(), dtype=float)[:, None], settings.horizon, axis=1)

    def rollout() -> Any:
        return physics.rollout(sim.m, sim.d, ctrl)

    def gradient() -> NDArray[Any]:
        return physics.gradient(sim.m, sim.d, ctrl, _cost)[1]

    rollout()
    sizes = gradient()
    with timing.undisturbed():
        forward = np.median([timing.elapsed(sim, rollout, 1, trial) for _ in range(settings.repeats)])
        backward = np.median([timing.elapsed(sim, gradient, 1, trial) for _ in range(settings.repeats)])
    return {
        "rollout_ms": 1e3 * float(forward),
        "gradient_ms": 1e3 * float(backward),
        "gradient_ratio": float(backward / forward) if forward > 0.0 else float("nan"),
        "gradient_largest": float(np.abs(sizes).max()),
    }


def _cost(states: Any) -> Any:
    """Square of how far the T is from where it should go, at the end."""
    return ((states.qpos[-1, :2] - 0.1) ** 2).sum()


def _rival(result: Result, label: str) -> str:
    """MJX with the integrator of a method, Euler for those that have another; "" if it did not run."""
    rk4 = "integrator=rk4" in label
    name = "mjx:integrator=rk4" if rk4 else "mjx"
    return name if name in result.methods else ""


def _contacts(result: Result, case: str) -> str:
    """`scm 3, mjx 9`: how many contacts a physics had, once for each physics."""
    counts = {}
    for label in result.ran(case):
        count = result.metric(label, case, "contacts")
        if np.isfinite(count):
            counts.setdefault(label.partition(":")[0], style.number(count))
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "unknown"
