"""Points of a robot that can touch the floor, for inverse kinematics that keeps them out of it."""

import itertools

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.mpc.retarget.ground import feelers, floor_of
from stickslip.mpc.retarget.motion import Array

_AROUND = np.array([axis for axis in itertools.product((-1.0, 0.0, 1.0), repeat=3) if any(axis)])
"""Directions in which a mesh is looked at."""


class FloorPoints:
    """Points of bodies with a radius. Spheres and capsules are exact; others have their corners or outermost points.

    Attributes:
        bodies: their bodies                                          (n,)
        places: in the frames of these [m]                            (n, 3)
        radii: [m]                                                    (n,)
    """

    def __init__(self, mjm: mujoco.MjModel, bodies: list[int]) -> None:
        floor = floor_of(mjm)
        geoms = feelers(mjm, bodies, floor)
        found = [(int(mjm.geom_bodyid[g]), *_points(mjm, g)) for g in geoms]
        self.level = 0.0 if floor is None else float(mjm.geom_pos[floor, 2])
        self.bodies: NDArray[np.intp] = np.array([body for body, points, _ in found for _ in points], dtype=np.intp)
        self.places = np.concatenate([points for _, points, _ in found]) if found else np.zeros((0, 3))
        self.radii = np.array([radius for _, points, radius in found for _ in points])

    def heights(self, mjd: mujoco.MjData) -> Array:
        """Heights (n,) over the floor [m]."""
        up = mjd.xmat[self.bodies].reshape(-1, 3, 3)[:, 2]
        return mjd.xpos[self.bodies, 2] + np.einsum("ni,ni->n", up, self.places) - self.radii - self.level


def _points(mjm: mujoco.MjModel, geom: int) -> tuple[Array, float]:
    """Points (k, 3) of a geom in the frame of its body, and their radius."""
    size, kind = mjm.geom_size[geom], mjm.geom_type[geom]
    radius = 0.0
    if kind == mujoco.mjtGeom.mjGEOM_SPHERE:
        points, radius = np.zeros((1, 3)), float(size[0])
    elif kind == mujoco.mjtGeom.mjGEOM_CAPSULE:
        points, radius = np.array([[0.0, 0.0, -size[1]], [0.0, 0.0, size[1]]]), float(size[0])
    elif kind == mujoco.mjtGeom.mjGEOM_MESH:
        mesh = mjm.geom_dataid[geom]
        first = mjm.mesh_vertadr[mesh]
        vertices = mjm.mesh_vert[first : first + mjm.mesh_vertnum[mesh]]
        points = vertices[np.unique((vertices @ _AROUND.T).argmax(axis=0))]
    elif kind == mujoco.mjtGeom.mjGEOM_BOX:
        points = size * np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
    elif kind == mujoco.mjtGeom.mjGEOM_CYLINDER:
        angle = np.arange(8) * (np.pi / 4.0)
        rim = size[0] * np.stack([np.cos(angle), np.sin(angle), np.zeros(8)], axis=1)
        points = np.concatenate([rim - [0.0, 0.0, size[1]], rim + [0.0, 0.0, size[1]]])
    else:
        points = size * _AROUND / np.linalg.norm(_AROUND, axis=1, keepdims=True)
    frame = np.empty(9)
    mujoco.mju_quat2Mat(frame, mjm.geom_quat[geom])
    return points @ frame.reshape(3, 3).T + mjm.geom_pos[geom], radius
