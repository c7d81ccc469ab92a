"""The private line between the two processes: it carries the result, and tells each when the other is gone.

It is a pair of stream sockets. The planner's side writes nothing: when it closes its half, by will or by death, the
plant ends. The plant writes its result, once, and closes.
"""

import contextlib
import socket

SEND_LIMIT = 10.0
"""Time the planner's side has to take the result [s]."""
_CHUNK = 1 << 16


class PlantEnd:
    """The end that the plant's process has."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        end.setblocking(False)

    def gone(self) -> bool:
        """Whether the planner's side has closed its half: it asks to stop, or has died."""
        try:
            return self._socket.recv(1) == b""
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            return True

    def send(self, data: bytes) -> None:
        """Send the result and close; nobody may be there any more."""
        self._socket.settimeout(SEND_LIMIT)
        try:
            self._socket.sendall(data)
        except OSError:
            pass
        finally:
            self._socket.close()


class PlannerEnd:
    """The end that the planner's process has; it keeps at most `limit` bytes and one."""

    def __init__(self, end: socket.socket, limit: int) -> None:
        self._socket, self._limit = end, limit
        self._data = bytearray()
        self._closed = False
        end.setblocking(False)

    def poll(self) -> bytes | None:
        """All the plant has written, once it has closed its end; None before. Never waits."""
        while not self._closed:
            try:
                chunk = self._socket.recv(_CHUNK)
            except (BlockingIOError, InterruptedError):
                return None
            except OSError:
                chunk = b""
            self._data += chunk
            self._closed = not chunk or len(self._data) > self._limit
        return bytes(self._data[: self._limit + 1])

    def stop(self) -> None:
        """Ask the plant to end."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Hang up."""
        self._socket.close()
