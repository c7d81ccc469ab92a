"""Channels: messages arrive in order, nobody waits for room, the newest wins, and the end of a peer is noticed."""

import multiprocessing
from collections.abc import Iterator

import numpy as np
import pytest

from stickslip.mpc.realtime.channel import PipeChannel, memory_pair
from stickslip.mpc.realtime.messages import Command, Counts, JointState, ObjectPose, Result, Signal


def state(time: float) -> JointState:
    return JointState(time, np.full(9, time), np.zeros(9), np.zeros(9))


@pytest.fixture
def ends() -> Iterator[tuple[PipeChannel, PipeChannel]]:
    one, other = multiprocessing.get_context("spawn").Pipe()
    ours, theirs = PipeChannel(one), PipeChannel(other)
    yield ours, theirs
    ours.close()
    theirs.close()


def test_messages_arrive_in_order_and_to_the_bit(ends: tuple[PipeChannel, PipeChannel]) -> None:
    ours, theirs = ends
    rng = np.random.default_rng(0)
    target = rng.normal(size=16)
    sent = [Signal.READY, state(0.5), ObjectPose(0.25, rng.normal(size=3), rng.normal(size=4)), Command(0.5, target)]
    for message in sent:
        ours.publish(message)
    got = theirs.receive(1.0)
    assert got[0].message is Signal.READY
    assert [type(envelope.message) for envelope in got] == [type(message) for message in sent]
    np.testing.assert_array_equal(got[3].message.target, target)
    assert [envelope.published for envelope in got] == sorted(envelope.published for envelope in got)
    assert ours.counts == Counts(sent=4) and theirs.counts == Counts(received=4)
    theirs.publish(Signal.START)
    assert [envelope.message for envelope in ours.receive(1.0)] == [Signal.START]
    assert ours.receive(0.0) == [] and not ours.closed


def test_full_pipe_skips_the_old_and_keeps_the_newest(ends: tuple[PipeChannel, PipeChannel]) -> None:
    ours, theirs = ends
    for i in range(5000):  # nobody reads
        ours.publish(state(float(i)))
        ours.publish(ObjectPose(float(i), np.zeros(3), np.eye(4)[0]))
    counts = ours.counts
    assert 10 < counts.sent < 10_000 and counts.sent + counts.skipped == 10_000 - 2  # the newest of each type wait
    assert len(theirs.receive()) == counts.sent
    assert ours.receive() == []  # there is room again
    last = [envelope.message for envelope in theirs.receive(1.0)]
    assert [(type(message), message.time) for message in last] == [(JointState, 4999.0), (ObjectPose, 4999.0)]
    assert ours.counts == Counts(sent=counts.sent + 2, skipped=counts.skipped)


def test_other_end_that_is_closed(ends: tuple[PipeChannel, PipeChannel]) -> None:
    ours, theirs = ends
    theirs.publish(Signal.READY)
    theirs.close()
    assert [envelope.message for envelope in ours.receive(1.0)] == [Signal.READY]  # what was sent before still arrives
    assert ours.closed and ours.receive(0.01) == []
    ours.publish(state(0.0))
    assert ours.counts == Counts(skipped=1, received=1)


def test_send_to_an_end_that_is_closed(ends: tuple[PipeChannel, PipeChannel]) -> None:
    ours, theirs = ends
    theirs.publish(Signal.READY)
    theirs.close()
    ours.publish(state(0.0))
    assert ours.counts == Counts(skipped=1) and not ours.closed
    assert [envelope.message for envelope in ours.receive()] == [Signal.READY]  # what was sent before still arrives
    assert ours.closed
    ours.finish(Result("nobody reads it"))


def test_result_is_the_last_message(ends: tuple[PipeChannel, PipeChannel]) -> None:
    ours, theirs = ends
    frames = np.random.default_rng(4).normal(size=(60, 9))
    theirs.publish(state(1.0))
    theirs.finish(Result("fell", frames, commands=3, counts=Counts(1, 2, 3)))
    state_, result = (envelope.message for envelope in ours.receive(1.0))
    assert isinstance(state_, JointState) and isinstance(result, Result) and ours.closed
    assert (result.reason, result.commands, result.counts) == ("fell", 3, Counts(1, 2, 3))
    np.testing.assert_array_equal(result.frames, frames)


def test_channel_within_a_process_carries_both_ways() -> None:
    one, other = memory_pair()
    one.publish(Signal.START)
    assert [e.message for e in other.receive()] == [Signal.START]
    assert other.receive() == [] and one.receive() == []
    for i in range(2000):
        other.publish(state(float(i)))
    assert [e.message.time for e in one.receive()] == list(range(2000))
    assert other.counts == Counts(sent=2000, received=1) and one.counts == Counts(sent=1, received=2000)
