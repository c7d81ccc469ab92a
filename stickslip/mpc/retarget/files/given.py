"""What the reader of a file is told, and what all readers share."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stickslip import files
from stickslip.errors import InputError
from stickslip.mpc.retarget.files.checks import order_note, w_first
from stickslip.mpc.retarget.g1_joints import G1_JOINTS
from stickslip.mpc.retarget.motion import Array, Motion


@dataclasses.dataclass(frozen=True)
class Given:
    """What the caller says about a file; None: it is for the file to say."""

    fps: float | None = None
    quat: str | None = None
    joint_names: tuple[str, ...] | None = None
    objects: Mapping[str, str] | None = None

    def rate(self, found: float | None, path: Path, notes: list[str]) -> float:
        """Frames per second: the caller's, else the file's."""
        if self.fps is None and found is None:
            raise InputError(f"{path} does not say its frames per second; give fps= (--fps), such as 30 or 50")
        if self.fps is not None and found is not None and abs(self.fps - found) > 1e-6 * found:
            notes.append(f"{self.fps:g} frames per second, as given; the file says {found:g}")
        return float(self.fps if self.fps is not None else found)  # type: ignore[arg-type]

    def names(self, found: Sequence[str] | None, count: int, path: Path, notes: list[str]) -> tuple[str, ...]:
        """Names of joints: the file's, else the caller's, else G1's if their number, or with a base, is `count`."""
        if found is not None:
            return tuple(found)
        if self.joint_names is not None:
            return self.joint_names
        if count not in counts(len(G1_JOINTS)):
            raise InputError(
                f"{path} has {count} columns and no names of joints; G1 needs 29 joints, 36 with its base, 43 with an "
                f"object as well ({nearest(count)}); for another robot give joint_names="
            )
        pairs = ", ".join(f"{k} {name}" for k, name in enumerate(G1_JOINTS[:5]))
        notes.append(
            f"no names of joints in the file: G1's order taken ({pairs}, ...); IsaacLab has another (joint_names=)"
        )
        return G1_JOINTS


def from_qpos(path: Path, given: Given, qpos: Array, names: tuple[str, ...], rate: float, notes: list[str]) -> Motion:
    """A motion of base, joints and an object, in this order; a base or an object may be missing."""
    count, order = len(names), given.quat or "wxyz"
    if qpos.shape[1] not in counts(count):
        raise InputError(
            f"{path} has {qpos.shape[1]} columns; for {count} joints there must be {count}, {count + 7} with a base or "
            f"an object, or {count + 14} with both ({nearest(qpos.shape[1])})"
        )
    based = qpos.shape[1] > count
    if qpos.shape[1] == count + 7 and not _unit(qpos[:, 3:7]) and _unit(qpos[:, -4:]):
        based = False
        notes.append("columns 3 to 6 are no quaternion, the last four are: taken as joints and an object, no base")
    base = pose_of(qpos[:, :7], order, f"{path}: columns 3 to 6", notes, qpos) if based else None
    if base is not None and given.quat is None:
        notes += filter(None, [order_note(base, order)])
    first = 7 if based else 0
    rest = qpos[:, first + count :]
    objects = {"object": pose_of(rest, order, f"{path}: the last four columns", notes, qpos)} if rest.shape[1] else {}
    if objects:
        notes.append('the last seven columns taken as the pose of an object, named "object"')
    joints = qpos[:, first : first + count]
    return Motion(path.stem, rate, joints, names, base, objects, source=str(path), notes=tuple(notes))


def pose_of(poses: Array, order: str, where: str, notes: list[str], around: Array | None = None) -> Array:
    """Poses (T, 7) with unit quaternions, w first."""
    if poses.shape[1] != 7:
        raise InputError(f"{where}: poses have {poses.shape[1]} columns; there must be 7: x y z and a quaternion")
    return np.hstack([poses[:, :3], w_first(poses[:, 3:], order, where, notes, around)])


def _unit(quat: Array) -> bool:
    return bool((np.abs(np.linalg.norm(quat, axis=1) - 1.0) < 1e-2).all())


def counts(joints: int) -> tuple[int, int, int]:
    """Columns of qpos: joints alone, with a base, with an object as well."""
    return joints, joints + 7, joints + 14


_NEAREST = {
    29: "29 are G1's joints without its base",
    30: "30 are one more than G1's joints: a time or number of the frame?",
    35: "35 are the velocities of G1, not its positions",
    36: "36 are G1's base and joints",
    37: "37 are one more than G1's base and joints: is the first the time or number of the frame? Cut it",
    43: "43 are G1 with an object: write it as `qpos` into an .npz",
    44: "44 are the numbers of DeepMimic's human, a .txt",
}


def nearest(columns: int) -> str:
    """What a number of columns may be."""
    close = min(_NEAREST, key=lambda count: abs(count - columns))
    return _NEAREST[close] if close == columns else f"the nearest format: {_NEAREST[close]}"


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file."""
    found = files.read_json(path)
    if not isinstance(found, dict):
        raise InputError(f"{path} must hold a JSON object; it holds a {type(found).__name__}")
    return found
