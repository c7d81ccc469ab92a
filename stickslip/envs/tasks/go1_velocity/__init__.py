"""The task "go1-velocity": a robot dog walks at a commanded velocity.

The model, `go1.xml`, has the joint names, ranges, lengths, masses and torque limits of the Unitree Go1, rounded.
"""

from pathlib import Path

import mujoco

from stickslip.envs.task import Reward
from stickslip.envs.tasks import walking

FILE = Path(__file__).with_name("go1.xml")
LEGS = ("FR", "FL", "RR", "RL")


def _build() -> mujoco.MjSpec:
    spec = mujoco.MjSpec.from_file(str(FILE))
    spec.modelname = "go1-velocity"
    return spec


ROBOT = walking.Robot(
    build=_build,
    feet=tuple((f"{leg}_foot",) for leg in LEGS),
    keep_off=tuple(f"{leg}_knee" for leg in LEGS),
    spread=(0.3, 0.5, 0.6) * 4,
    low=0.15,
    upright=0.5,
    forwards=(-1.0, 1.5),
    sideways=(-0.6, 0.6),
    turn=(-1.2, 1.2),
    lift=0.07,
    within=(0.25, 0.35),
)

TASK = walking.velocity_task(
    "go1-velocity",
    "a robot dog walks at a commanded velocity",
    ROBOT,
    rewards={
        "torques": Reward(ROBOT.torques, -2e-4),
        "air time": Reward(ROBOT.air_time, 0.3, once=True),
    },
    training={"iterations": 1000, "entropy": 0.005, "std": 0.6, "hidden": (512, 256, 128)},
    threshold=0.8,
)
