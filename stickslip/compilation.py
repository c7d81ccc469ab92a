"""Compile the kernels of a step on all cores at once.

Warp compiles a module when one of its kernels is first launched, one module after another; a step of a scene with
many kinds of geoms needs dozens. Here the step runs once with launches noted instead of carried out, then Warp loads
the modules of all noted kernels in parallel. It is only a head start: whatever is missed compiles at its launch.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import warp as wp
from warp._src import context  # private: wp.launch_tiled forwards to the `launch` of this module

_REPLACED = (
    (context, "launch"),
    (wp, "launch"),
    (wp, "capture_while"),
    (wp, "capture_if"),
    # these run native code on arrays that kernels would have filled
    (wp.utils, "segmented_sort_pairs"),
    (wp.utils, "radix_sort_pairs"),
    (wp.utils, "array_scan"),
)


def load_kernels(step: Callable[[], Any], device: Any) -> None:
    """Compile and load the kernels that `step()` launches; the arrays those kernels write keep their values.

    Not for several threads at once: what another thread launches meanwhile is noted too, and not carried out.
    """
    with _noting_launches() as noted:
        step()
    by_block: dict[int | None, dict[Any, None]] = {}
    for kernel, block_dim in noted:
        if not kernel.is_generic:
            by_block.setdefault(block_dim, {})[kernel.module] = None
    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    workers = min(workers, 16)
    for block_dim, modules in by_block.items():
        waiting = list(modules)
        while waiting:  # in batches, since Ctrl-C waits for all that was handed over
            batch, waiting = waiting[: 2 * workers], waiting[2 * workers :]
            wp.force_load(device=device, modules=batch, block_dim=block_dim, max_workers=workers)


@contextlib.contextmanager
def _noting_launches() -> Iterator[list[tuple[Any, int | None]]]:
    """Make Warp note kernels and block sizes instead of launching; the bodies of its loops and branches run once."""
    noted: list[tuple[Any, int | None]] = []

    def launch(kernel: Any, dim: Any, *_args: Any, block_dim: int | None = None, **_options: Any) -> None:
        if 0 not in (dim if isinstance(dim, Sequence) else (dim,)):  # Warp loads nothing for an empty launch
            noted.append((kernel, block_dim))

    def capture_while(_condition: Any, while_body: Any, stream: Any = None, **kwargs: Any) -> None:
        while_body(**kwargs)

    def capture_if(
        _condition: Any, on_true: Any = None, on_false: Any = None, stream: Any = None, **kwargs: Any
    ) -> None:
        for branch in (on_true, on_false):
            if branch is not None:
                branch(**kwargs)

    def nothing(*_args: Any, **_options: Any) -> None:
        pass

    stand_ins = {"launch": launch, "capture_while": capture_while, "capture_if": capture_if}
    saved = [(module, name, getattr(module, name)) for module, name in _REPLACED]
    for module, name, _ in saved:
        setattr(module, name, stand_ins.get(name, nothing))
    try:
        yield noted
    finally:
        for module, name, original in saved:
            setattr(module, name, original)
