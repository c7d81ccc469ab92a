"""Compile the kernels of a step on all cores at once.

Warp compiles a module when one of its kernels is first launched, one module after another; a step of a scene with
many kinds of geoms needs dozens. Here the step runs once with its launches recorded instead of executed. Then Warp
loads the modules of all noted kernels in parallel. Whatever this misses compiles at its first launch.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import warp as wp
from warp._src import context  # private: wp.launch_tiled forwards to the `launch` of this module

from stickslip import kernel_cache

_replacing = threading.RLock()  # held by the thread for which functions of Warp are replaced
_loud = threading.Lock()  # guards the two below
_quiet_depth = 0
_level_before = wp.LOG_INFO


def load_kernels(step: Callable[[], Any], device: Any) -> None:
    """Compile and load the kernels that `step()` launches; the arrays those kernels write keep their values.

    Only launches of the calling thread are noted. Other threads launch as usual.
    """
    with _noting_launches() as noted:
        step()
    by_block: dict[int | None, dict[Any, None]] = {}
    for kernel, block_dim in noted:
        if not kernel.is_generic:
            by_block.setdefault(block_dim, {})[kernel.module] = None
    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    workers = min(workers, 16)
    with quiet():
        for block_dim, modules in by_block.items():
            waiting = list(modules)
            while waiting:  # in batches: Ctrl-C waits for the modules that were handed over
                batch, waiting = waiting[: 2 * workers], waiting[2 * workers :]
                kernel_cache.load(device, batch, block_dim, workers)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep Warp from printing a line for every module that it loads; afterwards its log level is as before.

    Only Warp's default level is changed. The level belongs to the process: other threads are quiet meanwhile, too.
    """
    global _quiet_depth, _level_before
    with _loud:
        if _quiet_depth == 0:
            _level_before = wp.config.log_level
            if _level_before == wp.LOG_INFO:
                wp.config.log_level = wp.LOG_WARNING
        _quiet_depth += 1
    try:
        yield
    finally:
        with _loud:
            _quiet_depth -= 1
            if _quiet_depth == 0 and wp.config.log_level == wp.LOG_WARNING:  # nobody has set another one meanwhile
                wp.config.log_level = _level_before


@contextlib.contextmanager
def unchanged(arrays: Mapping[str, wp.array]) -> Iterator[None]:
    """Give arrays on a device the values back that they had on entry."""
    before = {name: wp.clone(array) for name, array in arrays.items()}
    try:
        yield
    finally:
        for name, array in arrays.items():
            wp.copy(array, before[name])


def capture(step: Callable[[], Any], device: wp.Device) -> wp.Graph:
    """Record `step()` into a graph.

    CUDA records whatever comes to the stream meanwhile, so launches of other threads wait until the graph is complete.
    """
    names = ("launch", "copy", "capture_launch") if device.is_cuda else ()
    with _replaced({name: None for name in names}, others_wait=True), wp.ScopedCapture(device=device) as recorded:
        step()
    return recorded.graph


@contextlib.contextmanager
def _noting_launches() -> Iterator[list[tuple[Any, int | None]]]:
    """Note kernels and block sizes of this thread instead of launching; bodies of loops and branches run once."""
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
    # these run native code on arrays that kernels would have filled
    stand_ins |= dict.fromkeys(("segmented_sort_pairs", "radix_sort_pairs", "array_scan"), nothing)
    with _replaced(stand_ins):
        yield noted


class Scratch:
    """Arrays that a sequence of calls allocates, which get the same ones again each time.

    A conditional node of a CUDA graph cannot allocate. Inside `used`, `wp.empty` and `wp.zeros` of this thread hand out
    what they allocated the first time, in the same order.
    """

    def __init__(self) -> None:
        self._arrays: list[wp.array] = []

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Allocate once, in this thread."""
        empty, at = wp.empty, 0

        def again(shape: Any = 0, dtype: Any = float, *args: Any, **kwargs: Any) -> wp.array:
            nonlocal at
            if at == len(self._arrays):
                self._arrays.append(empty(shape, dtype, *args, **kwargs))
            array = self._arrays[at]
            wanted = tuple(shape) if isinstance(shape, Sequence) else (shape,)
            if tuple(array.shape) != wanted:
                raise RuntimeError(f"an array of shape {wanted} was allocated in the place of one of {array.shape}")
            at += 1
            return array

        def again_zeros(*args: Any, **kwargs: Any) -> wp.array:
            array = again(*args, **kwargs)
            array.zero_()
            return array

        with _replaced({"empty": again, "zeros": again_zeros}, modules=(wp,)):
            yield


@contextlib.contextmanager
def _replaced(
    stand_ins: Mapping[str, Callable[..., Any] | None],
    *,
    others_wait: bool = False,
    modules: Sequence[Any] = (context, wp, wp.utils),
) -> Iterator[None]:
    """Replace functions of Warp, by name, for this thread alone; None keeps one.

    Calls of other threads go to the original, at once or, with `others_wait`, when this is over.
    """
    over, thread = threading.Event(), threading.get_ident()

    def wrap(stand_in: Callable[..., Any] | None, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() == thread and not over.is_set():
                return (stand_in or original)(*args, **kwargs)
            if others_wait:
                over.wait()
            return original(*args, **kwargs)

        return call

    with _replacing:
        places = [(module, name) for module in modules for name in stand_ins if hasattr(module, name)]
        saved = [(module, name, getattr(module, name)) for module, name in places]
        try:
            for module, name, original in saved:
                setattr(module, name, wrap(stand_ins[name], original))
            yield
        finally:
            for module, name, original in saved:
                setattr(module, name, original)
            over.set()


class OwnKernels:
    """Kernels of the CPU loaded once more, for one thread.

    Tiles of a kernel are in memory that its module points to with a static variable (on x86_64): two threads must not
    run the same copy at the same time. Inside `used`, this thread launches and captures copies of its own, which live
    as long as this object.
    """

    def __init__(self) -> None:
        self._copies: dict[int, tuple[Any, Any]] = {}  # by the original, which stays with it

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Launch copies, in this thread."""
        _load_by_thread()
        before = getattr(_own, "kernels", None)
        _own.kernels = self
        try:
            yield
        finally:
            _own.kernels = before

    def of(self, module: Any, original: Any) -> Any:
        """The copy of what a module has loaded."""
        known = self._copies.get(id(original))
        if known is None:
            handle = f"wp_{module.name}_{module.increment_id()}"
            llvm: Any = context.runtime.llvm
            loaded = llvm.wp_load_obj(original.binary_path.encode(), handle.encode(), wp.config.legacy_cpu_linker)
            if loaded != 0:
                raise RuntimeError(f"could not load the kernels of {module.name} once more")
            copied = context.ModuleExec(
                handle,
                original.module_hash,
                original.device,
                original.meta,
                original.block_dim,
                original.compile_arch,
                original.det_launch_meta_map,
                dict(module.hashers[original.block_dim].kernel_hashes),
                binary_path=original.binary_path,
            )
            known = self._copies[id(original)] = (original, copied)
        return known[1]


_own = threading.local()


def _load_by_thread() -> None:
    """Let Warp's modules give each thread the kernels that it uses; done once."""
    load = context.Module.load
    if getattr(load, "by_thread", False):
        return

    def load_by_thread(self: Any, device: Any, *args: Any, **kwargs: Any) -> Any:
        loaded = load(self, device, *args, **kwargs)
        own: OwnKernels | None = getattr(_own, "kernels", None)
        return loaded if own is None or loaded is None or loaded.device.is_cuda else own.of(self, loaded)

    load_by_thread.by_thread = True  # pyright: ignore[reportFunctionMemberAccess]
    context.Module.load = load_by_thread  # pyright: ignore[reportAttributeAccessIssue]
