"""Files that hold poses of bodies as well: those of mjlab and holosoma, and HDMI's folders."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from stickslip.errors import InputError, unknown
from stickslip.mpc.retarget.files.arrays import Arrays, number, numbers, open_arrays, texts
from stickslip.mpc.retarget.files.checks import order_note
from stickslip.mpc.retarget.files.given import Given, from_qpos, pose_of, read_json
from stickslip.mpc.retarget.g1_joints import G1_JOINTS
from stickslip.mpc.retarget.motion import Array, Motion

FIXED = ("world", "terrain", "floor", "ground")
"""Bodies that are part of the scene."""
BASE = "pelvis"
"""Body that is the base; without it the first that is not part of the scene."""


def read_mjlab(path: Path, given: Given, arrays: Arrays) -> Motion:
    """A file of mjlab or holosoma: all of qpos, or the joints alone, and the poses of bodies."""
    notes: list[str] = []
    joints = numbers(arrays, "joint_pos", 2)
    names = given.names(texts(arrays, "joint_names"), joints.shape[1], path, notes)
    rate = given.rate(number(arrays, "fps"), path, notes)
    if joints.shape[1] != len(names):
        motion = from_qpos(path, given, joints, names, rate, notes)
    else:
        base = _base_body(path, given, arrays, texts(arrays, "body_names"), notes)
        motion = Motion(path.stem, rate, joints, names, base, source=str(path), notes=tuple(notes))
    if "object_pos_w" not in arrays:
        return motion
    places, quats = numbers(arrays, "object_pos_w", 2), numbers(arrays, "object_quat_w", 2)
    if len(places) != len(quats):
        raise InputError(
            f"{path}: object_pos_w has {len(places)} frames, and object_quat_w {len(quats)}; cut the longer one"
        )
    name = (texts(arrays, "object_names") or ("object",))[0]
    notes = list(motion.notes)
    pose = pose_of(np.hstack([places, quats]), given.quat or "wxyz", f"{path}: object_quat_w", notes)
    return dataclasses.replace(motion, objects={name: pose}, notes=tuple(notes))


def read_hdmi(path: Path, given: Given) -> Motion:
    """A folder of HDMI: motion.npz, and meta.json with names and fps."""
    folder = path if path.is_dir() else path.parent
    for name in ("motion.npz", "meta.json"):
        if not (folder / name).is_file():
            raise InputError(
                f"{folder} has no {name}; a folder of HDMI holds motion.npz and meta.json"
                "; add it, or name another folder"
            )
    meta, notes = read_json(folder / "meta.json"), []
    lacking = [key for key in ("joint_names", "body_names") if not isinstance(meta.get(key), list)]
    if lacking:
        raise InputError(
            f"{folder / 'meta.json'} has no list {lacking[0]}; it has {', '.join(meta) or 'nothing'}; add it"
        )
    bodies = [str(name) for name in meta["body_names"]]
    with open_arrays(folder / "motion.npz") as arrays:
        joints = numbers(arrays, "joint_pos", 2)
        joints, names = _completed(joints, [str(name) for name in meta["joint_names"]], folder, notes)
        base = _base_body(folder, given, arrays, bodies, notes)
        loose = [body for body in bodies if not body.endswith("_link") and body not in (BASE, *FIXED)]
        wanted = given.objects if given.objects is not None else loose
        objects = {name: _body(folder, given, arrays, bodies, name, notes) for name in wanted}
    if given.objects is None and objects:
        notes.append(f"bodies that are no links of a robot, taken as objects: {', '.join(objects)}")
    fps = meta.get("fps")
    if not isinstance(fps, int | float | None):
        raise InputError(f"{folder / 'meta.json'}: fps is {fps!r}; it must be a number")
    rate = given.rate(fps, folder, notes)
    return Motion(folder.resolve().name, rate, joints, names, base, objects, {}, str(folder), tuple(notes))


def _completed(joints: Array, names: list[str], folder: Path, notes: list[str]) -> tuple[Array, tuple[str, ...]]:
    """Joints by name: all of G1's, zero where the file has none; as they are if none of them is G1's."""
    if joints.shape[1] != len(names):
        raise InputError(
            f"{folder}: joint_pos has {joints.shape[1]} columns, and meta.json {len(names)} joint_names"
            "; name each column once"
        )
    known = [name for name in G1_JOINTS if name in names]
    if not known:
        return joints, tuple(names)
    missing = [name for name in G1_JOINTS if name not in names]
    if missing:
        notes.append(f"joints that the file does not have, set to 0: {', '.join(missing)}")
    other = [name for name in names if name not in G1_JOINTS]
    if other:
        notes.append(f"joints that are not G1's, left out: {', '.join(other)}")
    full = np.zeros((len(joints), len(G1_JOINTS)))
    for name in known:
        full[:, G1_JOINTS.index(name)] = joints[:, names.index(name)]
    return full, G1_JOINTS


def _base_body(path: Path, given: Given, arrays: Arrays, names: Sequence[str] | None, notes: list[str]) -> Array:
    """Pose of the base."""
    count = numbers(arrays, "body_pos_w", 3).shape[1]
    if names is None:
        names, base = [str(k) for k in range(count)], "0"
        if count > 1 and not numbers(arrays, "body_pos_w", 3)[:, 0].any():
            base = "1"
            notes.append("body 0 is at the origin in every frame: taken as the world, and body 1 as the base")
    elif BASE in names:
        base = BASE
    else:
        base = next((name for name in names if name not in FIXED), "")
        notes.append(f"no body {BASE}: the base taken from body {base!r}")
    pose = _body(path, given, arrays, names, base, notes)
    if given.quat is None:
        notes += filter(None, [order_note(pose, "wxyz")])
    return pose


def _body(path: Path, given: Given, arrays: Arrays, names: Sequence[str], name: str, notes: list[str]) -> Array:
    """Pose (T, 7) of a body."""
    places, quats = numbers(arrays, "body_pos_w", 3), numbers(arrays, "body_quat_w", 3)
    if name not in names:
        raise unknown(f"body in {path}", name, names)
    if places.shape[1] != len(names) or quats.shape[:2] != places.shape[:2]:
        raise InputError(
            f"{path}: body_pos_w has the shape {places.shape} and body_quat_w {quats.shape}, and there are "
            f"{len(names)} bodies"
        )
    index = names.index(name)
    poses = np.hstack([places[:, index], quats[:, index]])
    return pose_of(poses, given.quat or "wxyz", f"{path}: body {name}", notes)
