"""Worlds shared out over threads of the CPU, which step them at the same time.

Each thread has a model, data and a captured step of its own for its worlds. Warp's launches release the interpreter. No
world's motion depends on another world, so results do not depend on the number of threads. What the simulation shows,
state, inputs and the results that someone asked for, is in arrays of all worlds; a thread reads its worlds from there
before its steps and writes them back after them.
"""

import concurrent.futures
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import mujoco
import numpy as np
import warp as wp

from stickslip import arrays, compilation
from stickslip.copies import WorldCopies
from stickslip.errors import Unsupported
from stickslip.physics.base import Contacts, CountingPhysics, GrowingPhysics, Health, Physics, Stats
from stickslip.physics.contacts import DeviceContacts
from stickslip.readout import Patches, patches_of, readout
from stickslip.simulation.growth import Growth
from stickslip.state import INTEGRATION, PARTS, State, concatenated

T = TypeVar("T")


@dataclasses.dataclass
class Models:
    """The models of all threads; fields that worlds have in common are those of the first."""

    parts: list[Any]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["parts"][0], name)


class Shard:
    """The worlds of one thread.

    Args:
        physics: the physics
        mjm, m: the model on the host, and on the device
        d: data of the worlds
        first: number of the first world
        nworld: how many there are
        growth: enlarges its buffers; None if they do not grow
    """

    def __init__(
        self,
        physics: Physics[Any, Any],
        mjm: mujoco.MjModel,
        m: Any,
        d: Any,
        first: int,
        nworld: int,
        growth: Growth | None,
    ) -> None:
        self.physics, self.mjm, self._m, self.d = physics, mjm, m, d
        self.device = wp.get_device("cpu")
        self.worlds = slice(first, first + nworld)
        self.nworld = nworld
        self._growth = growth
        self._graph: wp.Graph | None = None
        self._captured: tuple[Any, ...] = ()
        self._kernels = compilation.OwnKernels()
        self._reads: WorldCopies | None = None
        self._writes: WorldCopies | None = None

    def bind(self, reads: Mapping[str, wp.array], writes: Mapping[str, wp.array]) -> None:
        """Tell it which of its arrays follow arrays of all worlds, and which are shown in such."""
        own = {name: self.physics.field(self._m, self.d, name) for name in {**reads, **writes}}
        self._reads = WorldCopies([(own[name], whole[self.worlds]) for name, whole in reads.items()])
        self._writes = WorldCopies([(whole[self.worlds], own[name]) for name, whole in writes.items()])

    def read(self) -> None:
        """Take state and inputs from the arrays of all worlds."""
        if self._reads is not None:
            self._reads.run()

    def write(self) -> None:
        """Show state and results in the arrays of all worlds."""
        if self._writes is not None:
            self._writes.run()

    def compile(self) -> None:
        """Compile and capture its step, unless that has been done for the model as it is."""
        physics = self.physics
        if not physics.capturable:
            with self._kernels.used():
                physics.compile(self._m, self.d)
            return
        if self._graph is not None and self._captured == physics.captured(self._m):
            return
        with compilation.unchanged({**physics.results(self._m, self.d), **physics.arrays(self._m, self.d)}):
            compilation.load_kernels(lambda: physics.step(self._m, self.d), self.device)
            self.d = physics.step(self._m, self.d)
            with self._kernels.used():
                self._graph = compilation.capture(lambda: physics.step(self._m, self.d), self.device)
        self._captured = physics.captured(self._m)

    def advance(self, n: int) -> int:
        """Advance its worlds by n timesteps; whether larger buffers are needed: see `Growth.attempt`."""
        self.read()
        if self._growth is not None:
            return self._growth.attempt(self, n, self._run)
        self._run(n)
        return 0

    def repeat(self, n: int, needs: int) -> None:
        """Repeat the steps of `advance` with larger buffers, where they are needed; not for several at a time."""
        if self._growth is not None and needs:
            self._growth.repeat(self, n, needs, self._run)

    def _run(self, n: int) -> None:
        with self._kernels.used():
            if self._graph is None:
                self.d = self.physics.run(self._m, self.d, n)
            else:
                for _ in range(n):
                    wp.capture_launch(self._graph)


class Shards:
    """The data of all threads, and arrays of all worlds: `arrays`, and results that someone asked for.

    Args:
        shards: one for each thread
    """

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.shards = list(shards)
        self.nworld = sum(shard.nworld for shard in shards)
        first = self.shards[0]
        own = first.physics.arrays(first._m, first.d)
        self.arrays = {name: self._whole(name) for name in own if name in _SHOWN}  # a memory stays with its thread
        self.results: dict[str, wp.array] = {}
        self.bind()

    def _whole(self, name: str) -> wp.array:
        parts = [shard.physics.field(shard._m, shard.d, name) for shard in self.shards]
        whole = wp.empty((self.nworld, *parts[0].shape[1:]), dtype=parts[0].dtype, device=parts[0].device)
        if whole.size:
            for shard, part in zip(self.shards, parts, strict=True):
                wp.copy(whole[shard.worlds], part)
        return whole

    def bind(self) -> None:
        """Tell shards which arrays to read and write; again when theirs are others."""
        given = {name: array for name, array in self.arrays.items() if array.size}
        shown = {**given, **{name: array for name, array in self.results.items() if array.size}}
        for shard in self.shards:
            shard.bind(given, shown)

    def field(self, name: str) -> wp.array | None:
        """An array of all worlds, by MuJoCo's name; None if the physics has none."""
        if name in self.arrays:
            return self.arrays[name]
        if name not in self.results:
            first = self.shards[0]
            found = first.physics.field(first._m, first.d, name)
            if found is None or found.shape[:1] != (first.nworld,):
                return None
            self.results[name] = self._whole(name)
            self.bind()
        return self.results[name]

    def __getattr__(self, name: str) -> Any:
        found = None if name.startswith("_") else self.field(name)
        if found is None:
            raise AttributeError(f"no array {name!r} of all worlds: with threads, each has data of its own (d.shards)")
        return found


_SHOWN = frozenset(PARTS)
"""What a thread reads from the arrays of all worlds."""


class Threaded(CountingPhysics[Models, Shards]):
    """A physics whose worlds are shared out over threads; it belongs to one simulation.

    Args:
        physics: the physics of each thread
        threads: number of threads
        grows: whether nconmax and njmax may grow
    """

    capturable: ClassVar[bool] = False

    def __init__(self, physics: Physics[Any, Any], threads: int, grows: tuple[bool, bool] = (True, True)) -> None:
        self.physics = physics
        self.name = physics.name  # type: ignore[misc]
        self.promises = physics.promises  # type: ignore[misc]
        self.threads = threads
        self._grows = grows
        self._models = Models([])
        self._pool = concurrent.futures.ThreadPoolExecutor(threads, thread_name_prefix="stickslip")

    def _each(self, d: Shards, work: Callable[[Shard], T]) -> list[T]:
        """Do something with each shard, one after another."""
        return [work(shard) for shard in d.shards]

    def check(self, mjm: mujoco.MjModel) -> None:
        self.physics.check(mjm)

    def put_model(self, mjm: mujoco.MjModel) -> Models:
        self._models = Models([self.physics.put_model(mjm) for _ in range(self.threads)])
        return self._models

    def make_data(
        self, mjm: mujoco.MjModel, nworld: int, *, nconmax: int | None = None, njmax: int | None = None
    ) -> Shards:
        count = min(self.threads, nworld)
        bounds = np.linspace(0, nworld, count + 1).round().astype(int)  # equal parts, or one more
        shards = []
        for part, first, end in zip(self._models.parts[:count], bounds[:-1], bounds[1:], strict=True):
            d = self.physics.make_data(mjm, int(end - first), nconmax=nconmax, njmax=njmax)
            growth = None
            if isinstance(self.physics, GrowingPhysics) and any(self._grows):
                growth = Growth(self.physics, contacts=self._grows[0], rows=self._grows[1])
            shards.append(Shard(self.physics, mjm, part, d, int(first), int(end - first), growth))
        return Shards(shards)

    def step(self, m: Models, d: Shards) -> Shards:
        return self.run(m, d, 1)

    def run(self, m: Models, d: Shards, n: int) -> Shards:
        needs = list(self._pool.map(lambda shard: shard.advance(n), d.shards))
        for shard, need in zip(d.shards, needs, strict=True):
            shard.repeat(n, need)
        if any(needs):
            d.bind()
        list(self._pool.map(Shard.write, d.shards))
        return d

    def compile(self, m: Models, d: Shards) -> None:
        self._each(d, Shard.compile)

    def get_state(self, m: Models, d: Shards, signature: int = INTEGRATION) -> State:
        def of(shard: Shard) -> State:
            shard.read()
            return shard.physics.get_state(shard._m, shard.d, signature).numpy()

        return concatenated(self._each(d, of))

    def set_state(self, m: Models, d: Shards, state: State, mask: wp.array | None = None) -> Shards:
        host = state.numpy()
        parts = [host if host.nworld == 1 else host[shard.worlds] for shard in d.shards]
        for shard, part in zip(d.shards, parts, strict=True):
            shard.read()
            shard.d = shard.physics.set_state(shard._m, shard.d, part, self._part(mask, shard))
            shard.write()
        return d

    def reset(self, m: Models, d: Shards, mask: wp.array | None = None) -> Shards:
        def of(shard: Shard) -> None:
            shard.read()
            shard.d = shard.physics.reset(shard._m, shard.d, self._part(mask, shard))
            shard.write()

        self._each(d, of)
        return d

    @staticmethod
    def _part(mask: wp.array | None, shard: Shard) -> wp.array | None:
        return None if mask is None else mask[shard.worlds]

    def set_model(
        self,
        m: Models,
        d: Shards,
        fields: Mapping[str, Any],
        mask: wp.array | None = None,
        refused: wp.array | None = None,
    ) -> Models:
        self.check_fields(m, fields, d.nworld)  # an unfit value is found before the first thread has written
        own = {name: arrays.shape_of(self.physics.model_field(m.parts[0], name))[1:] for name in fields}
        given = {name: np.asarray(arrays.host_array(value)) for name, value in fields.items()}
        device = d.shards[0].device
        on_device = {name for name, value in fields.items() if arrays.device_array(name, value, device) is not None}
        whole = {name: value.shape == (d.nworld, *own[name]) for name, value in given.items()}
        for part, shard in zip(m.parts, d.shards, strict=True):
            mine = {name: value[shard.worlds] if whole[name] else value for name, value in given.items()}
            mine = {name: wp.array(value) if name in on_device else value for name, value in mine.items()}
            shard.physics.set_model(part, shard.d, mine, self._part(mask, shard), refused)
        return m

    def check_fields(self, m: Models, fields: Mapping[str, Any], nworld: int) -> Mapping[str, wp.array]:
        return self.physics.check_fields(m.parts[0], fields, nworld)

    def complete(self, m: Models, d: Shards) -> None:
        for part, shard in zip(m.parts, d.shards, strict=True):
            self.physics.complete(part, shard.d)

    def model_field(self, m: Models, name: str) -> wp.array:
        return self.physics.model_field(m.parts[0], name)

    def captured(self, m: Models) -> tuple[Any, ...]:
        return tuple(self.physics.captured(part) for part in m.parts)

    def arrays(self, m: Models, d: Shards) -> Mapping[str, wp.array]:
        memories = {
            f"{name} of worlds from {shard.worlds.start}": array
            for shard in d.shards
            for name, array in shard.physics.arrays(shard._m, shard.d).items()
            if name not in d.arrays
        }
        return {**d.arrays, **memories}

    def field(self, m: Models, d: Shards, name: str) -> wp.array | None:
        return d.field(name)

    def checkpoint(self, m: Models, d: Shards) -> Callable[[], Shards]:
        parts = [(shard, shard.physics.checkpoint(shard._m, shard.d)) for shard in d.shards]
        shown = [(array, wp.clone(array)) for array in (*d.arrays.values(), *d.results.values())]

        def restore() -> Shards:
            for shard, back in parts:
                shard.d = back()
            for array, copy in shown:
                wp.copy(array, copy)
            return d

        return restore

    def forward(self, m: Models, d: Shards) -> Shards:
        def of(shard: Shard) -> None:
            shard.read()
            shard.d = shard.physics.forward(shard._m, shard.d)
            shard.write()

        self._each(d, of)
        return d

    @readout
    def kinematics(self, m: Models, d: Shards, worlds: Any = None) -> None:
        def of(shard: Shard) -> None:
            shard.read()
            shard.physics.kinematics(shard._m, shard.d)
            shard.write()

        self._each(d, of)

    def make_contacts(self, m: Models, d: Shards) -> DeviceContacts:
        raise Unsupported("with threads, contacts are in one list on the host only: contacts(), or leave threads at 1")

    def contact_count(self, m: Models, d: Shards) -> int:
        return sum(self._each(d, lambda shard: shard.physics.contact_count(shard._m, shard.d)))

    def contacts(self, m: Models, d: Shards) -> Contacts:
        parts = self._each(d, lambda shard: shard.physics.contacts(shard._m, shard.d))
        parts = [
            dataclasses.replace(part, world=part.world + shard.worlds.start)
            for part, shard in zip(parts, d.shards, strict=True)
        ]
        names = [field.name for field in dataclasses.fields(Contacts)]
        return Contacts(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})

    @readout
    def patches(self, m: Models, d: Shards) -> Patches:
        parts = self._each(d, lambda shard: patches_of(shard.physics, shard._m, shard.d))
        before = np.cumsum([0, *(len(part) for part in parts)])
        parts = [
            dataclasses.replace(part, world=part.world + shard.worlds.start, patch=part.patch + first)
            for part, shard, first in zip(parts, d.shards, before, strict=False)
        ]
        names = [field.name for field in dataclasses.fields(Patches)]
        return Patches(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})

    def health(self, m: Models, d: Shards) -> Health:
        def of(shard: Shard) -> Health:
            shard.read()
            return shard.physics.health(shard._m, shard.d)

        parts = self._each(d, of)
        return Health(
            overflow=_joined(part.overflow for part in parts),
            notes=_joined(part.notes for part in parts),
            nan_worlds=tuple(
                world + shard.worlds.start
                for part, shard in zip(parts, d.shards, strict=True)
                for world in part.nan_worlds
            ),
            ncon_peak=sum(part.ncon_peak for part in parts),
            nefc_peak=max(part.nefc_peak for part in parts),
            failures=tuple(
                f"of worlds from {shard.worlds.start} on: {sentence}"
                for part, shard in zip(parts, d.shards, strict=True)
                for sentence in part.failures
            ),
        )

    def stats(self, m: Models, d: Shards) -> Stats:
        physics = self.physics
        if not isinstance(physics, CountingPhysics):
            raise Unsupported(f"{self.name} has no stats: it has neither a solver nor step-size control")
        parts = self._each(d, lambda shard: physics.stats(shard._m, shard.d))
        joined = {
            field.name: np.concatenate([getattr(part, field.name) for part in parts])
            for field in dataclasses.fields(Stats)
            if field.name != "trace"
        }
        return Stats(**joined, trace=tuple(trace for part in parts for trace in part.trace))


def _joined(parts: Any) -> tuple[str, ...]:
    """All sentences, each once."""
    return tuple(dict.fromkeys(sentence for part in parts for sentence in part))
