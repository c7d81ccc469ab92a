"""A progress bar over the steps of a long run."""

import time
from collections.abc import Iterator
from typing import Any, Self

import warp as wp

PATIENCE = 0.2
"""Time between two looks at the bar [s]."""


class Bar:
    """Hands out steps in pieces; with a bar, in pieces so short that it moves.

    Args:
        show: whether there is a bar, on standard error
        total: steps of the run
        device: where they run
    """

    def __init__(self, show: bool, total: int, device: wp.Device) -> None:
        self._show, self._total, self._device = show, total, device
        self._done, self._seconds = 0, 0.0
        self._progress: Any = None

    def __enter__(self) -> Self:
        if self._show:
            from rich.console import Console

            from stickslip.progress import progress_bar

            self._progress = progress_bar(Console(stderr=True))
            self._progress.start()
            self._task = self._progress.add_task("stepping", total=self._total)
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def pieces(self, n: int) -> Iterator[int]:
        """Numbers of steps that add up to n; the caller takes so many before it asks for the next."""
        if self._progress is None:
            yield n
            return
        while n:
            piece = min(n, max(1, int(PATIENCE * self._done / self._seconds)) if self._seconds else 1)
            start = time.perf_counter()
            yield piece
            wp.synchronize_device(self._device)
            self._seconds += time.perf_counter() - start
            self._done += piece
            n -= piece
            self._progress.advance(self._task, piece)
