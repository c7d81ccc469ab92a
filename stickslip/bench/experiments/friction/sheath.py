"""`sheath`: a sphere is driven along a plane by a constant force, two millimetres below a second plane.

It cannot rotate. By Coulomb's law it accelerates at F/m - mu g and touches the lower plane alone. A convex model allows
a slip v only where the planes are at least mu v dt away: it lifts the sphere, presses it against the upper plane too,
and lets it go no faster than gap / (2 mu dt), with the sphere in the middle of the gap. That is the sheath effect.

The paper leaves the length of the run out; ours is one second. Its ComFree has constant gains, K = 20 N/m and
D = 6 N s/m. Ours has K = k M(phi)/dt and D = d M(phi)/dt, where M(phi) = r/(1 - r) m for a body of mass m on a fixed
one, and r rises from 0.9 at the surface to 0.95 a millimetre below it. So past that M = 19 m = 3.8 kg, and k = K dt/M,
d = D dt/M give the method `comfree:stiffness=0.0526,damping=0.0158`. Two differences remain, which no setting takes
away. The paper's contact acts at a distance, ours once it touches. And ours never lets the facets of a contact undo
more than half of a velocity in a step; the paper's gains would undo 124 %, so ours are cut to 40 % of them.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stickslip.bench.experiment import (
    GRAVITY,
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
from stickslip.bench.report import style
from stickslip.bench.result import Result
from stickslip.parameters import parameter
from stickslip.physics.base import Physics
from stickslip.simulation import Simulation

CASE = "driven sphere"
FLAT = 0.1
"""Share of the exact acceleration below which the speed counts as a plateau."""
SMALL = 1e-3
"""Share of the weight from which on a force counts."""
PAPER = "comfree:stiffness=0.0526,damping=0.0158"
"""The paper's gains."""


@dataclasses.dataclass(frozen=True)
class Settings:
    mass: float = parameter(0.2, "mass of the sphere [kg]", low=1e-3, high=1e3)
    radius: float = parameter(0.05, "radius of the sphere [m]", low=0.005, high=1.0)
    gap: float = parameter(0.002, "distance to the upper plane at the start [m]", low=0.0, high=1.0)
    mu: float = parameter(0.3, "coefficient of friction", low=0.0, high=5.0)
    force: float = parameter(1.0, "constant force along x [N]", low=-1e3, high=1e3)
    timestep: float = parameter(0.01, "length of a step [s]", low=1e-5, high=0.1)
    duration: float = parameter(1.0, "simulated time [s]", low=0.01, high=100.0)


def acceleration(settings: Settings) -> float:
    """Of the sphere by Coulomb's law, on the lower plane alone [m/s^2]; zero where friction holds it."""
    drive = settings.force / settings.mass
    return float(np.sign(drive)) * max(0.0, abs(drive) - settings.mu * GRAVITY)


def convex_plateau(settings: Settings) -> float:
    """Speed that a convex model cannot exceed [m/s]: both planes are then mu v dt away."""
    return settings.gap / (2.0 * settings.mu * settings.timestep) if settings.mu else float("inf")


class Sheath(Experiment[Settings]):
    name = "sheath"
    summary = "a sphere driven along a plane, just below a second one: does the upper plane brake it (sheath effect)?"
    source = "Complementarity-Free Multi-Contact Modeling and Optimization for Dexterous Manipulation, Fig. 4"
    settings = Settings
    quick = {"duration": 0.3}
    extra = ("qp", PAPER)

    def cases(self, settings: Settings) -> Mapping[str, None]:
        return {CASE: None}

    def measure(self, case: None, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        names = ("mu", "mass", "radius", "gap", "force")
        scene = "sheath:" + ",".join(f"{name}={getattr(settings, name)!r}" for name in names)
        sim = trial.simulation(scene, physics, timestep=settings.timestep)
        steps = max(1, round(settings.duration / settings.timestep))
        track = trial.record(sim, steps, lambda sim: {**state_of(sim), "upper": upper_force(sim)}, samples=steps)
        time, speed, height = track["time"], track["qvel"][:, 0, 0], track["qpos"][:, 0, 2]
        exact = acceleration(settings)
        late = int(np.argmax(timesteps.late(time)))
        late_acceleration = (speed[-1] - speed[late]) / (time[-1] - time[late])
        flat = abs(late_acceleration) < FLAT * abs(exact)
        metrics = {
            "end_speed": speed[-1],
            "expected_speed": exact * time[-1],
            "speed_error": speed[-1] - exact * time[-1],
            "upper_percent": 100.0 * np.mean(track["upper"][1:] > SMALL * settings.mass * GRAVITY),
            "late_acceleration": late_acceleration,
            "plateau_speed": speed[late:].mean() if flat else np.nan,
            "lift_mm": 1e3 * height.max(),
            "sink_mm": -1e3 * height.min() + 0.0,
        }
        metrics = unless_lost(metrics, track["qpos"], track["qvel"])
        drawn = {"time": time, "speed": speed, "height_mm": 1e3 * height, "upper_force": track["upper"]}
        return Outcome(metrics, drawn, problems(sim))

    def scores(self, settings: Settings) -> Sequence[Score]:
        end = f"after {settings.duration:g} s"
        return [
            Score(f"error of the speed of a sphere driven below a plane, {end}", CASE, "speed_error", "m/s"),
            Score("share of steps in which the plane above a driven sphere pushes", CASE, "upper_percent", "%"),
            Score("depth a driven sphere sinks into the plane below it", CASE, "sink_mm", "mm"),
        ]

    def reported(self, result: Result) -> Sequence[Reported]:
        ours, convex = (_top_speed(result, label) for label in (PAPER, "qp"))
        if not (ours and convex):
            return ()
        claim = "that of ComFree is higher than that of convex models"
        return [Reported("speed at which the driven sphere levels off", claim, f"ComFree {ours}; convex {convex}")]

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        title = f"sheath: a sphere driven by {settings.force:g} N, {1e3 * settings.gap:g} mm below a second plane"
        fig, axes = style.figure(title, 2, 2)
        (speeds, errors), (heights, depths) = axes
        labels = result.ran(CASE)
        for method in labels:
            time = result.series(method, CASE, "time")
            style.line(speeds, result, method, time, result.series(method, CASE, "speed"))
            style.line(heights, result, method, time, result.series(method, CASE, "height_mm"))
        ends = np.array([0.0, settings.duration])
        style.reference(speeds, ends, acceleration(settings) * ends)
        limit = convex_plateau(settings)
        if 0.0 < limit < 2.0 * abs(acceleration(settings)) * settings.duration:
            speeds.axhline(limit, ls=":", lw=1.2, color=style.REFERENCE, label="limit of a convex model")
        style.label(speeds, f"speed along the plane, dt {1e3 * settings.timestep:g} ms", "time [s]", "speed [m/s]")
        style.reference(heights, ends, 0.0 * ends)
        heights.set_yscale("symlog", linthresh=1e3 * max(settings.gap, 1e-3))
        heights.set_ylim(top=max(heights.get_ylim()[1], 2e3 * settings.gap))
        heights.axhspan(1e3 * settings.gap, heights.get_ylim()[1], color=style.FAINT, alpha=0.6, lw=0)
        heights.yaxis.set_major_formatter("{x:g}")
        style.label(heights, "height above the lower plane; shaded: in the upper one", "time [s]", "height [mm]")

        def values(*names: str) -> dict[str, list[float]]:
            return {c: [result.metric(c, CASE, name) for name in names] for c in labels}

        style.bars(errors, result, ["speed error"], values("speed_error"), ticks=[f"after {settings.duration:g} s"])
        style.label(errors, "error of the speed", "", "error [m/s]")
        ticks = ["upper plane pushes [% of steps]", "sinks into the lower [mm]", "lifts off it [mm]"]
        style.bars(depths, result, ticks, values("upper_percent", "sink_mm", "lift_mm"))
        style.label(depths, "what the planes do", "", "% or mm")
        style.legend(fig, axes)
        return fig


def upper_force(sim: Simulation) -> float:
    """Normal force of the upper plane on the sphere in the last step [N]."""
    contacts = sim.contacts()
    upper = (contacts.geom == sim.mjm.geom("upper").id).any(axis=1)
    return float(contacts.force[upper, 0].sum())


def _top_speed(result: Result, label: str) -> str:
    """Where a method's speed levels off, or that it does not; "" if it did not run."""
    if not result.has(label, CASE):
        return ""
    flat = result.metric(label, CASE, "plateau_speed")
    end = style.number(result.metric(label, CASE, "end_speed"))
    return f"{style.number(flat)} m/s" if np.isfinite(flat) else f"{end} m/s at the end, still changing"
