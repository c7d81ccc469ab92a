"""`pinch-moment`: a bar is pinched off its middle between two pads, whose friction about the normal must hold it.

Square pads of side a hold the moment 2 mu N 0.3826 a of the bar's weight, N the force of each; round ones 2 mu N 8/15 c
with c the radius of their patch. The weight itself takes 0.4 % of what the squares hold, which is counted in. Contact
patches (hydroelastic) hold that. One point on a round pad holds nothing (condim 3). Four corners of a square hold 1.82
times as much as the patch if each carries a quarter of the force, as those of a compliant physics do (`icf` without
patches). The pads name modulus and depth (see the scene `bar-pinch`).

Rigid corners leave their shares of the force open. `cone-sweep` finds all four of a pad, but up to 78 % of its force is
on one of them, and the bar turns about that corner. For the forces that it finds, the limit of friction is at a load of
1.09: where it turns. With `passes=20` the limit is at 1.4.

Each world has another force of the pads: the force that is needed over `load`. The limit is the load at which the bar
turns, found in two runs: the second has as many worlds between the largest load up to which every bar is held and the
next. It should be 1: above, a grasp holds that should not, and below, one fails that should hold. A bar that creeps
farther than `allowed` is not held.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stickslip.bench.experiment import GRAVITY, Experiment, Outcome, Score, Trial, problems, state_of
from stickslip.bench.references import motion, patches, timesteps
from stickslip.bench.report import series, style
from stickslip.bench.result import Result
from stickslip.errors import InputError
from stickslip.parameters import parameter
from stickslip.physics.base import Physics
from stickslip.scenes.bar_pinch import SIDE

MARKS = "os^vDP*X"
"""Of the methods, open, since several lie on one line."""


@dataclasses.dataclass(frozen=True)
class Settings:
    pads: tuple[str, ...] = parameter(("square", "round"), "shape of the pads", choices=("square", "round"))
    loads: tuple[float, ...] = parameter(
        (0.3, 0.5, 0.7, 0.85, 0.95, 1.05, 1.15, 1.3, 1.5, 1.75, 2.0, 2.3),
        "the force that is needed, of that of a pad; one world each",
        low=0.01,
        high=100.0,
    )
    mass: float = parameter(0.2, "mass of the bar [kg]", low=1e-3, high=10.0)
    offset: float = parameter(0.1, "distance from the pads to the middle of the bar [m]", low=0.05, high=0.13)
    mu: float = parameter(1.0, "coefficient of friction", low=0.01, high=5.0)
    modulus: float = parameter(5e6, "hydroelastic modulus of the pads [Pa]", low=1e3, high=1e12)
    allowed: float = parameter(2.0, "turn up to which a bar counts as held [deg]", low=0.001, high=90.0)
    duration: float = parameter(1.0, "simulated time [s]", low=0.01, high=100.0)
    timestep: float = parameter(0.002, "length of a step [s]", low=1e-5, high=0.1)


def needed(pads: str, settings: Settings) -> float:
    """The force of each pad at which the bar begins to turn [N]."""
    weight, lever = settings.mass * GRAVITY, settings.offset
    if pads == "square":
        return weight / (2.0 * settings.mu * patches.square_load(SIDE, lever))
    low, high = 0.0, 1e4 * weight
    for _ in range(100):
        force = 0.5 * (low + high)
        held = 2.0 * settings.mu * force * patches.sphere_arm(patches.sphere_patch(settings.modulus, SIDE, force))
        low, high = (force, high) if held < weight * lever else (low, force)
    return 0.5 * (low + high)


def between(loads: NDArray[np.float64], held: NDArray[np.bool_]) -> tuple[float, float]:
    """The largest load up to which all are held, and the next: 0 if the first is not held, infinite if all are."""
    count = len(held) if held.all() else int(np.argmin(held))
    around = np.concatenate([[0.0], loads, [math.inf]])
    return float(around[count]), float(around[count + 1])


class PinchMoment(Experiment[Settings]):
    name = "pinch-moment"
    summary = "a bar pinched off its middle between square and round pads: the moment at which it turns"
    source = "stickslip"
    settings = Settings
    quick = {"pads": ("square",), "loads": (0.5, 2.3), "duration": 0.02}

    def cases(self, settings: Settings) -> Mapping[str, str]:
        if list(settings.loads) != sorted(set(settings.loads)) or len(settings.loads) < 2:
            raise InputError(f"loads are {settings.loads}: give two or more, each larger than the one before")
        return {f"{pads} pads": pads for pads in settings.pads}

    def measure(self, case: str, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        loads = np.array(settings.loads)
        names = ("offset", "mass", "mu", "modulus")
        given = ",".join(f"{name}={getattr(settings, name)!r}" for name in names)
        sim = trial.simulation(f"bar-pinch:pads={case},{given}", physics, nworld=len(loads), timestep=settings.timestep)
        force, steps = needed(case, settings), round(settings.duration / settings.timestep)

        def turned(loads: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            """Time, and the turn of the bar under each load, (samples, loads) [deg]."""
            sim.reset()
            sim.ctrl = np.repeat(force / loads[:, None], 2, axis=1)
            track = trial.record(sim, steps, state_of)
            quat = track["qpos"][:, :, -4:]
            return track["time"], np.degrees(motion.angle_of(motion.product(quat, motion.inverse(quat[0]))))

        time, turn = turned(loads)
        largest = turn.max(axis=0)
        low, high = between(loads, largest < settings.allowed)  # NaN is not held
        if low > 0.0 and high < math.inf:
            finer = np.geomspace(low, high, len(loads) + 2)
            held = turned(finer[1:-1])[1].max(axis=0) < settings.allowed
            low, high = between(finer, np.concatenate([[True], held, [False]]))
        found = math.nan if math.isinf(high) else math.sqrt(low * high)
        late = int(np.argmax(timesteps.late(time)))
        metrics = {
            "limit": found,
            "limit_percent": 100.0 * (found - 1.0),
            "needed_n": force,
            "turn_deg": float(largest[0]) if low > 0.0 else math.nan,
            "creep_deg_per_s": float(turn[-1, 0] - turn[late, 0]) / (time[-1] - time[late]) if low > 0.0 else math.nan,
        }
        return Outcome(metrics, {"load": loads, "turn_deg": largest}, problems(sim))

    def scores(self, settings: Settings) -> Sequence[Score]:
        def rows(pads: str) -> list[Score]:
            case, light = f"{pads} pads", f"{settings.loads[0]:g} of what they hold"
            return [
                Score(f"error of the load that {case} hold", case, "limit_percent", "%", absent="holds all"),
                Score(f"creep of a bar between {case}, {light}", case, "creep_deg_per_s", "deg/s", absent="turns"),
            ]

        return [row for pads in settings.pads for row in rows(pads)]

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        cases = list(self.cases(settings))
        title = "pinch-moment: a bar pinched off its middle"
        fig, axes = style.figure(title, 1, len(cases) + 1, width=16.0, height=4.0)
        for ax, case in zip(axes[0], cases, strict=False):
            for place, method in enumerate(result.ran(case)):
                load, turn = (result.series(method, case, name) for name in ("load", "turn_deg"))
                mark = {"marker": MARKS[place % len(MARKS)], "ms": 6.0, "mfc": "none"}
                style.line(ax, result, method, load, np.maximum(turn, 1e-5), **mark)
            ax.axvline(1.0, ls="--", color=style.REFERENCE, lw=1.2, label="exact limit")
            ax.axhline(settings.allowed, color=style.INK, lw=0.8, ls=":", label="held below")
            ax.set_yscale("log")
            title = f"{case}, in {settings.duration:g} s"
            style.label(ax, title, "load, of what the pads hold", "largest turn [deg]")
        series.bars(axes[0, -1], result, cases, "limit", cases, log=False)
        axes[0, -1].axhline(1.0, ls="--", color=style.REFERENCE, lw=1.2)
        style.label(axes[0, -1], "load at which the bar turns (0: held by none, × by all)", "", "of what the pads hold")
        style.legend(fig, axes)
        return fig
