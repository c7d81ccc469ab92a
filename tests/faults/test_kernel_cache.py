"""A damaged cache of kernels is told of and compiled again; memory that does not suffice is an error with numbers."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import warp as wp

import stickslip as ss
from stickslip import capacity, compilation, kernel_cache


@wp.kernel(module="unique")
def _add_three(x: wp.array(dtype=float)):
    """A module of its own, in a cache of its own."""
    i = wp.tid()
    x[i] = x[i] + 3.0


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path))
    monkeypatch.setattr(kernel_cache, "_looked_at", set())
    _add_three.module.options["optimization_level"] = 0
    _add_three.module.unload()
    yield tmp_path
    _add_three.module.unload()


def run() -> list[float]:
    """Load the kernel as a simulation does, as a process that has not loaded it yet, and launch it."""
    _add_three.module.unload()
    kernel_cache._looked_at.clear()
    x = wp.zeros(2, device="cpu")
    compilation.load_kernels(lambda: wp.launch(_add_three, 2, inputs=[x], device="cpu"), wp.get_device("cpu"))
    wp.launch(_add_three, 2, inputs=[x], device="cpu")
    return x.numpy().tolist()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    """In the middle, where nothing but a checksum finds it."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 255
    path.write_bytes(data)


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize(
    ("suffix", "damage", "noted"),
    [(".o", flip, True), (".o", cut, False), (".meta", cut, True), (".meta", empty, False), (".json", cut, True)],
)
def test_a_damaged_cache_of_kernels(suffix: str, damage, noted: bool, cache: Path) -> None:
    """Files that a note tells of are compared with it; of others it is found that they cannot be loaded."""
    assert run() == [3.0, 3.0]
    (path,) = cache.rglob(f"*{suffix}")
    note = path.parent / "stickslip.json"
    assert note.exists()
    if not noted:  # as Warp leaves it
        note.unlink()
    damage(path)
    with pytest.warns(UserWarning, match=r"cache of kernels was damaged: .*It is compiled again"):
        assert run() == [3.0, 3.0]
    assert run() == [3.0, 3.0]  # without a warning, from the cache
    assert not list(cache.glob(".*damaged"))


@pytest.mark.filterwarnings("error")
def test_a_sound_cache_is_left_alone(cache: Path) -> None:
    assert run() == [3.0, 3.0]
    before = {path: path.stat().st_mtime_ns for path in cache.rglob("*") if path.is_file()}
    assert run() == [3.0, 3.0]
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*") if path.is_file()} == before


def test_memory_that_runs_out_while_worlds_are_made() -> None:
    """What Warp raises for a full device becomes an error with the number of worlds and what to do."""

    def make(nworld: int) -> dict[str, wp.array]:
        if nworld > 1:
            raise RuntimeError("Failed to allocate 4000000 bytes on device 'cuda:0'")
        return {"x": wp.zeros(1000, device="cpu")}

    with pytest.raises(ss.InputError, match=r"nworld is 2: .*Failed to allocate.*use a smaller nworld"):
        capacity.allocate(make, 2, wp.get_device("cpu"), 4000)


@pytest.mark.parametrize(
    "cause",
    ["Failed to allocate 968884224 bytes on device 'cuda:0'", "Graph creation error: Warp CUDA error 2: out of memory"],
)
def test_memory_that_runs_out_while_worlds_step(cause: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scratch of collision detection, and a graph of the step: an error of ours; other errors stay what they are."""
    sim = ss.Simulation("sliding-cube", nworld=2, device="cpu")

    def full(*_: object) -> None:
        raise RuntimeError(cause)

    physics, step = type(sim.physics), type(sim.physics).step
    monkeypatch.setattr(physics, "step", full)
    with pytest.raises(ss.InputError, match=r"nworld is 2: the memory of cpu ran out.*use a smaller nworld") as told:
        sim.step()
    assert cause in str(told.value)
    for cause in ("something else", "an array was allocated in the place of another"):
        with pytest.raises(RuntimeError, match=f"^{cause}$"):
            sim.step()
    monkeypatch.setattr(physics, "step", step)
    sim.step(3)
    assert sim.health().ok


def test_a_gpu_out_of_memory(cuda: str) -> None:
    """Worlds beyond the memory of the device; afterwards a simulation that fits works, with all the memory."""
    before = wp.get_device(cuda).free_memory
    with pytest.raises(ss.InputError, match=r"nworld is 1000000000: .* GB free.*use a smaller nworld"):
        ss.Simulation("hand", nworld=1_000_000_000, device=cuda)
    assert wp.get_device(cuda).free_memory > before - 2**28
    sim = ss.Simulation("sliding-cube", nworld=2, device=cuda)
    sim.step(3)
    assert sim.health().ok


def test_a_gpu_that_others_have_filled(cuda: str) -> None:
    """Nearly all memory is taken: few worlds do not fit either, and the error says how much is free."""
    device = wp.get_device(cuda)
    size = device.free_memory - 2**28
    taken = wp.empty((size >> 20, 1 << 20), dtype=wp.uint8, device=cuda)  # an axis has at most 2^31 entries
    try:
        with pytest.raises(ss.InputError, match=r"nworld is 16384.*use a smaller nworld"):
            ss.Simulation("hand", nworld=16384, device=cuda)
    finally:
        del taken
