"""Depths of contacts."""

import numpy as np
from numpy.typing import NDArray

from stickslip.simulation import Simulation


def depths_of(sim: Simulation) -> NDArray[np.float64]:
    """How deep every touching contact of the last step is, over all worlds [mm]."""
    dist = sim.contacts().dist.astype(float)
    return -1e3 * dist[dist <= 0.0]
