"""The parts of a control step as one kernel each: torch operators, translated for one world per thread.

What the parts do is written once, in torch (`cycle`). A cycle of one world runs them, `trace` notes what they do to
single numbers, and this makes C of it. A part that launches hundreds of kernels becomes one.
"""

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import torch
import warp as wp

from stickslip import compilation
from stickslip.envs.code import Code, Store
from stickslip.envs.cycle import Cycle
from stickslip.envs.random import Random
from stickslip.envs.step import Step
from stickslip.envs.trace import Trace, place_of
from stickslip.errors import Unsupported
from stickslip.simulation import Simulation

WARP = 32
"""Threads of a block: a warp, so that some thousand worlds are spread over a whole GPU."""
SPREAD = 4
"""Worlds of a warp on a GPU; its other threads are idle. A thread reads rows of its own: a load takes as many
transactions as there are worlds, and the next one waits for them. With fewer worlds a warp there are more warps, which
wait side by side."""


def fused(cycle: Cycle, *, always: bool) -> "Fused | None":
    """Let a cycle run translated parts; if that cannot be done, a warning and None, or Unsupported with `always`."""
    try:
        return Fused(cycle)
    except Unsupported as error:
        name = cycle.task.name
        if always:
            raise Unsupported(f"fuse=True: task {name!r} cannot be translated: {error}; leave it out") from None
        warnings.warn(
            f"task {name!r} stays in torch, with more kernels in a control step: {error}; fuse=False says that this is "
            "meant",
            stacklevel=4,
        )
        return None


class Part:
    """A kernel, and where the numbers are that it reads and writes.

    Args:
        trace: of one world
        tensors: of all worlds, for each leaf of the trace
        results: tensors of all worlds to write, with the nodes of their entries
        draws: how many draws of random numbers there are
        mask: which of the tensors has the worlds that start; None: it is not among them
    """

    def __init__(
        self,
        trace: Trace,
        tensors: list[torch.Tensor],
        results: list[tuple[torch.Tensor, torch.Tensor]],
        draws: int,
        mask: int | None,
    ) -> None:
        writes = [(leaf.nodes, leaf.first) for leaf in trace.leaves.values()]
        places = [*tensors, *(tensor for tensor, _ in results)]
        stores = []
        for k, nodes in enumerate([*(nodes for nodes, _ in writes), *(nodes for _, nodes in results)]):
            before = writes[k][1].reshape(-1).tolist() if k < len(writes) else [None] * nodes.numel()
            for i, (node, old) in enumerate(zip(nodes.reshape(-1).tolist(), before, strict=True)):
                if node != old:
                    stores.append(Store(k, i, node))
        _check_apart(tensors, {k for k, _, _ in stores if k < len(tensors)})
        code = Code(trace.nodes, places, stores, mask)
        device = wp.device_from_torch(places[0].device)
        self._kernel = _kernel(code.source())
        self._kept = places
        self._table = wp.array([place.data_ptr() for place in places], dtype=wp.uint64, device=device)
        self._nworld, self._device, self._draws = places[0].shape[0], device, draws

    def run(self, random: Random) -> None:
        """Do it in all worlds."""
        spread = SPREAD if self._device.is_cuda else WARP
        threads = -(-self._nworld // spread) * WARP
        inputs = [self._nworld, spread, random.place, wp.from_torch(random.moment, dtype=wp.int32), self._table]
        wp.launch(self._kernel, threads, inputs=inputs, device=self._device, block_dim=WARP)
        random.place += self._draws


class Fused:
    """The parts of a control step, translated.

    Args:
        cycle: what runs them from now on; what it gives is in tensors that each step fills again
    """

    def __init__(self, cycle: Cycle) -> None:
        inner: Any = cycle.sim.physics
        physics = getattr(inner, "physics", inner)  # of threads
        sim = Simulation(cycle.sim.mjm, physics, nworld=1, device=cycle.sim.device.alias)
        twin = Cycle(sim, cycle.task, 0, cycle.autoreset)
        twin.random.begin()
        for run in twin.parts().values():  # makes the constants, and views of arrays
            run()
        self._cycle = cycle
        self._stores = [_Store(cycle, twin.made, kind) for kind in (torch.float32, torch.bool)]
        before, cycle.made = cycle.made, {name: one for store in self._stores for name, one in store.views().items()}
        try:
            twin.random.begin()
            parts = {name: self._translated(twin, run) for name, run in twin.parts().items()}
            compilation.load_kernels(lambda: [part.run(cycle.random) for part in parts.values()], cycle.sim.device)
            with compilation.quiet():
                self._check(parts)
        except BaseException:
            cycle.made = before
            raise
        cycle.substitutes = {name: functools.partial(part.run, cycle.random) for name, part in parts.items()}

    def _translated(self, twin: Cycle, run: Callable[[], None]) -> Part:
        cycle, random, begun, made = self._cycle, twin.random, twin.random.place, dict(twin.made)
        given = twin.tensors()
        trace = Trace([*twin.constants(), *twin.state.constants()])
        random.seen = lambda numbers, place, normal: trace.drawn(numbers, place - begun, normal)
        try:
            with trace:
                run()
        finally:
            random.seen = None
        ours = cycle.tensors()
        known = {place_of(tensor): (ours[name], tensor) for name, tensor in reversed(given.items())}
        for key, view in twin.state.views().items():
            known.setdefault(place_of(view), (cycle.state.view(key), view))
        tensors = []
        for place, leaf in trace.leaves.items():
            if place not in known:
                raise Unsupported(f"a tensor of shape {tuple(leaf.tensor.shape)} that is not of the state")
            tensors.append(known[place][0])
            if tensors[-1].shape != (cycle.nworld, *leaf.tensor.shape[1:]):
                raise Unsupported(f"a tensor of shape {tuple(tensors[-1].shape)}: the first axis must be worlds")
        new = {name: tensor for name, tensor in twin.made.items() if made.get(name) is not tensor}
        results = [(cycle.made[name], trace.of(one)) for name, one in new.items()]
        mask = next((k for k, tensor in enumerate(tensors) if tensor is cycle.mask), None)
        return Part(trace, tensors, results, random.place - begun, mask)

    def step(self) -> Step:
        """A copy of what the last control step gave."""
        return Step(**{name: one for store in self._stores for name, one in store.views(copy=True).items()})

    def _check(self, parts: dict[str, Part]) -> None:
        """Raise Unsupported if a part does something else than before: what reads other worlds cannot be translated."""
        cycle, made = self._cycle, self._cycle.made
        state, kept = cycle.keep()
        cycle.random.begin()
        cycle.asked.copy_(cycle.random.uniform(-1.0, 1.0, cycle.naction))
        try:
            for name, run in cycle.parts().items():
                if name == "start":
                    cycle.mask.copy_(torch.arange(cycle.nworld, device=cycle.device) % 2 == 0)
                cycle.made = made
                place, before = cycle.random.place, {key: one.clone() for key, one in cycle.tensors().items()}
                parts[name].run(cycle.random)
                ours = {key: one.clone() for key, one in cycle.tensors().items()}
                for key, one in cycle.tensors().items():
                    one.copy_(before[key])
                cycle.random.place = place
                cycle.made = dict(made)
                run()
                for key, one in cycle.tensors().items():
                    if not _agree(ours[key], one):
                        raise Unsupported(
                            f"{key!r} comes out otherwise in {name!r}: does a term read other worlds?"
                            " Write it with operations of one world"
                        )
                for key, one in cycle.made.items():
                    made[key].copy_(one)
        finally:
            cycle.made = made
            cycle.put_back(state, kept)


class _Store:
    """Tensors of one type in one piece of memory, so that they are copied at once."""

    def __init__(self, cycle: Cycle, made: dict[str, torch.Tensor], dtype: torch.dtype) -> None:
        self._shapes = {name: (cycle.nworld, *one.shape[1:]) for name, one in made.items() if one.dtype is dtype}
        self._all = torch.zeros(sum(map(math.prod, self._shapes.values())), dtype=dtype, device=cycle.device)

    def views(self, *, copy: bool = False) -> dict[str, torch.Tensor]:
        parts = (self._all.clone() if copy else self._all).split([math.prod(shape) for shape in self._shapes.values()])
        return {name: part.view(shape) for (name, shape), part in zip(self._shapes.items(), parts, strict=True)}


def _agree(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether numbers are the same but for rounding, in nearly all worlds: a threshold may be met by chance."""
    if a.dtype.is_floating_point:
        size = float(torch.nan_to_num(b).abs().max()) if b.numel() else 0.0
        same = torch.isclose(a, b, rtol=1e-3, atol=1e-4 * (1.0 + size), equal_nan=True)
    else:
        same = a == b
    return int((~same.reshape(len(same), -1).all(dim=1)).sum()) <= 0.02 * len(same)


def _check_apart(tensors: list[torch.Tensor], written: set[int]) -> None:
    """Raise Unsupported if a tensor is written and another one shares memory with it: they would not see each other."""
    ends = [(one.data_ptr(), one.data_ptr() + _extent(one)) for one in tensors]
    for k in written:
        for i, (first, last) in enumerate(ends):
            if i != k and first < ends[k][1] and ends[k][0] < last:
                raise Unsupported("a view of an array that is written in the same part of a control step")


def _extent(tensor: torch.Tensor) -> int:
    """Bytes from the first number to the end of the last one."""
    if not tensor.numel():
        return 0
    return (1 + sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))) * tensor.itemsize


@functools.cache
def _kernel(source: str) -> Any:
    """A kernel of which a thread does this for a world, if it has one."""

    @wp.func_native(source)
    def part(world: int, place: int, moment: wp.array[int], table: wp.array[wp.uint64]): ...

    @wp.kernel(module="unique", enable_backward=False)
    def run(nworld: int, spread: int, place: int, moment: wp.array[int], table: wp.array[wp.uint64]):
        thread = wp.tid()
        lane = thread % WARP
        world = thread / WARP * spread + lane
        if lane < spread and world < nworld:
            part(world, place, moment, table)

    return run
