"""What is moved by hand: where it is in the course of a step, and how fast."""

import warp as wp

from stickslip.physics.pbd.layout import Hand, Moment, Shape, real
from stickslip.physics.pbd.rigid import matrix_of

wp.set_module_options({"enable_backward": False})


@wp.struct
class Held:
    """Pose of a body that is moved by hand, or of a collider."""

    pos: wp.vec3d
    mat: wp.mat33d


@wp.func(inline=False)
def held_at(hand: Hand, worldid: int, mocap: int, share: real) -> Held:
    """Where it is when so much of the step is over, from 0 to 1."""
    p = hand.pos[worldid, mocap]
    q = hand.quat[worldid, mocap]
    p0 = hand.pos_before[worldid, mocap]
    q0 = hand.quat_before[worldid, mocap]
    if not (p0[0] == p0[0] and q0[0] == q0[0]):  # noqa: PLR0124 - not a number
        p0 = p
        q0 = q
    sign = real(1.0)
    if q[0] * q0[0] + q[1] * q0[1] + q[2] * q0[2] + q[3] * q0[3] < 0.0:
        sign = real(-1.0)
    rest = real(1.0) - share
    out = Held()
    out.pos = rest * wp.vec3d(p0) + share * wp.vec3d(p)
    out.mat = matrix_of(
        rest * sign * real(q0[0]) + share * real(q[0]),
        rest * sign * real(q0[1]) + share * real(q[1]),
        rest * sign * real(q0[2]) + share * real(q[2]),
        rest * sign * real(q0[3]) + share * real(q[3]),
    )
    return out


@wp.func
def collider_at(shape: Shape, hand: Hand, worldid: int, collider: int, share: real) -> Held:
    """Where a collider is when so much of the step is over."""
    out = Held()
    out.pos = shape.collider_pos[collider]
    out.mat = shape.collider_mat[collider]
    mocap = shape.collider_mocap[collider]
    if mocap >= 0:
        held = held_at(hand, worldid, mocap, share)
        out.pos = held.pos + held.mat * out.pos
        out.mat = held.mat * out.mat
    return out


@wp.func(inline=False)
def drift_of(hand: Hand, moment: Moment, worldid: int, mocap: int, point: wp.vec3d) -> wp.vec3d:
    """Velocity of a point of it, which is `point` now, over the substep that ends now [m/s]."""
    if not moment.dt > real(0.0):
        return wp.vec3d()
    now = held_at(hand, worldid, mocap, moment.over)
    then = held_at(hand, worldid, mocap, moment.over - moment.dt / moment.timestep)
    own = wp.transpose(now.mat) * (point - now.pos)
    return (point - then.pos - then.mat * own) / moment.dt
