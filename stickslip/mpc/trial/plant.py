"""The plant: MuJoCo in C, with controls as input and the exact state as output."""

import mujoco
import numpy as np

from stickslip.mpc.success import Array, Goal
from stickslip.mpc.task import GOAL, Observation, Problem

_BAD = [
    int(w)
    for w in (mujoco.mjtWarning.mjWARN_BADQPOS, mujoco.mjtWarning.mjWARN_BADQVEL, mujoco.mjtWarning.mjWARN_BADQACC)
]
"""MuJoCo's warnings about values that are not finite."""
NOT_FINITE = "not finite"
"""Why a plant cannot continue."""


class Plant:
    """One robot, with all that it moves."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.mjm = problem.mjm
        self.mjd = mujoco.MjData(self.mjm)

    def reset(self, qpos: Array, goal: Goal | None = None) -> None:
        """Start at rest at `qpos` (nq,), with joint targets there, or with the controls of the keyframe."""
        mujoco.mj_resetData(self.mjm, self.mjd)
        self.mjd.qpos[:] = qpos
        self.mjd.ctrl[:] = self.problem.start_ctrl(qpos)
        shown = shown_goal(self.mjm)
        pose = None if goal is None else self.problem.task.goal_pose(goal)
        if shown >= 0 and pose is not None:
            self.mjd.mocap_pos[shown], self.mjd.mocap_quat[shown] = pose
        mujoco.mj_forward(self.mjm, self.mjd)

    def observe(self) -> Observation:
        """The exact state."""
        d = self.mjd
        return Observation(d.time, d.qpos.copy(), d.qvel.copy(), d.ctrl.copy())

    def command(self, target: Array) -> None:
        """Set the controls (nu,), clipped to the joint limits or to `ctrlrange`."""
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
        failure = self.problem.task.failure
        return failure(self.mjm, qpos) if failure else ""


def shown_goal(mjm: mujoco.MjModel) -> int:
    """Index of the mocap body that shows the goal; -1 if there is none."""
    body = mujoco.mj_name2id(mjm, mujoco.mjtObj.mjOBJ_BODY, GOAL)
    return int(mjm.body_mocapid[body]) if body >= 0 else -1
