"""`rebound`: dissipation of a ball from how high it bounces, against the law of Hunt and Crossley.

The contact force is k x (1 + d v), with x the depth and v the speed of approach. Without weight, m v dv/dx is its
negative, so v/d - ln(1 + d v)/d^2 is the same when the ball leaves as when it came, whatever its mass and stiffness:
`leaves`. Weight presses the ball a little deeper, so the rebounds that a camera sees here are integrated with it, in
double precision; without it, the integral is the closed form.

Balls fall from several heights, and each comes back to one. `cenic` and `icf` have this law. What they lose beside it
by the length of their steps, an identification takes for dissipation, and finds less of it: the velocity is not among
what the accuracy of `cenic` bounds.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip import identification
from stickslip.bench.experiment import GRAVITY, Experiment, Outcome, Score, Trial
from stickslip.bench.report import series, style
from stickslip.bench.result import Result
from stickslip.errors import MissingExtra, StickslipError, Unsupported
from stickslip.identification import Dissipation, Measure
from stickslip.parameters import parameter
from stickslip.physics.base import Physics

BALL = Dissipation("ball", 0.005, 20.0)
RADIUS = 0.05
"""Of the ball [m]."""


@dataclasses.dataclass(frozen=True)
class Settings:
    dissipations: tuple[float, ...] = parameter((0.05, 0.2, 0.8), "of the ball [s/m]", low=0.006, high=18.0)
    heights: tuple[float, ...] = parameter((0.1, 0.3), "that balls fall from, fitted [m]", low=0.05, high=10.0)
    tested: float = parameter(0.5, "height of the ball that is tested, and not fitted [m]", low=0.05, high=10.0)
    noise: float = parameter(0.001, "standard deviation of a measured height [m]", low=1e-6, high=0.1)
    mass: float = parameter(0.1, "of the ball [kg]", low=1e-3, high=1e3)
    stiffness: float = parameter(2e3, "of the contact [N/m]", low=1.0, high=1e8)
    timestep: float = parameter(0.001, "length of a step [s]", low=1e-5, high=0.01)
    worlds: int = parameter(256, "candidates and heights at a time (fewer on a CPU)", low=16, high=1 << 20)
    generations: int = parameter(8, "of the search, at most", low=1, high=1000)


def leaves(speed: float, dissipation: float) -> float:
    """Speed [m/s] at which a body leaves that came at another, by bisection."""

    def level(v: float) -> float:
        return v / dissipation - math.log1p(dissipation * v) / dissipation**2

    low, high = 0.0, min(speed, (1.0 - 1e-12) / dissipation)
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if level(-middle) < level(speed) else (low, middle)
    return low


def rises(height: float, dissipation: float, frequency: float, gravity: float = GRAVITY) -> float:
    """Height [m] that a ball comes back to, by Runge and Kutta's method through the contact.

    Args:
        height: that it falls from [m]
        dissipation: s/m
        frequency: root of stiffness over mass [rad/s]
        gravity: while it touches [m/s^2]
    """

    def slope(x: float, v: float) -> tuple[float, float]:
        return v, gravity - frequency**2 * x * max(1.0 + dissipation * v, 0.0)

    x, v, h = 0.0, math.sqrt(2.0 * GRAVITY * height), 1e-3 / frequency
    while True:
        a = slope(x, v)
        b = slope(x + 0.5 * h * a[0], v + 0.5 * h * a[1])
        c = slope(x + 0.5 * h * b[0], v + 0.5 * h * b[1])
        e = slope(x + h * c[0], v + h * c[1])
        ahead = x + h / 6.0 * (a[0] + 2.0 * b[0] + 2.0 * c[0] + e[0])
        if ahead < 0.0:
            return v**2 / (2.0 * GRAVITY)
        x, v = ahead, v + h / 6.0 * (a[1] + 2.0 * b[1] + 2.0 * c[1] + e[1])


def first_rebound(place: NDArray[np.floating]) -> NDArray[np.floating]:
    """Height of the first rebound of paths (nworld, n), each from its lowest point before the ball falls again."""
    rising = np.diff(place, axis=1) > 0.0
    touch = rising.argmax(axis=1)  # the first step upwards
    after = np.arange(rising.shape[1])[None] > touch[:, None]
    falls = np.where((~rising & after).any(axis=1), (~rising & after).argmax(axis=1), rising.shape[1])
    peak = place[np.arange(len(place)), falls]
    return np.where(rising.any(axis=1), peak, place[:, -1])


def model(settings: Settings) -> mujoco.MjModel:
    """A ball that moves up and down over a rigid floor; its position is its height above the floor."""
    spec = mujoco.MjSpec()
    spec.option.timestep = settings.timestep
    spec.nuser_geom = 3
    spec.worldbody.add_geom(name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0.0, 0.0, 1.0], condim=1)
    body = spec.worldbody.add_body(name="ball", pos=[0.0, 0.0, RADIUS])
    body.add_joint(type=mujoco.mjtJoint.mjJNT_SLIDE, axis=[0.0, 0.0, 1.0])
    body.add_geom(
        name="ball", type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[RADIUS, 0.0, 0.0], mass=settings.mass, condim=1,
        userdata=[settings.stiffness, 1.0, 0.0],
    )  # fmt: skip
    return spec.compile()


class Rebound(Experiment[Settings]):
    name = "rebound"
    summary = "dissipation of a ball identified from the heights of its rebounds, against the closed form"
    source = "stickslip"
    settings = Settings
    cpu = {"worlds": 32}
    quick = {"dissipations": (0.2,), "heights": (0.05,), "tested": 0.1, "worlds": 16, "generations": 1}
    only = ("icf", "cenic")
    extra = ("cenic:accuracy=1e-5", "cenic:accuracy=1e-5,scheme=trapezoid")

    def cases(self, settings: Settings) -> Mapping[str, float]:
        return {f"{dissipation:g} s/m": dissipation for dissipation in settings.dissipations}

    def measure(self, case: float, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        random, frequency = trial.random(), math.sqrt(settings.stiffness / settings.mass)
        heights = (*settings.heights, settings.tested)
        exact = [rises(height, case, frequency) for height in heights]
        longest = 2.1 * math.sqrt(2.0 * max(heights) / GRAVITY)
        measure = Measure(
            lambda out: np.repeat(first_rebound(out["qpos"][..., 0])[:, None, None], out["qpos"].shape[1], axis=1),
            ("qpos",),
        )
        trials = [
            identification.Trial(
                [0.0, longest], [[height], [rise + settings.noise * random.normal()]],
                [[math.inf], [settings.noise]], "height of the rebound", qpos=[height], name=f"{height:g} m",
            )
            for height, rise in zip(heights, exact, strict=True)
        ]  # fmt: skip
        try:
            found = identification.identify(
                model(settings), physics, data=trials[:-1], held_out=trials[-1:], parameters=[BALL], measure=measure,
                nworld=settings.worlds, generations=settings.generations, seed=trial.seed, device=trial.device,
            )  # fmt: skip
        except (Unsupported, MissingExtra):
            raise
        except StickslipError as error:
            return Outcome({}, problems=[f"no fit: {error}"])
        estimate = found.estimates[BALL.name]
        rebound = [float(path[-1, 0]) for path in (*found.predicted, *found.held_out_predicted)]
        metrics = {
            "dissipation": estimate.value,
            "dissipation_low": estimate.low,
            "dissipation_high": estimate.high,
            "dissipation_error_percent": 100.0 * (estimate.value / case - 1.0) if estimate.identified else math.nan,
            "inside": float(estimate.low <= case <= estimate.high),
            "residual": found.residual,
            "tested_error_percent": 100.0 * (rebound[-1] / exact[-1] - 1.0),
        }
        return Outcome(metrics, {"rebound": rebound, "exact": exact})

    def scores(self, settings: Settings) -> Sequence[Score]:
        return [
            score
            for case in self.cases(settings)
            for score in (
                Score(f"dissipation, {case}", case, "dissipation_error_percent", "%", absent="not identified"),
                Score(f"a rebound that was not fitted, {case}", case, "tested_error_percent", "%"),
            )
        ]

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        fig, axes = style.figure("rebound: dissipation from heights", 1, 3, width=16.0, height=4.0)
        heights = np.array([*settings.heights, settings.tested])
        grid = np.linspace(0.3 * heights.min(), 1.05 * heights.max(), 20)
        ax, frequency = axes[0, 0], math.sqrt(settings.stiffness / settings.mass)
        for number, (case, dissipation) in enumerate(self.cases(settings).items()):
            curve = [rises(height, dissipation, frequency) for height in grid]
            style.reference(ax, grid, curve, "exact" if number == 0 else "_")
            ax.annotate(case, (grid[-1], curve[-1]), fontsize=8, color=style.INK)
            for method in result.ran(case):
                found = result.series(method, case, "rebound")
                if len(found) == len(heights):
                    dots = {"ls": "none", "marker": "o", "ms": 5, "label": style.in_full(method)}
                    style.line(ax, result, method, heights, found, **dots | ({} if number == 0 else {"label": "_"}))
        style.label(ax, "after the fit; the highest was not fitted", "fall [m]", "rebound [m]")
        ticks = list(result.cases)
        series.bars(axes[0, 1], result, result.cases, "dissipation_error_percent", ticks, log=False)
        style.label(axes[0, 1], "error of the dissipation", "", "[%]")
        series.bars(axes[0, 2], result, result.cases, "tested_error_percent", ticks, log=False)
        style.label(axes[0, 2], "error of the rebound that was not fitted", "", "[%]")
        style.legend(fig, [ax])
        return fig
