"""What a dataset holds, and putting HDF5 files together or into LeRobot's format."""

import collections
import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from stickslip import files, limits
from stickslip.datasets.episode import parsed
from stickslip.datasets.hdf5 import Hdf5Writer
from stickslip.datasets.hdf5_file import SUFFIXES, Hdf5Reader
from stickslip.datasets.lerobot import LeRobotWriter
from stickslip.datasets.lerobot_files import package
from stickslip.errors import InputError


@dataclasses.dataclass(frozen=True)
class Summary:
    """What a dataset holds.

    Attributes:
        format: "HDF5, robomimic's layout" or "LeRobot v3.0"
        episodes: how many
        frames: control steps of all of them
        fps: control steps in a second of simulated time, or None
        features: type and shape of a row, by name
        physics: how many episodes each made
        success: share of the episodes that tell of success and had it; None if none tells
        tasks: in words
    """

    format: str
    episodes: int
    frames: int
    fps: float | None
    features: Mapping[str, tuple[str, tuple[int, ...]]]
    physics: Mapping[str, int]
    success: float | None
    tasks: Sequence[str]


def summary(path: str | os.PathLike[str]) -> Summary:
    """What the file or folder at a path holds; raises InputError if it is no dataset."""
    place = Path(path)
    if place.is_dir():
        return _of_lerobot(place)
    if place.suffix not in SUFFIXES:
        raise InputError(f"{str(place)!r} is no dataset: give a file that ends in {' or '.join(SUFFIXES)}, or a folder")
    with Hdf5Reader(place) as file:
        told = [file.about(name) for name in file.names]
        features = file[0].layout() if len(file) else {}
        steps = sum(file.steps())
        return Summary(
            "HDF5, robomimic's layout",
            len(file),
            steps,
            file.fps,
            features,
            *_counted([info for info, _ in told]),
            tasks=list(dict.fromkeys(task for _, task in told if task)),
        )


def _of_lerobot(folder: Path) -> Summary:
    pa, pq = package()
    about = folder / "meta" / "info.json"
    if not about.is_file():
        raise InputError(f"{str(folder)!r} has no meta/info.json: it is no LeRobot dataset; name its folder")
    info = parsed(files.read_bytes(about, "meta/info.json of LeRobot"), str(about))
    if str(info.get("codebase_version")) != "v3.0":
        raise InputError(
            f"{str(folder)!r} is of version {info.get('codebase_version')!r}: v3.0 is read; convert it with LeRobot"
        )
    told: list[Mapping[str, Any]] = []
    tasks: dict[str, None] = {}
    for path in sorted(folder.glob("meta/episodes/*/*.parquet")):
        try:
            names = [name for name in ("stickslip/info", "tasks") if name in pq.read_schema(path).names]
        except (OSError, pa.ArrowException) as error:
            raise files.damaged(path, "a table of LeRobot", str(error)) from None
        for row in _rows(path, names):
            told.append(parsed(row["stickslip/info"], str(path)) if row.get("stickslip/info") else {})
            tasks |= dict.fromkeys(filter(None, row.get("tasks") or []))
    try:
        return Summary(
            "LeRobot v3.0",
            int(info["total_episodes"]),
            int(info["total_frames"]),
            float(info["fps"]),
            {name: (str(f["dtype"]), tuple(f["shape"])) for name, f in info["features"].items()},
            *_counted(told),
            tasks=list(tasks),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{str(about)!r} is not complete: {error!r}; take a copy of the dataset, or write it again"
        ) from None


def _rows(path: Path, names: Sequence[str]) -> list[dict[str, Any]]:
    """Some columns of a parquet file, whose pages have checksums."""
    pa, pq = package()
    try:
        about = pq.read_metadata(path)
        limits.check("arrays", 8 * about.num_rows * about.num_columns, f"{path} unpacks to too many bytes")
        return pq.read_table(path, columns=list(names), page_checksum_verification=True).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise files.damaged(path, "a table of LeRobot", str(error)) from None


def _counted(told: Sequence[Mapping[str, Any]]) -> tuple[dict[str, int], float | None]:
    """How many episodes of each physics, and the share that succeeded."""
    physics = collections.Counter(str(info["physics"]) for info in told if "physics" in info)
    success = [bool(info["success"]) for info in told if isinstance(info.get("success"), bool)]
    return dict(physics), sum(success) / len(success) if success else None


def convert(
    sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    *,
    fps: float | None = None,
    robot_type: str = "unknown",
    video: bool = True,
    state: Sequence[str] | None = None,
    overwrite: bool = False,
    advance: Callable[[int, int], None] = lambda done, of: None,
) -> int:
    """Write the episodes of HDF5 files, such as shards, to a LeRobot dataset or to one HDF5 file; returns how many.

    Args:
        sources: HDF5 files, in robomimic's layout
        target: a folder; or a file that ends in .hdf5 or .h5, with the model of the first source
        fps: control steps in a second; None: what the first source tells
        robot_type, video, state: as for `LeRobotWriter`
        overwrite: replace a dataset that exists
        advance: is called with the episodes that are done, and their number
    """
    paths = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    place = Path(target)
    if not paths:
        raise InputError("sources is empty: give one HDF5 file at least")
    if any(Path(path).resolve() == place.resolve() for path in paths):
        raise InputError(f"{str(place)!r} is a source too: name another target")
    with Hdf5Reader(paths[0]) as first:
        rate = first.fps if fps is None else fps
        if place.suffix in SUFFIXES:
            whole = all(e.final is not None for e in ([first[0]] if len(first) else []))
            model = first.model() if first.has_model else None
            writer = Hdf5Writer(place, env=first.env_args, model=model, fps=rate, next_obs=whole, overwrite=overwrite)
        else:
            if rate is None:
                raise InputError(f"{str(paths[0])!r} does not tell its rate: give fps, control steps in a second")
            writer = LeRobotWriter(
                place, fps=rate, robot_type=robot_type, video=video, state=state, overwrite=overwrite
            )
    counts = []
    for path in paths:
        with Hdf5Reader(path) as file:
            counts.append(len(file))
    done = 0
    try:
        for path in paths:
            with Hdf5Reader(path) as file:
                for episode in file:
                    writer.write(episode)
                    done += 1
                    advance(done, sum(counts))
        writer.close()
    finally:
        writer.discard()  # unless it is closed: a part of the episodes is no dataset
    return done
