"""Episodes on their way into a dataset: each is a folder that appears whole, by one rename, in `NAME.parts`.

Neither an HDF5 file nor a parquet file that is being written survives a crash. So a writer keeps its episodes here, and
puts the dataset together when it is closed. After a crash the next writer of that name takes them up.
"""

import abc
import contextlib
import fcntl
import glob
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

from stickslip.datasets.episode import Episode
from stickslip.errors import InputError

SUFFIX = ".parts"
_WHOLE = re.compile(r"\d{8}")


class Parts:
    """The folder `NAME.parts` beside a dataset, held by one writer at a time.

    Attributes:
        target: the dataset
        folder: the folder beside it
        found: episodes that an earlier writer left
    """

    def __init__(self, target: Path, *, append: bool, overwrite: bool) -> None:
        self.target, self.folder = target, target.with_name(target.name + SUFFIX)
        if append and overwrite:
            raise InputError("append and overwrite are both given: give one of them")
        if not target.name or target.name.endswith(SUFFIX):
            raise InputError(f"{str(target)!r} is no name for a dataset: give one that does not end in {SUFFIX}")
        self._handle: int | None = None
        with _told(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            self._hold()
            if not os.access(self.folder, os.W_OK | os.X_OK):
                raise PermissionError(13, "Permission denied")
        self._tidy()
        left = self.whole()
        self.found, self._next = len(left), int(left[-1].name) + 1 if left else 0
        if self.found and overwrite:
            self.forget()
        elif self.found and not append:
            self.release()
            raise InputError(
                f"{str(self.folder)!r} holds {self.found} episodes of a writer that was not closed: "
                "take them up with append=True, or drop them with overwrite=True"
            )

    def _hold(self) -> None:
        """Make the folder and lock it."""
        while True:
            self.folder.mkdir(exist_ok=True)
            handle = os.open(self.folder, os.O_RDONLY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.exists(self.folder) and os.path.samestat(os.fstat(handle), os.stat(self.folder)):
                    self._handle = handle
                    return
            except BlockingIOError:
                os.close(handle)
                raise InputError(f"{str(self.target)!r} is being written: name another file") from None
            os.close(handle)  # another writer removed it in between

    def _tidy(self) -> None:
        """Remove what a crash left unfinished; a dataset that was being replaced comes back."""
        name = glob.escape(self.target.name)
        for old in self.target.parent.glob(f".{name}.*.old"):
            shutil.rmtree(old) if self.target.exists() else old.rename(self.target)
        for rest in [*self.folder.glob(".*"), *self.target.parent.glob(f".{name}.*.tmp")]:
            shutil.rmtree(rest) if rest.is_dir() else rest.unlink()

    def whole(self) -> list[Path]:
        """Folders of the episodes, in the order in which they were written."""
        return sorted(path for path in self.folder.iterdir() if _WHOLE.fullmatch(path.name))

    def forget(self) -> None:
        """Remove the episodes that an earlier writer left."""
        for part in self.whole():
            shutil.rmtree(part)
        self.found = self._next = 0

    def add(self, write: Callable[[Path], None]) -> None:
        """Add an episode: `write` fills a folder. If it fails, nothing is added."""
        name = f"{self._next:08d}"
        fresh = self.folder / f".{name}.tmp"
        fresh.mkdir()
        try:
            write(fresh)
            for path in fresh.iterdir():
                _sync(path)
            fresh.rename(self.folder / name)
            self._next += 1
            _sync(self.folder)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise

    def remove(self) -> None:
        """Remove the folder with all that it holds: at once, by a rename."""
        rest = self.folder.with_name(f".{self.target.name}.{uuid.uuid4().hex}.tmp")
        self.folder.rename(rest)
        self.release()
        shutil.rmtree(rest, ignore_errors=True)

    def release(self) -> None:
        """Let other writers have it; an empty folder is removed."""
        if self._handle is not None:
            with contextlib.suppress(OSError):
                self.folder.rmdir()
            os.close(self._handle)
            self._handle = None


class Layout:
    """What all episodes of a dataset have alike: names, types and shapes."""

    def __init__(self, known: dict[str, tuple[str, tuple[int, ...]]] | None = None) -> None:
        self.known = known

    @contextlib.contextmanager
    def checked(self, episode: Episode) -> Iterator[None]:
        """Raise InputError unless an episode has the layout of the first one; that one sets it, if it is written."""
        before, self.known = self.known, self.known or episode.layout()
        self._compare(episode.layout())
        try:
            yield
        except BaseException:
            self.known = before
            raise

    def _compare(self, found: dict[str, tuple[str, tuple[int, ...]]]) -> None:
        known = self.known or {}
        for name in sorted(known.keys() | found.keys()):
            before, now = known.get(name), found.get(name)
            if before != now:
                raise InputError(
                    f"{name} is {_said(now)} in this episode and {_said(before)} in those before: "
                    "write it the same way, or to another dataset"
                )

    def written(self) -> dict[str, list]:
        """For JSON."""
        return {name: [kind, list(shape)] for name, (kind, shape) in (self.known or {}).items()}

    @classmethod
    def parsed(cls, found: dict[str, list]) -> "Layout":
        """From JSON."""
        return cls({str(name): (str(kind), tuple(map(int, shape))) for name, (kind, shape) in found.items()})


def _said(row: tuple[str, tuple[int, ...]] | None) -> str:
    return "missing" if row is None else f"{row[0]} of shape {row[1]} a step"


def _sync(path: Path) -> None:
    """Have the system write a file, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _told(target: Path) -> Iterator[None]:
    """Turn errors of the system into InputError that names the folder."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{str(target)!r}: cannot write to this folder ({error.strerror}); name another one") from None


class PartsWriter(abc.ABC):
    """What the writers of both formats share: episodes go into parts, `close` makes the dataset of them."""

    is_open: bool
    _parts: Parts
    _count: int

    @abc.abstractmethod
    def close(self) -> None:
        """Put the dataset together."""

    def discard(self) -> None:
        """Drop the episodes that were written, and what a crash left; a dataset that was there stays."""
        if self.is_open:
            self.is_open = False
            self._parts.remove()

    def __len__(self) -> int:
        return self._count

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
