"""The progress bar of all commands, and log lines about what takes long."""

import contextlib
import logging
from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn


def progress_bar(console: Console) -> Progress:
    """A bar that counts and shows the remaining time; it disappears when the work is done."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )


@contextlib.contextmanager
def showing_log(console: Console) -> Iterator[None]:
    """Print what stickslip logs within this, such as what is compiled. Without it the log is silent."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            console.print(escape(record.getMessage()), soft_wrap=True)

    log, handler = logging.getLogger("stickslip"), Handler(logging.INFO)
    level, propagate = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False  # a package may have configured the root logger to print too
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
        log.propagate = propagate
