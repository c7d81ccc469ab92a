"""What the experiments on one scene at several step lengths share: which of them is usual, what is late, and bars."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stickslip.bench import style
from stickslip.bench.result import Result

USUAL = 0.002
"""Length of MuJoCo's step unless a model says otherwise [s]."""
LATE = 0.25
"""Share of a run, at its end, in which what must come to rest has done so."""


def usual(timesteps: Sequence[float]) -> float:
    """The step length nearest to MuJoCo's default: the one that is drawn over time."""
    return min(timesteps, key=lambda timestep: abs(timestep - USUAL))


def tick(timestep: float) -> str:
    """A step length as it is printed: `dt 2 ms`."""
    return f"dt {1e3 * timestep:g} ms"


def late(time: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which moments of a run belong to its last quarter, the first of that included."""
    return time >= (1.0 - LATE) * time[-1] - 1e-9


def figures(result: Result, cases: Sequence[str], name: str) -> dict[str, list[float]]:
    """A figure of every contender that ran one of the cases or more: one entry a case, NaN where it has none."""
    ran = [label for label in result.contenders if any(result.has(label, case) for case in cases)]
    return {label: [result.figure(label, case, name) for case in cases] for label in ran}


def bars(ax: Any, result: Result, cases: Sequence[str], name: str, ticks: Sequence[str], *, log: bool = True) -> None:
    """A figure as bars, a group a case."""
    style.bars(ax, result, cases, figures(result, cases, name), log=log, ticks=ticks)
