"""The files of LeRobot v3.0: frames and episodes in parquet, videos, and what `meta` says of them."""

import dataclasses
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stickslip import files
from stickslip.datasets import video as videos
from stickslip.datasets.statistics import Stats, Total, listed, of_counts, of_rows
from stickslip.errors import MissingExtra

_FILE = "chunk-{chunk_index:03d}/file-{file_index:03d}"
_MB = 1 << 20
_ROWS = 256
"""Episodes whose metadata are written at once."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """Sizes of files, as `info.json` has them."""

    data_files_size_in_mb: float
    video_files_size_in_mb: float
    chunks_size: int


def package() -> tuple[Any, Any]:
    """pyarrow and its parquet; raises MissingExtra without them."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra("LeRobot datasets need pyarrow: pip install 'stickslip[datasets]'") from None
    return pyarrow, pyarrow.parquet


def png(frame: NDArray[np.uint8]) -> bytes:
    """A picture (height, width, 3) as a PNG file."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(frame).save(buffer, format="PNG")
    return buffer.getvalue()


def column(rows: NDArray[Any]) -> Any:
    """An array (T, ...) as a column: numbers if a row has one entry, lists of fixed length for vectors, else nested."""
    pa, _ = package()
    flat = pa.array(np.ascontiguousarray(rows).reshape(-1))
    shape = rows.shape[1:]
    if shape in ((), (1,)):
        return flat
    if len(shape) == 1:
        return pa.FixedSizeListArray.from_arrays(flat, shape[0])
    for size in reversed(shape):
        flat = pa.ListArray.from_arrays(pa.array(np.arange(0, len(flat) + 1, size, dtype=np.int32)), flat)
    return flat


def feature_table(path: Path, columns: Mapping[str, NDArray[Any]], pictures: Mapping[str, Sequence[bytes]]) -> None:
    """Write the frames of an episode, without what depends on its place in the dataset."""
    pa, pq = package()
    arrays = {name: column(rows) for name, rows in columns.items()}
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    arrays |= {n: pa.array([{"bytes": p, "path": None} for p in each], type=kind) for n, each in pictures.items()}
    pq.write_table(pa.table(arrays), path, write_page_checksum=True)


class _Place:
    """Which file comes next: chunk, number in it, and the bytes that it has so far."""

    def __init__(self, limit: float, chunks_size: int) -> None:
        self.chunk = self.file = self.size = 0
        self._limit, self._chunks_size = limit * _MB, chunks_size

    def take(self, size: int) -> bool:
        """Make room for so many bytes; whether that begins another file. A file has one episode at least."""
        full = self.size > 0 and self.size + size > self._limit
        if full:
            carry, self.file = divmod(self.file + 1, self._chunks_size)
            self.chunk += carry
            self.size = 0
        self.size += size
        return full

    def path(self, root: Path, suffix: str) -> Path:
        path = root / (_FILE.format(chunk_index=self.chunk, file_index=self.file) + suffix)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


class _Tables:
    """Parquet files of one schema, one after another."""

    def __init__(self, root: Path, place: _Place) -> None:
        self._root, self.place, self._writer = root, place, None

    def next(self, size: int) -> None:
        """Choose the file for so many bytes."""
        if self.place.take(size):
            self.close()

    def add(self, table: Any) -> None:
        if self._writer is None:
            path = self.place.path(self._root, ".parquet")
            self._writer = package()[1].ParquetWriter(
                path, table.schema, compression="snappy", write_page_checksum=True
            )
        self._writer.write_table(table)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class _Video:
    """The videos of one camera: streams are gathered until a file is full."""

    def __init__(self, root: Path, place: _Place, fps: int) -> None:
        self._root, self._place, self._fps = root, place, fps
        self._streams: list[Path] = []
        self._frames = 0

    def add(self, stream: Path, frames: int) -> dict[str, Any]:
        """Add an episode; where it is."""
        chunk, file = self._place.chunk, self._place.file
        if self._place.take(stream.stat().st_size):
            self._write(chunk, file)
        self._streams.append(stream)
        begin, self._frames = self._frames, self._frames + frames
        where = {"chunk_index": self._place.chunk, "file_index": self._place.file}
        return where | {"from_timestamp": begin / self._fps, "to_timestamp": self._frames / self._fps}

    def _write(self, chunk: int, file: int) -> None:
        path = self._root / (_FILE.format(chunk_index=chunk, file_index=file) + ".mp4")
        path.parent.mkdir(parents=True, exist_ok=True)
        videos.join(self._streams, self._fps, path)
        self._streams, self._frames = [], 0

    def close(self) -> None:
        self._write(self._place.chunk, self._place.file)


def assemble(root: Path, parts: Sequence[Path], fps: int, robot_type: str, video: bool, limits: Limits) -> None:
    """Put a dataset together from the folders of its episodes."""
    pa, pq = package()
    first = next(_told(parts))
    cameras = {name: f"observation.images.{name}" for name in first["shapes"]}
    tasks: dict[str, int] = {}
    bounds: dict[str, tuple[Any, Any]] = {}
    frames = 0
    for told in _told(parts):  # what has to be known before: tasks, and bounds of the values
        told_task = tasks.setdefault(told["task"], len(tasks))
        own = _own(told["length"], fps, 0, frames, told_task)
        own["episode_index"] = np.full(told["length"], len(parts) - 1)
        stats = told["stats"] | listed({name: of_rows(rows) for name, rows in own.items()})
        for name, each in stats.items():
            low, high = np.array(each["min"], dtype=float), np.array(each["max"], dtype=float)
            before = bounds.get(name, (low, high))
            bounds[name] = (np.minimum(before[0], low), np.maximum(before[1], high))
        frames += told["length"]
    bounds["episode_index"] = (np.zeros(1), np.array([len(parts) - 1.0]))
    totals = {name: Total(low, high) for name, (low, high) in bounds.items()}
    counts = {name: np.zeros((3, 256), dtype=np.int64) for name in cameras}
    data = _Tables(root / "data", _Place(limits.data_files_size_in_mb, limits.chunks_size))
    rows = _Episodes(_Tables(root / "meta" / "episodes", _Place(limits.data_files_size_in_mb, limits.chunks_size)))
    films = {
        name: _Video(root / "videos" / key, _Place(limits.video_files_size_in_mb, limits.chunks_size), fps)
        for name, key in (cameras.items() if video else ())
    }
    begin = 0
    table = None
    for index, (part, told) in enumerate(zip(parts, _told(parts), strict=True)):
        length = told["length"]
        own = _own(length, fps, index, begin, tasks[told["task"]])
        try:
            table = pq.read_table(part / "data.parquet", page_checksum_verification=True)
        except (OSError, pa.ArrowException) as error:
            raise files.damaged(part / "data.parquet", "the frames of an episode", str(error)) from None
        stats = told["stats"] | listed({name: of_rows(values) for name, values in own.items()})
        for name in told["stats"]:
            totals[name].add(_values(table[name], told["stats"][name]))
        for name, values in own.items():
            totals[name].add(values)
            table = table.append_column(name, column(values))
        for name, key in cameras.items():
            counts[name] += np.array(told["counts"][name])
            stats[key] = listed({"": of_counts(np.array(told["counts"][name]), length)})[""]
        data.next((part / "data.parquet").stat().st_size)
        data.add(table)
        row = {"episode_index": index, "tasks": [told["task"]], "length": length}
        row |= {"data/chunk_index": data.place.chunk, "data/file_index": data.place.file}
        row |= {"dataset_from_index": begin, "dataset_to_index": begin + length}
        for name, film in films.items():
            where = film.add(part / f"{name}.h264", length)
            row |= {f"videos/{cameras[name]}/{key}": value for key, value in where.items()}
        row |= {f"stats/{name}/{key}": value for name, each in stats.items() for key, value in each.items()}
        rows.add(row | {"stickslip/info": json.dumps(told["info"])})
        begin += length
    for each in (data, rows, *films.values()):
        each.close()
    stats_of: dict[str, Stats] = {name: total.stats() for name, total in totals.items()}
    stats_of |= {key: of_counts(counts[name], frames) for name, key in cameras.items()}
    files.write_json(root / "meta" / "stats.json", listed(stats_of), checksum=False)  # for LeRobot to read
    _write_tasks(root / "meta" / "tasks.parquet", tasks)
    features = _features(table, first, fps, video)
    info = {
        "codebase_version": "v3.0",
        "robot_type": robot_type,
        "total_episodes": len(parts),
        "total_frames": frames,
        "total_tasks": len(tasks),
        **dataclasses.asdict(limits),
        "fps": fps,
        "splits": {"train": f"0:{len(parts)}"},
        "data_path": f"data/{_FILE}.parquet",
        "video_path": f"videos/{{video_key}}/{_FILE}.mp4" if films else None,
        "features": features,
    }
    files.write_json(root / "meta" / "info.json", info, checksum=False)


class _Episodes:
    """`meta/episodes`: one row an episode, written some at a time."""

    def __init__(self, tables: _Tables) -> None:
        self._tables, self._rows, self._schema = tables, [], None

    def add(self, row: dict[str, Any]) -> None:
        size = len(row["stickslip/info"]) + 8 * sum(map(_numbers_in, row.values()))
        if self._tables.place.size and self._tables.place.size + size > self._tables.place._limit:
            self._flush()
        self._tables.next(size)
        place = {"meta/episodes/chunk_index": self._tables.place.chunk}
        self._rows.append(row | place | {"meta/episodes/file_index": self._tables.place.file})
        if len(self._rows) >= _ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            table = package()[0].Table.from_pylist(self._rows, schema=self._schema)
            self._schema, self._rows = table.schema, []
            self._tables.add(table)

    def close(self) -> None:
        self._flush()
        self._tables.close()


def _numbers_in(value: Any) -> int:
    return sum(map(_numbers_in, value)) if isinstance(value, list) else 1


def _told(parts: Sequence[Path]) -> Iterator[dict[str, Any]]:
    return (files.read_json(part / "episode.json", "an episode") for part in parts)


def _own(length: int, fps: int, episode: int, begin: int, task: int) -> dict[str, NDArray[Any]]:
    """The features that LeRobot adds to each frame, (T,)."""
    frame = np.arange(length)
    return {
        "timestamp": (frame / fps).astype(np.float32),
        "frame_index": frame,
        "episode_index": np.full(length, episode),
        "index": frame + begin,
        "task_index": np.full(length, task),
    }


def _values(stored: Any, stats: Mapping[str, Any]) -> NDArray[Any]:
    """A column as an array (T, ...), of the shape of its statistics."""
    array = stored.combine_chunks()
    rows = len(array)
    while hasattr(array, "flatten") and package()[0].types.is_nested(array.type):
        array = array.flatten()
    return array.to_numpy(zero_copy_only=False).reshape(rows, *np.shape(stats["min"]))


def _features(table: Any, first: Mapping[str, Any], fps: int, video: bool) -> dict[str, Any]:
    """What `info.json` says of each feature."""
    pa, _ = package()
    found: dict[str, Any] = {}
    for name, shape in first["shapes"].items():
        feature = {"dtype": "video" if video else "image", "shape": shape, "names": ["height", "width", "channels"]}
        if video:
            feature["info"] = {
                "video.height": shape[0],
                "video.width": shape[1],
                "video.codec": "h264",
                "video.pix_fmt": "yuv420p",
                "video.is_depth_map": False,
                "video.fps": fps,
                "video.channels": 3,
                "has_audio": False,
            }
        found[f"observation.images.{name}"] = feature
    for field in table.schema:
        if field.name in found:
            continue
        kind = field.type
        while pa.types.is_nested(kind):
            kind = kind.value_type
        shape = list(np.shape(first["stats"][field.name]["min"])) if field.name in first["stats"] else [1]
        names = first["names"].get(field.name)
        dtype = {"float": "float32", "double": "float64"}.get(str(kind), str(kind))
        found[field.name] = {"dtype": dtype, "shape": shape, "names": names}
    return found


def _write_tasks(path: Path, tasks: Mapping[str, int]) -> None:
    """`meta/tasks.parquet`: numbers of the tasks, which index them; pandas finds the index by the metadata."""
    pa, pq = package()
    table = pa.table({"task_index": pa.array(list(tasks.values()), pa.int64()), "task": pa.array(list(tasks))})
    kinds = (("task_index", "int64", "int64"), ("task", "unicode", "object"))
    told = {
        "index_columns": ["task"],
        "column_indexes": [],
        "columns": [
            {"name": name, "field_name": name, "pandas_type": kind, "numpy_type": stored, "metadata": None}
            for name, kind, stored in kinds
        ],
        "creator": {"library": "pyarrow", "version": pa.__version__},
        "pandas_version": "2.0.0",
    }
    pq.write_table(table.replace_schema_metadata({"pandas": json.dumps(told)}), path, write_page_checksum=True)
