"""Rotations and moments of rigid bodies, in double precision."""

import warp as wp

from stickslip.physics.pbd.layout import real

wp.set_module_options({"enable_backward": False})

_STEPS = wp.constant(8)
"""Most steps of Newton's method for a rotation; three are usual."""
_HELD = wp.constant(real(1.0e-9))
"""Of a matrix's size: added to what holds a rotation, so that it stays where nothing does."""
_CLOSE = wp.constant(real(1.0e-6))
"""Last step of Newton's method that is good enough, where rounding keeps it from ending [rad]."""
_DONE = wp.constant(real(1.0e-13))
"""The step with which it ends [rad]."""
_STRAIGHT = wp.constant(real(1.0e-8))
"""Angle below which a rotation is a series [rad]."""
_SHORT_STEPS = wp.constant(3)
"""Most steps of a body that is nearly there."""
_NEARLY_SQ = wp.constant(real(1.0e-8))
"""Square of a first step with which it is [rad^2]."""
_THERE_SQ = wp.constant(real(1.0e-22))
"""Square of the step with which that ends [rad^2]."""


@wp.func
def diagonal(x: real) -> wp.mat33d:
    zero = real(0.0)
    return wp.mat33d(x, zero, zero, zero, x, zero, zero, zero, x)


@wp.func
def trace_of(a: wp.mat33d) -> real:
    return a[0, 0] + a[1, 1] + a[2, 2]


@wp.func
def skew(w: wp.vec3d) -> wp.mat33d:
    """The matrix that multiplies as w x does."""
    zero = real(0.0)
    return wp.mat33d(zero, -w[2], w[1], w[2], zero, -w[0], -w[1], w[0], zero)


@wp.func
def axial(a: wp.mat33d) -> wp.vec3d:
    """Sum of x_i x y_i where a is the sum of x_i y_i^T."""
    return wp.vec3d(a[1, 2] - a[2, 1], a[2, 0] - a[0, 2], a[0, 1] - a[1, 0])


@wp.func
def momentum(turn: wp.mat33d, rate: wp.mat33d, spread: wp.mat33d) -> wp.vec3d:
    """Angular momentum about the centre, sum of m (turn q) x (rate q)."""
    return axial(turn * spread * wp.transpose(rate))


@wp.func
def turned_by(w: wp.vec3d) -> wp.mat33d:
    """Rotation about w by its length."""
    angle = wp.length(w)
    a = real(1.0)
    b = real(0.5)
    if angle > _STRAIGHT:
        a = wp.sin(angle) / angle
        half = wp.sin(real(0.5) * angle) / angle
        b = real(2.0) * half * half
    k = skew(w)
    return diagonal(real(1.0)) + a * k + b * (k * k)


@wp.func(inline=False)
def rotation_of(a: wp.mat33d, guess: wp.mat33d) -> wp.mat33d:
    """The rotation R for which tr(R^T a) is largest: the polar part of a, without reflection.

    Newton's method from a guess; where that does not lead to a maximum, by singular values. Where the maximum is not
    unique (a chain of particles turns freely about its axis) the guess decides.
    """
    r = guess
    size = real(0.0)
    for i in range(3):
        for j in range(3):
            size = wp.max(size, wp.abs(a[i, j]))
    if not size > real(0.0):
        return r
    b = a / size
    last = real(1.0)
    for _ in range(_STEPS):
        t = wp.transpose(r) * b
        s = real(0.5) * (t + wp.transpose(t))
        h = diagonal(trace_of(s) + _HELD) - s
        minor = h[0, 0] * h[1, 1] - h[0, 1] * h[1, 0]
        if not (h[0, 0] > real(0.0) and minor > real(0.0) and wp.determinant(h) > real(0.0)):
            last = real(1.0)
            break
        w = -(wp.inverse(h) * axial(t))
        r = r * turned_by(w)
        last = wp.length(w)
        if last < _DONE:
            break
    if not last < _CLOSE:
        u = wp.mat33d()
        s3 = wp.vec3d()
        v = wp.mat33d()
        wp.svd3(b, u, s3, v)
        flip = wp.sign(wp.determinant(u) * wp.determinant(v))
        one = real(1.0)
        r = u * wp.diag(wp.vec3d(one, one, flip)) * wp.transpose(v)
    return r


@wp.func
def turned_towards(a: wp.mat33d, guess: wp.mat33d, inverse: wp.mat33d) -> wp.mat33d:
    """The same for a body that is nearly there: of a = R S, inverse = (tr(S) - S)^-1 is known.

    Each step squares the angle that is left [rad]; where a few steps do not suffice, the full computation is used.
    """
    r = guess
    left = real(1.0)
    for _ in range(_SHORT_STEPS):
        w = -(inverse * axial(wp.transpose(r) * a))
        left = wp.length_sq(w)
        if not left < _NEARLY_SQ:
            break
        k = skew(w)
        r = r + r * (k + real(0.5) * (k * k))
        if left < _THERE_SQ:
            break
    if not left < _THERE_SQ:
        r = rotation_of(a, guess)
    return r


@wp.func
def straightened(r: wp.mat33d) -> wp.mat33d:
    """The rotation that a matrix is to rounding."""
    return r * (diagonal(real(1.5)) - real(0.5) * (wp.transpose(r) * r))


@wp.func
def matrix_of(w: real, x: real, y: real, z: real) -> wp.mat33d:
    """Rotation of a quaternion, whatever its length; none for zero."""
    one = real(1.0)
    two = real(2.0)
    n = w * w + x * x + y * y + z * z
    s = real(0.0)
    if n > real(0.0):
        s = two / n
    return wp.mat33d(
        one - s * (y * y + z * z),
        s * (x * y - w * z),
        s * (x * z + w * y),
        s * (x * y + w * z),
        one - s * (x * x + z * z),
        s * (y * z - w * x),
        s * (x * z - w * y),
        s * (y * z + w * x),
        one - s * (x * x + y * y),
    )


vec4d = wp.types.vector(length=4, dtype=wp.float64)


@wp.func
def quaternion_of(r: wp.mat33d, near: vec4d) -> vec4d:
    """Unit quaternion (w, x, y, z) of a rotation, of the two the one nearer to `near`."""
    one = real(1.0)
    xx = r[0, 0]
    yy = r[1, 1]
    zz = r[2, 2]
    q = vec4d(one + xx + yy + zz, r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1])
    if xx + yy + zz <= real(0.0):
        if xx >= yy and xx >= zz:
            q = vec4d(r[2, 1] - r[1, 2], one + xx - yy - zz, r[0, 1] + r[1, 0], r[0, 2] + r[2, 0])
        elif yy >= zz:
            q = vec4d(r[0, 2] - r[2, 0], r[0, 1] + r[1, 0], one - xx + yy - zz, r[1, 2] + r[2, 1])
        else:
            q = vec4d(r[1, 0] - r[0, 1], r[0, 2] + r[2, 0], r[1, 2] + r[2, 1], one - xx - yy + zz)
    q = q / wp.length(q)
    if wp.dot(q, near) < real(0.0):
        q = -q
    return q
