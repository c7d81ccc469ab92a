"""Checks of motions: what cannot be right is refused, what may be wrong is mended or left, and noted."""

import dataclasses

import mujoco
import numpy as np

from stickslip.errors import InputError
from stickslip.mpc.retarget.ground import FLOATS, floating
from stickslip.mpc.retarget.motion import UNIT, Array, Motion

JOINT_SPEED = 50.0
"""Speed of a joint above which it is taken for a jump [rad/s]."""
SPEED = 20.0
"""Speed of a base or an object above which it is taken for a jump [m/s]."""
ORDERS = ("wxyz", "xyzw")
"""Orders of a quaternion in a file."""
TOLD = 1e-3
"""Error of the norm of a quaternion that is noted."""


def w_first(quat: Array, order: str, where: str, notes: list[str], around: Array | None = None) -> Array:
    """Quaternions (T, 4) of a file, in the order it has, as unit quaternions with w first.

    Args:
        quat: as they are in the file
        order: "wxyz" or "xyzw"
        where: file and columns, for the error
        notes: gets a note if they were not quite unit
        around: all columns of the file (T, n), to name those that could be the quaternion
    """
    norm = np.linalg.norm(quat, axis=1)
    error = np.abs(norm - 1.0)
    worst = int(np.nan_to_num(error).argmax())
    if error[worst] > UNIT:
        raise InputError(
            f"{where}: the quaternion of frame {worst} has the norm {norm[worst]:.4g} read as wxyz (w is "
            f"{quat[worst, 0]:.4g}) and {norm[worst]:.4g} as xyzw (w is {quat[worst, 3]:.4g}); it must "
            f"be 1 within {UNIT:g}, so the order is not to blame: are these columns the quaternion?"
            f"{_unit_columns(around)}"
        )
    if error[worst] > TOLD:
        notes.append(f"quaternions normalised: off by up to {error[worst]:.2g} (frame {worst})")
    quat = quat / np.maximum(norm, 0.5)[:, None]
    return quat if order == "wxyz" else np.roll(quat, 1, axis=1)


def _unit_columns(columns: Array | None) -> str:
    """A hint: the first four neighbouring columns that are unit quaternions in every frame."""
    if columns is None:
        return ""
    for first in range(columns.shape[1] - 3):
        if (np.abs(np.linalg.norm(columns[:, first : first + 4], axis=1) - 1.0) < UNIT).all():
            return f" Columns {first} to {first + 3} (counted from 0) are unit in every frame"
    return " No four neighbouring columns are unit in every frame"


def order_note(base: Array, order: str, share: float = 0.5) -> str:
    """A note if a base, read in one order of its quaternions, would be less tilted in the other; else empty.

    A base that is upright all the time has the tilt of its heading if w last is read as w first: only one that turns
    is found out. A base that is upside down, as in a cartwheel, may be noted though its order is right.

    Args:
        base: poses with w first, as they were read                                  (T, 7)
        order: the order in which the file was taken to have them
        share: of the tilt; the other order must give less than that
    """
    quat = base[:, 3:]
    other = np.roll(quat, 1 if order == "wxyz" else -1, axis=1)
    here, there = (np.degrees(_tilt(q).mean()) for q in (quat, other))
    if there >= share * here - 1e-6:
        return ""
    name = next(name for name in ORDERS if name != order)
    return (
        f"quaternions read as {order}: the base is tilted by {here:.0f} degrees on average; as {name} by {there:.0f}. "
        f'If the motion looks wrong, give quat="{name}" (--quat {name})'
    )


def _tilt(quat: Array) -> Array:
    """Angle between the vertical of the world and that of the body [rad]."""
    return np.arccos(np.clip(1.0 - 2.0 * (quat[:, 1] ** 2 + quat[:, 2] ** 2), -1.0, 1.0))


def jump_notes(motion: Motion) -> list[str]:
    """Notes on joints, base and objects that move faster than a robot can: count, the worst and its frame."""
    notes = []
    speed = np.abs(np.diff(motion.joints, axis=0)) * motion.fps
    if (speed > JOINT_SPEED).any():
        frame, joint = np.unravel_index(int(speed.argmax()), speed.shape)
        notes.append(
            f"{np.count_nonzero((speed > JOINT_SPEED).any(1))} jumps of joints above {JOINT_SPEED:g} rad/s; the worst: "
            f"{motion.joint_names[joint]}, {speed.max():.0f} rad/s from frame {frame} to {frame + 1}"
        )
    moving = {"the base": motion.base} if motion.base is not None else {}
    for name, pose in {**moving, **{f"object {name!r}": pose for name, pose in motion.objects.items()}}.items():
        speed = np.linalg.norm(np.diff(pose[:, :3], axis=0), axis=1) * motion.fps
        if (speed > SPEED).any():
            frame = int(speed.argmax())
            notes.append(
                f"{np.count_nonzero(speed > SPEED)} jumps of {name} above {SPEED:g} m/s; the worst: {speed.max():.0f} "
                f"m/s from frame {frame} to {frame + 1}"
            )
    return notes


def check(motion: Motion, mjm: mujoco.MjModel, base: str = "") -> Motion:
    """The motion with joints inside the ranges of a model; notes say what was clipped, and how far it floats or sinks.

    Args:
        motion: the motion
        mjm: the model of the robot
        base: name of the free joint of the base; empty: the first free joint that is no object's
    """
    low, high = _ranges(motion, mjm)
    beyond = np.maximum(motion.joints - high, low - motion.joints)
    notes = []
    if (beyond > 1e-9).any():
        frame, joint = np.unravel_index(int(beyond.argmax()), beyond.shape)
        count = np.count_nonzero((beyond > 1e-9).any(1))
        notes.append(
            f"joints beyond their range in {count} of {motion.frames} frames, clipped; the worst: "
            f"{motion.joint_names[joint]} in frame {frame}, {motion.joints[frame, joint]:.3f}, where the range is "
            f"{low[joint]:.3f} to {high[joint]:.3f}"
        )
        motion = dataclasses.replace(motion, joints=np.clip(motion.joints, low, high))
    if motion.base is not None:
        height = floating(motion, mjm, base)
        if abs(height) > FLOATS:
            does = "floats" if height > 0.0 else "sinks"
            notes.append(f"the motion {does} by {100.0 * abs(height):.1f} cm; grounded() (--ground) shifts it")
    return dataclasses.replace(motion, notes=(*motion.notes, *notes))


def _ranges(motion: Motion, mjm: mujoco.MjModel) -> tuple[Array, Array]:
    """Ranges of the motion's joints; infinite for those without, or that the model does not have."""
    low, high = np.full(len(motion.joint_names), -np.inf), np.full(len(motion.joint_names), np.inf)
    for column, name in enumerate(motion.joint_names):
        joint = mujoco.mj_name2id(mjm, mujoco.mjtObj.mjOBJ_JOINT, name)
        if joint >= 0 and mjm.jnt_limited[joint]:
            low[column], high[column] = mjm.jnt_range[joint]
    return low, high
