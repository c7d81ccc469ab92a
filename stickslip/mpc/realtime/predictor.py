"""Look ahead: the state at the time at which a plan will act.

A pose is old when it arrives, and older when the plan that uses it acts. `Predictor` rolls the model forward from the
time of the newest pose, with the commands that acted and will act. Joint states are exact: where one is known, the
joints of the rollout are set to it.

The object follows the model too, and each pose corrects it: an alpha-beta filter whose model is the simulation. So the
object has a velocity, which no sensor measures, and less noise than the pose.
"""

import collections
import math

import mujoco
import numpy as np

from stickslip.mpc.realtime.messages import JointState, ObjectPose
from stickslip.mpc.success import Array
from stickslip.mpc.task import Observation, Problem
from stickslip.mpc.trial.plant import NOT_FINITE, Plant

GAIN = 0.5
"""Alpha: share of the difference between measured and predicted pose that is corrected."""
GAIN_VELOCITY = GAIN**2 / (2.0 - GAIN)
"""Beta: the same for the velocity, times the time between two poses. Benedict and Bordner relate it to alpha so."""
NOTE = "the prediction was not finite: the plan began from the last measurements"
"""Note of a plan without prediction."""
_STATE = mujoco.mjtState.mjSTATE_INTEGRATION
"""Everything that a rollout starts from."""
_ROUNDING = 1e-6
"""Rounding of times, as a fraction of a time step."""


class Predictor:
    """Predicts the state of one trial. All times are the plant's.

    Times are counted in time steps of the plant. A command that is sent during a time step acts from its beginning: the
    plant makes the step when its time is over.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._plant = Plant(problem)  # of our own: the model, not the plant of the trial
        self._timestep = float(problem.mjm.opt.timestep)
        self._joints: collections.deque[tuple[int, JointState]] = collections.deque()
        self._commands: collections.deque[tuple[int, Array]] = collections.deque()
        self._poses: collections.deque[tuple[int, ObjectPose]] = collections.deque()  # the first is the newest used
        self._state = np.zeros(mujoco.mj_stateSize(problem.mjm, _STATE))  # at the first of the poses
        self._known = False  # whether there is such a state
        self._now = 0  # time step of the rollout

    def take(self, message: JointState | ObjectPose) -> None:
        """Keep a measurement; those of a type must come in order."""
        step = self._step_at(message.time)
        if isinstance(message, JointState):
            self._joints.append((step, message))
        else:
            self._poses.append((step, message))

    def sent(self, time: float, target: Array) -> None:
        """Keep a command that was sent at `time` [s]; commands must come in order."""
        low, high = self._problem.limits()
        self._commands.append((self._step_at(time), np.clip(target, low, high)))

    def predict(self, time: float) -> Observation | None:
        """The state at the time step of `time` [s]; None if it is not finite, and then until the next pose.

        There must be a joint state.
        """
        if not self._poses:
            return None
        if not self._known:
            self._begin(*self._poses[0])
        finite = True
        while finite and len(self._poses) > 1:
            self._load()
            finite = self._roll(self._poses[1][0]) and self._correct()
        self._forget()
        if finite:
            self._load()
            finite = self._roll(max(self._now, self._step_at(time)))
        self._known = finite
        if not finite:
            self._poses.clear()  # start over with the next
            return None
        data = self._data
        return Observation(self._now * self._timestep, data.qpos.copy(), data.qvel.copy(), data.ctrl.copy())

    @property
    def _data(self) -> mujoco.MjData:
        return self._plant.mjd

    def _step_at(self, time: float) -> int:
        return math.floor(time / self._timestep + _ROUNDING)

    def _begin(self, step: int, pose: ObjectPose) -> None:
        """Begin at a pose, with the object at rest and the joints of the last joint state until then."""
        joints = [state for at, state in self._joints if at <= step] or [self._joints[0][1]]
        targets = [joints[-1].ctrl, *(target for at, target in self._commands if at <= step)]
        self._plant.reset(np.concatenate([joints[-1].qpos, pose.pos, pose.quat]))
        self._data.qvel[: self._problem.nr] = joints[-1].qvel
        self._data.ctrl[:] = targets[-1]
        self._save()

    def _roll(self, until: int) -> bool:
        """Step until the beginning of a time step; returns whether the state is finite."""
        nr, data = self._problem.nr, self._data
        joints, commands = dict(self._joints), dict(self._commands)
        events = sorted(step for step in {*joints, *commands, until} if self._now <= step <= until)
        for step in events:
            if step > self._now:
                self._plant.advance(step - self._now)
                self._now = step
            if step in joints:
                data.qpos[:nr], data.qvel[:nr] = joints[step].qpos, joints[step].qvel
            if step in commands:
                data.ctrl[:] = commands[step]
        return self._plant.failure() != NOT_FINITE and bool(np.isfinite(data.qvel).all())

    def _correct(self) -> bool:
        """Correct the object by the next pose, which is measured at the time of the rollout."""
        (before, _), (_, pose) = self._poses[0], self._poses[1]
        shift, turn = pose.pos - self._data.qpos[-7:-4], np.zeros(3)
        mujoco.mju_subQuat(turn, pose.quat, self._data.qpos[-4:])
        apart = np.concatenate([shift, turn])
        self._data.qpos[-7:-4] += GAIN * shift
        mujoco.mju_quatIntegrate(self._data.qpos[-4:], turn, GAIN)
        self._data.qvel[-6:] += GAIN_VELOCITY / (max(1, self._now - before) * self._timestep) * apart
        self._poses.popleft()
        self._save()
        return bool(np.isfinite(self._state).all())

    def _save(self) -> None:
        mujoco.mj_getState(self._problem.mjm, self._data, self._state, _STATE)

    def _load(self) -> None:
        mujoco.mj_setState(self._problem.mjm, self._data, self._state, _STATE)
        self._now = self._poses[0][0]

    def _forget(self) -> None:
        """Forget what was before the first pose."""
        first = self._poses[0][0]
        while len(self._joints) > 1 and self._joints[1][0] <= first:
            self._joints.popleft()
        while len(self._commands) > 1 and self._commands[1][0] <= first:
            self._commands.popleft()
