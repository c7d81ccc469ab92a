"""Channels between planner and plant: nobody waits for room, and the newest message of a type wins.

`PipeChannel` connects two processes over a `multiprocessing.Pipe`, `memory_pair` two ends within one process.
"""

import abc
import collections
import contextlib
import dataclasses
import select
import time
from multiprocessing.connection import Connection

from stickslip.mpc.realtime.messages import Counts, Message, Result

MAX_BATCH = 1000
"""Messages that one call of `receive` returns at most."""


@dataclasses.dataclass(frozen=True, eq=False)
class Envelope:
    """A message with the time it was published, on the machine's monotonic clock [s]."""

    published: float
    message: Message


class Channel(abc.ABC):
    """One end of a channel.

    Attributes:
        closed: whether the other end is closed or its process has died, and all that it sent has been received
    """

    def __init__(self) -> None:
        self.closed = False
        self._sent = self._skipped = self._received = 0

    @property
    def counts(self) -> Counts:
        """Messages at this end so far."""
        return Counts(self._sent, self._skipped, self._received)

    @abc.abstractmethod
    def publish(self, message: Message) -> None:
        """Send a message without waiting."""

    @abc.abstractmethod
    def receive(self, timeout: float = 0.0) -> list[Envelope]:
        """Messages that have arrived, oldest first; waits up to `timeout` [s] for the first one."""


class PipeChannel(Channel):
    """One end of a `multiprocessing.Pipe`.

    When the pipe is full, the newest message of each type waits. It replaces an older one, which is skipped.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection
        self._writable = select.poll()
        self._writable.register(connection.fileno(), select.POLLOUT)
        self._pending: dict[type, Envelope] = {}
        self._unread = False  # the other end is closed; what it sent before may still be received

    def publish(self, message: Message) -> None:
        self._skipped += type(message) in self._pending
        self._pending[type(message)] = Envelope(time.monotonic(), message)
        self._flush()

    def receive(self, timeout: float = 0.0) -> list[Envelope]:
        self._flush()
        if self.closed:
            time.sleep(max(0.0, timeout))
            return []
        arrived: list[Envelope] = []
        try:
            while len(arrived) < MAX_BATCH and self._connection.poll(0.0 if arrived else max(0.0, timeout)):
                arrived.append(self._connection.recv())
        except (EOFError, OSError):
            self.closed = self._unread = True
        self._received += len(arrived)
        return arrived

    def finish(self, result: Result) -> None:
        """Send the last message and close this end. Waits until the other end has read it or is closed."""
        with contextlib.suppress(OSError):
            self._connection.send(Envelope(time.monotonic(), result))
        self.close()

    def close(self) -> None:
        """Close this end."""
        self.closed = self._unread = True
        self._connection.close()

    def _flush(self) -> None:
        """Send what waits, as long as there is room.

        A pipe that is writable has room for a whole message: Linux calls it writable up to a quarter of its buffer.
        """
        while self._pending and not self._unread and self._writable.poll(0):
            try:
                self._connection.send(self._pending.pop(next(iter(self._pending))))
                self._sent += 1
            except OSError:
                self._skipped += 1
                self._unread = True
        if self._unread:
            self._skipped += len(self._pending)
            self._pending.clear()


class MemoryChannel(Channel):
    """One end of a channel within a process; see `memory_pair`."""

    def __init__(self, out: collections.deque[Envelope], into: collections.deque[Envelope]) -> None:
        super().__init__()
        self._out, self._in = out, into

    def publish(self, message: Message) -> None:
        self._out.append(Envelope(time.monotonic(), message))
        self._sent += 1

    def receive(self, timeout: float = 0.0) -> list[Envelope]:
        arrived = [self._in.popleft() for _ in range(len(self._in))]
        self._received += len(arrived)
        return arrived


def memory_pair() -> tuple[MemoryChannel, MemoryChannel]:
    """Both ends of a channel within a process. It holds any number of messages; `timeout` has no meaning."""
    one: collections.deque[Envelope] = collections.deque()
    other: collections.deque[Envelope] = collections.deque()
    return MemoryChannel(one, other), MemoryChannel(other, one)
