"""The bus between planner and plant: messages come whole or not at all, and nobody ever waits for room.

The built-in one is a pair of sockets that only the two processes hold. No other process can read or write it.
"""

import abc
import collections
import dataclasses
import select
import socket
import time
from collections.abc import Callable

from stickslip.errors import InputError
from stickslip.mpc.realtime.messages import MAX_BYTES, Envelope, Message, decode, encode

MAX_BATCH = 1000
"""Messages that one call of `receive` takes at most, so that a flood cannot hold it."""
Queue = collections.deque[bytes]


@dataclasses.dataclass(frozen=True)
class Counts:
    """Messages of one end of a bus.

    Attributes:
        sent: that went out
        skipped: that did not, since there was no room, or nobody at the other end
        received: that came and were read
        malformed: that came and were dropped, since they were no message
    """

    sent: int = 0
    skipped: int = 0
    received: int = 0
    malformed: int = 0


class Bus(abc.ABC):
    """One end of a bus. Both ends must share a clock for `Envelope.sent` to mean anything."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sent = self._skipped = self._received = self._malformed = 0

    @property
    def counts(self) -> Counts:
        """What went over this end so far."""
        return Counts(self._sent, self._skipped, self._received, self._malformed)

    def publish(self, message: Message) -> bool:
        """Send a message; False if it was skipped. Raises InputError if the message does not fit a bus."""
        data = encode(message, self._sent + self._skipped, self._clock())
        went = self._send(data, type(message).__name__)
        self._sent += went
        self._skipped += not went
        return went

    def receive(self, timeout: float) -> list[Envelope]:
        """What has come, oldest first; waits up to `timeout` [s] for the first. What is no message is dropped."""
        envelopes = []
        for data in self._receive(timeout):
            try:
                envelopes.append(decode(data))
            except InputError:
                self._malformed += 1
        self._received += len(envelopes)
        return envelopes

    @abc.abstractmethod
    def _send(self, data: bytes, kind: str) -> bool:
        """Send at once or not at all; `kind` names the type."""

    @abc.abstractmethod
    def _receive(self, timeout: float) -> list[bytes]:
        """At most MAX_BATCH messages; waits up to `timeout` [s] for the first."""

    @abc.abstractmethod
    def close(self) -> None:
        """Give up this end."""


class LoopbackBus(Bus):
    """One end of a pair of sockets."""

    def __init__(self, end: socket.socket, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        end.setblocking(False)
        self._socket = end
        self._alone = False

    @property
    def alone(self) -> bool:
        """Whether the other end was found closed."""
        return self._alone

    def _send(self, data: bytes, kind: str) -> bool:
        try:
            return self._socket.send(data) == len(data)
        except OSError:  # no room, or nobody there
            return False

    def _receive(self, timeout: float) -> list[bytes]:
        if self._alone:
            time.sleep(max(0.0, timeout))
            return []
        if timeout > 0.0:
            select.select([self._socket], [], [], timeout)
        batch = []
        while len(batch) < MAX_BATCH:
            try:
                data = self._socket.recv(MAX_BYTES + 1)  # what is longer is seen to be
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                self._alone = True
                break
            if not data:
                self._alone = True
                break
            batch.append(data)
        return batch

    def close(self) -> None:
        self._socket.close()


class MemoryBus(Bus):
    """One end of a bus within a process, which costs no file descriptors. Made by `memory_pair`."""

    def __init__(self, out: Queue, into: Queue) -> None:
        super().__init__()
        self._out, self._in = out, into

    def _send(self, data: bytes, kind: str) -> bool:
        room = len(self._out) < MAX_BATCH
        if room:
            self._out.append(data)
        return room

    def _receive(self, timeout: float) -> list[bytes]:
        if not self._in:  # whoever could send is the one that waits
            time.sleep(max(0.0, timeout))
        return [self._in.popleft() for _ in range(min(MAX_BATCH, len(self._in)))]

    def close(self) -> None:
        self._in.clear()


def memory_pair() -> tuple[MemoryBus, MemoryBus]:
    """Both ends of a bus within a process."""
    one: Queue = collections.deque()
    other: Queue = collections.deque()
    return MemoryBus(one, other), MemoryBus(other, one)


def pair() -> tuple[socket.socket, socket.socket]:
    """Two sockets that hold messages apart; one is for a child process.

    With SOCK_SEQPACKET there is room for some hundred messages; SOCK_DGRAM, where the former is missing, has less.
    """
    try:
        return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    except OSError:
        return socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
