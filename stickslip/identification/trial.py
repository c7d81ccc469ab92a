"""Trials: what was done to a robot and what was measured, with their files."""

import csv
import dataclasses
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stickslip import limits, npz
from stickslip.errors import InputError

SUFFIXES = (".npz", ".csv")
"""Files of trials."""
MOST_NUMBERS = 100_000_000
"""Numbers in a file of a trial, at most."""
_START = re.compile(r"(qpos|qvel|act)\[(\d+)\]")
_ARRAYS = ("time", "measured", "noise", "ctrl", "ctrl_time", "qpos", "qvel", "act")


@dataclasses.dataclass(frozen=True, eq=False)
class Trial:
    """One recording: where it starts, the controls, and the measurements with their noise.

    Frames that were dropped are left out of `time` and `measured`. A single number that is missing has an infinite
    noise. Times begin with the start state, and need neither be regular nor match the timestep of the model.

    Attributes:
        time: of the measurements, ascending, s                                    (n,)
        measured: the measurements                                                 (n, ny)
        noise: standard deviation of each measurement, in its unit; stored as      (n, ny)
        channels: what was measured, see `measure.find`
        ctrl: controls, each held until the next                                   (T, nu)
        ctrl_time: when each is given, ascending, s; None: one each timestep       (T,)
        qpos: positions at the start; None: those of the first key frame, or qpos0 (nq,)
        qvel: velocities at the start; None: likewise, or none                     (nv,)
        act: actuator activations at the start; None: likewise, or none            (na,)
        name: of the trial, for messages and pictures
    """

    time: NDArray[np.floating]
    measured: NDArray[np.floating]
    noise: NDArray[np.floating]
    channels: tuple[str, ...] = ("qpos",)
    ctrl: NDArray[np.floating] | None = None
    ctrl_time: NDArray[np.floating] | None = None
    qpos: NDArray[np.floating] | None = None
    qvel: NDArray[np.floating] | None = None
    act: NDArray[np.floating] | None = None
    name: str = "trial"

    def __init__(
        self,
        time: ArrayLike,
        measured: ArrayLike,
        noise: ArrayLike,
        channels: str | Iterable[str] = ("qpos",),
        *,
        ctrl: ArrayLike | None = None,
        ctrl_time: ArrayLike | None = None,
        qpos: ArrayLike | None = None,
        qvel: ArrayLike | None = None,
        act: ArrayLike | None = None,
        name: str = "trial",
    ) -> None:
        given = {
            "time": time,
            "measured": measured,
            "noise": noise,
            "ctrl": ctrl,
            "ctrl_time": ctrl_time,
            "qpos": qpos,
            "qvel": qvel,
            "act": act,
        }
        found: dict[str, Any] = {key: _numbers(f"{key} of {name}", value) for key, value in given.items()}
        found["channels"] = (channels,) if isinstance(channels, str) else tuple(channels)
        for key, value in {**found, "name": str(name)}.items():
            object.__setattr__(self, key, value)
        self._check()
        object.__setattr__(self, "noise", np.broadcast_to(self.noise, self.measured.shape))

    def _check(self) -> None:
        time, measured, name = self.time, self.measured, self.name
        _check_times(f"time of {name}", time, 2)
        if time[0] < 0.0:
            raise InputError(f"time of {name} begins at {time[0]:g} s: times count from the start state, so from 0 on")
        if measured.ndim != 2 or len(measured) != len(time) or not measured.shape[1]:
            raise InputError(
                f"measured of {name} has shape {measured.shape}, expected ({len(time)}, ny): a row for each of the "
                f"{len(time)} times, a column for each measured number"
            )
        fits = self.noise.shape in ((), (1,), (measured.shape[1],), measured.shape)
        if not fits:
            raise InputError(
                f"noise of {name} has shape {self.noise.shape}: give one number, one for each of the "
                f"{measured.shape[1]} columns, or {measured.shape}"
            )
        if not (self.noise > 0.0).all():  # NaN is not either
            raise InputError(
                f"noise of {name} is {self.noise.min():g} somewhere: it is a standard deviation in the unit of the "
                "measurement, above 0; infinity stands for what was not measured"
                "; give what the sensor has"
            )
        used = np.isfinite(np.broadcast_to(self.noise, measured.shape))
        bad = np.argwhere(~np.isfinite(measured) & used)
        if len(bad):
            row, column = bad[0]
            raise InputError(
                f"measured of {name} is {measured[row, column]} at time {time[row]:g} s, column {column} "
                f"({len(bad)} such numbers): leave out rows that were dropped, or give single numbers an infinite noise"
            )
        if not used.any():
            raise InputError(f"noise of {name} is infinite everywhere: nothing was measured; leave this trial out")
        self._check_controls()
        for part in ("qpos", "qvel", "act"):
            value = getattr(self, part)
            if value is not None and (value.ndim != 1 or not np.isfinite(value).all()):
                raise InputError(f"{part} of {name} must be one row of finite numbers, got {value!r}")

    def _check_controls(self) -> None:
        if self.ctrl is None:
            if self.ctrl_time is not None:
                raise InputError(f"{self.name} has ctrl_time without ctrl")
            return
        if self.ctrl.ndim != 2 or not len(self.ctrl):
            raise InputError(f"ctrl of {self.name} has shape {self.ctrl.shape}, expected (T, nu) with T of 1 or more")
        if not np.isfinite(self.ctrl).all():
            row = int(np.argwhere(~np.isfinite(self.ctrl))[0, 0])
            raise InputError(f"ctrl of {self.name} is not finite in row {row}: leave out rows that were dropped")
        if self.ctrl_time is not None:
            _check_times(f"ctrl_time of {self.name}", self.ctrl_time, 1)
            if len(self.ctrl_time) != len(self.ctrl):
                raise InputError(f"{self.name} has {len(self.ctrl)} controls and {len(self.ctrl_time)} times of them")

    @property
    def duration(self) -> float:
        """Time of the last measurement, s."""
        return float(self.time[-1])

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a `.npz` file, which `load` reads."""
        if Path(path).suffix != ".npz":
            raise InputError(f"{path}: a trial is written as .npz; give a name with this suffix")
        parts = {key: getattr(self, key) for key in _ARRAYS if getattr(self, key) is not None}
        return npz.write(path, {**parts, "channels": np.array(self.channels)})

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        noise: ArrayLike | None = None,
        start: Mapping[str, ArrayLike] | None = None,
    ) -> Self:
        """Read a trial from `.npz`, as `save` writes it, or from `.csv`.

        The first line of a csv file names its columns: `time`; `ctrl[0]`, ...; `start:qpos[2]`, ... of which the first
        row counts; all others are channels. An empty field was not measured. Lines that begin with # are skipped.

        Args:
            path: the file
            noise: standard deviations, one number or one for each channel; None: those of the file
            start: `qpos`, `qvel`, `act` of the start, in the place of those of the file
        """
        path = Path(path)
        if path.suffix not in SUFFIXES:
            raise InputError(f"{path}: a trial is {' or '.join(SUFFIXES)}; convert it to one of these")
        if not path.is_file():
            raise InputError(f"{path}: no such file; check the path")
        parts = _read_npz(path) if path.suffix == ".npz" else _read_csv(path)
        parts.update(start or {})
        if noise is not None:
            shape, given = np.shape(parts["measured"]), np.asarray(_numbers("noise", noise))
            missing = np.isinf(parts["noise"]) if "noise" in parts else False
            fits = given.shape in ((), (1,), shape[1:], shape)  # if not, the check below says so
            parts["noise"] = np.where(missing, np.inf, given) if fits else given
        elif "noise" not in parts or np.isnan(parts["noise"]).any():
            raise InputError(f"{path} does not say the noise of its measurements: give it, in their units")
        return cls(**parts, name=path.stem)


def _numbers(name: str, value: Any) -> NDArray[np.floating] | None:
    if value is None:
        return None
    try:
        return np.array(value, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be numbers, got {type(value).__name__}") from None


def _check_times(name: str, time: NDArray[np.floating], least: int) -> None:
    if time.ndim != 1 or len(time) < least:
        raise InputError(f"{name} has shape {time.shape}, expected (n,) with n of {least} or more")
    if not np.isfinite(time).all():
        raise InputError(
            f"{name} is not finite in row {int(np.flatnonzero(~np.isfinite(time))[0])}"
            "; leave out rows that were dropped"
        )
    back = np.flatnonzero(np.diff(time) <= 0.0)
    if back.size:
        row = int(back[0])
        raise InputError(f"{name} must ascend: {time[row + 1]:g} s follows {time[row]:g} s in row {row + 1}")


def _read_npz(path: Path) -> dict[str, Any]:
    with npz.opened(path, "a trial") as file:
        unknown = [name for name in file if name not in (*_ARRAYS, "channels")]
        if unknown or not {"time", "measured"} <= set(file):
            raise InputError(
                f"{path} is not a trial: it has {', '.join(file) or 'nothing'}; time and measured must be there, and "
                f"{', '.join(_ARRAYS[2:])}, channels may be"
            )
        parts: dict[str, Any] = file.read()
    if "channels" in parts:
        parts["channels"] = tuple(str(name) for name in np.atleast_1d(parts["channels"]))
    return parts


def _read_csv(path: Path) -> dict[str, Any]:
    """The parts of a trial; `noise` is NaN where it is not known, infinite where nothing was measured."""
    limits.check("text", path.stat().st_size, f"{path} has too many bytes for a trial")
    with path.open(newline="") as file:
        lines = ((number, line) for number, line in enumerate(file, 1) if line.strip() and not line.startswith("#"))
        first = next(lines, None)
        if first is None:
            raise InputError(f"{path} is empty: the first line names the columns; write one")
        names = [name.strip() for name in next(csv.reader([first[1]]))]
        _check_names(path, names)
        rows = []
        for number, line in lines:
            rows.append(_row(path, number, next(csv.reader([line])), names))
            if len(rows) * len(names) > MOST_NUMBERS:
                raise InputError(f"{path} has over {MOST_NUMBERS} numbers: cut it into several trials")
    if not rows:
        raise InputError(f"{path} has no rows below its names; write a row for each measurement")
    table = np.array(rows)
    columns = {name: table[:, k] for k, name in enumerate(names)}
    controls = sorted((name for name in names if name.startswith("ctrl[")), key=lambda name: int(name[5:-1]))
    channels = [name for name in names if name != "time" and not name.startswith(("ctrl[", "start:"))]
    measured = np.stack([columns[name] for name in channels], axis=1)
    seen = np.isfinite(measured).any(axis=1)  # rows in between may have controls alone
    parts: dict[str, Any] = {
        "time": columns["time"][seen],
        "measured": np.nan_to_num(measured[seen]),
        "noise": np.where(np.isfinite(measured[seen]), np.nan, np.inf),
        "channels": channels,
    }
    if controls:
        given = np.stack([columns[name] for name in controls], axis=1)
        kept = np.isfinite(given).all(axis=1)
        parts.update(ctrl=given[kept], ctrl_time=columns["time"][kept])
    for name in names:
        if name.startswith("start:"):
            part, index = _START.fullmatch(name[6:]).groups()  # type: ignore[union-attr]
            row = parts.setdefault(part, {})
            row[int(index)] = table[0, names.index(name)]
    for part in ("qpos", "qvel", "act"):
        if part in parts:
            parts[part] = [parts[part].get(k, math.nan) for k in range(max(parts[part]) + 1)]
    return parts


def _check_names(path: Path, names: Sequence[str]) -> None:
    if "time" not in names:
        raise InputError(
            f"{path} has no column `time`; its columns are {', '.join(names)}; name the times of its rows so"
        )
    doubled = [name for name in names if names.count(name) > 1]
    if doubled:
        raise InputError(f"{path} has two columns {doubled[0]!r}; rename or remove one")
    for name in names:
        if name.startswith("start:") and not _START.fullmatch(name[6:]):
            raise InputError(f"{path}: column {name!r} must be start:qpos[i], start:qvel[i] or start:act[i]")
    controls = sorted(int(name[5:-1]) if name[5:-1].isdigit() else -1 for name in names if name.startswith("ctrl["))
    if controls != list(range(len(controls))):
        raise InputError(f"{path}: columns of controls must be ctrl[0] to ctrl[{len(controls) - 1}]")
    if not [name for name in names if name != "time" and not name.startswith(("ctrl[", "start:"))]:
        raise InputError(f"{path} has no measured column beside time, controls and start")


def _row(path: Path, number: int, fields: Sequence[str], names: Sequence[str]) -> list[float]:
    if len(fields) != len(names):
        raise InputError(
            f"{path}, line {number}: {len(fields)} fields, the first line names {len(names)}"
            "; leave fields empty that are missing"
        )
    row = []
    for name, field in zip(names, fields, strict=True):
        try:
            row.append(float(field) if field.strip() else math.nan)
        except ValueError:
            raise InputError(
                f"{path}, line {number}, column {name!r}: {field!r} is not a number; leave it empty if it is missing"
            ) from None
        if field.strip() and not math.isfinite(row[-1]):
            raise InputError(f"{path}, line {number}, column {name!r} is {field}: leave it empty if it is missing")
    return row
