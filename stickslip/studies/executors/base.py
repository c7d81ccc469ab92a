"""What every executor is: places that take a task each, and events of what came of it."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a cell may take.

    Attributes:
        timeout: longest time, without the compiling of kernels [s]
        memory: most memory of the process that runs it [bytes]
    """

    timeout: float
    memory: int


@dataclasses.dataclass(frozen=True)
class Event:
    """What came of a task.

    Attributes:
        hash: of its cell
        reply: what the process gave, see `execute`; None if it was lost
        files: files of the cell, by name: a place on the disk of the store, or their content
        lost: why there is no reply; the cell is not to blame, and runs again
    """

    hash: str
    reply: Mapping[str, Any] | None
    files: Mapping[str, Path | bytes] = dataclasses.field(default_factory=dict)
    lost: str = ""


class Executor(Protocol):
    """Runs tasks somewhere. A slot is a place for tasks; it keeps what it has compiled."""

    name: str

    def slots(self) -> Sequence[str]:
        """The slots there are, by name; it may change."""
        ...

    def room(self, slot: str) -> int:
        """How many tasks a slot takes now."""
        ...

    def submit(self, slot: str, task: Mapping[str, Any]) -> None:
        """Give a slot a task."""

    def poll(self, timeout: float) -> list[Event]:
        """What came of tasks; waits for so long at most [s]."""
        ...

    def close(self) -> None:
        """End all that runs, at once."""
