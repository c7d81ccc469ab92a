"""Trials of a T that a finger pushes, recorded with MuJoCo in C or any physics: the example of `stickslip identify`.

The T of the scene "push-t" is pushed through its centre of mass (`FOOT`, `TOP`), or beside it so that it turns
(`SIDE`). In MuJoCo a T that turns hops: such trials are rough, and better for a test than for a fit.
"""

import dataclasses
import math
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.identification.trial import Trial
from stickslip.mjcf import load
from stickslip.physics.base import Physics
from stickslip.simulation import Simulation

SCENE = "push-t"
CHANNELS = ("qpos[0]", "qpos[1]", "qpos[6]", "qpos[7]", "qpos[8]")
"""What is measured: x, y and half the angle of the T, x and y of the finger."""
COLUMNS = (0, 1, 6, 7, 8)
"""The same in qpos."""
ANGLE = 5.0
"""Noise of half the angle [rad], of that of a place [m]."""
RATE = 62.5
"""Measurements in a second [Hz], about."""


@dataclasses.dataclass(frozen=True)
class Push:
    """A straight push.

    Attributes:
        start: x and y of the finger at first [m]
        way: how far it is to go [m]
        rise: time of the way [s]
    """

    start: tuple[float, float]
    way: tuple[float, float]
    rise: float

    def beside(self, off: float) -> "Push":
        """The same push with a start that is `off` m farther to the left of the way, or the right if below 0."""
        x, y = (part / math.hypot(*self.way) for part in self.way)
        return dataclasses.replace(self, start=(self.start[0] - off * y, self.start[1] + off * x))


FOOT = Push((0.0, -0.17), (0.0, 0.15), 0.4)
TOP = Push((0.0, 0.10), (0.0, -0.15), 0.3)
SIDE = Push((-0.06, -0.04), (0.15, 0.0), 0.3)


def noise(place: float) -> NDArray[np.floating]:
    """Standard deviations of the channels, for that of a place [m]."""
    return place * np.array([1.0, 1.0, ANGLE, 1.0, 1.0])


def record(
    push: Push,
    friction: float,
    mass: float,
    *,
    place: float,
    timestep: float,
    duration: float,
    physics: Physics[Any, Any] | None = None,
    device: str = "cpu",
    name: str = "push",
) -> Trial:
    """The exact measurements of a push, with the noise that they are to have; see `spoil`.

    Args:
        push: what the finger does
        friction: of all geoms
        mass: of the T [kg]
        place: standard deviation of a place [m]
        timestep: of the physics [s]
        duration: of the trial [s]
        physics: that moves the T; None: MuJoCo in C
        device: where; MuJoCo in C runs on the host
        name: of the trial
    """
    x, y = push.start
    mjm = load(f"{SCENE}:mu={friction!r},mass={mass!r},x={x!r},y={y!r}", timestep=timestep)
    steps, every = round(duration / timestep), max(1, round(1.0 / (RATE * timestep)))
    share = np.clip(np.arange(1, steps + 1) * timestep / push.rise, 0.0, 1.0)
    ctrl = np.array(push.start) + share[:, None] * np.array(push.way)
    qpos = _in_c(mjm, ctrl) if physics is None else _path(Simulation(mjm, physics, device=device), ctrl)
    return Trial(
        np.arange(0, steps + 1, every) * timestep,
        qpos[::every, list(COLUMNS)],
        noise(place),
        CHANNELS,
        ctrl=ctrl,
        ctrl_time=np.arange(steps) * timestep,
        qpos=qpos[0],
        name=name,
    )


def _in_c(mjm: mujoco.MjModel, ctrl: NDArray[np.floating]) -> NDArray[np.floating]:
    """Positions at the start and after each step of MuJoCo in C, (steps + 1, nq)."""
    mjd = mujoco.MjData(mjm)
    mujoco.mj_resetDataKeyframe(mjm, mjd, 0)
    qpos = [mjd.qpos.copy()]
    for mjd.ctrl[:] in ctrl:
        mujoco.mj_step(mjm, mjd)
        qpos.append(mjd.qpos.copy())
    return np.stack(qpos)


def _path(sim: Simulation, ctrl: NDArray[np.floating]) -> NDArray[np.floating]:
    """The same of a simulation of one world."""
    start = sim.qpos.numpy()[0].astype(float)
    return np.concatenate([start[None], sim.rollout(ctrl, outputs=("qpos",))["qpos"][0].astype(float)])


def spoil(trial: Trial, rng: np.random.Generator) -> Trial:
    """The trial with its noise on the measurements."""
    return dataclasses.replace(trial, measured=trial.measured + rng.normal(size=trial.measured.shape) * trial.noise)
