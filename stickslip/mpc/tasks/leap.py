"""A hand like the LEAP hand, palm up, and an object that lies in it, to be turned about the vertical or tipped over.

Three fingers and a thumb of four hinges each, with rounded lengths, ranges and servo gains of the LEAP hand. All
colliding geoms of the hand are capsules, the palm's too: their contacts with a box, a sphere or each other have closed
forms, those of two boxes do not. Links and palm touch the object; the last link of each finger also touches those of
the others and the palm. The floor is visual only: an object that comes near it has fallen, which ends a trial. Contacts
have no torsional friction: with it a cube at rest on the tilted palm creeps farther under ComFree.
"""

import math
import pathlib

import mujoco
import numpy as np

from stickslip.mpc.cost import Cost, Distance, Fallen, Outside, Position, Posture, Reach, Rotation
from stickslip.mpc.success import OBJECT, Array, Below, Goal, pose_goal, pose_success
from stickslip.mpc.task import QuasiDynamic, Sampling, Task
from stickslip.mpc.tasks import objects
from stickslip.scenes import finger as fingers
from stickslip.scenes import look
from stickslip.scenes.finger import Link

FILE = pathlib.Path(__file__).with_suffix(".xml")
TILT = math.radians(28.0)
"""Inclination of the palm, down towards the fingers [rad]."""
HEIGHT = 0.16
"""Height of the middle of the palm's top face above the floor [m]."""
CENTRE = (0.0, 0.0)
"""Target position of the object in the palm's frame: towards the fingers, and across [m]."""
FALLEN = 0.05
"""Height of the object's center below which it has fallen [m]."""
OBJECTS = ("cube", "tin", "cylinder", "duck")
FINGERS = ("index", "middle", "ring", "thumb")

_SIZES = {"cube": 1.0, "tin": 1.0, "cylinder": 0.95, "duck": 1.0}
_MASS = 0.04
_ABOVE = (0.0, 0.0, HEIGHT + 0.05)
"""Position of the object in the model [m]; trials start elsewhere."""

# Where each finger starts on the palm [m] and its heading about z [rad].
_BASES = {
    "index": ((0.052, 0.045, -0.010), 0.0),
    "middle": ((0.052, 0.0, -0.010), 0.0),
    "ring": ((0.052, -0.045, -0.010), 0.0),
    "thumb": ((-0.052, 0.0, -0.010), math.pi),
}
FINGER = (
    Link("knuckle", (-0.3, 2.2), 0.012, (0, 0.008, 0), 0.02, start=(0, -0.008, 0)),
    Link("proximal", (-1.0, 1.0), 0.011, (0.054, 0, 0), 0.03, axis=(0, 0, 1), start=(0.012, 0, 0)),
    Link("middle", (-0.5, 1.9), 0.0105, (0.036, 0, 0), 0.03, pos=(0.054, 0, 0)),
    Link("last", (-0.35, 2.0), 0.0115, (0.034, 0, 0), 0.02, pos=(0.036, 0, 0), start=(0.012, 0, 0)),
)
"""It reaches along its x axis and curls up towards z."""
HOME = {
    "index": (0.95, 0.0, 1.0, 0.9),
    "middle": (0.95, 0.0, 1.0, 0.9),
    "ring": (0.95, 0.0, 1.0, 0.9),
    "thumb": (0.95, 0.0, 1.0, 0.9),
}
"""Initial joint angles [rad]."""


def thing(name: str) -> objects.Thing:
    """The object in a size and with a mass for this hand."""
    scaled = objects.THINGS[name].scaled(_SIZES[name])
    return objects.Thing(scaled.height, scaled.parts, _MASS)


def palm_frame() -> tuple[Array, Array]:
    """Position of the middle of the palm's top face [m] and orientation of the palm, a quaternion."""
    return np.array([0.0, 0.0, HEIGHT]), np.array([math.cos(0.5 * TILT), 0.0, math.sin(0.5 * TILT), 0.0])


def place(mjm: mujoco.MjModel, quat: Array, along: float = 0.0, across: float = 0.0) -> Array:
    """Position of the object lying on the palm, with orientation `quat` and an offset from `CENTRE` [m]."""
    pos, palm = palm_frame()
    normal, seen = _rotated(np.array([0.0, 0.0, 1.0]), palm), np.empty(3)
    mujoco.mju_rotVecQuat(seen, normal, quat * np.array([1.0, -1.0, -1.0, -1.0]))
    geoms = np.flatnonzero(mjm.geom_bodyid == mjm.body(OBJECT).id)
    height = max(_depth(mjm, int(geom), seen) for geom in geoms)
    return pos + _rotated(np.array([CENTRE[0] + along, CENTRE[1] + across, height]), palm)


def _depth(mjm: mujoco.MjModel, geom: int, up: Array) -> float:
    """Extent of a geom below the center of its body [m]; `up` is in the body's frame."""
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


def build(name: str) -> mujoco.MjSpec:
    """The hand with an object."""
    spec = scene(name)
    palm = spec.body("palm")
    for finger, (pos, heading) in _BASES.items():
        quat = look.numbers((math.cos(0.5 * heading), 0.0, 0.0, math.sin(0.5 * heading)))
        fingers.attach(spec, palm.add_frame(pos=pos, quat=quat), finger, FINGER)
        _set_contact(spec, finger)
        for i, link in enumerate(FINGER):
            spec.actuator(f"{finger}_{i}").ctrlrange = link.range
    home = look.numbers([*(q for finger in FINGERS for q in HOME[finger]), *_ABOVE, *palm_frame()[1]])
    spec.add_key(name="home", qpos=home, ctrl=home[:-7])
    return spec


def _set_contact(spec: mujoco.MjSpec, finger: str) -> None:
    """The knuckle touches nothing, the last link also those of the other fingers and the palm; it has no extra tip."""
    spec.geom(f"{finger}_knuckle").contype = 0
    last, site = spec.geom(f"{finger}_last"), spec.site(f"{finger}_tip")
    last.contype, last.conaffinity, last.material = 5, 4, "coral"
    site.pos, site.size[0] = [0.036, 0.0, 0.0], 0.003
    spec.delete(spec.geom(f"{finger}_tip"))


def scene(name: str) -> mujoco.MjSpec:
    """The palm with an object above it and a goal; no fingers."""
    spec = mujoco.MjSpec.from_file(str(FILE))
    spec.modelname = f"leap-{name}"
    objects.place(spec, thing(name), _ABOVE)
    return spec


def _turned(axis: tuple[float, float, float], angle: float, quat: Array) -> Array:
    """`quat` rotated by an angle [rad] about an axis of the palm."""
    turn, out = np.empty(4), np.empty(4)
    mujoco.mju_axisAngle2Quat(turn, _rotated(np.array(axis), palm_frame()[1]), angle)
    mujoco.mju_mulQuat(out, turn, quat)
    return out


def _start(rng: np.random.Generator, mjm: mujoco.MjModel) -> Array:
    """The hand at its home posture; the object on the palm, up to 5 mm and 0.1 rad off."""
    along, across = rng.uniform(-0.005, 0.005, 2)
    quat = _turned((0.0, 0.0, 1.0), rng.uniform(-0.1, 0.1), palm_frame()[1])
    return np.array([*mjm.key_qpos[0][:-7], *place(mjm, quat, along, across), *quat])


def sample_yaw(rng: np.random.Generator, mjm: mujoco.MjModel, name: str) -> tuple[Array, Goal]:
    """A quarter turn about the palm's normal, in either direction."""
    start = _start(rng, mjm)
    angle = rng.choice([-0.5, 0.5]) * math.pi
    quat = _turned((0.0, 0.0, 1.0), angle, start[-4:])
    return start, pose_goal(place(mjm, quat), quat)


def sample_roll(rng: np.random.Generator, mjm: mujoco.MjModel, name: str) -> tuple[Array, Goal]:
    """A quarter turn about an axis in the palm: roll (along the fingers) or pitch (across), in either direction."""
    start = _start(rng, mjm)
    axis = (1.0, 0.0, 0.0) if rng.random() < 0.5 else (0.0, 1.0, 0.0)
    angle = rng.choice([-0.5, 0.5]) * math.pi
    quat = _turned(axis, angle, start[-4:])
    return start, pose_goal(place(mjm, quat), quat)


_MODEL = QuasiDynamic(joints=3.0, mass=_MASS)


def _cost(distance: float, position: float, radius: float) -> Cost:
    """An object that is tipped over must leave its place for a while; one that is turned need not.

    Without `Outside` the cheapest way to turn an object is to throw it over the fingertips, where it has the right
    orientation, 30 to 70 mm from its goal, and fingers between it and the goal. No plan gets it back from there.
    """
    return (
        Rotation(weight=0.2, final=0.2),
        Distance(weight=distance),
        Outside(weight=5.0, radius=radius),
        Position(final=position),
        Reach(weight=0.2, sites=tuple(f"{finger}_tip" for finger in FINGERS)),
        Posture(weight=0.001),
        Fallen(weight=0.2, height=FALLEN),
    )


def _task(name: str, summary: str, sample, cost: Cost) -> Task:
    return Task(
        name=name,
        summary=summary,
        objects=OBJECTS,
        build=build,
        sample=sample,
        cost=cost,
        success=pose_success(position=0.02, rotation=0.04),
        model=_MODEL,
        bound=0.1,
        substeps=12,
        longest=1500,
        failure=Below(OBJECT, FALLEN),
        sampling=Sampling(dt=0.024, horizon=12, std=0.05),
        uncertain=(OBJECT,),
    )


YAW = _task(
    "leap-yaw",
    "a hand turns an object on its palm by a quarter turn about the palm's normal",
    sample_yaw,
    _cost(0.8, 10.0, 0.02),
)
ROLL = _task(
    "leap-roll",
    "a hand tips an object on its palm over by a quarter turn",
    sample_roll,
    _cost(0.4, 4.0, 0.03),
)
