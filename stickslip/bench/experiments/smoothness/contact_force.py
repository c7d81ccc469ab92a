"""`contact-force`: the force over time of a cylinder that falls on a table, and of a gripper that lands with its peg.

The two simplest cases of the paper, with patches as there (`modulus`, see the scenes `cylinder` and `gripper`) and with
points. The paper shows that the grip stays smooth through the impact, and gives no modulus and no number: the values
here are ours. A physics that has no patches runs the same twice.

What must hold: the table carries the cylinder's weight when it lies, the peg stays where it is wedged, and the grip is
what the wedge presses with, 200 N in both forms. That is known for a physics that uses stiffness or modulus of the
geoms; another one has a grip of its own, from an overlap of 0.01 mm. It needs 0.04 N of friction at each finger for the
weight of the peg. `cone-sweep` is rigid: an overlap within its `slop`, 0.05 mm, has no force, and with `slop=0` it has
less than 0.001 N, since it is corrected by moving and not by a force. `comfree` presses with 0.001 N, for its stiffness
goes by the mass of the peg, 8 g; its friction grows with speed, and the peg slides at 0.2 m/s. Both drop it. `mujoco`
presses with 0.007 N, and lets the peg creep. Noise is the standard deviation of the force in the last quarter of the
run, when nothing moves, over its mean.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stickslip.bench.baselines import drake
from stickslip.bench.experiment import GRAVITY, SAMPLES, Experiment, Outcome, Score, Trial, problems, unless_lost
from stickslip.bench.references import timesteps
from stickslip.bench.report import series, style
from stickslip.bench.result import Result
from stickslip.parameters import parameter
from stickslip.physics.base import Physics
from stickslip.scenes.gripper import REACH
from stickslip.simulation import Simulation

GRIP = 200.0
"""What each finger presses the peg with, for the stiffness of the scene and for the modulus here [N]."""
WEIGHT = 2.0 * math.pi * GRAVITY
"""Of the cylinder: radius 0.1 m, length 0.2 m, density of water [N]."""
TOLD = 6
"""Decimals of noise [%] that single precision can resolve."""
FELL = 0.02
"""A peg that has moved farther than this along the fingers is dropped [m]."""


@dataclasses.dataclass(frozen=True)
class Settings:
    forms: tuple[str, ...] = parameter(("patches", "points"), "kinds of contact", choices=("patches", "points"))
    cylinder: float = parameter(1e7, "hydroelastic modulus of the cylinder [Pa]", low=1e3, high=1e12)
    gripper: float = parameter(2e9, "hydroelastic modulus of peg and fingers [Pa]", low=1e3, high=1e12)
    fall: float = parameter(1.5, "simulated time of the cylinder [s]", low=0.01, high=100.0)
    grip: float = parameter(1.0, "simulated time of the gripper [s]", low=0.01, high=100.0)
    timestep: float = parameter(0.002, "length of a step [s]", low=1e-5, high=0.1)


@dataclasses.dataclass(frozen=True)
class Case:
    scene: str
    modulus: float
    duration: float


def force_on(sim: Simulation, geom: str) -> tuple[NDArray[np.float64], float]:
    """The force of all contacts on a geom, in the world (3,), and the sum of their normal forces [N]."""
    contacts, number = sim.contacts(), sim.mjm.geom(geom).id
    own = (contacts.geom == number).any(axis=1)
    side = np.where(contacts.geom[own, 1] == number, 1.0, -1.0)
    world = np.einsum("n,nij,ni->j", side, contacts.frame[own], contacts.force[own, :3])
    return world, float(contacts.force[own, 0].sum())


class ContactForce(Experiment[Settings]):
    name = "contact-force"
    summary = "force over time of a cylinder that falls on a table and of a gripper that lands with a wedged peg"
    source = "CENIC: Convex Error-controlled Numerical Integration for Contact, Figs. 6 (a), (b) and 7"
    settings = Settings
    quick = {"forms": ("patches",), "fall": 0.06, "grip": 0.06, "timestep": 0.005}
    extra = (drake.Drake.name,) if drake.installed() else ()

    def cases(self, settings: Settings) -> Mapping[str, Case]:
        found = {}
        for form in settings.forms:
            on = form == "patches"
            found[f"gripper, {form}"] = Case("gripper", settings.gripper if on else 0.0, settings.grip)
            found[f"cylinder, {form}"] = Case("cylinder", settings.cylinder if on else 0.0, settings.fall)
        return found

    def measure(self, case: Case, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        sim = trial.simulation(f"{case.scene}:modulus={case.modulus!r}", physics, timestep=settings.timestep)
        steps = round(case.duration / settings.timestep)
        measured = self._gripper if case.scene == "gripper" else self._cylinder
        return measured(sim, steps, trial)

    def _gripper(self, sim: Simulation, steps: int, trial: Trial) -> Outcome:
        def sample(sim: Simulation) -> dict[str, Any]:
            qpos = sim.qpos.numpy()[0]
            return {"force": force_on(sim, "left")[1], "moved": qpos[3] - qpos[0] - REACH}

        track = trial.record(sim, steps, sample, samples=steps)
        moved = track["moved"] - track["moved"][0]
        farthest = float(np.abs(moved).max())
        late = track["force"][timesteps.late(track["time"])]
        held = farthest < FELL
        metrics = {
            "moved_mm": 1e3 * farthest if held else math.nan,
            "force_n": float(late.mean()) if held else math.nan,
            "force_percent": 100.0 * (late.mean() / GRIP - 1.0) if held else math.nan,
            "noise_percent": _noise(late) if held else math.nan,
        }
        return _outcome(metrics, track, sim)

    def _cylinder(self, sim: Simulation, steps: int, trial: Trial) -> Outcome:
        def sample(sim: Simulation) -> dict[str, Any]:
            return {"force": force_on(sim, "cylinder")[0][2], "speed": np.linalg.norm(sim.qvel.numpy()[0])}

        track = trial.record(sim, steps, sample, samples=steps)
        late = timesteps.late(track["time"])
        force = track["force"][late]
        metrics = {
            "force_n": float(force.mean()),
            "force_percent": 100.0 * (force.mean() / WEIGHT - 1.0),
            "noise_percent": _noise(force),
            "speed_mm_per_s": 1e3 * float(np.median(track["speed"][late])),
            "peak_n": float(track["force"].max()),
        }
        return _outcome(metrics, track, sim)

    def scores(self, settings: Settings) -> Sequence[Score]:
        def rows(form: str) -> list[Score]:
            gripper, cylinder = f"gripper, {form}", f"cylinder, {form}"
            slip, grip = f"how far a peg slips in a gripper, {form}", f"noise of the grip, {form}"
            lying = f"noise of the force on a cylinder that lies, {form}"
            return [
                Score(slip, gripper, "moved_mm", "mm", absent="dropped"),
                Score(grip, gripper, "noise_percent", "%", absent="dropped"),
                Score(lying, cylinder, "noise_percent", "%", absent="no force"),
            ]

        return [row for form in settings.forms for row in rows(form)]

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        cases = self.cases(settings)
        fig, axes = style.figure("contact-force: a gripper lands, a cylinder falls", len(settings.forms), 3, width=16.0)
        for row, form in zip(axes, settings.forms, strict=True):
            names = [case for case in cases if case.endswith(form)]
            for ax, case in zip(row, names, strict=False):
                for method in result.ran(case):
                    time, force = (result.series(method, case, name) for name in ("time", "force"))
                    style.line(ax, result, method, time, force, lw=1.1)
                level = GRIP if cases[case].scene == "gripper" else WEIGHT
                style.reference(ax, [0.0, cases[case].duration], [level, level], "exact at rest")
                what = "force of a finger [N]" if cases[case].scene == "gripper" else "force on the cylinder [N]"
                ax.set_yscale("symlog", linthresh=10.0)
                style.label(ax, case, "time [s]", what)
            series.bars(row[2], result, names, "noise_percent", [name.split(",")[0] for name in names])
            style.label(row[2], f"{form}: noise of the force at rest", "", "standard deviation over mean [%]")
        style.legend(fig, axes)
        return fig


def _noise(force: NDArray[np.float64]) -> float:
    """Standard deviation over the mean [%]; NaN without any force."""
    return round(100.0 * float(force.std() / force.mean()), TOLD) if force.mean() > 0.0 else math.nan


def _outcome(metrics: Mapping[str, float], track: Mapping[str, NDArray[np.float64]], sim: Simulation) -> Outcome:
    thin = slice(None, None, max(1, len(track["time"]) // (2 * SAMPLES)))
    shown = {name: track[name][thin] for name in ("time", "force")}
    return Outcome(unless_lost(metrics, *track.values()), shown, problems(sim))
