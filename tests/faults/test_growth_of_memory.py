"""Memory does not grow: over steps, over resets, over simulations that are made and dropped."""

import ctypes
import dataclasses
import gc
from collections.abc import Callable
from pathlib import Path

import pytest
import warp as wp
from warp._src import context  # private: modules that Warp keeps

import stickslip as ss

ALLOWED = 1 << 20
"""Bytes that a process may have more: its allocator moves by as much."""
ROUNDS = 4
"""Memory that grows does so in every round; caches fill in the first ones."""
WARM = 8
"""Simulations before the first look, after which caches are full."""


@dataclasses.dataclass(frozen=True)
class Look:
    """What a process holds: memory [bytes], live Warp arrays and their bytes, modules of kernels, memory of the GPU."""

    resident: int
    arrays: int
    bytes: int
    modules: int
    device: int


def look(device: str) -> Look:
    """Count, after what is not in use any more was given back."""
    for _ in range(2):
        gc.collect()
    wp.synchronize()
    ctypes.CDLL(None).malloc_trim(0)
    found = [each for each in gc.get_objects() if isinstance(each, wp.array)]
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    used = wp.get_mempool_used_mem_current(device) if device.startswith("cuda") else 0
    sizes = sum(getattr(each, "capacity", 0) or 0 for each in found)
    return Look(pages * 4096, len(found), sizes, len(context.user_modules), used)


def grow(device: str, times: int, do: Callable[[], object]) -> None:
    """Assert that doing something again and again needs no more memory than doing it once."""
    do()
    grown = []
    while not grown or (grown[-1] >= ALLOWED and len(grown) < ROUNDS):
        before = look(device)
        for _ in range(times):
            do()
        after = look(device)
        assert dataclasses.replace(after, resident=before.resident) == before
        grown.append(after.resident - before.resident)
    assert grown[-1] < ALLOWED, f"{[round(1e-6 * each, 1) for each in grown]} MB more in rounds of {times}"


def make(physics: str, device: str) -> ss.Simulation:
    sim = ss.Simulation("sliding-cube", ss.PHYSICS[physics](), nworld=2, device=device)
    sim.step(2)
    return sim


def check(physics: str, device: str, steps: int, resets: int, simulations: int) -> None:
    for _ in range(WARM):
        make(physics, device).reset()
    sim = make(physics, device)
    grow(device, steps // 100, lambda: (sim.step(100), sim.state))
    grow(device, resets, lambda: (sim.reset(), sim.step()))
    grow(device, simulations, lambda: make(physics, device).reset())


@pytest.mark.parametrize("physics", [name for name in ss.PHYSICS if name != "scm"])
def test_memory_does_not_grow(physics: str) -> None:
    """A thousand steps, a hundred resets, thirty simulations."""
    check(physics, "cpu", 1000, 100, 30)


def test_memory_does_not_grow_on_a_gpu(cuda: str) -> None:
    check("cone-sweep", cuda, 1000, 100, 30)


@pytest.mark.parametrize("physics", ["cone-sweep", "mujoco"])
def test_memory_does_not_grow_in_a_long_time(physics: str, device: str) -> None:
    """A million steps, ten thousand resets, a thousand simulations."""
    check(physics, device, 1_000_000, 10_000, 1000)


def test_it_would_be_found() -> None:
    """An array of a few bytes that is kept each time, and memory of the process."""
    kept: list[object] = []
    with pytest.raises(AssertionError):
        grow("cpu", 5, lambda: kept.append(wp.zeros(3, device="cpu")))
    with pytest.raises(AssertionError, match="MB more in rounds of 5"):
        grow("cpu", 5, lambda: kept.append(b"a" * (1 << 20)))
