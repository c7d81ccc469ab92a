"""Ctrl-C that is never lost: Python drops an exception that is raised while an object is being deleted."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

_AGAIN = 0.02
"""Time after which an interrupt that came at a bad moment comes again [s]."""


@contextlib.contextmanager
def heeded() -> Iterator[None]:
    """Within this, Ctrl-C raises KeyboardInterrupt where something can catch it, if need be a moment later."""
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not usual or threading.current_thread() is not threading.main_thread():
        yield  # somebody else looks after it, or only the main thread may
        return
    signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupt(signum: int, frame: FrameType | None) -> None:
    if not _deletes(frame):
        raise KeyboardInterrupt
    again = threading.Timer(_AGAIN, os.kill, (os.getpid(), signum))
    again.daemon = True
    again.start()


def _deletes(frame: FrameType | None) -> bool:
    """Whether an object is being deleted, which calls `__del__` in the midst of anything."""
    while frame is not None:
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False
