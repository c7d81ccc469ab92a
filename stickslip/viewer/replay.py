"""Replay: what was recorded, on a clock that can be moved; several recordings of one model stand side by side."""

import dataclasses
import threading
import time
import zipfile
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip import files, mjcf, npz
from stickslip.errors import DamagedFile, InputError
from stickslip.simulation import Trajectory
from stickslip.viewer.lane import Shot
from stickslip.viewer.session import FPS, Frame


@dataclasses.dataclass(frozen=True)
class Clip:
    """A recording.

    Attributes:
        label: what it is of
        time: from its beginning, s                                   (n,)
        qpos: (nworld, n, nq)
        qvel: (nworld, n, nv); None: not recorded
        mocap_pos, mocap_quat: (nworld, n, nmocap, ...); None: not recorded
    """

    label: str
    time: NDArray[np.floating]
    qpos: NDArray[np.floating]
    qvel: NDArray[np.floating] | None = None
    mocap_pos: NDArray[np.floating] | None = None
    mocap_quat: NDArray[np.floating] | None = None


class Replay:
    """Recordings of one model on one clock; what `Session` is for simulations."""

    def __init__(self, mjm: mujoco.MjModel, clips: list[Clip], *, paused: bool = False) -> None:
        for clip in clips:
            check(clip, mjm)
        if len({len(clip.qpos) for clip in clips}) != 1:
            raise InputError(f"the recordings have {[len(clip.qpos) for clip in clips]} worlds: give as many of each")
        self.mjm, self.clips = mjm, clips
        self.duration = max(float(clip.time[-1]) for clip in clips)
        self.speed, self.paused, self.loop = 1.0, paused, True
        self.busy, self.errors = "", []
        self._cursor, self._since = 0.0, time.perf_counter()
        self._lock = threading.Lock()
        self._shown = -1.0
        self._number = 0

    @property
    def nworld(self) -> int:
        return len(self.clips[0].qpos)

    @property
    def cursor(self) -> float:
        """The moment that is shown, from 0 to `duration`, s; assign to move it."""
        return self._cursor

    @cursor.setter
    def cursor(self, value: float) -> None:
        with self._lock:
            self._cursor = min(max(value, 0.0), self.duration)

    def single(self) -> None:
        """Pause, and go on by a frame."""
        self.paused = True
        times = self.clips[0].time
        self.cursor = float(times[min(np.searchsorted(times, self._cursor + 1e-9, "right"), len(times) - 1)])

    def start(self) -> None:
        """Begin to play."""
        self._since = time.perf_counter()

    def stop(self) -> None:
        """Nothing runs by itself."""

    works = False

    def frame(self, timeout: float) -> Frame | None:
        """The frame of this moment, or None if it is the last one again."""
        time.sleep(min(timeout, 1.0 / FPS))
        now = time.perf_counter()
        with self._lock:
            if not self.paused:
                self._cursor += self.speed * (now - self._since)
                if self._cursor > self.duration:
                    self._cursor = 0.0 if self.loop else self.duration
            self._since = now
            cursor = self._cursor
        if cursor == self._shown:
            return None
        self._shown = cursor
        self._number += 1
        return Frame(self._number, tuple(shot(clip, cursor) for clip in self.clips), self.speed, self.paused)


def shot(clip: Clip, moment: float) -> Shot:
    """What was recorded last at a moment."""
    i = int(np.clip(np.searchsorted(clip.time, moment, "right") - 1, 0, len(clip.time) - 1))
    return Shot(
        label=clip.label,
        time=float(clip.time[i]),
        qpos=clip.qpos[:, i],
        qvel=clip.qvel[:, i] if clip.qvel is not None else np.zeros((len(clip.qpos), 0)),
        mocap_pos=None if clip.mocap_pos is None else clip.mocap_pos[:, i],
        mocap_quat=None if clip.mocap_quat is None else clip.mocap_quat[:, i],
    )


def check(clip: Clip, mjm: mujoco.MjModel) -> None:
    """Raise InputError unless a recording is of a model."""
    if clip.qpos.ndim != 3 or clip.qpos.shape[2] != mjm.nq:
        raise InputError(
            f"{clip.label}: qpos has shape {clip.qpos.shape}, the model has nq = {mjm.nq}: it is of another scene"
            "; name it with --scene"
        )
    if clip.time.ndim != 1 or len(clip.time) != clip.qpos.shape[1] or not len(clip.time):
        raise InputError(
            f"{clip.label}: time has shape {clip.time.shape} for {clip.qpos.shape[1]} samples of qpos; record it again"
        )
    if not np.isfinite(clip.time).all() or (np.diff(clip.time) < 0.0).any():
        raise InputError(f"{clip.label}: time must be finite and not decrease")


def from_trajectory(trajectory: Trajectory, label: str = "") -> Clip:
    """A recording of `Simulation.record` or `rollout`."""
    host = trajectory.numpy()
    if "qpos" not in host:
        raise InputError(f"the trajectory has {', '.join(host)}, but no qpos: record it too")
    given = {name: host[name] for name in ("qvel", "mocap_pos", "mocap_quat") if name in host}
    times = np.asarray(host.time[0], dtype=float)
    return Clip(label or trajectory.physics or "recorded", times - times[0], np.asarray(host.qpos), **given)


def read(path: Path, scene: Any | None) -> tuple[mujoco.MjModel, list[Clip]]:
    """The model and the recordings of a file of `Simulation.record`, or of `stickslip run`, `plan` or `retarget`.

    Without a scene, the model is the one in the file, or the scene in the summary of `stickslip run` beside it.
    """
    if path.suffix == ".zarr" or _is_saved(path):
        clips, inside = [from_trajectory(Trajectory.load(path))], None
    else:
        clips, inside = _plain(path)
    if scene is None and inside is not None:
        return mjcf.from_bytes(inside, f"the model in {path}"), clips
    name = _summary(path).get("scene") if scene is None else scene
    if name is None:
        raise InputError(f"{path} does not say of which scene it is: name it with --scene")
    return mjcf.load(name), clips


def _is_saved(path: Path) -> bool:
    """Whether a file is one that `Trajectory.save` wrote."""
    try:
        with zipfile.ZipFile(path) as file:
            return any(name.startswith("trajectory/") for name in file.namelist())
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; check the path") from None
    except zipfile.BadZipFile:
        raise InputError(
            f"{path} is not a file of NumPy (.npz)"
            "; give what `stickslip run`, `plan`, `retarget` or Simulation.record wrote"
        ) from None


def _plain(path: Path) -> tuple[list[Clip], bytes | None]:
    """The recordings of a file of one of our commands, and its model if it has one."""
    with npz.opened(path, "a recording") as file:
        if not {"qpos", "time"} <= set(file):
            raise InputError(
                f"{path} has {', '.join(file) or 'nothing'}: a trajectory has time and qpos"
                "; give what `stickslip run`, `plan`, `retarget` or Simulation.record wrote"
            )
        qpos, times = file["qpos"].astype(float), file["time"].astype(float)
        reference = file["reference_qpos"].astype(float) if "reference_qpos" in file else None
        qvel = file["qvel"].astype(float) if "qvel" in file else None
        model = file["model"].tobytes() if "model" in file else None
    if qpos.ndim == 2:  # of plan and retarget: one world
        label = path.stem if reference is None else "robot"
        found = [Clip(label, times - times[0], qpos[None], None if qvel is None else qvel[None])]
        if reference is not None and reference.shape == qpos.shape:
            found.append(Clip("reference", times - times[0], reference[None]))
        return found, model
    times = times[:, 0] if times.ndim == 2 else times  # of run: (frames, worlds, ...)
    label = _summary(path).get("physics", path.stem)
    swapped = None if qvel is None else np.swapaxes(qvel, 0, 1)
    return [Clip(label, times - times[0], np.swapaxes(qpos, 0, 1), swapped)], model


def _summary(path: Path) -> dict[str, Any]:
    """The settings that `stickslip run` has written beside a trajectory."""
    try:
        return files.read_json(path.parent / "summary.json", "the summary of a run")["settings"]
    except DamagedFile:
        raise
    except (OSError, ValueError, KeyError, TypeError):
        return {}
