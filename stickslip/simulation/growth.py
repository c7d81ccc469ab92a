"""Buffers that grow: steps for which they were too small are undone and repeated with larger ones.

Before the steps of a call all that they read is copied on the device, by one launch. After them one number is read
back: whether something was dropped in any world.
"""

import ctypes
import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import mujoco
import numpy as np
import warp as wp

from stickslip import capacity
from stickslip.errors import BufferOverflow, HealthWarning, InputError
from stickslip.physics.base import GrowingPhysics, Physics

wp.set_module_options({"enable_backward": False})

_CHUNK = 8192
"""Most bytes that a block of threads copies."""
_LANES = wp.constant(128)
"""Threads of such a block."""
_ALIGNMENT = 16


@wp.kernel
def _copy_chunks(
    # In:
    length: wp.array[int],
    source: wp.array[wp.uint64],
    # Out:
    target: wp.array[wp.uint64],
):
    chunk, lane = wp.tid()
    n = length[chunk]
    words = n // 4
    word_in = wp.array(ptr=source[chunk], shape=(words,), dtype=wp.int32)
    word_out = wp.array(ptr=target[chunk], shape=(words,), dtype=wp.int32)
    for i in range(lane, words, _LANES):
        word_out[i] = word_in[i]
    if lane == 0:
        byte_in = wp.array(ptr=source[chunk], shape=(n,), dtype=wp.uint8)
        byte_out = wp.array(ptr=target[chunk], shape=(n,), dtype=wp.uint8)
        for i in range(4 * words, n):
            byte_out[i] = byte_in[i]


@wp.kernel
def _find_bits(
    # In:
    mask: int,
    overflow: wp.array[int],
    # Out:
    bits_out: wp.array[int],
):
    worldid = wp.tid()
    bits = overflow[worldid] & mask
    if bits != 0:
        wp.atomic_or(bits_out, 0, bits)


@wp.kernel
def _clear_bits(mask: int, overflow: wp.array[int]):
    worldid = wp.tid()
    overflow[worldid] = overflow[worldid] & ~mask


class Growing(Protocol):
    """Worlds whose buffers can grow: a simulation, or the part of one that a thread has."""

    physics: Physics[Any, Any]
    mjm: mujoco.MjModel
    _m: Any
    d: Any
    device: wp.Device
    nworld: int

    @property
    def _graph(self) -> wp.Graph | None: ...

    @_graph.setter
    def _graph(self, graph: wp.Graph | None) -> None: ...

    def compile(self) -> None:
        """Compile and capture the step."""

    def _run(self, n: int) -> None:
        """Advance by n steps, whatever is dropped."""


class Snapshot:
    """A copy of arrays on their device, in memory that is allocated once; on CUDA one launch takes it or puts it back.

    Args:
        arrays: the arrays by name, all on one device
        launched: whether kernels copy; None: on CUDA
    """

    def __init__(self, arrays: Mapping[str, wp.array], *, launched: bool | None = None) -> None:
        whole = [array for array in arrays.values() if array.size and array.is_contiguous]
        self._views = [(a, wp.clone(a)) for a in arrays.values() if a.size and not a.is_contiguous]
        sizes = [array.size * wp.types.type_size_in_bytes(array.dtype) for array in whole]
        offsets = np.cumsum([0, *(-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes)])
        device = next(iter(arrays.values())).device
        room = wp.empty(int(offsets[-1]), dtype=wp.uint8, device=device)
        ours = [room.ptr + int(offset) for offset in offsets[:-1]]
        theirs = [int(array.ptr) for array in whole]
        self._kept = [room, *whole]  # all below has their addresses only
        if device.is_cuda if launched is None else launched:
            self._take, self._put_back = self._launches(sizes, theirs, ours, device)
        else:
            self._take = functools.partial(_move, list(zip(ours, theirs, sizes, strict=True)))
            self._put_back = functools.partial(_move, list(zip(theirs, ours, sizes, strict=True)))

    def _launches(
        self, sizes: list[int], theirs: list[int], ours: list[int], device: wp.Device
    ) -> tuple[Callable[[], None], Callable[[], None]]:
        """What copies the arrays, and what copies back."""
        starts = [np.arange(0, size, _CHUNK) for size in sizes]
        lengths = [np.minimum(_CHUNK, size - start) for size, start in zip(sizes, starts, strict=True)]
        length = wp.array(np.concatenate(lengths), dtype=int, device=device)

        def addresses(arrays: list[int]) -> wp.array:
            chunks = [start.astype(np.uint64) + np.uint64(array) for start, array in zip(starts, arrays, strict=True)]
            return wp.array(np.concatenate(chunks), dtype=wp.uint64, device=device)

        source, target = addresses(theirs), addresses(ours)
        self._kept += [length, source, target]
        take, put_back = (
            wp.launch(
                _copy_chunks,
                dim=(length.size, _LANES),
                inputs=[length, one],
                outputs=[two],
                device=device,
                block_dim=_LANES,
                record_cmd=True,
            )
            for one, two in ((source, target), (target, source))
        )
        return take.launch, put_back.launch

    def take(self) -> None:
        """Copy the arrays."""
        self._take()
        for array, copy in self._views:
            wp.copy(copy, array)

    def put_back(self) -> None:
        """Give the arrays the values back that they had when the copy was taken."""
        self._put_back()
        for array, copy in self._views:
            wp.copy(array, copy)


def _move(parts: list[tuple[int, int, int]]) -> None:
    """Copy memory of the host: target, source and bytes of each part. A launch for all takes ten times as long."""
    for target, source, size in parts:
        ctypes.memmove(target, source, size)


class Growth:
    """What a simulation needs to enlarge its buffers.

    Args:
        physics: the physics
        contacts: whether nconmax may grow
        rows: whether njmax may grow
    """

    def __init__(self, physics: GrowingPhysics[Any, Any], *, contacts: bool, rows: bool) -> None:
        self._mask = physics.growable(contacts=contacts, rows=rows)
        self._told = False
        self._data: Any = None
        self._snapshot: Snapshot | None = None

    def prepare(self, sim: "Growing") -> Snapshot:
        """Allocate what `advance` needs for the data of a simulation, unless that was done."""
        if self._snapshot is not None and self._data is sim.d:
            return self._snapshot
        arrays = sim.physics.arrays(sim._m, sim.d)
        self._snapshot = Snapshot(arrays)
        self._overflow = arrays["overflow"]
        if sim.device.is_cuda:
            self._bits = wp.zeros(1, dtype=int, device=sim.device)
            self._find = wp.launch(
                _find_bits,
                dim=sim.nworld,
                inputs=[self._mask, self._overflow],
                outputs=[self._bits],
                device=sim.device,
                record_cmd=True,
            )
        else:
            self._seen = self._overflow.numpy()
        self._data = sim.d
        return self._snapshot

    def _overflowed(self) -> int:
        """The bits of all worlds that larger buffers help against."""
        if not self._overflow.device.is_cuda:
            return int(np.bitwise_or.reduce(self._seen)) & self._mask
        self._find.launch()
        return int(self._bits.numpy()[0])

    def advance(self, sim: "Growing", n: int, run: Callable[[int], None]) -> None:
        """Advance a simulation by n steps, `run(n)`, again with larger buffers until nothing is dropped.

        Raises:
            BufferOverflow: memory does not suffice; the state is as before
        """
        bits = self.attempt(sim, n, run)
        if bits:
            self.repeat(sim, n, bits, run)

    def attempt(self, sim: "Growing", n: int, run: Callable[[int], None]) -> int:
        """Advance by n steps, `run(n)`; the bits of `overflow` against which larger buffers help."""
        self.prepare(sim).take()
        run(n)
        return self._overflowed()

    def repeat(self, sim: "Growing", n: int, bits: int, run: Callable[[int], None]) -> None:
        """Undo the steps of an attempt, and repeat them with larger buffers until nothing is dropped."""
        physics = sim.physics
        assert isinstance(physics, GrowingPhysics)
        before = physics.buffer_sizes(sim._m, sim.d)
        while bits:
            needed = physics.needed_sizes(sim._m, sim.d, bits)
            self.prepare(sim).put_back()
            self._enlarge(sim, physics, needed, n)
            bits = self.attempt(sim, n, run)
        if not self._told:
            self._told = True
            warnings.warn(_said(before, physics.buffer_sizes(sim._m, sim.d)), HealthWarning, stacklevel=6)

    def _enlarge(self, sim: "Growing", physics: GrowingPhysics[Any, Any], needed: tuple[int, int], n: int) -> None:
        nconmax, njmax = needed
        self._snapshot = None  # makes room
        try:
            larger = capacity.allocate(
                lambda nworld: physics.make_data(sim.mjm, nworld, nconmax=nconmax, njmax=njmax),
                sim.nworld,
                sim.device,
                least=4 * (16 + sim.mjm.nv) * (nconmax + njmax),
            )
        except InputError as error:
            raise BufferOverflow(
                f"the buffers are too small, and nconmax={nconmax}, njmax={njmax} do not fit into memory: {error}. "
                f"The state is as it was before these {n} steps."
                " Use fewer worlds, or larger memory"
            ) from error
        sim.d = physics.adopt(sim._m, sim.d, larger)
        overflow = physics.arrays(sim._m, sim.d)["overflow"]  # of the caller's own steps, perhaps
        wp.launch(_clear_bits, dim=sim.nworld, inputs=[self._mask], outputs=[overflow], device=sim.device)
        sim._graph = None
        sim.compile()


def _said(before: tuple[int, int], after: tuple[int, int]) -> str:
    """What is told of larger buffers."""
    grown = [
        (name, one, two)
        for name, one, two in zip(("nconmax", "njmax"), before, after, strict=True)
        if two > one  # the other is the user's, or was large enough
    ]
    changes = " and ".join(f"{name} from {one} to {two}" for name, one, two in grown)
    fix = ", ".join(f"{name}={two}" for name, _, two in grown)
    return (
        f"buffers were too small, so steps were undone and repeated with larger ones, {changes}; nothing was dropped. "
        f"Pass {fix}, or more, to avoid the pause. This is told once; health() has the peaks"
    )


def put_back(arrays: Mapping[str, wp.array], before: Mapping[str, wp.array]) -> None:
    """Give arrays the values that were copied before; those that have grown since get them at their beginning."""
    for name, array in arrays.items():
        copy = before[name]
        wp.copy(array if array.shape == copy.shape else array[tuple(slice(0, n) for n in copy.shape)], copy)
