"""`kern`: a box that stands on the floor with its load off the middle tilts, lifts one side, and tips at last.

A base of length b with the load e off its middle tilts by F e / (E a b^3 / 12 H), E/H the slope of the pressure, as
long as all of it is pressed: up to e = b/6, the kern of the base. Beyond, 3 (b/2 - e) of it is pressed and the other
side is in the air. At b/2 it tips. A contact patch (hydroelastic) does that. Four corners with the same stiffness in
all tilt by a third of it and lift only where the box tips, and a rigid box does not tilt at all: a physics without
patches is here to show that, and its tilt says how stiff its contacts are. That the box stands below b/2 and tips
beyond is for all.

Tilt and pressed length are taken from the pose at the end: what of the lower face is below the floor.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stickslip.bench.baselines import drake
from stickslip.bench.experiment import GRAVITY, Experiment, Outcome, Score, Trial, problems, state_of, unless_lost
from stickslip.bench.references import motion, patches, timesteps
from stickslip.bench.report import series, style
from stickslip.bench.result import Result
from stickslip.parameters import parameter
from stickslip.physics.base import Physics
from stickslip.scenes import eccentric_box

TOUCH = 1e-6
"""A lower edge that is not higher than this above the floor touches it [m]: rigid contacts keep bodies there."""
MARKS = "os^vDP*X"
"""Of the methods, open, since several lie on one line."""
TIPPED = math.radians(20.0)
"""A box that was ever tilted farther than this has tipped [rad]."""


@dataclasses.dataclass(frozen=True)
class Settings:
    eccentricities: tuple[float, ...] = parameter(
        (0.08, 0.16, 0.25, 0.33, 0.42, 0.55), "distance of the load from the middle, of the length", low=0.01, high=1.0
    )
    length: float = parameter(0.1, "side of the base along which the load is off [m]", low=0.1, high=1.0)
    width: float = parameter(0.1, "the other side [m]", low=0.1, high=1.0)
    mass: float = parameter(4.0, "mass of the box [kg]", low=1e-3, high=1e3)
    modulus: float = parameter(1e7, "hydroelastic modulus [Pa]", low=1e3, high=1e12)
    duration: float = parameter(1.0, "simulated time [s]", low=0.01, high=100.0)
    timestep: float = parameter(0.002, "length of a step [s]", low=1e-5, high=0.1)


def base(settings: Settings) -> patches.Base:
    """The base of the box."""
    return patches.Base(settings.length, settings.width, settings.modulus / eccentric_box.HALF)


def pressed(pose: Any, length: float) -> float:
    """How much of the lower face's length is below the floor [m], from a pose (7,)."""
    ends = np.array([[0.5 * length, 0.0, -eccentric_box.HALF], [-0.5 * length, 0.0, -eccentric_box.HALF]])
    low, high = np.sort(pose[2] + motion.rotate(np.broadcast_to(pose[3:], (2, 4)), ends)[:, 2])
    if high <= TOUCH:
        return length
    return float(length * -low / (high - low)) if low < 0.0 else 0.0


def _label(share: float) -> str:
    return f"e = {share:g} b"


class Kern(Experiment[Settings]):
    name = "kern"
    summary = "a box with its load off the middle: how far it tilts, how much of its base is pressed, whether it tips"
    source = "stickslip"
    settings = Settings
    quick = {"eccentricities": (0.08, 0.33), "duration": 0.04}
    extra = (drake.Drake.name,) if drake.installed() else ()

    def cases(self, settings: Settings) -> Mapping[str, float]:
        return {_label(share): share * settings.length for share in settings.eccentricities}

    def measure(self, case: float, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        given = ("length", "width", "mass", "modulus")
        scene = ",".join(f"{name}={getattr(settings, name)!r}" for name in given)
        sim = trial.simulation(f"eccentric-box:eccentricity={case!r},{scene}", physics, timestep=settings.timestep)
        track = trial.record(sim, round(settings.duration / settings.timestep), state_of)
        time, pose = track["time"], track["qpos"][:, 0]
        tilt = motion.tilt_of(pose[:, 3:])
        tipped = float(tilt.max() > TIPPED)
        exact, must = base(settings), float(case >= 0.5 * settings.length)
        late = timesteps.late(time)
        mean = float(tilt[late].mean())
        part = round(float(np.mean([pressed(each, settings.length) for each in pose[late]])), 9)
        expected = exact.tilt(case, settings.mass * GRAVITY)
        stands = not tipped and not must
        metrics = {
            "tilt_mrad": 1e3 * mean if stands else math.nan,
            "exact_tilt_mrad": 1e3 * expected if stands else math.nan,
            "tilt_percent": 100.0 * (mean / expected - 1.0) if stands else math.nan,
            "pressed_percent": 100.0 * part / settings.length if stands else math.nan,
            "exact_pressed_percent": 100.0 * exact.pressed(case) / settings.length,
            "pressed_error_percent": 100.0 * (part - exact.pressed(case)) / settings.length if stands else math.nan,
            "wrong": float(tipped != must),
        }
        return Outcome(unless_lost(metrics, pose), {"time": time, "tilt_mrad": 1e3 * tilt}, problems(sim))

    def scores(self, settings: Settings) -> Sequence[Score]:
        shares = settings.eccentricities
        inside = [share for share in shares if share < 1.0 / 6.0][:1]
        lifted = [share for share in shares if 1.0 / 6.0 < share < 0.4][-1:]
        last = [share for share in shares if share < 0.5][-1:]
        tips = [share for share in shares if share >= 0.5][:1]

        def rows(chosen: Sequence[float], title: str, metric: str, unit: str = "%") -> list[Score]:
            return [Score(f"{title}, {_label(e)}", _label(e), metric, unit, absent="tipped") for e in chosen]

        return [
            *rows(inside, "error of the tilt of a box, all of whose base is pressed", "tilt_percent"),
            *rows(lifted, "error of the tilt of a box that lifts one side", "tilt_percent"),
            *rows(lifted, "error of the pressed length, of the base", "pressed_error_percent"),
            *rows(last, "a box that must stand and tips: 1", "wrong", ""),
            *rows(tips, "a box that must tip and stands: 1", "wrong", ""),
        ]

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        exact, force = base(settings), settings.mass * GRAVITY
        standing = [share for share in settings.eccentricities if share < 0.5]
        cases = [_label(share) for share in standing]
        fig, axes = style.figure("kern: a box with its load off the middle (× tipped)", 2, 2, width=14.0)
        finest = np.linspace(0.01, 0.49, 200)
        curves = (
            ("tilt_mrad", "tilt", "tilt [mrad]", [1e3 * exact.tilt(s * settings.length, force) for s in finest]),
            (
                "pressed_percent",
                "pressed length of the base",
                "of the length [%]",
                [100.0 * exact.pressed(s * settings.length) / settings.length for s in finest],
            ),
        )
        for ax, (metric, title, unit, line) in zip(axes[0], curves, strict=True):
            for place, (method, values) in enumerate(series.metrics(result, cases, metric).items()):
                style.line(ax, result, method, standing, values, marker=MARKS[place % len(MARKS)], ms=6.0, mfc="none")
            style.reference(ax, finest, line)
            ax.axvline(1.0 / 6.0, color=style.FAINT, lw=1.0, zorder=0)
            style.label(ax, f"{title}; one side lifts at b/6", "eccentricity / length", unit)
        axes[0, 0].set_yscale("symlog", linthresh=0.01)
        axes[0, 0].set_ylim(bottom=-0.001)
        ticks = [f"{share:g} b" for share in standing]
        series.bars(axes[1, 0], result, cases, "tilt_percent", ticks)
        style.label(axes[1, 0], "error of the tilt, either way", "eccentricity", "of the exact tilt [%]")
        every = [_label(share) for share in settings.eccentricities]
        last = every[-1]
        for method in result.ran(last):
            time = result.series(method, last, "time")
            style.line(axes[1, 1], result, method, time, 1e-3 * result.series(method, last, "tilt_mrad"))
        tips = settings.eccentricities[-1] >= 0.5
        style.label(axes[1, 1], f"{last}: must {'tip' if tips else 'stand'}", "time [s]", "tilt [rad]")
        style.legend(fig, axes)
        return fig
