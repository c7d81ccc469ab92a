"""The contact of one pair of geoms; equation numbers are the paper's."""

# pyright: reportMissingImports=false

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from stickslip.physics.scm.field import Points, half, skew
from stickslip.physics.scm.law import Law

Array = jax.Array


class Touch(NamedTuple):
    """The contact of one pair of geoms.

    Attributes:
        distance: soft distance, m; negative when they overlap      ()
        force: on the first geom, N                                 (3,)
        torque: on the first geom about the origin of the second, N m  (3,)
        spot: where the force acts: the average of points, weighted by load, m  (3,)
        damping: how force and torque fall with the velocity, at that origin, and the angular velocity of the first geom
            relative to the second                                  (6, 6)
    """

    distance: Array
    force: Array
    torque: Array
    spot: Array
    damping: Array


def touch(
    one: Points, two: Points, first: Any, second: Any, law: Law, *, force_law: Any, block: int, mutual: bool
) -> Touch:
    """Contact of one pair: each surface acts on the points of the other."""
    (r1, x1, w1, v1), (r2, x2, w2, v2) = first, second
    apart = x1 - x2
    # corners of the first in the frame of the second
    place = one.corner @ (r2.T @ r1).T + r2.T @ apart
    twist = (r2.T @ (w1 - w2), r2.T @ (v1 - jnp.cross(w1, apart) - v2))
    a = half(place, twist, two, law, force_law, block)
    scale_a, force, torque = 1.0 / a.weight, r2 @ a.force, r2 @ a.torque
    if not mutual:
        spot, damping = x2 + r2 @ (a.spot / a.press), _turned(r2, a.damping) * scale_a
        return Touch(a.distance * scale_a, force * scale_a, torque * scale_a, spot, damping)
    place = two.corner @ (r1.T @ r2).T - r1.T @ apart
    twist = (r1.T @ (w2 - w1), r1.T @ (v2 + jnp.cross(w2, apart) - v1))
    b = half(place, twist, one, law, force_law, block)
    top = jnp.maximum(a.top, b.top)
    # weights above were taken relative to the deepest of each side, whose depth may change the share of the two
    share_a, share_b = jnp.exp(a.top - top), jnp.exp(b.top - top)
    total = share_a * a.weight + share_b * b.weight
    back, turn = r1 @ b.force, r1 @ b.torque
    return Touch(
        (share_a * a.distance + share_b * b.distance) / total,
        (share_a * force - share_b * back) / total,
        (share_a * torque - share_b * (turn + jnp.cross(apart, back))) / total,
        (share_a * (a.press * x2 + r2 @ a.spot) + share_b * (b.press * x1 + r1 @ b.spot))
        / (share_a * a.press + share_b * b.press),
        (share_a * _turned(r2, a.damping) + share_b * _moved(apart, _turned(r1, b.damping))) / total,
    )


def _turned(r: Array, damping: Array) -> Array:
    """Damping (6, 6) in the frame that a rotation leads to."""
    both = jax.scipy.linalg.block_diag(r, r)
    return both @ damping @ both.T


def _moved(arm: Array, damping: Array) -> Array:
    """Damping (6, 6) about a point, as one about the origin that the arm leads from."""
    eye = jnp.eye(3, dtype=arm.dtype)
    shift = jnp.block([[eye, -skew(arm)], [jnp.zeros_like(eye), eye]])
    return shift.T @ damping @ shift
