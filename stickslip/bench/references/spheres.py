"""What bodies made of spheres consist of: where the spheres are, and how much of a volume they fill.

A physics that makes bodies of spheres is recognized by its parameter `resolution`.
"""

import dataclasses
import math
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip import mjcf
from stickslip.bench import methods
from stickslip.errors import Unsupported
from stickslip.physics.base import Physics

Array = NDArray[np.float64]

WATER = 1000.0
"""Density of a geom that names none, in MuJoCo [kg/m^3]."""
FINE = 20
"""Voxels along a radius where volume is counted, unless a body would take too many."""
MOST_VOXELS = 200
"""Along the longest side of a body."""


@dataclasses.dataclass(frozen=True)
class Spheres:
    """The spheres of one body, in its frame.

    Attributes:
        centre: [m]                                       (n, 3)
        radius: [m]                                       (n,)
        volume: of the body itself [m^3]
        inertia: of the body itself, for each kg [m^2]    (3, 3)
    """

    centre: Array
    radius: Array
    volume: float
    inertia: Array

    @property
    def filled(self) -> float:
        """Volume that they fill, where they overlap once [m^3]; counted in voxels, to 1 %."""
        low = (self.centre - self.radius[:, None]).min(axis=0)
        size = (self.centre + self.radius[:, None]).max(axis=0) - low
        side = max(self.radius.min() / FINE, size.max() / MOST_VOXELS)
        full = np.zeros(np.ceil(size / side).astype(int) + 1, dtype=bool)
        for centre, radius in zip((self.centre - low) / side, self.radius / side, strict=True):
            first = np.maximum(np.floor(centre - radius).astype(int), 0)
            last = np.minimum(np.ceil(centre + radius).astype(int) + 1, full.shape)
            x, y, z = (np.arange(a, b) + 0.5 - c for a, b, c in zip(first, last, centre, strict=True))
            inside = x[:, None, None] ** 2 + y[:, None] ** 2 + z**2 <= radius**2
            full[first[0] : last[0], first[1] : last[1], first[2] : last[2]] |= inside
        return float(full.sum()) * side**3

    @property
    def points_inertia(self) -> Array:
        """Inertia of points of equal mass in the centres, about their middle, for each kg [m^2], (3, 3)."""
        off = self.centre - self.centre.mean(axis=0)
        spread = off.T @ off / len(off)
        return np.trace(spread) * np.eye(3) - spread

    @property
    def coverage(self) -> float:
        """Share of the body's volume that they fill."""
        return self.filled / self.volume


def known(physics: Physics[Any, Any]) -> bool:
    """Whether a physics makes bodies of spheres."""
    return methods.has(physics, "resolution")


def number(physics: Physics[Any, Any], m: Any) -> float:
    """Spheres of one world, of the physics' model; NaN if it has none."""
    return float(sum(len(body.radius) for body in m.bodies)) if known(physics) else math.nan


def of(physics: Physics[Any, Any], geom: str, asset: str = "") -> Spheres:
    """The spheres of a body of one geom, in MJCF and without mass; raises Unsupported if the physics knows none."""
    if not known(physics):
        raise Unsupported(f"{physics.name} makes no bodies of spheres")
    assets = f"<asset>{asset}</asset>" if asset else ""
    mjm = mjcf.load(f"<mujoco>{assets}<worldbody><body><freejoint/>{geom}</body></worldbody></mujoco>")
    (body,) = physics.put_model(mjm).bodies
    mass, turn = float(mjm.body_mass[1]), np.zeros(9)
    mujoco.mju_quat2Mat(turn, mjm.body_iquat[1])
    axes = turn.reshape(3, 3)
    inertia = axes @ np.diag(mjm.body_inertia[1]) @ axes.T / mass
    return Spheres(np.array(body.centre), np.array(body.radius), mass / WATER, inertia)
