"""`stick`: a box on a slope that must hold it, and on one that must not.

On the gentle slope tan(angle) < mu, so any motion is creep. On the steep one the box slides
g (sin(angle) - mu cos(angle)) t^2 / 2, which is short because the two terms nearly cancel: one percent of error in
friction is a seventh of the distance.

Motion counts in whatever direction it goes. Creep is the speed at the end; the displacement of a box that must stick is
the farthest any of its corners ever gets from where it was, so that slipping early, turning and coming back are seen
too, and how far it sinks into the slope; the error of a slide is the distance to where the box should be.
"""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stickslip.bench.experiment import Experiment, Outcome, Score, Trial, problems, state_of
from stickslip.bench.references import motion, timesteps
from stickslip.bench.report import series, style
from stickslip.bench.result import Result
from stickslip.parameters import parameter
from stickslip.physics.base import Physics


@dataclasses.dataclass(frozen=True)
class Settings:
    mass: float = parameter(4.0, "mass of the box [kg]", low=1e-3, high=1e3)
    half: float = parameter(0.05, "half of the box's side [m]", low=0.005, high=1.0)
    mu: float = parameter(0.4, "coefficient of friction", low=0.0, high=5.0)
    sticking: float = parameter(0.25, "slope that must hold the box [rad]", low=0.0, high=1.2)
    sliding: float = parameter(math.pi / 8, "slope that must not [rad]", low=0.0, high=1.2)
    duration: float = parameter(2.0, "simulated time [s]", low=0.01, high=100.0)
    timesteps: tuple[float, ...] = parameter((0.001, 0.002, 0.005, 0.01), "length of a step [s]", low=1e-5, high=0.1)


@dataclasses.dataclass(frozen=True)
class Case:
    angle: float
    timestep: float


def farthest(pose: NDArray[np.float64], half: float) -> float:
    """The farthest that any corner of a box ever gets from where it was at first [m].

    Args:
        pose: its position and orientation in time, (n, 7)
        half: half of its side
    """
    corners = half * np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
    places = pose[:, None, :3] + motion.rotate(pose[:, None, 3:], np.broadcast_to(corners, (len(pose), 8, 3)))
    return float(np.linalg.norm(places - places[0], axis=-1).max())


def _label(kind: str, timestep: float) -> str:
    return f"{kind}, {timesteps.tick(timestep)}"


class Stick(Experiment[Settings]):
    name = "stick"
    summary = (
        "a box on a slope that must hold it (creep, displacement), and on one where it must slide (position error)"
    )
    source = "stickslip"
    settings = Settings
    quick = {"duration": 0.1, "timesteps": (0.002,)}

    def cases(self, settings: Settings) -> Mapping[str, Case]:
        slopes = {"stick": settings.sticking, "slide": settings.sliding}
        return {_label(kind, dt): Case(angle, dt) for kind, angle in slopes.items() for dt in settings.timesteps}

    def measure(self, case: Case, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        given = f"angle={case.angle!r},mu={settings.mu!r},mass={settings.mass!r},half={settings.half!r}"
        scene = f"box-on-slope:{given},overlap=0"  # a start inside the slope would push the box off it
        sim = trial.simulation(scene, physics, timestep=case.timestep)
        track = trial.record(sim, round(settings.duration / case.timestep), state_of)
        time, pose = track["time"], track["qpos"][:, 0]
        moved = pose[:, :3] - pose[0, :3]
        downhill = np.array([math.cos(case.angle), 0.0, -math.sin(case.angle)])
        way = moved @ downhill
        expected = motion.down_slope(case.angle, settings.mu, time[-1])
        error = float(np.linalg.norm(moved[-1] - expected * downhill))
        late = timesteps.late(time)
        metrics = {
            "moved_mm": 1e3 * way[-1],
            "sideways_mm": 1e3 * moved[-1, 1],
            "farthest_mm": 1e3 * farthest(pose, settings.half),
            "expected_mm": 1e3 * expected,
            "error_mm": 1e3 * math.copysign(error, way[-1] - expected),
            "late_speed_mm_per_s": 1e3 * np.linalg.norm(moved[-1] - moved[late][0]) / (time[-1] - time[late][0]),
        }
        return Outcome(metrics, {"time": time, "moved_mm": 1e3 * way}, problems(sim))

    def scores(self, settings: Settings) -> Sequence[Score]:
        def rows(kind: str, metric: str, title: str, unit: str) -> list[Score]:
            return [
                Score(f"{title}, {timesteps.tick(dt)}", _label(kind, dt), metric, unit) for dt in settings.timesteps
            ]

        usual = timesteps.usual(settings.timesteps)
        way = f"displacement of a box that must stick, in {settings.duration:g} s, {timesteps.tick(usual)}"
        return [
            *rows("stick", "late_speed_mm_per_s", "creep of a box that must stick", "mm/s"),
            Score(way, _label("stick", usual), "farthest_mm", "mm"),
            *rows("slide", "error_mm", f"error of a slide in {settings.duration:g} s", "mm"),
        ]

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        steps = settings.timesteps
        ticks = [timesteps.tick(dt) for dt in steps]
        fig, axes = style.figure("stick: a box on a slope", 2, 1, width=15.0)
        axes = [style.split(axes[0, 0], 3), style.split(axes[1, 0], 2)]
        shown = {
            "stick": (
                ("late_speed_mm_per_s", "creep at the end", "creep [mm/s]"),
                ("farthest_mm", "farthest a corner gets from its start", "displacement [mm]"),
            ),
            "slide": (("error_mm", "distance from where it should be", "error [mm]"),),
        }
        for row, (kind, panels) in zip(axes, shown.items(), strict=True):
            angle = settings.sticking if kind == "stick" else settings.sliding
            middle = _label(kind, timesteps.usual(steps))
            for method in result.ran(middle):
                time = result.series(method, middle, "time")
                style.line(row[0], result, method, time, result.series(method, middle, "moved_mm"))
            moments = np.linspace(0.0, settings.duration, 100)
            style.reference(row[0], moments, 1e3 * motion.down_slope(angle, settings.mu, moments))
            title = f"slope {angle:.3g} rad, must {kind}; {timesteps.tick(timesteps.usual(steps))}"
            style.label(row[0], title, "time [s]", "moved downhill [mm]")
            if kind == "stick":
                row[0].set_yscale("symlog", linthresh=0.1)
            for ax, (metric, title, unit) in zip(row[1:], panels, strict=True):
                series.bars(ax, result, [_label(kind, dt) for dt in steps], metric, ticks)
                style.label(ax, f"must {kind}: {title}", "", unit)
        style.legend(fig, sum(axes, []))
        return fig
