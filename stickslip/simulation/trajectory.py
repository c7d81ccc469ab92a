"""Trajectory: what a simulation went through, sample by sample, and its files."""

import dataclasses
import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

import stickslip
from stickslip import limits, npz, spec
from stickslip.errors import InputError, MissingExtra, Unsupported, unknown
from stickslip.simulation.shards import Threaded
from stickslip.state import digest

if TYPE_CHECKING:
    from stickslip.simulation.simulation import Simulation

FORMATS = (".npz", ".zarr")
_VERSION = 1
_ABOUT = "trajectory/"
"""Begins the names of what an npz file has besides outputs."""


@dataclasses.dataclass(frozen=True, eq=False)
class Trajectory:
    """Outputs of a simulation after its steps, by name: `trajectory.qpos`, or `trajectory["qpos"]`.

    Arrays have the shape (nworld, nsample, ...) and are NumPy's, unless they were asked for on the device.

    Attributes:
        outputs: the arrays by name; always among them `time`, (nworld, nsample) [s]
        timestep: of the model [s]; of each world, (nworld,), where they differ
        every: steps from one sample to the next
        worlds: numbers of the recorded worlds; None: all
        physics: the physics, as "name:key=value,..."
        model: digest of the structure of the model, as in `State`
        version: of stickslip
    """

    outputs: Mapping[str, Any]
    timestep: Any = None
    every: int = 1
    worlds: tuple[int, ...] | None = None
    physics: str = ""
    model: str = ""
    version: str = ""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "outputs":  # also while it is copied, when there are none yet
            raise AttributeError(name)
        try:
            return self[name]
        except InputError as error:
            raise AttributeError(str(error)) from None

    def __getitem__(self, name: str) -> Any:
        if name not in self.outputs:
            raise unknown("output", name, self.outputs)
        return self.outputs[name]

    def __contains__(self, name: object) -> bool:
        return name in self.outputs

    def __iter__(self) -> Iterator[str]:
        return iter(self.outputs)

    def __len__(self) -> int:
        return len(self.outputs)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.outputs]

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {tuple(array.shape)}" for name, array in self.outputs.items())
        return f"Trajectory({shapes}; every={self.every}, physics={self.physics!r})"

    def keys(self) -> list[str]:
        """Names of the outputs."""
        return list(self.outputs)

    @property
    def nworld(self) -> int:
        """Number of worlds."""
        return self.outputs["time"].shape[0]

    @property
    def nsample(self) -> int:
        """Number of samples of each world."""
        return self.outputs["time"].shape[1]

    def numpy(self) -> Self:
        """The same trajectory on the host."""
        host = {name: array if isinstance(array, np.ndarray) else array.numpy() for name, array in self.outputs.items()}
        return dataclasses.replace(self, outputs=host)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file of NumPy (.npz, without pickle) or a folder of Zarr (.zarr): all of it, or nothing.

        Both carry checksums, which `load` checks.
        """
        path = check_path(path)
        host = self.numpy()
        about = {
            "version": _VERSION,
            "outputs": list(host.outputs),
            "timestep": np.asarray(self.timestep, dtype=float).tolist() if self.timestep is not None else None,
            "every": self.every,
            "worlds": list(self.worlds) if self.worlds is not None else None,
            "physics": self.physics,
            "model": self.model,
            "stickslip": self.version,
        }
        if path.suffix == ".npz":
            told = {f"{_ABOUT}{name}": np.array(json.dumps(value)) for name, value in about.items()}
            npz.write(path, {**host.outputs, **told}, compressed=False)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.parent / f".{path.name}.{uuid.uuid4().hex}.tmp"
        try:
            _write_zarr(temporary, host.outputs, about)
            _remove(path)
            temporary.replace(path)
        finally:
            _remove(temporary)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read it from what `save` or `Simulation.record` wrote."""
        found = check_path(path)
        shown = repr(os.fspath(path))
        if not found.exists():
            raise InputError(f"there is no file {shown}")
        try:
            outputs, about = _read_npz(found) if found.suffix == ".npz" else _read_zarr(found)
            version = int(about["version"])
        except (OSError, ValueError, KeyError, EOFError, TypeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"{shown} is not a saved trajectory: {error}"
                "; `Trajectory.save` and `Simulation.record` write them: check the path"
            ) from None
        if version > _VERSION:
            raise InputError(
                f"{shown} is a trajectory of version {version}, this stickslip reads up to {_VERSION}: update it"
            )
        timestep, worlds = about["timestep"], about["worlds"]
        return cls(
            outputs,
            np.array(timestep) if isinstance(timestep, list) else timestep,
            int(about["every"]),
            None if worlds is None else tuple(worlds),
            about["physics"],
            about["model"],
            about["stickslip"],
        )


def about(sim: "Simulation", every: int, worlds: tuple[int, ...] | None = None) -> dict[str, Any]:
    """What a trajectory says of its simulation: the fields of `Trajectory` besides outputs."""
    physics = sim.physics.physics if isinstance(sim.physics, Threaded) else sim.physics
    timestep = _timesteps(sim)
    if worlds is not None:
        timestep = timestep[list(worlds)]
    if (timestep == np.float32(sim.mjm.opt.timestep)).all():
        timestep = np.array([sim.mjm.opt.timestep])  # in double precision
    return {
        "timestep": float(timestep[0]) if len(set(timestep)) <= 1 else timestep,
        "every": every,
        "worlds": worlds,
        "physics": spec.written(physics.name, physics),
        "model": digest(sim.mjm),
        "version": stickslip.__version__,
    }


def _timesteps(sim: "Simulation") -> np.ndarray:
    """The time step of each world [s]."""
    physics, parts = sim.physics, [(sim._m, sim.nworld)]
    if isinstance(physics, Threaded):
        parts = [(shard._m, shard.nworld) for shard in sim.d.shards]
        physics = physics.physics
    try:
        fields = [(physics.model_field(m, "timestep").numpy(), nworld) for m, nworld in parts]
    except (InputError, Unsupported):
        return np.full(sim.nworld, sim.mjm.opt.timestep)
    return np.concatenate([np.broadcast_to(np.ravel(field).astype(float), nworld) for field, nworld in fields])


def check_path(path: str | os.PathLike[str]) -> Path:
    """The path; raises InputError unless it is of a format that there is, and MissingExtra without its package."""
    found = Path(path)
    if found.suffix not in FORMATS:
        raise InputError(f"{os.fspath(path)!r} has the suffix {found.suffix!r}: give one of {', '.join(FORMATS)}")
    if found.suffix == ".npz" and found.is_dir():
        raise InputError(f"{os.fspath(path)!r} is a folder: give the name of a file")
    if found.suffix == ".zarr":
        _zarr()
        if found.exists() and not (found / "zarr.json").exists():
            raise InputError(f"{os.fspath(path)!r} exists and is not of Zarr, format 3: give another name")
    return found


def _remove(path: Path) -> None:
    """Remove a file or a folder, if there is one."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _read_npz(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    with npz.opened(path, "a saved trajectory") as file:
        arrays = file.read()
    outputs = {name: array for name, array in arrays.items() if not name.startswith(_ABOUT)}
    told = {
        name.removeprefix(_ABOUT): json.loads(str(array)) for name, array in arrays.items() if name.startswith(_ABOUT)
    }
    return outputs, told


def _zarr() -> Any:
    try:
        import zarr  # pyright: ignore[reportMissingImports]
        import zarr.codecs  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise MissingExtra("files of .zarr need Zarr: pip install 'stickslip[zarr]', or take .npz") from None
    return zarr


def _write_zarr(path: Path, outputs: Mapping[str, Any], about: dict[str, Any]) -> None:
    zarr = _zarr()
    group = zarr.open_group(str(path), mode="w", zarr_format=3)
    group.attrs.update({"trajectory": about})
    for name, array in outputs.items():
        codecs = (zarr.codecs.ZstdCodec(), zarr.codecs.Crc32cCodec())  # the second one is the checksum of a chunk
        group.create_array(name, data=np.ascontiguousarray(array), compressors=codecs)


def _read_zarr(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    group = _zarr().open_group(str(path), mode="r")
    told = dict(group.attrs["trajectory"])
    outputs = {name: group[name] for name in told["outputs"]}
    limits.check("arrays", sum(array.nbytes for array in outputs.values()), f"{path} unpacks to too many bytes")
    return {name: array[...] for name, array in outputs.items()}, told
