"""Rotations for kernels in float64: quaternions with w first, rotation vectors and matrices."""

import warp as wp

wp.set_module_options({"enable_backward": False})

vec4d = wp.types.vector(4, wp.float64)


@wp.func
def multiply(a: vec4d, b: vec4d) -> vec4d:
    """Product of quaternions, w first."""
    return vec4d(
        a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
        a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
        a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
        a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0],
    )


@wp.func
def exponential(turn: wp.vec3d) -> vec4d:
    """Quaternion of a rotation vector [rad]."""
    half = wp.float64(0.5) * wp.length(turn)
    share = wp.float64(0.5)
    if half > wp.float64(1e-8):
        share = wp.float64(0.5) * wp.sin(half) / half
    return vec4d(wp.cos(half), share * turn[0], share * turn[1], share * turn[2])


@wp.func
def matrix(q: vec4d) -> wp.mat33d:
    """Rotation matrix of a unit quaternion."""
    one = wp.float64(1.0)
    two = wp.float64(2.0)
    return wp.mat33d(
        one - two * (q[2] * q[2] + q[3] * q[3]),
        two * (q[1] * q[2] - q[0] * q[3]),
        two * (q[1] * q[3] + q[0] * q[2]),
        two * (q[1] * q[2] + q[0] * q[3]),
        one - two * (q[1] * q[1] + q[3] * q[3]),
        two * (q[2] * q[3] - q[0] * q[1]),
        two * (q[1] * q[3] - q[0] * q[2]),
        two * (q[2] * q[3] + q[0] * q[1]),
        one - two * (q[1] * q[1] + q[2] * q[2]),
    )


@wp.func
def right_jacobian(turn: wp.vec3d) -> wp.mat33d:
    """Right Jacobian Jr of the exponential map: exp(r + dr) = exp(r) exp(Jr dr)."""
    angle = wp.length(turn)
    cross = wp.skew(turn)
    first = wp.float64(0.5)
    second = wp.float64(1.0) / wp.float64(6.0)
    if angle > wp.float64(1e-4):
        first = (wp.float64(1.0) - wp.cos(angle)) / (angle * angle)
        second = (angle - wp.sin(angle)) / (angle * angle * angle)
    return wp.identity(3, dtype=wp.float64) - first * cross + second * (cross * cross)


@wp.func
def turned(axis: wp.vec3d, angle: wp.float64) -> wp.mat33d:
    """Rotation matrix about a unit axis."""
    cross = wp.skew(axis)
    square = cross * cross
    return wp.identity(3, dtype=wp.float64) + wp.sin(angle) * cross + (wp.float64(1.0) - wp.cos(angle)) * square
