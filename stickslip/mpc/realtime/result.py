"""What a plant says when its trial is over, as bytes for the private line; it is too long for the bus."""

import dataclasses
import math
import struct

import numpy as np

from stickslip.errors import InputError
from stickslip.mpc.realtime.bus import Counts
from stickslip.mpc.realtime.messages import MAX_REASON
from stickslip.mpc.task import Array

MAGIC = b"SSRR"
VERSION = 1
_HEADER = struct.Struct("<4sBxHII8d6Q")


@dataclasses.dataclass(frozen=True, eq=False)
class Result:
    """What came of a trial, as the plant saw it.

    Attributes:
        reason: why it ended; at most MAX_REASON bytes
        frames: qpos at the start and after each control step      (steps + 1, nq), none if unknown
        position: distance from the goal, mean over the last steps that success asks for [m]; NaN without a step
        rotation: 1 - (q.q*)^2 likewise
        simulated: time of the plant [s]
        wall: time it took [s]
        slipped: time that the plant gave up on, since it could not keep up with the clock [s]
        latency: from a joint state to the command that answers it taking force, mean [s]; NaN without a command
        worst: the longest of these [s]
        longest: time that a command was held before the next came, or the end [s]
        commands: that took force
        refused: that came and were not fit for the plant, or too old
        counts: messages at the plant's end of the bus
    """

    reason: str
    frames: Array
    position: float = math.nan
    rotation: float = math.nan
    simulated: float = 0.0
    wall: float = 0.0
    slipped: float = 0.0
    latency: float = math.nan
    worst: float = math.nan
    longest: float = 0.0
    commands: int = 0
    refused: int = 0
    counts: Counts = Counts()


def no_frames(nq: int) -> Array:
    """Frames of a trial of which nothing is known, (0, nq)."""
    return np.zeros((0, nq))


def encode(result: Result) -> bytes:
    """Bytes of a result; a reason that is too long is cut off."""
    reason = result.reason.encode("utf-8", "replace")[:MAX_REASON].decode("utf-8", "ignore").encode()
    counts = result.counts
    header = _HEADER.pack(
        MAGIC,
        VERSION,
        len(reason),
        *result.frames.shape,
        result.position,
        result.rotation,
        result.simulated,
        result.wall,
        result.slipped,
        result.latency,
        result.worst,
        result.longest,
        result.commands,
        result.refused,
        counts.sent,
        counts.skipped,
        counts.received,
        counts.malformed,
    )
    return header + reason + np.ascontiguousarray(result.frames, dtype="<f8").tobytes()


def most_bytes(steps: int, nq: int) -> int:
    """Of a result of a trial that may take so many control steps, with so many positions."""
    return _HEADER.size + MAX_REASON + 8 * (steps + 1) * nq


def decode(data: bytes, steps: int, nq: int) -> Result:
    """The result in `data`, of a trial of at most `steps` control steps; raises InputError if it is not one."""
    if not _HEADER.size <= len(data) <= most_bytes(steps, nq):
        raise InputError(
            f"a result of {len(data)} bytes: it must have {_HEADER.size} to {most_bytes(steps, nq)}; "
            "use one stickslip on both sides"
        )
    magic, version, length, rows, columns, *numbers = _HEADER.unpack_from(data)
    if (magic, version) != (MAGIC, VERSION):
        raise InputError(f"a result of kind {magic!r}, version {version}: it must be {MAGIC!r}, version {VERSION}")
    total = _HEADER.size + length + 8 * rows * columns
    if length > MAX_REASON or columns != nq or rows > steps + 1 or total != len(data):
        raise InputError(
            f"a result of {len(data)} bytes with {length} bytes of reason and {rows} x {columns} positions: at most "
            f"{MAX_REASON}, and {steps + 1} x {nq}, that fill it; use one stickslip on both sides"
        )
    reason = data[_HEADER.size : _HEADER.size + length].decode("utf-8", "replace")
    frames = np.frombuffer(data, "<f8", rows * columns, _HEADER.size + length).astype(np.float64)
    commands, refused, *counts = numbers[8:]
    position, rotation, simulated, wall, slipped, latency, worst, longest = numbers[:8]
    return Result(
        reason,
        frames.reshape(rows, columns),
        position=position,
        rotation=rotation,
        simulated=simulated,
        wall=wall,
        slipped=slipped,
        latency=latency,
        worst=worst,
        longest=longest,
        commands=commands,
        refused=refused,
        counts=Counts(*counts),
    )
