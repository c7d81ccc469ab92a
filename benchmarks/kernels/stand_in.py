"""A GPU that stands in: Warp finds one CUDA device, compiles for it, and nothing runs there.

Warp's native library needs a driver for all that it does with CUDA but one thing: NVRTC compiles without. So the
functions that need a driver are replaced. Memory of the device is memory of the host, copies are copies, kernels are
not launched. Everything else is Warp itself: which modules are loaded, what they are named, how they are compiled.

It holds for the whole process, and there is no way back.
"""

import ctypes
import itertools
from pathlib import Path
from typing import Any

import warp as wp
from warp._src import context  # private, as is what is replaced of it here
from warp._src import torch as warp_torch

from stickslip import files

NAME = b"a GPU that stands in"
FREE, TOTAL = 138 << 30, 140 << 30
"""Memory that the device tells of [bytes]."""
PROCESSORS = 132
"""Streaming multiprocessors; MuJoCo Warp chooses sizes of launches by them."""
SHARED = 232448
"""Shared memory of a block [bytes]."""
LARGE = 64 << 20
"""From this size on memory of the device is neither copied nor filled, which would take the host long [bytes]."""
CONTEXT = 1
"""The handle of the CUDA context."""

loaded: dict[str, bool] = {}
"""Modules of the device that were loaded, by the names of their folders, and whether they were compiled now."""
_libc = ctypes.CDLL(None)
_libc.calloc.restype = ctypes.c_void_p
_libc.calloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
_libc.free.argtypes = [ctypes.c_void_p]
_handles = itertools.count(1000)
_kept: list[Any] = []  # arrays whose memory tensors have


def install(arch: int) -> None:
    """Give Warp the device, of a compute capability such as 90; before Warp is initialized."""
    if context.runtime is not None:
        raise RuntimeError("Warp is initialized: a GPU can stand in before that only")
    wp.config.cuda_output = "cubin"  # a driver that is as new as the toolkit would get PTX
    load_dll, compile_module = context.Runtime.load_dll, context.Module._compile

    def load(self: Any, path: str) -> Any:
        library = load_dll(self, path)
        return _Library(library, arch) if Path(path).name == "warp.so" else library

    def compile_once(self: Any, device: Any = None, output_dir: Any = None, *args: Any, **options: Any) -> bool:
        if device is None or device.is_cpu:
            return compile_module(self, device, output_dir, *args, **options)
        with files.locked(output_dir):  # other processes wait, and find it
            compiled = compile_module(self, device, output_dir, *args, **options)
        name = Path(output_dir).name
        loaded[name] = compiled or loaded.get(name, False)
        return compiled

    replaced: list[tuple[Any, dict[str, Any]]] = [
        (context.Runtime, {"load_dll": load}),
        (context.Module, {"_compile": compile_once}),
        *((module, {"capture_while": _capture_while, "capture_if": _capture_if}) for module in (context, wp)),
    ]
    for owner, functions in replaced:
        for name, function in functions.items():
            setattr(owner, name, function)
    wp.init()


def _capture_while(condition: Any, while_body: Any, stream: Any = None, **kwargs: Any) -> None:
    """The body of a loop once: its condition has no value."""
    while_body(**kwargs)


def _capture_if(condition: Any, on_true: Any = None, on_false: Any = None, stream: Any = None, **kwargs: Any) -> None:
    """Both branches."""
    for branch in (on_true, on_false):
        if branch is not None:
            branch(**kwargs)


# --- the native library ---


class _Library:
    """Warp's native library with functions in the place of those that need a driver."""

    def __init__(self, library: Any, arch: int) -> None:
        self._library = library
        self._known = _functions(library, arch)

    def __getattr__(self, name: str) -> Any:
        found = self._known.get(name)
        if found is None:
            needs_driver = name.startswith("wp_cuda_") and not name.startswith(("wp_cuda_compile_", "wp_cuda_toolkit_"))
            found = _new_handle if name.endswith("_device") else _zero if needs_driver else None
        return getattr(self._library, name) if found is None else found


def _functions(library: Any, arch: int) -> dict[str, Any]:
    """What does more than to return 0, or a handle where something is made on the device."""
    no = ("device_get_pageable_memory_access", "device_get_host_native_atomic_supported", "context_check")
    found: dict[str, Any] = {
        **dict.fromkeys((f"wp_cuda_{name}" for name in _YES), _one),
        **dict.fromkeys((f"wp_cuda_{name}" for name in _HANDLES), _new_handle),
        **dict.fromkeys((f"wp_cuda_{name}" for name in no), _zero),
        "wp_cuda_driver_version": library.wp_cuda_toolkit_version,
        "wp_cuda_device_get_name": lambda ordinal: NAME,
        "wp_cuda_device_get_arch": lambda ordinal: arch,
        "wp_cuda_device_get_sm_count": lambda ordinal: PROCESSORS,
        "wp_cuda_device_get_max_shared_memory": lambda ordinal: SHARED,
        "wp_cuda_device_get_memory_info": _memory_info,
        "wp_cuda_device_get_uuid": _zero,
        "wp_cuda_context_get_current": lambda: CONTEXT,
        "wp_cuda_device_get_primary_context": lambda ordinal: CONTEXT,
        "wp_cuda_event_elapsed_time": lambda *args: 0.1,
        "wp_cuda_graph_end_capture": _end_capture,
        "wp_cuda_graph_pause_capture": _end_capture,
        "wp_cuda_get_suggested_block_size": _suggest_block_size,
        "wp_alloc_device_default": _allocate,
        "wp_alloc_device_async": _allocate,
        "wp_alloc_device_managed": _allocate,
        "wp_alloc_pinned": lambda size, tag: _allocate(None, size),
        "wp_free_device_default": _free,
        "wp_free_device_async": _free,
        "wp_free_pinned": lambda pointer: _free(None, pointer),
        "wp_memcpy_h2d": lambda ctx, to, of, size, stream: library.wp_memcpy_h2h(to, of, size),
        "wp_memcpy_d2h": lambda ctx, to, of, size, stream: library.wp_memcpy_h2h(to, of, size),
        "wp_memcpy_d2d": lambda ctx, to, of, size, stream: _size(size) >= LARGE or library.wp_memcpy_h2h(to, of, size),
        "wp_memcpy_p2p": _one,
        "wp_memset_device": lambda ctx, to, value, size, stream: (
            _size(size) >= LARGE or library.wp_memset_host(to, value, size)
        ),
        "wp_memtile_device": lambda ctx, to, of, size, often: (
            _size(size) * _size(often) >= LARGE or library.wp_memtile_host(to, of, size, often)
        ),
        "wp_array_copy_device": _one,
        "wp_array_fill_device": _zero,
    }
    return found


_YES = (
    "driver_is_initialized",
    "device_get_count",
    "device_is_uva",
    "device_get_managed_memory_supported",
    "device_get_concurrent_managed_access_supported",
    "device_is_mempool_supported",
    "device_is_ipc_supported",
    "context_is_primary",
    "context_synchronize",
    "stream_synchronize",
    "event_synchronize",
    "graph_begin_capture",
    "graph_create_exec",
    "graph_launch",
    "graph_resume_capture",
    "configure_kernel_shared_memory",
    "set_kernel_cluster_attrs",
)
_HANDLES = ("stream_create", "stream_get_capture_id", "event_create", "load_module", "get_kernel")


def _zero(*args: Any) -> int:
    return 0


def _one(*args: Any) -> int:
    return 1


def _new_handle(*args: Any) -> int:
    return next(_handles)


def _size(number: Any) -> int:
    """A number that may be one of ctypes."""
    return number if isinstance(number, int) else number.value or 0


def _allocate(ctx: Any, size: Any, *rest: Any) -> int | None:
    return _libc.calloc(1, max(_size(size), 16))  # the host gives pages when they are written to


def _free(ctx: Any, pointer: Any, *rest: Any) -> None:
    _libc.free(pointer)


def _memory_info(ordinal: int, free: Any, total: Any) -> bool:
    for out, size in ((free, FREE), (total, TOTAL)):
        if out is not None:
            out._obj.value = size
    return True


def _end_capture(ctx: Any, stream: Any, graph: Any) -> bool:
    graph._obj.value = next(_handles)
    return True


def _suggest_block_size(ctx: Any, kernel: Any, shared: Any, block: Any, grid: Any) -> bool:
    block._obj.value, grid._obj.value = 256, 8 * PROCESSORS
    return True


# --- PyTorch ---


def install_torch() -> None:
    """Let tensors of the CPU stand for those of the device; for `stickslip.envs`."""
    import torch

    from stickslip.envs import fused
    from stickslip.envs.graph import Recorded

    to_torch, from_dlpack = warp_torch.to_torch, wp.from_dlpack

    def tensor_of(array: Any, requires_grad: bool | None = None) -> Any:
        if array.device.is_cpu:
            return to_torch(array, requires_grad)
        twin = wp.array(
            ptr=array.ptr, shape=array.shape, strides=array.strides, dtype=array.dtype, device="cpu", copy=False
        )
        _kept.append(array)
        return to_torch(twin, requires_grad=False)

    def run_now(self: Any, run: Any, device: Any) -> None:
        self.replay = run
        run()

    replaced: dict[Any, dict[str, Any]] = {
        warp_torch: {"device_from_torch": lambda device: wp.get_device("cuda:0"), "to_torch": tensor_of},
        wp: {
            "device_from_torch": lambda device: wp.get_device("cuda:0"),
            "device_to_torch": lambda device: "cpu",
            "to_torch": tensor_of,
            "from_dlpack": lambda value: (
                wp.from_torch(value.detach()) if isinstance(value, torch.Tensor) else from_dlpack(value)
            ),
        },
        torch.cuda: {"get_sync_debug_mode": lambda: 0, "set_sync_debug_mode": lambda mode: None},
        Recorded: {"__init__": run_now},
        fused: {"_agree": lambda a, b: True},  # no kernel has run
    }
    for owner, functions in replaced.items():
        for name, function in functions.items():
            setattr(owner, name, function)
