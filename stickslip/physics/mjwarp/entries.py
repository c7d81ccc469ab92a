"""Entries that belong to worlds, of which each has its own number: those of some worlds are replaced."""

from collections.abc import Mapping, Sequence

import warp as wp
from mujoco_warp import OverflowType

from stickslip.arrays import is_taken

wp.set_module_options({"enable_backward": False})


@wp.struct
class Column:
    """An array of entries: where they go for now, those that are there, and those to put; words of four bytes."""

    out: wp.uint64
    own: wp.uint64
    given: wp.uint64
    nword: int


@wp.kernel
def _count_entries(
    # In:
    mask: wp.array[bool],
    own_num: wp.array[int],
    given_num: wp.array[int],
    # Out:
    num_out: wp.array[int],
):
    worldid = wp.tid()
    taken = is_taken(mask, worldid)
    num_out[worldid] = wp.where(taken, given_num[worldid % given_num.shape[0]], own_num[worldid])


@wp.kernel
def _gather_entries(
    # In:
    mask: wp.array[bool],
    own_adr: wp.array[int],
    given_adr: wp.array[int],
    adr: wp.array[int],
    num: wp.array[int],
    capacity: int,
    given_capacity: int,
    columns: wp.array[Column],
    # Out:
    own_num_out: wp.array[int],
    overflow_out: wp.array[int],
):
    worldid = wp.tid()
    taken = is_taken(mask, worldid)
    n = num[worldid]
    if adr[worldid] + n > capacity:
        overflow_out[worldid] = overflow_out[worldid] | int(OverflowType.NARROWPHASE)
        n = 0
    own_num_out[worldid] = n
    for k in range(columns.shape[0]):
        column = columns[k]
        out = wp.array(ptr=column.out, shape=(capacity, column.nword), dtype=wp.int32)
        own = wp.array(ptr=column.own, shape=(capacity, column.nword), dtype=wp.int32)
        given = wp.array(ptr=column.given, shape=(given_capacity, column.nword), dtype=wp.int32)
        for j in range(n):
            for i in range(column.nword):
                if taken:
                    out[adr[worldid] + j, i] = given[given_adr[worldid % given_adr.shape[0]] + j, i]
                else:
                    out[adr[worldid] + j, i] = own[own_adr[worldid] + j, i]


class EntryMoves:
    """Replaces entries that belong to worlds, of several arrays alike; prepared for arrays that stay where they are.

    A world's entries are `num` from `adr` on, whatever the order of worlds.
    """

    def __init__(self) -> None:
        self._addresses: list[int | None] = []
        self._fresh: dict[str, wp.array] = {}
        self._columns: wp.array | None = None

    def run(
        self, own: Mapping[str, wp.array], given: Mapping[str, wp.array], mask: wp.array | None, overflow: wp.array
    ) -> None:
        """Replace the entries of the worlds in the mask, or of all, by given ones; the others keep theirs.

        All entries move. A world for whose entries there is no place has none, and its overflow is set.
        """
        names = [name for name in own if name not in ("adr", "num")]
        self._prepare(names, own, given)
        device, nworld, capacity = own["num"].device, own["num"].shape[0], own[names[0]].shape[0]
        num, adr = (wp.empty(nworld, dtype=int, device=device) for _ in range(2))
        wp.launch(_count_entries, nworld, inputs=[mask, own["num"], given["num"]], outputs=[num], device=device)
        wp.utils.array_scan(num, adr, inclusive=False)
        bounds = [capacity, max(given[names[0]].shape[0], 1)]
        wp.launch(
            _gather_entries,
            nworld,
            inputs=[mask, own["adr"], given["adr"], adr, num, *bounds, self._columns],
            outputs=[own["num"], overflow],
            device=device,
        )
        wp.copy(own["adr"], adr)
        for name in names:
            wp.copy(own[name], self._fresh[name])

    def _prepare(self, names: Sequence[str], own: Mapping[str, wp.array], given: Mapping[str, wp.array]) -> None:
        addresses = [array.ptr for name in names for array in (own[name], given[name])]
        if addresses == self._addresses:
            return
        self._fresh = {name: wp.empty_like(own[name]) for name in names}
        columns = []
        for name in names:
            size = wp.types.type_size_in_bytes(own[name].dtype)
            if size % 4 or given[name].dtype is not own[name].dtype:
                raise ValueError(f"entries {name} of {size} bytes: they must be of whole words, and of the same type")
            column = Column()
            column.out, column.own, column.given = (
                wp.uint64(array.ptr or 0) for array in (self._fresh[name], own[name], given[name])
            )
            column.nword = size // 4
            columns.append(column)
        self._columns = wp.array(columns, dtype=Column, device=own[names[0]].device)
        self._addresses = addresses
