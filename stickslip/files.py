"""Files that are complete or absent: written beside the target, then renamed onto it.

A crash, a full disk or Ctrl-C in the middle leaves the file that was there before. Processes that write to one folder
take turns with `locked`. What is read again carries a checksum, a seal: JSON here, arrays in `npz`, and whatever can
hold a text of fixed length by `sealed`.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import re
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from stickslip import limits
from stickslip.errors import DamagedFile, InputError

SEAL = "stickslip-sha256:"
"""Begins a checksum, of 64 hexadecimal digits."""
BLANK = SEAL + 64 * "0"
"""A seal that is not made yet; also what the checksum is computed with in its place."""
CHECKSUM = "checksum"
"""The name of the seal in JSON, last of all."""
_UNFINISHED = re.compile(r"\..+\.(?P<node>[^.]+)-(?P<pid>\d+)-[0-9a-f]{32}\.tmp")


@contextlib.contextmanager
def open_atomic(path: str | os.PathLike) -> Iterator[IO[bytes]]:
    """A file to write, which appears at `path` when the block ends, and not at all if it fails.

    Its folder is made. An OSError names the path.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    node = os.uname().nodename.replace(".", "_")
    temporary = path.parent / f".{path.name}.{node}-{os.getpid()}-{uuid.uuid4().hex}.tmp"
    try:
        with temporary.open("xb+") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync(path.parent)
    except OSError as error:
        _drop(temporary)
        if error.errno is None or error.filename not in (None, str(temporary)):  # of another file, with its name
            raise
        raise type(error)(error.errno, error.strerror, str(path)) from error  # a full disk alone names no file
    except BaseException:
        _drop(temporary)
        raise


def _drop(path: Path) -> None:
    with contextlib.suppress(OSError):  # the first error is the one to tell
        path.unlink()


def _sync(folder: Path) -> None:
    """Have the names in a folder on the disk, so that a rename outlives a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:  # file systems without it
        pass
    finally:
        os.close(handle)


def write_bytes_atomic(path: str | os.PathLike, data: bytes) -> Path:
    """Write `data` to `path`, making its folder, and return the path; an OSError names the path."""
    with open_atomic(path) as file:
        file.write(data)
    return Path(path)


def write_together(folder: str | os.PathLike, content: Mapping[str, bytes]) -> list[Path]:
    """Write files of one folder that belong together: all of them, or none; returns their paths.

    The last one is renamed last, and the one before it is removed first: where it is there, the others are its own.
    """
    folder = Path(folder)
    *_, last = content
    with locked(folder), contextlib.ExitStack() as stack:
        for name in reversed(list(content)):
            file = stack.enter_context(open_atomic(folder / name))
            file.write(content[name])
            file.flush()
            os.fsync(file.fileno())  # a full disk shows now, before any is renamed
        stack.callback(lambda: (folder / last).unlink(missing_ok=True))
    return [folder / name for name in content]


def tidy(folder: str | os.PathLike) -> list[str]:
    """Remove files that a process of this machine was writing when it was killed; returns the names they would have."""
    found, node = [], os.uname().nodename.replace(".", "_")
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        for path in sorted(Path(folder).glob(".*.tmp")):
            told = _UNFINISHED.fullmatch(path.name)
            if told and told["node"] == node and not os.path.exists(f"/proc/{told['pid']}"):
                path.unlink(missing_ok=True)
                found.append(path.name[1 : told.start("node") - 1])
    return found


def keep_aside(path: Path) -> Path:
    """Rename a damaged file, so that nothing overwrites it; returns its new path."""
    kept = path.with_name(f"{path.name}.damaged")
    path.replace(kept)
    return kept


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


def sealed(data: bytes) -> bytes:
    """`data` with its checksum in the place of the last `BLANK`, which it must have."""
    place = data.rindex(BLANK.encode())
    return data[:place] + _seal(data).encode() + data[place + len(BLANK) :]


def _seal(data: bytes) -> str:
    return SEAL + hashlib.sha256(data).hexdigest()


def check_seal(data: bytes, path: str | os.PathLike, kind: str) -> None:
    """Raise DamagedFile if `data` has a seal that is not its own; files of earlier versions have none."""
    place = data.rfind(SEAL.encode())
    if place < 0:
        return
    told = data[place : place + len(BLANK)]
    blank = data[:place] + BLANK.encode()[: len(told)] + data[place + len(BLANK) :]
    if told != _seal(blank).encode():
        raise damaged(path, kind, "its content does not have the checksum that was stored with it")


def damaged(path: str | os.PathLike, kind: str, why: str) -> DamagedFile:
    """The error for a file that is not as it was written."""
    return DamagedFile(
        f"{os.fspath(path)} is not {kind} as it was written: {why}. It was cut short or changed, by a disk, a transfer "
        "or by hand: take a copy of it, or remove it and make it again"
    )


def read_bytes(path: str | os.PathLike, kind: str = "a file") -> bytes:
    """The content of a file of text, or one that is as small; raises InputError if it is larger, or changed."""
    with open(path, "rb") as file:
        limits.check("text", os.fstat(file.fileno()).st_size, f"{os.fspath(path)} has too many bytes for {kind}")
        data = file.read(limits.get("text") + 1)
    limits.check("text", len(data), f"{os.fspath(path)} has too many bytes for {kind}")
    check_seal(data, path, kind)
    return data


def read_text(path: str | os.PathLike, kind: str = "a file") -> str:
    """The text of a file; bytes that are no UTF-8 are replaced."""
    return read_bytes(path, kind).decode("utf-8", "replace")


@contextlib.contextmanager
def held(folder: str | os.PathLike, what: str) -> Iterator[None]:
    """Hold a folder for a work that writes there all the time; raises InputError if another process holds it."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    handle = os.open(Path(folder) / ".held", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"{os.fspath(folder)} is written by another {what}: wait for its end, or name another folder"
            ) from None
        yield
    finally:
        os.close(handle)


def write_json(path: str | os.PathLike, obj: Any, *, flat_lists: bool = False, checksum: bool = True) -> Path:
    """Write `obj` as indented JSON. NumPy scalars and arrays become numbers and lists; NaN and infinity become null.

    With `flat_lists`, a list of numbers takes one line, however long. A dict gets a last entry `checksum`, which
    `read_json` checks and takes away; without `checksum` it gets none: for files that others read.
    """
    return write_bytes_atomic(path, json_bytes(obj, flat_lists=flat_lists, checksum=checksum))


def json_bytes(obj: Any, *, flat_lists: bool = False, checksum: bool = True) -> bytes:
    """What `write_json` writes."""
    told = plain(obj)
    sealing = checksum and isinstance(told, dict)
    text = json.dumps({**told, CHECKSUM: BLANK} if sealing else told, indent=2, allow_nan=False)
    if flat_lists:
        text = _NUMBERS.sub(lambda found: " ".join(found.group().split()).replace("[ ", "[").replace(" ]", "]"), text)
    data = (text + "\n").encode()
    return sealed(data) if sealing else data


def read_json(path: str | os.PathLike, kind: str = "JSON") -> Any:
    """What a file of JSON holds, without the checksum; `kind` says in errors what it should be: "a fit".

    Raises:
        DamagedFile: it was cut short or changed
        InputError: it is larger or deeper than `limits` allows
    """
    return parse_json(read_bytes(path, kind), path, kind)


def parse_json(data: bytes | str, path: str | os.PathLike, kind: str = "JSON") -> Any:
    """What a JSON text holds; as `read_json`, for a content that was read and checked."""
    try:
        found = json.loads(data)
    except ValueError as error:
        raise damaged(path, kind, str(error)) from None
    except RecursionError:
        found = None
        limits.check("depth", limits.get("depth") + 1, f"{os.fspath(path)} has more levels within each other")
    check_depth(found, path)
    if isinstance(found, dict):
        seal = found.pop(CHECKSUM, None)
        if isinstance(seal, str) and not seal.startswith(SEAL):
            raise damaged(path, kind, f"its checksum is {seal[:20]!r}...")
    return found


def check_depth(found: Any, path: str | os.PathLike) -> None:
    """Raise InputError if lists and dicts of a file lie deeper within each other than `limits.depth`."""
    level, depth = [found], 0
    while level := [
        inner
        for outer in level
        if isinstance(outer, dict | list)
        for inner in (outer.values() if isinstance(outer, dict) else outer)
        if isinstance(inner, dict | list)
    ]:
        depth += 1
        if depth > limits.get("depth"):
            limits.check("depth", depth, f"{os.fspath(path)} has more levels within each other")


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
