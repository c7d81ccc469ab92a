"""Whether so many worlds fit into the memory of a device, and how many would."""

import contextlib
import numbers
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import warp as wp

from stickslip.errors import InputError, StickslipError

T = TypeVar("T")

_LARGEST_AXIS = 2**31 - 1  # of a Warp array
_SHARE = 0.8  # of the free memory that a suggestion uses


_ADVICE = "use a smaller nworld, or smaller nconmax and njmax"


def allocate(make: Callable[[int], T], nworld: int, device: wp.Device, least: int) -> T:
    """The data of so many worlds; raises InputError naming nworld, and a number that fits, if memory does not suffice.

    Args:
        make: makes the data of a number of worlds
        nworld: number of worlds
        device: where the data will be
        least: lower bound of the bytes of a world
    """
    free = free_memory(device)
    if 10 * least * nworld > free:  # near the limit: beyond it, the system may kill the process without a message
        _check(make, nworld, device, free, "")
    try:
        return make(nworld)
    except (MemoryError, RuntimeError, ValueError) as error:
        cause = str(error)
        if not (_is_full(error) or "must not exceed" in cause):
            raise
    _check(make, nworld, device, free, cause)
    raise InputError(f"nworld is {nworld}: its data do not fit on {device.alias} ({cause}); {_ADVICE}")


def _is_full(error: Exception) -> bool:
    return isinstance(error, MemoryError) or "Failed to allocate" in str(error) or "out of memory" in str(error)


@contextlib.contextmanager
def told(nworld: int, device: wp.Device) -> Iterator[None]:
    """Raises InputError naming nworld where memory of the device runs out inside: for graphs, kernels and scratch."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, StickslipError) or not _is_full(error):
            raise
        free = f"{free_memory(device) / 1e9:.3g} GB"
        raise InputError(
            f"nworld is {nworld}: the memory of {device.alias} ran out, {free} are free now ({error}); {_ADVICE}, or "
            f"end what else uses {device.alias}"
        ) from error


def _check(make: Callable[[int], Any], nworld: int, device: wp.Device, free: int, cause: str) -> None:
    """Raise InputError if the worlds, by the size of one, need more than is free."""
    one, axis = _sizes(make(1))
    fits = max(1, min(int(_SHARE * free / max(one, 1)), _LARGEST_AXIS // max(axis, 1)))
    if nworld > fits:
        cause = f" ({cause})" if cause else ""
        raise InputError(
            f"nworld is {nworld}: a world takes {one / 1e6:.3g} MB and {device.alias} has {free / 1e9:.3g} GB free, "
            f"enough for about {fits} worlds{cause}; {_ADVICE}"
        )


def free_memory(device: wp.Device) -> int:
    """Bytes that can still be allocated on a device."""
    if device.is_cuda:
        return device.free_memory
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**62
    with contextlib.suppress(OSError, ValueError), open("/proc/meminfo") as lines:
        free = next((1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), free)
    with contextlib.suppress(ImportError):  # not on Windows
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            free = min(free, limit)
    return free


def bytes_of(blocks: Mapping[int, int]) -> int:
    """Bytes of blocks of memory, sizes by address; what they share counts once."""
    total = end = 0
    for address, size in sorted(blocks.items()):
        total += max(0, address + size - max(address, end))
        end = max(end, address + size)
    return total


def _sizes(data: Any) -> tuple[int, int]:
    """Bytes of all arrays in an object and its parts, and the longest axis among them."""
    blocks: dict[int, int] = {}
    longest, seen, queue = 1, set(), [data]
    while queue:
        part = queue.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, wp.array):
            if part.capacity:
                blocks[part.ptr] = max(blocks.get(part.ptr, 0), part.capacity)
            longest = max(longest, *part.shape) if part.shape else longest
        elif isinstance(part, dict):
            queue += part.values()
        elif isinstance(part, (list, tuple)):
            queue += part
        elif hasattr(part, "__dict__") and not isinstance(part, type):
            queue += vars(part).values()
    return bytes_of(blocks), longest


def check_sizes(nworld: int, **sizes: object) -> None:
    """Raise InputError unless each size of a buffer per world, by name, is None or one that arrays can have."""
    for name, size in sizes.items():
        if size is None:
            continue
        if isinstance(size, bool) or not isinstance(size, numbers.Integral) or size < 1:
            raise InputError(f"{name} is {size!r}: it must be a whole number, at least 1, or None for an estimate")
        if int(size) * nworld > _LARGEST_AXIS:
            raise InputError(f"{name} is {size}: {nworld} worlds have room for {_LARGEST_AXIS // nworld} each, at most")
