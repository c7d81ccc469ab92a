"""What the planner's side knows: the newest joint state and the newest pose, put together to an observation."""

import numpy as np

from stickslip.mpc.realtime.messages import Envelope, JointState, ObjectPose
from stickslip.mpc.task import Observation, Problem


class View:
    """The newest that has come.

    The object's velocity is not measured, and given as zero. A difference of two poses would have a noise of
    sqrt(2) * 1 mm * 25 Hz = 35 mm/s, as much as the objects move; and a pushed object rests when it is not pushed.
    """

    def __init__(self, problem: Problem) -> None:
        self._nr, self._nv = problem.nr, problem.mjm.nv
        self._joints: JointState | None = None
        self._pose: ObjectPose | None = None
        self._used = -np.inf  # time of the last joint state that was observed or passed over
        self.sent = -np.inf
        """When the newest joint state was sent, on the bus's clock [s]."""
        self.unfit = 0
        """Messages of another hand."""

    def take(self, envelope: Envelope) -> None:
        """Keep a message if it is the newest of its kind."""
        message = envelope.message
        if isinstance(message, JointState):
            if len(message.qpos) != self._nr or len(message.ctrl) != self._nr:
                self.unfit += 1
            elif self._joints is None or message.time > self._joints.time:
                self._joints, self.sent = message, envelope.sent
        elif isinstance(message, ObjectPose) and (self._pose is None or message.time > self._pose.time):
            self._pose = message

    def new(self) -> bool:
        """Whether there is a pose, and a joint state that was not observed yet."""
        return self._joints is not None and self._pose is not None and self._joints.time > self._used

    def pass_over(self) -> None:
        """Wait for the next joint state."""
        if self._joints is not None:
            self._used = self._joints.time

    def pose_age(self) -> float:
        """How much older the pose is than the joint state [s]."""
        return self._joints.time - self._pose.time if self._joints and self._pose else np.nan

    def observe(self) -> Observation:
        """Both together, at the time of the joint state; there must have been both."""
        assert self._joints is not None and self._pose is not None
        self.pass_over()
        qvel = np.zeros(self._nv)
        qvel[: self._nr] = self._joints.qvel
        qpos = np.concatenate([self._joints.qpos, self._pose.pos, self._pose.quat])
        return Observation(self._joints.time, qpos, qvel, self._joints.ctrl.copy())
