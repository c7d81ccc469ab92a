"""Three fingertips that move freely, and an object on the floor: to turn it, to flip it, to hold it in the air."""

import math

import mujoco
import numpy as np

from stickslip.mpc.task import Array, Cost, Goal, QuasiDynamic, Success, Task, quat_of
from stickslip.mpc.tasks import objects
from stickslip.scenes import look

RADIUS = 0.01
"""Of a fingertip [m]."""
START = 0.11
"""Distance of the fingertips from the middle at the start [m]."""
CLEARANCE = 0.01
"""Least height of an object's lowest point above the floor, where it is to be held in the air [m]."""
_COLORS = ("0.85 0.33 0.31 1", "0.36 0.68 0.42 1", "0.30 0.50 0.80 1")

OBJECTS = ("cube", "brick", "stick")


def build(name: str) -> str:
    """MJCF of the fingertips with an object."""
    thing = objects.thing(name)
    tips = actuators = ""
    for i, color in enumerate(_COLORS):
        slides = "".join(
            f'      <joint name="tip{i}_{axis}" type="slide" axis="{unit}"/>\n'
            for axis, unit in (("x", "1 0 0"), ("y", "0 1 0"), ("z", "0 0 1"))
        )
        tips += (
            f'    <body name="tip{i}" gravcomp="1">\n{slides}'
            f'      <geom name="tip{i}" type="sphere" size="{RADIUS}" mass="0.01" friction="1 0.005 0.0001" condim="4"'
            f' rgba="{color}"/>\n      <site name="tip{i}" size="0.002"/>\n    </body>\n'
        )
        for axis in "xyz":
            actuators += f'    <position joint="tip{i}_{axis}" kp="100" kv="2"/>\n'
    middle = (0.0, 0.0, 0.04)
    return (
        f'<mujoco model="fingertips-{name}">\n{look.SHARED}  <option cone="elliptic" impratio="10"/>\n'
        + (f"  <asset>{thing.asset}</asset>\n" if thing.asset else "")
        + f"  <default>\n{objects.DEFAULTS}  </default>\n"
        + look.statistic(middle, 0.4)
        + "  <worldbody>\n"
        + look.lights(middle, 0.6)
        + look.camera((0.24, -0.31, 0.25), middle)
        + look.FLOOR
        + tips
        + objects.bodies(thing, (0.0, 0.0, thing.height))
        + f"  </worldbody>\n  <actuator>\n{actuators}  </actuator>\n</mujoco>\n"
    )


def _start(rng: np.random.Generator, name: str) -> Array:
    """Fingertips around the middle, the object near it, turned at random."""
    around = [2.0 * math.pi * i / 3.0 for i in range(3)]
    tips = [x for a in around for x in (START * math.cos(a), START * math.sin(a), 0.03)]
    x, y = rng.uniform(-0.025, 0.025, 2)
    return np.array([*tips, x, y, objects.thing(name).height, *quat_of(0.0, 0.0, rng.uniform(-math.pi, math.pi))])


def sample_rotate(rng: np.random.Generator, mjm: mujoco.MjModel, name: str) -> tuple[Array, Goal]:
    """Lying on the floor, anywhere near, turned anyhow about the vertical."""
    start = _start(rng, name)
    x, y = rng.uniform(-0.1, 0.1, 2)
    return start, _on_floor(name, x, y, quat_of(0.0, 0.0, rng.uniform(-math.pi, math.pi)))


def sample_flip(rng: np.random.Generator, mjm: mujoco.MjModel, name: str) -> tuple[Array, Goal]:
    """Touching the floor, tilted by up to a right angle about two axes as well; it need not stay there by itself."""
    start = _start(rng, name)
    x, y = rng.uniform(-0.1, 0.1, 2)
    yaw = rng.uniform(-math.pi, math.pi)
    pitch, roll = rng.uniform(-0.5 * math.pi, 0.5 * math.pi, 2)
    return start, _on_floor(name, x, y, quat_of(roll, pitch, yaw))


def sample_air(rng: np.random.Generator, mjm: mujoco.MjModel, name: str) -> tuple[Array, Goal]:
    """Above the floor, turned by any angle about an axis that is mostly between y and z."""
    start = _start(rng, name)
    x, y = rng.uniform(-0.1, 0.1, 2)
    z = rng.uniform(0.03, 0.10)
    axis = rng.normal([0.0, 1.0, 1.0], math.sqrt(0.1))
    quat = np.zeros(4)
    mujoco.mju_axisAngle2Quat(quat, axis / np.linalg.norm(axis), rng.uniform(-math.pi, math.pi))
    lifted = objects.thing(name).depth(quat) + CLEARANCE
    return start, Goal(np.array([x, y, max(z, lifted)]), quat)


def _on_floor(name: str, x: float, y: float, quat: Array) -> Goal:
    """The goal with that orientation that touches the floor."""
    return Goal(np.array([x, y, objects.thing(name).depth(quat)]), quat)


_MODEL = QuasiDynamic(step=0.1, rotation=0.05, joints=100.0, contact=1.0, friction=0.8, slots=10)
_COST = Cost(contact=1.0, grasp=0.05, control=50.0, final_position=5000.0, final_orientation=50.0)


def _task(name: str, summary: str, sample) -> Task:
    return Task(
        name=name,
        summary=summary,
        objects=OBJECTS,
        optional=(objects.BUNNY,),
        build=build,
        sample=sample,
        tips=("tip0", "tip1", "tip2"),
        cost=_COST,
        success=Success(position=0.02, rotation=0.015),
        model=_MODEL,
        bound=0.005,
        substeps=10,
        longest=2000,
        iterations=100,
    )


ROTATE = _task("fingertips-rotate", "three fingertips move and turn an object on the floor", sample_rotate)
FLIP = _task("fingertips-flip", "three fingertips flip an object over on the floor", sample_flip)
AIR = _task("fingertips-air", "three fingertips lift an object and hold it in the air", sample_air)
