"""`slide`: a cube slides over the floor until friction stops it, and must not leave the floor.

By Coulomb's law it slows down at mu g, stops after v^2 / (2 mu g), and its height never changes. Of the error of the
way, v dt / 2 is due to the step: the velocity at its end moves the cube all through it. A convex contact model lets a
point slip at v only if it rises at mu v. So a step turns v into v / (1 + mu^2) along the floor and mu times that
upwards, which throws the cube up by (mu v / (1 + mu^2))^2 / (2 g), 33 mm.

The paper gives neither mass nor size of the cube; ours is 10 g and 10 cm wide. Its ComFree has constant gains,
K = 1 N/m and D = 0.3 N s/m. Ours has K = k M(phi)/dt and D = d M(phi)/dt with M(phi) = 19 m for a cube of mass m that
is a millimetre deep (9 m at the surface), so the paper's gains are k = K dt/M = 0.0105 and d = D dt/M = 0.0032. Since
M is in proportion to the mass, ComFree moves alike whatever the mass is; only the match with the paper's gains needs
one. It cannot be much more than ours: 16 facets of 1 N/m would let 100 g sink by 5 cm.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

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
from stickslip.bench.report import style
from stickslip.bench.result import Result
from stickslip.parameters import parameter
from stickslip.physics.base import Physics

CASE = "sliding cube"
PAPER = "comfree:stiffness=0.0105,damping=0.0032"
"""The paper's gains."""


@dataclasses.dataclass(frozen=True)
class Settings:
    speed: float = parameter(2.0, "velocity at the start [m/s]", low=0.01, high=20.0)
    mu: float = parameter(0.5, "coefficient of friction", low=0.01, high=5.0)
    mass: float = parameter(0.01, "mass of the cube [kg]", low=1e-3, high=1e3)
    half: float = parameter(0.05, "half of the cube's side [m]", low=0.005, high=1.0)
    timestep: float = parameter(0.002, "length of a step [s]", low=1e-5, high=0.1)
    duration: float = parameter(1.0, "simulated time [s]", low=0.01, high=100.0)


def speed(settings: Settings, time: Any) -> Any:
    """Of the cube by Coulomb's law [m/s], at `time` [s]."""
    return np.maximum(settings.speed - settings.mu * GRAVITY * time, 0.0)


def way(settings: Settings, time: Any) -> Any:
    """How far the cube slides by Coulomb's law [m], until `time` [s]."""
    sliding = np.minimum(time, settings.speed / (settings.mu * GRAVITY))
    return settings.speed * sliding - 0.5 * settings.mu * GRAVITY * sliding**2


class Slide(Experiment[Settings]):
    name = "slide"
    summary = "a cube that friction stops on the floor: error of its position and speed, and whether it hops"
    source = "Complementarity-Free Multi-Contact Modeling and Optimization for Dexterous Manipulation, Fig. 5"
    settings = Settings
    quick = {"duration": 0.1}
    extra = ("qp", PAPER)

    def cases(self, settings: Settings) -> Mapping[str, None]:
        return {CASE: None}

    def measure(self, case: None, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        given = f"mu={settings.mu!r},mass={settings.mass!r},half={settings.half!r},speed={settings.speed!r}"
        sim = trial.simulation(f"thrown-cube:{given},height=0,spin=0", physics, timestep=settings.timestep)
        steps = max(1, round(settings.duration / settings.timestep))
        track = trial.record(sim, steps, state_of, samples=steps)
        time, along, height = track["time"], track["qvel"][:, 0, 0], track["qpos"][:, 0, 2] - track["qpos"][0, 0, 2]
        moved = track["qpos"][:, 0, 0] - track["qpos"][0, 0, 0]
        metrics = {
            "moved_mm": 1e3 * moved[-1],
            "expected_mm": 1e3 * way(settings, time[-1]),
            "way_error_mm": 1e3 * (moved[-1] - way(settings, time[-1])),
            "speed_error_rms": np.sqrt(np.mean((along - speed(settings, time)) ** 2)),
            "hop_mm": 1e3 * height.max(),
            "sink_mm": -1e3 * height.min() + 0.0,
            "jolt": np.abs(np.diff(along)).max(),
            "end_speed": np.linalg.norm(track["qvel"][-1, 0, :3]),
        }
        metrics = unless_lost(metrics, track["qpos"], track["qvel"])
        stored = slice(None, None, -(-steps // SAMPLES))
        series = {"time": time[stored], "speed": along[stored], "height_mm": 1e3 * height[stored]}
        return Outcome(metrics, series, problems(sim))

    def scores(self, settings: Settings) -> Sequence[Score]:
        return [
            Score("error of a sliding cube's distance", CASE, "way_error_mm", "mm"),
            Score("error of a sliding cube's speed, rms", CASE, "speed_error_rms", "m/s"),
            Score("height a sliding cube hops", CASE, "hop_mm", "mm"),
            Score("depth a sliding cube sinks", CASE, "sink_mm", "mm"),
        ]

    def reported(self, result: Result) -> Sequence[Reported]:
        rows = []
        if result.has(PAPER, CASE) and result.has("qp", CASE):
            hops = [style.number(result.metric(label, CASE, "hop_mm")) for label in (PAPER, "qp")]
            text = "ComFree stays nearer to the floor than the convex model"
            rows.append(Reported("hop of a sliding cube", text, f"ComFree {hops[0]} mm, convex {hops[1]} mm"))
        if result.has(PAPER, CASE) and result.has("mujoco", CASE):
            jolts = [style.number(result.metric(label, CASE, "jolt")) for label in (PAPER, "mujoco")]
            text = "less abrupt with ComFree than with MuJoCo"
            measured = f"largest change in a step: ComFree {jolts[0]} m/s, MuJoCo {jolts[1]} m/s"
            rows.append(Reported("horizontal velocity of a sliding cube", text, measured))
        return rows

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        fig, axes = style.figure(f"slide: a cube at {settings.speed:g} m/s that friction stops", 2, 2)
        (speeds, errors), (heights, hops) = axes
        labels = result.ran(CASE)
        for method in labels:
            time = result.series(method, CASE, "time")
            style.line(speeds, result, method, time, result.series(method, CASE, "speed"))
            style.line(heights, result, method, time, result.series(method, CASE, "height_mm"))
        moments = np.linspace(0.0, settings.duration, 200)
        style.reference(speeds, moments, speed(settings, moments))
        style.reference(heights, moments, 0.0 * moments)
        style.label(speeds, f"velocity, dt {1e3 * settings.timestep:g} ms", "time [s]", "velocity [m/s]")
        style.label(heights, "height of the centre above its place on the floor", "time [s]", "height [mm]")
        heights.set_yscale("symlog", linthresh=1.0)
        heights.yaxis.set_major_formatter("{x:g}")

        def values(*names: str) -> dict[str, list[float]]:
            return {c: [result.metric(c, CASE, name) for name in names] for c in labels}

        expected = 1e3 * way(settings, settings.duration)
        style.bars(errors, result, ["distance"], values("way_error_mm"), ticks=[""])
        style.label(errors, f"error of the distance; the exact one is {expected:.1f} mm", "", "error [mm]")
        style.bars(hops, result, ["hops", "sinks"], values("hop_mm", "sink_mm"), log=True)
        style.label(hops, "highest and deepest place of the centre", "", "height, depth [mm]")
        style.legend(fig, axes)
        return fig
