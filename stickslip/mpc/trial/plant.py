"""The plant: MuJoCo in C, with joint targets as input and the exact state as output."""

import mujoco
import numpy as np

from stickslip.mpc.task import GOAL, Array, Goal, Observation, Problem

_BAD = [
    int(w)
    for w in (mujoco.mjtWarning.mjWARN_BADQPOS, mujoco.mjtWarning.mjWARN_BADQVEL, mujoco.mjtWarning.mjWARN_BADQACC)
]
"""MuJoCo's warnings about values that are not finite."""
NOT_FINITE = "not finite"
FELL = "fell"
"""Why a plant cannot continue."""


class Plant:
    """One hand with one object."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.mjm = problem.mjm
        self.mjd = mujoco.MjData(self.mjm)
        self.goal = Goal(np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0]))

    def reset(self, qpos: Array, goal: Goal) -> None:
        """Start at rest at `qpos` (nq,), with the joint targets of the servos there."""
        mujoco.mj_resetData(self.mjm, self.mjd)
        self.mjd.qpos[:] = qpos
        self.mjd.ctrl[:] = qpos[: self.problem.nr]
        self.goal = goal
        shown = self.mjm.body(GOAL).mocapid[0]
        if shown >= 0:
            self.mjd.mocap_pos[shown], self.mjd.mocap_quat[shown] = goal.pos, goal.quat
        mujoco.mj_forward(self.mjm, self.mjd)

    def observe(self) -> Observation:
        """The exact state."""
        d = self.mjd
        return Observation(d.time, d.qpos.copy(), d.qvel.copy(), d.ctrl.copy())

    def command(self, target: Array) -> None:
        """Set the joint targets (nu,) of the servos, clipped to the joint limits."""
        low, high = self.problem.limits()
        self.mjd.ctrl[:] = np.clip(target, low, high)

    def advance(self, steps: int) -> None:
        """Advance by a number of time steps."""
        mujoco.mj_step(self.mjm, self.mjd, steps)

    def failure(self) -> str:
        """Why the trial cannot continue, or an empty string."""
        qpos = self.mjd.qpos
        if not np.isfinite(qpos).all() or self.mjd.warning.number[_BAD].any():
            return NOT_FINITE
        if qpos[-5] < self.problem.task.floor:
            return FELL
        return ""
