"""LeRobot v3.0, written by pyarrow and ffmpeg, without the package lerobot."""

import json
import os
import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stickslip import files
from stickslip.datasets import statistics, video
from stickslip.datasets.episode import Episode, written
from stickslip.datasets.lerobot_files import Limits, assemble, feature_table, package, png
from stickslip.datasets.parts import Layout, Parts, PartsWriter
from stickslip.errors import InputError


class LeRobotWriter(PartsWriter):
    """Writes episodes to a folder of the format LeRobot v3.0. Use it in a `with` block, or call `close`.

    An episode is on the disk, whole, when `write` returns: beside the folder, in `NAME.parts`. `close` puts the folder
    together. It is complete or absent, and after a crash `append=True` takes up what was written.

    Floating-point numbers become float32, as LeRobot's own.

    Args:
        folder: of the dataset; made
        fps: control steps in a second of simulated time, a whole number
        robot_type: name of the robot
        state: observations that are joined, in this order, to `observation.state`; None: the one named "state", or else
            all vectors of floating-point numbers. Each other observation becomes `observation.NAME`
        video: pictures become videos, by ffmpeg; else they are stored as PNG, without loss
        crf: of H.264: 0 is the best, 51 the smallest
        data_files_size_in_mb: size above which another file of frames is begun
        video_files_size_in_mb: size above which another video is begun
        chunks_size: files in a folder
        append: take up what a crash left
        overwrite: replace a dataset that exists
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        fps: float,
        robot_type: str = "unknown",
        state: Sequence[str] | None = None,
        video: bool = True,
        crf: int = 20,
        data_files_size_in_mb: float = 100,
        video_files_size_in_mb: float = 200,
        chunks_size: int = 1000,
        append: bool = False,
        overwrite: bool = False,
    ) -> None:
        self.folder = Path(folder)
        package()
        if abs(fps - round(fps)) > 1e-6 * fps or not 1 <= round(fps) <= 100_000:
            raise InputError(
                f"fps is {fps!r}: LeRobot needs a whole number of frames a second; "
                "choose a control step of 1/fps, such as 0.02 s"
            )
        if not 0 <= crf <= 51:
            raise InputError(f"crf is {crf!r}: it must be from 0, the best, to 51")
        sizes = (data_files_size_in_mb, video_files_size_in_mb, chunks_size)
        if min(sizes) <= 0 or chunks_size != int(chunks_size):
            raise InputError(f"limits of files are {sizes}: sizes and chunks_size must be positive, the last one whole")
        if self.folder.exists():
            if not overwrite:
                raise InputError(f"{str(self.folder)!r} exists: name another folder, or give overwrite=True")
            if not (self.folder / "meta" / "info.json").is_file():
                raise InputError(f"{str(self.folder)!r} is no LeRobot dataset, and is left alone: name another folder")
        self._fps, self._robot_type, self._video, self._crf = round(fps), robot_type, video, crf
        self._state = None if state is None else tuple(state)
        self._limits = Limits(data_files_size_in_mb, video_files_size_in_mb, int(chunks_size))
        self._parts = Parts(self.folder, append=append, overwrite=overwrite)
        self._count = self._parts.found
        self._layout, self._settings = Layout(), self._parts.folder / "layout.json"
        if self._count:
            before = files.read_json(self._settings, "the settings of a LeRobotWriter")
            self._layout = Layout.parsed(before.pop("layout"))
            for name, value in before.items():
                if self._own_settings()[name] != value:
                    now = self._own_settings()[name]
                    self._parts.release()
                    raise InputError(f"{name} is {now!r}, and was {value!r} for what a crash left: give it again")
        self.is_open = True

    def _own_settings(self) -> dict[str, Any]:
        """What has to stay the same when another writer takes up the episodes."""
        return {"fps": self._fps, "video": self._video, "state": None if self._state is None else list(self._state)}

    def write(self, episode: Episode) -> None:
        """Add an episode; it is on the disk when this returns."""
        if not self.is_open:
            raise InputError(f"the writer of {str(self.folder)!r} is closed: open another for another folder")
        if self._video:
            for camera, frames in episode.images.items():
                video.check(camera, frames.shape[1:])
            if episode.images:
                video.program()
        with self._layout.checked(episode):
            if not self._count:
                files.write_json(self._settings, {"layout": self._layout.written(), **self._own_settings()})
            self._parts.add(lambda folder: self._write(folder, episode))
        self._count += 1

    def _write(self, folder: Path, episode: Episode) -> None:
        with np.errstate(over="ignore"):  # told below
            columns, names = self._columns(episode)
        told: dict[str, Any] = {
            "length": len(episode),
            "task": episode.task,
            "names": names,
            "info": json.loads(written(episode.info)) | {"terminated": episode.terminated},
            "stats": statistics.listed({name: statistics.of_rows(rows) for name, rows in columns.items()}),
            "counts": {},
            "shapes": {},
        }
        encoded: dict[str, list[bytes]] = {}
        for camera, frames in episode.images.items():
            told["counts"][camera] = statistics.counts_of(frames).tolist()
            told["shapes"][camera] = list(frames.shape[1:])
            if self._video:
                video.encode(frames, self._fps, self._crf, folder / f"{camera}.h264")
            else:
                encoded[f"observation.images.{camera}"] = [png(frame) for frame in frames]
        feature_table(folder / "data.parquet", columns, encoded)
        files.write_json(folder / "episode.json", told)

    def _columns(self, episode: Episode) -> tuple[dict[str, NDArray[Any]], dict[str, list[str]]]:
        """Features of each frame, (T, ...), by LeRobot's names, and names of the entries of vectors."""
        seen = episode.observations
        joined = self._state
        if joined is None:
            joined = (
                ("state",)
                if "state" in seen
                else tuple(n for n, a in seen.items() if a.ndim == 2 and a.dtype.kind == "f")
            )
        for name in joined:
            if name not in seen or seen[name].ndim != 2:
                raise InputError(
                    f"state has {name!r}, which is no observation that is a vector: {sorted(seen)}; choose among these"
                )
        if joined and "state" in seen and "state" not in joined:
            raise InputError(f"state is {joined}, and there is an observation 'state': rename it, or name it in state")
        columns: dict[str, NDArray[Any]] = {}
        names: dict[str, list[str]] = {}
        if joined:
            columns["observation.state"] = np.concatenate([seen[name].astype(np.float32) for name in joined], axis=1)
            names["observation.state"] = [f"{name}[{i}]" for name in joined for i in range(seen[name].shape[1])]
        columns |= {f"observation.{name}": _plain(rows) for name, rows in seen.items() if name not in joined}
        columns["action"] = episode.actions.astype(np.float32)
        columns["next.reward"] = episode.rewards.astype(np.float32)
        columns["next.done"] = episode.dones
        columns["next.truncated"] = episode.dones & episode.truncated
        for name, rows in columns.items():
            if not rows.size:
                raise InputError(f"{name} has no entries, shape {rows.shape}: LeRobot needs one at least; leave it out")
            if not np.isfinite(rows).all():
                raise InputError(f"{name} is beyond single precision, 3.4e38: LeRobot stores float32; scale it")
        return columns, names

    def close(self) -> None:
        """Put the dataset together; without an episode there is none."""
        if not self.is_open:
            return
        self.is_open = False
        if not self._count:
            self._parts.remove()
            return
        fresh = self.folder.parent / f".{self.folder.name}.{uuid.uuid4().hex}.tmp"
        former = self.folder.parent / f".{self.folder.name}.{uuid.uuid4().hex}.old"
        try:
            fresh.mkdir()
            assemble(fresh, self._parts.whole(), self._fps, self._robot_type, self._video, self._limits)
            if self.folder.exists():
                self.folder.rename(former)
            fresh.rename(self.folder)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            if former.exists() and not self.folder.exists():
                former.rename(self.folder)
            self._parts.release()  # the episodes stay
            raise
        shutil.rmtree(former, ignore_errors=True)
        self._parts.remove()


def _plain(rows: NDArray[Any]) -> NDArray[Any]:
    """In the types of LeRobot: float32, int64, bool."""
    return rows.astype({"f": np.float32, "b": np.bool_}.get(rows.dtype.kind, np.int64))
