"""A part of a control step as a list of operations on single numbers: what its torch operators do to one world.

Operators run as usual on tensors of one world, and are noted. Beside each tensor there is one of the same shape whose
entries are the numbers of nodes. Views, `cat`, `stack` and writes in place are done to these by the operators
themselves; arithmetic gives new nodes, the same one for the same operation.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from stickslip.errors import Unsupported

C_TYPES = {torch.float32: "float", torch.bool: "bool", torch.int64: "long long", torch.int32: "int"}

_FLOAT = {
    **{
        name: f"::{name}f({{}})" for name in ("sin", "cos", "tan", "exp", "log", "sqrt", "tanh", "acos", "asin", "atan")
    },
    **{name: f"::{name}f({{}})" for name in ("floor", "ceil")},
    "rsqrt": "1.0f / ::sqrtf({})",
    "reciprocal": "1.0f / {}",
    "sigmoid": "1.0f / (1.0f + ::expf(-{}))",
    "atan2": "::atan2f({}, {})",
    "pow": "::powf({}, {})",
}
_ANY = {
    "neg": "-{}",
    "abs": "({0} < 0 ? -{0} : {0})",
    "relu": "({0} < 0 ? 0 : {0})",
    "sign": "({0} > 0) - ({0} < 0)",
    "mul": "{} * {}",
    "maximum": "({0} != {0} || {0} > {1} ? {0} : {1})",
    "minimum": "({0} != {0} || {0} < {1} ? {0} : {1})",
    "clamp_min": "({0} < {1} || {1} != {1} ? {1} : {0})",
    "clamp_max": "({0} > {1} || {1} != {1} ? {1} : {0})",
}
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
CHOOSE, NOT, AND, OR = "({} ? {} : {})", "!{}", "{} & {}", "{} | {}"
_LOGIC = {"and": AND, "or": OR, "xor": "{} ^ {}"}
_APART = "({0} != 0 && ({0} < 0) != ({1} < 0) ? {0} + {1} : {0})"
_REDUCED = {
    **dict.fromkeys(("sum", "mean", "linalg_vector_norm"), "{} + {}"),
    "amax": _ANY["maximum"],
    "amin": _ANY["minimum"],
    "any": OR,
    "all": AND,
}
_MADE = ("zeros", "ones", "full", "scalar_tensor", "arange", "empty", "new_")
"""Operators whose result is the same for all states."""
_MOVED = ("cat", "stack", "clone", "flip", "index_select", "roll", "repeat", "_unsafe_view")
"""Operators that only move numbers, beside views."""
_PUT = ("copy_", "index_copy_")


class Node(NamedTuple):
    """A number of a world: what it is called (`load`, `draw`, `number`) or the C of it, from which nodes, its type."""

    what: str
    args: tuple[Any, ...]
    dtype: torch.dtype


class Leaf(NamedTuple):
    """A tensor that was there before: its nodes as they were, and as they are after all writes."""

    tensor: torch.Tensor
    first: torch.Tensor
    nodes: torch.Tensor


class Trace(TorchDispatchMode):
    """Notes what operators do while it is entered; raises Unsupported for those that it does not know.

    Args:
        constants: tensors that have the same numbers for ever
    """

    def __init__(self, constants: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self.nodes: list[Node] = []
        self.leaves: dict[Any, Leaf] = {}
        self._known: dict[Node, int] = {}
        self._constant = {place_of(tensor): tensor for tensor in constants}
        self._drawn: dict[int, tuple[torch.Tensor, int, bool]] = {}
        self._of: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """The nodes of a tensor."""
        if id(tensor) in self._drawn:
            _, drawn, normal = self._drawn.pop(id(tensor))
            entries = [self._node("draw", (drawn, i, normal), tensor.dtype) for i in range(tensor.numel())]
            return self._set(tensor, torch.tensor(entries, dtype=torch.int64).reshape(tensor.shape))
        if id(tensor) in self._of:
            return self._of[id(tensor)][1]
        place = place_of(tensor)
        if place in self._constant:
            return self._set(tensor, self._numbers(tensor))
        if place not in self.leaves:
            n = len(self.leaves)
            entries = [self._node("load", (n, i), tensor.dtype) for i in range(tensor.numel())]
            nodes = torch.tensor(entries, dtype=torch.int64).reshape(tensor.shape)
            self.leaves[place] = Leaf(tensor, nodes.clone(), nodes)
        return self._set(tensor, self.leaves[place].nodes)

    def drawn(self, tensor: torch.Tensor, place: int, normal: bool) -> None:
        """A tensor has random numbers."""
        self._drawn[id(tensor)] = (tensor, place, normal)

    def _set(self, tensor: torch.Tensor, nodes: torch.Tensor) -> torch.Tensor:
        self._of[id(tensor)] = (tensor, nodes)  # the tensor is kept, so that its id stays its own
        return nodes

    def _node(self, what: str, args: tuple[Any, ...], dtype: torch.dtype) -> int:
        if dtype not in C_TYPES:
            raise Unsupported(f"numbers of {dtype}")
        node = Node(what, args, dtype)
        if node not in self._known:
            self._known[node] = len(self.nodes)
            self.nodes.append(node)
        return self._known[node]

    def _number(self, value: float, dtype: torch.dtype) -> int:
        made = float(value) if dtype is torch.float32 else bool(value) if dtype is torch.bool else int(value)
        return self._node("number", (repr(made),), dtype)

    def _numbers(self, tensor: torch.Tensor) -> torch.Tensor:
        entries = [self._number(value, tensor.dtype) for value in tensor.detach().reshape(-1).tolist()]
        return torch.tensor(entries, dtype=torch.int64).reshape(tensor.shape)

    # --- operators ---

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        views = any(arg.alias_info is not None and not arg.alias_info.is_write for arg in func._schema.arguments)
        result = func(*args, **kwargs)
        if views or name in _MOVED:
            moved = func(*self._replaced(args), **kwargs)
            for one, nodes in zip(_listed(result), _listed(moved), strict=True):
                self._set(one, nodes)
        elif name in _PUT:
            middle = [one.cpu() if isinstance(one, torch.Tensor) else one for one in args[1:-1]]  # of an index_copy_
            source = args[-1] if name == "index_copy_" else args[1]
            func(self.of(args[0]), *middle, self._cast(self.of(source), args[0].dtype))
        elif name.startswith(_MADE):
            # what an empty tensor holds by chance must not be in the kernel: its cache would never be hit
            self._set(result, self._numbers(torch.zeros_like(result) if "empty" in name else result))
        elif name.endswith("_"):
            self.of(args[0]).copy_(self._cast(self._worked(name[:-1], args, kwargs, args[0]), args[0].dtype))
        else:
            self._set(result, self._worked(name, args, kwargs, result))
        return result

    def _replaced(self, args: Any) -> Any:
        """Arguments with nodes in the place of tensors; an index stays one."""

        def one(value: Any, index: bool) -> Any:
            if isinstance(value, torch.Tensor):
                if not index:
                    return self.of(value)
                if place_of(value) not in self._constant:
                    raise Unsupported("an index that is not the same for all worlds")
                return value.cpu()
            if isinstance(value, (list, tuple)):
                return type(value)(one(item, index) for item in value)
            return value

        return [one(value, i > 0) for i, value in enumerate(args)]

    def _worked(self, name: str, args: Any, kwargs: Any, result: Any) -> torch.Tensor:
        """The nodes of a result that is worked out."""
        if not isinstance(result, torch.Tensor):
            raise Unsupported(f"torch's {name}")
        dtype = result.dtype
        if name == "_to_copy":
            return self._cast(self.of(args[0]), dtype)
        if name in ("zero", "fill"):
            return self._each("{}", dtype, [0 if name == "zero" else args[1]]).expand(result.shape)
        if name in _REDUCED:
            return self._reduced(name, args, kwargs, dtype)
        operands = [_Nodes(self.of(arg)) if isinstance(arg, torch.Tensor) else arg for arg in args if arg is not None]
        if name == "linalg_cross":
            return self._crossed(operands[0], operands[1], kwargs.get("dim", operands[2] if operands[2:] else -1))
        if name == "where":
            return self._each(CHOOSE, dtype, operands, [torch.bool, dtype, dtype])
        if name == "clamp":
            low, high = (args[i] if len(args) > i else kwargs.get(key) for i, key in ((1, "min"), (2, "max")))
            found = operands[0]
            for bound, text in ((low, "clamp_min"), (high, "clamp_max")):
                if bound is not None:
                    other = _Nodes(self.of(bound)) if isinstance(bound, torch.Tensor) else bound
                    found = _Nodes(self._each(text, dtype, [found, other]))
            return self._cast(found.nodes, dtype)
        if name in _COMPARE:
            return self._each(f"{{}} {_COMPARE[name]} {{}}", torch.bool, operands, [torch.result_type(*args[:2])] * 2)
        if name == "isnan":
            return self._each("{0} != {0}", torch.bool, operands, [args[0].dtype])
        if name in ("bitwise_not", "logical_not"):
            if args[0].dtype is not torch.bool and name == "bitwise_not":
                raise Unsupported(f"torch's {name} of {args[0].dtype}")
            return self._each(NOT, torch.bool, operands, [torch.bool])
        logic = name.removeprefix("bitwise_").removeprefix("logical_").strip("_")
        if logic in _LOGIC:
            return self._each(_LOGIC[logic], dtype, operands)
        if name in ("add", "sub", "rsub"):
            a, b = operands[:2] if name != "rsub" else operands[1::-1]
            if kwargs.get("alpha", 1) != 1 or operands[2:]:
                raise Unsupported(f"torch's {name} with alpha")
            return self._each("{} + {}" if name == "add" else "{} - {}", dtype, [a, b])
        if name in ("div", "floor_divide"):
            rounding = "floor" if name == "floor_divide" else kwargs.get("rounding_mode") or ""
            return self._divided(rounding, operands, dtype)
        if name in ("remainder", "fmod") and dtype is torch.float32:
            found = self._each("::fmodf({}, {})", dtype, operands)
            return found if name == "fmod" else self._each(_APART, dtype, [_Nodes(found), operands[1]])
        if name == "pow" and operands[1] == 2:
            return self._each("{0} * {0}", dtype, operands[:1])
        text = _ANY.get(name) or (_FLOAT.get(name) if dtype is torch.float32 else None)
        if text is None:
            raise Unsupported(f"torch's {name}")
        return self._each(text, dtype, operands)

    def _divided(self, rounding: str, operands: list[Any], dtype: torch.dtype) -> torch.Tensor:
        if dtype is torch.float32 and not rounding:
            return self._each("{} / {}", dtype, operands)
        if dtype is torch.float32 and rounding == "floor":
            rest = _Nodes(self._each("::fmodf({}, {})", dtype, operands))
            whole = _Nodes(self._each("({} - {}) / {}", dtype, [operands[0], rest, operands[1]]))
            text = "({1} == 0 ? {0} / {1} : ::floorf({3} + ({2} != 0 && ({1} < 0) != ({2} < 0) ? -0.5f : 0.5f)))"
            return self._each(text, dtype, [*operands, rest, whole])
        if rounding == "floor":
            return self._each("({0} / {1} - ({0} % {1} != 0 && ({0} < 0) != ({1} < 0)))", dtype, operands)
        raise Unsupported(f"torch's div of {dtype}, rounding {rounding!r}")

    def _crossed(self, a: Any, b: Any, dim: int) -> torch.Tensor:
        x, y = (nodes.unbind(dim) for nodes in torch.broadcast_tensors(a.nodes, b.nodes))

        def part(i: int, j: int) -> torch.Tensor:
            pair = [
                _Nodes(self._each("{} * {}", torch.float32, [_Nodes(x[k]), _Nodes(y[n])])) for k, n in ((i, j), (j, i))
            ]
            return self._each("{} - {}", torch.float32, pair)

        return torch.stack([part(1, 2), part(2, 0), part(0, 1)], dim)

    def _reduced(self, name: str, args: Any, kwargs: Any, dtype: torch.dtype) -> torch.Tensor:
        given = list(args[1:])
        order = kwargs.get("ord", given.pop(0) if given else 2) if name == "linalg_vector_norm" else None
        dims, keep = (given[i] if len(given) > i else kwargs.get(key) for i, key in ((0, "dim"), (1, "keepdim")))
        nodes = self._cast(self.of(args[0]), dtype)
        dims = range(nodes.ndim) if dims is None or dims == [] else [dims] if isinstance(dims, int) else dims
        dims = [dim % nodes.ndim for dim in dims]
        rest = [dim for dim in range(nodes.ndim) if dim not in dims]
        shape = (
            [1 if dim in dims else n for dim, n in enumerate(nodes.shape)] if keep else [nodes.shape[d] for d in rest]
        )
        columns = nodes.permute(*rest, *dims).reshape(math.prod(nodes.shape[d] for d in rest), -1)
        if order is not None:
            if order != 2:
                raise Unsupported(f"a norm of order {order}")
            columns = self._each("{0} * {0}", dtype, [_Nodes(columns)])
        text = _REDUCED[name]
        found = columns[:, 0] if columns.shape[1] else self._each("{}", dtype, [name == "all"]).expand(len(columns))
        for column in columns.unbind(dim=1)[1:]:
            found = self._each(text, dtype, [_Nodes(found), _Nodes(column)])
        if order is not None:
            found = self._each("::sqrtf({})", dtype, [_Nodes(found)])
        if name == "mean":
            found = self._each("{} / {}", dtype, [_Nodes(found), columns.shape[1]])
        return found.reshape(shape)

    def _cast(self, nodes: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Nodes of another type."""
        if all(self.nodes[node].dtype is dtype for node in nodes.reshape(-1).tolist()):
            return nodes
        found = []
        for node in nodes.reshape(-1).tolist():
            what, args, kind = self.nodes[node]
            if kind is dtype:
                found.append(node)
            elif what == "number":
                found.append(self._number(_NUMBERS[kind](args[0]), dtype))
            else:
                text = "{} != 0" if dtype is torch.bool else f"({C_TYPES.get(dtype)}){{}}"
                found.append(self._node(text, (node,), dtype))
        return torch.tensor(found, dtype=torch.int64).reshape(nodes.shape)

    def _each(
        self, text: str, dtype: torch.dtype, operands: Sequence[Any], types: Sequence[torch.dtype] | None = None
    ) -> torch.Tensor:
        """Nodes of an operation on each entry; operands are `_Nodes` or numbers, taken as of these types."""
        taken = [
            self._cast(one.nodes, kind) if isinstance(one, _Nodes) else torch.tensor(self._number(one, kind))
            for one, kind in zip(operands, types or [dtype] * len(operands), strict=True)
        ]
        text = _ANY.get(text, text)
        if not dtype.is_floating_point:  # a whole number is always itself
            text = text.replace("{0} != {0} || ", "").replace(" || {1} != {1}", "")
        taken = torch.broadcast_tensors(*taken)
        rows = zip(*(nodes.reshape(-1).tolist() for nodes in taken), strict=True)
        found = [row[0] if text == "{}" else self._node(text, row, dtype) for row in rows]
        return torch.tensor(found, dtype=torch.int64).reshape(taken[0].shape)


class _Nodes(NamedTuple):
    """Nodes as an operand."""

    nodes: torch.Tensor


def place_of(tensor: torch.Tensor) -> Any:
    """Where the numbers of a tensor are; two tensors of the same place are one."""
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else [value]


def _truth(text: str) -> bool:
    return text == "True"


_NUMBERS: dict[torch.dtype, Callable[[str], Any]] = {
    torch.float32: float,
    torch.int64: int,
    torch.int32: int,
    torch.bool: _truth,
}
