"""`stick`: a box on a slope that must hold it, and on one that must not.

On the gentle slope tan(angle) < mu, so any motion is creep. On the steep one the box slides
g (sin(angle) - mu cos(angle)) t^2 / 2, which is short because the two terms nearly cancel: one percent of error in
friction is a seventh of the distance.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stickslip.bench import style
from stickslip.bench.experiment import GRAVITY, Experiment, Outcome, Score, Trial, problems, setting, state_of
from stickslip.bench.result import Result
from stickslip.physics.base import Physics

LATE = 0.25
"""Share of the run, at its end, over which the speed of the creep is taken."""


@dataclasses.dataclass(frozen=True)
class Settings:
    mass: float = setting(4.0, "mass of the box [kg]", low=1e-3, high=1e3)
    half: float = setting(0.05, "half of the box's side [m]", low=0.005, high=1.0)
    mu: float = setting(0.4, "coefficient of friction", low=0.0, high=5.0)
    sticking: float = setting(0.25, "slope that must hold the box [rad]", low=0.0, high=1.2)
    sliding: float = setting(math.pi / 8, "slope that must not [rad]", low=0.0, high=1.2)
    duration: float = setting(2.0, "simulated time [s]", low=0.01, high=100.0)
    timesteps: tuple[float, ...] = setting((0.001, 0.002, 0.005, 0.01), "length of a step [s]", low=1e-5, high=0.1)


@dataclasses.dataclass(frozen=True)
class Case:
    angle: float
    timestep: float


def slide(angle: float, mu: float, time: Any) -> Any:
    """Way down a slope from rest [m], at `time` [s]; zero where friction holds."""
    return 0.5 * max(0.0, GRAVITY * (math.sin(angle) - mu * math.cos(angle))) * time**2


def _label(kind: str, timestep: float) -> str:
    return f"{kind}, dt {1e3 * timestep:g} ms"


class Stick(Experiment[Settings]):
    name = "stick"
    summary = "a box on a slope that must hold it (creep), and on one where it must slide (error of the way)"
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
        downhill = np.array([math.cos(case.angle), 0.0, -math.sin(case.angle)])
        way = (track["qpos"][:, 0, :3] - track["qpos"][0, 0, :3]) @ downhill
        time = track["time"]
        late = time >= (1.0 - LATE) * time[-1] - 1e-9
        expected = slide(case.angle, settings.mu, time[-1])
        figures = {
            "moved_mm": 1e3 * way[-1],
            "expected_mm": 1e3 * expected,
            "error_mm": 1e3 * (way[-1] - expected),
            "late_speed_mm_per_s": 1e3 * (way[-1] - way[late][0]) / (time[-1] - time[late][0]),
        }
        return Outcome(figures, {"time": time, "moved_mm": 1e3 * way}, problems(sim))

    def scores(self, settings: Settings) -> Sequence[Score]:
        def rows(kind: str, figure: str, title: str, unit: str) -> list[Score]:
            return [Score(f"{title}, dt {1e3 * dt:g} ms", _label(kind, dt), figure, unit) for dt in settings.timesteps]

        return [
            *rows("stick", "late_speed_mm_per_s", "creep of a box that must stick", "mm/s"),
            *rows("slide", "error_mm", f"error of a slide in {settings.duration:g} s", "mm"),
        ]

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        steps = settings.timesteps
        fig, axes = style.figure("stick: a box on a slope", 2, 2)
        for row, (kind, angle) in enumerate((("stick", settings.sticking), ("slide", settings.sliding))):
            middle = _label(kind, steps[min(1, len(steps) - 1)])
            left, right = axes[row]
            for contender in result.ran(middle):
                time = result.series(contender, middle, "time")
                style.line(left, result, contender, time, result.series(contender, middle, "moved_mm"))
            moments = np.linspace(0.0, settings.duration, 100)
            style.reference(left, moments, 1e3 * slide(angle, settings.mu, moments))
            what = "must stick" if kind == "stick" else "must slide"
            style.label(left, f"slope {angle:.3g} rad, {what}; {middle.split(', ')[1]}", "time [s]", "moved [mm]")
            if kind == "stick":
                left.set_yscale("symlog", linthresh=0.1)
            figure, title = ("late_speed_mm_per_s", "creep [mm/s]") if kind == "stick" else ("error_mm", "error [mm]")
            cases = [_label(kind, dt) for dt in steps]
            entrants = [c for c in result.contenders if any(result.has(c, case) for case in cases)]
            values = {c: [result.figure(c, case, figure) for case in cases] for c in entrants}
            style.bars(right, result, cases, values, log=True, ticks=[f"dt {1e3 * dt:g} ms" for dt in steps])
            style.label(right, f"{title.split(' [')[0]} at every step length, magnitude", "", title)
        style.legend(fig, axes)
        return fig
