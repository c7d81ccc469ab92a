"""Copies of whole worlds: many arrays of any type in one launch, only the worlds in a mask."""

from collections.abc import Sequence

import warp as wp

from stickslip.arrays import is_taken

wp.set_module_options({"enable_backward": False})

Pairs = Sequence[tuple[wp.array, wp.array | None]]
"""Arrays with a leading world axis, and where their values come from."""
WARP = 32
"""Threads that share an array of a world on CUDA."""
WARPS = 4
"""Warps that share the arrays of a world on CUDA."""


@wp.struct
class Block:
    """What one array has of each world, in words of `width` bytes; a source of 0 stands for zeros."""

    out: wp.uint64
    source: wp.uint64
    nword: int
    width: int
    nsource: int  # worlds of the source: as many as there are, or one that stands for all


@wp.kernel
def _copy_worlds(
    # In:
    nworld: int,
    nwarp: int,
    nlane: int,
    mask: wp.array[bool],
    blocks: wp.array[Block],
):
    worldid, first, lane = wp.tid()
    if not is_taken(mask, worldid):
        return
    for k in range(first, blocks.shape[0], nwarp):
        block = blocks[k]
        other = worldid % block.nsource
        if block.width == 4:
            out = wp.array(ptr=block.out, shape=(nworld, block.nword), dtype=wp.int32)
            if block.source == wp.uint64(0):
                for i in range(lane, block.nword, nlane):
                    out[worldid, i] = 0
            else:
                source = wp.array(ptr=block.source, shape=(block.nsource, block.nword), dtype=wp.int32)
                for i in range(lane, block.nword, nlane):
                    out[worldid, i] = source[other, i]
        else:
            out8 = wp.array(ptr=block.out, shape=(nworld, block.nword), dtype=wp.uint8)
            if block.source == wp.uint64(0):
                for i in range(lane, block.nword, nlane):
                    out8[worldid, i] = wp.uint8(0)
            else:
                source8 = wp.array(ptr=block.source, shape=(block.nsource, block.nword), dtype=wp.uint8)
                for i in range(lane, block.nword, nlane):
                    out8[worldid, i] = source8[other, i]


class WorldCopies:
    """Copies into arrays with a leading world axis, in one launch.

    The addresses are uploaded when it is made; a run after that can be captured.

    Args:
        pairs: an array, and where its values come from: an array with as many worlds, or with one that stands for all,
            or None for zeros
    """

    def __init__(self, pairs: Pairs) -> None:
        self._pairs = [pair for pair in pairs if pair[0].size]
        self._nworld = self._pairs[0][0].shape[0] if self._pairs else 0
        self._device = self._pairs[0][0].device if self._pairs else None
        blocks = [self._block(out, source) for out, source in self._pairs]
        self._blocks = wp.array(blocks, dtype=Block, device=self._device) if blocks else None

    def _block(self, out: wp.array, source: wp.array | None) -> Block:
        size = _world_bytes(out)
        if out.shape[0] != self._nworld:
            raise ValueError(f"an array of shape {out.shape} has not {self._nworld} worlds")
        if source is not None and (_world_bytes(source) != size or source.shape[0] not in (1, self._nworld)):
            raise ValueError(f"an array of shape {source.shape} does not fit into one of shape {out.shape}")
        block = Block()
        block.width = 4 if size % 4 == 0 else 1
        block.nword = size // block.width
        block.out = wp.uint64(out.ptr)
        block.source = wp.uint64(source.ptr if source is not None else 0)
        block.nsource = source.shape[0] if source is not None else 1
        return block

    def run(self, mask: wp.array | None = None) -> None:
        """Copy the worlds in the mask (nworld,), or all."""
        if self._blocks is None or self._device is None:
            return
        nwarp, nlane = (WARPS, WARP) if self._device.is_cuda else (1, 1)
        inputs = [self._nworld, nwarp, nlane, mask, self._blocks]
        wp.launch(_copy_worlds, dim=(self._nworld, nwarp, nlane), inputs=inputs, device=self._device)


class Prepared:
    """Copies for one purpose, prepared when the arrays are first given, and again when they have moved."""

    def __init__(self) -> None:
        self._addresses: list[int | None] = []
        self._copies = WorldCopies([])

    def run(self, pairs: Pairs, mask: wp.array | None = None) -> None:
        """Copy the worlds in the mask, or all; the sources must be the same arrays every time."""
        addresses = [array.ptr for array, _ in pairs]
        if addresses != self._addresses:
            self._copies, self._addresses = WorldCopies(pairs), addresses
        self._copies.run(mask)


@wp.kernel
def _copy_words(mask: wp.array[bool], source: wp.array2d[wp.int32], out: wp.array2d[wp.int32]):
    worldid, i = wp.tid()
    if not is_taken(mask, worldid):
        return
    out[worldid, i] = source[worldid % source.shape[0], i]


@wp.kernel
def _copy_bytes(mask: wp.array[bool], source: wp.array2d[wp.uint8], out: wp.array2d[wp.uint8]):
    worldid, i = wp.tid()
    if not is_taken(mask, worldid):
        return
    out[worldid, i] = source[worldid % source.shape[0], i]


def copy_worlds(mask: wp.array | None, source: wp.array, out: wp.array) -> None:
    """Copy the worlds in the mask, or all, of one array; see `WorldCopies`."""
    if out.size:
        size = _world_bytes(out)
        if _world_bytes(source) != size or source.shape[0] not in (1, out.shape[0]):
            raise ValueError(f"an array of shape {source.shape} does not fit into one of shape {out.shape}")
        dtype, width, kernel = (wp.int32, 4, _copy_words) if size % 4 == 0 else (wp.uint8, 1, _copy_bytes)
        given, written = (
            wp.array(ptr=array.ptr, shape=(array.shape[0], size // width), dtype=dtype, device=array.device)
            for array in (source, out)
        )
        wp.launch(kernel, dim=written.shape, inputs=[mask, given], outputs=[written], device=out.device)


def _world_bytes(array: wp.array) -> int:
    """Bytes of a world in an array."""
    if not array.is_contiguous:
        raise ValueError(f"an array of shape {array.shape} is not contiguous: give whole arrays")
    return array.size // array.shape[0] * wp.types.type_size_in_bytes(array.dtype)
