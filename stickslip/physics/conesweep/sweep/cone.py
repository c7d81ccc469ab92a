"""The friction cone: elliptic, over tangents, spin and rolling together, as MuJoCo's."""

import warp as wp

from stickslip.physics.mjwarp.private import vec5

wp.set_module_options({"enable_backward": False})

MIN_FRICTION = wp.constant(1.0e-5)
"""Coefficients below count as this, as in MuJoCo."""


CLOSE = wp.constant(1.0e-5)
"""How far from the cone a force may be before the final straight projection onto it."""


@wp.func
def project(f: vec5, normal: float, dim: int, mu: vec5, gain: wp.vec3) -> vec5:
    """The point of the cone `sum (f_i / mu_i)^2 <= normal^2` nearest to f.

    Near is meant in the metric of the inverse of `gain` (of the tangents, spin and rolling): then the friction that
    sweeps come to rest at is the one that dissipates most. The point is `f / (1 + nu gain / mu^2)`; nu is found by
    Newton's method.
    """
    out = vec5()
    if normal <= 0.0 or dim == 1:
        return out
    size = float(0.0)
    for i in range(5):
        if i < dim - 1:
            g = f[i] / wp.max(mu[i], MIN_FRICTION)
            size += g * g
    limit = normal * normal
    if size <= limit:
        for i in range(5):
            if i < dim - 1:
                out[i] = f[i]
        return out
    if dim == 3 and mu[0] == mu[1]:
        scale = normal / wp.sqrt(size)
        out[0] = f[0] * scale
        out[1] = f[1] * scale
        return out
    # sum (f/mu)^2 / (1 + nu gain / mu^2)^2 = normal^2; one over the root of the sum is nearly linear in nu
    part = vec5()
    rate = vec5()
    for i in range(5):
        if i < dim - 1:
            m = wp.max(mu[i], MIN_FRICTION)
            rate[i] = gain[wp.max(0, wp.min(i - 1, 2))] / (m * m)
            part[i] = f[i] * f[i] / (m * m)
    nu = float(0.0)
    total = float(0.0)
    iteration = int(0)
    while iteration < 8:
        total = 0.0
        slope = float(0.0)
        for i in range(5):
            d = 1.0 / (1.0 + nu * rate[i])
            g = part[i] * d * d
            total += g
            slope += g * d * rate[i]
        # phi(nu) = 1/sqrt(total) - 1/normal, phi' = slope / total^1.5
        size = wp.sqrt(total)
        if wp.abs(size - normal) < CLOSE * normal:
            break
        nu = wp.max(0.0, nu + (1.0 / normal - 1.0 / size) * total * size / wp.max(slope, 1.0e-30))
        iteration += 1
    scale = wp.min(1.0, normal / wp.sqrt(wp.max(total, 1.0e-30)))
    for i in range(5):
        out[i] = scale * f[i] / (1.0 + nu * rate[i])
    return out
