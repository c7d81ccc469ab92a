"""The robot `g1`, its variant with a box, and the G1 of MuJoCo Menagerie or of an unpacked wheel with our servos.

Our own G1 is in `g1.xml`: joint names, order, ranges, lengths, masses and torque limits are those of the Unitree G1,
rounded, so that motions for the G1 fit it. All of it touches the floor; bodies touch each other only on request.
"""

import itertools
import math
import os
from collections.abc import Sequence
from pathlib import Path

import mujoco
import numpy as np

from stickslip import mjcf, model_files
from stickslip.errors import SceneError
from stickslip.scenes import look

FILE = Path(__file__).with_name("g1.xml")
BASE = "floating_base_joint"
BOX = "box"
FEET = ("left_foot", "right_foot")
HANDS = ("left_hand", "right_hand")
HAND = 0.032
"""Radius of the sphere at the end of a hand, with its site in the middle [m]."""
STIFF_KP = 500.0
"""Stiffness of the stiff servos [N m/rad]."""
STIFF_ARMATURE = 1.0
"""Armature of their joints [kg m^2]."""
BOX_SIZE = (0.5, 0.5, 0.7)
"""Lengths of the box along x, y and z [m]."""
BOX_AT = (0.7, 0.0)
"""Initial place of the box on the floor [m]."""
_BOX_MASS = 5.0
_BOX_FRICTION = 0.3
"""Pushed higher than half its depth over this, the box would tip over before it slides."""
_ROOT = "MENAGERIE_ROOT"
_PLACES = (
    "unitree_g1/g1.xml",
    "mjlab/asset_zoo/robots/unitree_g1/xmls/g1.xml",
    "holosoma/data/robots/g1/g1_29dof.xml",
)
"""Where a checkout of Menagerie, the wheel mjlab and the wheel holosoma have their G1."""


def build(servo: str, self_collision: bool) -> mujoco.MjSpec:
    """Our own G1 on a floor; `servo` is "real" or "stiff"."""
    spec = mujoco.MjSpec.from_file(str(FILE))
    if servo == "stiff":
        stiffen(spec)
    if self_collision:
        _add_pairs(spec)
        look.set_buffers(spec, 96, 384)
    return spec


def build_with_box(servo: str, self_collision: bool, size: Sequence[float] = BOX_SIZE) -> mujoco.MjSpec:
    """Our own G1 with broad palms, in front of a box with lengths along x, y and z [m]."""
    spec = build(servo, self_collision)
    spec.modelname = "g1-box"
    for side in ("left", "right"):
        hand = spec.body(f"{side}_wrist_yaw_link")
        for i, across in enumerate((-0.03, 0.03)):
            hand.add_geom(
                name=f"{side}_palm_{i}",
                type=mujoco.mjtGeom.mjGEOM_CAPSULE,
                size=[0.016, 0.0, 0.0],
                fromto=[0.106, across, -0.03, 0.106, across, 0.03],
                mass=0.02,
                material="coral",
            )
    half = [0.5 * length for length in size]
    pos = [*BOX_AT, half[2]]
    box = spec.worldbody.add_body(name=BOX, pos=pos)
    box.add_freejoint(name=BOX)
    box.add_geom(
        name=BOX,
        type=mujoco.mjtGeom.mjGEOM_BOX,
        size=half,
        mass=_BOX_MASS,
        contype=1,
        conaffinity=1,
        priority=1,
        friction=[_BOX_FRICTION, 0.005, 0.0001],
        material="sand",
    )
    home = spec.key("home")
    home.qpos = [*home.qpos, *pos, 1.0, 0.0, 0.0, 0.0]
    look.set_buffers(spec, 96, 384)
    return spec


def stiffen(spec: mujoco.MjSpec) -> None:
    """Give every servo `STIFF_KP`, critical damping and no force limit, and its joint `STIFF_ARMATURE`."""
    for servo in spec.actuators:
        inherited = servo.inheritrange
        servo.set_to_position(kp=STIFF_KP, kv=2.0 * math.sqrt(STIFF_KP * STIFF_ARMATURE))
        servo.inheritrange = inherited  # which was reset
        servo.forcelimited = mujoco.mjtLimited.mjLIMITED_FALSE
        spec.joint(servo.target).armature = STIFF_ARMATURE


def _body_pairs() -> list[tuple[str, str]]:
    """Bodies that touch each other with self collision, by G1's names: hands, forearms and legs."""
    pairs = [(f"left_{link}", f"right_{link}") for link in ("hip_yaw_link", "knee_link", "ankle_roll_link")]
    pairs += [("left_wrist_yaw_link", "right_wrist_yaw_link")]
    for side, other in (("left", "right"), ("right", "left")):
        pairs += [(f"{side}_ankle_roll_link", f"{other}_knee_link")]
        pairs += [(f"{side}_wrist_yaw_link", f"{leg}_hip_yaw_link") for leg in ("left", "right")]
        pairs += [
            (f"{side}_{arm}", body) for arm in ("wrist_yaw_link", "elbow_link") for body in ("torso_link", "pelvis")
        ]
    return pairs


def _add_pairs(spec: mujoco.MjSpec) -> None:
    """Let the bodies of `_body_pairs` touch: every geom of one that touches the floor, and every one of the other."""
    touching = {body.name: [g for g in body.geoms if g.contype or g.conaffinity] for body in spec.bodies}
    for one, other in _body_pairs():
        for a, b in itertools.product(touching[one], touching[other]):
            spec.add_pair(geomname1=a.name, geomname2=b.name, condim=3, friction=[0.5, 0.5, 0.005, 0.0001, 0.0001])


def find() -> Path:
    """The file of a real G1: in the folder MENAGERIE_ROOT if that is set, or from the package mujoco-menagerie.

    Raises:
        SceneError: there is none in MENAGERIE_ROOT, or it cannot be downloaded
        MissingExtra: MENAGERIE_ROOT is not set and the package is not installed
    """
    root = os.environ.get(_ROOT)
    if not root:
        return mjcf.menagerie_file("unitree_g1/g1")
    found = [Path(root, place) for place in _PLACES if Path(root, place).is_file()]
    if not found:
        raise SceneError(
            f"{_ROOT}={root} has no G1: neither {', '.join(_PLACES[:-1])} nor {_PLACES[-1]}; set it to a checkout of "
            "mujoco_menagerie, or to a folder into which the wheel of mjlab or holosoma was unpacked"
        )
    return found[0]


def build_menagerie(servo: str, self_collision: bool) -> mujoco.MjSpec:
    """A real G1, found by `find`, with our floor, servos, sites and keyframe.

    Raises SceneError if it does not compile, or does not have the G1's bodies and joints.
    """
    path, ours = find(), build(servo, False)
    model_files.check(path, [path.parent.parent])
    try:
        spec = mujoco.MjSpec.from_file(str(path))
    except ValueError as error:
        raise mjcf.broken(str(path), error, path.read_text(encoding="utf-8", errors="replace")) from error
    _check(spec, ours, path)
    for old in (*spec.actuators, *spec.keys, *spec.sensors, *spec.pairs, *spec.excludes):
        spec.delete(old)
    _set_servos(spec, ours)
    _set_contact(spec)
    _add_sites(spec, ours)
    if self_collision:
        _add_pairs(spec)
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    try:
        _add_home(spec, ours)
    except ValueError as error:
        raise mjcf.broken(str(path), error, "") from error
    return spec


def _check(spec: mujoco.MjSpec, ours: mujoco.MjSpec, path: Path) -> None:
    """Raise SceneError unless a model has the bodies and hinges of ours, the hinges in the same order."""
    hinges = [j.name for j in spec.joints if j.type == mujoco.mjtJoint.mjJNT_HINGE]
    wanted = [servo.target for servo in ours.actuators]
    bodies = {body for pair in _body_pairs() for body in pair}
    missing = [f"joint {name}" for name in wanted if name not in hinges]
    missing += [f"body {name}" for name in sorted(bodies) if spec.body(name) is None]
    if missing:
        raise SceneError(
            f"{path} is no G1 with 29 joints: it lacks {', '.join(missing[:5])}"
            "; set MENAGERIE_ROOT to a checkout with that robot"
        )
    if hinges != wanted:
        wrong = next(i for i, name in enumerate(wanted) if i >= len(hinges) or hinges[i] != name)
        raise SceneError(
            f"{path} has {len(hinges)} hinges, the G1 {len(wanted)}; number {wrong + 1} must be {wanted[wrong]}: use "
            "the model with 29 joints and without fingers"
        )
    if not any(j.type == mujoco.mjtJoint.mjJNT_FREE for j in spec.joints):
        raise SceneError(f"{path}: the pelvis has no free joint; give it <freejoint name={BASE!r}/>")


def _set_servos(spec: mujoco.MjSpec, ours: mujoco.MjSpec) -> None:
    """Copy our servos and armatures by the names of joints; name the free joint as ours."""
    next(j for j in spec.joints if j.type == mujoco.mjtJoint.mjJNT_FREE).name = BASE
    for servo in ours.actuators:
        mine, joint = ours.joint(servo.target), spec.joint(servo.target)
        joint.armature, joint.damping[0], joint.frictionloss = mine.armature, 0.0, 0.0
        added = spec.add_actuator(
            name=servo.name,
            target=servo.target,
            trntype=mujoco.mjtTrn.mjTRN_JOINT,
            forcelimited=servo.forcelimited,
            forcerange=servo.forcerange,
        )
        added.set_to_position(kp=servo.gainprm[0], kv=-servo.biasprm[2], inheritrange=1.0)


def _set_contact(spec: mujoco.MjSpec) -> None:
    """Let what collides touch a floor, and nothing else; add the floor where there is none."""
    floors = {geom.name for geom in spec.worldbody.geoms if geom.type == mujoco.mjtGeom.mjGEOM_PLANE}
    for number, geom in enumerate(spec.geoms):
        if geom.name not in floors and (geom.contype or geom.conaffinity):
            geom.name = geom.name or f"touching_{number}"
            geom.contype, geom.conaffinity, geom.condim = 0, 1, 3
    if not floors:
        spec.worldbody.add_geom(
            name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0.0, 0.0, 0.5], contype=1, conaffinity=0
        )
        spec.worldbody.add_light(pos=[0.0, 0.0, 4.0], dir=[0.0, 0.0, -1.0])


def _add_sites(spec: mujoco.MjSpec, ours: mujoco.MjSpec) -> None:
    for name in (*FEET, *HANDS):
        mine, old = ours.site(name), spec.site(name)
        if old is not None:
            spec.delete(old)
        spec.body(mine.parent.name).add_site(name=name, pos=mine.pos, group=4)


def _add_home(spec: mujoco.MjSpec, ours: mujoco.MjSpec) -> None:
    """Add our keyframe, with the lowest geom on the floor."""
    home = np.array(ours.key("home").qpos)
    mjm = spec.compile()
    mjd = mujoco.MjData(mjm)
    mjd.qpos[:] = home
    mujoco.mj_forward(mjm, mjd)
    floor = int(np.flatnonzero(mjm.geom_type == mujoco.mjtGeom.mjGEOM_PLANE)[0])
    touching = np.flatnonzero(mjm.geom_conaffinity * (np.arange(mjm.ngeom) != floor))
    home[2] -= min(mujoco.mj_geomDistance(mjm, mjd, floor, int(geom), 10.0, None) for geom in touching)
    spec.add_key(name="home", qpos=home, ctrl=home[7:])
