"""The task "hand-cube": a hand turns a cube about the vertical axis, one way or the other, without dropping it.

The model is the scene "hand". Actions move the targets of the 16 servos from where they are. How far the cube has
turned is summed from step to step, so that it may turn any number of times.
"""

import math
from collections.abc import Mapping

import mujoco
import torch

from stickslip.envs.state import State, rotate_back
from stickslip.envs.task import Action, Gains, Observed, Reward, Task
from stickslip.scenes import hand, look
from stickslip.simulation import Scale

HINGES = 16
"""Where the cube's positions and velocities begin in `qpos` and `qvel`."""
TURN = 0.5 * math.pi
"""Angle by which it has to turn [rad]."""
FAST = 1.0
"""Rate of turning above which more does not pay [rad/s]."""
LOW = hand.PALM + 0.6 * hand.HALF
"""Height of the cube's centre below which it is no longer on the palm or above it [m]."""
FAR = 0.07
"""Horizontal distance from its place in the grasp at which it is lost [m]."""


def _build() -> mujoco.MjSpec:
    spec = hand.SCENE.spec()
    spec.modelname = "hand-cube"
    look.set_buffers(spec, 48, 256)
    return spec


def _cube(s: State) -> torch.Tensor:
    """Place of the cube relative to its place in the grasp [m], (nworld, 3)."""
    return s.qpos[:, HINGES : HINGES + 3] - s.constant(*hand.CUBE)


def _quat(s: State) -> torch.Tensor:
    return s.qpos[:, HINGES + 3 : HINGES + 7]


def _axes(s: State) -> torch.Tensor:
    """The first two axes of the palm in the frame of the cube, which tell its orientation, (nworld, 6)."""
    quat, n = _quat(s), s.nworld
    x, y = s.constant(1.0, 0.0, 0.0).expand(n, 3), s.constant(0.0, 1.0, 0.0).expand(n, 3)
    return torch.cat([rotate_back(quat, x), rotate_back(quat, y)], dim=1)


def turned(last: torch.Tensor, quat: torch.Tensor) -> torch.Tensor:
    """Vertical part of the rotation from one orientation to the next, (nworld, 4) each [rad], (nworld,)."""
    w, u = last[:, :1], -last[:, 1:]
    real = quat[:, :1] * w - (quat[:, 1:] * u).sum(dim=1, keepdim=True)
    axis = quat[:, :1] * u + w * quat[:, 1:] + torch.linalg.cross(quat[:, 1:], u)
    axis = torch.where(real < 0.0, -axis, axis)
    size = torch.linalg.norm(axis, dim=1)
    angle = 2.0 * torch.atan2(size, real[:, 0].abs())
    return torch.where(size > 1e-9, angle / size.clamp(min=1e-9), 2.0) * axis[:, 2]


def _fallen(s: State) -> torch.Tensor:
    return s.qpos[:, HINGES + 2] < LOW


def _lost(s: State) -> torch.Tensor:
    return torch.linalg.norm(_cube(s)[:, :2], dim=1) > FAR


def _start(s: State) -> Mapping[str, torch.Tensor]:
    """The grasp, with small errors; the direction is one or the other."""
    draw, home = s.random, s.constant(*map(float, s.mjm.key_qpos[0]))
    hinges = home[:HINGES] + draw.uniform(-0.01, 0.01, HINGES)
    place = home[HINGES : HINGES + 3] + draw.uniform(-0.001, 0.001, 3)
    quat = home[HINGES + 3 :].expand(s.nworld, 4)
    zero = s.constant(0.0).expand(s.nworld)
    return {
        "qpos": torch.cat([hinges, place, quat], dim=1),
        "ctrl": s.constant(*map(float, s.mjm.key_ctrl[0])).expand(s.nworld, s.mjm.nu),
        "direction": torch.where(draw.uniform(-1.0, 1.0)[:, 0] < 0.0, -1.0, 1.0),
        "last": quat,
        "turned": zero,
        "rate": zero,
    }


def _update(s: State) -> Mapping[str, torch.Tensor]:
    """How far the cube has turned in the wanted direction [rad], and how fast in this control step [rad/s]."""
    angle = turned(s["last"], _quat(s)) * s["direction"]
    return {"turned": s["turned"] + angle, "rate": angle / s.dt, "last": _quat(s)}


def _success(s: State) -> torch.Tensor:
    return (s["turned"] >= TURN) & ~_fallen(s) & ~_lost(s)


def _from_grasp(s: State) -> torch.Tensor:
    return s.qpos[:, :HINGES] - s.constant(*map(float, s.mjm.key_qpos[0][:HINGES]))


def _last_torques(s: State) -> torch.Tensor:
    """Torques of the servos in the last timestep, 0 where an episode starts [N m]."""
    return torch.where(s.elapsed[:, None] > 0, s.field("actuator_force"), 0.0)


TASK = Task(
    name="hand-cube",
    summary="a hand turns a cube about the vertical axis without dropping it",
    build=_build,
    start=_start,
    memory={"direction": (), "last": (4,), "turned": (), "rate": ()},
    update=_update,
    observations={
        "hinges": Observed(_from_grasp, scale=2.0, noise=0.005),
        "targets": Observed(lambda s: s.ctrl - s.qpos[:, :HINGES], scale=4.0, noise=0.005),
        "velocity of the hinges": Observed(lambda s: s.qvel[:, :HINGES], scale=0.2, noise=0.1),
        "place of the cube": Observed(_cube, scale=30.0, noise=0.001),
        "axes of the cube": Observed(_axes, noise=0.01),
        "velocity of the cube": Observed(lambda s: s.qvel[:, HINGES : HINGES + 3], scale=5.0, noise=0.01),
        "angular velocity of the cube": Observed(lambda s: s.qvel[:, HINGES + 3 :], scale=0.3, noise=0.1),
        "last action": Observed(lambda s: s.action),
        "direction": Observed(lambda s: s["direction"]),
    },
    critic={
        "turned": Observed(lambda s: s["turned"]),
        "torques": Observed(_last_torques, scale=2.0),
    },
    rewards={
        "spin": Reward(lambda s: s["rate"].clamp(-FAST, FAST), 5.0),
        "centre": Reward(lambda s: torch.linalg.norm(_cube(s), dim=1), -10.0),
        "speed": Reward(lambda s: torch.linalg.norm(s.qvel[:, HINGES : HINGES + 3], dim=1), -0.5),
        "posture": Reward(lambda s: (_from_grasp(s) ** 2).sum(dim=1), -0.1),
        "torques": Reward(lambda s: (s.field("actuator_force") ** 2).sum(dim=1), -0.1),
        "action": Reward(lambda s: (s.action**2).sum(dim=1), -0.005),
        "action rate": Reward(lambda s: ((s.action - s.previous) ** 2).sum(dim=1), -0.005),
        "drop": Reward(lambda s: (_fallen(s) | _lost(s)).float(), -10.0, once=True),
    },
    terminations={"fallen": _fallen, "lost": _lost},
    success=_success,
    action=Action(scale=0.05, relative=True),
    timestep=0.005,
    decimation=10,
    episode=10.0,
    randomize={
        "geom_friction": Scale([0.8, 1.0, 1.0], [1.2, 1.0, 1.0], shared=True),
        "body_mass": Scale(0.8, 1.2),
        "dof_damping": Scale(0.8, 1.2),
    },
    gains=Gains(stiffness=(0.9, 1.1)),
    training={"iterations": 3000, "entropy": 0.005, "std": 0.6, "hidden": (512, 256, 128)},
    threshold=0.7,
    camera="overview",
)
