"""The task "cube-lift": a parallel gripper grasps a cube, lifts it, and holds it still at a goal.

Reaching pays by the distance between the pads' middle and the cube, lifting by the cube's distance from its goal. A
physics whose grasps creep or slip does not pass: the cube has to stay at the goal.
"""

import math
from collections.abc import Mapping

import mujoco
import torch

from stickslip.envs.state import State, quat_of_yaw
from stickslip.envs.task import Observed, Reward, Task
from stickslip.envs.tasks import gripper

HALF, MASS = 0.02, 0.1
"""Half of the cube's side [m], and its mass [kg]."""
NEAR = 0.02
"""Distance from the goal below which the cube is there [m]."""
SLOW = 0.05
"""Speed below which it is held still [m/s]."""
STEPS = 10
"""Control steps that it has to stay there."""
CUBE = gripper.JOINTS
"""Where the cube's positions and velocities begin in `qpos` and `qvel`."""


def _build() -> mujoco.MjSpec:
    spec = gripper.build("cube-lift")
    gripper.add_cube(spec, "cube", HALF, MASS)
    gripper.add_goal(spec, NEAR)
    return spec


def _cube(s: State) -> torch.Tensor:
    return s.qpos[:, CUBE : CUBE + 3]


def _to_goal(s: State) -> torch.Tensor:
    return s["goal"] - _cube(s)


def _reach(s: State) -> torch.Tensor:
    """Distance between the middle of the pads and the cube [m]."""
    return torch.linalg.norm(_cube(s) - s.site("grasp").xpos, dim=1)


def _turn(s: State) -> torch.Tensor:
    return gripper.turn_of(s, s.qpos[:, CUBE + 3 : CUBE + 7])


def _lifted(s: State) -> torch.Tensor:
    """How far the cube is off the floor, up to 1 at 2 cm."""
    return ((_cube(s)[:, 2] - HALF) / 0.02).clamp(0.0, 1.0)


def _there(s: State) -> torch.Tensor:
    still = torch.linalg.norm(s.qvel[:, CUBE : CUBE + 3], dim=1) < SLOW
    return (torch.linalg.norm(_to_goal(s), dim=1) < NEAR) & still


def _start(s: State) -> Mapping[str, torch.Tensor]:
    draw = s.random
    hand, ctrl = gripper.start(s, 0.1)
    place, yaw = draw.uniform(-0.1, 0.1, 2), draw.uniform(-0.25 * math.pi, 0.25 * math.pi)[:, 0]
    height = torch.full_like(place[:, :1], HALF)
    goal = torch.cat([draw.uniform(-0.1, 0.1, 2), draw.uniform(0.12, 0.25)], dim=1)
    return {
        "qpos": torch.cat([hand, place, height, quat_of_yaw(yaw)], dim=1),
        "ctrl": ctrl,
        "mocap_pos": goal[:, None],
        "goal": goal,
        "held": torch.zeros_like(yaw),
    }


def _update(s: State) -> Mapping[str, torch.Tensor]:
    """For how many control steps the cube has been at the goal."""
    return {"held": torch.where(_there(s), s["held"] + 1.0, 0.0)}


def _success(s: State) -> torch.Tensor:
    return s["held"] >= STEPS


TASK = Task(
    name="cube-lift",
    summary="a parallel gripper lifts a cube and holds it still at a goal",
    build=_build,
    start=_start,
    memory={"goal": (3,), "held": ()},
    update=_update,
    observations={
        **gripper.OBSERVED,
        "cube from the gripper": Observed(lambda s: _cube(s) - s.site("grasp").xpos, scale=10.0, noise=0.001),
        "turn of the cube": Observed(_turn),
        "velocity of the cube": Observed(lambda s: s.qvel[:, CUBE : CUBE + 3]),
        "goal from the cube": Observed(_to_goal, scale=5.0),
        "height of the cube": Observed(lambda s: _cube(s)[:, 2], scale=10.0),
    },
    rewards={
        "reach": Reward(lambda s: 1.0 - torch.tanh(8.0 * _reach(s)), 2.0),
        "turn": Reward(lambda s: _turn(s)[:, 0] * (1.0 - torch.tanh(8.0 * _reach(s))), 0.3),
        "lift": Reward(_lifted, 4.0),
        "goal": Reward(lambda s: _lifted(s) * (1.0 - torch.tanh(6.0 * torch.linalg.norm(_to_goal(s), dim=1))), 12.0),
        "there": Reward(lambda s: _there(s).float(), 10.0),
        "success": Reward(lambda s: _success(s).float(), 5.0),
        "action": Reward(lambda s: -(s.action**2).sum(dim=1), 0.05),
    },
    terminations={"out of reach": lambda s: _cube(s)[:, :2].abs().amax(dim=1) > 0.35},
    success=_success,
    action=gripper.ACTION,
    timestep=0.005,
    decimation=8,
    episode=5.0,
    randomize=gripper.RANDOMIZE,
    training={"entropy": 0.002},
    threshold=0.9,
)
