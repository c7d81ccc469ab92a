"""Files that are complete or absent: written beside the target, then renamed onto it.

A crash, a full disk or Ctrl-C in the middle leaves the file that was there before. Processes that write to one folder
take turns with `locked`.
"""

import contextlib
import fcntl
import json
import os
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def write_bytes_atomic(path: str | os.PathLike, data: bytes) -> Path:
    """Write `data` to `path`, making its folder, and return the path; an OSError names the path."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}.{uuid.uuid4().hex}.tmp"
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise type(error)(error.errno, error.strerror, str(path)) from error  # a full disk alone names no file
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return path


@contextlib.contextmanager
def locked(folder: str | os.PathLike) -> Iterator[None]:
    """Hold the lock of a folder, made if need be; other processes that ask for it wait."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)  # releases the lock


def write_json(path: str | os.PathLike, obj: Any, *, flat_lists: bool = False) -> Path:
    """Write `obj` as indented JSON. NumPy scalars and arrays become numbers and lists; NaN and infinity become null.

    With `flat_lists`, a list of numbers takes one line, however long.
    """
    text = json.dumps(plain(obj), indent=2, allow_nan=False)
    if flat_lists:
        text = _NUMBERS.sub(lambda found: " ".join(found.group().split()).replace("[ ", "[").replace(" ]", "]"), text)
    return write_bytes_atomic(path, (text + "\n").encode())


_NUMBERS = re.compile(r"\[\s+(?:null|-?[0-9][0-9.e+-]*)(?:,\s+(?:null|-?[0-9][0-9.e+-]*))*\s+\]")
"""A list of numbers over several lines."""


def plain(obj: Any) -> Any:
    """`obj` in the types that JSON knows."""
    if isinstance(obj, dict):
        return {str(key): plain(value) for key, value in obj.items()}
    if isinstance(obj, list | tuple):
        return [plain(value) for value in obj]
    if isinstance(obj, os.PathLike):
        return os.fspath(obj)
    if type(obj).__module__ == "numpy":  # scalars and arrays, without importing NumPy
        return plain(obj.tolist())
    if isinstance(obj, float) and (obj != obj or obj in (float("inf"), float("-inf"))):
        return None
    return obj
