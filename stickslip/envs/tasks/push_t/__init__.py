"""The task "push-t": a round finger pushes a T on a table to a goal pose.

The model is that of the planning task of this name (`stickslip.mpc.tasks.push_t`). An action moves the target of the
finger's two servos.
"""

import math
from collections.abc import Mapping

import torch

from stickslip.envs.state import State, once, quat_of_yaw, wrapped, yaw_of
from stickslip.envs.task import Action, Observed, Reward, Task
from stickslip.mpc.tasks import push_t

NEAR = 0.12
"""Largest distance of start and goal from the middle, along x and y [m]."""
DISTANCE, ANGLE = 0.03, 0.2
"""Errors of position [m] and heading [rad] below which the T is at its goal."""
ARM = 0.06
"""Length that turns an error of heading into one of position [m]."""


@once
def _yaw(s: State) -> torch.Tensor:
    return yaw_of(s.qpos[:, 5:9])


@once
def _heading(s: State) -> torch.Tensor:
    """The first axis of the T, (nworld, 2)."""
    return torch.stack([torch.cos(_yaw(s)), torch.sin(_yaw(s))], dim=1)


def _in_t(s: State, vector: torch.Tensor) -> torch.Tensor:
    """Vectors of the plane in the frame of the T."""
    across = _heading(s).flip(1) * s.constant(-1.0, 1.0)
    return torch.stack([(vector * _heading(s)).sum(dim=1), (vector * across).sum(dim=1)], dim=1)


@once
def _turn(s: State) -> torch.Tensor:
    """Angle from the T to its goal [rad]."""
    return wrapped(s["goal"][:, 2] - _yaw(s))


@once
def _distance(s: State) -> torch.Tensor:
    """Distance of the T from its goal [m]."""
    return torch.linalg.norm(s.qpos[:, 2:4] - s["goal"][:, :2], dim=1)


@once
def _potential(s: State) -> torch.Tensor:
    """How far the T is from its goal [m]."""
    return _distance(s) + ARM * _turn(s).abs()


@once
def _success(s: State) -> torch.Tensor:
    return (_distance(s) < DISTANCE) & (_turn(s).abs() < ANGLE)


def _start(s: State) -> Mapping[str, torch.Tensor]:
    draw = s.random
    place, goal = draw.uniform(-NEAR, NEAR, 2), draw.uniform(-NEAR, NEAR, 2)
    yaw, turn = draw.uniform(-math.pi, math.pi)[:, 0], draw.uniform(-math.pi, math.pi)
    side, reach = draw.uniform(-math.pi, math.pi)[:, 0], draw.uniform(0.2, 0.25)
    finger = place + reach * torch.stack([torch.cos(side), torch.sin(side)], dim=1)
    height = torch.full_like(reach, push_t.HEIGHT)
    heading = wrapped(yaw + turn[:, 0])
    qpos = torch.cat([finger, place, height, quat_of_yaw(yaw)], dim=1)
    far = torch.linalg.norm(place - goal, dim=1) + ARM * turn[:, 0].abs()
    return {
        "qpos": qpos,
        "ctrl": finger,
        "mocap_pos": torch.cat([goal, height], dim=1)[:, None],
        "mocap_quat": quat_of_yaw(heading)[:, None],
        "goal": torch.cat([goal, heading[:, None]], dim=1),
        "far": far,
        "nearer": torch.zeros_like(far),
    }


def _update(s: State) -> Mapping[str, torch.Tensor]:
    """How much nearer to its goal the T is than a control step ago [m]."""
    far = _potential(s)
    return {"nearer": s["far"] - far, "far": far}


TASK = Task(
    name="push-t",
    summary="a finger pushes a T on a table to a goal pose",
    build=lambda: push_t.build("t"),
    start=_start,
    memory={"goal": (3,), "far": (), "nearer": ()},
    update=_update,
    observations={
        "finger in the T's frame": Observed(lambda s: _in_t(s, s.qpos[:, :2] - s.qpos[:, 2:4]), scale=5.0),
        "target of the finger": Observed(lambda s: _in_t(s, s.ctrl - s.qpos[:, :2]), scale=10.0),
        "velocity of the finger": Observed(lambda s: _in_t(s, s.qvel[:, :2])),
        "goal in the T's frame": Observed(lambda s: _in_t(s, s["goal"][:, :2] - s.qpos[:, 2:4]), scale=5.0),
        "turn to the goal": Observed(lambda s: torch.stack([torch.cos(_turn(s)), torch.sin(_turn(s))], dim=1)),
        "velocity of the T": Observed(lambda s: _in_t(s, s.qvel[:, 2:4])),
        "spin of the T": Observed(lambda s: s.qvel[:, 7], scale=0.2),
        "heading of the T": Observed(_heading),
        "place of the T": Observed(lambda s: s.qpos[:, 2:4], scale=5.0),
    },
    rewards={
        "nearer": Reward(lambda s: s["nearer"], 40.0, once=True),
        "near": Reward(lambda s: -(torch.linalg.norm(s.qpos[:, :2] - s.qpos[:, 2:4], dim=1) - 0.1).clamp(min=0.0), 2.0),
        "success": Reward(lambda s: _success(s).float(), 20.0, once=True),
        "time": Reward(lambda s: torch.ones_like(s["far"]), -0.3),
        "action": Reward(lambda s: -(s.action**2).sum(dim=1), 0.02),
    },
    terminations={
        "success": _success,
        "off the table": lambda s: s.qpos[:, 2:4].abs().amax(dim=1) > 0.4,
    },
    success=_success,
    action=Action(scale=0.03, relative=True),
    timestep=0.005,
    decimation=10,
    episode=12.0,
    threshold=0.8,
)
