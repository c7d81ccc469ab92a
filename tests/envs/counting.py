"""Counts what a control step launches beside its physics: kernels of torch and of Warp, copies and fills, by phase.

On a CPU, but on the way that a GPU takes: nothing asks whether a world starts. A count is no timing; times are in the
experiment `env-steps`. `python -m tests.envs.counting push-t` prints the counts, fused and as the task is written.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import warp as wp
from torch.utils._python_dispatch import TorchDispatchMode
from warp._src import context

from stickslip.envs.env import Env
from stickslip.envs.factory import make

PHYSICS = "physics"
_NOTHING = ("empty", "_unsafe_view")
"""Operators of torch that launch nothing, beside those that give a view."""


class Launches(TorchDispatchMode):
    """Counts while it is entered; `phase` is the name under which it does."""

    def __init__(self) -> None:
        super().__init__()
        self.phase, self.counts = "other", Counter[str]()

    @property
    def total(self) -> int:
        """Of all phases but the physics."""
        return self.counts.total() - self.counts[PHYSICS]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        views = any(arg.alias_info is not None and not arg.alias_info.is_write for arg in func._schema.arguments)
        if not views and not func._schema.name.removeprefix("aten::").startswith(_NOTHING):
            self.counts[self.phase] += 1
        return func(*args, **(kwargs or {}))


def count(env: Env) -> Launches:
    """What a control step launches, after some others, where worlds may start."""
    launches, cycle, kind = Launches(), env.cycle, type(env.sim)
    with _swapped([(cycle, "_may_start", lambda: True)]):
        for _ in range(2):
            env.step(torch.zeros((env.nworld, env.naction)))

    def within(phase: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            before, launches.phase = launches.phase, phase
            try:
                return call(*args, **kwargs)
            finally:
                launches.phase = before

        return counted

    def noting(call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any, **kwargs: Any) -> Any:
            dim: Any = kwargs.get("dim", args[1:2] if call.__name__ == "launch" else 1)
            launches.counts[launches.phase] += 0 not in np.atleast_1d(dim) and getattr(args[0], "size", 1) > 0
            return call(*args, **kwargs)

        return noted

    names = {"step": PHYSICS, "kinematics": "kinematics", "randomize": "randomize", "reset": "reset"}
    swaps = [(kind, name, within(phase, getattr(kind, name))) for name, phase in names.items()]
    places = [(module, name) for module in (context, wp) for name in ("launch", "copy")]
    places += [(wp.array, "zero_"), (wp.array, "fill_")]
    swaps += [(owner, name, noting(getattr(owner, name))) for owner, name in places]
    do = cycle._do
    swaps += [(cycle, "_do", lambda part: within(part, do)(part)), (cycle, "_may_start", lambda: True)]
    with _swapped(swaps), launches:
        cycle.advance()
    return launches


@contextmanager
def _swapped(swaps: list[tuple[Any, str, Any]]) -> Iterator[None]:
    saved = [(owner, name, vars(owner).get(name)) for owner, name, _ in swaps]
    for owner, name, other in swaps:
        setattr(owner, name, other)
    try:
        yield
    finally:
        for owner, name, original in saved:
            delattr(owner, name) if original is None else setattr(owner, name, original)


if __name__ == "__main__":
    for task in sys.argv[1:]:
        for fuse in (False, True):
            env = make(task, "cone-sweep", nworld=4, device="cpu", check=False, fuse=fuse)
            found = count(env)
            print(task, "fused" if fuse else "as it is written", found.total, dict(found.counts))
