"""`grasp-creep`: a capsule pinched between two pads, held by friction alone, must not move.

Each pad has to press with m g / (2 mu) at the least; here it presses with a multiple of that, so every motion is creep.
The capsule lies level between upright pads and touches each at both ends of its straight part: four contacts at the
height of its middle, so that it cannot swing and nothing but its weight loads the grasp (see the scene `pinch`). It
starts at rest, touching both pads, with the pads pressing: the first milliseconds, in which soft contacts have yet to
build up their force, are part of its displacement.

Creep is the speed at the end, in any direction; how far the capsule ever gets from its start, and how far it ever
turns, tell what happened before.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stickslip.bench.experiment import GRAVITY, Experiment, Outcome, Score, Trial, problems, state_of
from stickslip.bench.references import motion, timesteps
from stickslip.bench.report import series, style
from stickslip.bench.result import Result
from stickslip.parameters import parameter
from stickslip.physics.base import Physics
from stickslip.scenes.pinch import PAD


@dataclasses.dataclass(frozen=True)
class Settings:
    mass: float = parameter(0.3, "mass of the capsule [kg]", low=1e-3, high=10.0)
    mu: float = parameter(1.0, "coefficient of friction", low=0.01, high=5.0)
    pinches: tuple[float, ...] = parameter(
        (2.0, 5.0), "force of a pad, as a multiple of what holds the capsule", low=1.0, high=100.0
    )
    duration: float = parameter(5.0, "simulated time [s]", low=0.01, high=100.0)
    timesteps: tuple[float, ...] = parameter((0.001, 0.002, 0.005, 0.01), "length of a step [s]", low=1e-5, high=0.1)


@dataclasses.dataclass(frozen=True)
class Case:
    pinch: float
    timestep: float


def needed(mass: float, mu: float) -> float:
    """The least force of each of two pads that holds a mass [N]: friction on both carries the weight."""
    return mass * GRAVITY / (2.0 * mu)


def _label(pinch: float, timestep: float) -> str:
    return f"pinch {pinch:g}x, {timesteps.tick(timestep)}"


class GraspCreep(Experiment[Settings]):
    name = "grasp-creep"
    summary = (
        "a capsule pinched between two pads, held by friction alone: how fast it creeps, how far it moves and turns"
    )
    source = "stickslip"
    settings = Settings
    quick = {"pinches": (2.0,), "duration": 0.2, "timesteps": (0.002,)}

    def cases(self, settings: Settings) -> Mapping[str, Case]:
        return {_label(pinch, dt): Case(pinch, dt) for pinch in settings.pinches for dt in settings.timesteps}

    def measure(self, case: Case, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        force = case.pinch * needed(settings.mass, settings.mu)
        scene = f"pinch:mass={settings.mass!r},mu={settings.mu!r},force={force!r}"
        sim = trial.simulation(scene, physics, timestep=case.timestep)
        track = trial.record(sim, round(settings.duration / case.timestep), state_of)
        time, pose = track["time"], track["qpos"][:, 0, -7:]
        moved = pose[:, :3] - pose[0, :3]
        sink = -1e3 * moved[:, 2]
        finite = np.isfinite(pose).all(axis=1)
        off = ~finite | (np.abs(moved[:, 0]) >= PAD[0]) | (np.abs(moved[:, 2]) >= PAD[2])  # past an edge, or nowhere
        end = int(np.argmax(off)) if off.any() else len(time)
        names = ("drift_mm_per_s", "moved_mm", "sink_mm", "turned_deg", "turn_deg_per_s", "dropped", "held_s")
        metrics: dict[str, float] = {name: math.nan for name in names}
        if finite.all():
            metrics["dropped"], metrics["held_s"] = float(off.any()), time[end - 1]
        if not off.any():
            late = int(np.argmax(timesteps.late(time)))
            span = time[-1] - time[late]
            metrics["drift_mm_per_s"] = 1e3 * np.linalg.norm(moved[-1] - moved[late]) / span
            metrics["moved_mm"] = 1e3 * np.linalg.norm(moved, axis=1).max()
            metrics["sink_mm"] = sink[-1]
            metrics["turned_deg"] = _largest_turn(pose[:, 3:])
            metrics["turn_deg_per_s"] = _largest_turn(pose[late:, 3:]) / span
        return Outcome(metrics, {"time": time[:end], "sink_mm": sink[:end]}, problems(sim))

    def scores(self, settings: Settings) -> Sequence[Score]:
        weakest, usual = min(settings.pinches), timesteps.usual(settings.timesteps)

        def row(what: str, metric: str, unit: str, pinch: float, dt: float) -> Score:
            title = f"{what.format(f'a capsule pinched {pinch:g}x as hard as needed')}, {timesteps.tick(dt)}"
            best = "high" if metric == "held_s" else "low"
            return Score(title, _label(pinch, dt), metric, unit, best, absent="dropped")

        creep = ("creep of {}", "drift_mm_per_s", "mm/s")
        whole = f"{settings.duration:g} s"
        return [
            *(row(*creep, weakest, dt) for dt in settings.timesteps),
            *(row(*creep, pinch, usual) for pinch in settings.pinches if pinch != weakest),
            row(f"displacement of {{}}, in {whole}", "moved_mm", "mm", weakest, usual),
            row(f"rotation of {{}}, in {whole}", "turned_deg", "deg", weakest, usual),
            row(f"time {{}} is held (of {whole})", "held_s", "s", weakest, usual),
        ]

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        steps = settings.timesteps
        ticks = [timesteps.tick(dt) for dt in steps]
        title = "grasp-creep: a capsule pinched between two pads (× dropped)"
        fig, axes = style.figure(title, len(settings.pinches), 3, width=15.0)
        panels = (
            ("drift_mm_per_s", "creep at the end", "creep [mm/s]"),
            ("moved_mm", "farthest from its start", "displacement [mm]"),
        )
        for row, pinch in zip(axes, settings.pinches, strict=True):
            middle = _label(pinch, timesteps.usual(steps))
            for method in result.ran(middle):
                time = result.series(method, middle, "time")
                style.line(row[0], result, method, time, result.series(method, middle, "sink_mm"))
            style.reference(row[0], [0.0, settings.duration], [0.0, 0.0])
            row[0].set_yscale("symlog", linthresh=0.1)
            title = f"{middle.replace('x,', 'x as hard as needed,')}; ends when dropped"
            style.label(row[0], title, "time [s]", "sunk [mm]")
            for ax, (metric, title, unit) in zip(row[1:], panels, strict=True):
                series.bars(ax, result, [_label(pinch, dt) for dt in steps], metric, ticks)
                style.label(ax, f"pinch {pinch:g}x: {title}", "", unit)
        style.legend(fig, axes)
        return fig


def _largest_turn(quat: NDArray[np.float64]) -> float:
    """How far an orientation ever is from the first of them [deg], as far as single precision resolves it."""
    return round(math.degrees(motion.angle_of(motion.product(quat, motion.inverse(quat[0]))).max()), 4)
