"""Motions of DeepMimic's human: joint rotations, and by forward kinematics the places of its body parts.

A human has other joints than a robot: inverse kinematics brings the motion onto one. DeepMimic's x points forward, its
y up and its z to the right; here x points forward, y to the left and z up, in the world and in every body.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stickslip import files
from stickslip.errors import DamagedFile, InputError
from stickslip.mpc.retarget.files.checks import TOLD
from stickslip.mpc.retarget.human.skeleton import HIP, SHIN, SIDES, SOLE, THIGH, Human
from stickslip.mpc.retarget.motion import Array, exponential, multiplied, rotated, slerp

COLUMNS = 44
"""Numbers in a frame: its duration, position of the root, nine quaternions and four angles."""


class _Joint(NamedTuple):
    """A joint: its parent, its place in the parent's frame [m], and its first column in a frame."""

    parent: str
    place: tuple[float, float, float]
    column: int


def _side(side: str, column: int) -> dict[str, _Joint]:
    """Joints of a leg and an arm."""
    y = SIDES[side]
    return {
        f"{side}_hip": _Joint("pelvis", (0.0, y * HIP, 0.0), column),
        f"{side}_knee": _Joint(f"{side}_hip", (0.0, 0.0, -THIGH), column + 4),
        f"{side}_ankle": _Joint(f"{side}_knee", (0.0, 0.0, -SHIN), column + 5),
        f"{side}_shoulder": _Joint("chest", (-0.02405, y * 0.18311, 0.2435), column + 9),
        f"{side}_elbow": _Joint(f"{side}_shoulder", (0.0, 0.0, -0.274788), column + 13),
    }


JOINTS: Mapping[str, _Joint] = {
    "pelvis": _Joint("", (0.0, 0.0, 0.0), 4),
    "chest": _Joint("pelvis", (0.0, 0.0, 0.236151), 8),
    "neck": _Joint("chest", (0.0, 0.0, 0.223894), 12),
    **_side("right", 16),
    **_side("left", 30),
}
HINGES = ("knee", "elbow")
TIPS = {
    "head": ("neck", (0.0, 0.0, 0.175)),
    **{f"{side}_foot": (f"{side}_ankle", (0.045, 0.0, -SOLE)) for side in ("left", "right")},
    **{f"{side}_hand": (f"{side}_elbow", (0.0, 0.0, -0.258947)) for side in ("left", "right")},
}
"""Points fixed to a joint's body: the middle of the head, of the soles, and the wrists."""


def human_targets(path: str | os.PathLike) -> tuple[float, dict[str, Array], Array, dict[str, Array]]:
    """Targets for inverse kinematics: fps, positions by name, orientation of the pelvis, and of feet, hands and chest.

    The names and frames are those of `Human`.
    """
    human = read_human(path)
    names = ("left_foot", "right_foot", "left_hand", "right_hand", "chest")
    return (
        human.fps,
        dict(human.positions),
        human.orientations["pelvis"],
        {name: human.orientations[name] for name in names},
    )


def read_human(path: str | os.PathLike) -> Human:
    """Read a file of DeepMimic: JSON with `Frames` of 44 numbers."""
    path = Path(path)
    frames = _frames(path)
    notes: list[str] = []
    root = _z_up(frames[:, 1:4])
    frames = _normalised(frames, path, notes)
    turns = {name: _turns(frames, name) for name in JOINTS}
    fps, times = _times(frames[:, 0], path)
    even = np.arange(len(times)) / fps
    if np.abs(times - even).max() > 0.05 / fps:
        place = np.arange(int(times[-1] * fps + 1e-6) + 1) / fps
        left = np.clip(np.searchsorted(times, place, side="right") - 1, 0, len(times) - 2)
        part = np.clip((place - times[left]) / (times[left + 1] - times[left]), 0.0, 1.0)
        root = root[left] + part[:, None] * (root[left + 1] - root[left])
        turns = {name: slerp(turn[left], turn[left + 1], part) for name, turn in turns.items()}
        notes.append(f"frames of uneven duration: resampled to {fps:g} frames per second")
    positions, orientations = _kinematics(root, turns)
    return Human(path.stem, fps, turns, positions, orientations, tuple(notes))


def is_deepmimic(path: Path) -> bool:
    """Whether a file is JSON with `Frames`."""
    return "Frames" in _json(path)


def _json(path: Path) -> dict[str, Any]:
    try:
        found = files.read_json(path, "a motion")
    except DamagedFile:
        return {}
    return found if isinstance(found, dict) else {}


def _frames(path: Path) -> Array:
    """All frames (T, 44)."""
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    rows = _json(path).get("Frames")
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise InputError(
            f"{path}: a motion of DeepMimic is JSON with a list `Frames` of lists; this is none; check the file"
        )
    for number, row in enumerate(rows):
        if len(row) != COLUMNS:
            raise InputError(
                f"{path}: frame {number} has {len(row)} numbers; DeepMimic's human has {COLUMNS}, and only the human "
                "can be read"
            )
    if len(rows) < 2:
        raise InputError(f"{path} has {len(rows)} frames; 2 or more are needed")
    frames = np.array(rows, dtype=np.float64)
    bad = np.argwhere(~np.isfinite(frames))
    if len(bad):
        raise InputError(f"{path}: frame {bad[0][0]}, number {bad[0][1]} is not finite; mend or cut it")
    return frames


def _times(durations: Array, path: Path) -> tuple[float, Array]:
    """Frames per second, and the time of each frame [s]. The duration of the last frame says nothing."""
    short = np.flatnonzero(durations[:-1] <= 0.0)
    if len(short):
        raise InputError(f"{path}: frame {short[0]} lasts {durations[short[0]]:g} s; it must be above 0")
    fps = float(1.0 / np.median(durations[:-1]))
    whole = round(fps)
    if abs(fps - whole) < 1e-4 * fps:  # files write 0.016666 for 1/60
        durations, fps = durations * (fps / whole), float(whole)
    return fps, np.concatenate([[0.0], np.cumsum(durations[:-1])])


def _z_up(vector: Array) -> Array:
    """Vectors with y up as vectors with z up."""
    return np.stack([vector[:, 0], -vector[:, 2], vector[:, 1]], axis=1)


def _normalised(frames: Array, path: Path, notes: list[str]) -> Array:
    """The frames with unit quaternions; files that were blended by hand have others."""
    frames, off = frames.copy(), {}
    for name, joint in JOINTS.items():
        if name.endswith(HINGES):
            continue
        quat = frames[:, joint.column : joint.column + 4]
        norm = np.linalg.norm(quat, axis=1)
        if norm.min() < 1e-3:
            raise InputError(f"{path}: {name}: the quaternion of frame {norm.argmin()} is zero; mend or cut it")
        off[name] = norm
        quat /= norm[:, None]
    count = sum(np.count_nonzero(np.abs(norm - 1.0) > TOLD) for norm in off.values())
    if count:
        name, norm = max(off.items(), key=lambda item: np.abs(item[1] - 1.0).max())
        worst = int(np.abs(norm - 1.0).argmax())
        notes.append(f"{count} quaternions normalised; the worst: {name} in frame {worst}, of norm {norm[worst]:.3g}")
    return frames


def _turns(frames: Array, name: str) -> Array:
    """Rotations (T, 4) of a joint in its parent's frame, of continuous sign."""
    column = JOINTS[name].column
    if name.endswith(HINGES):  # about DeepMimic's z, which points to the right
        return exponential(frames[:, column, None] * np.array([0.0, -1.0, 0.0]))
    quat = frames[:, column : column + 4]
    turn = np.concatenate([quat[:, :1], _z_up(quat[:, 1:])], axis=1)
    flips = np.where(np.einsum("ti,ti->t", turn[1:], turn[:-1]) < 0.0, -1.0, 1.0)
    turn[1:] *= np.cumprod(flips)[:, None]
    return turn


def _kinematics(root: Array, turns: Mapping[str, Array]) -> tuple[dict[str, Array], dict[str, Array]]:
    """Positions and orientations of all joints and points."""
    positions, orientations = {"pelvis": root}, {"pelvis": turns["pelvis"]}
    for name, joint in JOINTS.items():
        if joint.parent:
            above = orientations[joint.parent]
            positions[name] = positions[joint.parent] + rotated(above, joint.place)
            orientations[name] = multiplied(above, turns[name])
    for name, (joint, place) in TIPS.items():
        orientations[name] = orientations[joint]
        positions[name] = positions[joint] + rotated(orientations[joint], place)
    return positions, orientations
