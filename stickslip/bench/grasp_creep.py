"""`grasp-creep`: a capsule pinched between two pads, held by friction alone, must not move.

Each pad has to press with m g / (2 mu) at the least; here it presses with a multiple of that, so every motion is creep.
The capsule lies level between upright pads and touches each at both ends of its straight part: four contacts at the
height of its middle, so that it cannot swing and nothing but its weight loads the grasp (see the scene `pinch`). It
starts at rest, touching both pads, with the pads pressing: the first milliseconds, in which soft contacts have yet to
build up their force, are part of the sink.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stickslip.bench import motion, style
from stickslip.bench.experiment import GRAVITY, Experiment, Outcome, Score, Trial, problems, setting, state_of
from stickslip.bench.result import Result
from stickslip.physics.base import Physics
from stickslip.scenes.pinch import PAD

LATE = 0.25
"""Share of the run, at its end, over which the speed of the creep is taken."""


@dataclasses.dataclass(frozen=True)
class Settings:
    mass: float = setting(0.3, "mass of the capsule [kg]", low=1e-3, high=10.0)
    mu: float = setting(1.0, "coefficient of friction", low=0.01, high=5.0)
    pinches: tuple[float, ...] = setting(
        (2.0, 5.0), "force of a pad, as a multiple of what holds the capsule", low=1.0, high=100.0
    )
    duration: float = setting(5.0, "simulated time [s]", low=0.01, high=100.0)
    timesteps: tuple[float, ...] = setting((0.001, 0.002, 0.005, 0.01), "length of a step [s]", low=1e-5, high=0.1)


@dataclasses.dataclass(frozen=True)
class Case:
    pinch: float
    timestep: float


def needed(mass: float, mu: float) -> float:
    """The least force of each of two pads that holds a mass [N]: friction on both carries the weight."""
    return mass * GRAVITY / (2.0 * mu)


def _label(pinch: float, timestep: float) -> str:
    return f"pinch {pinch:g}x, dt {1e3 * timestep:g} ms"


class GraspCreep(Experiment[Settings]):
    name = "grasp-creep"
    summary = "a capsule pinched between two pads, held by friction alone: how fast it sinks and turns"
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
        sink = 1e3 * (pose[0, 2] - pose[:, 2])
        off = ~(sink < 1e3 * PAD[2])  # its middle has passed the pads' lower edge, or is nowhere
        end = int(np.argmax(off)) if off.any() else len(time)
        figures = {
            "drift_mm_per_s": math.nan,
            "sink_mm": math.nan,
            "turn_deg_per_s": math.nan,
            "dropped": float(off.any()) if np.isfinite(sink).all() else math.nan,
            "held_s": time[end - 1],
        }
        if not off.any():
            late = int(np.argmax(time >= (1.0 - LATE) * time[-1] - 1e-9))
            span = time[-1] - time[late]
            figures["drift_mm_per_s"] = (sink[-1] - sink[late]) / span
            figures["sink_mm"] = sink[-1]
            turned = motion.product(pose[-1, 3:], motion.inverse(pose[late, 3:]))
            figures["turn_deg_per_s"] = math.degrees(motion.angle_of(turned)) / span
        return Outcome(figures, {"time": time[:end], "sink_mm": sink[:end]}, problems(sim))

    def scores(self, settings: Settings) -> Sequence[Score]:
        steps, weakest = settings.timesteps, min(settings.pinches)
        middle = _middle(steps)

        def drift(pinch: float, dt: float) -> Score:
            title = f"creep of a capsule pinched {pinch:g}x as hard as needed, dt {1e3 * dt:g} ms"
            return Score(title, _label(pinch, dt), "drift_mm_per_s", "mm/s", absent="dropped")

        rows = [drift(weakest, dt) for dt in steps]
        rows += [drift(pinch, middle) for pinch in settings.pinches if pinch != weakest]
        title = f"time a capsule pinched {weakest:g}x as hard as needed is held (of {settings.duration:g} s)"
        return [*rows, Score(f"{title}, dt {1e3 * middle:g} ms", _label(weakest, middle), "held_s", "s", "high")]

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        steps = settings.timesteps
        fig, axes = style.figure("grasp-creep: a capsule pinched between two pads", len(settings.pinches), 2)
        for row, pinch in enumerate(settings.pinches):
            left, right = axes[row]
            middle = _label(pinch, _middle(steps))
            for contender in result.ran(middle):
                time = result.series(contender, middle, "time")
                style.line(left, result, contender, time, result.series(contender, middle, "sink_mm"))
            style.reference(left, [0.0, settings.duration], [0.0, 0.0])
            left.set_yscale("symlog", linthresh=0.1)
            style.label(
                left, f"{middle.replace('x,', 'x as hard as needed,')}; ends when dropped", "time [s]", "sunk [mm]"
            )
            cases = [_label(pinch, dt) for dt in steps]
            entrants = [c for c in result.contenders if any(result.has(c, case) for case in cases)]
            values = {c: [result.figure(c, case, "drift_mm_per_s") for case in cases] for c in entrants}
            style.bars(right, result, cases, values, log=True, ticks=[f"dt {1e3 * dt:g} ms" for dt in steps])
            style.label(right, f"pinch {pinch:g}x: creep, magnitude (× dropped)", "", "creep [mm/s]")
        style.legend(fig, axes)
        return fig


def _middle(steps: Sequence[float]) -> float:
    """The step length that is drawn over time: the second, if there is one."""
    return steps[min(1, len(steps) - 1)]
