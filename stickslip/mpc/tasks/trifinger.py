"""Three fingers of three hinges each, which face down around an object on the table: to move and turn it there.

Plans have K = 2, where the paper has 0.5: a control of 0.01 rad moves a fingertip by 2.5 mm, which a soft contact
hardly feels.
"""

import itertools
import math

import mujoco
import numpy as np

from stickslip.mpc.task import Array, Cost, Goal, QuasiDynamic, Success, Task, quat_of
from stickslip.mpc.tasks import objects
from stickslip.scenes import look

RADIUS = 0.04
"""Distance of the fingers' first joints from the middle [m]."""
HEIGHT = 0.29
"""And their height above the table [m]."""
LINK = 0.16
"""Length of a finger's links [m]."""
TIP = 0.0115
"""Radius of a fingertip [m]."""
SLIP = 0.1
"""Friction of fingertips on one another and on the table, which no plan knows of."""
HOME = (0.0, 0.85, -1.15)
"""Joint angles of every finger at the start [rad]."""
REACH = 0.05
"""How far the object starts from the middle, and ends from it, at the most, along x and y [m]."""

OBJECTS = ("cube", "brick", "stick", "can", "tin", "duck", "bottle", "camera", "mug", "airplane", "ring", "cross")

_COLORS = ("coral", "teal", "blue")
# Links touch the object and the table; pairs let fingertips touch one another too, and slide there and on the table.
_DEFAULTS = """\
  <default>
    <geom friction="1 0.005 0.0001" condim="4"/>
    <position kp="10" kv="0.05"/>
    <default class="finger"><geom type="capsule" contype="1" conaffinity="0"/></default>
    <default class="tip"><geom type="sphere" size="{tip}" contype="1" conaffinity="0"/></default>
    <default class="shown"><geom contype="0" conaffinity="0" mass="0" material="slate"/></default>
    <default class="object"><geom friction="1 0.005 0.0001" condim="4"/></default>
    <default class="goal"><geom contype="0" conaffinity="0" rgba="0.35 0.75 0.40 0.30" mass="0"/></default>
  </default>
"""

# A finger hangs down at y = RADIUS; its first joint swings it sideways, the others outwards.
_FINGER = """\
    <body euler="0 0 {turn:.6g}">
      <geom class="shown" type="capsule" size="0.024" fromto="0 {mount} {height} 0 {outer} {height}"/>
      <body name="finger{i}_upper" pos="0 {radius} {height}" childclass="finger" gravcomp="1">
        <joint name="finger{i}_0" axis="0 1 0" range="-1 1"/>
        <geom name="finger{i}_upper" size="0.019" fromto="0 0 0 0 0.03 0" mass="0.1" material="{color}"/>
        <body name="finger{i}_middle" gravcomp="1">
          <joint name="finger{i}_1" axis="1 0 0" range="-0.9 1.57"/>
          <geom name="finger{i}_middle" size="0.012" fromto="0 0 0 0 0 {down}" mass="0.1" material="{color}"/>
          <body name="finger{i}_lower" pos="0 0 {down}" gravcomp="1">
            <joint name="finger{i}_2" axis="1 0 0" range="-2.7 0"/>
            <geom name="finger{i}_lower" size="0.008" fromto="0 0 0 0 0 {down}" mass="0.03" material="{color}"/>
            <geom name="finger{i}_tip" class="tip" pos="0 0 {down}" mass="0.01" material="slate"/>
            <site name="finger{i}_tip" pos="0 0 {down}" size="0.002" group="4"/>
          </body>
        </body>
      </body>
    </body>
"""


def build(name: str) -> str:
    """MJCF of the fingers with an object."""
    thing = objects.THINGS[name]
    fingers = actuators = ""
    for i, color in enumerate(_COLORS):
        fingers += _FINGER.format(
            i=i,
            turn=2.0 * math.pi * i / 3.0,
            radius=RADIUS,
            mount=RADIUS + 0.04,
            outer=RADIUS + 0.16,
            height=HEIGHT,
            down=-LINK,
            color=color,
        )
        for j in range(3):
            actuators += f'    <position name="finger{i}_{j}" joint="finger{i}_{j}"/>\n'
    pairs = "".join(
        f'    <pair geom1="{a}" geom2="{b}" condim="3" friction="{SLIP} {SLIP}"/>\n'
        for a, b in itertools.combinations(("floor", *(f"finger{i}_tip" for i in range(3))), 2)
    )
    middle = (0.0, 0.02, 0.12)
    return (
        f'<mujoco model="trifinger-{name}">\n{look.SHARED}{_DEFAULTS.format(tip=TIP)}'
        + look.statistic(middle, 0.6)
        + "  <worldbody>\n"
        + look.lights(middle, 0.9)
        + look.camera((0.08, -0.57, 0.40), middle)
        + look.FLOOR
        + fingers
        + objects.bodies(thing, (0.0, 0.0, thing.height))
        + f"  </worldbody>\n  <contact>\n{pairs}  </contact>\n  <actuator>\n{actuators}  </actuator>\n</mujoco>\n"
    )


def sample(rng: np.random.Generator, mjm: mujoco.MjModel, name: str) -> tuple[Array, Goal]:
    """The object and its goal anywhere near the middle of the table, with any heading of half a turn."""
    z = objects.THINGS[name].height

    def place() -> tuple[Array, Array]:
        x, y = rng.uniform(-REACH, REACH, 2)
        return np.array([x, y, z]), quat_of(0.0, 0.0, rng.uniform(-0.5 * math.pi, 0.5 * math.pi))

    start, goal = place(), place()
    return np.concatenate([HOME * 3, *start]), Goal(*goal)


TRIFINGER = Task(
    name="trifinger",
    summary="three fingers above a table move and turn an object on it",
    objects=OBJECTS,
    build=build,
    sample=sample,
    tips=("finger0_tip", "finger1_tip", "finger2_tip"),
    cost=Cost(contact=0.5, grasp=0.05, control=10.0, final_position=5000.0, final_orientation=50.0),
    success=Success(position=0.02, rotation=0.04),
    model=QuasiDynamic(step=0.1, rotation=0.1, joints=10.0, contact=2.0, slots=15),
    bound=0.01,
    substeps=20,
    longest=500,
)
