"""Reading HDF5 files in robomimic's layout, and opening them safely."""

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from stickslip import files, limits
from stickslip.datasets.episode import Episode, parsed
from stickslip.datasets.parts import SUFFIX
from stickslip.errors import InputError, MissingExtra

if TYPE_CHECKING:
    import mujoco


SUFFIXES = (".hdf5", ".h5")


class Hdf5Reader:
    """Reads the episodes of a file in robomimic's layout, one at a time: `with Hdf5Reader(path) as file: file[0]`.

    Attributes:
        path: of the file
        names: of the episodes, `demo_0`, `demo_1`, ...
        env_args: what robomimic makes an environment from
        fps: control steps in a second of simulated time, or None
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.names = names(self.path)
        self._file = _open(self.path)
        with _told(self.path):
            check(self._file["data"], {}, self.path)
            head = dict(self._file["data"].attrs)
        self.env_args = parsed(head["env_args"], f"{self.path}: env_args") if "env_args" in head else {}
        self.fps = float(head["fps"]) if "fps" in head else None

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[Episode]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, which: int | str) -> Episode:
        name = which if isinstance(which, str) else f"demo_{which}"
        if isinstance(which, int) and -len(self) <= which < len(self):
            name = self.names[which]
        if name not in self.names:
            raise InputError(f"{str(self.path)!r} has no episode {which!r}: it has {len(self)}, from 0 on")
        with _told(self.path):
            return self._episode(self._file[f"data/{name}"], name)

    def _episode(self, demo: Any, name: str) -> Episode:
        arrays = contents(demo)
        check(demo, arrays, self.path)
        told = dict(demo.attrs)
        seen = _within(arrays, "obs")
        cameras = demo["obs"].attrs.get("images") if "obs" in demo else None
        shot = set(parsed(cameras, name)["images"]) if cameras is not None else _guessed(seen)
        final = {n: a[-1] for n, a in _within(arrays, "next_obs").items()} or _within(arrays, "final")
        names = ("actions", "rewards", "dones", "states", "controls", "final_state")
        one = {key: arrays.get(key) for key in names}
        if one["actions"] is None:
            raise InputError(
                f"{str(self.path)!r}: {name} has no actions, so it is no episode of robomimic's layout"
                "; give a file that robomimic or Hdf5Writer wrote"
            )
        over = one["dones"] is not None and bool(one["dones"][-1])
        return Episode(
            {n: a for n, a in seen.items() if n not in shot},
            one["actions"],
            one["rewards"] if one["rewards"] is not None else np.zeros(len(one["actions"])),
            bool(told.get("terminated", over)),
            bool(told.get("truncated", False)),
            one["states"],
            one["controls"],
            {n: a for n, a in seen.items() if n in shot},
            final or None,
            one["final_state"],
            _within(arrays, "model_fields"),
            str(told.get("task", "")),
            parsed(told.get("info", "{}"), f"{self.path}: info of {name}"),
        )

    def model(self) -> "mujoco.MjModel":
        """The model that was stored. A binary one is read by MuJoCo without checks: take it from people you trust."""
        import mujoco

        from stickslip import mjcf

        found = array(self._file, "model")
        if found is not None:
            check(self._file["model"], {"model": found}, self.path)
            return mujoco.MjModel.from_binary_path("model.mjb", {"model.mjb": found.tobytes()})
        text = self._file["data"].attrs.get("model_file")
        if text is None and self.names:
            text = self._file[f"data/{self.names[0]}"].attrs.get("model_file")
        if text is None or not str(text).lstrip().startswith("<"):
            raise InputError(f"{str(self.path)!r} has no model: give the one that it was recorded with")
        return mjcf.load(str(text))

    @property
    def has_model(self) -> bool:
        """Whether a model is stored with the episodes."""
        return "model" in self._file or "model_file" in self._file["data"].attrs

    def about(self, name: str) -> tuple[dict[str, Any], str]:
        """What an episode tells of itself, and its task."""
        told = self._file[f"data/{name}"].attrs
        return parsed(told.get("info", "{}"), f"{self.path}: info of {name}"), str(told.get("task", ""))

    def steps(self) -> list[int]:
        """Control steps of each episode."""
        return [int(self._file[f"data/{name}"].attrs["num_samples"]) for name in self.names]

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def contents(group: Any, depth: int = 1) -> dict[str, NDArray[Any]]:
    """All arrays of a group and of the groups in it, by their path in it."""
    limits.check("depth", depth, f"{group.file.filename} has more groups within each other")  # they may form a ring
    found: dict[str, NDArray[Any]] = {}
    for name in group:
        if hasattr(group.get(name), "keys"):
            found |= {f"{name}/{key}": inner for key, inner in contents(group[name], depth + 1).items()}
        elif (one := array(group, name)) is not None:
            found[name] = one
    return found


def seal(group: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Give a group a checksum of its attributes and of arrays in it."""
    group.attrs[files.CHECKSUM] = _digest(group, arrays)


def check(group: Any, arrays: Mapping[str, NDArray[Any]], path: Path) -> None:
    """Raise DamagedFile if a group has another checksum than its own; files of earlier versions have none."""
    known = group.attrs.get(files.CHECKSUM)
    if known is not None and str(known) != _digest(group, arrays):
        raise files.damaged(path, "a file of episodes", f"{group.name} does not have the checksum stored with it")


def _digest(group: Any, arrays: Mapping[str, NDArray[Any]]) -> str:
    told = [(name, np.asarray(value).tolist()) for name, value in group.attrs.items() if name != files.CHECKSUM]
    if hasattr(group, "keys") and "obs" in group:
        told += [("obs", np.asarray(value).tolist()) for value in group["obs"].attrs.values()]
    found = hashlib.sha256(repr(sorted(told, key=repr)).encode())
    for name in sorted(arrays):
        one = arrays[name]
        found.update(f"{name} {one.dtype.str} {one.shape}".encode())
        found.update(np.ascontiguousarray(one).tobytes())
    return files.SEAL + found.hexdigest()


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turn what h5py raises for a broken file into DamagedFile."""
    try:
        yield
    except InputError:
        raise
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError, MemoryError) as error:
        raise files.damaged(path, "a file of episodes", f"HDF5 says {error}") from None


def names(path: Path) -> list[str]:
    """Names of the episodes of a file, by number."""
    with opened(path) as file, _told(path):
        found = list(file["data"])
    known = [name for name in found if name.startswith("demo_") and name[5:].isdigit()]
    return sorted(known, key=lambda name: int(name[5:]))


def _guessed(seen: Mapping[str, NDArray[Any]]) -> set[str]:
    """Names of what looks like pictures, in files of others."""
    return {name for name, a in seen.items() if a.dtype == np.uint8 and a.ndim == 4 and a.shape[3] == 3}


def array(group: Any, name: str) -> NDArray[Any] | None:
    """An array of a group itself: links to other files are refused."""
    import h5py

    if name not in group:
        return None
    if not isinstance(group.get(name, getlink=True), h5py.HardLink) or group[name].external:
        raise InputError(f"{name!r} lies in another file: only arrays of the file itself are read")
    limits.check("arrays", group[name].nbytes, f"{group.file.filename}: {name} has too many bytes")
    return group[name][()]


def _within(arrays: Mapping[str, NDArray[Any]], group: str) -> dict[str, NDArray[Any]]:
    """The arrays of a group, by their names in it."""
    return {name.removeprefix(f"{group}/"): one for name, one in arrays.items() if name.startswith(f"{group}/")}


def package() -> Any:
    """h5py; raises MissingExtra without it."""
    try:
        import h5py
    except ImportError:
        raise MissingExtra("HDF5 files need h5py: pip install 'stickslip[datasets]'") from None
    return h5py


def _open(path: Path) -> Any:
    """An HDF5 file to read; raises InputError if there is none."""
    h5py = package()
    if not path.is_file():
        parts = path.with_name(path.name + SUFFIX)
        left = f": {str(parts)!r} holds episodes; put them together by Hdf5Writer({str(path)!r}, append=True).close()"
        raise InputError(f"there is no file {str(path)!r}" + (left if parts.is_dir() else ""))
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise InputError(f"{str(path)!r} is not an HDF5 file, or cut short: {error}; take a copy of it") from None


@contextlib.contextmanager
def opened(path: Path, *, demo: bool = False) -> Iterator[Any]:
    """A file of episodes, or with `demo` of one episode on its way there."""
    with _open(path) as file:
        if ("demo" if demo else "data") not in file:
            raise InputError(
                f"{str(path)!r} has no group 'data': it is not of robomimic's layout"
                "; give a file that robomimic or Hdf5Writer wrote"
            )
        yield file


@contextlib.contextmanager
def created(path: Path) -> Iterator[Any]:
    """A fresh HDF5 file; errors of the disk are OSError, and name it."""
    try:
        with package().File(path, "w", libver=("earliest", "v110")) as file:
            yield file
    except RuntimeError as error:  # h5py's, of a full disk, when it closes
        raise OSError(5, str(error), str(path)) from error
