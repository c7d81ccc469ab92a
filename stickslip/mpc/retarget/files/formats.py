"""Motions from files: the format is told by suffix and content."""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from stickslip.errors import InputError, unknown
from stickslip.mpc.retarget.files.arrays import NEEDS, open_arrays, refuse_pickle
from stickslip.mpc.retarget.files.body_files import read_hdmi, read_mjlab
from stickslip.mpc.retarget.files.checks import ORDERS, jump_notes
from stickslip.mpc.retarget.files.deepmimic import is_deepmimic, read_human
from stickslip.mpc.retarget.files.given import Given
from stickslip.mpc.retarget.files.qpos_files import read_csv, read_own, read_qpos
from stickslip.mpc.retarget.human import onto
from stickslip.mpc.retarget.motion import Motion
from stickslip.mpc.retarget.robots import Robot

PICKLES = (".pkl", ".pickle", ".joblib", ".pt", ".p")
"""Suffixes of files that run code when they are read."""


def load(
    path: str | os.PathLike,
    *,
    fps: float | None = None,
    quat: str | None = None,
    begin: float | None = None,
    end: float | None = None,
    joint_names: Sequence[str] | None = None,
    objects: Mapping[str, str] | None = None,
    robot: Robot | None = None,
    progress: Callable[[float], None] | None = None,
) -> Motion:
    """Read a motion; the format is told by suffix and content. What was assumed or corrected is in its notes.

    A human's motion is brought onto a robot by inverse kinematics, which takes a few seconds for a second of it.

    Args:
        path: a file, or a folder of HDMI
        fps: frames per second, where the file does not say them, or instead of what it says
        quat: order of quaternions in the file, "wxyz" or "xyzw"; None: the format's own
        begin: where to begin [s]; None: at the first frame
        end: where to end [s]; None: at the last frame
        joint_names: names of the joints, where the file has none; None: G1's, if the number fits
        objects: names that the file's objects get, by the names they have there ("object" if it does not name them);
            in HDMI's folders, the bodies that are objects
        robot: the robot that a human's motion is brought onto; None: g1
        progress: called with the share of that which is done, from 0 to 1
    """
    path = Path(path)
    if fps is not None and not fps > 0.0:
        raise InputError(f"fps is {fps}; it must be above 0")
    if quat is not None and quat not in ORDERS:
        raise unknown("order of quaternions", quat, ORDERS)
    given = Given(fps, quat, None if joint_names is None else tuple(joint_names), objects)
    motion = _from_human(path, given, robot, progress) if _is_human(path) else _reader(path)(path, given)
    if objects is not None:
        motion = _renamed(motion, objects)
    if begin is not None or end is not None:
        motion = motion.clip(begin or 0.0, end)
    return dataclasses.replace(motion, notes=(*motion.notes, *jump_notes(motion)))


def _is_human(path: Path) -> bool:
    return path.suffix.lower() in (".txt", ".json") and path.is_file() and is_deepmimic(path)


def _from_human(path: Path, given: Given, robot: Robot | None, progress: Callable[[float], None] | None) -> Motion:
    """A motion of DeepMimic's human on a robot."""
    if given.quat is not None or given.joint_names is not None:
        what = "quat" if given.quat is not None else "joint_names"
        raise InputError(f"{path} is a motion of DeepMimic's human, whose numbers have one meaning; leave out {what}")
    human, notes = read_human(path), []
    human = dataclasses.replace(human, fps=given.rate(human.fps, path, notes))
    motion = onto(human, robot, progress)
    return dataclasses.replace(motion, source=str(path), notes=(*notes, *motion.notes))


def _reader(path: Path) -> Callable[[Path, Given], Motion]:
    """The reader for a file."""
    if path.suffix.lower() in PICKLES:
        refuse_pickle(path)
    if not path.exists():
        raise InputError(f"there is no file {path}")
    if path.is_dir():
        return read_hdmi
    suffix = path.suffix.lower()
    if suffix == ".csv":
        return read_csv
    if suffix == ".npz":
        return read_hdmi if path.name == "motion.npz" and (path.parent / "meta.json").exists() else _read_npz
    raise InputError(f"{path}: no format has the suffix {path.suffix!r}; there are: {NEEDS}")


def _renamed(motion: Motion, names: Mapping[str, str]) -> Motion:
    """The motion with other names of its objects."""
    for name in names:
        if name not in motion.objects:
            raise unknown(f"object of motion {motion.name!r}", name, motion.objects)
    return dataclasses.replace(motion, objects={names.get(name, name): pose for name, pose in motion.objects.items()})


def _read_npz(path: Path, given: Given) -> Motion:
    with open_arrays(path) as arrays:
        if "joints" in arrays:
            return read_own(path, given, arrays)
        if "qpos" in arrays:
            return read_qpos(path, given, arrays)
        if "joint_pos" in arrays:
            return read_mjlab(path, given, arrays)
        raise InputError(f"{path} has the keys {', '.join(arrays) or 'none'}; there must be those of one of: {NEEDS}")
