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
    with pytest.raises(KeyboardInterrupt), interrupts.heeded():
        thing = Slow()
        del thing
        deleted = True
        time.sleep(10.0)
    assert deleted
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_elsewhere_comes_at_once():
    with pytest.raises(KeyboardInterrupt), interrupts.heeded():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(10.0)


def test_who_has_a_handler_of_their_own_keeps_it():
    seen = []
    signal.signal(signal.SIGINT, lambda signum, frame: seen.append(signum))
    with interrupts.heeded():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
    assert seen == [signal.SIGINT]


def test_other_threads_may_run_it_too():
    done = []

    def run() -> None:
        with interrupts.heeded():
            done.append(True)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert done == [True]
