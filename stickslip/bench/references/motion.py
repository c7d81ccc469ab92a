"""The motion of one rigid body: how it moves under a constant force or torque, and how far two orientations differ.

Quaternions are MuJoCo's, (w, x, y, z) along the last axis.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stickslip.bench.experiment import GRAVITY

Array = NDArray[np.float64]


def slid(push: float, normal: float, mu: float, mass: float, time: Any) -> Any:
    """Way from rest [m] after `time` [s] of a body pushed with `push` [N] and pressed on a plane with `normal` [N].

    Zero where friction holds it.
    """
    return 0.5 * max(0.0, push - mu * normal) / mass * time**2


def pushed(force: float, mu: float, mass: float, time: Any) -> Any:
    """Way over a level plane under a horizontal force [m]."""
    return slid(force, mass * GRAVITY, mu, mass, time)


def down_slope(angle: float, mu: float, time: Any) -> Any:
    """Way down a slope [m]; the mass does not matter."""
    return slid(GRAVITY * np.sin(angle), GRAVITY * np.cos(angle), mu, 1.0, time)


def turned(torque: float, inertia: float, time: Any) -> Any:
    """Angle from rest under a torque about the vertical, without friction [rad]."""
    return 0.5 * torque / inertia * time**2


def step_error(expected: float, timestep: float, duration: float) -> float:
    """How much farther than `expected` steps lead from rest under a constant force, if their forces are exact.

    Velocities are constant in a step, and those of its end: a t dt / 2 of a t^2 / 2.
    """
    return expected * timestep / duration


def box_inertia(mass: float, half: float) -> float:
    """Of a cube about any axis through its middle [kg m^2]."""
    return mass * (2.0 * half) ** 2 / 6.0


def product(first: Array, second: Array) -> Array:
    """The rotation `second`, then `first`."""
    a, b, c, d = np.moveaxis(np.asarray(first), -1, 0)
    w, x, y, z = np.moveaxis(np.asarray(second), -1, 0)
    return np.stack(
        [a * w - b * x - c * y - d * z, a * x + b * w + c * z - d * y,
         a * y - b * z + c * w + d * x, a * z + b * y - c * x + d * w],
        axis=-1,
    )  # fmt: skip


def inverse(quat: Array) -> Array:
    """The opposite rotation."""
    return np.asarray(quat) * np.array([1.0, -1.0, -1.0, -1.0])


def rotate(quat: Array, vector: Array) -> Array:
    """A vector turned by a rotation."""
    quat = np.asarray(quat)
    pure = np.concatenate([np.zeros((*np.shape(vector)[:-1], 1)), vector], axis=-1)
    return product(product(quat, pure), inverse(quat))[..., 1:]


def yaw(angle: Any) -> Array:
    """The rotation about z by an angle [rad]."""
    half = 0.5 * np.asarray(angle, dtype=float)
    return np.stack([np.cos(half), np.zeros_like(half), np.zeros_like(half), np.sin(half)], axis=-1)


def angle_of(quat: Array) -> Array:
    """How far a rotation turns [rad], from 0 to pi; exact for small angles too."""
    return 2.0 * np.arctan2(np.linalg.norm(quat[..., 1:], axis=-1), np.abs(quat[..., 0]))


def twist_of(quat: Array) -> Array:
    """How far a rotation turns about z [rad], from -pi to pi; the rest of it is a tilt."""
    return (2.0 * np.arctan2(quat[..., 3], quat[..., 0]) + np.pi) % (2.0 * np.pi) - np.pi


def tilt_of(quat: Array) -> Array:
    """How far a rotation moves the z axis [rad], from 0 to pi."""
    return 2.0 * np.arctan2(np.hypot(quat[..., 1], quat[..., 2]), np.hypot(quat[..., 0], quat[..., 3]))


def unwrapped(angle: Array) -> Array:
    """Angles in time (n, ...) without the jumps of whole turns; NaN stays NaN."""
    jumps = np.diff(angle, axis=0)
    jumps = (jumps + np.pi) % (2.0 * np.pi) - np.pi
    return np.concatenate([angle[:1], angle[:1] + np.cumsum(jumps, axis=0)])
