"""Sensors of the plant: encoders for the joints, a camera for the object; and the planner's state estimate."""

import collections
import dataclasses
import math

import mujoco
import numpy as np

from stickslip.errors import InputError
from stickslip.mpc.realtime.channel import Envelope
from stickslip.mpc.realtime.messages import JointState, ObjectPose
from stickslip.mpc.realtime.predictor import NOTE, Predictor
from stickslip.mpc.success import Array
from stickslip.mpc.task import Observation, Problem
from stickslip.parameters import checked, parameter

SLACK = 1e-9
"""Rounding of times [s]."""
STALE = 0.1
"""Age of a joint state [s] beyond which it says nothing about the plant's clock, and the planner waits for the next."""
_STREAM = 0x5E25
"""Separates the random stream of the noise from that of the trial, which has the same seed."""


@checked
@dataclasses.dataclass(frozen=True)
class Sensors:
    """Rates, noise and delay of the sensors. The defaults are those of encoders and of a camera with a pose tracker."""

    joint_rate: float = parameter(100.0, "rate of joint states, which are exact and not delayed [Hz]", 1.0, 1000.0)
    pose_rate: float = parameter(25.0, "rate of the object's pose [Hz]", 1.0, 1000.0)
    position_noise: float = parameter(0.001, "standard deviation of the pose along each axis [m]", 0.0, 0.1)
    rotation_noise: float = parameter(
        math.radians(0.5), "standard deviation of the pose about each axis [rad]", 0.0, 0.5
    )
    delay: float = parameter(0.04, "time between a pose and its message [s]", 0.0, 1.0)


class Sensing:
    """The sensors of one trial. They follow simulated time, so measurements depend on the seed alone."""

    def __init__(self, sensors: Sensors, nr: int, timestep: float, seed: int) -> None:
        for name in ("joint_rate", "pose_rate"):
            if getattr(sensors, name) > 1.0 / timestep + SLACK:
                raise InputError(
                    f"{name} {getattr(sensors, name):g}: the plant has {1.0 / timestep:g} time steps per second; "
                    "lower the rate to that"
                )
        self._sensors, self._nr = sensors, nr
        self._rng = np.random.default_rng([_STREAM, seed])
        self._joints = self._poses = 0  # number of the next sample
        self._delayed: collections.deque[ObjectPose] = collections.deque()

    def measure(self, now: Observation) -> list[JointState | ObjectPose]:
        """Measurements to publish now, given the true state; call it at the start and after every time step."""
        out: list[JointState | ObjectPose] = []
        if now.time + SLACK >= self._joints / self._sensors.joint_rate:
            self._joints = _after(now.time, self._sensors.joint_rate)
            out.append(JointState(now.time, now.qpos[: self._nr], now.qvel[: self._nr], now.ctrl))
        if now.time + SLACK >= self._poses / self._sensors.pose_rate:
            self._poses = _after(now.time, self._sensors.pose_rate)
            self._delayed.append(self._measure_pose(now))
        while self._delayed and now.time + SLACK >= self._delayed[0].time + self._sensors.delay:
            out.append(self._delayed.popleft())
        return out

    def _measure_pose(self, now: Observation) -> ObjectPose:
        noise = self._rng.standard_normal(6)
        pos = now.qpos[-7:-4] + self._sensors.position_noise * noise[:3]
        quat = now.qpos[-4:] / np.linalg.norm(now.qpos[-4:])
        return ObjectPose(now.time, pos, rotated(quat, self._sensors.rotation_noise * noise[3:]))


class Estimator:
    """The planner's state estimate, from the newest joint state and the newest pose.

    With `look_ahead` it is predicted to the time at which the plan will act; see `predictor.py`. Without, it is what
    was measured last, and the object's velocity is given as zero. A difference of two poses would have a noise of
    sqrt(2) * 1 mm * 25 Hz = 35 mm/s, as fast as the objects move; and an object that is not pushed is at rest.

    Attributes:
        published: when the newest joint state was published, on the machine's monotonic clock [s]
        used: time of the last joint state that was observed or skipped [s]
        note: what went wrong with the last observation; empty: nothing
    """

    def __init__(self, problem: Problem, look_ahead: bool = True) -> None:
        self._nr, self._nv = problem.nr, problem.mjm.nv
        self._joints: JointState | None = None
        self._pose: ObjectPose | None = None
        self._predictor = Predictor(problem) if look_ahead else None
        self._until = -np.inf  # time of the last prediction
        self.published = self.used = -np.inf
        self.note = ""

    def take(self, envelope: Envelope) -> None:
        """Keep a message if it is the newest of its type."""
        message = envelope.message
        if isinstance(message, JointState):
            if self._joints is not None and message.time <= self._joints.time:
                return
            self._joints, self.published = message, envelope.published
        elif isinstance(message, ObjectPose):
            if self._pose is not None and message.time <= self._pose.time:
                return
            self._pose = message
        else:
            return
        if self._predictor is not None:
            self._predictor.take(message)

    def sent(self, time: float, target: Array) -> None:
        """Keep a command that was sent to the plant at `time`, on the plant's clock [s]."""
        if self._predictor is not None:
            self._predictor.sent(time, target)

    def new(self) -> bool:
        """Whether there are a pose and a joint state that was neither observed nor skipped."""
        return self._joints is not None and self._pose is not None and self._joints.time > self.used

    def skip(self) -> None:
        """Wait for the next joint state."""
        if self._joints is not None:
            self.used = self._joints.time

    def pose_age(self) -> float:
        """How much older the pose is than the joint state [s]."""
        return self._joints.time - self._pose.time if self._joints and self._pose else np.nan

    def now(self, clock: float) -> float:
        """The plant's time [s] when the machine's monotonic clock shows `clock` [s]; there must be a joint state."""
        assert self._joints is not None
        return self._joints.time + min(STALE, max(0.0, clock - self.published))

    def observe(self, acts: float) -> Observation:
        """The estimate for a plan that will act at the plant's time `acts` [s]; there must be a joint state and a pose.

        Its time is that at which the plan acts, or that of the joint state without look-ahead.
        """
        assert self._joints is not None and self._pose is not None
        self.skip()
        self.note = ""
        if self._predictor is not None:
            self._until = max(self._until, acts)  # a planner's time never goes back
            predicted = self._predictor.predict(self._until)
            if predicted is not None:
                return predicted
            self.note = NOTE
        qvel = np.zeros(self._nv)
        qvel[: self._nr] = self._joints.qvel
        qpos = np.concatenate([self._joints.qpos, self._pose.pos, self._pose.quat])
        return Observation(max(self._joints.time, self._until), qpos, qvel, self._joints.ctrl.copy())


def rotated(quat: Array, rotation: Array) -> Array:
    """A unit quaternion, rotated by a rotation vector in its own frame [rad]."""
    out = quat.copy()
    mujoco.mju_quatIntegrate(out, rotation, 1.0)
    return out / np.linalg.norm(out)


def _after(time: float, rate: float) -> int:
    """Number of the first sample after `time`."""
    return math.floor((time + SLACK) * rate) + 1
