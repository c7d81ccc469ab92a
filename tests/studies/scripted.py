"""Executors for tests: cells in this process, one after another, or lost as a script says."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from stickslip.studies import parse, plan
from stickslip.studies.driver import Driver
from stickslip.studies.execute import execute
from stickslip.studies.executors.base import Event
from stickslip.studies.store import Store

PLAIN = "tests.studies.functions:plain"


class Inline:
    """Runs cells here; `script` may give what comes of a cell in the place of that."""

    name = "inline"

    def __init__(self, folder: Path, script: Callable[[Mapping[str, Any]], Event | None] = lambda task: None) -> None:
        self._folder, self._script = folder, script
        self._waiting: list[Mapping[str, Any]] = []
        self.ran: list[str] = []

    def slots(self) -> Sequence[str]:
        return ["here"]

    def room(self, slot: str) -> int:
        return 1 - len(self._waiting)

    def submit(self, slot: str, task: Mapping[str, Any]) -> None:
        self._waiting.append(task)

    def poll(self, timeout: float) -> list[Event]:
        found = []
        for task in self._waiting:
            self.ran.append(task["hash"])
            event = self._script(task)
            if event is None:
                folder = self._folder / f"{len(self.ran)}"
                folder.mkdir(parents=True)
                reply = execute(dict(task), folder, "cpu")
                event = Event(task["hash"], reply, {name: folder / name for name in reply.get("files", [])})
            found.append(event)
        self._waiting = []
        return found

    def close(self) -> None:
        pass


def study(run=PLAIN, **tables):
    """A definition on the CPU."""
    return parse({"run": run, "device": "cpu", **tables})


def serial(out: Path, definition, script=lambda task: None, *, tries: int = 2):
    """Run a study here; the store, the progress, and the executor."""
    cells = plan(definition)
    store = Store(out)
    store.begin(definition, cells)
    with store.scratch() as scratch:
        executor = Inline(scratch, script)
        progress = Driver(store, cells, executor, tries=tries).run()
    return store, progress, executor
