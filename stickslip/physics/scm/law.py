"""Soft functions, and the force between a point and a plane. Array expressions of JAX; numbers in brackets are the
equations of the paper that the README names."""

# pyright: reportMissingImports=false

from typing import NamedTuple

import jax
import jax.numpy as jnp

Array = jax.Array


class Law(NamedTuple):
    """Parameters of the contact of one pair of geoms; each may be differentiated by.

    Attributes:
        stiffness: k, N/m
        friction: mu
        dissipation: v_d, m/s
        stiction: v_s, m/s
        blend: eps_1 over the square of the spacing of points, how many of them a distance is made of
        select: eps_2, m: how much less deep a point may be and still carry load
        reach: eps_3, m: distance at which a surface starts to act
    """

    stiffness: Array
    friction: Array
    dissipation: Array
    stiction: Array
    blend: Array
    select: Array
    reach: Array


def softplus(x: Array, eps: Array) -> Array:
    """(3): x where it is positive, 0 where it is not, over a range of eps."""
    return eps * jax.nn.softplus(x / eps)


def dissipate(s: Array) -> Array:
    """(16), (17): by how much a force grows when a point comes in and fades when it goes; s = v_n / v_d."""
    leaving = jnp.clip(s, 0.0, 2.0)
    return jnp.where(s <= 0.0, 1.0 - s, 0.25 * (leaving - 2.0) ** 2)


class Resistance(NamedTuple):
    """The force of a plane on a point, in parts.

    Attributes:
        push: normal force (15), (18)
        rub: friction over slip (19)
        brake: how fast the normal force falls with the speed of leaving, N s/m
    """

    push: Array
    rub: Array
    brake: Array


def resist(distance: Array, leaving: Array, slip_squared: Array, law: Law) -> Resistance:
    """At a signed distance from a plane, of a point that leaves it at a speed and slips."""
    spring = law.stiffness * softplus(-distance, law.reach)
    s = leaving / law.dissipation
    push = spring * dissipate(s)
    slope = jnp.where(s <= 0.0, 1.0, 0.5 * (2.0 - jnp.clip(s, 0.0, 2.0)))
    rub = law.friction * push / jnp.sqrt(law.stiction**2 + slip_squared)
    return Resistance(push, rub, spring * slope / law.dissipation)
