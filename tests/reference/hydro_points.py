"""A quadrature point of a contact surface, and what a set of them adds up to.

At a point of weight A the pressure is ``p0`` and the gradients of the two fields along the normal are g_A and g_B. Then

    f0 = A p0,   k = A g,   dist = -p0/g,   1/g = 1/g_A + 1/g_B,   d = (d_A/g_A + d_B/g_B) / (1/g_A + 1/g_B).

A rigid geom has 1/g = 0. Walls of a rigid geom stand along the gradient of the other's field: the pressure is not zero
there but g is, and -p0/g would be infinite. So g_A and g_B are at least FLOOR of their gradient; f0 stays exact.
"""

import dataclasses

import numpy as np

from tests.reference.hydro_fields import Array, Geom

FLOOR = 1e-3
"""Least slope of a field along the normal, as a share of its gradient."""
BACK = float(np.cos(5.0 * np.pi / 8.0))
"""Cosine between a field's gradient and the normal into its geom below which a face is left out, as in Drake."""


@dataclasses.dataclass(frozen=True)
class Points:
    """Of one patch.

    Attributes:
        weight: A, m^2, (n,).
        pos: m, (n, 3).
        normal: from geom 0 to geom 1, row 0 of MuJoCo's contact frame, (n, 3).
        p0: pressure, Pa; negative ahead of touch, (n,).
        gradient: g, Pa/m, (n,).
        dissipation: d, s/m, (n,).
    """

    weight: Array
    pos: Array
    normal: Array
    p0: Array
    gradient: Array
    dissipation: Array

    def __len__(self) -> int:
        return len(self.weight)

    @property
    def f0(self) -> Array:
        """Elastic force at the start of a step, N."""
        return self.weight * self.p0

    @property
    def k(self) -> Array:
        """Stiffness, N/m."""
        return self.weight * self.gradient

    @property
    def dist(self) -> Array:
        """Equivalent distance, m."""
        return -self.p0 / self.gradient


def make(a: Geom, b: Geom, weight: Array, pos: Array, n: Array, p0: Array, grad_a: Array, grad_b: Array) -> Points:
    """Points from the normal n into A = geom 0 and the gradients of the two pressures, all (n, ...)."""
    inverse_a, inverse_b = _inverse(a, grad_a, n), _inverse(b, -grad_b, n)
    inverse = inverse_a + inverse_b
    dissipation = (a.dissipation * inverse_a + b.dissipation * inverse_b) / inverse
    return Points(weight, pos, -n, p0, 1.0 / inverse, dissipation)


def _inverse(geom: Geom, gradient: Array, n: Array) -> Array:
    """1/g of one geom."""
    if geom.rigid:
        return np.zeros(len(n))
    slope = (gradient * n).sum(axis=-1)
    return 1.0 / np.maximum(slope, FLOOR * np.linalg.norm(gradient, axis=-1))


def faces_on(geom: Geom, gradient: Array, n: Array) -> Array:
    """Whether faces look the right way for a geom's field; gradient into the geom as n, (..., 3)."""
    return (gradient * n).sum(axis=-1) > BACK * np.linalg.norm(gradient, axis=-1)


def none() -> Points:
    return Points(np.zeros(0), np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0), np.zeros(0), np.zeros(0))


def together(parts: list[Points]) -> Points:
    """All points of all parts."""
    if not parts:
        return none()
    names = [field.name for field in dataclasses.fields(Points)]
    return Points(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def moved(points: Points, rot: Array, pos: Array) -> Points:
    """The same points in another frame."""
    return dataclasses.replace(points, pos=points.pos @ rot.T + pos, normal=points.normal @ rot.T)


def force(points: Points) -> Array:
    """On geom 1, N, (3,); on geom 0 it is the opposite."""
    return np.maximum(points.f0, 0.0) @ points.normal


def moment(points: Points, about: Array | None = None) -> Array:
    """On geom 1 about a place, N m, (3,)."""
    arm = points.pos if about is None else points.pos - about
    return np.cross(arm, np.maximum(points.f0, 0.0)[:, None] * points.normal).sum(axis=0)


def rocking(points: Points, axis: Array, about: Array) -> float:
    """Stiffness against a turn about an axis, N m/rad: ``sum k (axis . (r x n))^2``."""
    arm = np.cross(points.pos - about, points.normal) @ axis
    return float((points.k * arm**2).sum())


def torsion(points: Points, axis: Array, about: Array) -> float:
    """Torque of uniform sliding friction of a spin, over mu, N m: ``sum f0 |axis x r|``."""
    arm = np.linalg.norm(np.cross(axis, points.pos - about), axis=-1)
    return float((np.maximum(points.f0, 0.0) * arm).sum())


def centre(points: Points) -> Array:
    """Of pressure, m, (3,)."""
    f0 = np.maximum(points.f0, 0.0)
    return f0 @ points.pos / f0.sum()
