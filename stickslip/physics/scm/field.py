"""Soft signed distance and the forces between two point clouds; equation numbers are the paper's.

A query asks all points of a surface, and answers are averaged with weights that fall with distance: that is attention,
with a query for each point of one body and a key for each of the other. The sums run over blocks of queries, which are
recomputed for a gradient, so memory grows with the number of points and not with its square.
"""

# pyright: reportMissingImports=false

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from stickslip.physics.scm.law import Law, resist

Array = jax.Array


class Points(NamedTuple):
    """A surface: points with normals, in the frame of its geom.

    Attributes:
        place: where they are                                 (n, 3)
        normal: outwards                                      (n, 3)
        scale: square of the distance between neighbours, m^2 ()
        corner: vertices of the faces that points stand for   (v, 3)
    """

    place: Array
    normal: Array
    scale: Array
    corner: Array


def isotropic(away: Array, scale: Array) -> Array:
    """Logarithm of the weight of a point of the surface that is `away`, (..., 3): a Gaussian (9)."""
    return -jnp.sum(away * away, axis=-1) / scale


def brought_near(query: Array, surface: Points, eps: Array | float) -> Array:
    """Points (..., 3), with those far from a surface moved to where its weights can still be distinguished.

    Weights are exponentials of differences of squared distances over eps. Far off, those are less than the rounding of
    what they are differences of, and a compiler that computes one of them twice may get two answers: infinite weights,
    or none. Directions are kept, and so is which points are nearest. At the surface of a body points move by less than
    1e-7 of their distance from its origin.
    """
    size = jnp.sqrt(jnp.max(jnp.sum(surface.place**2, axis=-1)))
    far = jax.lax.stop_gradient(50.0 * size + 300.0 * jnp.sqrt(eps))
    ratio = jnp.sum((query / far) ** 2, axis=-1, keepdims=True)
    return query * (1.0 + ratio * ratio) ** -0.25


def signed_distance(
    query: Array, surface: Points, blend: Array | float = 0.5, kernel: Callable[[Array, Array], Array] = isotropic
) -> Array:
    """(9), (10): soft signed distance of points, (..., 3), to a surface, both in its frame.

    Args:
        query: points
        surface: the surface
        blend: eps_1 over the square of the spacing
        kernel: logarithm of the weight of each point of the surface, of `query - place` and eps_1
    """
    eps = blend * surface.scale
    away = query[..., None, :] - surface.place
    weight = jax.nn.softmax(kernel(brought_near(query, surface, eps)[..., None, :] - surface.place, eps), axis=-1)
    return jnp.sum(weight * jnp.sum(away * surface.normal, axis=-1), axis=-1)


class SurfaceForce(NamedTuple):
    """Distance, force and damping of points near a surface, in its frame.

    Attributes:
        distance: soft signed distance, m
        force: on each point, if it were the only one, N
        damping: how the force falls with velocity, N s/m: symmetric, and never below zero; for friction what it has
            lost over the slip that there is, not what it would lose more                (n, 3, 3)
    """

    distance: Array
    force: Array
    damping: Array


def soft_plane(query: Array, surface: Points, blend: Array) -> tuple[Array, Array]:
    """Soft signed distance of points (n, 3), and the normal there: both averaged with the same weights."""
    value = jnp.concatenate(
        [
            surface.normal,
            jnp.sum(surface.normal * surface.place, axis=1, keepdims=True),
            jnp.ones_like(surface.place[:, :1]),
        ],
        axis=1,
    )
    logit = _logits(query, surface, blend)
    top = jax.lax.stop_gradient(jnp.max(logit, axis=1, keepdims=True))
    mean = jnp.dot(jnp.exp(logit - top), value, precision="highest")
    mean = mean / mean[:, 4:]
    return jnp.sum(mean[:, :3] * query, axis=1) - mean[:, 3], mean[:, :3]


def _logits(query: Array, surface: Points, blend: Array) -> Array:
    """Logarithms of the weights of the surface's points for each query, (n, m)."""
    eps = blend * surface.scale
    near = brought_near(query, surface, eps)
    x, y, z = (near[:, None, i] - surface.place[None, :, i] for i in range(3))
    return -(x * x + y * y + z * z) * (1.0 / eps)


def force_of_plane(query: Array, velocity: Array, surface: Points, law: Law) -> SurfaceForce:
    """Distance of points and the force on each, of the plane that is the average of the surface's planes there."""
    distance, normal = soft_plane(query, surface, law.blend)
    leaving = jnp.sum(velocity * normal, axis=1)
    slip = velocity - leaving[:, None] * normal
    push, rub, brake = resist(distance, leaving, jnp.sum(slip * slip, axis=1), law)
    force = push[:, None] * normal - rub[:, None] * slip
    across = normal[:, :, None] * normal[:, None, :]
    damping = rub[:, None, None] * jnp.eye(3, dtype=query.dtype) + (brake - rub)[:, None, None] * across
    return SurfaceForce(distance, force, damping)


def force_of_planes(query: Array, velocity: Array, surface: Points, law: Law) -> SurfaceForce:
    """(9), (14)-(22): distance of points, and the average of the forces that each plane of the surface would exert.

    Velocities are relative to the surface's body where the point is. The reaction acts there too, so that angular
    momentum is kept; at the points of the surface, as printed, it would not be.
    """
    x, y, z = (query[:, None, i] - surface.place[None, :, i] for i in range(3))
    a, b, c = (surface.normal[None, :, i] for i in range(3))
    u, v, w = (velocity[:, None, i] for i in range(3))
    logit = _logits(query, surface, law.blend)
    top = jax.lax.stop_gradient(jnp.max(logit, axis=1, keepdims=True))
    weight = jnp.exp(logit - top)
    distance = x * a + y * b + z * c
    leaving = u * a + v * b + w * c
    su, sv, sw = u - leaving * a, v - leaving * b, w - leaving * c
    push, rub, brake = (weight * part for part in resist(distance, leaving, su * su + sv * sv + sw * sw, law))
    total = jnp.sum(weight, axis=1)

    def mean(x: Array) -> Array:
        return jnp.sum(x, axis=1) / total

    force = jnp.stack([mean(push * n - rub * s) for n, s in ((a, su), (b, sv), (c, sw))], axis=1)
    more, steady = brake - rub, mean(rub)
    xx, yy, zz = (mean(more * n * n) + steady for n in (a, b, c))
    xy, xz, yz = mean(more * a * b), mean(more * a * c), mean(more * b * c)
    damping = jnp.stack([xx, xy, xz, xy, yy, yz, xz, yz, zz], axis=1).reshape(-1, 3, 3)
    return SurfaceForce(mean(weight * distance), force, damping)


class Half(NamedTuple):
    """The force of one body on the points of another, summed with weights that fall with depth.

    Attributes:
        top: largest logarithm of a weight                       ()
        weight: sum of weights over exp(top)                     ()
        distance: sum of weighted distances                      ()
        force, torque: on the points, in the frame of the surface and about its origin   (3,)
        damping: how force and torque fall with velocity and angular velocity   (6, 6)
        press: sum of weighted sizes of forces                   ()
        spot: sum of points, each by what it presses             (3,)
    """

    top: Array
    weight: Array
    distance: Array
    force: Array
    torque: Array
    damping: Array
    press: Array
    spot: Array


def half(
    place: Array,
    twist: tuple[Array, Array],
    surface: Points,
    law: Law,
    force_law: Callable[..., SurfaceForce],
    block: int,
) -> Half:
    """(23), one of its two sums: points in the frame of the surface, with a velocity relative to it.

    Args:
        place: points, (n, 3)
        twist: angular velocity, and velocity at the origin, of the points' body relative to the surface's
        surface: the surface
        law: parameters
        force_law: `force_of_plane` or `force_of_planes`
        block: points to look at together
    """
    spin, drift = twist

    def look(some: Array) -> SurfaceForce:
        return force_law(some, drift + jnp.cross(spin, some), surface, law)

    at_points = in_blocks(look, place, block)
    logit = -at_points.distance / law.select
    top = jax.lax.stop_gradient(jnp.max(logit))
    weight = jnp.exp(logit - top)
    force = weight[:, None] * at_points.force
    press = jnp.sqrt(jnp.sum(force * force, axis=1) + 1e-30)
    return Half(
        top,
        jnp.sum(weight),
        jnp.sum(weight * at_points.distance),
        jnp.sum(force, axis=0),
        jnp.sum(jnp.cross(place, force), axis=0),
        _gathered(place, weight[:, None, None] * at_points.damping),
        jnp.sum(press),
        press @ place,
    )


def in_blocks(look: Callable[[Array], Any], place: Array, block: int) -> Any:
    """`look` at points a block at a time, and keep nothing but the results."""
    n = place.shape[0]
    if n <= block:
        return look(place)
    count = -(-n // block)
    padded = jnp.concatenate([place, jnp.broadcast_to(place[-1:], (count * block - n, 3))])
    out = jax.lax.map(jax.checkpoint(look), padded.reshape(count, block, 3))
    return jax.tree.map(lambda x: x.reshape(count * block, *x.shape[2:])[:n], out)


def skew(r: Array) -> Array:
    """The matrix of a cross product from the left, (..., 3, 3)."""
    x, y, z = r[..., 0], r[..., 1], r[..., 2]
    o = jnp.zeros_like(x)
    rows = [jnp.stack(row, axis=-1) for row in ((o, -z, y), (z, o, -x), (-y, x, o))]
    return jnp.stack(rows, axis=-2)


def _gathered(place: Array, damping: Array) -> Array:
    """Damping of points, (n, 3, 3), as one of their body about the origin, (6, 6): velocity, then angular velocity."""
    arm = skew(place)
    turned = damping @ arm
    linear = jnp.sum(damping, axis=0)
    mixed = -jnp.sum(turned, axis=0)
    angular = -jnp.sum(arm @ turned, axis=0)
    return jnp.block([[linear, mixed], [mixed.T, angular]])
