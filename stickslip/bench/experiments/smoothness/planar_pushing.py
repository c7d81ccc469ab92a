"""`planar-pushing`: a T on a floor, pushed about by a ball along five prescribed paths; where it ends.

The T is 25 cm wide and 20 cm long, the ball hangs on two servos whose targets follow straight lines between points. In
every path the ball makes and breaks contact twice or more, so that what sticks or slips on the way decides the end. All
methods get the same controls, a new one every 16 ms; the five paths are five worlds. The answer is that of MuJoCo in
C, in double precision with steps of 0.1 ms. It is an answer, not the truth: its contacts are as soft as the model says.

The paper takes controls that were optimised for goals, holds its model against MJX at the same step, and ends with
differences of centimetres; the paths here are ours. How often contact is made and how far things move are alike.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip import mjcf
from stickslip.bench.experiment import (
    Experiment,
    Outcome,
    Reported,
    Score,
    Trial,
    problems,
    state_of,
    unless_lost,
)
from stickslip.bench.references import timesteps
from stickslip.bench.report import series, style
from stickslip.bench.result import Result
from stickslip.errors import InputError
from stickslip.parameters import parameter
from stickslip.physics.base import Physics
from stickslip.scenes import push_t

PATHS: Mapping[str, tuple[tuple[float, float], ...]] = {
    "stem, then bar": ((0.0, -0.2), (0.0, -0.1), (0.0, -0.16), (0.2, -0.16), (0.2, 0.09), (0.1, 0.09), (0.2, 0.09)),
    "both wings": ((0.0, -0.2), (0.1, -0.1), (0.1, 0.04), (0.1, -0.1), (-0.1, -0.15), (-0.1, 0.05), (-0.1, -0.1)),
    "top, then stem": (
        (0.0, -0.2), (0.2, -0.1), (0.1, 0.16), (0.08, 0.03), (0.1, 0.16), (-0.14, 0.1), (-0.14, -0.1), (0.0, -0.1),
    ),
    "stem, from both sides": (
        (0.0, -0.2), (0.1, -0.12), (-0.03, -0.12), (0.1, -0.14), (0.1, -0.2), (-0.16, -0.2), (-0.16, -0.05),
        (-0.07, -0.05),
    ),
    "inner corner, then end": (
        (0.0, -0.2), (-0.1, -0.1), (-0.1, 0.0), (-0.02, 0.0), (-0.1, -0.06), (-0.2, -0.05), (-0.2, 0.06), (-0.08, 0.06),
    ),
}  # fmt: skip
"""Targets of the ball [m], visited at equal intervals of time."""
FINE = 1e-4
"""Step of the answer [s]."""


@dataclasses.dataclass(frozen=True)
class Settings:
    mu: float = parameter(0.4, "coefficient of friction", low=0.0, high=5.0)
    mass: float = parameter(0.5, "mass of the T [kg]", low=0.01, high=100.0)
    duration: float = parameter(4.0, "simulated time [s]", low=0.01, high=100.0)
    hold: float = parameter(0.016, "time from one control to the next [s]", low=1e-3, high=1.0)
    timesteps: tuple[float, ...] = parameter((0.002, 0.008, 0.016), "length of a step [s]", low=1e-4, high=0.1)


def controls(duration: float, hold: float) -> NDArray[np.float64]:
    """Where the ball should be at the end of each stretch of so many seconds, (stretch, path, 2)."""
    count = round(duration / hold)
    share = np.arange(1.0, count + 1) / count
    out = []
    for path in PATHS.values():
        at = np.linspace(0.0, 1.0, len(path))
        out.append(np.stack([np.interp(share, at, [point[k] for point in path]) for k in range(2)], axis=-1))
    return np.stack(out, axis=1)


def steps_of(hold: float, timestep: float) -> int:
    """How many steps a control is held; raises InputError if that is no whole number."""
    count = round(hold / timestep)
    if count < 1 or abs(count * timestep - hold) > 1e-9:
        raise InputError(
            f"timesteps has {timestep:g} s, of which hold, {hold:g} s, must be a whole number: change either"
        )
    return count


def poses(qpos: NDArray[np.float64]) -> NDArray[np.float64]:
    """Place and heading of the T and place of the ball, (..., 5) [m, rad], of positions of the scene, (..., 9)."""
    heading = 2.0 * np.arctan2(qpos[..., 6], qpos[..., 3])
    return np.concatenate([qpos[..., :2], heading[..., None], qpos[..., 7:9]], axis=-1)


def apart(one: NDArray[np.float64], two: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Distance [m] and angle [rad] between poses of the T."""
    turn = one[..., 2] - two[..., 2]
    return np.linalg.norm(one[..., :2] - two[..., :2], axis=-1), np.abs(np.arctan2(np.sin(turn), np.cos(turn)))


@functools.lru_cache(maxsize=4)
def answer(scene: str, duration: float, hold: float) -> NDArray[np.float64]:
    """Poses after each control by MuJoCo in C, and before the first, (stretch + 1, path, 5)."""
    mjm = mjcf.load(scene, timestep=FINE)
    ctrl = controls(duration, hold)
    out = np.zeros((len(ctrl) + 1, len(PATHS), mjm.nq))
    for path in range(len(PATHS)):
        mjd = mujoco.MjData(mjm)
        mujoco.mj_resetDataKeyframe(mjm, mjd, 0)
        out[0, path] = mjd.qpos
        for place, command in enumerate(ctrl[:, path]):
            mjd.ctrl[:] = command
            mujoco.mj_step(mjm, mjd, steps_of(hold, FINE))
            out[place + 1, path] = mjd.qpos
    return poses(out)


class PlanarPushing(Experiment[Settings]):
    name = "planar-pushing"
    summary = "a T pushed by a ball along five paths: distance and angle to where MuJoCo in C leaves it"
    source = "A Smooth Analytical Formulation of Collision Detection and Rigid Body Dynamics With Contact, Fig. 6 and 7"
    settings = Settings
    quick = {"duration": 0.064, "timesteps": (0.008,)}
    only = (
        "mujoco", "comfree", "cone-sweep", "icf", "mjx", "mjx:integrator=rk4", "scm", "scm:contact=comfree",
        "scm:integrator=euler", "scm:integrator=rk4", "scm:points=13", "scm:points=600",
    )  # fmt: skip

    def cases(self, settings: Settings) -> Mapping[str, float]:
        for timestep in settings.timesteps:
            steps_of(settings.hold, timestep)
        return {timesteps.tick(timestep): timestep for timestep in settings.timesteps}

    def measure(self, case: float, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        scene = f"push-t:mu={settings.mu!r},mass={settings.mass!r}"
        sim = trial.simulation(scene, physics, nworld=len(PATHS), timestep=case)
        ctrl, held = controls(settings.duration, settings.hold), steps_of(settings.hold, case)
        track = [state_of(sim)["qpos"]]
        for place, command in enumerate(ctrl):
            sim.ctrl = command
            sim.step(held)
            track.append(state_of(sim)["qpos"])
            trial.progress((place + 1) / len(ctrl))
        qpos = np.stack(track)
        found, right = poses(qpos), answer(scene, settings.duration, settings.hold)[-1]
        distance, angle = apart(found[-1], right)
        upright = 1.0 - 2.0 * (qpos[..., 4] ** 2 + qpos[..., 5] ** 2)
        metrics = {
            "distance_cm": 100.0 * distance.mean(),
            "distance_sd_cm": 100.0 * distance.std(ddof=1),
            "distance_worst_cm": 100.0 * distance.max(),
            "angle_deg": np.degrees(angle).mean(),
            "angle_sd_deg": np.degrees(angle).std(ddof=1),
            "angle_worst_deg": np.degrees(angle).max(),
            "tilt_deg": np.degrees(np.arccos(np.clip(upright.min(), -1.0, 1.0))),
            "moved_cm": 100.0 * np.linalg.norm(right[:, :2], axis=1).mean(),
        }
        names = ("x", "y", "heading")
        ends = {name: found[-1, :, i] for i, name in enumerate(names)}
        return Outcome(unless_lost(metrics, qpos), ends, problems(sim))

    def scores(self, settings: Settings) -> Sequence[Score]:
        rows = []
        for title, metric, unit in (
            ("T pushed along five paths, distance to MuJoCo's end", "distance_cm", "cm"),
            ("T pushed along five paths, angle to MuJoCo's end", "angle_deg", "deg"),
        ):
            rows += [
                Score(f"{title}, {timesteps.tick(dt)}", timesteps.tick(dt), metric, unit) for dt in settings.timesteps
            ]
        return rows

    def reported(self, result: Result) -> Sequence[Reported]:
        rows = []
        for dt, integrator, points, paper in (
            (0.002, "rk4", "4k points", "1.2 ± 1.0 cm, 10.8 ± 10.3 deg"),
            (0.008, "rk4", "4k points", "1.3 ± 1.6 cm, 12.5 ± 9.1 deg"),
            (0.016, "rk4", "4k points", "4.6 ± 3.7 cm, 29.4 ± 18.3 deg"),
            (0.002, "euler", "4k points", "6.7 ± 2.9 cm, 42.3 ± 18.2 deg"),
        ):
            label, case = f"scm:integrator={integrator}", timesteps.tick(dt)
            if not np.isfinite(result.metric(label, case, "distance_cm")):
                continue
            ours = " and ".join(
                f"{style.number(result.metric(label, case, name))} ± "
                f"{style.number(result.metric(label, case, spread))} {unit}"
                for name, spread, unit in (
                    ("distance_cm", "distance_sd_cm", "cm"),
                    ("angle_deg", "angle_sd_deg", "deg"),
                )
            )
            what = f"end of a pushed T, {integrator}, {case}; the paper's paths and {points} against MJX"
            rows.append(Reported(what, paper, f"{ours}, our paths and 300 points against MuJoCo in C"))
        return rows

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        usual = timesteps.tick(timesteps.usual(settings.timesteps))
        title = f"planar-pushing: a T after {settings.duration:g} s of pushing, {usual}"
        fig, axes = style.figure(title, 2, 1, width=16.0, height=4.6)
        top, bottom = style.split(axes[0, 0], len(PATHS)), style.split(axes[1, 0], 2)
        right = answer(f"push-t:mu={settings.mu!r},mass={settings.mass!r}", settings.duration, settings.hold)
        for k, (ax, name) in enumerate(zip(top, PATHS, strict=True)):
            ax.plot(right[:, k, 3], right[:, k, 4], color=style.REFERENCE, lw=0.8, ls=":", label="ball, MuJoCo in C")
            for method in result.ran(usual):
                end = [result.series(method, usual, part)[k : k + 1] for part in ("x", "y", "heading")]
                if np.size(end) == 3 and np.isfinite(end).all():
                    end = [float(value[0]) for value in end]
                    style.line(ax, result, method, *outline(*end))
            style.reference(ax, *outline(*right[-1, k, :3]), "MuJoCo in C, 0.1 ms")
            ax.set_aspect("equal")
            style.label(ax, name, "x [m]", "y [m]" if k == 0 else "")
        cases = [timesteps.tick(dt) for dt in settings.timesteps]
        for ax, metric, what in (
            (bottom[0], "distance_cm", "distance to MuJoCo's end, mean of five [cm]"),
            (bottom[1], "angle_deg", "angle to MuJoCo's end, mean of five [deg]"),
        ):
            series.bars(ax, result, cases, metric, cases)
            style.label(ax, what.partition(",")[0], "", what)
        style.legend(fig, [*top, *bottom])
        return fig


def outline(x: float, y: float, heading: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Corners of the T, closed, at a pose."""
    corners = np.array([*push_t.corners(), push_t.corners()[0]])
    c, s = math.cos(heading), math.sin(heading)
    return x + c * corners[:, 0] - s * corners[:, 1], y + s * corners[:, 0] + c * corners[:, 1]
