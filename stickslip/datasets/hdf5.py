"""HDF5 in robomimic's layout: `data/demo_N` with observations, actions, rewards, dones and states; the model beside."""

import os
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

import stickslip
from stickslip import files, mjcf
from stickslip.datasets.episode import Episode, parsed, written
from stickslip.datasets.hdf5_file import SUFFIXES, array, contents, created, names, opened, package, seal
from stickslip.datasets.parts import Layout, Parts, PartsWriter
from stickslip.errors import InputError

if TYPE_CHECKING:
    import mujoco

_GYM = 2
"""robomimic's number for environments of Gym."""


class Hdf5Writer(PartsWriter):
    """Writes episodes to one HDF5 file, as robomimic lays them out. Use it in a `with` block, or call `close`.

    An episode is on the disk, whole, when `write` returns: beside the file, in the folder `NAME.parts`. `close` puts
    the file together. It is complete or absent, and after a crash `append=True` takes up what was written.

    Args:
        path: of the file; ends in .hdf5 or .h5
        env: name of the environment, or all of robomimic's `env_args`: `env_name`, `type`, `env_kwargs`
        model: MJCF text, or a compiled model; needed to replay
        fps: control steps in a second of simulated time
        next_obs: write `next_obs` too; the last row is `Episode.final`
        valid: share of the episodes in `mask/valid`; the others are in `mask/train`
        compression: of all arrays; None: quickest to read
        append: go on with a file that exists, or with what a crash left
        overwrite: replace a file that exists
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        env: str | Mapping[str, Any] = "",
        model: "str | mujoco.MjModel | None" = None,
        fps: float | None = None,
        next_obs: bool = True,
        valid: float = 0.0,
        compression: Literal["gzip", "lzf"] | None = None,
        append: bool = False,
        overwrite: bool = False,
    ) -> None:
        self.path = Path(path)
        package()
        if self.path.suffix not in SUFFIXES:
            raise InputError(f"{str(self.path)!r}: give a file that ends in {' or '.join(SUFFIXES)}")
        if not 0.0 <= valid < 1.0:
            raise InputError(f"valid is {valid!r}: it must be a share, at least 0 and below 1")
        if compression not in (None, "gzip", "lzf"):
            raise InputError(f"compression is {compression!r}: give None, 'gzip' or 'lzf'")
        if fps is not None and not 0.0 < fps < 1e6:
            raise InputError(f"fps is {fps!r}: it must be a positive number of control steps a second")
        if self.path.is_dir() or (self.path.exists() and not (append or overwrite)):
            raise InputError(f"{str(self.path)!r} exists: name another file, or give append=True or overwrite=True")
        self._id = uuid.uuid4().hex
        self._next_obs, self._valid, self._compression = next_obs, valid, compression
        self._parts = Parts(self.path, append=append, overwrite=overwrite)
        try:
            self._base = self.path if append and self.path.exists() else None
            self._layout, self._head = self._begin(env, model, fps)
        except BaseException:
            self._parts.release()
            raise
        self._count = (0 if self._base is None else len(names(self._base))) + self._parts.found
        self.is_open = True

    def _begin(self, env: str | Mapping[str, Any], model: Any, fps: float | None) -> tuple[Layout, dict[str, Any]]:
        """The layout of earlier episodes, and the attributes; the model is put aside."""
        env_args = {"env_name": env, "type": _GYM, "env_kwargs": {}} if isinstance(env, str) else dict(env)
        head: dict[str, Any] = {"env_args": written(env_args)}
        if fps is not None:
            head["fps"] = float(fps)
        if isinstance(model, str):
            if not model.lstrip().startswith("<"):
                raise InputError(f"model is {model[:60]!r}: give MJCF text, which begins with <, or a mujoco.MjModel")
            head["model_file"] = model
        elif model is not None:
            head["model"] = binary(model)
        kept = self._parts.folder / "head.hdf5"
        if self._parts.found and self._base is not None and _writer(kept) == _writer(self._base):
            self._parts.forget()  # a crash came after the file was put together
        self._kept = bool(self._parts.found)
        source = kept if self._kept else self._base
        layout = Layout()
        if source is not None:  # what earlier episodes came with stands; a model must not change
            with opened(source) as file:
                before = _head(file)
                told = parsed(before.pop("stickslip", "{}"), f"{source}: the attribute stickslip")
            if told.get("layout"):
                layout = Layout.parsed(told["layout"])
            for name in ("model", "model_file"):
                if name in head and not np.array_equal(head[name], before.get(name, "")):
                    raise InputError(f"{str(self.path)!r} has another model: leave model out, or name another file")
            head = before
            if self._kept:
                self._id = told["writer"]
        return layout, head

    def write(self, episode: Episode) -> None:
        """Add an episode; it is on the disk when this returns."""
        if not self.is_open:
            raise InputError(f"the writer of {str(self.path)!r} is closed: open another with append=True")
        missing = [n for n in [*episode.observations, *episode.images] if n not in (episode.final or {})]
        if self._next_obs and missing:
            raise InputError(f"final has no {missing[0]!r}: give the last observation, or next_obs=False")
        with self._layout.checked(episode):
            if not self._kept:
                self._keep_head()
            self._parts.add(lambda folder: self._write(folder / "episode.hdf5", episode))
        self._kept = True
        self._count += 1

    def _keep_head(self) -> None:
        """Put attributes and model beside the episodes, for after a crash."""
        fresh = self._parts.folder / f".{uuid.uuid4().hex}"
        with created(fresh) as file:
            self._write_head(file)
        fresh.rename(self._parts.folder / "head.hdf5")

    def _write_head(self, file: Any) -> Any:
        about = {"format": 1, "writer": self._id, "version": stickslip.__version__, "layout": self._layout.written()}
        group = file.create_group("data")
        for name, value in self._head.items():
            if name == "model":
                seal(file.create_dataset("model", data=value), {"model": value})
            else:
                group.attrs[name] = value
        group.attrs["stickslip"] = written(about)
        seal(group, {})
        return group

    def _write(self, path: Path, episode: Episode) -> None:
        with created(path) as file:
            demo = file.create_group("demo")
            demo.attrs["num_samples"] = np.int64(len(episode))
            demo.attrs["terminated"], demo.attrs["truncated"] = episode.terminated, episode.truncated
            demo.attrs["task"], demo.attrs["info"] = episode.task, written(episode.info)
            arrays = {"actions": episode.actions, "rewards": episode.rewards, "dones": episode.dones.astype(np.uint8)}
            arrays |= {"states": episode.states, "controls": episode.controls, "final_state": episode.final_state}
            arrays |= {f"model_fields/{name}": value for name, value in episode.model_fields.items()}
            seen = {**episode.observations, **episode.images}
            arrays |= {f"obs/{name}": value for name, value in seen.items()}
            final = episode.final or {}
            if self._next_obs:
                arrays |= {f"next_obs/{n}": np.concatenate([v[1:], final[n][None]]) for n, v in seen.items()}
            else:
                arrays |= {f"final/{name}": value for name, value in final.items()}
            for name, value in arrays.items():
                if value is not None:
                    self._store(demo, name, value)
            demo.require_group("obs").attrs["images"] = written({"images": list(episode.images)})
            seal(demo, contents(demo))

    def _store(self, demo: Any, name: str, value: NDArray[Any]) -> None:
        squeezed = self._compression is not None and value.ndim > 0 and value.size > 0
        chunks = (1, *value.shape[1:]) if value.ndim == 4 and value.dtype == np.uint8 else True
        more = {"compression": self._compression, "chunks": chunks} if squeezed else {}
        demo.create_dataset(name, data=value, **more)

    def close(self) -> None:
        """Put the file together; without an episode there is none."""
        if not self.is_open:
            return
        self.is_open = False
        whole = self._parts.whole()
        if not whole:
            self._parts.remove()
            return
        fresh = self.path.parent / f".{self.path.name}.{uuid.uuid4().hex}.tmp"
        try:
            with created(fresh) as file:
                self._assemble(file, whole)
            with open(fresh, "rb+") as handle:
                os.fsync(handle.fileno())
            fresh.replace(self.path)
        except BaseException:
            fresh.unlink(missing_ok=True)
            self._parts.release()  # the episodes stay
            raise
        self._parts.remove()

    def _assemble(self, file: Any, whole: list[Path]) -> None:
        data = self._write_head(file)
        total, train, valid, success = 0, [], [], []
        for source, group in _sources(self._base, whole):
            index = len(train) + len(valid)
            name = f"demo_{index}"
            source.copy(group, data, name=name)
            total += int(data[name].attrs["num_samples"])
            chosen = int((index + 1) * self._valid) > int(index * self._valid)
            (valid if chosen else train).append(name)
            if parsed(data[name].attrs["info"], name).get("success") is True:
                success.append(name)
        data.attrs["total"] = np.int64(total)
        seal(data, {})
        for key, members in (("train", train), ("valid", valid), ("success", success)):
            if members:
                file.create_dataset(f"mask/{key}", data=np.array(members, dtype="S"))


def binary(model: Any) -> NDArray[np.uint8]:
    """A compiled model in MuJoCo's binary form."""
    import mujoco

    if not isinstance(model, mujoco.MjModel):
        raise InputError(f"model is of type {type(model).__name__}: give MJCF text or a mujoco.MjModel")
    return np.frombuffer(mjcf.to_bytes(model), dtype=np.uint8)


def _writer(path: Path) -> str:
    """Which writer made a file, or began to."""
    with opened(path) as file:
        return parsed(file["data"].attrs.get("stickslip", "{}"), f"{path}: the attribute stickslip").get("writer", "")


def _head(file: Any) -> dict[str, Any]:
    """Attributes and model of a file."""
    head = {name: value for name, value in file["data"].attrs.items() if name not in ("total", files.CHECKSUM)}
    model = array(file, "model")
    return head if model is None else {**head, "model": model}


def _sources(base: Path | None, whole: list[Path]) -> Iterator[tuple[Any, Any]]:
    """Open files and the group of an episode in them."""
    if base is not None:
        with opened(base) as file:
            for name in names(base):
                yield file, file[f"data/{name}"]
    for part in whole:
        with opened(part / "episode.hdf5", demo=True) as file:
            yield file, file["demo"]
