"""Kicks: velocities of free joints that change at once, now and then."""

import math

import mujoco
import torch

from stickslip.envs.state import State
from stickslip.envs.task import Push, Task
from stickslip.errors import InputError
from stickslip.simulation.views import find_id


class Kicks:
    """The pushes of a task.

    Args:
        task: names the joints
        state: the worlds
    """

    def __init__(self, task: Task, state: State) -> None:
        self._pushes = [(push, _columns(state.mjm, push, task)) for push in task.pushes]
        self._dt = task.dt
        self._left = torch.zeros((state.nworld, len(task.pushes)), device=state.device)
        self.start(torch.ones(state.nworld, dtype=torch.bool, device=state.device), state)

    def buffers(self) -> dict[str, torch.Tensor]:
        """What is kept from step to step: the time that is left until the next kick."""
        return {"left": self._left}

    def start(self, mask: torch.Tensor, state: State) -> None:
        """Wait again in the worlds of a mask."""
        for i, (push, _) in enumerate(self._pushes):
            wait = state.random.uniform(*push.every)[:, 0]
            self._left[:, i].copy_(torch.where(mask, wait, self._left[:, i]))

    def kick(self, state: State) -> None:
        """Kick the worlds whose time has come."""
        for i, (push, columns) in enumerate(self._pushes):
            left = self._left[:, i] - self._dt
            now = left <= 0.0
            draw = state.random.uniform(-1.0, 1.0, 6)
            size = state.constant(*[push.linear] * 3, *[push.angular] * 3)
            own = state.qvel[:, columns]
            own.copy_(torch.where(now[:, None], own + size * draw, own))
            wait = state.random.uniform(*push.every)[:, 0]
            self._left[:, i].copy_(torch.where(now, wait, left))


def _columns(mjm: mujoco.MjModel, push: Push, task: Task) -> slice:
    joint = find_id(mjm, "joint", push.joint)
    if mjm.jnt_type[joint] != mujoco.mjtJoint.mjJNT_FREE:
        raise InputError(f"task {task.name!r}: pushes are for free joints, {push.joint!r} is none")
    low, high = push.every
    if not 0.0 < low <= high < math.inf:
        raise InputError(f"task {task.name!r}: a push comes every {push.every} s: give 0 < least <= largest")
    first = int(mjm.jnt_dofadr[joint])
    return slice(first, first + 6)
