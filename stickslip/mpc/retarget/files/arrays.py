"""Arrays of .npz files, read without pickle: a pickle runs code."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np

from stickslip import npz
from stickslip.errors import DamagedFile, InputError
from stickslip.mpc.retarget.motion import Array

NEEDS = (
    "ours (.npz: joints, joint_names, fps, base); SPIDER (.npz: qpos); mjlab and holosoma (.npz: joint_pos, fps, "
    "body_pos_w, body_quat_w); LAFAN1 (.csv: 36 columns); HDMI (folder: motion.npz, meta.json); DeepMimic (.txt: JSON "
    "with Frames)"
)
"""What each format needs."""


class Arrays:
    """Arrays of a file by their key, read when they are asked for."""

    def __init__(self, path: Path, file: npz.Arrays) -> None:
        self.path, self._file = path, file

    def __iter__(self) -> Iterator[str]:
        return iter(self._file)

    def __contains__(self, key: str) -> bool:
        return key in self._file

    def __getitem__(self, key: str) -> np.ndarray:
        if key not in self:
            raise InputError(f"{self.path} has no {key}; it has {', '.join(self)}. The formats: {NEEDS}")
        try:
            return self._file[key]
        except DamagedFile:
            raise
        except ValueError as error:
            if "pickle" not in str(error):
                raise
            _refuse_objects(self.path, key)


@contextlib.contextmanager
def open_arrays(path: Path) -> Iterator[Arrays]:
    """Open an .npz file."""
    with path.open("rb") as start:
        if start.read(1) == b"\x80":  # a pickle by another name
            refuse_pickle(path)
    with npz.opened(path, "a motion") as file:
        yield Arrays(path, file)


def refuse_pickle(path: Path) -> NoReturn:
    """Refuse a pickle; the message has a script that turns GMR's into an .npz."""
    plain = path.with_suffix(".npz")
    raise InputError(
        f"{path} is a pickle, and reading a pickle runs code that is in it. If you trust it, and it is GMR's, this "
        "writes an .npz to load:\n"
        f"import pickle, numpy as np; d = pickle.load(open({str(path)!r}, 'rb'))\n"
        f"np.savez({str(plain)!r}, fps=d['fps'], joints=d['dof_pos'], "
        "base=np.hstack([d['root_pos'], np.roll(d['root_rot'], 1, axis=1)]))"
    )


def _refuse_objects(path: Path, key: str) -> NoReturn:
    plain = path.with_name(f"{path.stem}-plain.npz")
    raise InputError(
        f"{path}: {key} is stored as a pickle, and reading a pickle runs code that is in it. If you trust it, this "
        "writes an .npz to load:\n"
        f"import numpy as np; d = {{k: np.array(v.tolist()) for k, v in np.load({str(path)!r}, allow_pickle=True)"
        ".items()}\n"
        f"np.savez({str(plain)!r}, **{{k: v for k, v in d.items() if v.dtype != object}})"
    )


def numbers(arrays: Arrays, key: str, *dimensions: int) -> Array:
    """An array of finite numbers with one of the dimensions, and two frames or more."""
    found = arrays[key]
    if found.dtype.kind not in "fiub":
        raise InputError(f"{arrays.path}: {key} must be numbers; it is {found.dtype}")
    if found.ndim not in dimensions:
        raise InputError(
            f"{arrays.path}: {key} has the shape {found.shape}; it must have {' or '.join(map(str, dimensions))} "
            "dimensions, the first for the frames"
        )
    if found.size == 0 or (len(found) < 2 and found.ndim == min(dimensions)):
        raise InputError(f"{arrays.path}: {key} has {len(found)} frames; 2 or more are needed")
    bad = np.argwhere(~np.isfinite(found))
    if len(bad):
        place = ", ".join(map(str, bad[0][1:]))
        raise InputError(f"{arrays.path}: {key}: row {bad[0][0]}, column {place} is not finite; mend or cut it")
    return found.astype(np.float64)


def number(arrays: Arrays, key: str) -> float | None:
    """One number, also as an array of one; None: it is not there."""
    if key not in arrays:
        return None
    found = arrays[key]
    if found.size != 1 or found.dtype.kind not in "fiu":
        raise InputError(f"{arrays.path}: {key} must be one number; it is {found.dtype} of the shape {found.shape}")
    return float(found.ravel()[0])


def texts(arrays: Arrays, key: str) -> tuple[str, ...] | None:
    """Strings, also a single one; None: they are not there."""
    if key not in arrays:
        return None
    found = arrays[key]
    if found.dtype.kind not in "US" and found.size:
        raise InputError(f"{arrays.path}: {key} must be strings; they are {found.dtype}")
    return tuple(text.decode() if isinstance(text, bytes) else str(text) for text in found.ravel())
