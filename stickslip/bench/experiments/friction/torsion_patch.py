"""`torsion-patch`: a disc, two boxes and a sphere spin on the floor until friction has stopped them.

Friction is sliding friction alone (condim 3), so the torque comes from where a body touches: mu m g times 2/3 R for a
disc, 0.3826 a for a square, 8/15 of the patch's radius for a sphere of modulus E. Contact patches (hydroelastic) have
these arms. Points at the corners of a square have 0.7071 a, those on the rim of a disc R, and the one point of a sphere
has none. The bodies name modulus and depth (see the scene `patch-spin`); a physics that has no patches uses points.

The torque is constant, so the spin falls at a constant rate. A disc that slides too is braked by a force and a torque
that depend on both velocities; both end at the same moment, and v / (R w) tends to 0.653. It is looked at when a tenth
of the spin is left.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stickslip.bench.baselines import drake
from stickslip.bench.experiment import GRAVITY, Experiment, Outcome, Score, Trial, problems
from stickslip.bench.references import decay, patches
from stickslip.bench.report import series, style
from stickslip.bench.result import Result
from stickslip.parameters import parameter
from stickslip.physics.base import Physics

SLIDING = "disc that slides"
LEFT = 0.1
"""Share of the spin at which v / (R w) of a disc that slides is looked at."""
AFTER = 1.5
"""Simulated time of a disc that slides, of the exact time to rest."""


@dataclasses.dataclass(frozen=True)
class Settings:
    shapes: tuple[str, ...] = parameter(
        ("disc", "square", "rectangle", "sphere", SLIDING),
        "what spins",
        choices=("disc", "square", "rectangle", "sphere", SLIDING),
    )
    size: float = parameter(0.1, "diameter of disc and sphere, longer side of the boxes [m]", low=0.1, high=1.0)
    mu: float = parameter(0.3, "coefficient of friction", low=0.01, high=5.0)
    modulus: float = parameter(1e6, "hydroelastic modulus of disc and boxes [Pa]", low=1e3, high=1e12)
    soft: float = parameter(1e7, "hydroelastic modulus of the sphere [Pa]", low=1e3, high=1e12)
    spin: float = parameter(20.0, "angular velocity at the start [rad/s]", low=0.01, high=100.0)
    speed: float = parameter(1.0, "velocity at the start of the disc that slides [m/s]", low=0.01, high=10.0)
    timestep: float = parameter(0.002, "length of a step [s]", low=1e-5, high=0.1)
    span: float = parameter(1.5, "simulated time, of the exact time to rest", low=1.0, high=100.0)


def arm(shape: str, settings: Settings) -> float:
    """Torque over mu m g [m]."""
    size = settings.size
    if shape == "disc":
        return patches.disc_arm(0.5 * size)
    if shape == "sphere":
        return patches.sphere_arm(patches.sphere_patch(settings.soft, 0.5 * size, GRAVITY))
    return patches.rectangle_arm(size, size if shape == "square" else 0.5 * size)


def exact(shape: str, settings: Settings) -> decay.Decay:
    """The spin [rad/s] under the torque of the patch."""
    size = settings.size
    turning = {
        "disc": size**2 / 8.0,
        "square": size**2 / 6.0,
        "rectangle": 1.25 * size**2 / 12.0,
        "sphere": 0.1 * size**2,
    }  # inertia over mass
    return decay.Decay(settings.spin, settings.mu * GRAVITY * arm(shape, settings) / turning[shape])


def scene(shape: str, settings: Settings) -> str:
    """The scene of a case; its mass is 1 kg."""
    kind = {"square": "box", "rectangle": "box", SLIDING: "disc"}.get(shape, shape)
    given = {
        "shape": kind,
        "length": settings.size,
        "width": settings.size * (0.5 if shape == "rectangle" else 1.0),
        "mu": settings.mu,
        "modulus": settings.soft if shape == "sphere" else settings.modulus,
        "spin": settings.spin,
        "speed": settings.speed if shape == SLIDING else 0.0,
    }
    return "patch-spin:" + ",".join(f"{name}={value}" for name, value in given.items())


def _slide(settings: Settings) -> patches.Slide:
    return patches.disc_slide(settings.speed, settings.spin, 0.5 * settings.size, settings.mu)


class TorsionPatch(Experiment[Settings]):
    name = "torsion-patch"
    summary = "spinning disc, boxes and sphere braked by sliding friction, against the torque of a contact patch"
    source = "stickslip"
    settings = Settings
    quick = {"shapes": ("square", SLIDING), "span": 1.0, "timestep": 0.01}
    extra = (drake.Drake.name,) if drake.installed() else ()

    def cases(self, settings: Settings) -> Mapping[str, str]:
        return {shape: shape for shape in settings.shapes}

    def measure(self, case: str, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        sim = trial.simulation(scene(case, settings), physics, timestep=settings.timestep)
        if case != SLIDING:
            reference = exact(case, settings)
            return decay.measure(sim, reference, settings.span, lambda sim: float(sim.qvel.numpy()[0, 5]), trial)
        reference, radius = _slide(settings), 0.5 * settings.size
        steps = math.ceil(AFTER * reference.time[-1] / settings.timestep)
        track = trial.record(sim, steps, lambda sim: {"qvel": sim.qvel.numpy()[0]})
        time, qvel = track["time"], track["qvel"]
        speed, spin = np.hypot(qvel[:, 0], qvel[:, 1]), qvel[:, 5]
        start = math.hypot(settings.speed, radius * settings.spin)
        wrong = np.hypot(
            speed - np.interp(time, reference.time, reference.speed, right=0.0),
            radius * (spin - np.interp(time, reference.time, reference.spin, right=0.0)),
        )
        end = np.interp(reference.time[-1], time, np.hypot(speed, radius * spin))
        ratio, expected = (
            _ratio(v, w, radius, settings.spin) for v, w in ((speed, spin), (reference.speed, reference.spin))
        )
        metrics = {
            "rms_percent": 100.0 * float(np.sqrt(np.mean(wrong**2))) / start,
            "left_percent": 100.0 * float(end) / start,
            "ratio": ratio,
            "exact_ratio": expected,
            "ratio_percent": 100.0 * (ratio / expected - 1.0),
        }
        return Outcome(metrics, {"time": time, "speed": speed, "rim": radius * spin}, problems(sim))

    def scores(self, settings: Settings) -> Sequence[Score]:
        spinning = [shape for shape in settings.shapes if shape != SLIDING]
        rows = [Score(f"error of the torque of a spinning {s}", s, "braking_percent", "%") for s in spinning]
        if SLIDING in settings.shapes:
            rows += [
                Score("error of a disc that slides and spins, rms", SLIDING, "rms_percent", "%"),
                Score("error of v/(R w) of a disc that slides and spins", SLIDING, "ratio_percent", "%", absent="none"),
            ]
        return rows

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        spinning = [shape for shape in settings.shapes if shape != SLIDING]
        fig, axes = style.figure("torsion-patch: bodies that spin on the floor", 2, 3, height=3.6, width=15.0)
        panels = list(axes.flat)
        for ax, case in zip(panels, spinning, strict=False):
            reference = exact(case, settings)
            for method in result.ran(case):
                time = result.series(method, case, "time")
                style.line(ax, result, method, time, result.series(method, case, "speed"))
            moments = np.linspace(0.0, settings.span * reference.stop, 200)
            style.reference(ax, moments, reference.speed(moments))
            style.label(ax, case, "time [s]", "angular velocity [rad/s]")
        for ax in panels[len(spinning) : 4]:
            ax.set_visible(False)
        if SLIDING in settings.shapes:
            for method in result.ran(SLIDING):
                rim, speed = (result.series(method, SLIDING, name) for name in ("rim", "speed"))
                style.line(panels[4], result, method, rim, speed)
            path = _slide(settings)
            style.reference(panels[4], 0.5 * settings.size * path.spin, path.speed)
            style.label(panels[4], f"{SLIDING}: from the upper right to rest", "speed of the rim [m/s]", "speed [m/s]")
        panels[4].set_visible(SLIDING in settings.shapes)
        series.bars(panels[5], result, spinning, "braking_percent", spinning, log=False)
        style.label(panels[5], "error of the torque", "", "of the exact torque [%]")
        panels[5].set_visible(bool(spinning))
        style.legend(fig, axes)
        return fig


def _ratio(speed: Any, spin: Any, radius: float, start: float) -> float:
    """v / (R w) when LEFT of the spin at the start is left; NaN if it never falls that far, or not while it slides."""
    below = np.flatnonzero(spin <= LEFT * start)
    if not below.size or below[0] == 0:
        return math.nan
    last = below[0]
    share = (spin[last - 1] - LEFT * start) / (spin[last - 1] - spin[last])
    return float((1.0 - share) * speed[last - 1] + share * speed[last]) / (radius * LEFT * start)
