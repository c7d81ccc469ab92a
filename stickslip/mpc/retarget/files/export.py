"""Motions to files: our own format, LAFAN1's csv for G1, and the arrays that mjlab trains on."""

import io
import os
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from stickslip import npz
from stickslip.errors import InputError, unknown
from stickslip.files import write_bytes_atomic
from stickslip.mpc.retarget.g1_joints import G1_JOINTS
from stickslip.mpc.retarget.ground import robot_bodies
from stickslip.mpc.retarget.motion import Array, Motion, qpos_of, velocities

FORMATS = ("stickslip", "lafan1", "mjlab")
LAFAN1_FPS = 30.0
"""Frames per second of LAFAN1's files, which do not say it."""


def save(motion: Motion, path: str | os.PathLike) -> Path:
    """Write a motion as .npz, complete or not at all; `load` reads it back as it is.

    Keys: `fps`, `joints` (T, n), `joint_names` (n,), `base` (T, 7) with the quaternion w first, `object/NAME` (T, 7),
    `contact/NAME` (T,), `name`, `notes`.
    """
    arrays: dict[str, Any] = {
        "name": np.array(motion.name),
        "fps": np.array(motion.fps),
        "joints": motion.joints,
        "joint_names": np.array(motion.joint_names, dtype=np.str_),
        "notes": np.array(motion.notes, dtype=np.str_),
        **{f"object/{name}": pose for name, pose in motion.objects.items()},
        **{f"contact/{name}": on for name, on in motion.contacts.items()},
    }
    if motion.base is not None:
        arrays["base"] = motion.base
    return _write_npz(path, ".npz", arrays)


def export(
    motion: Motion,
    path: str | os.PathLike,
    format: str,
    *,
    mjm: mujoco.MjModel | None = None,
    base: str = "",
    fps: float | None = None,
) -> Path:
    """Write a motion for other programs, complete or not at all.

    Args:
        motion: the motion
        path: the file
        format: "stickslip", our .npz; "lafan1", a csv for G1 (x y z, quaternion x y z w, 29 joints; no objects, no
            contacts); "mjlab", an .npz with joints, bodies and their velocities in the order of the model
        mjm: the model of the robot, which "mjlab" needs
        base: name of the free joint of its base; empty: the first free joint that is no object's
        fps: frames per second of the file; None: the motion's, and 30 for "lafan1", whose readers take that
    """
    if format not in FORMATS:
        raise unknown("format", format, FORMATS)
    rate = fps or (LAFAN1_FPS if format == "lafan1" else motion.fps)
    motion = motion if rate == motion.fps else motion.resampled(rate)
    if format == "stickslip":
        return save(motion, path)
    if format == "lafan1":
        return _export_lafan1(motion, path)
    if mjm is None:
        raise InputError('format "mjlab" holds the poses of bodies: give mjm=, the model of the robot')
    return _write_npz(path, ".npz", mjlab_arrays(motion, mjm, base))


def _export_lafan1(motion: Motion, path: str | os.PathLike) -> Path:
    missing = [name for name in G1_JOINTS if name not in motion.joint_names]
    if missing or motion.base is None:
        lacks = f"the joint {missing[0]} ({len(missing)} are missing)" if missing else "a base"
        raise InputError(
            f'motion {motion.name!r}: format "lafan1" holds the base and 29 joints of G1; it lacks {lacks}'
        )
    joints = motion.joints[:, [motion.joint_names.index(name) for name in G1_JOINTS]]
    rows = np.hstack([motion.base[:, :3], np.roll(motion.base[:, 3:], -1, axis=1), joints])
    buffer = io.BytesIO()
    np.savetxt(buffer, rows, fmt="%.9g", delimiter=",")
    return write_bytes_atomic(_suffixed(path, ".csv"), buffer.getvalue())


def mjlab_arrays(motion: Motion, mjm: mujoco.MjModel, base: str = "") -> dict[str, Any]:
    """The arrays of mjlab's motion files: joints, and bodies of the robot in the world, in the model's order.

    Velocities are central differences; those of bodies are of their origins, in the axes of the world.
    """
    if len(motion.objects) > 1:
        raise InputError(f"motion {motion.name!r} has {len(motion.objects)} objects; a file of mjlab holds one")
    qpos = qpos_of(motion, mjm, base)
    qvel = velocities(mjm, qpos, 1.0 / motion.fps)
    bodies = robot_bodies(motion, mjm, base)
    scalar = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))
    joints = [j for j in range(mjm.njnt) if mjm.jnt_bodyid[j] in bodies and int(mjm.jnt_type[j]) in scalar]
    poses, twists = _bodies(mjm, qpos, qvel, bodies)
    arrays: dict[str, Any] = {
        "fps": np.array([motion.fps]),
        "joint_pos": qpos[:, mjm.jnt_qposadr[joints]],
        "joint_vel": qvel[:, mjm.jnt_dofadr[joints]],
        "body_pos_w": poses[..., :3],
        "body_quat_w": poses[..., 3:],
        "body_lin_vel_w": twists[..., 3:],
        "body_ang_vel_w": twists[..., :3],
        "joint_names": np.array([mjm.joint(j).name for j in joints], dtype=np.str_),
        "body_names": np.array([mjm.body(b).name for b in bodies], dtype=np.str_),
    }
    for name, pose in motion.objects.items():
        arrays |= {"object_pos_w": pose[:, :3], "object_quat_w": pose[:, 3:], "object_names": np.array([name])}
    return arrays


def _bodies(mjm: mujoco.MjModel, qpos: Array, qvel: Array, bodies: list[int]) -> tuple[Array, Array]:
    """Poses (T, n, 7) and velocities (T, n, 6), angular first, of bodies in the world."""
    data = mujoco.MjData(mjm)
    poses, twists = np.empty((len(qpos), len(bodies), 7)), np.empty((len(qpos), len(bodies), 6))
    for frame in range(len(qpos)):
        data.qpos[:], data.qvel[:] = qpos[frame], qvel[frame]
        mujoco.mj_kinematics(mjm, data)
        mujoco.mj_comPos(mjm, data)
        mujoco.mj_comVel(mjm, data)
        poses[frame] = np.hstack([data.xpos[bodies], data.xquat[bodies]])
        for k, body in enumerate(bodies):
            mujoco.mj_objectVelocity(mjm, data, mujoco.mjtObj.mjOBJ_XBODY, body, twists[frame, k], 0)
    return poses, twists


def _write_npz(path: str | os.PathLike, suffix: str, arrays: dict[str, Any]) -> Path:
    return npz.write(_suffixed(path, suffix), arrays)


def _suffixed(path: str | os.PathLike, suffix: str) -> Path:
    if Path(path).suffix != suffix:
        raise InputError(f"{path}: this format is read by its suffix; name the file {Path(path).stem}{suffix}")
    return Path(path)
