"""Lengths of a step, and the end of a run: what the experiments on one scene at several step lengths share."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

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
