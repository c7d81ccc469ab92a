"""The task "g1-velocity": a humanoid walks at a commanded velocity.

The model is the robot `g1` (`stickslip.mpc.retarget`), with the joint names, ranges, lengths, masses and torque limits
of the Unitree G1. Its servos are made softer: with the stiff ones that follow a recorded motion, a policy that explores
would command little but torques at their limits.
"""

import mujoco
import torch

from stickslip.envs.state import State
from stickslip.envs.task import Action, Reward
from stickslip.envs.tasks import walking
from stickslip.mpc.retarget import g1

SIDES = ("left", "right")
SOFT = {"hip": (200.0, 6.0), "knee": (200.0, 6.0), "ankle": (200.0, 4.0), "waist": (200.0, 6.0)}
"""Stiffness [N m/rad] and damping [N m s/rad] of the servos of legs and waist, by a word in their names: soft ones, but
stiff enough at the ankles that it stands without a policy."""
APART = 0.17
"""Distance of the feet below which they are too close [m]: legs of this model do not touch each other."""
LEG, ARM = (0.35, 0.15, 0.15, 0.4, 0.25, 0.1), (0.2, 0.15, 0.15, 0.2, 0.1, 0.1, 0.1)
"""Of the hinges of a leg and of an arm, how far walking may take them from the posture of the key frame [rad]."""


def _build() -> mujoco.MjSpec:
    spec = g1.build("real", False)
    spec.modelname = "g1-velocity"
    for servo in spec.actuators:
        for word, (kp, kv) in SOFT.items():
            if word in servo.name:
                servo.gainprm[0], servo.biasprm[1], servo.biasprm[2] = kp, -kp, -kv
    # They follow the pelvis: if they followed the centre of mass, poses at qpos0 would be found again with each mass.
    pelvis, key, track = spec.body("pelvis"), spec.light("key"), mujoco.mjtCamLight.mjCAMLIGHT_TRACK
    place, ray = key.pos - pelvis.pos, key.dir.copy()
    spec.delete(key)
    pelvis.add_light(name="key", mode=track, pos=place, dir=ray)
    camera = pelvis.add_camera(name="beside", mode=track, pos=[1.2, -2.6, 1.3] - pelvis.pos, fovy=40.0)
    camera.alt.type = mujoco.mjtOrientation.mjORIENTATION_XYAXES
    camera.alt.xyaxes = [0.9079594, 0.4190582, 0.0, -0.0859387, 0.1862005, 0.9787461]
    return spec


def _close(s: State) -> torch.Tensor:
    """By how much the feet are nearer to each other than `APART` [m]."""
    left, right = ROBOT.places(s).unbind(dim=1)
    return (APART - torch.linalg.norm(left - right, dim=1)).clamp(min=0.0)


ROBOT = walking.Robot(
    build=_build,
    feet=tuple(tuple(f"{side}_{part}_{i}" for part in ("heel", "toe") for i in (0, 1)) for side in SIDES),
    keep_off=tuple(f"{side}_knee" for side in SIDES),
    spread=LEG * 2 + (0.2, 0.1, 0.1) + ARM * 2,
    low=0.4,
    upright=0.5,
    forwards=(-0.5, 1.0),
    sideways=(-0.3, 0.3),
    turn=(-0.8, 0.8),
    lift=0.08,
    within=(0.3, 0.45),
)

TASK = walking.velocity_task(
    "g1-velocity",
    "a humanoid walks at a commanded velocity",
    ROBOT,
    rewards={
        "torques": Reward(ROBOT.torques, -1e-5),
        "single stance": Reward(ROBOT.single_stance, 1.5),
        "close feet": Reward(_close, -10.0),
    },
    action=Action(scale=0.2, limit=5.0, delay=(0, 3)),
    training={"iterations": 3000, "entropy": 0.006, "std": 0.5, "hidden": (512, 256, 128)},
    threshold=0.8,
)
