"""Ctrl-C that is never lost: Python drops an exception that is raised while an object is being deleted."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

_AGAIN = 0.02
"""Delay after which an interrupt that came during a deletion is sent again [s]."""


@contextlib.contextmanager
def reliable() -> Iterator[None]:
    """Within this, Ctrl-C raises KeyboardInterrupt where it can be caught, if need be a moment later."""
    if not _is_ours(signal.default_int_handler):
        yield
        return
    signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class Request:
    """Whether Ctrl-C was pressed."""

    def __init__(self) -> None:
        self.made = False


@contextlib.contextmanager
def deferred() -> Iterator[Request]:
    """Within this, the first Ctrl-C sets `made` of the request, for work that stops at a good moment.

    The second one raises KeyboardInterrupt. In a thread other than the main one, or where a program has its own
    handler, nothing changes.
    """
    request = Request()
    if not _is_ours(signal.default_int_handler, _interrupt):
        yield request
        return
    before = signal.getsignal(signal.SIGINT)

    def note(signum: int, frame: FrameType | None) -> None:
        if request.made:
            _interrupt(signum, frame)
        request.made = True

    signal.signal(signal.SIGINT, note)
    try:
        yield request
    finally:
        signal.signal(signal.SIGINT, before)


def _is_ours(*handlers: object) -> bool:
    """Whether one of these handles Ctrl-C, and this thread may set another: only the main thread may."""
    return signal.getsignal(signal.SIGINT) in handlers and threading.current_thread() is threading.main_thread()


def _interrupt(signum: int, frame: FrameType | None) -> None:
    if not _deletes(frame):
        raise KeyboardInterrupt
    again = threading.Timer(_AGAIN, os.kill, (os.getpid(), signum))
    again.daemon = True
    again.start()


def _deletes(frame: FrameType | None) -> bool:
    """Whether an object is being deleted, which can call `__del__` at any point."""
    while frame is not None:
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False
