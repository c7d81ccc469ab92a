"""A palm-up hand with three fingers and a thumb, 16 hinges, that turns an object on its palm.

Lengths, mounts and joint ranges are those of the Allegro hand, but for the thumb, which twists 1 rad further; the
shapes are capsules. `menagerie.py` has the hand itself. Objects are between 50 and 95 mm across. Plans have K = 1,
where the paper has 0.5: with softer contact fewer trials succeed.
"""

import dataclasses
import itertools
import math

import mujoco
import numpy as np

from stickslip.mpc.task import Array, Cost, Goal, QuasiDynamic, Regrasp, Success, Task, quat_of
from stickslip.mpc.tasks import objects
from stickslip.mpc.tasks.objects import Part, Thing
from stickslip.scenes import look

PALM = 0.12
"""Height of the upper face of the palm above the floor [m]."""
CENTER = (0.0275, -0.004)
"""Where the object is to be on the palm, x and y [m]: between the fingertips and the thumb."""
MASS = 0.05
"""Of every object [kg]; plans believe in 0.01. Objects of 0.01 are thrown off the palm more often."""
SLIP = 0.1
"""Friction of fingertips on one another and on the palm, which no plan knows of."""
NOISE = 0.005
"""Standard deviation of where the object starts, along x and y [m]."""

_SCALES = {"cube": 0.85, "airplane": 0.9, "cross": 0.9}
_OWN = {
    "stick": Thing(0.015, (Part("box", (0.037, 0.012, 0.015), material="teal"),)),
    "ring": Thing(0.013, objects.ring(0.027, 0.013, 10, "coral")),
}
# Round objects have a mark that shows how far they have turned.
_MARKS = {
    "can": Part("box", (0.002, 0.012, 0.02), (0.0285, 0.0, 0.0), material="cream"),
    "ring": Part("box", (0.006, 0.004, 0.003), (0.027, 0.0, 0.0105), material="cream"),
}


def _thing(name: str) -> Thing:
    """The object as it fits the hand: made for it, or one of all tasks in another size."""
    thing = _OWN[name] if name in _OWN else objects.THINGS[name].scaled(_SCALES.get(name, 1.0))
    marks = (_MARKS[name],) if name in _MARKS else ()
    return dataclasses.replace(thing, parts=thing.parts + marks, mass=MASS)


OBJECTS = ("cube", "can", "duck", "stick", "brick", "bottle", "camera", "mug", "airplane", "ring", "cross")
THINGS: dict[str, Thing] = {name: _thing(name) for name in OBJECTS}
"""Every object as it fits the hand."""

# Links touch the object only; pairs let fingertips touch one another and the palm, and slide there.
_DEFAULTS = """\
  <default>
    <geom friction="1 0.005 0.0001" condim="4"/>
    <joint axis="0 -1 0" damping="0.1" armature="0.0002"/>
    <position kp="1"/>
    <default class="link"><geom type="capsule" contype="1" conaffinity="0" material="slate"/></default>
    <default class="tip">
      <geom type="capsule" size="0.012" contype="1" conaffinity="0" mass="0.0096" material="cream"/>
      <site size="0.002" group="4"/>
    </default>
    <default class="shown"><geom contype="0" conaffinity="0" mass="0" material="stone"/></default>
    <default class="object"><geom friction="0.5 0.005 0.0001" condim="4"/></default>
    <default class="goal"><geom contype="0" conaffinity="0" rgba="0.35 0.75 0.40 0.30" mass="0"/></default>
  </default>
"""

# A finger reaches along its x axis and curls up towards z. {f} names it.
_FINGER = """\
      <body name="{f}_base" pos="{pos}" euler="0 0 {heading:.6g}" childclass="link" gravcomp="1">
        <joint name="{f}_0" axis="1 0 0" range="-0.47 0.47"/>
        <geom name="{f}_base" size="0.009" fromto="0 -0.004 0 0 0.004 0" mass="0.0119"/>
        <body name="{f}_proximal" pos="0.0164 0 0" gravcomp="1">
          <joint name="{f}_1" range="-0.196 1.61"/>
          <geom name="{f}_proximal" size="0.0105" fromto="0 0 0 0.054 0 0" mass="0.065"/>
          <body name="{f}_middle" pos="0.054 0 0" gravcomp="1">
            <joint name="{f}_2" range="-0.174 1.709"/>
            <geom name="{f}_middle" size="0.0102" fromto="0 0 0 0.0384 0 0" mass="0.0355"/>
            <body name="{f}_distal" pos="0.0384 0 0" gravcomp="1">
              <joint name="{f}_3" range="-0.227 1.618"/>
              <geom name="{f}_distal" size="0.0098" fromto="0 0 0 0.012 0 0" mass="0.0096"/>
              <geom name="{f}_tip" class="tip" fromto="0.009 0 0 0.029 0 0"/>
              <site name="{f}_tip" class="tip" pos="0.029 0 0"/>
            </body>
          </body>
        </body>
      </body>
"""

# The thumb's base swings up beside the palm, its first link twists, and the two others curl over the palm.
_THUMB = """\
      <body name="thumb_base" pos="0.001513 -0.019333 -0.0293" euler="0 0 {heading:.6g}" childclass="link" gravcomp="1">
        <joint name="thumb_0" range="0.263 1.396"/>
        <geom name="thumb_base" size="0.0125" fromto="0.010 -0.022 0.002 0.030 -0.027 0.005" mass="0.0176"/>
        <body name="thumb_proximal" pos="0.0399 -0.027 0.005" gravcomp="1">
          <joint name="thumb_1" axis="1 0 0" range="-0.105 2.163"/>
          <geom name="thumb_proximal" size="0.0105" fromto="0 0 0 0.0177 0 0" mass="0.0119"/>
          <body name="thumb_middle" pos="0.0177 0 0" gravcomp="1">
            <joint name="thumb_2" axis="0 0 1" range="-0.189 1.644"/>
            <geom name="thumb_middle" size="0.0105" fromto="0 0 0 0.0514 0 0" mass="0.038"/>
            <body name="thumb_distal" pos="0.0514 0 0" gravcomp="1">
              <joint name="thumb_3" axis="0 0 1" range="-0.162 1.719"/>
              <geom name="thumb_distal" size="0.0102" fromto="0 0 0 0.028 0 0" mass="0.0388"/>
              <geom name="thumb_tip" class="tip" fromto="0.027 0 0 0.043 0 0"/>
              <site name="thumb_tip" class="tip" pos="0.043 0 0"/>
            </body>
          </body>
        </body>
      </body>
"""

# Where each finger starts in the palm [m], its heading about z, and its joint angles at the start [rad].
_FINGERS: dict[str, tuple[tuple[float, float, float], float]] = {
    "index": ((0.045958, -0.0435, -0.0111), math.radians(-5.0)),
    "middle": ((0.0482, 0.0, -0.0111), 0.0),
    "ring": ((0.045958, 0.0435, -0.0111), math.radians(5.0)),
}
HOME = ((0.47, 0.6, 1.4, 1.0), (0.0, 0.0, 1.2, 1.3), (-0.47, 0.9, 1.3, 0.9), (0.4, 1.85, 1.3, 0.8))
"""Joint angles at the start: index, middle and ring finger, thumb [rad]."""


def build(name: str) -> str:
    """MJCF of the hand with an object."""
    fingers = "".join(
        _FINGER.format(f=f, pos=look.numbers(pos), heading=heading) for f, (pos, heading) in _FINGERS.items()
    ) + _THUMB.format(heading=math.radians(-95.0))
    actuators = "".join(
        f'    <position name="{f}_{i}" joint="{f}_{i}"/>\n' for f in (*_FINGERS, "thumb") for i in range(4)
    )
    touching = ("palm", *(f"{f}_tip" for f in (*_FINGERS, "thumb")))
    pairs = "".join(
        f'    <pair geom1="{a}" geom2="{b}" condim="3" friction="{SLIP} {SLIP}"/>\n'
        for a, b in itertools.combinations(touching, 2)
    )
    palm = f"""\
      <geom name="palm" type="box" size="0.0475 0.0565 0.0204" pos="0 0 -0.0204" mass="0.4154" material="stone"
        friction="0.5 0.005 0.0001" contype="1" conaffinity="0"/>
{fingers}\
"""
    home = [*np.ravel(HOME), *CENTER, PALM + THINGS[name].height, 1.0, 0.0, 0.0, 0.0]
    return scene(
        name,
        palm,
        f"  <contact>\n{pairs}  </contact>\n  <actuator>\n{actuators}  </actuator>\n"
        f'  <keyframe><key name="home" qpos="{look.numbers(home)}" ctrl="{look.numbers(home[:-7])}"/></keyframe>\n',
    )


def scene(name: str, palm: str, rest: str = "") -> str:
    """MJCF with an object, a goal and a hand: what is inside the palm's body, and what follows the world."""
    thing = THINGS[name]
    middle = (0.02, 0.0, PALM + 0.01)
    return (
        f'<mujoco model="allegro-{name}">\n{look.SHARED}  <option cone="elliptic" impratio="10"/>\n{_DEFAULTS}'
        + look.statistic(middle, 0.35)
        + "  <worldbody>\n"
        + look.lights(middle, 0.6)
        + look.camera((-0.12, -0.25, 0.36), middle)
        + look.FLOOR
        + f"""\
    <body name="palm" pos="0 0 {PALM:g}">
{palm}\
      <geom name="stand" class="shown" type="cylinder" size="0.03 {0.5 * PALM - 0.02:g}"
        pos="0 0 {-0.5 * PALM - 0.02:g}" material="slate"/>
    </body>
"""
        + objects.bodies(thing, (*CENTER, PALM + thing.height))
        + f"  </worldbody>\n{rest}</mujoco>\n"
    )


def sample(rng: np.random.Generator, mjm: mujoco.MjModel, name: str) -> tuple[Array, Goal]:
    """The object near the middle of the palm, and a quarter of a turn to go, left or right."""
    z = PALM + THINGS[name].height
    x, y = rng.normal(CENTER, NOISE)
    yaw = rng.uniform(-0.5 * math.pi, 0.5 * math.pi)
    start = np.array([*mjm.key_qpos[0][:-7], x, y, z, *quat_of(0.0, 0.0, yaw)])
    turn = 0.5 * math.pi * rng.choice([-1.0, 1.0])
    return start, Goal(np.array([*CENTER, z]), quat_of(0.0, 0.0, yaw + turn))


ALLEGRO = Task(
    name="allegro",
    summary="a four-fingered hand turns an object on its palm by a quarter of a turn",
    objects=OBJECTS,
    build=build,
    sample=sample,
    tips=("index_tip", "middle_tip", "ring_tip", "thumb_tip"),
    cost=Cost(contact=1.0, control=0.1, final_position=1000.0, final_orientation=50.0),
    success=Success(position=math.inf, rotation=0.04),
    model=QuasiDynamic(step=0.1, rotation=0.1, joints=1.0, contact=1.0, friction=0.65, slots=20),
    bound=0.2,
    substeps=50,
    longest=500,
    floor=0.5 * PALM,
    regrasp=Regrasp(),
)
