"""Robots that a motion can be retargeted to: a MuJoCo model with position servos, and the names that matter."""

import dataclasses
import functools
import math
import os
from collections.abc import Callable
from pathlib import Path

import mujoco

from stickslip import mjcf, model_files
from stickslip.errors import InputError, unknown
from stickslip.mpc.retarget import g1
from stickslip.mpc.retarget.self_collision import set_self_collision
from stickslip.mpc.servos import is_servo
from stickslip.mpc.tasks import leap
from stickslip.parameters import checked, parameter

SERVOS = ("real", "stiff")
"""Servos of our own robots: with the robot's armatures and torque limits, or as in SPIDER, stiff and without limits."""


@checked
@dataclasses.dataclass(frozen=True)
class Options:
    """Options of a robot."""

    servo: str = parameter("real", "servos: of the robot, or stiff and without torque limits", choices=SERVOS)
    self_collision: bool | None = parameter(
        None, "bodies of the robot touch each other; none: as its model has it, which for g1 is not", kind=bool
    )
    box: tuple[float, ...] = parameter(g1.BOX_SIZE, "lengths of the box of g1-box along x, y and z [m]", 0.01, 10.0)


@dataclasses.dataclass(frozen=True)
class Robot:
    """A robot.

    Attributes:
        name: name on the command line
        summary: one line
        build: returns its scene, with a floor and position servos, given the options
        base: name of the free joint of its base; empty: it is fixed
        object: name of the free body that it manipulates; empty: none
        feet: sites whose slide over the floor is reported
        contacts: sites that a motion may ask to touch something
    """

    name: str
    summary: str
    build: Callable[[Options], mujoco.MjSpec]
    base: str = ""
    object: str = ""
    feet: tuple[str, ...] = ()
    contacts: tuple[str, ...] = ()


def _g1(name: str, summary: str, build: Callable[[Options], mujoco.MjSpec], thing: str = "") -> Robot:
    return Robot(
        name=name,
        summary=summary,
        build=build,
        base=g1.BASE,
        object=thing,
        feet=g1.FEET,
        contacts=(*g1.FEET, *g1.HANDS),
    )


def _bare(options: Options) -> mujoco.MjSpec:
    _check_box(options, "g1")
    return g1.build(options.servo, bool(options.self_collision))


def _with_box(options: Options) -> mujoco.MjSpec:
    if len(options.box) != 3:
        raise InputError(f"box is {options.box}: a box has three lengths, along x, y and z; give three")
    return g1.build_with_box(options.servo, bool(options.self_collision), options.box)


def _menagerie(options: Options) -> mujoco.MjSpec:
    _check_box(options, "g1-menagerie")
    return g1.build_menagerie(options.servo, bool(options.self_collision))


def _check_box(options: Options, robot: str) -> None:
    if tuple(options.box) != g1.BOX_SIZE:
        raise InputError(f"box is {options.box}: the robot {robot} has none; choose g1-box, or leave it out")


def _leap(options: Options) -> mujoco.MjSpec:
    """The hand with its cube in the palm; its goal is not shown."""
    _check_box(options, "leap")
    if options.servo != "real":
        raise InputError(f"servo={options.servo!r}: the robot leap has servos of one kind; leave it at 'real'")
    spec = leap.build("cube")
    spec.delete(spec.body("goal"))
    mjm, (_, quat) = spec.compile(), leap.palm_frame()
    spec.key("home").qpos = [*mjm.key_qpos[0][:-7], *leap.place(mjm, quat), *quat]
    set_self_collision(spec, "object", options.self_collision, "leap")
    return spec


ROBOTS: dict[str, Robot] = {
    robot.name: robot
    for robot in (
        _g1("g1", "a humanoid with the joints, lengths and masses of the Unitree G1, of capsules and spheres", _bare),
        _g1("g1-box", "g1 with broad palms, in front of a box of 5 kg", _with_box, g1.BOX),
        _g1("g1-menagerie", "the Unitree G1 of MuJoCo Menagerie, with the servos of g1", _menagerie),
        Robot(
            name="leap",
            summary="a hand like the LEAP hand, palm up, with a cube",
            build=_leap,
            object="object",
            contacts=tuple(f"{finger}_tip" for finger in leap.FINGERS),
        ),
    )
}


def find(name: str) -> Robot:
    """The robot of that name, or the one in a model file; raises InputError or SceneError if there is none."""
    if name in ROBOTS:
        return ROBOTS[name]
    if name.lower().endswith(".xml"):
        return from_file(name)
    raise unknown("robot", name, (*ROBOTS, "FILE.xml"))


def from_file(
    path: str | os.PathLike[str],
    *,
    base: str | None = None,
    thing: str | None = None,
    feet: tuple[str, ...] = (),
    contacts: tuple[str, ...] = (),
) -> Robot:
    """The robot of an MJCF file with position servos. Its integrator and time step are kept.

    So are its collisions; `self_collision=False` takes those between its bodies out, and True refuses a model without.
    With `servo=real` its own servos are kept; `servo=stiff` puts stiff ones in the place of its actuators, one for each
    hinge and slide of the robot. A plane is added if it has a free base and none.

    Args:
        path: the file
        base: name of the free joint of its base; None: the free joint of a body that hinges or slides hang on
        thing: name of the free body that it manipulates; None: the one without hinges, if there is one
        feet: sites whose slide over the floor is reported
        contacts: sites that a motion may ask to touch something; default: the feet

    Raises:
        SceneError: there is no such file, or it does not compile
        InputError: an actuator is no position servo, or has no limits; a name that is not there
    """
    path = Path(path)
    mjm = _compiled(_read(path), path)
    free = [j for j in range(mjm.njnt) if mjm.jnt_type[j] == mujoco.mjtJoint.mjJNT_FREE]
    bases = [mjm.joint(j).name for j in free if _moved(mjm, j)]
    things = [mjm.body(int(mjm.jnt_bodyid[j])).name for j in free if not _moved(mjm, j)]
    for what, name, names in (("free joint of a base", base, bases), ("free body without joints", thing, things)):
        if name and name not in names:
            raise unknown(f"{what} in {path}", name, names)
    if base is None and len(bases) > 1:
        raise InputError(f"{path} has {len(bases)} free joints with hinges or slides: {', '.join(bases)}; give `base`")
    if thing is None and len(things) > 1:
        raise InputError(f"{path} has {len(things)} free bodies: {', '.join(things)}; give `thing`")
    sites = [mjm.site(i).name for i in range(mjm.nsite)]
    for site in (*feet, *contacts):
        if site not in sites:
            raise unknown(f"site in {path}", site, sites)
    return Robot(
        name=path.stem,
        summary=f"the robot in {path}",
        build=functools.partial(_from_file, path, next(iter(things), "") if thing is None else thing),
        base=next(iter(bases), "") if base is None else base,
        object=next(iter(things), "") if thing is None else thing,
        feet=feet,
        contacts=contacts or feet,
    )


def _read(path: Path) -> mujoco.MjSpec:
    """The spec of a file, in which free joints have names."""
    mjcf.check(os.fspath(path) if path.suffix else f"{path}/")
    if path.suffix.lower() != ".mjb":
        model_files.check(path)
    try:
        spec = mujoco.MjSpec.from_file(str(path))
    except ValueError as error:
        raise mjcf.broken(str(path), error, path.read_text(encoding="utf-8", errors="replace")) from error
    for joint in spec.joints:
        if joint.type == mujoco.mjtJoint.mjJNT_FREE and not joint.name:
            joint.name = f"{joint.parent.name}_free"
    return spec


def _compiled(spec: mujoco.MjSpec, path: Path) -> mujoco.MjModel:
    try:
        return spec.compile()
    except ValueError as error:
        raise mjcf.broken(str(path), error, path.read_text(encoding="utf-8", errors="replace")) from error


def _moved(mjm: mujoco.MjModel, joint: int) -> bool:
    """Whether hinges or slides hang on the body of a free joint."""
    tree = mjm.dof_treeid[mjm.jnt_dofadr[joint]]
    return int((mjm.dof_treeid == tree).sum()) > 6


def _from_file(path: Path, thing: str, options: Options) -> mujoco.MjSpec:
    _check_box(options, path.stem)
    spec = _read(path)
    if options.servo == "stiff":
        _replace_servos(spec, _compiled(spec, path))
    mjm = _compiled(spec, path)
    _check_servos(mjm, path)
    free = (mjm.jnt_type == mujoco.mjtJoint.mjJNT_FREE).any()
    if free and not any(geom.type == mujoco.mjtGeom.mjGEOM_PLANE for geom in spec.worldbody.geoms):
        spec.worldbody.add_geom(
            name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0.0, 0.0, 0.5], contype=1, conaffinity=1
        )
    set_self_collision(spec, thing, options.self_collision, path.stem)
    return spec


def _replace_servos(spec: mujoco.MjSpec, mjm: mujoco.MjModel) -> None:
    """Put stiff servos in the place of all actuators."""
    scalar = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)
    for old in list(spec.actuators):
        spec.delete(old)
    for key in spec.keys:
        key.ctrl = []
    for joint in spec.joints:
        if joint.type in scalar:
            limited = bool(mjm.joint(joint.name).id >= 0 and mjm.jnt_limited[mjm.joint(joint.name).id])
            servo = spec.add_actuator(name=joint.name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
            servo.ctrllimited = mujoco.mjtLimited.mjLIMITED_TRUE
            servo.ctrlrange = mjm.joint(joint.name).range if limited else [-math.pi, math.pi]
    g1.stiffen(spec)


def _check_servos(mjm: mujoco.MjModel, path: Path, most: int = 5) -> None:
    """Raise InputError for actuators that are no position servos, have no limits, or share a joint."""
    wrong, of = [], {}
    for i in range(mjm.nu):
        name = repr(mjm.actuator(i).name or f"number {i}")
        joint = int(mjm.actuator_trnid[i, 0])
        if not is_servo(mjm, i):
            wrong.append(f"{name} is no position servo of a hinge or slide; use <position>, or servo=stiff")
        elif not mjm.actuator_ctrllimited[i]:
            wrong.append(f"{name} has no limits; set its ctrlrange, or inheritrange=1")
        elif joint in of:
            wrong.append(f"{name} moves the joint {mjm.joint(joint).name!r} that {of[joint]} moves; keep one of them")
        else:
            of[joint] = name
    if not mjm.nu:
        wrong.append("there are none; add <position>, or use servo=stiff")
    if wrong:
        more = f"; and {len(wrong) - most} more" if len(wrong) > most else ""
        raise InputError(
            f"{path}: actuators that retargeting cannot use: {'; '.join(wrong[:most])}{more}"
            "; remove them from the model, or make them servos"
        )
