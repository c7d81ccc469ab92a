"""Watch: looks at all worlds after each step of a simulation, on the device, and keeps what replays an event."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import warp as wp
from numpy.typing import NDArray

from stickslip import provenance
from stickslip.errors import InputError, Unsupported
from stickslip.physics.base import GrowingPhysics
from stickslip.simulation.shards import Threaded
from stickslip.simulation.watching.device import ROOM, DeviceChecks
from stickslip.simulation.watching.event import Event, Stored
from stickslip.simulation.watching.limits import KINDS, Limits
from stickslip.state import State, digest

if TYPE_CHECKING:
    from stickslip.simulation.simulation import Simulation

SPAN = 32
"""Most steps from the state that is kept to an event."""


@dataclasses.dataclass
class _Mark:
    """Where a watch is, for `rewind`."""

    step: int
    memory: dict[str, wp.array]
    events: int


class Watch:
    """What `Simulation.watch` gives: it watches until it is closed, at the end of a `with` block or by `close()`.

    Attributes:
        folder: where events are written; None: nowhere
        limits: what is allowed
        most: events that are kept and written; more are counted only
        is_open: whether it still watches
    """

    def __init__(self, sim: "Simulation", folder: Any, limits: Limits | None, most: int) -> None:
        if sim.device.is_capturing:
            raise Unsupported("a watch cannot be opened while a graph is captured: open it before")
        if isinstance(sim.physics, Threaded):
            raise Unsupported("worlds that threads share cannot be watched: leave threads at 1")
        if isinstance(most, bool) or not isinstance(most, (int, np.integer)) or most < 1:
            raise InputError(f"most is {most!r}: it must be a whole number of events, at least 1")
        self.limits = limits or Limits()
        if self.limits.twins is not None and sim.nworld % 2:
            raise InputError(f"twins are worlds 2k and 2k + 1, and nworld is {sim.nworld}: take an even number")
        self.folder = None if folder is None else Path(folder)
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
        self.most = int(most)
        self.is_open = True
        self._events: list[Event] = []
        self._sim = sim
        self._step = 0
        self._taken = 0  # events of the device that were looked at
        self._more = 0  # events that were not kept
        self._told = 0  # events that `health` has told
        self._meanings: dict[int, str] = {}
        self._base: State | None = None
        self._base_kept: dict[str, wp.array] = {}
        self._since: list[wp.array] = []  # controls of each step since the state that is kept
        with sim._on_device():
            self._device = DeviceChecks(sim, self.limits)
            sim.compile()
        sim._recorders.append(self)
        sim._watches.append(self)

    # What a simulation asks of its recorders

    @property
    def steps_to_sample(self) -> int:
        """Steps until the next look: every step."""
        return 1

    def mark(self, n: int) -> _Mark:
        """Called before steps: where it is, for `rewind`. The present state is kept as the one before."""
        self._begin()
        return _Mark(
            self._step, {name: wp.clone(array) for name, array in self._device.arrays.items()}, len(self._events)
        )

    def rewind(self, mark: _Mark) -> None:
        """Forget the steps since a mark, which were undone."""
        for event in self._events[max(mark.events, self._told) :]:
            if event.file is not None:
                event.file.unlink(missing_ok=True)  # nobody has heard of it
        self._step = mark.step
        self._device.clock.fill_(mark.step)
        for name, copy in mark.memory.items():
            wp.copy(self._device.arrays[name], copy)
        self._taken = int(mark.memory["total"].numpy()[0])
        del self._events[mark.events :]
        self._told = min(self._told, mark.events)
        with self._sim._on_device():
            self._device.refresh(always=True)  # buffers may have grown
        self._begin()

    def after(self, n: int) -> None:
        """Called after each step."""
        sim = self._sim
        self._step += 1
        self._since.append(wp.clone(sim.ctrl))
        with sim._on_device():
            self._device.refresh()
            self._device.check()
        if len(self._since) >= SPAN:
            self._begin()

    def _begin(self) -> None:
        """Take the present state as that before the next step, after a look at the events until now."""
        sim = self._sim
        self._collect()
        with sim._on_device():
            self._device.begin()
            self._base = sim.physics.get_state(sim._m, sim.d)
            self._base_kept = {
                name: wp.clone(self._device.arrays[name]) for name in ("lost", "excess", "peak", "active")
            }
        self._since = []

    # What the host sees

    @property
    def unwatched(self) -> dict[str, str]:
        """Kinds that cannot be watched here, and why."""
        return dict(self._device.unwatched)

    @property
    def events(self) -> list[Event]:
        """The events so far, at most `most`."""
        self._collect()
        return list(self._events)

    @property
    def counts(self) -> dict[str, NDArray[np.integer]]:
        """Number of events of each kind in every world, (nworld,); of those, too, that are not kept."""
        self._collect()
        count = self._device.arrays["count"].numpy()
        return {kind: count[:, index].copy() for index, kind in enumerate(KINDS)}

    @property
    def messages(self) -> tuple[str, ...]:
        """What `health` says of the events, one sentence each."""
        told = [f"{event}; replay it: stickslip replay {event.file}" if event.file else str(event)
                for event in self.events]  # fmt: skip
        self._told = len(self._events)
        if self._more:
            told.append(f"{self._more} more events are counted only: raise most from {self.most}, or clear() the watch")
        return tuple(told)

    def clear(self) -> None:
        """Forget the events so far; files stay."""
        self._collect()
        for name in ("count", "total"):
            self._device.arrays[name].zero_()
        self._events, self._taken, self._more, self._told = [], 0, 0, 0

    def close(self) -> None:
        """Stop watching; the events stay. Closed again, it does nothing."""
        if not self.is_open:
            return
        self._collect()
        self.is_open = False
        self._sim._recorders.remove(self)
        self._sim._watches.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _collect(self) -> None:
        """Look at the events that the device has found since the last look, and write them."""
        total = int(self._device.arrays["total"].numpy()[0])
        if total == self._taken or not self.is_open:
            return
        rows = self._device.found.numpy()[self._taken : min(total, ROOM)]
        self._more += max(0, total - max(self._taken, ROOM))
        self._taken = total
        state = None
        for row in rows:
            event = self._event(row)
            if event is None:
                continue
            if len(self._events) >= self.most:
                self._more += 1
                continue
            if self.folder is not None:
                state = state or (self._base.numpy() if self._base is not None else None)
                assert state is not None
                event = self._written(event, state)
            self._events.append(event)
        if self._taken >= ROOM // 2:
            self._device.arrays["total"].zero_()
            self._taken = 0

    def _event(self, row: Any) -> Event | None:
        kind, body = KINDS[int(row["kind"])], int(row["body"])
        world, why = int(row["world"]), ""
        if kind == "dropped":
            why = self._meaning(int(row["bits"]))
            if not why:  # nothing was dropped: not an event
                count = self._device.arrays["count"].numpy()
                count[world, KINDS.index(kind)] -= 1
                self._device.arrays["count"].assign(count)
                self._device.ignored.assign(self._device.ignored.numpy() | int(row["bits"]))
                return None
        name = "" if kind == "dropped" else self._sim.mjm.body(body).name or f"body {body}"
        return Event(kind, world, int(row["step"]), name, float(row["figure"]), float(row["limit"]), why)

    def _meaning(self, bits: int) -> str:
        """What `health` says of bits of `overflow`; "" if nothing was dropped."""
        if bits not in self._meanings:
            sim = self._sim
            kept = wp.clone(self._device.overflow)
            alone = np.zeros(kept.shape, dtype=np.int32)
            alone[0] = bits
            self._device.overflow.assign(alone)
            self._meanings[bits] = "; ".join(sim.physics.health(sim._m, sim.d).overflow)
            wp.copy(self._device.overflow, kept)
        return self._meanings[bits]

    def _written(self, event: Event, state: State) -> Event:
        sim = self._sim
        assert self.folder is not None
        worlds = [event.world - 1, event.world] if event.kind == "twins" else [event.world]
        first = self._step - len(self._since)  # steps before the state that is kept
        ctrl = np.stack([array.numpy()[worlds] for array in self._since[: event.step - first]])
        path = self.folder / (
            f"{sim.physics.name}-{event.kind.replace(' ', '-')}-world-{event.world}-step-{event.step}.npz"
        )
        sizes: dict[str, int] = {}
        if sim._growth is None and isinstance(sim.physics, GrowingPhysics):
            sizes = dict(zip(("nconmax", "njmax"), sim.physics.buffer_sizes(sim._m, sim.d), strict=True))
        stored = Stored(
            event=event,
            model=sim.mjm,
            physics=sim.physics.name,
            parameters=dataclasses.asdict(sim.physics) if dataclasses.is_dataclass(sim.physics) else {},  # type: ignore[arg-type]
            limits=dataclasses.asdict(self.limits),
            state=dataclasses.replace(state[worlds], model=digest(sim.mjm)),
            fields={name: self._rows(name, worlds) for name in sorted(sim._given)},
            ctrl=ctrl.astype(np.float32),
            kept={name: float(array.numpy()[event.world]) for name, array in self._base_kept.items()},
            sizes=sizes,
            device=sim.device.alias,
            versions=provenance.versions(),
        )
        return dataclasses.replace(event, file=stored.save(path))

    def _rows(self, name: str, worlds: list[int]) -> NDArray[Any]:
        """A field of the model in some worlds."""
        value = self._sim.physics.model_field(self._sim._m, name).numpy()
        return value[[world % len(value) for world in worlds]]

    def _continue(self, kept: dict[str, float]) -> None:
        """Put what was kept of a world back, for a replay; of all worlds alike."""
        for name, value in kept.items():
            self._device.arrays[name].fill_(int(value) if self._device.arrays[name].dtype is wp.int32 else value)
        wp.copy(self._device.arrays["time"], self._device.time)
