"""The potentials of constraints: impulse (minus the gradient) and its slope (the Hessian); the solve needs no values.

All in double precision and for one constraint, along its own velocities. Each is convex.
"""

import warp as wp

wp.set_module_options({"enable_backward": False})

real = wp.float64
vec5 = wp.types.vector(length=5, dtype=wp.float64)


@wp.func
def normal_impulse(v: real, elastic: real, stiffness: real, dissipation: real, dt: real):
    """Equation (13): dt (fe - dt k v)_+ (1 - d v)_+, and minus its slope."""
    spring = elastic - dt * stiffness * v
    damper = real(1.0) - dissipation * v
    if spring <= real(0.0) or damper <= real(0.0):
        return real(0.0), real(0.0)
    return dt * spring * damper, dt * (dt * stiffness * damper + dissipation * spring)


@wp.func
def slip(v: vec5, musq: vec5, eps: real) -> real:
    """sqrt(sum (mu_i v_i)^2 + eps^2), the length in (14) with one coefficient for each direction."""
    s = eps * eps
    for i in range(5):
        s += musq[i] * v[i] * v[i]
    return wp.sqrt(s)


@wp.func
def friction_impulse(v: vec5, musq: vec5, lagged: real, s: real) -> vec5:
    """Equation (14): -gamma mu_i^2 v_i / s, with the normal impulse of the step before."""
    return -(lagged / s) * wp.cw_mul(musq, v)


@wp.func
def clamped_impulse(s: real, bias: real, gain: real, low: real, high: real):
    """Impulse clamp(bias - gain s, low, high) of limits, equalities and actuators, and minus its slope."""
    y = bias - gain * s
    if y <= low:
        return low, real(0.0)
    if y >= high:
        return high, real(0.0)
    return y, gain


@wp.func
def dry_impulse(s: real, loss: real, eps: real):
    """Impulse -loss s / sqrt(s^2 + eps^2) of dry friction in a joint, and minus its slope."""
    length = wp.sqrt(s * s + eps * eps)
    return -loss * s / length, loss * eps * eps / (length * length * length)


@wp.func
def sigmoid(s: real) -> real:
    """f of (5)."""
    return s / wp.sqrt(s * s + real(1.0))


@wp.func
def static_share(s: real) -> real:
    """sigma of (8): share of the gap between static and dynamic friction that acts, from 1 at rest to 0 when sliding.

    Scaled to end at 0; as printed it ends at -0.0025, and friction below the dynamic one.
    """
    width = real(10.0)
    return (real(1.0) - sigmoid(wp.abs(s) - width)) / (real(1.0) + sigmoid(width))
