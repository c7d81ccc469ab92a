"""A hand like the LEAP hand, palm up, and an object that lies in it: to turn it about the vertical, or to tip it over.

Three fingers and a thumb of four hinges each, with the lengths, ranges and servos of the LEAP hand rounded. All that
touches is made of capsules, the palm too: those against a box, a sphere or each other are closed forms, two boxes are
not. Geoms collide by class: links and palm touch the object, the last
link of each finger also those of the others and the palm. The floor only shows: an object that comes near it has
fallen, which ends a trial. Contacts have no torsional friction: with it a cube at rest on the tilted palm creeps
farther under ComFree.
"""

import dataclasses
import math

import mujoco
import numpy as np

from stickslip.mpc.task import OBJECT, Array, Cost, Goal, QuasiDynamic, Success, Task
from stickslip.mpc.tasks import objects
from stickslip.scenes import look

TILT = math.radians(28.0)
"""Inclination of the palm; the fingers' side is the lower one [rad]."""
HEIGHT = 0.16
"""Of the middle of the palm's upper face above the floor [m]."""
CENTRE = (0.0, 0.0)
"""Where the object is to lie, seen from the palm: towards the fingers, and across [m]."""
FALLEN = 0.05
"""Height of the object's middle that counts as fallen [m]."""
OBJECTS = ("cube", "tin", "cylinder", "duck")
FINGERS = ("index", "middle", "ring", "thumb")
NCONMAX, NJMAX = 40, 256
"""Contacts and constraint rows to make room for in a world of a plan."""

_RIBS, _RIB_RADIUS, _RIB_GAP = 7, 0.02, 0.017
"""Capsules of the palm, side by side along the fingers, their radius and the distance between them [m]."""
_SIZES = {"cube": 1.0, "tin": 1.0, "cylinder": 0.95, "duck": 1.0}
_MASS = 0.04
_ABOVE = (0.0, 0.0, HEIGHT + 0.05)
"""Where the object of the model as written is [m]."""

# Where each finger starts on the palm [m] and its heading about z [rad].
_BASES = {
    "index": ((0.052, 0.045, -0.010), 0.0),
    "middle": ((0.052, 0.0, -0.010), 0.0),
    "ring": ((0.052, -0.045, -0.010), 0.0),
    "thumb": ((-0.052, 0.0, -0.010), math.pi),
}
_RANGES = ("-0.3 2.2", "-1.0 1.0", "-0.5 1.9", "-0.35 2.0")
HOME = {
    "index": (0.95, 0.0, 1.0, 0.9),
    "middle": (0.95, 0.0, 1.0, 0.9),
    "ring": (0.95, 0.0, 1.0, 0.9),
    "thumb": (0.95, 0.0, 1.0, 0.9),
}
"""Joint angles at the start [rad]."""

_DEFAULTS = """\
    <geom friction="1 0.005 0.0001" condim="3"/>
    <joint axis="0 -1 0" damping="0.1" armature="0.001"/>
    <position kp="3" forcerange="-0.95 0.95"/>
    <default class="link"><geom type="capsule" contype="1" conaffinity="0" material="slate"/></default>
    <default class="palm">
      <geom type="capsule" size="{radius}" contype="1" conaffinity="4" material="stone"/>
    </default>
    <default class="last"><geom type="capsule" contype="5" conaffinity="4" material="coral"/></default>
"""

# One finger reaches along its x axis and curls up towards z. {f} names it.
_FINGER = """\
      <body name="{f}_knuckle" pos="{pos}" quat="{quat}" childclass="link">
        <joint name="{f}_0" range="{r[0]}"/>
        <geom name="{f}_knuckle" size="0.012" fromto="0 -0.008 0 0 0.008 0" mass="0.02" contype="0"/>
        <body name="{f}_proximal">
          <joint name="{f}_1" axis="0 0 1" range="{r[1]}"/>
          <geom name="{f}_proximal" size="0.011" fromto="0.012 0 0 0.054 0 0" mass="0.03"/>
          <body name="{f}_middle" pos="0.054 0 0">
            <joint name="{f}_2" range="{r[2]}"/>
            <geom name="{f}_middle" size="0.0105" fromto="0 0 0 0.036 0 0" mass="0.03"/>
            <body name="{f}_last" pos="0.036 0 0">
              <joint name="{f}_3" range="{r[3]}"/>
              <geom name="{f}_last" class="last" size="0.0115" fromto="0.012 0 0 0.034 0 0" mass="0.02"/>
              <site name="{f}_tip" pos="0.036 0 0" size="0.003" group="4"/>
            </body>
          </body>
        </body>
      </body>
"""


def thing(name: str) -> objects.Thing:
    """The object as it lies in this hand."""
    scaled = objects.THINGS[name].scaled(_SIZES[name])
    return objects.Thing(scaled.height, scaled.parts, _MASS)


def palm_frame() -> tuple[Array, Array]:
    """Where the middle of the palm's upper face is [m] and how the palm is turned, as a quaternion."""
    return np.array([0.0, 0.0, HEIGHT]), np.array([math.cos(0.5 * TILT), 0.0, math.sin(0.5 * TILT), 0.0])


def place(mjm: mujoco.MjModel, quat: Array, along: float = 0.0, across: float = 0.0) -> Array:
    """Middle of the object when it lies on the palm, turned by `quat` and that far from `CENTRE` [m]."""
    pos, palm = palm_frame()
    normal, seen = _rotated(np.array([0.0, 0.0, 1.0]), palm), np.empty(3)
    mujoco.mju_rotVecQuat(seen, normal, quat * np.array([1.0, -1.0, -1.0, -1.0]))
    geoms = np.flatnonzero(mjm.geom_bodyid == mjm.body(OBJECT).id)
    height = max(_depth(mjm, int(geom), seen) for geom in geoms)
    return pos + _rotated(np.array([CENTRE[0] + along, CENTRE[1] + across, height]), palm)


def _depth(mjm: mujoco.MjModel, geom: int, up: Array) -> float:
    """How far a primitive reaches below the middle of its body [m], where `up` is seen from the body."""
    size, mine = mjm.geom_size[geom], _rotated(up, mjm.geom_quat[geom] * np.array([1.0, -1.0, -1.0, -1.0]))
    across = math.sqrt(max(0.0, 1.0 - mine[2] ** 2))
    reach = {
        mujoco.mjtGeom.mjGEOM_BOX: float(np.abs(mine) @ size),
        mujoco.mjtGeom.mjGEOM_ELLIPSOID: float(np.linalg.norm(mine * size)),
        mujoco.mjtGeom.mjGEOM_SPHERE: size[0],
        mujoco.mjtGeom.mjGEOM_CAPSULE: size[0] + abs(mine[2]) * size[1],
        mujoco.mjtGeom.mjGEOM_CYLINDER: size[0] * across + abs(mine[2]) * size[1],
    }[mujoco.mjtGeom(mjm.geom_type[geom])]
    return reach - float(up @ mjm.geom_pos[geom])


def _rotated(vector: Array, quat: Array) -> Array:
    out = np.empty(3)
    mujoco.mju_rotVecQuat(out, vector, quat)
    return out


def build(name: str) -> str:
    """MJCF of the hand with an object."""
    fingers = actuators = ""
    for finger in FINGERS:
        pos, heading = _BASES[finger]
        quat = (math.cos(0.5 * heading), 0.0, 0.0, math.sin(0.5 * heading))
        fingers += _FINGER.format(f=finger, pos=look.numbers(pos), quat=look.numbers(quat), r=_RANGES)
        for i, limits in enumerate(_RANGES):
            actuators += f'    <position name="{finger}_{i}" joint="{finger}_{i}" ctrlrange="{limits}"/>\n'
    ribs = ""
    for i in range(_RIBS):
        y = _RIB_GAP * (i - 0.5 * (_RIBS - 1))
        ends = (-0.04, y, -_RIB_RADIUS, 0.04, y, -_RIB_RADIUS)
        ribs += f'      <geom name="palm_{i}" class="palm" fromto="{look.numbers(ends)}"/>\n'
    palm = f"""\
      <geom name="back" type="box" size="0.048 0.062 0.012" pos="0 0 -0.032" material="slate"
        contype="0" conaffinity="0"/>
      <geom name="wrist" type="capsule" size="0.022" fromto="-0.05 0 -0.035 -0.11 0 -0.035" material="slate"
        contype="0" conaffinity="0"/>
{ribs}{fingers}\
"""
    home = [*(q for finger in FINGERS for q in HOME[finger]), *_ABOVE, *palm_frame()[1]]
    return scene(
        name,
        palm,
        f"  <actuator>\n{actuators}  </actuator>\n"
        f'  <keyframe><key name="home" qpos="{look.numbers(home)}" ctrl="{look.numbers(home[:-7])}"/></keyframe>\n',
    )


def scene(name: str, palm: str, rest: str = "", room: tuple[int, int] = (NCONMAX, NJMAX)) -> str:
    """MJCF with an object, a goal and a hand: what is inside the palm's body, what follows the world, and room."""
    pos, quat = palm_frame()
    middle = (0.0, 0.0, HEIGHT)
    return (
        f'<mujoco model="leap-{name}">\n{look.SHARED}  <default>\n'
        + _DEFAULTS.format(radius=_RIB_RADIUS)
        + objects.DEFAULTS.replace('condim="4"', 'condim="3"')
        + "  </default>\n"
        + look.statistic(middle, 0.4)
        + "  <worldbody>\n"
        + look.lights(middle, 0.6)
        + look.camera((0.20, -0.30, HEIGHT + 0.26), (0.0, 0.0, HEIGHT + 0.01))
        + '    <geom name="floor" type="plane" size="0 0 0.5" material="floor" contype="0" conaffinity="0"/>\n'
        + f"""\
    <body name="palm" pos="{look.numbers(list(pos))}" quat="{look.numbers(list(quat))}">
{palm}\
    </body>
"""
        + objects.bodies(thing(name), _ABOVE)
        + f"  </worldbody>\n{rest}"
        + f'  <custom><numeric name="nconmax" data="{room[0]}"/><numeric name="njmax" data="{room[1]}"/></custom>\n'
        + "</mujoco>\n"
    )


def _turned(axis: tuple[float, float, float], angle: float, quat: Array) -> Array:
    """`quat` turned about an axis of the palm [rad]."""
    turn, out = np.empty(4), np.empty(4)
    mujoco.mju_axisAngle2Quat(turn, _rotated(np.array(axis), palm_frame()[1]), angle)
    mujoco.mju_mulQuat(out, turn, quat)
    return out


def _start(rng: np.random.Generator, mjm: mujoco.MjModel) -> Array:
    """The hand at home; the object on the palm, up to 5 mm and 0.1 rad off."""
    along, across = rng.uniform(-0.005, 0.005, 2)
    quat = _turned((0.0, 0.0, 1.0), rng.uniform(-0.1, 0.1), palm_frame()[1])
    return np.array([*mjm.key_qpos[0][:-7], *place(mjm, quat, along, across), *quat])


def sample_yaw(rng: np.random.Generator, mjm: mujoco.MjModel, name: str) -> tuple[Array, Goal]:
    """A quarter turn about the palm's normal, either way."""
    start = _start(rng, mjm)
    angle = rng.choice([-0.5, 0.5]) * math.pi
    quat = _turned((0.0, 0.0, 1.0), angle, start[-4:])
    return start, Goal(place(mjm, quat), quat)


def sample_roll(rng: np.random.Generator, mjm: mujoco.MjModel, name: str) -> tuple[Array, Goal]:
    """A quarter turn about an axis in the palm: roll (along the fingers) or pitch (across), either way."""
    start = _start(rng, mjm)
    axis = (1.0, 0.0, 0.0) if rng.random() < 0.5 else (0.0, 1.0, 0.0)
    angle = rng.choice([-0.5, 0.5]) * math.pi
    quat = _turned(axis, angle, start[-4:])
    return start, Goal(place(mjm, quat), quat)


_MODEL = QuasiDynamic(joints=3.0, mass=_MASS)
_ROLL_COST = Cost(
    orientation=0.2,
    position=(0.4, 0.4, 0.4),
    contact=0.2,
    posture=0.001,
    fallen=0.2,
    floor=FALLEN,
    final_position=4.0,
    final_orientation=0.2,
)
_YAW_COST = dataclasses.replace(_ROLL_COST, position=(0.8, 0.8, 0.8), final_position=10.0)
"""An object that is tipped over has to leave its place for a while, one that is turned has not."""


def _task(name: str, summary: str, sample, cost: Cost) -> Task:
    return Task(
        name=name,
        summary=summary,
        objects=OBJECTS,
        build=build,
        sample=sample,
        tips=tuple(f"{finger}_tip" for finger in FINGERS),
        cost=cost,
        success=Success(position=0.02, rotation=0.04),
        model=_MODEL,
        bound=0.1,
        substeps=12,
        longest=1500,
        floor=FALLEN,
        planner="mppi",
    )


YAW = _task(
    "leap-yaw", "a hand turns an object on its palm by a quarter about the palm's normal", sample_yaw, _YAW_COST
)
ROLL = _task("leap-roll", "a hand tips an object on its palm over by a quarter", sample_roll, _ROLL_COST)
