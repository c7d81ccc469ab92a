"""Messages of the bus: what goes in comes out, and whatever else comes is refused by its name."""

import contextlib
import struct
from collections.abc import Callable

import numpy as np
import pytest

from stickslip.errors import InputError
from stickslip.mpc.realtime import messages, result
from stickslip.mpc.realtime.bus import Counts, LoopbackBus, pair
from stickslip.mpc.realtime.messages import (
    MAX_BYTES,
    MAX_JOINTS,
    MAX_REASON,
    MAX_SEED,
    Command,
    Envelope,
    JointState,
    Kind,
    Message,
    ObjectPose,
    Start,
    Status,
    decode,
    encode,
)

HEADER = 24
"""Bytes of a header."""


def random_message(rng: np.random.Generator) -> Message:
    """Of any type and size."""
    nr, nu = rng.integers(1, MAX_JOINTS + 1, 2)
    quat = rng.standard_normal(4)
    text = "".join(chr(c) for c in rng.integers(0x20, 0x2FFF, rng.integers(0, MAX_REASON // 3)))
    makers: list[Callable[[], Message]] = [
        lambda: JointState(rng.normal(), rng.normal(size=nr), rng.normal(size=nr), rng.normal(size=nu)),
        lambda: ObjectPose(rng.normal(), rng.normal(size=3), quat / np.linalg.norm(quat)),
        lambda: Command(rng.normal(), rng.normal(size=nu) * 10.0 ** rng.integers(-300, 300)),
        lambda: Status(Kind(rng.integers(len(Kind))), text),
        lambda: Start(int(rng.integers(MAX_SEED, dtype=np.uint64))),
    ]
    return makers[rng.integers(len(makers))]()


def fields(message: Message) -> list:
    return [value.tolist() if isinstance(value, np.ndarray) else value for value in vars(message).values()]


def test_round_trip() -> None:
    rng = np.random.default_rng(0)
    kinds = set()
    for sequence in range(500):
        message = random_message(rng)
        data = encode(message, sequence, 0.125 * sequence)
        assert len(data) <= MAX_BYTES
        back = decode(data)
        assert type(back.message) is type(message)
        assert fields(back.message) == fields(message)  # to the bit
        assert (back.sequence, back.sent) == (sequence, 0.125 * sequence)
        kinds.add(type(message))
    assert kinds == set(messages.TYPES)


def test_largest_fits() -> None:
    full = np.ones(MAX_JOINTS)
    assert len(encode(JointState(0.0, full, full, full), 0, 0.0)) == MAX_BYTES


def test_layout_is_little_endian() -> None:
    data = encode(Command(0.5, np.array([1.0, -2.0])), 7, 3.0)
    assert data == b"SSRT" + struct.pack("<BBHQd", 1, 2, HEADER + 26, 7, 3.0) + struct.pack("<Hddd", 2, 0.5, 1.0, -2.0)


def test_long_reason_is_cut_between_characters() -> None:
    back = decode(encode(Status(Kind.FAILED, "é" * MAX_REASON), 0, 0.0)).message
    assert back == Status(Kind.FAILED, "é" * (MAX_REASON // 2))


def test_every_truncation_and_extension_is_refused() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        data = encode(random_message(rng), 0, 0.0)
        for end in range(0, len(data), 1 + len(data) // 97):
            with pytest.raises(InputError):
                decode(data[:end])
        for more in (1, 8, MAX_BYTES):
            with pytest.raises(InputError):
                decode(data + bytes(more))


def test_garbage_is_a_message_or_refused() -> None:
    rng = np.random.default_rng(2)
    for _ in range(1000):
        data = bytearray(encode(random_message(rng), 0, 0.0))
        for _ in range(rng.integers(1, 6)):
            data[rng.integers(len(data))] = rng.integers(256)
        try:
            message = decode(bytes(data)).message
        except InputError:
            continue
        for value in vars(message).values():
            assert not isinstance(value, np.ndarray | float) or np.isfinite(value).all()
    for length in (0, 1, HEADER - 1, HEADER, 100, MAX_BYTES, MAX_BYTES + 1, 1 << 16):
        with pytest.raises(InputError):
            decode(rng.bytes(length))


def changed(message: Message, at: int, layout: str, value: float) -> bytes:
    data = bytearray(encode(message, 0, 0.0))
    struct.pack_into(layout, data, at, value)
    return bytes(data)


COMMAND = Command(0.0, np.zeros(3))
STATE = JointState(0.0, np.zeros(3), np.zeros(3), np.zeros(3))
POSE = ObjectPose(0.0, np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0]))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (changed(COMMAND, 0, "<B", 65), ["b'ASRT'", "b'SSRT'"]),
        (changed(COMMAND, 4, "<B", 9), ["version 9", "must be 1"]),
        (changed(COMMAND, 5, "<B", 77), ["type 77", "below 5"]),
        (changed(COMMAND, 6, "<H", 999), ["999", "cut, or padded"]),
        (changed(COMMAND, 16, "<d", np.nan), ["sent at nan", "finite"]),
        (changed(COMMAND, HEADER, "<H", 4), ["4 numbers", "counts"]),
        (changed(COMMAND, HEADER, "<H", 0), ["0 joints", "1 to 128"]),
        (changed(COMMAND, HEADER, "<H", 0xFFFF), ["65535 joints", "1 to 128"]),
        (changed(COMMAND, HEADER + 2, "<d", np.inf), ["time", "inf", "finite"]),
        (changed(COMMAND, HEADER + 18, "<d", np.nan), ["a command with nan as number 1", "finite"]),
        (changed(STATE, HEADER + 2, "<H", 2), ["8 numbers"]),
        (changed(STATE, HEADER + 4, "<d", -np.inf), ["time", "-inf"]),
        (changed(STATE, HEADER + 12, "<d", np.nan), ["a joint state with nan as number 0"]),
        (changed(POSE, HEADER + 32, "<d", 0.0), ["length 0", "within 0.001", "normalize"]),
        (changed(POSE, HEADER + 32, "<d", 1e308), ["length 1e+09"]),
        (changed(POSE, HEADER, "<d", np.nan), ["a pose with nan"]),
        (changed(Status(Kind.READY, "abc"), HEADER, "<B", 200), ["kind 200", "below 4"]),
        (changed(Status(Kind.READY, "abc"), HEADER + 1, "<H", 2), ["3 bytes", "says 2"]),
        (changed(Status(Kind.READY, "abc"), HEADER + 3, "<B", 0xFF), ["UTF-8"]),
    ],
)
def test_malformed_names_value_and_limit(data: bytes, words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        decode(data)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "message",
    [
        Command(0.0, np.array([0.0, np.nan])),
        Command(np.nan, np.zeros(2)),
        Command(0.0, np.zeros(0)),
        Command(0.0, np.zeros(MAX_JOINTS + 1)),
        Command(0.0, np.zeros((2, 2))),
        JointState(0.0, np.zeros(3), np.zeros(2), np.zeros(3)),
        JointState(0.0, np.zeros(3), np.full(3, np.inf), np.zeros(3)),
        ObjectPose(0.0, np.zeros(2), np.array([1.0, 0.0, 0.0, 0.0])),
        ObjectPose(0.0, np.zeros(3), np.zeros(4)),
        Start(-1),
        Start(MAX_SEED + 1),
    ],
)
def test_sender_refuses_what_does_not_fit(message: Message) -> None:
    with pytest.raises(InputError):
        encode(message, 0, 0.0)


def test_loopback_brings_messages_in_order_and_drops_garbage() -> None:
    mine, its = pair()
    ours, theirs = LoopbackBus(mine), LoopbackBus(its)
    raw = mine.dup()  # another who writes to the same end
    rng = np.random.default_rng(3)
    sent = []
    for _ in range(4):
        message = random_message(rng)
        ours.publish(message)
        raw.send(rng.bytes(100))
        sent.append(fields(message))
    raw.send(bytes(MAX_BYTES + 500))
    got: list[Envelope] = theirs.receive(1.0)
    assert [fields(envelope.message) for envelope in got] == sent
    assert [envelope.sequence for envelope in got] == [0, 1, 2, 3]
    assert theirs.counts == Counts(received=4, malformed=5)
    assert ours.counts == Counts(sent=4)
    for end in (raw, ours, theirs):
        end.close()


def test_full_loopback_skips_and_never_blocks() -> None:
    mine, its = pair()
    ours, theirs = LoopbackBus(mine), LoopbackBus(its)
    went = [ours.publish(STATE) for _ in range(5000)]  # nobody reads
    counts = ours.counts
    assert went[0] and not went[-1]
    assert counts.sent + counts.skipped == 5000 and counts.sent == sum(went)
    assert len(theirs.receive(0.0)) == counts.sent
    assert ours.publish(STATE)  # there is room again
    assert theirs.receive(1.0)[0].sequence == 5000
    for end in (ours, theirs):
        end.close()


def test_loopback_without_the_other_end() -> None:
    mine, its = pair()
    ours = LoopbackBus(mine)
    its.close()
    assert not ours.publish(STATE)
    assert ours.receive(0.0) == [] and ours.alone
    assert ours.receive(0.01) == []
    assert ours.counts == Counts(skipped=1)
    ours.close()


def test_result_round_trip_and_bounds() -> None:
    rng = np.random.default_rng(4)
    numbers = {name: float(rng.normal()) for name in "position rotation simulated wall slipped latency worst".split()}
    whole = result.Result("fell", rng.normal(size=(6, 9)), **numbers, commands=3, refused=1, counts=Counts(1, 2, 3, 4))
    data = result.encode(whole)
    back = result.decode(data, steps=5, nq=9)
    assert back.reason == "fell" and back.counts == whole.counts and (back.commands, back.refused) == (3, 1)
    assert {name: getattr(back, name) for name in numbers} == numbers
    np.testing.assert_array_equal(back.frames, whole.frames)
    assert len(data) <= result.most_bytes(5, 9)
    for wrong, steps, nq in [(data, 4, 9), (data, 5, 8), (data[:-1], 5, 9), (data + b"x", 5, 9), (b"", 5, 9)]:
        with pytest.raises(InputError):
            result.decode(wrong, steps, nq)
    for _ in range(300):
        broken = bytearray(data)
        broken[rng.integers(16)] = rng.integers(256)
        with contextlib.suppress(InputError):
            assert result.decode(bytes(broken), 5, 9).frames.shape[1] == 9
