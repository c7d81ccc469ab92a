"""Rotations that can be differentiated twice everywhere, at rest too."""

# pyright: reportMissingImports=false

import jax
import jax.numpy as jnp

Array = jax.Array

_SMALL = 1e-4
"""Square of a half angle below which series are used [rad^2]."""


def _cos_sinc(square: Array) -> tuple[Array, Array]:
    """cos x and sin(x)/x of the square of x."""
    small = square < _SMALL
    x = jnp.sqrt(jnp.where(small, 1.0, square))
    cosine = jnp.where(small, 1.0 - square / 2.0 + square**2 / 24.0 - square**3 / 720.0, jnp.cos(x))
    sinc = jnp.where(small, 1.0 - square / 6.0 + square**2 / 120.0 - square**3 / 5040.0, jnp.sin(x) / x)
    return cosine, sinc


def quaternion_of(turn: Array) -> Array:
    """Unit quaternion of a rotation vector, (..., 3)."""
    cosine, sinc = _cos_sinc(0.25 * jnp.sum(turn * turn, axis=-1, keepdims=True))
    return jnp.concatenate([cosine, 0.5 * sinc * turn], axis=-1)


def times(p: Array, q: Array) -> Array:
    """Product of quaternions, (..., 4)."""
    a, b, c, d = (p[..., i] for i in range(4))
    e, f, g, h = (q[..., i] for i in range(4))
    return jnp.stack(
        [
            a * e - b * f - c * g - d * h,
            a * f + b * e + c * h - d * g,
            a * g - b * h + c * e + d * f,
            a * h + b * g - c * f + d * e,
        ],
        axis=-1,
    )


def turned(q: Array, turn: Array) -> Array:
    """A quaternion turned by a rotation vector in its own frame, of unit length."""
    out = times(q, quaternion_of(turn))
    return out / jnp.sqrt(jnp.sum(out * out, axis=-1, keepdims=True))


def difference(q: Array, base: Array) -> Array:
    """Rotation vector in the frame of `base` that turns it to q; smooth below half a turn."""
    d = times(base * jnp.array([1.0, -1.0, -1.0, -1.0], dtype=base.dtype), q)
    d = jnp.where(d[..., :1] < 0.0, -d, d)
    square = jnp.sum(d[..., 1:] ** 2, axis=-1, keepdims=True)
    small = square < _SMALL
    sine = jnp.sqrt(jnp.where(small, 1.0, square))
    # 2 asin(x)/x
    series = 2.0 + square / 3.0 + 3.0 * square**2 / 20.0 + 5.0 * square**3 / 56.0
    return jnp.where(small, series, 2.0 * jnp.arctan2(sine, d[..., :1]) / sine) * d[..., 1:]
