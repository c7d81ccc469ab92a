"""Recorders: samples of chosen arrays while a simulation steps, in a ring buffer on the device, then in a file."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import warp as wp
from numpy.typing import ArrayLike, NDArray

from stickslip import arrays, capacity
from stickslip.errors import InputError, Unsupported
from stickslip.simulation import tape as tapes
from stickslip.simulation.rollout import check_count, marked
from stickslip.simulation.tape import Tape
from stickslip.simulation.trajectory import Trajectory, about, check_path
from stickslip.simulation.worlds import numbers

if TYPE_CHECKING:
    from stickslip.simulation.simulation import Simulation

_SAMPLES = 1024
_BYTES = 1 << 26
_SHARE = 0.25
"""Most samples and bytes of a ring buffer, and its share of the free memory, unless its size is given."""


class Recorder:
    """What `Simulation.record` gives: it records until it is closed, at the end of a `with` block or by `close()`.

    Samples are stored into a ring buffer on the device, in one launch each. When it is full, they are copied to the
    host.

    Attributes:
        path: where the samples will be written; None: nowhere
        every: steps from one sample to the next
        last: samples that are kept; None: all
        is_open: whether it still records
    """

    def __init__(
        self,
        sim: "Simulation",
        path: str | os.PathLike[str] | None,
        outputs: Iterable[str],
        *,
        every: int,
        last: int | None,
        worlds: int | slice | ArrayLike | None,
        buffer: int | None,
    ) -> None:
        if sim.device.is_capturing:
            raise Unsupported("a recorder cannot be opened while a graph is captured: open it before")
        check_count("every", every, "steps")
        for name, value in (("last", last), ("buffer", buffer)):
            if value is not None:
                check_count(name, value, "samples")
        self.path: Path | None = None if path is None else check_path(path)
        self.every, self.last = int(every), None if last is None else int(last)
        self.is_open = True
        self._sim = sim
        self._names = tuple(tapes.outputs_of(sim, outputs))
        self._worlds = None if worlds is None else tuple(int(w) for w in numbers(worlds, sim.nworld))
        if self._worlds is not None and not self._worlds:
            raise InputError(f"worlds is {worlds!r}: name one at least")
        self._nworld = sim.nworld if self._worlds is None else len(self._worlds)
        self._steps = self._count = 0  # steps seen, samples stored
        self._taken = self._oldest = 0  # samples copied to the host, and the first that the ring has not overwritten
        self._guard = 0  # samples at the last mark
        self._held: list[tuple[int, dict[str, NDArray[Any]]]] = []  # on the host: number of the first, and samples
        self._trajectory: Trajectory | None = None
        with sim._on_device():
            sources = tapes.outputs_of(sim, self._names)
            self._room = self._size(sources) if buffer is None else int(buffer)
            self._ring = tapes.places(sources, self._room, self._nworld, sim.device)
            self._bind()
        sim._recorders.append(self)

    def _size(self, sources: dict[str, wp.array]) -> int:
        """Samples of the ring buffer, by the memory that is free."""
        size, free = tapes.sample_bytes(sources, self._nworld), _SHARE * capacity.free_memory(self._sim.device)
        if self.last is not None:
            room = self.last + max(16, self.last // 4)  # more than are kept: some may be of steps that are undone
            if room * size <= free:
                return room
        return max(1, min(_SAMPLES, int(min(_BYTES, free) / max(1, size))))

    def _bind(self) -> None:
        """Look up the arrays of the simulation, which may have other data now."""
        sim = self._sim
        chosen = None if self._worlds is None else wp.array(self._worlds, dtype=int, device=sim.device)
        self._data: Any = sim.d
        self._tape = Tape(sim, chosen)
        sources = tapes.outputs_of(sim, self._names)
        self._tape.set(sources, self._ring, every=1, start=0, strides=(self._nworld, 1))

    @property
    def steps_to_sample(self) -> int:
        """Steps until the next sample."""
        return self.every - self._steps % self.every

    def after(self, n: int) -> None:
        """Note that the simulation took n steps, no more than `steps_to_sample`; store a sample if it is time."""
        self._steps += n
        if self._steps % self.every:
            return
        if self._sim.d is not self._data:
            self._bind()
        kept = 0 if self.last is None else self._count - self.last
        if self._count - max(self._taken, self._oldest, kept) >= self._room:
            self._copy()
        self._tape.store(self._count % self._room)
        self._count += 1
        self._oldest = max(self._oldest, self._count - self._room)

    def mark(self, n: int) -> tuple[int, int]:
        """Where it is, for `rewind`; what is kept until then survives n steps."""
        self._guard = self._count
        if self.last is not None and self.last < self._room < self.last + n // self.every + 1:
            self._copy()  # else the ring may overwrite them
        return self._steps, self._count

    def rewind(self, mark: tuple[int, int]) -> None:
        """Forget the samples since a mark: the steps were undone, and arrays may have moved."""
        self._steps, self._count = mark
        self._data = None
        self._taken, self._oldest = min(self._taken, self._count), min(self._oldest, self._count)
        self._held = [
            (first, {name: part[: self._count - first] for name, part in parts.items()})
            for first, parts in self._held
            if first < self._count
        ]

    def _copy(self) -> None:
        """Copy samples that are on the device only to the host."""
        first = max(self._taken, self._oldest)
        if self.last is not None:
            first = max(first, self._count - self.last)
        while first < self._count:
            slot = first % self._room
            n = min(self._count - first, self._room - slot)
            self._held.append((first, {name: _rows(ring, slot, n) for name, ring in self._ring.items()}))
            first += n
        self._taken = self._count
        self._held = [(first, parts) for first, parts in self._held if self._is_kept(first, first + len(parts["time"]))]

    def _is_kept(self, begin: int, end: int) -> bool:
        """Whether some of these samples are among the last, now or as they were at the last mark."""
        if self.last is None:
            return True
        return end > self._count - self.last or (begin < self._guard and end > self._guard - self.last)

    @property
    def trajectory(self) -> Trajectory:
        """What was recorded so far, or, when it is closed, all of it; on the host."""
        if self._trajectory is not None:
            return self._trajectory
        with self._sim._on_device():
            self._copy()
            begin = 0 if self.last is None else max(0, self._count - self.last)
            outputs = {name: self._joined(name, begin) for name in self._names}
            return Trajectory(outputs, **about(self._sim, self.every, self._worlds))

    def _joined(self, name: str, begin: int) -> NDArray[Any]:
        """The samples of an output from one on, (nworld, nsample, ...)."""
        ring = self._ring[name]
        parts = [parts[name][max(0, begin - first) :] for first, parts in self._held]
        if not parts:
            parts = [_rows(ring, 0, 0)]
        return np.ascontiguousarray(np.swapaxes(np.concatenate(parts), 0, 1))

    def close(self) -> None:
        """Stop recording, and write the file if there is to be one; closed again, it does nothing."""
        if not self.is_open:
            return
        self.is_open = False
        self._sim._recorders.remove(self)
        self._trajectory = self.trajectory
        self._held, self._ring = [], {}
        if self.path is not None:
            self._trajectory.save(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _rows(ring: wp.array, slot: int, n: int) -> NDArray[Any]:
    """A copy of n samples on the host; Warp takes no slices of arrays without elements."""
    if ring.size and n:
        return ring[slot : slot + n].numpy().copy()
    return np.empty((n, *arrays.shape_of(ring)[1:]), dtype=arrays.numpy_type(ring))


def recorded(sim: "Simulation", n: int) -> Callable[[int], None]:
    """A function that takes n steps, with a stop at every sample; called again, after the steps were undone."""
    forget = marked(sim, n)
    calls = 0

    def run(n: int) -> None:
        nonlocal calls
        calls += 1
        if calls > 1:  # buffers have grown
            forget()
        while n:
            piece = min(n, *(recorder.steps_to_sample for recorder in sim._recorders))
            sim._run(piece)
            for recorder in sim._recorders:
                recorder.after(piece)
            n -= piece

    return run
