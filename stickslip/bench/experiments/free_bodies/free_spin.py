"""`free-spin`: a thin plate turns freely in the air, where its energy and its angular momentum must stay.

Nothing acts on it, and it turns about none of its principal axes. Euler's rule for the gyroscopic torque adds energy in
every step, by the square of the angle of a step: at the speed of a thrown object within seconds, and at that of one
that is squeezed out of a gripper, up to 1000 rad/s, without a bound. Then there is no figure: the state is lost.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip import mjcf
from stickslip.bench.experiment import (
    Experiment,
    Outcome,
    Score,
    Trial,
    problems,
    state_of,
    unless_lost,
)
from stickslip.bench.references import motion
from stickslip.bench.report import style
from stickslip.bench.result import Result
from stickslip.parameters import parameter
from stickslip.physics.base import Physics

PLATE = """<mujoco><option gravity="0 0 0"/><worldbody>
  <body name="plate" pos="0 0 1"><freejoint/><geom type="box" size="0.06 0.004 0.04" mass="0.1"/></body>
</worldbody></mujoco>"""
AXIS = np.array([0.3, 0.2, 1.0]) / np.linalg.norm([0.3, 0.2, 1.0])
"""Of the angular velocity at the start, in the frame of the plate."""


@dataclasses.dataclass(frozen=True)
class Settings:
    speeds: tuple[float, ...] = parameter(
        (5.0, 15.0, 100.0, 1000.0), "angular velocity at the start [rad/s]", low=0.1, high=1e5
    )
    timestep: float = parameter(0.002, "length of a step [s]", low=1e-5, high=0.1)
    duration: float = parameter(2.0, "simulated time [s]", low=0.01, high=100.0)


def momenta(
    mjm: mujoco.MjModel, qpos: NDArray[np.float64], qvel: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Kinetic energy of turning [J], (n,), and angular momentum in the world, (n, 3)."""
    axes = motion.rotate(np.tile(mjm.body_iquat[1], (3, 1)), np.eye(3))  # principal axes, a row each
    momentum = (qvel[:, 3:] @ axes.T * mjm.body_inertia[1]) @ axes
    energy = 0.5 * (qvel[:, 3:] * momentum).sum(axis=1)
    return energy, motion.rotate(qpos[:, 3:], momentum)


def case_of(speed: float) -> str:
    return f"{speed:g} rad/s"


class FreeSpin(Experiment[Settings]):
    name = "free-spin"
    summary = "a plate turns freely: error of its energy and of its angular momentum, at several speeds"
    source = "stickslip"
    settings = Settings
    quick = {"speeds": (15.0,), "duration": 0.1}

    def cases(self, settings: Settings) -> Mapping[str, float]:
        return {case_of(speed): speed for speed in settings.speeds}

    def measure(self, case: float, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        mjm = mjcf.load(PLATE)
        sim = trial.simulation(mjm, physics, timestep=settings.timestep)
        sim.qvel = np.r_[0.0, 0.0, 0.0, case * AXIS][None]
        steps = max(1, round(settings.duration / settings.timestep))
        track = trial.record(sim, steps, state_of)
        qpos, qvel = track["qpos"][:, 0], track["qvel"][:, 0]
        with np.errstate(over="ignore", invalid="ignore"):
            energy, momentum = momenta(mjm, qpos, qvel)
            gained = 100.0 * (energy / energy[0] - 1.0)
            off = 100.0 * np.linalg.norm(momentum - momentum[0], axis=1) / np.linalg.norm(momentum[0])
        metrics = {"energy_error_percent": np.abs(gained).max(), "momentum_error_percent": off.max()}
        series = {"time": track["time"], "gained_percent": gained, "off_percent": off}
        return Outcome(unless_lost(metrics, qpos, qvel), series, problems(sim))

    def scores(self, settings: Settings) -> Sequence[Score]:
        cases = self.cases(settings)
        return [
            *(
                Score(f"energy error of a plate that turns in the air, {c}", c, "energy_error_percent", "%")
                for c in cases
            ),
            *(Score(f"error of its angular momentum, {c}", c, "momentum_error_percent", "%") for c in cases),
        ]

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        cases = list(self.cases(settings))
        title = f"free-spin: a plate turns in the air, dt {1e3 * settings.timestep:g} ms"
        fig, axes = style.figure(title, len(cases), 2, height=2.6)
        panels = (("gained_percent", "energy gained", "energy [%]"), ("off_percent", "error of L", "error [%]"))
        for row, case in zip(axes, cases, strict=True):
            for ax, (name, about, unit) in zip(row, panels, strict=True):
                for method in result.ran(case):
                    style.line(
                        ax, result, method, result.series(method, case, "time"), result.series(method, case, name)
                    )
                ax.set_yscale("symlog", linthresh=1e-3)
                ax.set_ylim(-200.0 if name == "gained_percent" else 0.0, 200.0)
                style.label(ax, f"{about}, {case}", "time [s]", unit)
        style.legend(fig, axes)
        return fig
