"""Particles of a body in an order in which neighbours follow each other, in clusters of a few."""

import numpy as np
from numpy.typing import NDArray

from stickslip.physics.pbd.find import CLUSTER

Array = NDArray[np.float64]


def clustered(place: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The order, and how many particles each cluster has of it; all about as many.

    Args:
        place: of particles [m]                                    (n, 3)
    """
    order = np.arange(len(place))
    counts: list[int] = []
    rest = [(0, len(place))] if len(place) else []
    while rest:  # halves are halved in turn, the first first
        low, high = rest.pop()
        if high - low <= CLUSTER:
            counts.append(high - low)
            continue
        mine = order[low:high]
        points = place[mine]
        # across the longest side; where that is even, by the others, so that layers of a lattice stay together
        axes = np.argsort(np.ptp(points, axis=0), kind="stable")
        grain = 1e-9 * max(float(np.ptp(points)), 1e-30)
        order[low:high] = mine[np.lexsort([np.round(points[:, axis] / grain) for axis in axes])]
        middle = low + (high - low + 1) // 2
        rest += [(middle, high), (low, middle)]
    return order, np.array(counts, dtype=np.int64)


def boxes_around(place: Array, radius: Array, counts: NDArray[np.int64]) -> tuple[Array, Array, Array]:
    """Box with the centres of each cluster's particles: middle and half sides; and the largest radius.

    Args:
        place, radius: of particles in that order [m]              (n, 3), (n,)
        counts: of the clusters                                    (k,)
    """
    if not len(counts):
        return np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0)
    first = np.cumsum(counts) - counts
    low, high = np.minimum.reduceat(place, first), np.maximum.reduceat(place, first)
    return 0.5 * (low + high), 0.5 * (high - low), np.maximum.reduceat(radius, first)
