"""The parts of a control step as one kernel each: the torch operators of a task, translated for one world per thread.

What the parts do is written once, in torch (`Env.parts`). An environment of one world runs them, `trace` notes what they
do to single numbers, and this makes C of it. A part that launches hundreds of kernels becomes one.
"""

import functools
import math
from typing import Any

import torch
import warp as wp

from stickslip import compilation
from stickslip.envs.step import Step
from stickslip.envs.trace import C_TYPES, Node, Trace, place_of
from stickslip.errors import Unsupported
from stickslip.simulation import Simulation

BLOCK = 64
"""Threads of a block: few, so that some thousand worlds are spread over a whole GPU."""


def fused(env: Any, *, always: bool) -> "Fused | None":
    """The parts of a control step of an environment; None, or Unsupported with `always`, if they cannot be translated."""
    try:
        return Fused(env)
    except Unsupported as error:
        if always:
            raise Unsupported(f"fuse=True: task {env.task.name!r} cannot be translated: {error}; leave it out") from None
        return None


class Part:
    """A kernel, and where the numbers are that it reads and writes.

    Args:
        trace: of one world
        tensors: of all worlds, for each leaf of the trace
        results: tensors of all worlds to write, with the nodes of their entries
        draws: how many draws of random numbers there are
    """

    def __init__(
        self,
        trace: Trace,
        tensors: list[torch.Tensor],
        results: list[tuple[torch.Tensor, torch.Tensor]],
        draws: int,
    ) -> None:
        writes = [(leaf.nodes, leaf.first) for leaf in trace.leaves.values()]
        places = [*tensors, *(tensor for tensor, _ in results)]
        stores = []
        for k, nodes in enumerate([*(nodes for nodes, _ in writes), *(nodes for _, nodes in results)]):
            before = writes[k][1].reshape(-1).tolist() if k < len(writes) else [None] * nodes.numel()
            for i, (node, old) in enumerate(zip(nodes.reshape(-1).tolist(), before, strict=True)):
                if node != old:
                    stores.append((k, i, node))
        _check_apart(tensors, {k for k, _, _ in stores if k < len(tensors)})
        self._kernel = _kernel(_source(trace.nodes, places, stores))
        self._kept = places
        device = wp.device_from_torch(places[0].device)
        self._table = wp.array([place.data_ptr() for place in places], dtype=wp.uint64, device=device)
        self._nworld, self._device, self._draws = places[0].shape[0], device, draws

    def run(self, random: Any) -> None:
        """Do it in all worlds."""
        inputs = [random.place, wp.from_torch(random.moment, dtype=wp.int32), self._table]
        wp.launch(self._kernel, self._nworld, inputs=inputs, device=self._device, block_dim=BLOCK)
        random.place += self._draws


class Fused:
    """The parts of a control step of an environment, translated.

    Args:
        env: the environment; what it gives is from now on in tensors that each step fills again
    """

    def __init__(self, env: Any) -> None:
        inner = env.sim.physics
        physics = getattr(inner, "physics", inner)  # of threads
        sim = Simulation(env.sim.mjm, physics, nworld=1, device=env.sim.device.alias)
        twin = type(env)(sim, env.task, autoreset=env.autoreset, check=False, record=False, fuse=False)
        for run in _parts(twin).values():  # makes the constants, and views of arrays
            run()
        self._env = env
        self._random = env.random
        made = {name: tensor for name, tensor in twin.made.items()}
        self._store = [_Store(env, made, kind) for kind in (torch.float32, torch.bool)]
        env.made = {name: tensor for store in self._store for name, tensor in store.views().items()}
        self._parts = {name: self._translated(twin, run) for name, run in _parts(twin).items()}
        compilation.load_kernels(lambda: [part.run(self._random) for part in self._parts.values()], env.sim.device)
        with compilation.quiet():
            self._check()

    def _translated(self, twin: Any, run: Any) -> Part:
        env, random, begun, made = self._env, twin.random, twin.random.place, dict(twin.made)
        given = twin.tensors()
        trace = Trace([*twin.constants(), *twin.state.constants()])
        random.seen = lambda numbers, place, normal: trace.drawn(numbers, place - begun, normal)
        try:
            with trace:
                run()
        finally:
            random.seen = None
        ours = env.tensors()
        known = {place_of(tensor): (ours[name], tensor) for name, tensor in reversed(given.items())}
        for key, view in twin.state.views().items():
            known.setdefault(place_of(view), (env.state.view(key), view))
        tensors = []
        for place, leaf in trace.leaves.items():
            if place not in known:
                raise Unsupported(f"a tensor of shape {tuple(leaf.tensor.shape)} that is not of the state")
            tensors.append(known[place][0])
            if tensors[-1].shape != (env.nworld, *leaf.tensor.shape[1:]):
                raise Unsupported(f"a tensor of shape {tuple(tensors[-1].shape)}: the first axis must be worlds")
        new = {name: tensor for name, tensor in twin.made.items() if made.get(name) is not tensor}
        return Part(trace, tensors, [(env.made[name], trace.of(one)) for name, one in new.items()], random.place - begun)

    def run(self, part: str) -> None:
        """Do a part."""
        self._parts[part].run(self._random)

    def step(self) -> Step:
        """A copy of what the last control step gave."""
        views = {name: tensor for store in self._store for name, tensor in store.views(copy=True).items()}
        return Step(**views)

    def _check(self) -> None:
        """Raise Unsupported if a part does something else than before: what reads other worlds cannot be translated."""
        env, made = self._env, self._env.made
        state, kept = env.keep()
        env.made = {}
        env.random.begin()
        env.asked.copy_(env.random.uniform(-1.0, 1.0, env.naction))
        for name, run in env.parts().items():
            if name == "start":
                env.mask.copy_(torch.arange(env.nworld, device=env.device) % 2 == 0)
            own, place = {**env.tensors(), **{f"made.{key}": one for key, one in made.items()}}, env.random.place
            before = {key: one.clone() for key, one in own.items()}
            self._parts[name].run(self._random)
            ours = {key: one.clone() for key, one in own.items()}
            for key, one in own.items():
                one.copy_(before[key])
            env.random.place = place
            run()
            theirs = env.tensors()
            for key, one in env.made.items():
                made[key].copy_(one)
            for key, one in theirs.items():
                if not _agree(ours[key], one):
                    raise Unsupported(f"{key!r} comes out otherwise in {name!r}: does a term read other worlds?")
        env.put_back(state, kept)
        env.made = made


class _Store:
    """Tensors of one type in one piece of memory, so that they are copied at once."""

    def __init__(self, env: Any, made: dict[str, torch.Tensor], dtype: torch.dtype) -> None:
        self._shapes = {name: (env.nworld, *one.shape[1:]) for name, one in made.items() if one.dtype is dtype}
        self._all = torch.zeros(sum(map(math.prod, self._shapes.values())), dtype=dtype, device=env.device)

    def views(self, *, copy: bool = False) -> dict[str, torch.Tensor]:
        parts = (self._all.clone() if copy else self._all).split([math.prod(shape) for shape in self._shapes.values()])
        return {name: part.view(shape) for (name, shape), part in zip(self._shapes.items(), parts, strict=True)}


def _parts(twin: Any) -> dict[str, Any]:
    """The parts of a control step, from its beginning."""
    twin.random.begin()
    return twin.parts()


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


def _source(nodes: list[Node], places: list[torch.Tensor], stores: list[tuple[int, int, int]]) -> str:
    """C of a world: what the stores need, in the order of the nodes, then the stores."""
    needed, waiting = set[int](), [node for _, _, node in stores]
    while waiting:
        node = waiting.pop()
        if node not in needed:
            needed.add(node)
            if nodes[node].what not in ("load", "draw", "number"):
                waiting.extend(nodes[node].args)
    draws = sorted({nodes[node].args[0] for node in needed if nodes[node].what == "draw"})
    used = sorted({nodes[node].args[0] for node in needed if nodes[node].what == "load"} | {k for k, _, _ in stores})
    lines = [f"{C_TYPES[places[k].dtype]}* p{k} = ({C_TYPES[places[k].dtype]}*)table.data[{k}];" for k in used]
    lines = [f"{line[:-1]} + (long long)world * {places[k].stride(0)};" for k, line in zip(used, lines, strict=True)]
    if draws:
        lines.append("wp::uint32 r = wp::rand_init(moment.data[0], world);")
        lines.append("r = wp::rand_init(wp::randi(r), moment.data[1]); const int drawn = wp::randi(r);")
    for place in draws:
        lines.append(f"r = wp::rand_init(drawn, place + {place}); const int r{place} = wp::randi(r);")
    for node in sorted(needed):
        what, args, dtype = nodes[node]
        if what == "load":
            text = f"p{args[0]}[{_offset(places[args[0]], args[1])}]"
        elif what == "draw":
            lines.append(f"r = wp::rand_init(r{args[0]}, {args[1]});")
            text = "wp::randn(r)" if args[2] else "wp::randf(r)"
        elif what == "number":
            text = _literal(args[0], dtype)
        else:
            text = what.format(*(f"v{arg}" for arg in args))
        lines.append(f"const {C_TYPES[dtype]} v{node} = {text};")
    lines += [f"p{k}[{_offset(places[k], i)}] = v{node};" for k, i, node in stores]
    return "\n".join(lines)


def _offset(tensor: torch.Tensor, i: int) -> int:
    """Where entry i of a world is, from its first one."""
    found = 0
    for n, step in zip(reversed(tensor.shape[1:]), reversed(tensor.stride()[1:]), strict=True):
        found += i % n * step
        i //= n
    return found


def _literal(text: str, dtype: torch.dtype) -> str:
    if dtype is torch.bool:
        return text.lower()
    if dtype is not torch.float32:
        return f"{text}ll"
    if text in ("inf", "-inf"):
        return f"{text[:-3]}INFINITY"
    return "(0.0f / 0.0f)" if text == "nan" else f"(float){text}"


@functools.cache
def _kernel(source: str) -> Any:
    """A kernel of which a thread does this for a world."""

    @wp.func_native(source)
    def part(world: int, place: int, moment: wp.array[int], table: wp.array[wp.uint64]): ...

    @wp.kernel(module="unique", enable_backward=False)
    def run(place: int, moment: wp.array[int], table: wp.array[wp.uint64]):
        world = wp.tid()
        part(world, place, moment, table)

    return run
