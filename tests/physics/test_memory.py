"""The memory of a physics: what reset, clear and copies do to its arrays, whatever their type."""

import dataclasses

import numpy as np
import pytest
import warp as wp

from stickslip.physics.mjwarp.memory import Memory, buffer, entries, per_world


@dataclasses.dataclass
class Everything(Memory):
    """A field of every width that a copy has to deal with."""

    count: wp.array = per_world()
    flag: wp.array = per_world()
    exact: wp.array = per_world()
    place: wp.array = per_world(follows="mocap_pos")
    none: wp.array = per_world()
    entries: wp.array = buffer()


def make() -> Everything:
    return Everything(
        count=wp.full(3, 5, dtype=int),
        flag=wp.full((3, 3), True, dtype=bool),
        exact=wp.full((3, 2), np.nan, dtype=wp.float64),
        place=wp.full((3, 2), wp.vec3(1.0, 2.0, 3.0), dtype=wp.vec3),
        none=wp.zeros((3, 0), dtype=float),
        entries=wp.zeros(7, dtype=wp.vec2i),
    )


def change(memory: Everything) -> None:
    memory.count.fill_(9)
    memory.flag.fill_(False)
    memory.exact.fill_(1.5)
    memory.place.zero_()
    memory.entries.fill_(wp.vec2i(4, 4))


def test_only_masked_worlds_are_cleared(device: str) -> None:
    with wp.ScopedDevice(device):
        memory = make()
        change(memory)
        memory.clear(wp.array([False, True, False], dtype=bool))
    assert memory.count.numpy().tolist() == [9, 5, 9]
    assert memory.flag.numpy().tolist() == [[False] * 3, [True] * 3, [False] * 3]
    assert np.isnan(memory.exact.numpy()).tolist() == [[False] * 2, [True] * 2, [False] * 2]
    assert memory.place.numpy()[:, 0].tolist() == [[0, 0, 0], [1, 2, 3], [0, 0, 0]]
    assert (memory.entries.numpy() == 4).all()


def test_without_a_mask_all_worlds_are_cleared(device: str) -> None:
    with wp.ScopedDevice(device):
        memory = make()
        change(memory)
        memory.clear()
    assert memory.count.numpy().tolist() == [5, 5, 5] and memory.flag.numpy().all()


@dataclasses.dataclass
class Ragged(Memory):
    """Worlds with different numbers of entries."""

    num: wp.array = per_world()
    adr: wp.array = per_world(reset=False)
    pair: wp.array = entries()
    total: wp.array = buffer()


def ragged(num: list[int], adr: list[int], first: int, size: int = 12) -> Ragged:
    memory = Ragged(
        num=wp.zeros(len(num), dtype=int),
        adr=wp.array(adr, dtype=int),
        pair=wp.array([[first + i, i] for i in range(size)], dtype=wp.vec2i),
        total=wp.array([first], dtype=int),
    )
    memory.num.assign(num)
    return memory


def of_worlds(memory: Ragged) -> list[list[int]]:
    """The entries of each world."""
    num, adr, pair = (getattr(memory, name).numpy() for name in ("num", "adr", "pair"))
    return [pair[a : a + n, 0].tolist() for n, a in zip(num, adr, strict=True)]


def test_entries_of_some_worlds_are_replaced_and_the_others_keep_theirs(device: str) -> None:
    with wp.ScopedDevice(device):
        memory, given = ragged([2, 0, 1], [3, 0, 0], 100), ragged([1, 3, 2], [5, 6, 0], 200)
        overflow = wp.zeros(3, dtype=int)
        memory.load(given.saved(), wp.array([False, True, False], dtype=bool), overflow)
    assert of_worlds(memory) == [[103, 104], [206, 207, 208], [100]]
    assert memory.total.numpy().tolist() == [100] and not overflow.numpy().any()


def test_all_of_a_memory_is_loaded(device: str) -> None:
    with wp.ScopedDevice(device):
        memory, given = ragged([2, 0, 1], [3, 0, 0], 100), ragged([1, 3, 2], [5, 6, 0], 200)
        memory.load(given.saved(), None, wp.zeros(3, dtype=int))
    assert of_worlds(memory) == of_worlds(given) and memory.total.numpy().tolist() == [200]


def test_one_world_of_a_state_stands_for_all(device: str) -> None:
    with wp.ScopedDevice(device):
        memory, given = ragged([2, 0, 1], [3, 0, 0], 100), ragged([2], [4], 200)
        memory.load(given.saved(), wp.array([True, True, False], dtype=bool), wp.zeros(3, dtype=int))
    assert of_worlds(memory) == [[204, 205], [204, 205], [100]]


def test_entries_without_a_place_are_an_overflow(device: str) -> None:
    with wp.ScopedDevice(device):
        memory, given = ragged([2, 2, 1], [0, 2, 4], 100, size=6), ragged([2, 2, 3], [0, 2, 4], 200)
        overflow = wp.zeros(3, dtype=int)
        memory.load(given.saved(), None, overflow)
    assert of_worlds(memory) == [[200, 201], [202, 203], []]
    assert overflow.numpy().astype(bool).tolist() == [False, False, True]


def test_entries_need_their_addresses() -> None:
    @dataclasses.dataclass
    class Lost(Memory):
        pair: wp.array = entries()

    with pytest.raises(TypeError, match="adr and num"):
        Lost(pair=wp.zeros(3, dtype=wp.vec2i))


def test_every_array_is_listed_by_its_name(device: str) -> None:
    with wp.ScopedDevice(device):
        memory = make()
    assert list(memory.arrays()) == ["count", "flag", "exact", "place", "none", "entries"]
    assert memory.arrays()["entries"] is memory.entries
    assert Memory().arrays() == {}


def test_a_field_must_say_what_a_reset_does_to_it() -> None:
    @dataclasses.dataclass
    class Undeclared(Memory):
        count: wp.array

    with pytest.raises(TypeError, match=r"Undeclared.count.*per_world\(\), entries\(\) or buffer\(\)"):
        Undeclared(wp.zeros(1, dtype=int, device="cpu"))
