"""What the tasks with the parallel gripper share: its model, its part of the observation, and its starts."""

from pathlib import Path

import mujoco
import torch

from stickslip.envs.state import State, yaw_of
from stickslip.envs.task import Action, Observed
from stickslip.simulation import Scale

FILE = Path(__file__).with_suffix(".xml")
JOINTS = 6
"""Positions of the gripper: x, y, z, yaw, left, right."""
OPEN = 0.04
"""Half of the opening at the start [m]."""
ACTION = Action(scale=(0.02, 0.02, 0.02, 0.1, 0.02), relative=True)
"""Changes of the targets of x, y, z [m], yaw [rad] and fingers [m] in a control step."""


RANDOMIZE = {
    "body_mass": Scale(0.7, 1.4, shared=True),
    "geom_friction": Scale([0.7, 1.0, 1.0], [1.2, 1.0, 1.0], shared=True),
}
"""Masses and friction differ from world to world."""


def build(name: str) -> mujoco.MjSpec:
    """The gripper over a floor."""
    spec = mujoco.MjSpec.from_file(str(FILE))
    spec.modelname = name
    return spec


def add_cube(spec: mujoco.MjSpec, name: str, half: float, mass: float, material: str = "coral") -> mujoco.MjsBody:
    """A free cube on the floor."""
    body = spec.worldbody.add_body(name=name, pos=[0.0, 0.0, half])
    body.add_freejoint(name=name)
    geom = body.add_geom(
        spec.find_default("object"), name=name, type=mujoco.mjtGeom.mjGEOM_BOX, size=[half] * 3, mass=mass
    )
    geom.material = material
    return body


def add_goal(spec: mujoco.MjSpec, radius: float) -> None:
    """A ball that shows where something is to go."""
    body = spec.worldbody.add_body(name="goal", mocap=True)
    body.add_geom(spec.find_default("goal"), size=[radius, 0.0, 0.0])


def start(
    s: State, height: float, *, half: float = OPEN, target: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Positions of the gripper above the floor, (nworld, 6), and controls, (nworld, 5).

    Args:
        s: the state
        height: of the middle of the pads, at least [m]
        half: half of the opening [m]
        target: control of the fingers [m]; None: `half`
    """
    draw = s.random
    place = torch.cat([draw.uniform(-0.1, 0.1, 2), height + draw.uniform(0.0, 0.08)], dim=1)
    yaw = draw.uniform(-0.3, 0.3)
    fingers = torch.full_like(yaw, half)
    control = fingers if target is None else torch.full_like(yaw, target)
    return torch.cat([place, yaw, fingers, fingers], dim=1), torch.cat([place, yaw, control], dim=1)


def turn_of(s: State, quat: torch.Tensor) -> torch.Tensor:
    """Angle between the gripper and the nearest faces of a cube, as cosine and sine of four times the angle."""
    turn = 4.0 * (yaw_of(quat) - s.qpos[:, 3])
    return torch.stack([torch.cos(turn), torch.sin(turn)], dim=1)


OBSERVED = {
    "gripper": Observed(lambda s: s.qpos[:, :5] * s.constant(5.0, 5.0, 5.0, 1.0, 20.0)),
    "velocity of the gripper": Observed(lambda s: s.qvel[:, :5], scale=0.5),
    "targets of the gripper": Observed(lambda s: (s.ctrl - s.qpos[:, :5]) * s.constant(20.0, 20.0, 20.0, 5.0, 20.0)),
}
"""Its part of the observation."""
