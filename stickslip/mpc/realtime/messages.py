"""What goes over the bus: small messages of a fixed layout, little endian, with float64 numbers.

A message is a header (magic, version, type, length, sequence number, time of sending) and a body. Nothing in it is ever
run: a receiver looks at lengths and counts first, then at the numbers, and refuses what does not fit.
"""

import dataclasses
import enum
import math
import struct

import numpy as np

from stickslip.errors import InputError
from stickslip.mpc.task import Array

MAGIC = b"SSRT"
VERSION = 1
MAX_JOINTS = 128
"""Joints of a hand that a message has room for."""
MAX_REASON = 200
"""Bytes of a reason, in UTF-8."""
UNIT = 1e-3
"""How far the length of a quaternion may be from one."""

_HEADER = struct.Struct("<4sBBHQd")  # magic, version, type, length of all, sequence, sent
_COUNTS = struct.Struct("<HHd")  # nr, nu, time
_COMMAND = struct.Struct("<Hd")  # nu, time
_STATUS = struct.Struct("<BH")  # kind, bytes of the reason
_START = struct.Struct("<Q")  # seed
_POSE = 8

MAX_BYTES = _HEADER.size + _COUNTS.size + 8 * 3 * MAX_JOINTS
"""Of a message."""
MAX_SEED = 2**64 - 1


class Kind(enum.IntEnum):
    """What a process says of itself."""

    READY = 0
    RUNNING = 1
    ENDED = 2
    FAILED = 3


@dataclasses.dataclass(frozen=True, eq=False)
class JointState:
    """Where the hand is.

    Attributes:
        time: of the plant, when it was so [s]
        qpos: positions of the hand's joints    (nr,)
        qvel: their velocities                  (nr,)
        ctrl: joint targets in force            (nu,)
    """

    time: float
    qpos: Array
    qvel: Array
    ctrl: Array


@dataclasses.dataclass(frozen=True, eq=False)
class ObjectPose:
    """Where the object was seen.

    Attributes:
        time: of the plant, when it was seen there [s]
        pos: of its middle [m]              (3,)
        quat: its orientation, w first      (4,)
    """

    time: float
    pos: Array
    quat: Array


@dataclasses.dataclass(frozen=True, eq=False)
class Command:
    """Joint targets.

    Attributes:
        time: of the joint state that it answers [s]
        target: joint targets                  (nu,)
    """

    time: float
    target: Array


@dataclasses.dataclass(frozen=True)
class Status:
    """What a process says of itself.

    Attributes:
        kind: what
        reason: why, in short; what is too long for a message is cut off
    """

    kind: Kind
    reason: str = ""


@dataclasses.dataclass(frozen=True)
class Start:
    """The planner is ready: the plant's clock may run.

    Attributes:
        seed: of the trial, which must be the plant's
    """

    seed: int


Message = JointState | ObjectPose | Command | Status | Start
TYPES: tuple[type, ...] = (JointState, ObjectPose, Command, Status, Start)
"""The number of a type on the bus is its place here."""


@dataclasses.dataclass(frozen=True, eq=False)
class Envelope:
    """A message as it came.

    Attributes:
        sequence: messages its sender had sent before
        sent: when, on the sender's clock [s]
        message: what came
    """

    sequence: int
    sent: float
    message: Message


def encode(message: Message, sequence: int, sent: float) -> bytes:
    """Bytes of a message; raises InputError if it does not fit."""
    body = _body(message)
    total = _HEADER.size + len(body)
    data = _HEADER.pack(MAGIC, VERSION, TYPES.index(type(message)), total, sequence, sent) + body
    decode(data)  # a sender refuses what a receiver would
    return data


def decode(data: bytes) -> Envelope:
    """The message in `data`; raises InputError if it is not one."""
    if not _HEADER.size <= len(data) <= MAX_BYTES:
        raise InputError(
            f"a message of {len(data)} bytes: it must have {_HEADER.size} to {MAX_BYTES}; send what `encode` gives"
        )
    magic, version, number, total, sequence, sent = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise InputError(f"a message that begins with {magic!r}: it must begin with {MAGIC!r}; is another on the bus?")
    if version != VERSION:
        raise InputError(f"a message of version {version}: it must be {VERSION}; use one stickslip on both sides")
    if number >= len(TYPES):
        raise InputError(f"a message of type {number}: it must be below {len(TYPES)}; use one stickslip on both sides")
    if total != len(data):
        raise InputError(
            f"a message of {len(data)} bytes that says it has {total}: it was cut, or padded; send it whole"
        )
    if not math.isfinite(sent):
        raise InputError(f"a message sent at {sent}: the time must be finite; send the sender's clock in s")
    return Envelope(sequence, sent, _READERS[number](data[_HEADER.size :]))


def _body(message: Message) -> bytes:
    match message:
        case JointState():
            nr, nu = _count(message.qpos), _count(message.ctrl)
            if message.qvel.shape != message.qpos.shape:
                raise InputError(f"{message.qvel.shape} joint velocities: they must be {message.qpos.shape}, as qpos")
            numbers = np.concatenate([message.qpos, message.qvel, message.ctrl])
            return _COUNTS.pack(nr, nu, message.time) + _raw(numbers)
        case ObjectPose():
            return _raw(np.concatenate([[message.time], message.pos, message.quat]))
        case Command():
            return _COMMAND.pack(_count(message.target), message.time) + _raw(message.target)
        case Status():
            text = message.reason.encode("utf-8", "replace")[:MAX_REASON].decode("utf-8", "ignore").encode()
            return _STATUS.pack(message.kind, len(text)) + text
        case Start():
            if not 0 <= message.seed <= MAX_SEED:
                raise InputError(f"seed {message.seed}: it must be from 0 to {MAX_SEED}; choose another")
            return _START.pack(message.seed)


def _count(numbers: Array) -> int:
    if numbers.ndim != 1 or not 1 <= len(numbers) <= MAX_JOINTS:
        raise InputError(f"joints of shape {numbers.shape}: there must be 1 to {MAX_JOINTS} in a row; send one hand")
    return len(numbers)


def _raw(numbers: Array) -> bytes:
    return np.asarray(numbers, dtype="<f8").tobytes()


def _numbers(body: bytes, offset: int, count: int, what: str) -> Array:
    """`count` finite numbers that fill the body from `offset` on."""
    if len(body) != offset + 8 * count:
        raise InputError(f"{what} of {len(body)} bytes: {count} numbers take {offset + 8 * count}; send what it counts")
    numbers = np.frombuffer(body, "<f8", count, offset).astype(np.float64)
    _finite(numbers, what)
    return numbers


def _finite(numbers: Array, what: str) -> None:
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad):
        raise InputError(f"{what} with {numbers[bad[0]]} as number {bad[0]}: all must be finite; end the trial instead")


def _whole(layout: struct.Struct, body: bytes, what: str) -> tuple:
    if len(body) < layout.size:
        raise InputError(f"{what} of {len(body)} bytes: it must have {layout.size} or more; send it whole")
    return layout.unpack_from(body)


def _joints(count: int, what: str) -> None:
    if not 1 <= count <= MAX_JOINTS:
        raise InputError(f"{what} with {count} joints: there must be 1 to {MAX_JOINTS}; send one hand")


def _read_joint_state(body: bytes) -> JointState:
    nr, nu, time = _whole(_COUNTS, body, "a joint state")
    _joints(nr, "a joint state")
    _joints(nu, "a joint state")
    _finite(np.array([time]), "a joint state's time")
    numbers = _numbers(body, _COUNTS.size, 2 * nr + nu, "a joint state")
    return JointState(time, numbers[:nr], numbers[nr : 2 * nr], numbers[2 * nr :])


def _read_object_pose(body: bytes) -> ObjectPose:
    numbers = _numbers(body, 0, _POSE, "a pose")
    length = float(np.linalg.norm(np.clip(numbers[4:], -1e9, 1e9)))  # without overflow
    if abs(length - 1.0) > UNIT:
        raise InputError(f"a pose with a quaternion of length {length:.6g}: it must be 1 within {UNIT}; normalize it")
    return ObjectPose(float(numbers[0]), numbers[1:4], numbers[4:])


def _read_command(body: bytes) -> Command:
    nu, time = _whole(_COMMAND, body, "a command")
    _joints(nu, "a command")
    _finite(np.array([time]), "a command's time")
    return Command(time, _numbers(body, _COMMAND.size, nu, "a command"))


def _read_status(body: bytes) -> Status:
    kind, count = _whole(_STATUS, body, "a status")
    if kind >= len(Kind):
        raise InputError(f"a status of kind {kind}: it must be below {len(Kind)}; use one stickslip on both sides")
    if count > MAX_REASON or len(body) != _STATUS.size + count:
        raise InputError(
            f"a status with {len(body) - _STATUS.size} bytes of reason that says {count}: they must agree "
            f"and be at most {MAX_REASON}; cut the reason"
        )
    try:
        return Status(Kind(kind), body[_STATUS.size :].decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(f"a status whose reason is not UTF-8 ({error.reason}); encode it as UTF-8") from None


def _read_start(body: bytes) -> Start:
    if len(body) != _START.size:
        raise InputError(f"a start of {len(body)} bytes: it must have {_START.size}; send what `encode` gives")
    return Start(_START.unpack(body)[0])


_READERS = (_read_joint_state, _read_object_pose, _read_command, _read_status, _read_start)
