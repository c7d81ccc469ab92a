"""C of a part of a control step: what a thread does for one world.

Loads, arithmetic, stores. A part that does nothing outside of a mask is made for the worlds of the mask alone. A long
one can be cut into slices, which run side by side and store when all have loaded.
"""

from typing import NamedTuple

import torch

from stickslip.envs.trace import AND, C_TYPES, CHOOSE, NOT, OR, Node, place_of

WARP = 32
"""Threads that go through a kernel together."""
SLICE = 500
"""Work of a slice, at least; see `_work`."""
_SLOW = (" / ", "sqrt", "exp", "log", "sin", "cos", "tan", "pow", "fmod", "tanh")
_FREE = ("load", "draw", "number")
"""Nodes without other ones before them."""


class Store(NamedTuple):
    """A node that is stored, in an entry of a tensor."""

    place: int
    entry: int
    node: int


class Code:
    """What a part does to one world.

    Args:
        nodes: operations, in their order
        places: tensors of all worlds that it reads and writes, the first ones those of loads
        stores: what it writes
        mask: which tensor has the worlds that start; None: it has none
    """

    def __init__(self, nodes: list[Node], places: list[torch.Tensor], stores: list[Store], mask: int | None) -> None:
        self._places, self._mask = places, None
        if mask is not None and _is_idle(nodes, places, stores, mask):
            self._mask = mask
            nodes, stores = _of_mask(nodes, stores, mask)
        self._nodes, self._stores = nodes, stores

    def slices(self, most: int) -> int:
        """In how many slices it is worth cutting; one if it is for the worlds of a mask, of which there are few."""
        if self._mask is not None:
            return 1
        work = sum(_work(self._nodes[node]) for node in self._needed(self._stores))
        return max(1, min(most, work // SLICE))

    def source(self, slices: int = 1) -> str:
        """C of it, of slice number `which`: what its stores need, then the stores, if `active`."""
        lines = self._pointers()
        if slices == 1:
            return "\n".join([*lines, *self._slice(self._stores, [])])
        wait = f'asm volatile("bar.sync 1, {WARP * slices};" ::: "memory");'
        lines.append("switch (which) {")
        for k, stores in enumerate(self._shared_out(slices)):
            lines += [f"case {k}: {{", *self._slice(stores, [wait]), "break; }"]
        return "\n".join([*lines, "}"])

    def _pointers(self) -> list[str]:
        """The world's rows; nothing more outside of the mask."""
        loaded = {self._nodes[node].args[0] for node in self._needed(self._stores) if self._nodes[node].what == "load"}
        used = loaded | {store.place for store in self._stores} | (set() if self._mask is None else {self._mask})
        lines = []
        for k in sorted(used):
            kind, step = C_TYPES[self._places[k].dtype], self._places[k].stride(0)
            lines.append(f"{kind}* p{k} = ({kind}*)table.data[{k}] + (long long)world * {step};")
        return lines if self._mask is None else [*lines, f"if (!p{self._mask}[0]) return;"]

    def _slice(self, stores: list[Store], between: list[str]) -> list[str]:
        """What some of the stores need, then they themselves."""
        nodes, places, needed = self._nodes, self._places, self._needed(stores)
        lines = []
        draws = sorted({nodes[node].args[0] for node in needed if nodes[node].what == "draw"})
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
        writes = [f"p{k}[{_offset(places[k], i)}] = v{node};" for k, i, node in stores]
        return [*lines, *between, "if (active) {", *writes, "}"]

    def _needed(self, stores: list[Store], known: frozenset[int] | set[int] = frozenset()) -> set[int]:
        """The nodes that stores need, but those that are known."""
        found, waiting = set[int](), [store.node for store in stores]
        while waiting:
            node = waiting.pop()
            if node not in found and node not in known:
                found.add(node)
                if self._nodes[node].what not in _FREE:
                    waiting.extend(self._nodes[node].args)
        return found

    def _shared_out(self, slices: int) -> list[list[Store]]:
        """The stores, shared out so that slices have about as much work, and do little of it twice."""
        work = [_work(node) for node in self._nodes]
        found: list[list[Store]] = [[] for _ in range(slices)]
        has, load = [set[int]() for _ in found], [0] * slices
        whole = {store: sum(work[node] for node in self._needed([store])) for store in self._stores}
        for store in sorted(self._stores, key=lambda one: -whole[one]):
            more = [self._needed([store], known) for known in has]
            extra = [sum(work[node] for node in nodes) for nodes in more]
            k = min(range(slices), key=lambda i: (load[i] + 3 * extra[i], i))
            found[k].append(store)
            has[k] |= more[k]
            load[k] += extra[k] + 2
        return [sorted(stores) for stores in found]


def _work(node: Node) -> int:
    """About how long a node takes, beside others."""
    if node.what == "draw":
        return 20
    if node.what == "load":
        return 3
    return 8 if any(word in node.what for word in _SLOW) else int(node.what != "number")


def _assume(nodes: list[Node], mask: int, truth: bool) -> list[int | bool]:
    """For each node one that is equal to it, or its truth, in a world that is in the mask, or is not."""
    known: list[int | bool] = []
    for i, (what, args, dtype) in enumerate(nodes):
        found: int | bool = i
        if what == "load":
            found = truth if args == (mask, 0) else i
        elif what == "number":
            found = args[0] == "True" if dtype is torch.bool else i
        elif what != "draw":
            given = [known[arg] for arg in args]
            if what == CHOOSE and isinstance(given[0], bool):
                found = given[1 if given[0] else 2]
            elif what == NOT and isinstance(given[0], bool):
                found = not given[0]
            elif what in (AND, OR) and any(isinstance(one, bool) for one in given):
                certain, other = given if isinstance(given[0], bool) else reversed(given)
                found = other if certain is (what == AND) else certain
        known.append(found)
    return known


def _is_idle(nodes: list[Node], places: list[torch.Tensor], stores: list[Store], mask: int) -> bool:
    """Whether every store writes what is there already, in a world that is not in the mask."""
    known = _assume(nodes, mask, False)

    def stays(k: int, i: int, found: int | bool) -> bool:
        if isinstance(found, bool) or nodes[found].what != "load":
            return False
        source, entry = nodes[found].args
        return entry == i and place_of(places[source]) == place_of(places[k])

    return all(stays(k, i, known[node]) for k, i, node in stores)


def _of_mask(nodes: list[Node], stores: list[Store], mask: int) -> tuple[list[Node], list[Store]]:
    """Nodes and stores of worlds that are in the mask."""
    known = _assume(nodes, mask, True)
    same = [i if isinstance(found, bool) else found for i, found in enumerate(known)]
    made = [
        node if node.what in ("load", "draw", "number") else node._replace(args=tuple(same[arg] for arg in node.args))
        for node in nodes
    ]
    return made, [store._replace(node=same[store.node]) for store in stores]


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
