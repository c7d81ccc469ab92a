"""Motions from files: our own .npz, SPIDER's, LAFAN1's csv for G1, those of mjlab and holosoma, and HDMI's folders."""

import dataclasses
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from stickslip.errors import InputError, unknown
from stickslip.mpc.retarget.arrays import NEEDS, Arrays, number, numbers, open_arrays, refuse_pickle, texts
from stickslip.mpc.retarget.checks import ORDERS, check, jump_notes, order_note, w_first
from stickslip.mpc.retarget.deepmimic import human_targets, is_deepmimic
from stickslip.mpc.retarget.export import LAFAN1_FPS, export, save
from stickslip.mpc.retarget.g1_joints import G1_JOINTS
from stickslip.mpc.retarget.ground import floating, grounded
from stickslip.mpc.retarget.motion import Array, Motion

__all__ = ["check", "export", "floating", "grounded", "human_targets", "load", "save"]

PICKLES = (".pkl", ".pickle", ".joblib", ".pt", ".p")
"""Suffixes of files that run code when they are read."""
LINKS = ("_link", "pelvis", "world", "base", "root")
"""Ends of the names of bodies that are a robot's."""


@dataclasses.dataclass(frozen=True)
class _Given:
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
        if count not in _counts(len(G1_JOINTS)):
            raise InputError(
                f"{path} has {count} columns and no names of joints; G1 needs 29 joints, 36 with its base, 43 with an "
                f"object as well ({_nearest(count)}); for another robot give joint_names="
            )
        pairs = ", ".join(f"{k} {name}" for k, name in enumerate(G1_JOINTS[:5]))
        notes.append(f"no names of joints in the file: G1's order taken ({pairs}, ...)")
        return G1_JOINTS


def load(
    path: str | os.PathLike,
    *,
    fps: float | None = None,
    quat: str | None = None,
    begin: float | None = None,
    end: float | None = None,
    joint_names: Sequence[str] | None = None,
    objects: Mapping[str, str] | None = None,
) -> Motion:
    """Read a motion; the format is told by suffix and content. What was assumed or corrected is in its notes.

    Args:
        path: a file, or a folder of HDMI
        fps: frames per second, where the file does not say them, or instead of what it says
        quat: order of quaternions in the file, "wxyz" or "xyzw"; None: the format's own
        begin: where to begin [s]; None: at the first frame
        end: where to end [s]; None: at the last frame
        joint_names: names of the joints, where the file has none; None: G1's, if the number fits
        objects: names that the file's objects get, by the names they have there ("object" if it does not name them);
            in HDMI's folders, the bodies that are objects
    """
    path = Path(path)
    if fps is not None and not fps > 0.0:
        raise InputError(f"fps is {fps}; it must be above 0")
    if quat is not None and quat not in ORDERS:
        raise unknown("order of quaternions", quat, ORDERS)
    given = _Given(fps, quat, None if joint_names is None else tuple(joint_names), objects)
    motion = _reader(path)(path, given)
    if objects is not None:
        motion = _renamed(motion, objects)
    if begin is not None or end is not None:
        motion = motion.clip(begin or 0.0, end)
    return dataclasses.replace(motion, notes=(*motion.notes, *jump_notes(motion)))


def _reader(path: Path) -> Callable[[Path, _Given], Motion]:
    """The reader for a file."""
    if path.suffix.lower() in PICKLES:
        refuse_pickle(path)
    if not path.exists():
        raise InputError(f"there is no file {path}")
    if path.is_dir():
        return _read_hdmi
    suffix = path.suffix.lower()
    if suffix in (".txt", ".json") and is_deepmimic(path):
        raise InputError(
            f"{path} is a motion of DeepMimic's human, which has other joints than a robot; human_targets() reads it "
            "for inverse kinematics"
        )
    if suffix == ".csv":
        return _read_csv
    if suffix == ".npz":
        return _read_hdmi if path.name == "motion.npz" and (path.parent / "meta.json").exists() else _read_npz
    raise InputError(f"{path}: no format has the suffix {path.suffix!r}; there are: {NEEDS}")


def _renamed(motion: Motion, names: Mapping[str, str]) -> Motion:
    """The motion with other names of its objects."""
    for name in names:
        if name not in motion.objects:
            raise unknown(f"object of motion {motion.name!r}", name, motion.objects)
    return dataclasses.replace(motion, objects={names.get(name, name): pose for name, pose in motion.objects.items()})


def _read_npz(path: Path, given: _Given) -> Motion:
    with open_arrays(path) as arrays:
        if "joints" in arrays:
            return _read_own(path, given, arrays)
        if "qpos" in arrays:
            return _read_qpos(path, given, arrays)
        if "joint_pos" in arrays:
            return _read_mjlab(path, given, arrays)
        raise InputError(f"{path} has the keys {', '.join(arrays) or 'none'}; there must be those of one of: {NEEDS}")


def _read_own(path: Path, given: _Given, arrays: Arrays) -> Motion:
    """Our own format, as `save` writes it."""
    notes = list(texts(arrays, "notes") or ())
    joints = numbers(arrays, "joints", 2)

    def pose(key: str) -> Array:
        return _pose(numbers(arrays, key, 2), given.quat or "wxyz", f"{path}: {key}", notes)

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


def _read_qpos(path: Path, given: _Given, arrays: Arrays) -> Motion:
    """Positions of all joints, as SPIDER writes them, in one row or one block for each tick of its planner."""
    notes: list[str] = []
    qpos = numbers(arrays, "qpos", 2, 3)
    qpos = qpos.reshape(-1, qpos.shape[-1])
    if "contact" in arrays:
        notes.append("contacts left out: the file does not name their sites")
    rate = given.rate(_spider_rate(path, arrays, notes, given.fps is None), path, notes)
    names = given.names(texts(arrays, "joint_names"), qpos.shape[1], path, notes)
    return _from_qpos(path, given, qpos, names, rate, notes)


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
            step = _json(info).get("ref_dt")
            if isinstance(step, int | float) and step > 0.0:
                if tell:
                    notes.append(f"{1.0 / step:g} frames per second, from ref_dt in {info}")
                return 1.0 / step
    return None


def _read_csv(path: Path, given: _Given) -> Motion:
    """LAFAN1 retargeted to G1: x y z, quaternion, joints; no header."""
    notes: list[str] = []
    rows = _rows(path)
    names = given.joint_names or G1_JOINTS
    if rows.shape[1] != len(names) + 7:
        raise InputError(
            f"{path} has {rows.shape[1]} columns; a csv must have {len(names) + 7}: x y z, a quaternion and "
            f"{len(names)} joints ({_nearest(rows.shape[1])}); for another robot give joint_names="
        )
    if given.fps is None:
        notes.append(f"a csv does not say its frames per second: {LAFAN1_FPS:g} taken, as in LAFAN1 (fps=, --fps)")
    order = given.quat or "xyzw"
    base = _pose(rows[:, :7], order, f"{path}: columns 3 to 6", notes, rows)
    if given.quat is None:
        notes += filter(None, [order_note(base, order, share=1.0)])
    return Motion(path.stem, given.fps or LAFAN1_FPS, rows[:, 7:], names, base, source=str(path), notes=tuple(notes))


def _rows(path: Path) -> Array:
    """Numbers of a csv without header; an error names the row, counted from 1."""
    found: list[list[float]] = []
    for row, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        if not line.strip():
            continue
        try:
            values = [float(part) for part in line.split(",")]
        except ValueError:
            raise InputError(f"{path}: row {row} is not numbers: {line[:60]!r}; cut it if it is a header") from None
        if found and len(values) != len(found[0]):
            raise InputError(f"{path}: row {row} has {len(values)} columns, and those before it {len(found[0])}")
        if not np.isfinite(values).all():
            column = int(np.flatnonzero(~np.isfinite(values))[0])
            raise InputError(f"{path}: row {row}, column {column + 1} is not finite: {values[column]}; mend or cut it")
        found.append(values)
    if len(found) < 2:
        raise InputError(f"{path} has {len(found)} frames; 2 or more are needed")
    return np.array(found)


def _read_mjlab(path: Path, given: _Given, arrays: Arrays) -> Motion:
    """A file of mjlab or holosoma: all of qpos, or the joints alone, and the poses of bodies."""
    notes: list[str] = []
    joints = numbers(arrays, "joint_pos", 2)
    names = given.names(texts(arrays, "joint_names"), joints.shape[1], path, notes)
    rate = given.rate(number(arrays, "fps"), path, notes)
    if joints.shape[1] != len(names):
        motion = _from_qpos(path, given, joints, names, rate, notes)
    else:
        base = _base_body(path, given, arrays, texts(arrays, "body_names"), notes)
        motion = Motion(path.stem, rate, joints, names, base, source=str(path), notes=tuple(notes))
    if "object_pos_w" not in arrays:
        return motion
    poses = np.hstack([numbers(arrays, "object_pos_w", 2), numbers(arrays, "object_quat_w", 2)])
    name = (texts(arrays, "object_names") or ("object",))[0]
    notes = list(motion.notes)
    pose = _pose(poses, given.quat or "wxyz", f"{path}: object_quat_w", notes)
    return dataclasses.replace(motion, objects={name: pose}, notes=tuple(notes))


def _read_hdmi(path: Path, given: _Given) -> Motion:
    """A folder of HDMI: motion.npz, and meta.json with names and fps."""
    folder = path if path.is_dir() else path.parent
    for name in ("motion.npz", "meta.json"):
        if not (folder / name).is_file():
            raise InputError(f"{folder} has no {name}; a folder of HDMI holds motion.npz and meta.json")
    meta, notes = _json(folder / "meta.json"), []
    lacking = [key for key in ("joint_names", "body_names") if not isinstance(meta.get(key), list)]
    if lacking:
        raise InputError(f"{folder / 'meta.json'} has no list {lacking[0]}; it has {', '.join(meta) or 'nothing'}")
    bodies = [str(name) for name in meta["body_names"]]
    with open_arrays(folder / "motion.npz") as arrays:
        joints = numbers(arrays, "joint_pos", 2)
        joints, names = _completed(joints, [str(name) for name in meta["joint_names"]], folder, notes)
        base = _base_body(folder, given, arrays, bodies, notes)
        wanted = given.objects if given.objects is not None else [b for b in bodies if not b.endswith(LINKS)]
        objects = {name: _body(folder, given, arrays, bodies, name, notes) for name in wanted}
    if given.objects is None and objects:
        notes.append(f"bodies that are no links of a robot, taken as objects: {', '.join(objects)}")
    rate = given.rate(meta.get("fps"), folder, notes)
    return Motion(folder.resolve().name, rate, joints, names, base, objects, {}, str(folder), tuple(notes))


def _completed(joints: Array, names: list[str], folder: Path, notes: list[str]) -> tuple[Array, tuple[str, ...]]:
    """Joints by name: all of G1's, zero where the file has none; as they are if none of them is G1's."""
    if joints.shape[1] != len(names):
        raise InputError(f"{folder}: joint_pos has {joints.shape[1]} columns, and meta.json {len(names)} joint_names")
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


def _base_body(path: Path, given: _Given, arrays: Arrays, names: Sequence[str] | None, notes: list[str]) -> Array:
    """Pose of the base: of the first body that is not the world."""
    places = numbers(arrays, "body_pos_w", 3)
    first = 1 if (names and names[0] == "world" and len(names) > 1) else 0
    if names is None and places.shape[1] > 1 and not places[:, 0].any():
        first = 1
        notes.append("body 0 is at the origin in every frame: taken as the world, and body 1 as the base")
    numbered = [str(k) for k in range(places.shape[1])]
    base = _body(path, given, arrays, numbered, str(first), notes)
    if given.quat is None:
        notes += filter(None, [order_note(base, "wxyz")])
    return base


def _body(path: Path, given: _Given, arrays: Arrays, names: Sequence[str], name: str, notes: list[str]) -> Array:
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
    return _pose(poses, given.quat or "wxyz", f"{path}: body {name}", notes)


def _from_qpos(path: Path, given: _Given, qpos: Array, names: tuple[str, ...], rate: float, notes: list[str]) -> Motion:
    """A motion of base, joints and an object, in this order; a base or an object may be missing."""
    count, order = len(names), given.quat or "wxyz"
    if qpos.shape[1] not in _counts(count):
        raise InputError(
            f"{path} has {qpos.shape[1]} columns; for {count} joints there must be {count}, {count + 7} with a base or "
            f"an object, or {count + 14} with both ({_nearest(qpos.shape[1])})"
        )
    based = qpos.shape[1] > count
    if qpos.shape[1] == count + 7 and not _unit(qpos[:, 3:7]) and _unit(qpos[:, -4:]):
        based = False
        notes.append("columns 3 to 6 are no quaternion, the last four are: taken as joints and an object, no base")
    base = _pose(qpos[:, :7], order, f"{path}: columns 3 to 6", notes, qpos) if based else None
    if base is not None and given.quat is None:
        notes += filter(None, [order_note(base, order)])
    first = 7 if based else 0
    rest = qpos[:, first + count :]
    objects = {"object": _pose(rest, order, f"{path}: the last four columns", notes, qpos)} if rest.shape[1] else {}
    if objects:
        notes.append('the last seven columns taken as the pose of an object, named "object"')
    joints = qpos[:, first : first + count]
    return Motion(path.stem, rate, joints, names, base, objects, source=str(path), notes=tuple(notes))


def _pose(poses: Array, order: str, where: str, notes: list[str], around: Array | None = None) -> Array:
    """Poses (T, 7) with unit quaternions, w first."""
    if poses.shape[1] != 7:
        raise InputError(f"{where}: poses have {poses.shape[1]} columns; there must be 7: x y z and a quaternion")
    return np.hstack([poses[:, :3], w_first(poses[:, 3:], order, where, notes, around)])


def _unit(quat: Array) -> bool:
    return bool((np.abs(np.linalg.norm(quat, axis=1) - 1.0) < 1e-2).all())


def _counts(joints: int) -> tuple[int, int, int]:
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


def _nearest(columns: int) -> str:
    """What a number of columns may be."""
    nearest = min(_NEAREST, key=lambda count: abs(count - columns))
    return _NEAREST[nearest] if nearest == columns else f"the nearest format: {_NEAREST[nearest]}"


def _json(path: Path) -> dict:
    try:
        found = json.loads(path.read_text())
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{path} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise InputError(f"{path} must hold a JSON object; it holds a {type(found).__name__}")
    return found
