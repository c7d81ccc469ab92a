"""What is read out of a simulation for those who look, and influences no step: contact patches.

Nothing here counts in the digest of a measurement (`provenance`), nor do functions that are marked with `readout`.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from stickslip.errors import Unsupported

F = TypeVar("F", bound=Callable[..., Any])


def readout(function: F) -> F:
    """Marks a function that only reads."""
    return function


@dataclasses.dataclass(frozen=True)
class Patches:
    """The contact patches of the last step, on the host; `n` is their number over all worlds, `k` that of their points.

    Attributes:
        world: world of each patch                                        (n,)
        geom: the two geoms                                               (n, 2)
        force: on the second geom, in the world frame, N                  (n, 3)
        centre: of pressure, in the world frame, m                        (n, 3)
        area: under pressure, m^2                                         (n,)
        depth: elastic force over stiffness, m                            (n,)
        patch: patch of each point                                        (k,)
        pos: position of each point in the world frame, m                 (k, 3)
        normal: from the first geom to the second                         (k, 3)
        weight: area that each point stands for, m^2                      (k,)
        pressure: normal force over that area, Pa                         (k,)
    """

    world: NDArray[np.integer]
    geom: NDArray[np.integer]
    force: NDArray[np.floating]
    centre: NDArray[np.floating]
    area: NDArray[np.floating]
    depth: NDArray[np.floating]
    patch: NDArray[np.integer]
    pos: NDArray[np.floating]
    normal: NDArray[np.floating]
    weight: NDArray[np.floating]
    pressure: NDArray[np.floating]

    def __len__(self) -> int:
        return len(self.world)


def patches_of(physics: Any, m: Any, d: Any) -> Patches:
    """The contact patches of the last step; an error for a physics that has none."""
    if not hasattr(physics, "patches"):
        raise Unsupported(
            f"{physics.name} has no contact patches: bodies touch at points, contacts(); icf and cenic have patches"
        )
    return physics.patches(m, d)
