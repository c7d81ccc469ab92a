"""The task "stack-two": a parallel gripper puts one cube on another, lets go, and the cube stays.

Cube A is to rest on cube B with the gripper open and above it. Reaching, lifting, bringing A above B and lowering it
pay one after the other, and letting go and going up pays most: a cube that is held on B forever does not count.

A squeeze is a target of the fingers inside the cube. So letting go pays from the deepest target on, and until the pads
are well away from A: else a training holds on, or leaves the pads where its noise throws A off when the gripper goes
up. Actions are half as large as those of cube-lift, for the same reason. An eighth of a training's episodes begin with
A in the gripper: the end is learned before the way there.
"""

import dataclasses
import math
from collections.abc import Mapping

import mujoco
import torch

from stickslip.envs.state import State, quat_of_yaw
from stickslip.envs.task import Observed, Reward, Task
from stickslip.envs.tasks import gripper

HALF, MASS = 0.02, 0.1
"""Half of the cubes' side [m], and their mass [kg]."""
OFFSET, HEIGHT = 0.015, 0.004
"""Largest errors of A's place on B: horizontal, and of the height between the centres [m]."""
SLOW = 0.05
"""Speed below which a cube rests [m/s]."""
WIDE = 0.025
"""Half of the opening above which the gripper is open [m]."""
SQUEEZE, AWAY = -0.03, 0.038
"""Targets of the fingers between which letting go pays: the deepest squeeze, and half of a wide opening [m]."""
CLEAR = 0.04
"""Height of the pads' middle above A from which on the pads, whose lower edge is 1 cm below it, are clear of A [m]."""
STEPS = 10
"""Control steps that A has to stay on B."""
APART = (0.09, 0.15)
"""Least and largest distance of the cubes at the start [m]."""
PRACTICE, GRIP = 0.125, -0.01
"""Share of a training's episodes that begin with A in the gripper, and the target of the fingers there [m]."""
A, B = gripper.JOINTS, gripper.JOINTS + 7
"""Where the cubes' positions begin in `qpos`."""
A_MOVES, B_MOVES = gripper.JOINTS, gripper.JOINTS + 6
"""Where their velocities begin in `qvel`."""


def _build() -> mujoco.MjSpec:
    spec = gripper.build("stack-two")
    gripper.add_cube(spec, "a", HALF, MASS)
    gripper.add_cube(spec, "b", HALF, MASS, "blue")
    return spec


def _a(s: State) -> torch.Tensor:
    return s.qpos[:, A : A + 3]


def _b(s: State) -> torch.Tensor:
    return s.qpos[:, B : B + 3]


def _turn(s: State) -> torch.Tensor:
    return gripper.turn_of(s, s.qpos[:, A + 3 : A + 7])


def _to_place(s: State) -> torch.Tensor:
    """From A to its place on B [m]."""
    return _b(s) + s.constant(0.0, 0.0, 2.0 * HALF) - _a(s)


def _aside(s: State) -> torch.Tensor:
    """Horizontal distance of A from B [m]."""
    return torch.linalg.norm(_to_place(s)[:, :2], dim=1)


def _near(s: State) -> torch.Tensor:
    """How near the middle of the pads is to A, up to 1."""
    return 1.0 - torch.tanh(8.0 * torch.linalg.norm(_a(s) - s.site("grasp").xpos, dim=1))


def _raised(s: State, height: float) -> torch.Tensor:
    """How far A is off the floor, up to 1 at a height [m]."""
    return ((_a(s)[:, 2] - HALF) / height).clamp(0.0, 1.0)


def _placed(s: State) -> torch.Tensor:
    """Whether A is in its place on B, and both are slow; it may be held."""
    still = [torch.linalg.norm(s.qvel[:, i : i + 3], dim=1) < SLOW for i in (A_MOVES, B_MOVES)]
    return (_aside(s) < OFFSET) & (_to_place(s)[:, 2].abs() < HEIGHT) & still[0] & still[1]


def _above(s: State) -> torch.Tensor:
    """Height of the pads' middle above A [m]."""
    return s.site("grasp").xpos[:, 2] - _a(s)[:, 2]


def _opening(s: State) -> torch.Tensor:
    """Half of the opening [m]."""
    return 0.5 * (s.qpos[:, 4] + s.qpos[:, 5])


def _rests(s: State) -> torch.Tensor:
    """Whether A is in its place, and the gripper open and clear of it."""
    return _placed(s) & (_opening(s) > WIDE) & (_above(s) > CLEAR)


def _reach(s: State) -> torch.Tensor:
    return torch.where(_placed(s), 1.0, _near(s))


def _lower(s: State) -> torch.Tensor:
    """How near the height of its place A is, above B."""
    over = torch.exp(-((_aside(s) / 0.02) ** 2))
    return over * (1.0 - torch.tanh(15.0 * _to_place(s)[:, 2].abs()))


def _release(s: State) -> torch.Tensor:
    """How far the gripper lets go of a cube in its place, opens, and goes up, up to 1."""
    lets_go = ((s.ctrl[:, 4] - SQUEEZE) / (AWAY - SQUEEZE)).clamp(0.0, 1.0)
    opened = ((_opening(s) - HALF) / (AWAY - HALF)).clamp(0.0, 1.0)
    up = (_above(s) / CLEAR).clamp(0.0, 1.0)
    return torch.where(_placed(s), 0.2 * lets_go + 0.2 * opened + 0.6 * up * opened, 0.0)


def _start(s: State) -> Mapping[str, torch.Tensor]:
    draw = s.random
    hand, ctrl = gripper.start(s, 0.13)
    b, side = draw.uniform(-0.06, 0.06, 2), draw.uniform(-math.pi, math.pi)
    a = b + draw.uniform(*APART) * torch.cat([torch.cos(side), torch.sin(side)], dim=1)
    turns = draw.uniform(-0.25 * math.pi, 0.25 * math.pi, 2)
    height = torch.full_like(side, HALF)
    cubes = [torch.cat([place, height, quat_of_yaw(turns[:, i])], dim=1) for i, place in enumerate((a, b))]
    return {"qpos": torch.cat([hand, *cubes], dim=1), "ctrl": ctrl, "held": torch.zeros_like(turns[:, 0])}


def _practice(s: State) -> Mapping[str, torch.Tensor]:
    """The start; now and then with A in the gripper, above its place."""
    draw = s.random
    begun = _start(s)
    qpos, ctrl = begun["qpos"], begun["ctrl"]
    yaw, fingers = qpos[:, 3:4], torch.full_like(qpos[:, :1], HALF)
    above = torch.cat([draw.uniform(-0.02, 0.02, 2), 2.0 * HALF + draw.uniform(0.0, 0.05)], dim=1)
    a = qpos[:, B : B + 3] + above
    hand = torch.cat([a[:, :2], a[:, 2:] + draw.uniform(-0.005, 0.005), yaw], dim=1)
    held = torch.cat([hand, fingers, fingers, a, quat_of_yaw(yaw[:, 0]), qpos[:, B:]], dim=1)
    later = draw.uniform(0.0, 1.0) < PRACTICE
    return {
        **begun,
        "qpos": torch.where(later, held, qpos),
        "ctrl": torch.where(later, torch.cat([hand, torch.full_like(yaw, GRIP)], dim=1), ctrl),
    }


def _update(s: State) -> Mapping[str, torch.Tensor]:
    """For how many control steps A has rested on B."""
    return {"held": torch.where(_rests(s), s["held"] + 1.0, 0.0)}


def _success(s: State) -> torch.Tensor:
    return s["held"] >= STEPS


TASK = Task(
    name="stack-two",
    summary="a parallel gripper puts one cube on another and lets go",
    build=_build,
    start=_start,
    practice=_practice,
    memory={"held": ()},
    update=_update,
    observations={
        **gripper.OBSERVED,
        "cube A from the gripper": Observed(lambda s: _a(s) - s.site("grasp").xpos, scale=10.0, noise=0.001),
        "turn of cube A": Observed(_turn),
        "velocity of cube A": Observed(lambda s: s.qvel[:, A_MOVES : A_MOVES + 3]),
        "place on cube B from cube A": Observed(_to_place, scale=10.0),
        "velocity of cube B": Observed(lambda s: s.qvel[:, B_MOVES : B_MOVES + 3]),
        "height of the cubes": Observed(lambda s: torch.stack([_a(s)[:, 2], _b(s)[:, 2]], dim=1), scale=10.0),
        "in its place": Observed(lambda s: _placed(s).float()),
    },
    rewards={
        "reach": Reward(_reach, 2.0),
        "turn": Reward(lambda s: torch.where(_placed(s), 1.0, _turn(s)[:, 0] * _near(s)), 0.3),
        "lift": Reward(lambda s: _raised(s, 0.02), 3.0),
        "above": Reward(lambda s: _raised(s, 2.0 * HALF) * (1.0 - torch.tanh(6.0 * _aside(s))), 6.0),
        "lower": Reward(_lower, 5.0),
        "placed": Reward(lambda s: _placed(s).float(), 4.0),
        "release": Reward(_release, 20.0),
        "rest": Reward(lambda s: _rests(s).float(), 10.0),
        "success": Reward(lambda s: _success(s).float(), 10.0),
        "action": Reward(lambda s: -(s.action**2).sum(dim=1), 0.05),
    },
    terminations={
        "out of reach": lambda s: torch.maximum(_a(s)[:, :2].abs().amax(dim=1), _b(s)[:, :2].abs().amax(dim=1)) > 0.35
    },
    success=_success,
    action=dataclasses.replace(gripper.ACTION, scale=(0.01, 0.01, 0.01, 0.05, 0.02)),
    timestep=0.005,
    decimation=8,
    episode=6.0,
    randomize=gripper.RANDOMIZE,
    training={"iterations": 1500, "entropy": 0.002, "gamma": 0.985, "std": 0.6},
    threshold=0.8,
)
