"""C of a part of a control step: what a thread does for one world.

Loads, arithmetic, stores. A part that does nothing outside of a mask is made for the worlds of the mask alone.
"""

from typing import NamedTuple

import torch

from stickslip.envs.trace import AND, C_TYPES, CHOOSE, NOT, OR, Node, place_of

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

    def source(self) -> str:
        """C of it: the world's rows, what its stores need, then the stores; nothing outside of the mask."""
        nodes, places, needed = self._nodes, self._places, self._needed()
        lines = []
        loaded = {nodes[node].args[0] for node in needed if nodes[node].what == "load"}
        used = loaded | {store.place for store in self._stores} | (set() if self._mask is None else {self._mask})
        for k in sorted(used):
            kind, step = C_TYPES[places[k].dtype], places[k].stride(0)
            lines.append(f"{kind}* p{k} = ({kind}*)table.data[{k}] + (long long)world * {step};")
        if self._mask is not None:
            lines.append(f"if (!p{self._mask}[0]) return;")
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
        writes = [f"p{k}[{_offset(places[k], i)}] = v{node};" for k, i, node in self._stores]
        return "\n".join([*lines, *writes])

    def _needed(self) -> set[int]:
        """The nodes that stores need."""
        found, waiting = set[int](), [store.node for store in self._stores]
        while waiting:
            node = waiting.pop()
            if node not in found:
                found.add(node)
                if self._nodes[node].what not in _FREE:
                    waiting.extend(self._nodes[node].args)
        return found


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
    made = [node if node.what in _FREE else node._replace(args=tuple(same[arg] for arg in node.args)) for node in nodes]
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
