"""The folder of a study: one parquet file a cell, written whole or not at all.

    study.json              what the study is
    cells.parquet           its cells: hash and parameters
    done/ab/HASH.parquet    a cell that is done, with HASH.npz, HASH-film.gif, ... beside it
    failed/ab/HASH.parquet  a cell that failed
    parts/*.parquet         copies of many rows together, which are quicker to read than 10^5 files
    drivers/*.json          who runs cells at the moment

The files of cells are what counts. Parts may be removed at any time.
"""

import contextlib
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stickslip import files
from stickslip.errors import DamagedFile, InputError
from stickslip.studies import records
from stickslip.studies.cell import Cell
from stickslip.studies.definition import Definition, parse
from stickslip.studies.records import DONE, FAILED, Record

if TYPE_CHECKING:
    import pyarrow

FORMAT = 1
"""Of study.json."""
BEGUN = ("cells.parquet",)
"""What a folder holds where a process was killed before it had written study.json."""
SUFFIX = ".parquet"
ALIVE = 15.0
"""A driver that has not told of itself for so long is gone [s]."""
GONE = 3600.0
"""Age of unfinished files of another machine from which they are removed [s]."""


class Store:
    """The folder of a study.

    Args:
        folder: where it is, or is to be
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    @property
    def exists(self) -> bool:
        """Whether a study was begun here."""
        return (self.folder / "study.json").is_file()

    def begin(self, definition: Definition, cells: Sequence[Cell]) -> None:
        """Write what the study is; raises InputError if the folder holds something else."""
        files.tidy(self.folder)
        if self.folder.exists() and not self.exists and any(path.name not in BEGUN for path in self.folder.iterdir()):
            raise InputError(f"{str(self.folder)!r} holds other files and no study: name an empty folder, or a new one")
        pa, _ = records.package()
        columns = {"cell": [cell.hash for cell in cells], "parameters": [cell.parameters for cell in cells]}
        files.write_bytes_atomic(self.folder / "cells.parquet", records.packed(pa.table(columns), compression="zstd"))
        about = {"format": FORMAT, "cells": len(cells), "device": cells[0].device, "study": definition.written()}
        files.write_json(self.folder / "study.json", about)

    def about(self) -> dict[str, Any]:
        """The content of study.json; raises InputError if it is none."""
        path = self.folder / "study.json"
        try:
            found = files.read_json(path, "a study")
            if found["format"] != FORMAT:
                raise InputError(
                    f"{path} has format {found['format']}, this version reads {FORMAT}"
                    "; update stickslip, or choose another folder"
                )
            return found
        except FileNotFoundError:
            raise InputError(
                f"{str(self.folder)!r} holds no study: `stickslip study run FILE.toml --out` makes one"
            ) from None
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} is damaged ({error}): run the study again, which keeps its cells") from None

    def definition(self) -> Definition:
        """The study that was begun here."""
        return parse(self.about()["study"])

    def manifest(self) -> dict[str, str]:
        """Parameters, as JSON, of each cell by its hash."""
        path = self.folder / "cells.parquet"
        pa, _ = records.package()
        try:
            table = records.table(files.read_bytes(path, "the cells of a study"), path)
            cells = table["cell"].to_pylist()
            strange = [cell for cell in cells if not re.fullmatch(r"[0-9a-f]{8,64}", str(cell))]
            if strange:  # it would be part of a path
                raise InputError(f"{path} names a cell {strange[0]!r}: a cell is a hash of 8 to 64 digits from 0 to f")
            return dict(zip(cells, table["parameters"].to_pylist(), strict=True))
        except (OSError, KeyError, DamagedFile, pa.ArrowException) as error:
            raise InputError(f"{path} is damaged ({error}): run the study again, which keeps its cells") from None

    def path(self, status: str, cell: str, suffix: str = SUFFIX) -> Path:
        """A file of a cell."""
        return self.folder / status / cell[:2] / f"{cell}{suffix}"

    def listed(self, status: str) -> set[str]:
        """Hashes of the cells of a status, by the names of files alone."""
        found: set[str] = set()
        with contextlib.suppress(FileNotFoundError), os.scandir(self.folder / status) as shards:
            for shard in shards:
                with contextlib.suppress(NotADirectoryError), os.scandir(shard.path) as entries:
                    found.update(
                        entry.name.removesuffix(SUFFIX)
                        for entry in entries
                        if entry.name.endswith(SUFFIX) and not entry.name.startswith(".")
                    )
        return found

    def has(self, cell: str) -> bool:
        """Whether a cell is done."""
        return self.path(DONE, cell).exists()

    def put(self, record: Record, beside: Mapping[str, Path | bytes] | None = None) -> bool:
        """Store a record, and files beside it by their suffix; False if it failed here and is done already.

        The record is written last: a cell that has one has all its files.
        """
        shard = self.path(record.status, record.cell).parent
        with files.locked(self.path(DONE, record.cell).parent):  # other drivers wait
            if record.status == FAILED and self.has(record.cell):
                return False
            for name, content in (beside or {}).items():
                target = shard / name
                if isinstance(content, bytes):
                    files.write_bytes_atomic(target, content)
                else:
                    os.replace(content, target)
            files.write_bytes_atomic(self.path(record.status, record.cell), records.encode([record]))
            if record.status == DONE:
                self.path(FAILED, record.cell).unlink(missing_ok=True)
        return True

    def forget(self, cells: Iterable[str]) -> int:
        """Drop the records of cells that failed, so that they run again; returns how many."""
        count = 0
        for cell in cells:
            with contextlib.suppress(FileNotFoundError):
                self.path(FAILED, cell).unlink()
                count += 1
        for part in (self.folder / "parts").glob(f"{FAILED}-*{SUFFIX}"):
            part.unlink(missing_ok=True)
        return count

    def merge(self, stored: Sequence[Record]) -> None:
        """Write parts: rows of cells that are stored already, for quick reading."""
        for status in (DONE, FAILED):
            rows = [record for record in stored if record.status == status]
            if len(rows) > 1:
                name = f"{status}-{uuid.uuid4().hex}{SUFFIX}"
                files.write_bytes_atomic(self.folder / "parts" / name, records.encode(rows))

    def record(self, status: str, cell: str) -> Record | None:
        """The record of a cell; None if there is none, or its file is damaged."""
        table = records.read(self.path(status, cell))
        return records.decode(table)[0] if table is not None and table.num_rows == 1 else None

    def table(self, cells: Iterable[str] | None = None, *, tidy: bool = True) -> "pyarrow.Table":
        """The records of cells in their order, one row each; damaged files are left out.

        Args:
            cells: their hashes; None: those of the study
            tidy: write what was read from single files as a part, for the next time
        """
        pa, _ = records.package()
        order = list(self.manifest() if cells is None else cells)
        wanted = set(order)
        done, failed = self.listed(DONE) & wanted, self.listed(FAILED) & wanted
        failed -= done
        tables = []
        for status, cells_of in ((DONE, done), (FAILED, failed)):
            have: set[str] = set()
            for part in sorted((self.folder / "parts").glob(f"{status}-*{SUFFIX}"), key=_age):
                rows = records.read(part)
                if rows is not None and (fresh := self._fresh(rows, cells_of, have)).num_rows:
                    tables.append(fresh)
            single = [rows for cell in sorted(cells_of - have) if (rows := self._single(status, cell)) is not None]
            if single:
                tables.append(pa.concat_tables(single))
                if tidy and len(single) > 100:
                    with contextlib.suppress(OSError):  # a folder to be read only
                        self.merge(records.decode(tables[-1]))
        if not tables:
            return records.schema().empty_table()
        whole = pa.concat_tables(tables).combine_chunks()
        place = {cell: index for index, cell in enumerate(order)}
        names = whole["cell"].to_pylist()
        return records.rows(whole, sorted(range(len(names)), key=lambda index: place[names[index]]))

    def _fresh(self, table: "pyarrow.Table", done: set[str], have: set[str]) -> "pyarrow.Table":
        """Rows of cells that are done and not read yet, which are noted."""
        keep = []
        for place, cell in enumerate(table["cell"].to_pylist()):
            if cell in done and cell not in have:
                have.add(cell)
                keep.append(place)
        return table if len(keep) == table.num_rows else records.rows(table, keep)

    def _single(self, status: str, cell: str) -> "pyarrow.Table | None":
        found = records.read(self.path(status, cell))
        return found if found is not None and found["cell"].to_pylist() == [cell] else None

    def check(self) -> list[str]:
        """Cells whose file is damaged; it is removed, so that they run again."""
        bad = []
        for status in (DONE, FAILED):
            for cell in sorted(self.listed(status)):
                if self._single(status, cell) is None:
                    self.path(status, cell).unlink(missing_ok=True)
                    bad.append(cell)
        return bad

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder for unfinished files of a driver, on the same disk; those of drivers that are gone are removed."""
        place = self.folder / "scratch"
        for old in place.glob("*-*"):
            with contextlib.suppress(OSError, ValueError):
                if not self._lives(old):
                    shutil.rmtree(old)
        own = place / f"{os.uname().nodename}-{os.getpid()}"
        own.mkdir(parents=True, exist_ok=True)
        try:
            yield own
        finally:
            shutil.rmtree(own, ignore_errors=True)
            with contextlib.suppress(OSError):
                place.rmdir()

    def _lives(self, scratch: Path) -> bool:
        """Whether the driver of a folder still runs; of another machine, whether it has told of itself of late."""
        node, _, pid = scratch.name.rpartition("-")
        if node == os.uname().nodename:
            return os.path.exists(f"/proc/{int(pid)}")
        return scratch.name in self.drivers() or time.time() - scratch.stat().st_mtime < GONE

    def tell(self, name: str, about: Mapping[str, Any] | None) -> None:
        """Tell what a driver does, for `stickslip study status`; None: it has ended."""
        path = self.folder / "drivers" / f"{name}.json"
        if about is None:
            path.unlink(missing_ok=True)
        else:
            files.write_json(path, {"time": time.time(), **about})

    def drivers(self) -> dict[str, dict[str, Any]]:
        """What drivers do that are alive, by name."""
        found = {}
        for path in (self.folder / "drivers").glob("[!.]*.json"):
            with contextlib.suppress(OSError, ValueError, KeyError):
                about = files.read_json(path)
                if time.time() - about["time"] < ALIVE:
                    found[path.stem] = about
        return found


def _age(path: Path) -> float:
    """For an order with the newest file first."""
    return -path.stat().st_mtime
