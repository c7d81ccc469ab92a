"""The task "peg-in-hole": a parallel gripper pushes a square peg, held by friction, into a square hole.

The clearance is 1 mm to a side. The pads squeeze with a constant control; actions move the hand. The block with the
hole is a mocap body, so that each episode has its own place for it; nothing can push it away. Depth counts only with
the tip inside the hole: pressing on the block's top, or going past the block, pays nothing.
"""

from collections.abc import Mapping

import mujoco
import torch

from stickslip.envs.state import State, quat_of_yaw, rotate, rotate_back, yaw_of
from stickslip.envs.task import Action, Observed, Reward, Task
from stickslip.envs.tasks import gripper

HALF, LENGTH, MASS = 0.01, 0.08, 0.06
"""Half of the peg's side, its length [m], and its mass [kg]."""
CLEARANCE = 0.001
"""Between peg and hole, to a side [m]."""
WALL, TOP = 0.03, 0.04
"""Thickness of the walls round the hole, and height of the block [m]."""
GRIP = 0.02
"""Height of the pads' middle above the peg's [m]."""
SQUEEZE = -0.01
"""Control of the fingers [m]; 8 N with the peg between the pads."""
DEEP = 0.025
"""Depth of the tip from which on the peg is in [m]."""
INSIDE = CLEARANCE + 0.0005
"""Largest distance of a tip inside the hole from the hole's axis, along its sides [m]."""
LOST, TILTED = 0.03, 0.8
"""The peg is dropped when it has slipped so far in the grasp [m], or when the cosine of its tilt is below this."""
STEPS = 10
"""Control steps that the peg has to stay in."""
PEG, PEG_MOVES = gripper.JOINTS, gripper.JOINTS
"""Where the peg's positions begin in `qpos`, and its velocities in `qvel`."""


def _build() -> mujoco.MjSpec:
    spec = gripper.build("peg-in-hole")
    peg = spec.worldbody.add_body(name="peg", pos=[0.0, 0.0, 0.5 * LENGTH])
    peg.add_freejoint(name="peg")
    peg.add_geom(spec.find_default("object"), name="peg", size=[HALF, HALF, 0.5 * LENGTH], mass=MASS)
    block = spec.worldbody.add_body(name="block", mocap=True)
    hole = HALF + CLEARANCE
    outer, middle = hole + WALL, hole + 0.5 * WALL
    for name, x, y, wide, deep in (
        ("left wall", 0.0, middle, outer, 0.5 * WALL),
        ("right wall", 0.0, -middle, outer, 0.5 * WALL),
        ("front wall", middle, 0.0, 0.5 * WALL, hole),
        ("back wall", -middle, 0.0, 0.5 * WALL, hole),
    ):
        geom = block.add_geom(
            spec.find_default("object"), name=name, pos=[x, y, 0.5 * TOP], size=[wide, deep, 0.5 * TOP]
        )
        geom.material = "stone"
        geom.conaffinity = 2  # the pads; not the floor, which it stands on
    return spec


def _axis(s: State) -> torch.Tensor:
    """The peg's axis, upward, (nworld, 3)."""
    w, x, y, z = s.qpos[:, PEG + 3 : PEG + 7].unbind(dim=1)
    return torch.stack([2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y)], dim=1)


def _tip(s: State) -> torch.Tensor:
    """The middle of the peg's lower end, from the middle of the hole's opening and in its frame [m]."""
    low = s.qpos[:, PEG : PEG + 3] - 0.5 * LENGTH * _axis(s)
    hole = s["hole"]
    return rotate_back(quat_of_yaw(hole[:, 2]), low - torch.cat([hole[:, :2], torch.full_like(low[:, :1], TOP)], dim=1))


def _aside(s: State) -> torch.Tensor:
    """Distance of the tip from the hole's axis [m]."""
    return torch.linalg.norm(_tip(s)[:, :2], dim=1)


def _turn(s: State) -> torch.Tensor:
    """Angle between the peg and the hole, as cosine and sine of four times the angle."""
    turn = 4.0 * (s["hole"][:, 2] - yaw_of(s.qpos[:, PEG + 3 : PEG + 7]))
    return torch.stack([torch.cos(turn), torch.sin(turn)], dim=1)


def _held_at(s: State) -> torch.Tensor:
    """The peg's middle in the frame of the hand [m]."""
    return rotate_back(quat_of_yaw(s.qpos[:, 3]), s.qpos[:, PEG : PEG + 3] - s.site("grasp").xpos)


def _slip(s: State) -> torch.Tensor:
    """How far the peg has moved in the grasp since the start [m]."""
    return torch.linalg.norm(_held_at(s) - s["grip"], dim=1)


def _depth(s: State) -> torch.Tensor:
    """Depth of the tip in the hole [m]; 0 outside of it."""
    tip = _tip(s)
    inside = tip[:, :2].abs().amax(dim=1) < INSIDE
    return torch.where(inside, (-tip[:, 2]).clamp(min=0.0), 0.0)


def _in(s: State) -> torch.Tensor:
    return _depth(s) > DEEP


def _lower(s: State) -> torch.Tensor:
    """How near the tip is to the depth that counts, above the hole or in it; 1 in the hole."""
    left = (_tip(s)[:, 2] + DEEP).clamp(min=0.0)
    return torch.exp(-((_aside(s) / 0.01) ** 2)) * (1.0 - torch.tanh(10.0 * left))


def _dropped(s: State) -> torch.Tensor:
    return (_slip(s) > LOST) | (_axis(s)[:, 2] < TILTED)


def _start(s: State) -> Mapping[str, torch.Tensor]:
    draw = s.random
    hand, ctrl = gripper.start(s, 0.13, half=HALF, target=SQUEEZE)
    turn = quat_of_yaw(hand[:, 3])
    zero = torch.zeros_like(hand[:, :1])
    grip = torch.cat([draw.uniform(-0.003, 0.003), zero, draw.uniform(-0.004, 0.004) - GRIP], dim=1)
    peg = hand[:, :3] + rotate(turn, grip)
    place, yaw = draw.uniform(-0.1, 0.1, 2), draw.uniform(-0.2, 0.2)
    return {
        "qpos": torch.cat([hand, peg, turn], dim=1),
        "ctrl": ctrl,
        "mocap_pos": torch.cat([place, zero], dim=1)[:, None],
        "mocap_quat": quat_of_yaw(yaw[:, 0])[:, None],
        "hole": torch.cat([place, yaw], dim=1),
        "grip": grip,
        "held": zero[:, 0],
    }


def _update(s: State) -> Mapping[str, torch.Tensor]:
    """For how many control steps the peg has been in."""
    return {"held": torch.where(_in(s), s["held"] + 1.0, 0.0)}


def _success(s: State) -> torch.Tensor:
    return s["held"] >= STEPS


TASK = Task(
    name="peg-in-hole",
    summary="a parallel gripper pushes a peg, held by friction, into a hole with 1 mm of clearance",
    build=_build,
    start=_start,
    memory={"hole": (3,), "grip": (3,), "held": ()},
    update=_update,
    observations={
        **gripper.OBSERVED,
        "tip in the hole's frame": Observed(_tip, scale=10.0),
        "tip in the hole's frame, close": Observed(_tip, scale=200.0, clip=2.0),
        "turn to the hole": Observed(_turn),
        "tilt of the peg": Observed(lambda s: _axis(s)[:, :2], scale=10.0),
        "peg in the hand's frame": Observed(lambda s: _held_at(s) + s.constant(0.0, 0.0, GRIP), scale=50.0),
        "velocity of the peg": Observed(lambda s: s.qvel[:, PEG_MOVES : PEG_MOVES + 3]),
        "turn of the hole": Observed(lambda s: s["hole"][:, 2]),
    },
    rewards={
        "align": Reward(lambda s: 1.0 - torch.tanh(8.0 * _aside(s)), 2.0),
        "centre": Reward(lambda s: torch.exp(-((_aside(s) / 0.004) ** 2)), 2.0),
        "turn": Reward(lambda s: _turn(s)[:, 0] * (1.0 - torch.tanh(8.0 * _aside(s))), 0.5),
        "lower": Reward(_lower, 4.0),
        "depth": Reward(lambda s: (_depth(s) / DEEP).clamp(max=1.0), 10.0),
        "upright": Reward(lambda s: -(_axis(s)[:, :2] ** 2).sum(dim=1), 5.0),
        "grasp": Reward(lambda s: -_slip(s), 20.0),
        "in": Reward(lambda s: _in(s).float(), 6.0),
        "success": Reward(lambda s: _success(s).float(), 10.0),
        "action": Reward(lambda s: -(s.action**2).sum(dim=1), 0.05),
    },
    terminations={"dropped": _dropped},
    success=_success,
    action=Action(scale=(0.01, 0.01, 0.01, 0.05), relative=True, names=("x", "y", "z", "yaw")),
    timestep=0.005,
    decimation=8,
    episode=5.0,
    randomize=gripper.RANDOMIZE,
    training={"iterations": 1200, "entropy": 0.004, "gamma": 0.98},
    threshold=0.8,
)
