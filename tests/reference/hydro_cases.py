"""Geoms and poses that tests of hydroelastic contact share."""

import numpy as np

from tests.reference.hydro_fields import Geom, Material, Pose, box, capsule, cylinder, ellipsoid, hull, plane, sphere

E = 1e7
SOFT = Material(E)
X, Y, Z = np.eye(3)
LYING = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])


def turn(axis: np.ndarray, angle: float) -> np.ndarray:
    """Rotation about a unit vector."""
    cross = np.cross(np.eye(3), axis)
    return np.eye(3) - np.sin(angle) * cross + (1.0 - np.cos(angle)) * cross @ cross


def up(z: float, rot: np.ndarray | None = None, x: float = 0.0, y: float = 0.0) -> Pose:
    return Pose(np.eye(3) if rot is None else rot, np.array([x, y, z]))


def slab(depth: float = 0.02) -> Geom:
    return plane(Material(E, depth))


def corners() -> np.ndarray:
    """Of a box of half sizes 50, 40, 30 mm."""
    signs = np.array([[i, j, k] for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)])
    return signs * np.array([0.05, 0.04, 0.03])


GEOMS = {
    "sphere": sphere(0.05, SOFT),
    "capsule": capsule(0.03, 0.04, SOFT),
    "ellipsoid": ellipsoid(0.05, 0.03, 0.04, SOFT),
    "cylinder": cylinder(0.04, 0.03, SOFT),
    "box": box(0.05, 0.04, 0.03, SOFT),
    "hull": hull(corners(), SOFT),
}
