"""`energy`: a ball that bounces on a spring without a damper, and a free pendulum. Neither may lose or gain energy.

The ball is CENIC's: 0.1 kg (as the caption has it; the text says 1 kg), dropped from 1 m, stiffness 1000 N/m, 10 s. The
scene asks for that contact through MuJoCo's `solref` (see `bouncing-ball`). A physics that sets its contacts up
otherwise bounces as it is set up: what it loses is its own damping. Energy that grows is an error of any. How deep the
ball is when a step first finds it in the floor is chance, and decides whether a bounce gains or loses. So there is not
one ball but 16, each in a world of its own: the first falls from 1 m, the others from up to 5 percent higher. At 10 ms
the spring has a period of exactly six of MuJoCo's steps (omega dt = 1), and a bounce nearly gives back what it took:
5 ms shows more.

The ball's energy counts in flight, where no contact stores any; a ball that has come to lie has none left. The pendulum
has no contact: it shows what the integrator does, alike for every physics that shares it. Released at 90 degrees, its
period under MuJoCo's Euler happens to be right to second order (released at 1 rad it is 22 millionths too short at 10
ms), so the angle says more than the period.

All energies come from the positions alone, in double precision. A step that advances velocity first and position second
(MuJoCo's Euler) reports a velocity that is half a step ahead, and m g v dt / 2 of energy that is not there: two percent
at 10 ms.

The ball's velocity is a central difference, which is exact on a parabola. Positions in single precision leave 0.001
percent of rounding at 1 ms, less at longer steps. The parabola that MuJoCo's Euler falls along starts with g dt / 2,
which is g dt^2 / (8 height) of energy, 0.012 percent at 10 ms.

The pendulum's velocity is the slope of a polynomial of eighth degree, fitted to the positions within 0.4 / omega
before and after, but four at least: 0.13 s. That of the exact swing is right to 0.05 millionths of the energy at all
four step lengths, and to 0.4 if its positions are rounded to single precision. A central difference is off by 326 at
10 ms, and by 18 at 1 ms, most of it rounding. What steps in single precision add up is the physics' own: in double
precision MuJoCo's drift at 1 ms would be 2.4. A shake within a few steps is smoothed away; the angle shows it.
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
    unless_lost,
)
from stickslip.bench.references import timesteps
from stickslip.bench.report import style
from stickslip.bench.result import Result
from stickslip.errors import InputError
from stickslip.parameters import parameter
from stickslip.physics.base import Physics
from stickslip.scenes import bouncing_ball, pendulum

Array = NDArray[np.float64]

SPREAD = 0.05
"""By which share the highest ball starts above the first."""
DEGREE = 8
"""Of the polynomial whose slope is the pendulum's velocity."""
REACH = 0.4
"""How far before and after a moment the polynomial is fitted, as phase of a small swing [rad]."""
TOUCH = 0.2
"""A ball that has not been in the air for this long, or for two bounces, lies on the floor [s]; a bounce takes 0.03."""


@dataclasses.dataclass(frozen=True)
class Settings:
    height: float = parameter(1.0, "height the first ball falls from [m]", low=0.01, high=100.0)
    mass: float = parameter(0.1, "mass of the ball, and of the pendulum [kg]", low=1e-3, high=1e3)
    stiffness: float = parameter(1000.0, "stiffness of the ball's contact [N/m]", low=1.0, high=1e8)
    balls: int = parameter(16, "number of balls, which fall from slightly different heights", low=1, high=4096)
    length: float = parameter(1.0, "length of the pendulum [m]", low=0.1, high=100.0)
    angle: float = parameter(0.5 * math.pi, "angle the pendulum is released at [rad]", low=0.01, high=3.1)
    duration: float = parameter(10.0, "simulated time [s]", low=0.1, high=100.0)
    timesteps: tuple[float, ...] = parameter((0.001, 0.002, 0.005, 0.01), "length of a step [s]", low=1e-5, high=0.1)


@dataclasses.dataclass(frozen=True)
class Case:
    kind: str
    timestep: float


def frequency(length: float) -> float:
    """Of small swings of the scene's pendulum [rad/s]: the root of m g l / I with I = m (l^2 + 2/5 r^2)."""
    return math.sqrt(GRAVITY * length / (length**2 + 0.4 * pendulum.RADIUS**2))


def period(length: float, angle: float) -> float:
    """Of a pendulum released from rest at `angle` [s]: 2 pi / (omega agm(1, cos(angle / 2)))."""
    a, b = 1.0, math.cos(0.5 * angle)
    while abs(a - b) > 1e-15 * a:
        a, b = 0.5 * (a + b), math.sqrt(a * b)
    return 2.0 * math.pi / (frequency(length) * a)


def swing(length: float, angle: float, time: Any) -> Array:
    """Angle of a pendulum released from rest at `angle`, at `time`: sin(theta / 2) = k cd(omega t), k = sin(angle / 2).

    cd = cn/dn is Jacobi's sn a quarter of a period ahead; sn comes from the means that give the period, backwards.
    """
    k = math.sin(0.5 * angle)
    means = [(1.0, k)]
    b = math.cos(0.5 * angle)
    while abs(means[-1][1]) > 1e-15:
        a = means[-1][0]
        means.append((0.5 * (a + b), 0.5 * (a - b)))
        b = math.sqrt(a * b)
    quarter = 0.5 * math.pi / means[-1][0]
    phase = 2.0 ** (len(means) - 1) * means[-1][0] * (frequency(length) * np.asarray(time, dtype=float) + quarter)
    for a, c in reversed(means[1:]):
        phase = 0.5 * (phase + np.arcsin(np.clip(c / a * np.sin(phase), -1.0, 1.0)))
    return 2.0 * np.arcsin(k * np.sin(phase))


def heights(settings: Settings) -> Array:
    """Where the lowest point of each ball starts above the floor [m]."""
    return settings.height * (1.0 + SPREAD * np.arange(settings.balls) / settings.balls)


def rate(position: Array, timestep: float, reach: int = 1, degree: int = 2) -> Array:
    """Velocity at all but the first and the last `reach` positions: the slope there of a polynomial of that degree.

    It is fitted to the positions up to `reach` before and after by least squares. As it stands, a central difference.
    """
    powers = np.vander(np.arange(-reach, reach + 1) / reach, degree + 1, increasing=True)
    weights = np.asarray(np.linalg.pinv(powers)[1], dtype=np.float64)
    return np.correlate(position, weights, "valid") / (reach * timestep)


def crossings(time: Array, angle: Array) -> Array:
    """When the angle passes zero, downwards and upwards; between two samples by a straight line."""
    at = np.flatnonzero(np.sign(angle[:-1]) * np.sign(angle[1:]) < 0)
    return time[at] + (time[at + 1] - time[at]) * angle[at] / (angle[at] - angle[at + 1])


def _label(kind: str, timestep: float) -> str:
    return f"{kind}, dt {1e3 * timestep:g} ms"


class Energy(Experiment[Settings]):
    name = "energy"
    summary = "a ball on a spring without a damper and a free pendulum: energy gained and lost, error of the swing"
    source = "CENIC: Convex Error-controlled Numerical Integration for Contact, Fig. 8 (ball); stickslip (pendulum)"
    settings = Settings
    quick = {"balls": 2, "duration": 0.6, "timesteps": (0.005,)}

    def cases(self, settings: Settings) -> Mapping[str, Case]:
        longest = max(settings.timesteps)
        if round(settings.duration / longest) < DEGREE:
            raise InputError(
                f"duration is {settings.duration:g} s and a step {longest:g} s: {self.name} needs {DEGREE} steps or "
                f"more; set duration to {DEGREE * longest:g} or more, or timesteps to {settings.duration / DEGREE:g} "
                "or less"
            )
        return {_label(kind, dt): Case(kind, dt) for kind in ("ball", "pendulum") for dt in settings.timesteps}

    def measure(self, case: Case, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        steps = round(settings.duration / case.timestep)
        if case.kind == "ball":
            scene = f"bouncing-ball:height={settings.height!r},mass={settings.mass!r},stiffness={settings.stiffness!r}"
            sim = trial.simulation(scene, physics, nworld=settings.balls, timestep=case.timestep)
            start = sim.qpos.numpy().copy()
            start[:, 2] = bouncing_ball.RADIUS + heights(settings)
            sim.qpos = start
            track = trial.record(sim, steps, lambda sim: {"z": sim.qpos.numpy()[:, 2].copy()}, samples=steps)
            metrics, drawn = _balls(track["time"], track["z"], settings)
        else:
            scene = f"pendulum:length={settings.length!r},mass={settings.mass!r},angle={settings.angle!r}"
            sim = trial.simulation(scene, physics, timestep=case.timestep)
            track = trial.record(sim, steps, lambda sim: {"angle": sim.qpos.numpy()[0, 0]}, samples=steps)
            metrics, drawn = _pendulum(track["time"], track["angle"], settings)
        if sim.health().nan_worlds:  # whatever part of the state it is: a velocity shows in no position yet
            metrics = dict.fromkeys(metrics, math.nan)
        return Outcome(metrics, drawn, problems(sim))

    def scores(self, settings: Settings) -> Sequence[Score]:
        middle, longest = timesteps.usual(settings.timesteps), max(settings.timesteps)

        def row(title: str, kind: str, dt: float, metric: str, unit: str = "%") -> Score:
            return Score(f"{title}, {timesteps.tick(dt)}", _label(kind, dt), metric, unit)

        kept = f"energy gained or lost by an elastic ball in {settings.duration:g} s"
        return [
            row("largest energy gained by a bouncing ball", "ball", middle, "growth_percent"),
            row(kept, "ball", middle, "change_percent"),
            row("largest energy gained or lost by a free pendulum", "pendulum", longest, "drift_ppm", "ppm"),
            row("error of a free pendulum's angle", "pendulum", longest, "angle_error_deg", "deg"),
        ]

    def reported(self, result: Result) -> Sequence[Reported]:
        settings = self.make_settings(result.settings)
        case = _label("ball", timesteps.usual(settings.timesteps))
        paper = dataclasses.replace(settings, timesteps=Settings.timesteps)
        if paper != Settings():
            return ()  # the paper's metric is of its own ball
        measured = ", ".join(
            f"{style.short(c)} {style.number(result.metric(c, case, 'bounces'))}" for c in result.ran(case)
        )
        return [Reported("bounces in 10 s", "11", measured)] if measured else []

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        steps = settings.timesteps
        fig, axes = style.figure("energy: a ball on a spring without a damper, and a free pendulum", 3, 2)
        for ax, kind, metric, unit in (
            (axes[0, 0], "ball", "energy", "energy in flight [J]"),
            (axes[2, 0], "pendulum", "drift_ppm", "change of energy [ppm]"),
        ):
            case = _label(kind, timesteps.usual(steps))
            for method in result.ran(case):
                time = result.series(method, case, "time")
                marks = {"marker": ".", "markersize": 3.0, "lw": 0.8} if kind == "ball" else {}
                style.line(ax, result, method, time, result.series(method, case, metric), **marks)
            exact = settings.mass * GRAVITY * settings.height if kind == "ball" else 0.0
            style.reference(ax, [0.0, settings.duration], [exact, exact])
            style.label(ax, f"first {case}" if kind == "ball" else case, "time [s]", unit)

        def bars(ax: Any, kind: str, metric: str, title: str, unit: str) -> None:
            cases = [_label(kind, dt) for dt in steps]
            labels = [c for c in result.methods if any(result.has(c, case) for case in cases)]
            values = {c: [result.metric(c, case, metric) for case in cases] for c in labels}
            style.bars(ax, result, cases, values, log=True, ticks=[timesteps.tick(dt) for dt in steps])
            style.label(ax, title, "", unit)

        after = f"after {settings.duration:g} s"
        share = "share of the start [%]"
        bars(axes[0, 1], "ball", "change_percent", f"balls: energy gained or lost {after}, mean magnitude", share)
        bars(axes[1, 0], "ball", "growth_percent", "balls: largest energy of any above that of its start", share)
        bars(axes[1, 1], "pendulum", "drift_ppm", "pendulum: largest change of energy", "share of the start [ppm]")
        bars(axes[2, 1], "pendulum", "angle_error_deg", "pendulum: largest error of the angle", "error [deg]")
        style.legend(fig, axes)
        return fig


def _balls(time: Array, z: Array, settings: Settings) -> tuple[dict[str, float], dict[str, Array]]:
    """Metrics of all balls, and series of the first, from the height of each at every step (n, balls)."""
    start = settings.mass * GRAVITY * heights(settings)
    found = [_flights(time, column - bouncing_ball.RADIUS, settings) for column in z.T]
    left = np.array([left for _, _, left in found])
    most = np.array([energy.max(initial=-math.inf) for _, energy, _ in found])
    metrics = {
        "growth_percent": 100.0 * np.maximum(most / start - 1.0, 0.0).max(),
        "change_percent": 100.0 * np.abs(left / start - 1.0).mean(),
        "lost_percent": 100.0 * (1.0 - left / start).mean(),
        "left_j": left[0],
        "bounces": ((z[:-1, 0] > bouncing_ball.RADIUS) & (z[1:, 0] <= bouncing_ball.RADIUS)).sum(),
    }
    metrics = unless_lost(metrics, z)
    moments, energy, _ = found[0]
    stride = max(1, len(moments) // SAMPLES)
    return metrics, {"time": moments[::stride], "energy": energy[::stride]}


def _flights(time: Array, height: Array, settings: Settings) -> tuple[Array, Array, float]:
    """When a ball was in the air, its energy then, and what it has left at the end [J]."""
    energy = settings.mass * (GRAVITY * height[1:-1] + 0.5 * rate(height, time[1]) ** 2)
    flying = np.lib.stride_tricks.sliding_window_view(height > 0.0, 3).all(axis=1)  # no contact within the difference
    moments, energy = time[1:-1][flying], energy[flying]
    bounce = math.pi * math.sqrt(settings.mass / settings.stiffness)
    lies = not len(moments) or time[-1] - moments[-1] > max(TOUCH, 2.0 * bounce)
    return moments, energy, 0.0 if lies else energy[-1]


def _pendulum(time: Array, theta: Array, settings: Settings) -> tuple[dict[str, float], dict[str, Array]]:
    """Metrics and series of a pendulum from its angle at every step."""
    length, angle = settings.length, settings.angle
    start = 1.0 - math.cos(angle)  # in units of m g l, like all energies here
    reach = min(max(DEGREE // 2, round(REACH / (frequency(length) * time[1]))), (len(theta) - 1) // 2)
    inner = slice(reach, -reach)
    energy = 1.0 - np.cos(theta[inner]) + 0.5 * (rate(theta, time[1], reach, DEGREE) / frequency(length)) ** 2
    drift = 1e6 * (energy / start - 1.0)
    error = np.degrees(theta - swing(length, angle, time))
    passed = crossings(time, theta)
    measured = 2.0 * (passed[-1] - passed[0]) / (len(passed) - 1) if len(passed) >= 2 else math.nan
    metrics = {
        "drift_ppm": np.abs(drift).max(),
        "final_drift_ppm": drift[-1],
        "angle_error_deg": np.abs(error).max(),
        "period_s": measured,
        "period_error_ppm": 1e6 * (measured / period(length, angle) - 1.0),
    }
    metrics = unless_lost(metrics, theta)
    stride = max(1, len(drift) // SAMPLES)
    return metrics, {"time": time[inner][::stride], "drift_ppm": drift[::stride]}
