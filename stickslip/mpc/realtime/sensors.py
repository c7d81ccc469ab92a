"""What the planner's side is told of the plant: joints as encoders give them, the object as a camera sees it."""

import collections
import dataclasses
import math

import mujoco
import numpy as np

from stickslip.errors import InputError
from stickslip.mpc.realtime.messages import JointState, ObjectPose
from stickslip.mpc.task import Array, Observation

SLACK = 1e-9
"""Rounding of times [s]."""
_STREAM = 0x5E25
"""Keeps the random numbers of the noise apart from those of the trial, which have the same seed."""

_RANGES = {
    "joint_rate": (1.0, 1000.0, "Hz"),
    "pose_rate": (1.0, 1000.0, "Hz"),
    "position_noise": (0.0, 0.1, "m"),
    "rotation_noise": (0.0, 0.5, "rad"),
    "delay": (0.0, 1.0, "s"),
}


@dataclasses.dataclass(frozen=True)
class Sensors:
    """Rates and faults of the sensors. The defaults are those of a hand with encoders, and a camera that tracks.

    Attributes:
        joint_rate: of joint states [Hz]; they are exact and come at once
        pose_rate: of poses of the object [Hz]
        position_noise: standard deviation of a pose along each axis [m]
        rotation_noise: and about each axis [rad]
        delay: between a pose and its message [s]
    """

    joint_rate: float = 100.0
    pose_rate: float = 25.0
    position_noise: float = 0.001
    rotation_noise: float = math.radians(0.5)
    delay: float = 0.04

    def __post_init__(self) -> None:
        for name, (low, high, unit) in _RANGES.items():
            value = getattr(self, name)
            if not (math.isfinite(value) and low <= value <= high):
                raise InputError(f"{name} {value}: it must be from {low:g} to {high:g} {unit}; choose it in between")


class Sensing:
    """The sensors of one trial. Knows no clock but the plant's, so what it gives depends on the seed alone."""

    def __init__(self, sensors: Sensors, nr: int, timestep: float, seed: int) -> None:
        for name in ("joint_rate", "pose_rate"):
            if getattr(sensors, name) > 1.0 / timestep + SLACK:
                raise InputError(
                    f"{name} {getattr(sensors, name):g}: the plant has {1.0 / timestep:g} time steps a second; "
                    "lower the rate to that"
                )
        self._sensors, self._nr = sensors, nr
        self._rng = np.random.default_rng([_STREAM, seed])
        self._joints = self._poses = 0  # taken so far
        self._on_the_way: collections.deque[ObjectPose] = collections.deque()

    def see(self, now: Observation) -> list[JointState | ObjectPose]:
        """What is to be sent, given where things are; to be called after every time step and at the start."""
        out: list[JointState | ObjectPose] = []
        if now.time + SLACK >= self._joints / self._sensors.joint_rate:
            self._joints = _after(now.time, self._sensors.joint_rate)
            out.append(JointState(now.time, now.qpos[: self._nr], now.qvel[: self._nr], now.ctrl))
        if now.time + SLACK >= self._poses / self._sensors.pose_rate:
            self._poses = _after(now.time, self._sensors.pose_rate)
            self._on_the_way.append(self._photograph(now))
        while self._on_the_way and now.time + SLACK >= self._on_the_way[0].time + self._sensors.delay:
            out.append(self._on_the_way.popleft())
        return out

    def _photograph(self, now: Observation) -> ObjectPose:
        noise = self._rng.standard_normal(6)
        pos = now.qpos[-7:-4] + self._sensors.position_noise * noise[:3]
        quat = now.qpos[-4:] / np.linalg.norm(now.qpos[-4:])
        return ObjectPose(now.time, pos, turned(quat, self._sensors.rotation_noise * noise[3:]))


def turned(quat: Array, turn: Array) -> Array:
    """A unit quaternion, turned by a rotation vector in its own frame [rad]."""
    out = quat.copy()
    mujoco.mju_quatIntegrate(out, turn, 1.0)
    return out / np.linalg.norm(out)


def _after(time: float, rate: float) -> int:
    """Number of the first sample after `time`."""
    return math.floor((time + SLACK) * rate) + 1
