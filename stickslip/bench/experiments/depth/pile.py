"""`pile`: primitives fall onto a block and are left alone until all of them should be at rest.

A pile at rest shows what its contacts do by themselves: speed that does not die away, energy out of nothing, bodies
that sink into one another. Round bodies roll off the block, and on the floor they roll on, since nothing brakes a
sphere that rolls: that is no error, so that speed counts for bodies which are still on the block, their middles above
its face. When fewer than half of them are, the pile has been thrown apart and has no such metric, nor a depth. The few
that roll on the block make the largest speed; the median is the pile's. How many leave is reported, not scored: in an
exact pile some would.

Energy is that of all bodies, on the floor too. It has nothing to come from once they have landed, so what it rises
above its own minimum is reported as share of all that was lost in the fall. Soft contacts that give back what they took
show here, and so do those that push bodies out of one another. Elastic energy in the contacts does not count.

Velocities come from one position to the next, and the height is the mean of the two: exact for a body in free fall
whatever the integrator, while the velocity that MuJoCo's Euler reports is half a step ahead, which looks like a rise
of energy when a bounce turns it over. Speed is that of a body whose motion has the same energy without turning.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.bench.experiment import (
    GRAVITY,
    SAMPLES,
    Experiment,
    Outcome,
    Score,
    Trial,
    problems,
    unless_lost,
)
from stickslip.bench.experiments.depth.depths import depths_of
from stickslip.bench.references import motion, timesteps
from stickslip.bench.report import series, style
from stickslip.bench.result import Result
from stickslip.errors import InputError
from stickslip.parameters import parameter
from stickslip.physics.base import Physics
from stickslip.scenes import pile
from stickslip.simulation import Simulation

Array = NDArray[np.float64]

ENOUGH = 0.5
"""Share of the bodies that must be on the block for a pile to be one."""


@dataclasses.dataclass(frozen=True)
class Settings:
    n: int = parameter(3, "bodies along each side of a layer", low=1, high=12)
    layers: int = parameter(5, "layers, one kind of primitive each", low=1, high=10)
    duration: float = parameter(10.0, "simulated time [s]", low=0.02, high=1000.0)
    landed: float = parameter(
        1.0, "when all bodies have landed; from then on energy may not rise [s]", low=0, high=1000
    )
    rest: float = parameter(1.0, "time at the end in which all should be at rest [s]", low=0.01, high=1000.0)
    timesteps: tuple[float, ...] = parameter((0.002, 0.01), "length of a step [s]", low=1e-5, high=0.1)


@dataclasses.dataclass(frozen=True)
class Bodies:
    """Free bodies of a model, all of them in the order of their joints.

    Attributes:
        mass: kg                                                     (n,)
        inertia: about the principal axes, kg m^2                    (n, 3)
        axes: rotation from the principal axes into the body's own   (n, 4)
    """

    mass: Array
    inertia: Array
    axes: Array

    @classmethod
    def of(cls, mjm: mujoco.MjModel) -> "Bodies":
        return cls(mjm.body_mass[1:], mjm.body_inertia[1:], mjm.body_iquat[1:])

    def kinetic(self, pose: Array, timestep: float) -> Array:
        """Of each body between one step and the next [J], (steps, n), from poses (steps + 1, n, 7)."""
        velocity = np.diff(pose[..., :3], axis=0) / timestep
        turn = motion.product(motion.inverse(pose[:-1, :, 3:]), pose[1:, :, 3:])
        turn = np.where(turn[..., :1] < 0.0, -turn, turn)
        size = np.linalg.norm(turn[..., 1:], axis=-1, keepdims=True)
        spin = turn[..., 1:] * motion.angle_of(turn)[..., None] / np.maximum(size, 1e-30) / timestep
        spin = motion.rotate(motion.inverse(self.axes), spin)
        return 0.5 * (self.mass * (velocity**2).sum(axis=-1) + (self.inertia * spin**2).sum(axis=-1))

    def potential(self, pose: Array) -> Array:
        """Of each body between one step and the next [J], (steps, n), from poses (steps + 1, n, 7)."""
        return self.mass * GRAVITY * 0.5 * (pose[1:, :, 2] + pose[:-1, :, 2])


def on_block(pose: Array, half: float) -> NDArray[np.bool_]:
    """Whether the middle of a body is above the block's upper face, whose side is 2 `half` [m]; from poses (..., 7)."""
    return (pose[..., 2] > pile.TOP) & (np.abs(pose[..., :2]) < half).all(axis=-1)


def _sample(sim: Simulation) -> dict[str, Any]:
    depths = depths_of(sim)
    return {
        "qpos": sim.qpos.numpy()[0],
        "depth": depths.sum(),
        "deepest": depths.max(initial=0.0),
        "touching": len(depths),
    }


class Pile(Experiment[Settings]):
    name = "pile"
    summary = "primitives that fell onto a block, left alone: speed that is left, energy out of nothing, penetration"
    source = "stickslip"
    settings = Settings
    quick = {"n": 2, "layers": 2, "duration": 0.5, "landed": 0.3, "rest": 0.1, "timesteps": (0.005,)}

    def cases(self, settings: Settings) -> Mapping[str, float]:
        if max(settings.landed, settings.rest) >= settings.duration:
            raise InputError(
                f"landed is {settings.landed:g} s, rest {settings.rest:g} s and the duration {settings.duration:g} s: "
                "both must be shorter than the duration"
            )
        return {timesteps.tick(timestep): timestep for timestep in settings.timesteps}

    def measure(self, case: float, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        scene = f"drop-test:n={settings.n},layers={settings.layers}"
        sim = trial.simulation(scene, physics, timestep=case)
        steps = round(settings.duration / case)
        track = trial.record(sim, steps, _sample, samples=steps)
        time, pose = track["time"], track["qpos"].reshape(steps + 1, -1, 7)
        bodies = Bodies.of(sim.mjm)
        kinetic = bodies.kinetic(pose, case)
        energy = (kinetic + bodies.potential(pose)).sum(axis=1)
        speed = 1e3 * np.sqrt(2.0 * kinetic / bodies.mass)
        landed = energy[time[1:] > settings.landed]
        rise = float(np.max(landed - np.minimum.accumulate(landed)))
        dropped = float(energy[0] - energy[-1])
        end = time[1:] > time[-1] - settings.rest
        there = on_block(pose[1:][end], float(sim.mjm.geom("block").size[0])).all(axis=0)
        touching = track["touching"][1:][end].sum()
        whole = {
            "left_percent": 100.0 * (1.0 - there.mean()),
            "energy_rise_percent": 100.0 * rise / dropped if dropped > 0.0 else math.nan,
            "dropped_j": dropped,
        }
        still = {
            "speed_mm_per_s": np.median(speed[end][:, there]) if there.any() else math.nan,
            "largest_speed_mm_per_s": speed[end][:, there].max(initial=0.0),
            "depth_mm": track["depth"][1:][end].sum() / touching if touching else math.nan,
            "deepest_mm": track["deepest"][1:][end].max() if touching else math.nan,
        }
        if there.mean() < ENOUGH:
            still = dict.fromkeys(still, math.nan)
        metrics = unless_lost(whole | still, pose, sim.qvel.numpy())
        thin = slice(None, None, max(1, steps // SAMPLES))
        shown = {
            "time": time[1:],
            "energy_j": energy - energy[-1],
            "speed_mm_per_s": np.median(speed, axis=1),
            "touching": track["touching"][1:],
        }
        return Outcome(metrics, {name: values[thin] for name, values in shown.items()}, problems(sim))

    def scores(self, settings: Settings) -> Sequence[Score]:
        rows = (
            ("speed left in a pile, median", "speed_mm_per_s", "mm/s"),
            ("speed left in a pile, largest", "largest_speed_mm_per_s", "mm/s"),
            ("energy gained by a pile that has landed", "energy_rise_percent", "% of the fall"),
            ("penetration in a pile at rest, mean", "depth_mm", "mm"),
            ("penetration in a pile at rest, deepest", "deepest_mm", "mm"),
        )
        return [
            Score(f"{what}, {case}", case, metric, unit, absent="thrown apart")
            for what, metric, unit in rows
            for case in map(timesteps.tick, settings.timesteps)
        ]

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        cases = ticks = [timesteps.tick(dt) for dt in settings.timesteps]
        size = f"{settings.n} x {settings.n} x {settings.layers} bodies"
        fig, axes = style.figure(f"pile: {size} left alone on a block (× thrown apart)", 3, 3, width=16.0)
        panels = (
            (axes[0, 0], "energy_j", "energy above that at the end", "energy [J]"),
            (axes[0, 1], "speed_mm_per_s", "speed, median of all bodies", "speed [mm/s]"),
            (axes[0, 2], "touching", "touching contacts", "contacts"),
        )
        usual = timesteps.tick(timesteps.usual(settings.timesteps))
        for ax, name, title, unit in panels:
            for method in result.ran(usual):
                time = result.series(method, usual, "time")
                style.line(ax, result, method, time, result.series(method, usual, name))
            style.label(ax, f"{title}, {usual}", "time [s]", unit)
        axes[0, 0].set_yscale("symlog", linthresh=0.01)
        axes[0, 1].set_yscale("symlog", linthresh=0.1)
        bars = (
            ("speed_mm_per_s", "on the block, last {rest:g} s: median speed", "speed [mm/s]"),
            ("largest_speed_mm_per_s", "on the block, last {rest:g} s: largest speed", "speed [mm/s]"),
            ("energy_rise_percent", "energy: largest rise after {landed:g} s", "share of the fall [%]"),
            ("depth_mm", "last {rest:g} s: mean depth", "depth [mm]"),
            ("deepest_mm", "last {rest:g} s: deepest contact", "depth [mm]"),
            ("left_percent", "bodies that left the block", "share [%]"),
        )
        for ax, (metric, title, unit) in zip(axes[1:].flat, bars, strict=True):
            series.bars(ax, result, cases, metric, ticks, log=metric != "left_percent")
            style.label(ax, title.format(rest=settings.rest, landed=settings.landed), "", unit)
        style.legend(fig, axes)
        return fig
