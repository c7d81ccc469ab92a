"""Messages between a driver and its workers: JSON with its length before it, over pipes."""

import json
import struct
from typing import Any, BinaryIO

_HEAD = struct.Struct("<I")
MOST = 256 << 20
"""Bytes of a message at most."""


def packed(message: dict[str, Any]) -> bytes:
    """A message as it is sent."""
    data = json.dumps(message).encode()
    return _HEAD.pack(len(data)) + data


def receive(file: BinaryIO) -> dict[str, Any] | None:
    """Wait for a message; None if the other end is gone."""
    head = _exactly(file, _HEAD.size)
    data = _exactly(file, _HEAD.unpack(head)[0]) if head else b""
    return json.loads(data) if data else None


def _exactly(file: BinaryIO, count: int) -> bytes:
    found = b""
    while len(found) < count:
        more = file.read(count - len(found))
        if not more:
            return b""
        found += more
    return found


class Inbox:
    """Messages from bytes that arrive in pieces."""

    def __init__(self) -> None:
        self._waiting = bytearray()

    def add(self, data: bytes) -> list[dict[str, Any]]:
        """Add bytes; the messages that are complete."""
        self._waiting += data
        found = []
        while len(self._waiting) >= _HEAD.size:
            count = _HEAD.unpack_from(self._waiting)[0]
            if count > MOST:
                raise ValueError(f"a message of {count} bytes")
            if len(self._waiting) < _HEAD.size + count:
                break
            found.append(json.loads(self._waiting[_HEAD.size : _HEAD.size + count]))
            del self._waiting[: _HEAD.size + count]
        return found
