"""A palm-up hand with three fingers and a thumb, 16 hinges, that turns an object on its palm.

Lengths, mounts and joint ranges are those of the Allegro hand, except that the thumb twists 1 rad further; the shapes
are capsules. `menagerie.py` has the real hand. Objects are between 50 and 95 mm across. The planning model has K = 1
instead of the paper's 0.5: with softer contact fewer trials succeed.
"""

import dataclasses
import itertools
import math
import pathlib

import mujoco
import numpy as np

from stickslip.mpc.cost import Control, Position, Reach, Rotation
from stickslip.mpc.success import OBJECT, Array, Below, Goal, pose_goal, pose_success, quat_of
from stickslip.mpc.task import QuasiDynamic, Regrasp, Task
from stickslip.mpc.tasks import objects
from stickslip.mpc.tasks.objects import Part, Thing
from stickslip.scenes import finger as fingers
from stickslip.scenes import look
from stickslip.scenes.finger import Link

FILE = pathlib.Path(__file__).with_suffix(".xml")
PALM = 0.12
"""Height of the palm's top face above the floor [m]."""
CENTER = (0.0275, -0.004)
"""Target position of the object on the palm, x and y [m]: between the fingertips and the thumb."""
MASS = 0.05
"""Mass of every object [kg]; the planning model assumes 0.01. Objects of 0.01 kg fall off the palm more often."""
SLIP = 0.1
"""Friction of fingertips on one another and on the palm; the planning model has no such contacts."""
NOISE = 0.005
"""Standard deviation of the object's initial position, along x and y [m]."""

_SCALES = {"cube": 0.85, "airplane": 0.9, "cross": 0.9}
_OWN = {
    "stick": Thing(0.015, (Part("box", (0.037, 0.012, 0.015), material="teal"),)),
    "ring": Thing(0.013, objects.ring(0.027, 0.013, 10, "coral")),
}
# Round objects have a mark that shows their orientation.
_MARKS = {
    "can": Part("box", (0.002, 0.012, 0.02), (0.0285, 0.0, 0.0), material="cream"),
    "ring": Part("box", (0.006, 0.004, 0.003), (0.027, 0.0, 0.0105), material="cream"),
}


def _thing(name: str) -> Thing:
    """The object in a size that fits the hand."""
    thing = _OWN[name] if name in _OWN else objects.THINGS[name].scaled(_SCALES.get(name, 1.0))
    marks = (_MARKS[name],) if name in _MARKS else ()
    return dataclasses.replace(thing, parts=thing.parts + marks, mass=MASS)


OBJECTS = ("cube", "can", "duck", "stick", "brick", "bottle", "camera", "mug", "airplane", "ring", "cross")
THINGS: dict[str, Thing] = {name: _thing(name) for name in OBJECTS}
"""Every object in a size that fits the hand."""

_TIP_RADIUS, _TIP_MASS = 0.012, 0.0096
"""Of the capsules at the fingertips [m] and [kg]."""
FINGER = (
    Link("base", (-0.47, 0.47), 0.009, (0, 0.004, 0), 0.0119, axis=(1, 0, 0), start=(0, -0.004, 0)),
    Link("proximal", (-0.196, 1.61), 0.0105, (0.054, 0, 0), 0.065, pos=(0.0164, 0, 0)),
    Link("middle", (-0.174, 1.709), 0.0102, (0.0384, 0, 0), 0.0355, pos=(0.054, 0, 0)),
    Link("distal", (-0.227, 1.618), 0.0098, (0.012, 0, 0), 0.0096, pos=(0.0384, 0, 0)),
)
"""It reaches along its x axis and curls up towards z."""
THUMB = (
    Link("base", (0.263, 1.396), 0.0125, (0.030, -0.027, 0.005), 0.0176, start=(0.010, -0.022, 0.002)),
    Link("proximal", (-0.105, 2.163), 0.0105, (0.0177, 0, 0), 0.0119, pos=(0.0399, -0.027, 0.005), axis=(1, 0, 0)),
    Link("middle", (-0.189, 1.644), 0.0105, (0.0514, 0, 0), 0.038, pos=(0.0177, 0, 0), axis=(0, 0, 1)),
    Link("distal", (-0.162, 1.719), 0.0102, (0.028, 0, 0), 0.0388, pos=(0.0514, 0, 0), axis=(0, 0, 1)),
)
"""Its base swings up beside the palm, its first link twists, and the two others curl over the palm."""
# Of each finger: where it starts in the palm [m], its heading about z [rad], its links, start and end of its tip [m].
_FINGERS: dict[str, tuple[look.Vector, float, tuple[Link, ...], tuple[float, float]]] = {
    "index": ((0.045958, -0.0435, -0.0111), math.radians(-5.0), FINGER, (0.009, 0.029)),
    "middle": ((0.0482, 0.0, -0.0111), 0.0, FINGER, (0.009, 0.029)),
    "ring": ((0.045958, 0.0435, -0.0111), math.radians(5.0), FINGER, (0.009, 0.029)),
    "thumb": ((0.001513, -0.019333, -0.0293), math.radians(-95.0), THUMB, (0.027, 0.043)),
}
HOME = ((0.47, 0.6, 1.4, 1.0), (0.0, 0.0, 1.2, 1.3), (-0.47, 0.9, 1.3, 0.9), (0.4, 1.85, 1.3, 0.8))
"""Initial joint angles: index, middle and ring finger, thumb [rad]."""


def build(name: str) -> mujoco.MjSpec:
    """The hand with an object."""
    spec = scene(name)
    palm = spec.body("palm")
    for finger, (pos, heading, links, tip) in _FINGERS.items():
        frame = palm.add_frame(pos=pos)
        frame.alt.type, frame.alt.euler = mujoco.mjtOrientation.mjORIENTATION_EULER, [0, 0, look.rounded(heading, 6)]
        fingers.attach(spec, frame, finger, links)
        _set_tip(spec, finger, *tip)
    for body in spec.bodies:
        if body.name.startswith(tuple(f"{finger}_" for finger in _FINGERS)):
            body.gravcomp = 1.0
    # Links touch only the object; pairs let fingertips touch one another and the palm, and slide there.
    for one, other in itertools.combinations(("palm", *(f"{finger}_tip" for finger in _FINGERS)), 2):
        spec.add_pair(geomname1=one, geomname2=other, condim=3, friction=[SLIP, SLIP, 0.005, 0.0001, 0.0001])
    home = look.numbers([*np.ravel(HOME), *CENTER, PALM + THINGS[name].height, 1.0, 0.0, 0.0, 0.0])
    spec.add_key(name="home", qpos=home, ctrl=home[:-7])
    return spec


def _set_tip(spec: mujoco.MjSpec, finger: str, start: float, end: float) -> None:
    """Make the fingertip a capsule from `start` to `end` along the last link [m], that touches only the object."""
    tip, site = spec.geom(f"{finger}_tip"), spec.site(f"{finger}_tip")
    tip.type, tip.size, tip.mass = mujoco.mjtGeom.mjGEOM_CAPSULE, [_TIP_RADIUS, 0.0, 0.0], _TIP_MASS
    tip.pos, tip.fromto = [0.0, 0.0, 0.0], [start, 0.0, 0.0, end, 0.0, 0.0]
    tip.contype, tip.conaffinity, tip.material = 1, 0, "cream"
    site.pos, site.size[0] = [end, 0.0, 0.0], 0.002


def scene(name: str) -> mujoco.MjSpec:
    """The palm on its stand, with an object on it and a goal; no fingers."""
    thing = THINGS[name]
    spec = mujoco.MjSpec.from_file(str(FILE))
    spec.modelname = f"allegro-{name}"
    objects.place(spec, thing, (*CENTER, PALM + thing.height))
    return spec


def sample(rng: np.random.Generator, mjm: mujoco.MjModel, name: str) -> tuple[Array, Goal]:
    """The object near the middle of the palm; the goal is a quarter turn away, left or right."""
    z = PALM + THINGS[name].height
    x, y = rng.normal(CENTER, NOISE)
    yaw = rng.uniform(-0.5 * math.pi, 0.5 * math.pi)
    start = np.array([*mjm.key_qpos[0][:-7], x, y, z, *quat_of(0.0, 0.0, yaw)])
    turn = 0.5 * math.pi * rng.choice([-1.0, 1.0])
    return start, pose_goal(np.array([*CENTER, z]), quat_of(0.0, 0.0, yaw + turn))


ALLEGRO = Task(
    name="allegro",
    summary="a four-fingered hand turns an object on its palm by a quarter turn",
    objects=OBJECTS,
    build=build,
    sample=sample,
    cost=(
        Reach(weight=1.0, sites=("index_tip", "middle_tip", "ring_tip", "thumb_tip")),
        Control(weight=0.1),
        Position(final=1000.0),
        Rotation(final=50.0),
    ),
    success=pose_success(position=math.inf, rotation=0.04),
    model=QuasiDynamic(step=0.1, rotation=0.1, joints=1.0, contact=1.0, friction=0.65, slots=20),
    bound=0.2,
    substeps=50,
    longest=500,
    failure=Below(OBJECT, 0.5 * PALM),
    planner="newton",
    uncertain=(OBJECT,),
    regrasp=Regrasp(),
)
