"""The tasks of the Allegro-like and the LEAP-like hand with the real hands of MuJoCo Menagerie.

Links, joints, masses and shapes are Menagerie's. The hand lies palm up in the place of ours. Objects, initial states,
goals, options, contact, cost and success criterion are those of the tasks with our own hands, and so are the servos of
the Allegro hand, so planners work unchanged. Nothing is read or downloaded before a scene is built. A scene refers to
files by absolute paths, so that it can be compiled from any folder.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np

from stickslip import mjcf, model_files
from stickslip.errors import SceneError
from stickslip.mpc.success import OBJECT, Array
from stickslip.mpc.task import Task
from stickslip.mpc.tasks import allegro, leap
from stickslip.scenes import look

EXTRA = "menagerie"
"""Extra of stickslip to install for these tasks; also the suffix of their names."""
PALM = "palm"
"""Name of the palm's body, in the tasks and in Menagerie's hands."""
STAND = "stand"
"""Name of the geom below the palm, in the task's body of that name."""
PREFIX = "hand/"
"""Prefix of the names of everything in a scene that comes from Menagerie."""
_FILE = "right_hand"
_UNSEEN = 3
"""A geom group that is not rendered."""


@dataclasses.dataclass(frozen=True)
class Servo:
    """A position servo: its stiffness [N m/rad], and damping [N m s/rad] and armature [kg m^2] of its joint."""

    kp: float
    damping: float
    armature: float


@dataclasses.dataclass(frozen=True)
class Hand:
    """A right hand of Menagerie, and how it is used.

    Attributes:
        robot: its name in Menagerie
        commit: the commit of Menagerie that this was written for
        scene: the task's scene with an object, with a palm but no fingers
        buffers: contacts and constraint rows to allocate per world of a plan; an estimate if None
        joints: names of its hinges, in order
        tips: body of each fingertip and the tip's position in its frame [m], by the name of its site
        face: point of the palm's face to put at the origin of the task's palm, in the hand's palm frame [m]
        quat: orientation of its palm in the task's, where z is up and x points to the fingers
        home: initial joint angles [rad]
        palm_friction: friction of its palm; all other friction is the task's
        slip: friction of fingertips on one another and on the palm
        servo: of every joint; Menagerie's own if None
        gravcomp: gravity compensation of its bodies, 0 to 1
    """

    robot: str
    commit: str
    scene: Callable[[str], mujoco.MjSpec]
    buffers: tuple[int, int] | None
    joints: tuple[str, ...]
    tips: dict[str, tuple[str, tuple[float, float, float]]]
    face: tuple[float, float, float]
    quat: tuple[float, float, float, float]
    home: tuple[float, ...]
    palm_friction: float
    slip: float
    servo: Servo | None
    gravcomp: float


ALLEGRO_HAND = Hand(
    robot="wonik_allegro",
    commit="28ffb48b5c1d409a37fbfbb01c023c12e61cdefd",
    scene=allegro.scene,
    buffers=None,
    joints=tuple(f"{finger}j{i}" for finger in ("ff", "mf", "rf", "th") for i in range(4)),
    tips={
        "index_tip": ("ff_tip", (0.0, 0.0, 0.029)),
        "middle_tip": ("mf_tip", (0.0, 0.0, 0.029)),
        "ring_tip": ("rf_tip", (0.0, 0.0, 0.029)),
        "thumb_tip": ("th_tip", (0.0, 0.0, 0.043)),
    },
    face=(0.0111, 0.0, -0.0475),
    quat=(0.0, 0.5**0.5, 0.0, 0.5**0.5),
    home=(0.3, 0.6, 1.4, 1.0) + (0.0, 0.0, 1.2, 1.3) + (-0.4, 0.9, 1.3, 0.9) + (0.3, 1.1, 0.6, 1.6),
    palm_friction=0.5,
    slip=allegro.SLIP,
    servo=Servo(kp=1.0, damping=0.1, armature=0.0002),
    gravcomp=1.0,
)
"""Its thumb twists less far than ours and cannot get behind the object, so it starts beside it. The servos are ours,
since the planning model relies on them: Menagerie's are the same in one of its versions and ten times as stiff in
another."""

LEAP_HAND = Hand(
    robot="leap_hand",
    commit="4035abd3637b5a3cdf038bc1b128852d96a1d19f",
    scene=leap.scene,
    buffers=(64, 320),
    joints=(
        *(f"{finger}_{joint}" for finger in ("if", "mf", "rf") for joint in ("mcp", "rot", "pip", "dip")),
        *(f"th_{joint}" for joint in ("cmc", "axl", "mcp", "ipl")),
    ),
    tips={
        "index_tip": ("if_ds", (0.0, -0.040, 0.0145)),
        "middle_tip": ("mf_ds", (0.0, -0.040, 0.0145)),
        "ring_tip": ("rf_ds", (0.0, -0.040, 0.0145)),
        "thumb_tip": ("th_ds", (0.0, -0.052, -0.0145)),
    },
    face=(-0.062, -0.042, -0.0345),
    quat=(0.0, 1.0, 0.0, 0.0),
    home=(0.85, 0.0, 1.0, 0.85) * 3 + (0.0, 1.9, 1.6, 0.75),
    palm_friction=1.0,
    slip=1.0,
    servo=None,
    gravcomp=0.0,
)
"""The object lies in the middle of the flat part of the palm, which ends before the fingers begin: nearer to them it
would tip over that edge. Boxes and meshes have more contacts than our capsules, hence the larger buffers."""


def build(hand: Hand, name: str) -> mujoco.MjSpec:
    """A hand with an object.

    Raises:
        MissingExtra: the package mujoco-menagerie is not installed
        SceneError: the hand is missing, cannot be downloaded, does not compile, or is not the one this was written for
    """
    path = mjcf.menagerie_file(f"{hand.robot}/{_FILE}")
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    spec = hand.scene(name)
    for geom in spec.body(PALM).geoms:
        if geom.name != STAND:
            spec.delete(geom)
    if hand.buffers is not None:
        look.set_buffers(spec, *hand.buffers)
    if path.is_file():
        model_files.check(path, [path.parent.parent])
    try:
        own = mujoco.MjSpec.from_file(str(path))
    except ValueError as error:
        raise mjcf.broken(str(path), error, text) from error
    _check(hand, own, path)
    _name_files(own, path.parent)
    for sensor in list(own.sensors):
        own.delete(sensor)
    palm = own.body(PALM)
    palm.alt.type = mujoco.mjtOrientation.mjORIENTATION_QUAT  # otherwise euler angles and the like override quat
    palm.quat, palm.pos = hand.quat, -_rotated(hand.face, hand.quat)
    own.option = spec.option  # otherwise MuJoCo warns that it keeps the scene's
    spec.attach(own, frame=spec.body(PALM).add_frame(), prefix=PREFIX)
    _add_tips(hand, spec)
    _set_contact(hand, spec)
    _set_servos(hand, spec)
    thing = spec.body(OBJECT)
    spec.add_key(name="home", qpos=[*hand.home, *thing.pos, *thing.quat], ctrl=hand.home)
    try:
        spec.compile()
    except ValueError as error:
        raise mjcf.broken(str(path), error, text) from error
    scene = spec.to_xml()  # six digits: stored trials of these tasks were made with such models
    try:
        return mujoco.MjSpec.from_string(scene)
    except ValueError as error:
        raise mjcf.broken(f"scene made from {path}", error, scene) from error


def _name_files(own: mujoco.MjSpec, folder: Path) -> None:
    """Make the file names of a hand absolute paths."""

    def full(where: str, file: str) -> str:
        return str((folder / where / file).resolve()) if file else ""

    shapes, pictures = own.compiler.meshdir, own.compiler.texturedir
    for asset in (*own.meshes, *own.hfields, *own.skins):
        asset.file = full(shapes, asset.file)
    for texture in own.textures:
        texture.file = full(pictures, texture.file)
        texture.cubefiles = [full(pictures, file) for file in texture.cubefiles]


def _check(hand: Hand, own: mujoco.MjSpec, path: object) -> None:
    """Raise SceneError unless the hand has the expected bodies, joints and servos, in this order."""
    bodies = (PALM, *(body for body, _ in hand.tips.values()))
    joints = [joint.name for joint in own.joints]
    servos = [actuator.target for actuator in own.actuators if _is_servo(actuator)]
    palm = own.body(PALM)
    wrong = [f"no body {body!r}" for body in bodies if own.body(body) is None]
    wrong += [f"no joint {joint!r}" for joint in hand.joints if joint not in joints]
    wrong += [f"no position servo of {joint!r}" for joint in hand.joints if joint not in servos]
    if palm is not None and (palm.parent != own.worldbody or palm.frame is not None):
        wrong.append(f"a body {PALM!r} inside another body or a frame, which must be in the world itself")
    if not wrong:
        for what, names in (("joints", joints), ("servos, of the joints", servos)):
            if tuple(names) != hand.joints:
                wrong.append(f"{what} {', '.join(names)}, which must be {', '.join(hand.joints)}")
    if wrong:
        raise SceneError(
            f"{path} has {'; '.join(wrong)}. stickslip expects this hand of MuJoCo Menagerie as of commit "
            f"{hand.commit[:12]}: set MENAGERIE_ROOT to a checkout with that hand, or unset it to download one"
        )


def _is_servo(actuator: mujoco.MjsActuator) -> bool:
    """Whether it is a position servo of a joint: kp (ctrl - angle)."""
    return bool(
        actuator.trntype == mujoco.mjtTrn.mjTRN_JOINT
        and actuator.dyntype != mujoco.mjtDyn.mjDYN_INTEGRATOR
        and actuator.gaintype == mujoco.mjtGain.mjGAIN_FIXED
        and actuator.biastype == mujoco.mjtBias.mjBIAS_AFFINE
        and actuator.biasprm[1] == -actuator.gainprm[0] != 0.0
    )


def _add_tips(hand: Hand, spec: mujoco.MjSpec) -> None:
    for site, (body, pos) in hand.tips.items():
        spec.body(PREFIX + body).add_site(name=site, pos=pos, size=[0.002] * 3, group=4)


def _set_contact(hand: Hand, spec: mujoco.MjSpec) -> None:
    """Links touch only the object; pairs let fingertips touch one another and the palm, with the task's parameters."""
    ours = spec.default.geom
    tips = {PREFIX + body for body, _ in hand.tips.values()}
    meeting: dict[str, list[str]] = {}
    for body in spec.bodies:
        if not body.name.startswith(PREFIX):
            continue
        body.gravcomp = hand.gravcomp
        palm = body.name == PREFIX + PALM
        touching = [geom for geom in body.geoms if geom.contype or geom.conaffinity]
        for geom in touching:
            if geom.type != mujoco.mjtGeom.mjGEOM_MESH and len(touching) < len(body.geoms):
                geom.group = _UNSEEN  # another geom shows the link
            geom.contype, geom.conaffinity, geom.condim = 1, 0, ours.condim
            geom.friction, geom.solref, geom.solimp = ours.friction, ours.solref, ours.solimp
            if palm:
                geom.friction[0] = hand.palm_friction
            if palm or body.name in tips:
                there = meeting.setdefault(body.name, [])
                geom.name = geom.name or f"{body.name}_{len(there)}"
                there.append(geom.name)
    for one, other in itertools.combinations(meeting.values(), 2):
        for a, b in itertools.product(one, other):
            spec.add_pair(geomname1=a, geomname2=b, condim=3, friction=[hand.slip, hand.slip, 0.005, 0.0001, 0.0001])


def _set_servos(hand: Hand, spec: mujoco.MjSpec) -> None:
    if hand.servo is None:
        return
    for joint, actuator in zip(hand.joints, spec.actuators, strict=True):
        actuator.set_to_position(kp=hand.servo.kp, kv=0.0)
        moved = spec.joint(PREFIX + joint)
        moved.damping[0], moved.armature = hand.servo.damping, hand.servo.armature


def _rotated(vector: tuple[float, float, float], quat: tuple[float, float, float, float]) -> Array:
    out = np.empty(3)
    mujoco.mju_rotVecQuat(out, np.array(vector), np.array(quat))
    return out


def _task(task: Task, hand: Hand, whose: str) -> Task:
    return dataclasses.replace(
        task,
        name=f"{task.name}-{EXTRA}",
        summary=f"{task.name} with {whose} of MuJoCo Menagerie",
        build=functools.partial(build, hand),
        extra=EXTRA,
    )


ALLEGRO = _task(allegro.ALLEGRO, ALLEGRO_HAND, "the Allegro hand")
YAW = _task(leap.YAW, LEAP_HAND, "the LEAP hand")
ROLL = _task(leap.ROLL, LEAP_HAND, "the LEAP hand")
