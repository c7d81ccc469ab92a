"""`ablation`: what each part of PBD-R is there for, one taken out at a time.

First the paper's own ablation, of the method as published: a box is pushed with 2 N over a plane without friction, and
is without the velocity update, without linear or without angular momentum. What these mend is rounding, which is
another one on another machine and in another order of sums: the size of the errors compares, not their digits.

Then what differs between `pbd-r` and the method as published, one field at a time taken back to the paper's. One of
them does more than its name says: with `contact="centre"` bodies are fitted to their particles in every iteration, and
with `contact="surface"` they follow the impulses of their contacts. Particles in single precision
(`coordinates="world"`) exist with the paper's other choices only, so that this one is shown from the other end: the
paper's method with `coordinates="body"`. The cases are those in which a field shows: the first two of the seven tests,
without noise, and two boxes that collide in weightlessness, rub on each other and fly apart, whose momentum is known.
It is counted with the true inertia of the boxes: what moves with another one does not keep it.

Steps of 1 ms have an error of their own, since velocities are constant in a step: a constant force leads a t dt / 2 too
far. The picture shows it as a dotted line; an error below it is luck. The state is stored in single precision: errors
and changes below 1e-6 of their unit are its rounding, and are reported as 0.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.bench import methods
from stickslip.bench.experiment import Experiment, Outcome, Reported, Score, Trial, problems, state_of
from stickslip.bench.experiments.free_bodies import body_tests
from stickslip.bench.experiments.free_bodies.ablation_cases import (
    COLLIDING,
    OWN,
    PUBLISHED,
    PUSHED,
    SLIPPERY,
    TURNED,
    Settings,
)
from stickslip.bench.report import style
from stickslip.bench.result import Result
from stickslip.physics.base import Physics

Array = NDArray[np.float64]

TABLE = {
    "velocity": ("position_error_m", "m", (2e-4, 1.33, 0.32)),
    "linear": ("position_error_m", "m", (0.03, 3.95, 0.73)),
    "angular": ("rotation_error_deg", "deg", (14.99, 135.85, 64.74)),
}
"""Label of each switch, and the paper's Table III: after 2 s, after 10 s, mean."""
EARLY = 2.0
"""The first moment of that table [s]."""
BOXES = """
<mujoco>
  <option gravity="0 0 0"/>
  <default><geom friction="0.5"/></default>
  <worldbody>
    <body pos="-0.25 0 0"><freejoint/><geom type="box" size="0.1 0.08 0.06" mass="2"/></body>
    <body pos="0.25 0.05 0.02" euler="20 30 10"><freejoint/><geom type="box" size="0.1 0.1 0.1" mass="4"/></body>
  </worldbody>
</mujoco>
"""
THROWN = (1.0, 0.0, 0.0, 1.0, 2.0, 3.0, -1.0, 0.0, 0.0, -2.0, 1.0, 5.0)
"""Velocities of the two boxes at the start [m/s, rad/s]."""
ROUNDING = 1e-6
"""What a state in single precision does not tell from nothing [m, deg, kg m/s, kg m^2/s]."""
MET = 0.1
"""What they exchange at the least if they have met [kg m/s]."""


class Ablation(Experiment[Settings]):
    name = "ablation"
    summary = (
        "PBD-R without one of its parts: a box pushed with and without friction, one with torque, two that collide"
    )
    source = "Physically Accurate Rigid-Body Dynamics in Particle-Based Simulation, Table III; stickslip"
    settings = Settings
    quick = {"duration": 0.05, "flight": 0.2}
    only = (*PUBLISHED, *OWN)

    def cases(self, settings: Settings) -> Mapping[str, body_tests.Case | None]:
        tests = body_tests.Settings()
        body = {"body": "box", "timestep": settings.timestep, "noise": False}
        return {
            SLIPPERY: body_tests.Case("push", mu=0.0, value=settings.force, **body),
            PUSHED: body_tests.Case("push", mu=tests.mu, value=tests.box_force, **body),
            TURNED: body_tests.Case("torque", mu=0.0, value=tests.torque, **body),
            COLLIDING: None,
        }

    def measure(
        self, case: body_tests.Case | None, physics: Physics[Any, Any], settings: Settings, trial: Trial
    ) -> Outcome:
        if case is None:
            return _measure_collision(physics, settings, trial)
        tests = body_tests.Settings(duration=settings.duration)
        outcome = body_tests.measure(case, physics, tests, trial)
        return dataclasses.replace(outcome, metrics=_rounded(outcome.metrics))

    def scores(self, settings: Settings) -> Sequence[Score]:
        after = f"after {settings.duration:g} s"
        slippery = f"box pushed with {settings.force:g} N without friction"
        return [
            Score(f"{slippery}, position error {after}", SLIPPERY, "position_error_m", "m"),
            Score(f"{slippery}, rotation error {after}", SLIPPERY, "rotation_error_deg", "deg"),
            Score(f"pushed box with friction, position error {after}", PUSHED, "position_error_m", "m"),
            Score(f"box with torque, rotation error {after}", TURNED, "rotation_error_deg", "deg"),
            Score("two boxes that collide, change of momentum", COLLIDING, "momentum_change", "kg m/s"),
            Score("two boxes that collide, change of angular momentum", COLLIDING, "spin_change", "kg m^2/s"),
        ]

    def reported(self, result: Result) -> Sequence[Reported]:
        if self.make_settings(result.settings) != Settings():
            return ()  # the paper's metrics belong to its settings
        rows = []
        for switch, (metric, unit, theirs) in TABLE.items():
            without = f"{methods.PAPER}:{switch}=false"
            tables = [_table(result, label, metric) for label in (methods.PAPER, without)]
            if all(tables):
                what = f"without {switch}, 2 N and no friction [{unit}]: {style.number(EARLY)} s, 10 s, mean"
                paper = ", ".join(map(style.number, theirs))
                rows.append(Reported(what, f"{paper} (with it: about 0)", f"{tables[1]} (with it: {tables[0]})"))
        return rows

    def draw(self, result: Result) -> Any:
        from stickslip.bench.experiments.free_bodies import ablation_picture

        return ablation_picture.draw(result, self.make_settings(result.settings))


def _table(result: Result, label: str, metric: str) -> str:
    """A row of Table III: an error after 2 s, at the end, and its mean; "" if there is none."""
    time, error = (result.series(label, SLIPPERY, name) for name in ("time", metric))
    if not len(time) or not np.isfinite(error).all():
        return ""
    return ", ".join(style.number(x) for x in (np.interp(EARLY, time, error), error[-1], error.mean()))


def _measure_collision(physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
    """Two boxes that collide: how much of their momentum and angular momentum is lost, or made."""
    sim = trial.simulation(BOXES, physics, timestep=settings.timestep)
    sim.qvel = THROWN
    track = trial.record(sim, round(settings.flight / settings.timestep), state_of)
    moments = [momentum(sim.mjm, *state) for state in zip(track["qpos"][:, 0], track["qvel"][:, 0], strict=True)]
    linear, angular = (np.array(values) for values in zip(*moments, strict=True))
    change = [np.linalg.norm(values - values[0], axis=1) for values in (linear.sum(axis=1), angular)]
    exchanged = np.linalg.norm(linear[-1, 0] - linear[0, 0])
    found = problems(sim)
    if exchanged < MET:
        found.append("the two boxes did not meet: there was no momentum to lose")
    metrics = {
        "momentum_change": float(change[0].max()),
        "spin_change": float(change[1].max()),
        "exchanged": float(exchanged),
    }
    drawn = {"time": track["time"], "momentum_change": change[0], "spin_change": change[1]}
    return Outcome(_rounded(metrics), drawn, found)


def _rounded(metrics: Mapping[str, float]) -> dict[str, float]:
    """Metrics with pure rounding set to 0; NaN stays."""
    return {name: 0.0 if abs(value) < ROUNDING else value for name, value in metrics.items()}


def momentum(mjm: mujoco.MjModel, qpos: Array, qvel: Array) -> tuple[Array, Array]:
    """Linear momentum of each free body (n, 3) [kg m/s], and angular momentum of all about the origin [kg m^2/s].

    Of bodies whose frames are in their centres and along their axes of inertia.
    """
    pose, speed = qpos.reshape(-1, 7), qvel.reshape(-1, 6)
    linear = mjm.body_mass[1:, None] * speed[:, :3]
    spin = np.zeros(3)
    for body, (place, rate) in enumerate(zip(pose, speed[:, 3:], strict=True), 1):
        turned = np.zeros(3)
        mujoco.mju_rotVecQuat(turned, mjm.body_inertia[body] * rate, place[3:])
        spin += turned
    return linear, spin + np.cross(pose[:, :3], linear).sum(axis=0)
