"""Three fingers of three hinges each, which point down around an object on the table, to move and turn it.

Links touch the object and the table; pairs let fingertips touch one another too, and slide there and on the table. The
planning model has K = 2 instead of the paper's 0.5: a control of 0.01 rad moves a fingertip by 2.5 mm, which hardly
changes the force of a softer contact.
"""

import math
import pathlib

import mujoco
import numpy as np

from stickslip.mpc.cost import Control, Grasp, Position, Reach, Rotation
from stickslip.mpc.success import OBJECT, Array, Goal, pose_goal, pose_success, quat_of
from stickslip.mpc.task import QuasiDynamic, Task
from stickslip.mpc.tasks import objects

FILE = pathlib.Path(__file__).with_suffix(".xml")
HOME = (0.0, 0.85, -1.15)
"""Initial joint angles of every finger [rad]."""
REACH = 0.05
"""Largest distance of the object's start and goal from the middle, along x and y [m]."""

OBJECTS = ("cube", "brick", "stick", "can", "tin", "duck", "bottle", "camera", "mug", "airplane", "ring", "cross")


def build(name: str) -> mujoco.MjSpec:
    """The fingers with an object."""
    thing = objects.THINGS[name]
    spec = mujoco.MjSpec.from_file(str(FILE))
    spec.modelname = f"trifinger-{name}"
    objects.place(spec, thing, (0.0, 0.0, thing.height))
    return spec


def sample(rng: np.random.Generator, mjm: mujoco.MjModel, name: str) -> tuple[Array, Goal]:
    """The object and its goal near the middle of the table, with headings within a quarter turn of zero."""
    z = objects.THINGS[name].height

    def place() -> tuple[Array, Array]:
        x, y = rng.uniform(-REACH, REACH, 2)
        return np.array([x, y, z]), quat_of(0.0, 0.0, rng.uniform(-0.5 * math.pi, 0.5 * math.pi))

    start, goal = place(), place()
    return np.concatenate([HOME * 3, *start]), pose_goal(*goal)


_TIPS = ("finger0_tip", "finger1_tip", "finger2_tip")
TRIFINGER = Task(
    name="trifinger",
    summary="three fingers above a table move and turn an object on it",
    objects=OBJECTS,
    build=build,
    sample=sample,
    cost=(
        Reach(weight=0.5, sites=_TIPS),
        Grasp(weight=0.05, sites=_TIPS),
        Control(weight=10.0),
        Position(final=5000.0),
        Rotation(final=50.0),
    ),
    success=pose_success(position=0.02, rotation=0.04),
    model=QuasiDynamic(step=0.1, rotation=0.1, joints=10.0, contact=2.0, slots=15),
    bound=0.01,
    substeps=20,
    longest=500,
    planner="newton",
    uncertain=(OBJECT,),
)
