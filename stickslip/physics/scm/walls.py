"""Walls that are thinner than the distance between the points of a cloud; no JAX.

The soft distance averages over about one spacing. Where both sides of a wall lie within that, their planes cancel, and
other bodies pass through the wall.
"""

import dataclasses
from collections.abc import Mapping

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.physics.scm.cloud import Cloud
from stickslip.physics.scm.grids import Quads
from stickslip.physics.scm.structure import name_of

Array = NDArray[np.float64]

OPPOSITE = -0.8
"""Largest cosine between the normals of two points on opposite sides of a wall: sharper edges are no walls."""
SHARE = 0.1
"""Smallest share of a surface that counts as a wall."""
WANTED = 0.7
"""Spacing to advise, as a share of the thickness; remeshing does not meet a number of points exactly."""


@dataclasses.dataclass(frozen=True)
class ThinWall:
    """A wall that the points of a cloud do not resolve.

    Attributes:
        thickness: median over the points on it, m
        spacing: distance between neighbours, m
        share: of the area of the surface, 0 to 1
        points: number of points at which the spacing would be well below the thickness
    """

    thickness: float
    spacing: float
    share: float
    points: int

    def warning(self, kind: str) -> str:
        """One sentence with the value to raise; `kind` of the geom is "mesh" or a primitive."""
        knob = "mesh_points" if kind == "mesh" else "points"
        return (
            f"walls of {1e3 * self.thickness:.3g} mm on {self.share:.0%} of the surface are thinner than the spacing "
            f"of points, {1e3 * self.spacing:.3g} mm, so that bodies can pass through: raise {knob} to at least "
            f"{self.points}, or let thicker shapes collide"
        )


def thickness(q: Quads, reach: float) -> Array:
    """Distance from each point inward to the opposite side of the surface, m; inf if there is none nearby, (n,).

    Args:
        q: the points
        reach: largest distance across the normal at which points are opposite each other, m
    """
    out = np.full(len(q.point), np.inf)
    for start in range(0, len(q.point), 256):
        some = slice(start, start + 256)
        away = q.point[None] - q.point[some, None]
        depth = -np.einsum("ijk,ik->ij", away, q.normal[some])
        across = np.sum(away**2, axis=2) - depth**2
        behind = (q.normal[some] @ q.normal.T < OPPOSITE) & (depth > 0.0) & (across < reach**2)
        out[some] = np.where(behind, depth, np.inf).min(axis=1)
    return out


def thin_wall(cloud: Cloud) -> ThinWall | None:
    """The walls of a cloud that are thinner than its spacing; None if there are none to speak of."""
    if cloud.open or not len(cloud.quads.point):
        return None
    q, spacing = cloud.quads, cloud.spacing
    depth = thickness(q, spacing)
    thin = depth < spacing
    share = float(q.area[thin].sum() / q.area.sum())
    if not share >= SHARE:
        return None
    typical = float(np.median(depth[thin]))
    return ThinWall(typical, spacing, share, int(np.ceil(len(q.point) * (spacing / (WANTED * typical)) ** 2)))


def thin_walls(mjm: mujoco.MjModel, clouds: Mapping[int, Cloud]) -> tuple[str, ...]:
    """A sentence for each shape with thin walls; `clouds` are those of geoms, one object for equal shapes."""
    shapes: dict[int, list[int]] = {}
    for geom, cloud in clouds.items():
        shapes.setdefault(id(cloud), []).append(geom)
    found = []
    for geoms in shapes.values():
        wall = thin_wall(clouds[geoms[0]])
        if wall is not None:
            name = name_of(mjm, mujoco.mjtObj.mjOBJ_GEOM, geoms[0])
            more = f" and {len(geoms) - 1} more" if len(geoms) > 1 else ""
            kind = "mesh" if mjm.geom_type[geoms[0]] == mujoco.mjtGeom.mjGEOM_MESH else "primitive"
            found.append(f"geom {name}{more}: {wall.warning(kind)}")
    return tuple(found)
