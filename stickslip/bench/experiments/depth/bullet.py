"""`bullet`: a ball, or a small plate, is shot at a thin plate, which must stop it.

A body that moves farther in a step than the plate is thick may never be found inside it, and one that is found may sink
in so deep before soft contact has stopped it that it is pushed out on the other side. Against the first, MuJoCo's
contacts can be found ahead of the touch, by a `gap`; a physics has to make use of them, and one that does not passes
the same bullets with a gap as without.

Whether a step ends inside the plate is chance, so that of each speed there are several bullets, which start up to one
step's travel farther off, each in its own world. A bullet has passed when its middle has been below the plate. How deep
bullets get, and how fast they come back (the contact asks for no bounce), is reported only where none passes:
else it would be that of the lucky ones. Depth is that of the lowest point below the plate's upper face at the end of
any step.
"""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stickslip.bench.experiment import Experiment, Outcome, Score, Trial, problems, state_of, unless_lost
from stickslip.bench.references import timesteps
from stickslip.bench.report import series, style
from stickslip.bench.result import Result
from stickslip.parameters import parameter
from stickslip.physics.base import Physics

CLEAR = 0.05
"""Height of the nearest bullet's lowest point above the plate at the start [m]."""
SHAPES = ("ball", "plate")


@dataclasses.dataclass(frozen=True)
class Settings:
    speeds: tuple[float, ...] = parameter(
        (0.5, 1.0, 2.0, 5.0, 10.0, 20.0), "of the bullets [m/s]", low=0.01, high=100.0
    )
    bullets: int = parameter(8, "bullets of each speed", low=1, high=1000)
    thickness: float = parameter(0.005, "of the plate, and of a bullet that is one [m]", low=1e-4, high=1.0)
    radius: float = parameter(0.01, "of the ball, and half the side of the plate [m]", low=1e-3, high=0.1)
    gap: float = parameter(
        0.25, "distance at which contacts are found, in the cases with a gap [m]", low=0.0, high=10.0
    )
    duration: float = parameter(0.5, "simulated time [s]", low=0.01, high=100.0)
    timesteps: tuple[float, ...] = parameter((0.002, 0.005, 0.01), "length of a step [s]", low=1e-5, high=0.1)


@dataclasses.dataclass(frozen=True)
class Case:
    shape: str
    gap: float
    timestep: float


def starts(settings: Settings, timestep: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Height above the plate [m] and speed [m/s] of every bullet, one per world; equal speeds are adjacent."""
    speed = np.repeat(settings.speeds, settings.bullets)
    share = np.tile(np.arange(settings.bullets) / settings.bullets, len(settings.speeds))
    return CLEAR + share * speed * timestep, speed


def _kind(shape: str, gap: bool) -> str:
    return f"{shape}, {'gap' if gap else 'no gap'}"


def _label(shape: str, gap: bool, timestep: float) -> str:
    return f"{_kind(shape, gap)}, {timesteps.tick(timestep)}"


class Bullet(Experiment[Settings]):
    name = "bullet"
    summary = "a ball and a small plate shot at a thin plate, with contacts found ahead or not: how many pass, how deep"
    source = "stickslip"
    settings = Settings
    quick = {"speeds": (1.0, 10.0), "bullets": 2, "duration": 0.1, "timesteps": (0.005,)}

    def cases(self, settings: Settings) -> Mapping[str, Case]:
        kinds = itertools.product(SHAPES, (False, True), settings.timesteps)
        return {_label(*kind): Case(kind[0], settings.gap if kind[1] else 0.0, kind[2]) for kind in kinds}

    def measure(self, case: Case, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        flat = case.shape == "plate"
        given = f"thickness={settings.thickness!r},radius={settings.radius!r},gap={case.gap!r},flat={int(flat)}"
        height, speed = starts(settings, case.timestep)
        sim = trial.simulation(f"bullet:{given}", physics, nworld=len(speed), timestep=case.timestep)
        lowest = 0.5 * settings.thickness if flat else settings.radius
        pose = np.tile([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0], (len(speed), 1))
        pose[:, 2] = lowest + height
        sim.qpos = pose
        sim.qvel = np.outer(-speed, [0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
        steps = round(settings.duration / case.timestep)
        track = trial.record(sim, steps, state_of, samples=steps)
        low, up = track["qpos"][..., 2].min(axis=0), track["qvel"][..., 2].max(axis=0)
        groups = (len(settings.speeds), settings.bullets)
        passed = (low < -settings.thickness).reshape(groups)
        safe = ~passed.any(axis=1)

        def worst(values: NDArray[np.float64]) -> NDArray[np.float64]:
            """The largest of each speed at which no bullet passes."""
            return np.where(safe, values.reshape(groups).max(axis=1), math.nan)

        depth, kept, back = worst(lowest - low), worst(low - lowest), worst(np.maximum(up, 0.0) / speed)
        order = np.argsort(settings.speeds)
        stopped = np.array(settings.speeds)[order][np.logical_and.accumulate(safe[order])]
        metrics = {
            "passed_percent": 100.0 * passed.mean(),
            "stopped_up_to_m_per_s": stopped.max(initial=0.0),
            "deepest_mm": 1e3 * depth.max(),
            "slowest_deepest_mm": 1e3 * depth[order[0]],
            "kept_off_mm": 1e3 * max(kept.max(), 0.0),
            "back_percent": 100.0 * back.max(),
        }
        shown = {
            "speed": np.array(settings.speeds),
            "passed_percent": 100.0 * passed.mean(axis=1),
            "deepest_mm": 1e3 * depth,
            "back_percent": 100.0 * back,
        }
        return Outcome(unless_lost(metrics, track["qpos"], track["qvel"]), shown, problems(sim))

    def scores(self, settings: Settings) -> Sequence[Score]:
        def row(what: str, metric: str, unit: str, kind: tuple[str, bool], dt: float, **more: Any) -> Score:
            return Score(f"{what}: {_label(*kind, dt)}", _label(*kind, dt), metric, unit, **more)

        ends = dict.fromkeys((timesteps.usual(settings.timesteps), max(settings.timesteps)))
        kinds = list(itertools.product(SHAPES, (True, False)))
        shot = f"of {min(settings.speeds):g} to {max(settings.speeds):g} m/s"
        slowest = f"deepest bullet of {min(settings.speeds):g} m/s"
        longest = max(settings.timesteps)
        return [
            *(row(f"bullets {shot} that pass", "passed_percent", "%", kind, dt) for kind in kinds for dt in ends),
            *(row(slowest, "slowest_deepest_mm", "mm", (s, True), longest, absent="passes") for s in SHAPES),
            *(
                row("fastest rebound", "back_percent", "% of the speed", (s, True), longest, absent="passes")
                for s in SHAPES
            ),
        ]

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        thick = f"{1e3 * settings.thickness:g} mm"
        fig, axes = style.figure(f"bullet: shot at a plate of {thick} (× some pass)", 4, 3, width=17.0, height=3.0)
        ticks = [timesteps.tick(dt) for dt in settings.timesteps]
        longest = max(settings.timesteps)
        for row, (shape, gap) in zip(axes, itertools.product(SHAPES, (False, True)), strict=True):
            cases = [_label(shape, gap, dt) for dt in settings.timesteps]
            series.bars(row[0], result, cases, "passed_percent", ticks, log=False)
            style.label(row[0], f"{_kind(shape, gap)}: bullets of all speeds that pass", "", "share [%]")
            row[0].set_ylim(0.0, 115.0)
            series.bars(row[1], result, cases, "slowest_deepest_mm", ticks)
            style.label(row[1], f"{_kind(shape, gap)}: deepest of {min(settings.speeds):g} m/s", "", "depth [mm]")
            case = _label(shape, gap, longest)
            for method in result.ran(case):
                speed = result.series(method, case, "speed")
                passed = result.series(method, case, "passed_percent")
                style.line(row[2], result, method, speed, passed, marker="o", markersize=4)
            row[2].set(xscale="log", ylim=(-5.0, 105.0))
            style.label(row[2], case, "speed [m/s]", "that pass [%]")
        style.legend(fig, axes)
        return fig
