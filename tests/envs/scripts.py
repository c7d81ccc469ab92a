"""Scripted controllers of the gripper's tasks: targets of the servos from the state and the number of the step."""

import math
from collections.abc import Callable

import torch

from stickslip.envs import Env, Step
from stickslip.envs.state import State, yaw_of

Script = Callable[[State, int], torch.Tensor]
"""Of a state and the number of the control step: the next targets, (nworld, naction)."""
OPEN, CLOSED = 0.04, -0.01
"""Targets of the fingers [m]."""


def play(env: Env, script: Script, *, steps: int | None = None, seen: Callable[[Step], None] | None = None) -> Step:
    """Start all worlds and drive them by a script, to the end or for some control steps; the last step."""
    env.reset()
    scale = torch.tensor(env.task.action.scale)
    step = None
    for k in range(env.task.longest if steps is None else steps):
        step = env.step((script(env.state, k) - env.state.ctrl[:, : env.naction]) / scale)
        if seen is not None:
            seen(step)
    assert step is not None
    return step


def lift(s: State, k: int) -> torch.Tensor:
    """cube-lift: above the cube, down, close, to the goal."""
    cube = s.qpos[:, 6:9].clone()
    if k < 45:
        return _grasp(cube, s.qpos[:, 9:13], k)
    move = torch.zeros_like(cube) if k < 60 else 0.3 * (s["goal"] - cube)
    return _moved(s, move, CLOSED)


def stack(s: State, k: int) -> torch.Tensor:
    """stack-two: grasp A, up, over B, down, open, up."""
    a, b = s.qpos[:, 6:9].clone(), s.qpos[:, 13:16]
    if k < 45:
        return _grasp(a, s.qpos[:, 9:13], k)
    if k < 60:
        return _moved(s, torch.zeros_like(a), CLOSED)
    if k < 75:
        return _moved(s, _up(0.005), CLOSED)
    if k < 100:
        return _moved(s, 0.3 * (b + _up(0.085) - a), CLOSED)
    if k < 115:
        return _moved(s, 0.3 * (b + _up(0.0405) - a), CLOSED)
    return _moved(s, _up(0.0 if k < 122 or k >= 130 else 0.01), OPEN)


def insert(s: State, k: int) -> torch.Tensor:
    """peg-in-hole: over the hole with its yaw, then down."""
    hole, low = s["hole"], tip(s)
    aside = hole[:, :2] - low[:, :2]
    ready = (torch.linalg.norm(aside, dim=1) < 0.0006) & ((s.qpos[:, 3] - hole[:, 2]).abs() < 0.02)
    down = torch.where((ready | (low[:, 2] < 0.04)) & (low[:, 2] > 0.01), 0.004, 0.0)
    return torch.cat([s.ctrl[:, :2] + 0.3 * aside, (s.ctrl[:, 2] - down)[:, None], hole[:, 2:]], dim=1)


def press(offset: float, after: int = 1000) -> Script:
    """peg-in-hole: down beside the hole, by an offset along its side [m]; after some control steps toward the hole."""

    def script(s: State, k: int) -> torch.Tensor:
        hole = s["hole"]
        side = torch.stack([torch.cos(hole[:, 2]), torch.sin(hole[:, 2])], dim=1)
        aside = hole[:, :2] + (offset if k < after else 0.0) * side - tip(s)[:, :2]
        z = (s.ctrl[:, 2] - (0.004 if k > 25 else 0.0)).clamp(min=0.07)
        return torch.cat([s.ctrl[:, :2] + 0.3 * aside, z[:, None], hole[:, 2:]], dim=1)

    return script


def tip(s: State) -> torch.Tensor:
    """The middle of the peg's lower end [m], (nworld, 3)."""
    return s.geom("peg").xpos - 0.04 * s.geom("peg").xmat.reshape(-1, 3, 3)[:, :, 2]


def _up(height: float) -> torch.Tensor:
    return torch.tensor([0.0, 0.0, height])


def _grasp(cube: torch.Tensor, quat: torch.Tensor, k: int) -> torch.Tensor:
    """Above a cube, from step 25 down to it, with the yaw of its nearest faces."""
    yaw = yaw_of(quat)
    yaw = yaw - 0.5 * math.pi * torch.round(yaw / (0.5 * math.pi))
    place = cube + _up(0.06) if k < 25 else cube
    return torch.cat([place, yaw[:, None], torch.full_like(yaw[:, None], OPEN)], dim=1)


def _moved(s: State, move: torch.Tensor, fingers: float) -> torch.Tensor:
    return torch.cat([s.ctrl[:, :3] + move, s.ctrl[:, 3:4], torch.full_like(s.ctrl[:, :1], fingers)], dim=1)
