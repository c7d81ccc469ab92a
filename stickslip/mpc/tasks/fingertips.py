"""Three fingertips that move freely, and an object on the floor, to be turned, flipped, or held in the air."""

import math
import pathlib

import mujoco
import numpy as np

from stickslip.mpc.cost import Control, Grasp, Position, Reach, Rotation
from stickslip.mpc.success import OBJECT, Array, Goal, pose_goal, pose_success, quat_of
from stickslip.mpc.task import QuasiDynamic, Task
from stickslip.mpc.tasks import objects

FILE = pathlib.Path(__file__).with_suffix(".xml")
START = 0.11
"""Initial distance of the fingertips from the origin [m]."""
CLEARANCE = 0.01
"""Smallest height above the floor of an object's lowest point, for goals in the air [m]."""

OBJECTS = ("cube", "brick", "stick")


def build(name: str) -> mujoco.MjSpec:
    """The fingertips with an object."""
    thing = objects.thing(name)
    spec = mujoco.MjSpec.from_file(str(FILE))
    spec.modelname = f"fingertips-{name}"
    objects.place(spec, thing, (0.0, 0.0, thing.height))
    return spec


def _start(rng: np.random.Generator, name: str) -> Array:
    """Fingertips around the origin, the object near it with a random heading."""
    around = [2.0 * math.pi * i / 3.0 for i in range(3)]
    tips = [x for a in around for x in (START * math.cos(a), START * math.sin(a), 0.03)]
    x, y = rng.uniform(-0.025, 0.025, 2)
    return np.array([*tips, x, y, objects.thing(name).height, *quat_of(0.0, 0.0, rng.uniform(-math.pi, math.pi))])


def sample_rotate(rng: np.random.Generator, mjm: mujoco.MjModel, name: str) -> tuple[Array, Goal]:
    """A goal on the floor nearby, with any heading."""
    start = _start(rng, name)
    x, y = rng.uniform(-0.1, 0.1, 2)
    return start, _on_floor(name, x, y, quat_of(0.0, 0.0, rng.uniform(-math.pi, math.pi)))


def sample_flip(rng: np.random.Generator, mjm: mujoco.MjModel, name: str) -> tuple[Array, Goal]:
    """A goal that touches the floor, tilted by up to 90 degrees about two axes; it need not be stable."""
    start = _start(rng, name)
    x, y = rng.uniform(-0.1, 0.1, 2)
    yaw = rng.uniform(-math.pi, math.pi)
    pitch, roll = rng.uniform(-0.5 * math.pi, 0.5 * math.pi, 2)
    return start, _on_floor(name, x, y, quat_of(roll, pitch, yaw))


def sample_air(rng: np.random.Generator, mjm: mujoco.MjModel, name: str) -> tuple[Array, Goal]:
    """A goal above the floor, rotated by any angle about an axis that is mostly between y and z."""
    start = _start(rng, name)
    x, y = rng.uniform(-0.1, 0.1, 2)
    z = rng.uniform(0.03, 0.10)
    axis = rng.normal([0.0, 1.0, 1.0], math.sqrt(0.1))
    quat = np.zeros(4)
    mujoco.mju_axisAngle2Quat(quat, axis / np.linalg.norm(axis), rng.uniform(-math.pi, math.pi))
    lifted = objects.thing(name).depth(quat) + CLEARANCE
    return start, pose_goal(np.array([x, y, max(z, lifted)]), quat)


def _on_floor(name: str, x: float, y: float, quat: Array) -> Goal:
    """The goal with that orientation, touching the floor."""
    return pose_goal(np.array([x, y, objects.thing(name).depth(quat)]), quat)


_MODEL = QuasiDynamic(step=0.1, rotation=0.05, joints=100.0, contact=1.0, friction=0.8, slots=10)
_TIPS = ("tip0", "tip1", "tip2")
_COST = (
    Reach(weight=1.0, sites=_TIPS),
    Grasp(weight=0.05, sites=_TIPS),
    Control(weight=50.0),
    Position(final=5000.0),
    Rotation(final=50.0),
)


def _task(name: str, summary: str, sample) -> Task:
    return Task(
        name=name,
        summary=summary,
        objects=OBJECTS,
        optional=(objects.BUNNY,),
        build=build,
        sample=sample,
        cost=_COST,
        success=pose_success(position=0.02, rotation=0.015),
        model=_MODEL,
        bound=0.005,
        substeps=10,
        longest=2000,
        iterations=100,
        planner="newton",
        uncertain=(OBJECT,),
    )


ROTATE = _task("fingertips-rotate", "three fingertips move and turn an object on the floor", sample_rotate)
FLIP = _task("fingertips-flip", "three fingertips flip an object over on the floor", sample_flip)
AIR = _task("fingertips-air", "three fingertips lift an object and hold it in the air", sample_air)
