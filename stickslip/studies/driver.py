"""The driver of a study: gives cells to an executor, stores what comes of them, and tries again what failed."""

import concurrent.futures
import dataclasses
import os
import random
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from stickslip import interrupts
from stickslip.errors import StickslipError
from stickslip.studies.cell import Cell
from stickslip.studies.execute import FULL
from stickslip.studies.executors.base import Event, Executor
from stickslip.studies.records import DONE, FAILED, Record
from stickslip.studies.schedule import Schedule
from stickslip.studies.store import Store

LOST = 10
"""How often a cell may be lost with its machine before that counts as a failure."""
PART = 5000
"""Records of a part."""
BEAT = 2.0
"""Time between two words to `stickslip study status` [s]."""
WRITERS = 4
"""Threads that write: a disk takes several files in the time of one."""
OTHERS = 64
"""Cells between two looks at what other drivers have done."""


class DiskFull(StickslipError, OSError):
    """The disk of the store is full; all that was stored is whole."""


@dataclasses.dataclass
class Progress:
    """How far a driver is.

    Attributes:
        cells: of the study
        done, failed: of them
        running: at the moment
        ran: cells that came to an end in this call
        seconds: since it began
        note: what is told beside it
    """

    cells: int
    done: int = 0
    failed: int = 0
    running: int = 0
    ran: int = 0
    seconds: float = 0.0
    interrupted: bool = False
    note: str = ""

    @property
    def rate(self) -> float:
        """Cells in a second."""
        return self.ran / self.seconds if self.seconds else 0.0

    @property
    def left(self) -> float | None:
        """Time that the rest takes [s], if it goes on like this; None if that is not known."""
        rest = self.cells - self.done - self.failed
        return rest / self.rate if self.rate else None

    @property
    def complete(self) -> bool:
        """Whether every cell is done."""
        return self.done == self.cells


class Driver:
    """Runs the cells of a study that are not done.

    Args:
        store: where
        cells: all of them
        executor: on what
        tries: how often a cell that fails is run
        told: is called with the progress, several times a second
    """

    def __init__(
        self,
        store: Store,
        cells: Sequence[Cell],
        executor: Executor,
        *,
        tries: int,
        told: Callable[[Progress], None] = lambda progress: None,
    ) -> None:
        self._store, self._executor, self._tries, self._told = store, executor, tries, told
        self._cells = {cell.hash: cell for cell in cells}
        self._running: dict[str, Cell] = {}
        self._tried: dict[str, int] = {}
        self._lost: dict[str, int] = {}
        self._rows: list[Record] = []
        self._lock = threading.Lock()
        self._writes: set[concurrent.futures.Future[None]] = set()
        self._name = f"{os.uname().nodename}-{os.getpid()}"
        self.progress = Progress(len(self._cells))

    def run(self) -> Progress:
        """Run until every cell is done or given up, or Ctrl-C; what was stored stays in every case.

        Ctrl-C lets the cells that run come to their end; a second one ends them.

        Raises DiskFull if results cannot be stored.
        """
        done = self._store.listed(DONE) & self._cells.keys()
        failed = (self._store.listed(FAILED) & self._cells.keys()) - done
        for cell in failed:
            record = self._store.record(FAILED, cell)
            self._tried[cell] = self._tries if record is None else record.tries
        given_up = {cell for cell in failed if self._tried[cell] >= self._tries}
        waiting = [cell for key, cell in self._cells.items() if key not in done and key not in given_up]
        others = bool(self._store.drivers())
        schedule = Schedule(waiting, random.random() if others else 0.0)
        self.progress.done, self.progress.failed = len(done), len(given_up)
        begun = time.monotonic()
        beat = told = 0.0
        try:
            with (
                concurrent.futures.ThreadPoolExecutor(WRITERS) as writers,
                interrupts.deferred() as request,
            ):
                while (len(schedule) and not request.made) or self._running:
                    if not request.made:
                        self._fill(schedule)
                    for event in self._executor.poll(0.1):
                        self._take(event, schedule, writers)
                    self._written(wait=len(self._writes) > 8 * WRITERS)
                    now = time.monotonic()
                    self.progress.seconds, self.progress.running = now - begun, len(self._running)
                    if now - told > 0.1:
                        self.progress.note = "Ctrl-C: waiting for the cells that run" if request.made else ""
                        self._told(self.progress)
                        told = now
                    if now - beat > BEAT:
                        self._store.tell(self._name, dataclasses.asdict(self.progress))
                        beat = now
                self._written(wait=True)
            self.progress.interrupted = request.made
        except OSError as error:
            if error.errno in FULL:
                raise self._full(str(error)) from error
            raise
        finally:
            self._close()
            self._executor.close()
            self.progress.seconds, self.progress.running = time.monotonic() - begun, 0
            self._told(self.progress)
        return self.progress

    def _fill(self, schedule: Schedule) -> None:
        """Give every slot with room a cell that nobody else has done."""
        for slot in self._executor.slots():
            for _ in range(self._executor.room(slot)):
                while (cell := schedule.next(slot)) is not None:
                    if not self._store.has(cell.hash):
                        break
                    self.progress.done += 1  # another driver was quicker
                if cell is None:
                    return
                self._running[cell.hash] = cell
                self._executor.submit(slot, cell.task())

    def _take(self, event: Event, schedule: Schedule, writers: concurrent.futures.Executor) -> None:
        """Store what came of a cell, or have it run again."""
        cell = self._running.pop(event.hash, None)
        if cell is None:
            return
        if event.reply is None:
            self._lost[cell.hash] = self._lost.get(cell.hash, 0) + 1
            if self._lost[cell.hash] < LOST:
                schedule.back(cell, last=False)
                return
        reply = event.reply or {
            "status": FAILED,
            "cause": f"lost: {event.lost}",
            "error": f"{event.lost}; it was lost {LOST} times",
        }
        if reply["status"] == "full":
            raise self._full(str(reply.get("error")))
        if reply["status"] == "other":
            raise StickslipError(
                f"cell {cell.hash} cannot run: {reply['error']}. Nothing is lost; begin the study again, with the same "
                "stickslip and the same files everywhere"
            )
        record = self._record(cell, reply)
        if record.status == FAILED:
            self._tried[cell.hash] = record.tries
            if record.tries < self._tries:
                schedule.back(cell, last=True)
            else:
                self.progress.failed += 1
        else:
            self.progress.done += 1
        if record.status == DONE or record.tries >= self._tries:
            self.progress.ran += 1
        beside = {_name(cell.hash, name): content for name, content in event.files.items()}
        self._writes.add(writers.submit(self._put, record, beside))

    def _record(self, cell: Cell, reply: Mapping[str, Any]) -> Record:
        names = ("metrics", "labels", "messages", "cause", "error", "machine", "versions", "began", "wall_s")
        given = {name: reply[name] for name in names if name in reply}
        return Record(
            cell.hash,
            cell.run,
            cell.parameters,
            reply["status"],
            files=[_name(cell.hash, name) for name in reply.get("files", [])],
            tries=self._tried.get(cell.hash, 0) + 1,
            source=cell.source,
            model=cell.model,
            **given,
        )

    def _put(self, record: Record, beside: Mapping[str, Path | bytes]) -> None:
        """In a thread: store a record."""
        self._store.put(record, beside)
        for folder in {place.parent for place in beside.values() if isinstance(place, Path)}:
            shutil.rmtree(folder, ignore_errors=True)
        if record.status == DONE or record.tries >= self._tries:
            with self._lock:
                self._rows.append(record)
                rows = self._rows
                if len(rows) < PART:
                    return
                self._rows = []
            self._store.merge(rows)

    def _written(self, *, wait: bool) -> None:
        """Raise what went wrong in writing."""
        if wait:
            concurrent.futures.wait(self._writes)
        for future in [one for one in self._writes if one.done()]:
            self._writes.discard(future)
            future.result()

    def _close(self) -> None:
        """Write the last part, and say goodbye; neither matters if the disk is full."""
        try:
            self._store.merge(self._rows)
            self._store.tell(self._name, None)
        except OSError:
            pass

    def _full(self, what: str) -> DiskFull:
        return DiskFull(
            f"the disk is full ({what}): {self.progress.done} of {self.progress.cells} cells are stored and whole; "
            "make room and run the study again, which goes on from there"
        )


def _name(cell: str, file: str) -> str:
    """The name of a file of a cell in the store."""
    return f"{cell}.npz" if file == "arrays.npz" else f"{cell}-{file}"
