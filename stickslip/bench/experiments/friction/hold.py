"""`hold`: a hand holds a cube by its fingertips and gets no new command for a minute; nothing may move.

The grasp carries the cube 6 mm above the palm (see the scene `hand`). A cube that creeps comes to lie on the palm after
a while, and lies there as still as can be: then it is no longer held, although it is still in the hand by the rule of
`throughput`, which is reported too. Worlds differ by the cube's velocity at the start.

The first second is for soft contacts and servos to find their balance. How far the cube then ever gets from where it
was, and how far it turns, is that of the worst world. A hand that lost its cube in any world has no such metric, nor a
joint speed, since empty fingers rest. The palm does not move, so the cube's displacement is that in the hand.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stickslip.bench.experiment import (
    SAMPLES,
    Experiment,
    Outcome,
    Score,
    Trial,
    problems,
    state_of,
    unless_lost,
)
from stickslip.bench.references import motion, timesteps
from stickslip.bench.references.in_hand import REACH
from stickslip.bench.report import series, style
from stickslip.bench.result import Result
from stickslip.errors import InputError
from stickslip.parameters import parameter
from stickslip.physics.base import Physics
from stickslip.scenes import hand

TOUCH = 1e-4
"""A cube whose lowest corner is not higher than this above the palm lies on it [m]."""
FINE = 3
"""Times as many samples as are drawn: a tenth of a second in a minute."""
TOLD = 4
"""Decimals of position error [mm] and rotation error [deg] that single precision can resolve."""


@dataclasses.dataclass(frozen=True)
class Settings:
    worlds: int = parameter(4, "worlds, which differ by the cube's velocity at the start", low=1, high=65536)
    noise: float = parameter(
        0.01, "standard deviation of that velocity, at the cube's rim too [m/s]", low=0.0, high=1.0
    )
    duration: float = parameter(60.0, "simulated time [s]", low=0.01, high=10_000.0)
    settling: float = parameter(1.0, "time before motion counts [s]", low=0.0, high=1000.0)
    timesteps: tuple[float, ...] = parameter((0.002, 0.01), "length of a step [s]", low=1e-5, high=0.1)


def clearance(pose: NDArray[np.float64]) -> NDArray[np.float64]:
    """Height of the cube's lowest corner above the palm [m], from its pose (..., 7)."""
    w, x, y, z = np.moveaxis(pose[..., 3:], -1, 0)
    upwards = np.abs([2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)])  # of the cube's axes
    return pose[..., 2] - hand.HALF * upwards.sum(axis=0) - hand.PALM


def in_hand(pose: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether a cube is above the palm and not far from where it started, from its pose (..., 7)."""
    return (np.linalg.norm(pose[..., :3] - hand.CUBE, axis=-1) < REACH) & (pose[..., 2] > hand.PALM)


class Hold(Experiment[Settings]):
    name = "hold"
    summary = "a hand that holds a cube still for a minute: how long it does, how far the cube moves and turns"
    source = "stickslip"
    settings = Settings
    quick = {"worlds": 2, "duration": 0.2, "settling": 0.05, "timesteps": (0.002,)}

    def cases(self, settings: Settings) -> Mapping[str, float]:
        if settings.settling >= settings.duration:
            raise InputError(
                f"settling is {settings.settling:g} s and the duration {settings.duration:g} s: "
                "lower settling or raise duration, so that something is left to measure"
            )
        return {timesteps.tick(timestep): timestep for timestep in settings.timesteps}

    def measure(self, case: float, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        sim = trial.simulation(hand.SCENE.name, physics, nworld=settings.worlds, timestep=case)
        noise = settings.noise * trial.random().normal(size=(settings.worlds, 6)) / np.repeat([1.0, hand.HALF], 3)
        sim.qvel = np.pad(noise, ((0, 0), (sim.mjm.nv - 6, 0)))
        track = trial.record(sim, round(settings.duration / case), state_of, samples=FINE * SAMPLES)
        time, qpos, qvel = track["time"], track["qpos"], track["qvel"]
        pose = qpos[..., -7:]
        there = in_hand(pose)
        kept = np.logical_and.accumulate(there & (clearance(pose) > TOUCH), axis=0)
        settled = int(np.argmax(time >= settings.settling - 1e-9))
        moved = 1e3 * np.linalg.norm(pose[..., :3] - pose[settled, :, :3], axis=-1)
        turned = np.degrees(motion.angle_of(motion.product(pose[..., 3:], motion.inverse(pose[settled, :, 3:]))))
        joints = np.sqrt((qvel[..., :-6] ** 2).mean(axis=-1))
        sunk = 1e3 * (pose[0, :, 2] - pose[..., 2])
        alone = {
            "drift_mm": round(float(moved[settled:].max()), TOLD),
            "turn_deg": round(float(turned[settled:].max()), TOLD),
            "sunk_mm": sunk[-1].max(),
            "joint_speed_mrad_per_s": 1e3 * np.median(joints[timesteps.late(time)], axis=0).max(),
        }
        if not kept[-1].all():
            alone = dict.fromkeys(alone, math.nan)
        metrics = {
            "held_percent": 100.0 * kept[-1].mean(),
            "in_hand_percent": 100.0 * there[-1].mean(),
            "held_s": time[kept.sum(axis=0).min() - 1],
            **alone,
        }
        together = kept.all(axis=1)
        shown = {"time": time, "sunk_mm": np.where(together, sunk.max(axis=1), math.nan)}
        thin = slice(None, None, max(1, len(time) // SAMPLES))
        shown = {name: values[thin] for name, values in shown.items()}
        return Outcome(unless_lost(metrics, qpos, qvel), shown, problems(sim))

    def scores(self, settings: Settings) -> Sequence[Score]:
        def row(what: str, metric: str, unit: str, dt: float) -> Score:
            best = "high" if metric in ("held_percent", "in_hand_percent", "held_s") else "low"
            return Score(f"{what}, {timesteps.tick(dt)}", timesteps.tick(dt), metric, unit, best, absent="lost")

        whole = f"in {settings.duration:g} s"
        rows = (
            (f"hands that hold a cube by their fingertips for {settings.duration:g} s", "held_percent", "%"),
            (f"time until the first hand loses it (of {settings.duration:g} s)", "held_s", "s"),
            ("hands in which the cube is at the end, on the palm or above", "in_hand_percent", "%"),
            (f"displacement of a cube that is held, {whole}", "drift_mm", "mm"),
            (f"rotation of a cube that is held, {whole}", "turn_deg", "deg"),
            ("how far a cube that is held has sunk since the start", "sunk_mm", "mm"),
            ("speed left in the joints of the hand", "joint_speed_mrad_per_s", "mrad/s"),
        )
        return [row(*what, dt) for what in rows for dt in settings.timesteps]

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        steps = settings.timesteps
        cases = ticks = [timesteps.tick(dt) for dt in steps]
        fig, axes = style.figure("hold: a hand that holds a cube still (× lost)", 2, 3, width=16.0)
        for ax, case in zip(axes[0], dict.fromkeys((ticks[0], ticks[-1])), strict=False):
            for method in result.ran(case):
                time = result.series(method, case, "time")
                style.line(ax, result, method, time, result.series(method, case, "sunk_mm"))
            style.reference(ax, [0.0, settings.duration], [0.0, 0.0])
            style.label(ax, f"{case}: lowest cube; ends when one is lost", "time [s]", "sunk [mm]")
        axes[0, 1].set_visible(len(steps) > 1)
        series.bars(axes[0, 2], result, cases, "held_s", ticks, log=False)
        style.label(axes[0, 2], "time until the first world loses its cube", "", "time [s]")
        panels = (
            ("drift_mm", "farthest from where it settled", "displacement [mm]"),
            ("turn_deg", "largest turn since it settled", "turn [deg]"),
            ("joint_speed_mrad_per_s", "speed left in the joints", "speed [mrad/s]"),
        )
        for ax, (metric, title, unit) in zip(axes[1], panels, strict=True):
            series.bars(ax, result, cases, metric, ticks)
            style.label(ax, f"{title}, worst world", "", unit)
        style.legend(fig, axes)
        return fig
