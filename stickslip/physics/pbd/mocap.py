"""Mocap bodies: their pose and velocity in the course of a step."""

import warp as wp

from stickslip.physics.pbd.layout import Mocap, Moment, Shape, real
from stickslip.physics.pbd.rigid import matrix_of

wp.set_module_options({"enable_backward": False})


@wp.struct
class Pose:
    """Pose of a mocap body or of a collider."""

    pos: wp.vec3d
    mat: wp.mat33d


@wp.func(inline=False)
def mocap_at(mocap: Mocap, worldid: int, body: int, share: real) -> Pose:
    """Pose of a mocap body after a share of the step, from 0 to 1."""
    p = mocap.pos[worldid, body]
    q = mocap.quat[worldid, body]
    p0 = mocap.pos_before[worldid, body]
    q0 = mocap.quat_before[worldid, body]
    if not (p0[0] == p0[0] and q0[0] == q0[0]):  # noqa: PLR0124 - not a number
        p0 = p
        q0 = q
    sign = real(1.0)
    if q[0] * q0[0] + q[1] * q0[1] + q[2] * q0[2] + q[3] * q0[3] < 0.0:
        sign = real(-1.0)
    rest = real(1.0) - share
    out = Pose()
    out.pos = rest * wp.vec3d(p0) + share * wp.vec3d(p)
    out.mat = matrix_of(
        rest * sign * real(q0[0]) + share * real(q[0]),
        rest * sign * real(q0[1]) + share * real(q[1]),
        rest * sign * real(q0[2]) + share * real(q[2]),
        rest * sign * real(q0[3]) + share * real(q[3]),
    )
    return out


@wp.func
def collider_at(shape: Shape, mocap: Mocap, worldid: int, collider: int, share: real) -> Pose:
    """Pose of a collider after a share of the step."""
    out = Pose()
    out.pos = shape.collider_pos[collider]
    out.mat = shape.collider_mat[collider]
    body = shape.collider_mocap[collider]
    if body >= 0:
        pose = mocap_at(mocap, worldid, body, share)
        out.pos = pose.pos + pose.mat * out.pos
        out.mat = pose.mat * out.mat
    return out


@wp.func(inline=False)
def drift_of(mocap: Mocap, moment: Moment, worldid: int, body: int, point: wp.vec3d) -> wp.vec3d:
    """Mean velocity over the current substep of the material point that is at `point` at its end [m/s]."""
    if not moment.dt > real(0.0):
        return wp.vec3d()
    now = mocap_at(mocap, worldid, body, moment.over)
    then = mocap_at(mocap, worldid, body, moment.over - moment.dt / moment.timestep)
    own = wp.transpose(now.mat) * (point - now.pos)
    return (point - then.pos - then.mat * own) / moment.dt


@wp.func
def finish_mocap(mocap: Mocap, worldid: int):
    """End of the step: mocap bodies have reached their target pose."""
    for k in range(mocap.pos.shape[1]):
        mocap.pos_before[worldid, k] = mocap.pos[worldid, k]
        mocap.quat_before[worldid, k] = mocap.quat[worldid, k]
