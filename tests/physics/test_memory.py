"""The memory of a physics: what reset, clear and copies do to its arrays, whatever their type."""

import dataclasses

import numpy as np
import pytest
import warp as wp

from stickslip.physics.mjwarp.memory import Memory, buffer, per_world


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


def test_a_field_that_follows_the_data_copies_it_after_a_reset(device: str) -> None:
    with wp.ScopedDevice(device):
        memory = make()
        change(memory)
        moved = wp.array(np.arange(18.0).reshape(3, 2, 3), dtype=wp.vec3)
        memory.reset({"mocap_pos": moved}, wp.array([True, False, False], dtype=bool))
    assert memory.place.numpy()[0].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert not memory.place.numpy()[1:].any()
    assert memory.count.numpy().tolist() == [5, 9, 9]


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

    with pytest.raises(TypeError, match=r"Undeclared.count.*per_world\(\) or buffer\(\)"):
        Undeclared(wp.zeros(1, dtype=int, device="cpu"))
