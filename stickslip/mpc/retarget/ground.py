"""Height of a motion over the floor: how far the robot floats or sinks, and the shift that puts it on the floor."""

import dataclasses

import mujoco
import numpy as np

from stickslip.errors import InputError
from stickslip.mpc.retarget.motion import Array, Motion, qpos_of

FLOATS = 0.02
"""Height above or below the floor that is told [m]."""

_SHAPES = tuple(
    int(kind)
    for kind in (
        mujoco.mjtGeom.mjGEOM_SPHERE,
        mujoco.mjtGeom.mjGEOM_CAPSULE,
        mujoco.mjtGeom.mjGEOM_ELLIPSOID,
        mujoco.mjtGeom.mjGEOM_CYLINDER,
        mujoco.mjtGeom.mjGEOM_BOX,
        mujoco.mjtGeom.mjGEOM_MESH,
    )
)


def grounded(motion: Motion, mjm: mujoco.MjModel, base: str = "", *, objects: bool = False) -> Motion:
    """The motion, shifted vertically: the lowest point of the robot is at the floor in the median of the frames.

    Args:
        motion: a motion with a free base
        mjm: a model of the robot with the floor
        base: name of the free joint of the base; empty: the first free joint that is no object's
        objects: shift the objects as well, if the whole recording is off, and not the robot alone
    """
    height = floating(motion, mjm, base)
    assert motion.base is not None  # else floating has raised
    shift = np.array([0.0, 0.0, height, 0.0, 0.0, 0.0, 0.0])
    moved = {name: pose - shift for name, pose in motion.objects.items()} if objects else motion.objects
    note = f"shifted by {-100.0 * height:+.1f} cm onto the floor"
    return dataclasses.replace(motion, base=motion.base - shift, objects=moved, notes=(*motion.notes, note))


def floating(motion: Motion, mjm: mujoco.MjModel, base: str = "") -> float:
    """How far the robot floats over the floor, in the median of the frames [m]; negative: it sinks."""
    if motion.base is None:
        raise InputError(f"motion {motion.name!r} has no free base: it cannot float or sink")
    return float(np.median(lowest(motion, mjm, base)))


def lowest(motion: Motion, mjm: mujoco.MjModel, base: str = "") -> Array:
    """Height (T,) over the floor of the lowest point of the robot that can touch it [m]."""
    positions, floor = qpos_of(motion, mjm, base), floor_of(mjm)
    geoms = feelers(mjm, robot_bodies(motion, mjm, base), floor)
    if not geoms:
        raise InputError(f"motion {motion.name!r}: no geom of the robot can touch the floor; give it a colliding geom")
    data = mujoco.MjData(mjm)
    heights = np.empty(motion.frames)
    for frame, qpos in enumerate(positions):
        data.qpos[:] = qpos
        mujoco.mj_kinematics(mjm, data)
        under = 0.0 if floor is None else data.geom_xpos[floor, 2]
        heights[frame] = min(data.geom_xpos[g, 2] - reach(mjm, g, data.geom_xmat[g, 6:]) for g in geoms) - under
    return heights


def object_height(motion: Motion, mjm: mujoco.MjModel, thing: str, base: str = "") -> float:
    """Height over the floor of the lowest point of an object in the first frame [m]."""
    floor, mjd = floor_of(mjm), mujoco.MjData(mjm)
    mjd.qpos[:] = qpos_of(motion, mjm, base)[0]
    mujoco.mj_kinematics(mjm, mjd)
    free = [mjm.body(mjm.jnt_bodyid[j]) for j in np.flatnonzero(mjm.jnt_type == mujoco.mjtJoint.mjJNT_FREE)]
    body = next(b.id for b in free if thing in (b.name, mjm.joint(b.jntadr[0]).name))
    geoms = np.flatnonzero((mjm.geom_bodyid == body) & np.isin(mjm.geom_type, _SHAPES)).tolist()
    low = min((mjd.geom_xpos[g, 2] - reach(mjm, g, mjd.geom_xmat[g, 6:]) for g in geoms), default=mjd.xpos[body, 2])
    return float(low - (0.0 if floor is None else mjd.geom_xpos[floor, 2]))


def robot_bodies(motion: Motion, mjm: mujoco.MjModel, base: str = "") -> list[int]:
    """Bodies of the kinematic trees that the motion's base and joints move, objects left out."""
    free = [int(j) for j in np.flatnonzero(mjm.jnt_type == mujoco.mjtJoint.mjJNT_FREE)]
    own = [j for j in free if not {mjm.joint(j).name, mjm.body(mjm.jnt_bodyid[j]).name} & set(motion.objects)]
    first = [mjm.joint(base).id] if base else own[:1]
    names = [mujoco.mj_name2id(mjm, mujoco.mjtObj.mjOBJ_JOINT, name) for name in motion.joint_names]
    joints = [*(first if motion.base is not None else []), *(j for j in names if j >= 0)]
    roots = {int(mjm.body_rootid[mjm.jnt_bodyid[j]]) for j in joints}
    return [body for body in range(1, mjm.nbody) if int(mjm.body_rootid[body]) in roots]


def floor_of(mjm: mujoco.MjModel) -> int | None:
    """The first plane that is fixed to the world; None: the floor is at the height 0."""
    planes = np.flatnonzero((mjm.geom_type == mujoco.mjtGeom.mjGEOM_PLANE) & (mjm.geom_bodyid == 0))
    return int(planes[0]) if len(planes) else None


def feelers(mjm: mujoco.MjModel, bodies: list[int], floor: int | None) -> list[int]:
    """Geoms of bodies that can touch the floor; without a floor, those that can touch anything."""
    kind, affinity = mjm.geom_contype, mjm.geom_conaffinity
    if floor is None:
        touching = (kind != 0) | (affinity != 0)
        touching[np.concatenate([mjm.pair_geom1, mjm.pair_geom2])] = True
    else:
        touching = (kind & affinity[floor]) | (affinity & kind[floor]) != 0
        touching[mjm.pair_geom2[mjm.pair_geom1 == floor]] = True
        touching[mjm.pair_geom1[mjm.pair_geom2 == floor]] = True
    robot = np.isin(mjm.geom_bodyid, bodies) & np.isin(mjm.geom_type, _SHAPES)
    return [int(geom) for geom in np.flatnonzero(touching & robot)]


def reach(mjm: mujoco.MjModel, geom: int, up: Array) -> float:
    """How far a geom reaches below its centre; `up` are the vertical components of its three axes."""
    size, kind = mjm.geom_size[geom], mjm.geom_type[geom]
    if kind == mujoco.mjtGeom.mjGEOM_SPHERE:
        return size[0]
    if kind == mujoco.mjtGeom.mjGEOM_CAPSULE:
        return size[0] + size[1] * abs(up[2])
    if kind == mujoco.mjtGeom.mjGEOM_CYLINDER:
        return size[0] * np.hypot(up[0], up[1]) + size[1] * abs(up[2])
    if kind == mujoco.mjtGeom.mjGEOM_BOX:
        return size @ np.abs(up)
    if kind == mujoco.mjtGeom.mjGEOM_ELLIPSOID:
        return float(np.linalg.norm(size * up))
    mesh = mjm.geom_dataid[geom]
    first = mjm.mesh_vertadr[mesh]
    return -float((mjm.mesh_vert[first : first + mjm.mesh_vertnum[mesh]] @ up).min())
