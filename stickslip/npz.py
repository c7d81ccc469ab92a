"""Files of NumPy (.npz) with a checksum, read within limits and without pickle.

An .npz file is a zip archive. The checksum stands in its comment, at the very end, where other readers pass over it.
"""

import contextlib
import hashlib
import io
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from stickslip import files, limits
from stickslip.errors import InputError

_END = b"PK\x05\x06"
_END_SIZE = 22
_BLOCK = 1 << 22


def write(path: str | os.PathLike, arrays: Mapping[str, Any], *, compressed: bool = True) -> Path:
    """Write arrays by name: all of the file, or nothing."""
    with files.open_atomic(path) as file:
        (np.savez_compressed if compressed else np.savez)(file, **arrays)
        seal(file)
    return Path(path)


def packed(arrays: Mapping[str, Any]) -> bytes:
    """The content of a file of arrays by name."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    seal(buffer)
    return buffer.getvalue()


def seal(file: IO[bytes]) -> None:
    """Put the checksum into the comment of a zip archive that has none: `torch.save` writes one, too."""
    end = file.seek(-_END_SIZE, os.SEEK_END)
    if file.read(4) != _END:
        raise ValueError("the archive has a comment already")
    file.seek(end + _END_SIZE - 2)
    file.write(struct.pack("<H", len(files.BLANK)))
    told = files.SEAL + _digest(file, end + _END_SIZE)
    file.seek(0, os.SEEK_END)
    file.write(told.encode())


def check_seal(file: IO[bytes], path: str | os.PathLike, kind: str) -> None:
    """Raise DamagedFile unless a zip archive is whole; without a checksum only its end is looked at."""
    size = file.seek(0, os.SEEK_END)
    start = max(0, size - _END_SIZE - 65535)
    file.seek(start)
    tail = file.read()
    place = tail.rfind(_END)
    if place < 0 or len(tail) - place < _END_SIZE:
        raise files.damaged(path, kind, f"it has {size} bytes and no end of an archive")
    comment = tail[place + _END_SIZE :]
    told = struct.unpack("<H", tail[place + _END_SIZE - 2 : place + _END_SIZE])[0]
    if len(comment) != told:
        raise files.damaged(path, kind, f"its last {told} bytes should be a comment, {len(comment)} are there")
    if told == len(files.BLANK) and comment.decode("ascii", "replace") != files.SEAL + _digest(file, size - told):
        raise files.damaged(path, kind, "its content does not have the checksum that was stored with it")
    file.seek(0)


def _digest(file: IO[bytes], size: int) -> str:
    """Of the first bytes of a file."""
    file.seek(0)
    found = hashlib.sha256()
    while size and (block := file.read(min(size, _BLOCK))):
        found.update(block)
        size -= len(block)
    return found.hexdigest()


@contextlib.contextmanager
def opened(path: str | os.PathLike, kind: str) -> Iterator["Arrays"]:
    """The arrays of a file by name, each read when it is asked for; `kind` says in errors what it should be.

    Raises:
        InputError: there is no such file, or it is of another kind, or larger than `limits` allows
        DamagedFile: it was cut short or changed
    """
    try:
        with open(path, "rb") as file:
            start = file.read(4)
            if start[:2] != b"PK":
                raise InputError(
                    f"{os.fspath(path)!r} is not {kind}: it is no .npz file, it begins with {start!r}; check the path"
                )
            check_seal(file, path, kind)
            with told(path, kind), zipfile.ZipFile(file) as archive:
                yield Arrays(archive, path, kind)
    except FileNotFoundError:
        raise InputError(f"there is no file {os.fspath(path)!r}: check the path") from None
    except IsADirectoryError:
        raise InputError(f"{os.fspath(path)!r} is a folder: give the name of a file") from None


@contextlib.contextmanager
def told(path: str | os.PathLike, kind: str) -> Iterator[None]:
    """Turn what zipfile and NumPy raise for a broken archive into DamagedFile."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, struct.error, NotImplementedError) as error:
        raise files.damaged(path, kind, str(error) or type(error).__name__) from None


class Arrays(Mapping[str, NDArray[Any]]):
    """The arrays of an open archive."""

    def __init__(self, archive: zipfile.ZipFile, path: str | os.PathLike, kind: str) -> None:
        self._archive, self._path, self._kind = archive, path, kind
        members = archive.infolist()
        limits.check("entries", len(members), f"{os.fspath(path)} has too many arrays for {kind}")
        size = sum(member.file_size for member in members)
        limits.check("arrays", size, f"{os.fspath(path)} unpacks to too many bytes for {kind}")
        self._members = {member.filename.removesuffix(".npy"): member for member in members}

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def __getitem__(self, name: str) -> NDArray[Any]:
        member = self._members[name]
        with told(self._path, self._kind), self._archive.open(member) as file:
            try:
                return _array(file, member.file_size)
            except ValueError as error:
                if isinstance(error, InputError):
                    raise
                raise InputError(
                    f"{os.fspath(self._path)!r} is not {self._kind}: {name}: {error}"
                    "; take a copy of it, or write it again"
                ) from None

    def read(self) -> dict[str, NDArray[Any]]:
        """All of them."""
        return {name: self[name] for name in self}


def _array(file: IO[bytes], size: int) -> NDArray[Any]:
    """One array; no memory is taken before its header fits the size of its file."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, _, dtype = np.lib.format.read_array_header_2_0(file)
    else:
        raise ValueError(f"it has version {version} of the format, 1.0 and 2.0 are read")
    if dtype.hasobject:
        raise ValueError("it holds Python objects, a pickle, which runs code when it is read: store numbers and text")
    count = 1
    for length in shape:
        count *= length
    if file.tell() + count * dtype.itemsize != size:
        raise ValueError(f"it says shape {shape} of {dtype}, and has {size - file.tell()} bytes")
    file.seek(0)
    return np.lib.format.read_array(file, allow_pickle=False)
