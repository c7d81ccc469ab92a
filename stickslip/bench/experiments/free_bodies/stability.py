"""`stability`: a cube is thrown flat over a plane, lands, slides and must come to rest, at several step lengths.

Friction is mu times the normal force and the normal impulse until time t is m g t once the cube has landed, so without
a bounce its speed is v - mu g t, landing included: it stands still after v / (mu g), and v^2 / (2 mu g) + mu drop from
where it started. The speed may never grow, and the cube may not rise again, but for 0.3 mm: the fall tilts it by
3 mrad. A run is called stable if the speed never grows by more than 1 % of the start and the cube is neither thrown
off the plane (by half its side) nor through it; to be stable is not to be right.

Convex contact models, MuJoCo's among them, answer slip with lift, of about mu times the slip: here that is a hop of
(mu v)^2 / (2 g) = 18 mm at the first touch. They do so the more the longer the step.

The paper gives velocity and spin of the start; size, friction and height of the drop are ours. Its sweep of ComFree's
stiffness and damping has no values in the text; we take those of its Fig. 2.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
from stickslip.bench.references.comfree_grid import GRID
from stickslip.bench.report import style
from stickslip.bench.result import Result
from stickslip.parameters import parameter
from stickslip.physics.base import Physics
from stickslip.scenes.sliding_cube import GAP, HALF

SMALL = 0.01
"""Share of the start speed: a run is stable if its speed never grows by more, and rests if no more is left."""


@dataclasses.dataclass(frozen=True)
class Settings:
    timesteps: tuple[float, ...] = parameter(
        (0.001, 0.002, 0.005, 0.01, 0.02), "length of a step [s]", low=1e-5, high=0.1
    )
    speed: float = parameter(2.0, "velocity along x at the start [m/s]", low=0.01, high=20.0)
    spin: float = parameter(0.1, "angular velocity about each axis at the start [rad/s]", low=-10.0, high=10.0)
    drop: float = parameter(GAP, "height of the cube's lower face at the start [m]", low=0.0, high=1.0)
    mu: float = parameter(0.3, "coefficient of friction", low=0.01, high=5.0)
    duration: float = parameter(2.0, "simulated time [s]", low=0.01, high=100.0)


def landing(drop: float) -> float:
    """When the cube touches the plane [s]."""
    return math.sqrt(2.0 * drop / GRAVITY)


def slide(settings: Settings, time: Any) -> Any:
    """Horizontal speed at `time` [m/s]: constant in the fall, then v - mu g t until rest."""
    braked = np.maximum(settings.speed - settings.mu * GRAVITY * time, 0.0)
    return np.where(time < landing(settings.drop), settings.speed, braked)


def distance(settings: Settings) -> float:
    """Way until rest [m]; what the fall lasts longer than the braking would is at full speed."""
    stop = settings.speed / (settings.mu * GRAVITY)
    if stop <= landing(settings.drop):  # the landing takes all of the speed
        return settings.speed * landing(settings.drop)
    return 0.5 * settings.speed * stop + settings.mu * settings.drop


def rise(values: NDArray[np.float64], floor: float = -math.inf) -> float:
    """How far a sequence ever climbs above its own minimum so far, or above `floor` where that is higher."""
    return float(np.max(values - np.maximum(np.minimum.accumulate(values), floor)))


class Stability(Experiment[Settings]):
    name = "stability"
    summary = "a cube thrown over a plane must slide to rest: spurious growth of speed, hops, stopping distance"
    source = "ComFree-Sim (arXiv:2603.12185), Sec. IV-C, Fig. 3(c) and 5"
    settings = Settings
    quick = {"timesteps": (0.002, 0.02), "duration": 0.2}
    extra = GRID

    def cases(self, settings: Settings) -> Mapping[str, float]:
        return {timesteps.tick(timestep): timestep for timestep in settings.timesteps}

    def measure(self, case: float, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        sim = trial.simulation(f"sliding-cube:mu={settings.mu!r}", physics, timestep=case)
        sim.qpos = [[0.0, 0.0, HALF + settings.drop, 1.0, 0.0, 0.0, 0.0]]
        sim.qvel = [[settings.speed, 0.0, 0.0, settings.spin, settings.spin, settings.spin]]
        steps = round(settings.duration / case)
        track = trial.record(sim, steps, state_of, samples=steps)
        time, position, velocity = track["time"], track["qpos"][:, 0, :3], track["qvel"][:, 0, :2]
        speed, height = np.hypot(velocity[:, 0], velocity[:, 1]), position[:, 2] - HALF
        late = timesteps.late(time)
        missed = position[-1, :2] - [distance(settings), 0.0]
        growth = rise(speed)
        hop, end_speed = rise(height, 0.0), speed[late].mean()
        thrown = hop > HALF or height.min() < -HALF  # off the plane, or through it
        metrics = {
            "distance_mm": 1e3 * position[-1, 0],
            "distance_error_mm": 1e3 * math.copysign(np.hypot(*missed), missed[0]),
            "sideways_mm": 1e3 * position[-1, 1],
            "growth_mm_per_s": 1e3 * growth,
            "end_speed_mm_per_s": 1e3 * end_speed,
            "height_error_mm": 1e3 * height[late].mean(),
            "hop_mm": 1e3 * hop,
            "stable": float(growth <= SMALL * settings.speed and not thrown),
            "rests": float(end_speed <= SMALL * settings.speed),
        }
        metrics = unless_lost(metrics, track["qpos"], track["qvel"])
        thin = slice(None, None, max(1, len(time) // SAMPLES))
        shown = {"time": time, "speed": speed, "height_mm": 1e3 * height}
        return Outcome(metrics, {name: values[thin] for name, values in shown.items()}, problems(sim))

    def scores(self, settings: Settings) -> Sequence[Score]:
        usual, longest = timesteps.tick(timesteps.usual(settings.timesteps)), timesteps.tick(max(settings.timesteps))
        distances = [
            Score(f"error of a thrown cube's distance, {case}", case, "distance_error_mm", "mm")
            for case in dict.fromkeys((usual, longest))
        ]
        return [
            *distances,
            Score(f"hop of a cube that must slide, {longest}", longest, "hop_mm", "mm"),
        ]

    def reported(self, result: Result) -> Sequence[Reported]:
        settings = self.make_settings(result.settings)
        if settings != Settings():
            return ()  # another throw than the paper's, or other steps
        sweep = [label for label in result.methods if label.partition(":")[0] == "comfree"]
        usual, longest = timesteps.tick(timesteps.USUAL), timesteps.tick(0.02)
        rows = []
        for label in sweep:
            if result.has(label, longest):
                names = ("stable", "hop_mm", "end_speed_mm_per_s")
                stable, hop, left = (result.metric(label, longest, name) for name in names)
                moving = f"hop of {style.number(hop)} mm, {style.number(left)} mm/s left after {settings.duration:g} s"
                measured = "diverges" if np.isnan(stable) else f"{'stable' if stable else 'not stable'}: {moving}"
                rows.append(Reported(f"{style.short(label)} at {longest}", "remains stable", measured))
        growth = [result.metric(label, usual, "growth_mm_per_s") for label in sweep if result.has(label, usual)]
        if growth:
            grown = f"grows by {style.number(round(float(np.max(growth)), 3))} mm/s at most"
            quantity = f"horizontal speed at {usual}, over {len(growth)} settings of stiffness and damping"
            rows.append(Reported(quantity, "monotone decay, no spurious growth", grown))
        return rows

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        fig, axes = style.figure("stability: a cube thrown over a plane", 3, 3, width=16.0, height=3.2)
        moments = np.linspace(0.0, settings.duration, 400)
        fall = 1e3 * np.maximum(settings.drop - 0.5 * GRAVITY * moments**2, 0.0)
        shown = sorted({timesteps.usual(settings.timesteps), *sorted(settings.timesteps)[-2:]})
        for row, case in zip(axes, map(timesteps.tick, shown), strict=False):
            for method in result.ran(case):
                time = result.series(method, case, "time")
                style.line(row[0], result, method, time, result.series(method, case, "speed"))
                style.line(row[1], result, method, time, result.series(method, case, "height_mm"))
            style.reference(row[0], moments, slide(settings, moments))
            style.reference(row[1], moments, fall)
            style.label(row[0], f"horizontal speed, {case}", "time [s]", "speed [m/s]")
            style.label(row[1], f"height of the centre above that at rest, {case}", "time [s]", "height [mm]")
            row[1].set_yscale("symlog", linthresh=1.0)
        for row in axes[len(shown) :]:
            row[0].set_visible(False)
            row[1].set_visible(False)
        metrics = {
            "distance_error_mm": ("error of the distance, magnitude", "error [mm]"),
            "hop_mm": ("highest hop after the landing", "height [mm]"),
            "growth_mm_per_s": ("spurious growth of the horizontal speed", "growth [mm/s]"),
        }
        lengths = sorted(settings.timesteps)
        ticks = [1e3 * dt for dt in lengths]
        for ax, (metric, (title, unit)) in zip(axes[:, 2], metrics.items(), strict=True):
            for method in result.methods:
                values = [abs(result.metric(method, timesteps.tick(dt), metric)) for dt in lengths]
                style.line(ax, result, method, ticks, values, marker="o", markersize=4)
            style.label(ax, title, "length of a step [ms]", unit)
            ax.set_xscale("log")
            ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            ax.minorticks_off()
            ax.set_yscale("symlog", linthresh=0.1)
            ax.set_ylim(bottom=0.0)
        style.legend(fig, axes)
        return fig
