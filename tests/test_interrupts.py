"""Ctrl-C reaches whoever waits for it, also when it comes while an object is being deleted."""

import os
import signal
import threading
import time

import pytest

from stickslip import interrupts


class Slow:
    """Is interrupted while it is being deleted."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)


@pytest.fixture(autouse=True)
def usual():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.filterwarnings("error")
def test_an_interrupt_during_a_deletion_comes_again_afterwards():
    deleted = False
    with pytest.raises(KeyboardInterrupt), interrupts.reliable():
        thing = Slow()
        del thing
        deleted = True
        time.sleep(10.0)
    assert deleted
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_elsewhere_comes_at_once():
    with pytest.raises(KeyboardInterrupt), interrupts.reliable():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(10.0)


def test_who_has_a_handler_of_their_own_keeps_it():
    seen = []
    signal.signal(signal.SIGINT, lambda signum, frame: seen.append(signum))
    with interrupts.reliable():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
    assert seen == [signal.SIGINT]


def test_other_threads_may_run_it_too():
    done = []

    def run() -> None:
        with interrupts.reliable():
            done.append(True)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert done == [True]


def test_a_deferred_interrupt_is_noted_and_the_second_raises():
    with interrupts.reliable():
        before = signal.getsignal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt), interrupts.deferred() as request:
            assert not request.made
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
            assert request.made
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(10.0)
        assert signal.getsignal(signal.SIGINT) is before


def test_a_deferred_interrupt_leaves_other_handlers_alone():
    seen = []
    signal.signal(signal.SIGINT, lambda signum, frame: seen.append(signum))
    with interrupts.deferred() as request:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
    assert seen == [signal.SIGINT] and not request.made
