"""Files that hold positions of joints: our own .npz, SPIDER's, and LAFAN1's csv for G1."""

from pathlib import Path

import numpy as np

from stickslip import files
from stickslip.errors import InputError
from stickslip.mpc.retarget.files.arrays import Arrays, number, numbers, texts
from stickslip.mpc.retarget.files.checks import order_note
from stickslip.mpc.retarget.files.export import LAFAN1_FPS
from stickslip.mpc.retarget.files.given import Given, from_qpos, nearest, pose_of, read_json
from stickslip.mpc.retarget.g1_joints import G1_JOINTS
from stickslip.mpc.retarget.motion import Array, Motion


def read_own(path: Path, given: Given, arrays: Arrays) -> Motion:
    """Our own format, as `save` writes it."""
    notes = list(texts(arrays, "notes") or ())
    joints = numbers(arrays, "joints", 2)

    def pose(key: str) -> Array:
        return pose_of(numbers(arrays, key, 2), given.quat or "wxyz", f"{path}: {key}", notes)

    called = texts(arrays, "name")
    return Motion(
        called[0] if called else path.stem,
        given.rate(number(arrays, "fps"), path, notes),
        joints,
        given.names(texts(arrays, "joint_names"), joints.shape[1], path, notes),
        pose("base") if "base" in arrays else None,
        {key.removeprefix("object/"): pose(key) for key in arrays if key.startswith("object/")},
        {key.removeprefix("contact/"): numbers(arrays, key, 1) for key in arrays if key.startswith("contact/")},
        str(path),
        tuple(notes),
    )


def read_qpos(path: Path, given: Given, arrays: Arrays) -> Motion:
    """Positions of all joints, as SPIDER writes them, in one row or one block for each tick of its planner."""
    notes: list[str] = []
    qpos = numbers(arrays, "qpos", 2, 3)
    qpos = qpos.reshape(-1, qpos.shape[-1])
    if "contact" in arrays:
        notes.append("contacts left out: the file does not name their sites")
    rate = given.rate(_spider_rate(path, arrays, notes, given.fps is None), path, notes)
    names = given.names(texts(arrays, "joint_names"), qpos.shape[1], path, notes)
    return from_qpos(path, given, qpos, names, rate, notes)


def _spider_rate(path: Path, arrays: Arrays, notes: list[str], tell: bool) -> float | None:
    """Frames per second: the file's own, else from its times, else from task_info.json beside it or one folder up."""
    if "fps" in arrays:
        return number(arrays, "fps")
    if "time" in arrays:
        steps = np.diff(numbers(arrays, "time", 1, 2).ravel())
        if len(steps) and steps.min() > 0.0 and np.ptp(steps) < 0.05 * steps.mean():
            return float(1.0 / steps.mean())
    for folder in (path.parent, path.parent.parent):
        info = folder / "task_info.json"
        if info.is_file():
            step = read_json(info).get("ref_dt")
            if isinstance(step, int | float) and step > 0.0:
                if tell:
                    notes.append(f"{1.0 / step:g} frames per second, from ref_dt in {info}")
                return 1.0 / step
    return None


def read_csv(path: Path, given: Given) -> Motion:
    """LAFAN1 retargeted to G1: x y z, quaternion, joints; no header."""
    notes: list[str] = []
    rows = _rows(path)
    names = given.joint_names or G1_JOINTS
    if rows.shape[1] != len(names) + 7:
        raise InputError(
            f"{path} has {rows.shape[1]} columns; a csv must have {len(names) + 7}: x y z, a quaternion and "
            f"{len(names)} joints ({nearest(rows.shape[1])}); for another robot give joint_names="
        )
    if given.fps is None:
        notes.append(f"a csv does not say its frames per second: {LAFAN1_FPS:g} taken, as in LAFAN1 (fps=, --fps)")
    order = given.quat or "xyzw"
    base = pose_of(rows[:, :7], order, f"{path}: columns 3 to 6", notes, rows)
    if given.quat is None:
        notes += filter(None, [order_note(base, order, share=1.0)])
    return Motion(path.stem, given.fps or LAFAN1_FPS, rows[:, 7:], names, base, source=str(path), notes=tuple(notes))


def _rows(path: Path) -> Array:
    """Numbers of a csv without header; an error names the row, counted from 1."""
    found: list[list[float]] = []
    for row, line in enumerate(files.read_text(path, "a motion").splitlines(), 1):
        if not line.strip():
            continue
        try:
            values = [float(part) for part in line.split(",")]
        except ValueError:
            raise InputError(f"{path}: row {row} is not numbers: {line[:60]!r}; cut it if it is a header") from None
        if found and len(values) != len(found[0]):
            raise InputError(
                f"{path}: row {row} has {len(values)} columns, and those before it {len(found[0])}"
                "; cut it, or write all rows alike"
            )
        if not np.isfinite(values).all():
            column = int(np.flatnonzero(~np.isfinite(values))[0])
            raise InputError(f"{path}: row {row}, column {column + 1} is not finite: {values[column]}; mend or cut it")
        found.append(values)
    if len(found) < 2:
        raise InputError(f"{path} has {len(found)} frames; 2 or more are needed")
    return np.array(found)
