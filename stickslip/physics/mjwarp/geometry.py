"""Geometry of MuJoCo's constraints on joints, tendons and bodies: position errors and directions, as `wp.func`s.

Each physics has its own law for the force; what the constraint is, is the same for all.
"""

import warp as wp
from mujoco_warp import ObjType

from stickslip.physics.mjwarp.contact import mul_quat
from stickslip.physics.mjwarp.private import EqType, vec12

wp.set_module_options({"enable_backward": False})


@wp.func
def nearer_limit(value: float, bounds: wp.vec2) -> tuple[float, float]:
    """Distance of a joint or tendon from its nearer bound, and the direction away from that: +1 lower, -1 upper."""
    below = value - bounds[0]
    above = bounds[1] - value
    return wp.min(below, above), wp.where(below < above, 1.0, -1.0)


@wp.func
def ball_limit(qpos: wp.array2d[float], worldid: int, adr: int, bounds: wp.vec2) -> tuple[float, wp.vec3]:
    """Angle of a ball joint to its bound, and the axis about which it is turned; the quaternion begins at `adr`."""
    v = wp.vec3(qpos[worldid, adr + 1], qpos[worldid, adr + 2], qpos[worldid, adr + 3])
    angle = 2.0 * wp.atan2(wp.length(v), qpos[worldid, adr])
    axis = wp.normalize(v)
    if angle > wp.pi:  # the other way round is shorter
        angle = 2.0 * wp.pi - angle
        axis = -axis
    return wp.max(bounds[0], bounds[1]) - angle, axis


@wp.func
def polynomial(data: vec12, x: float) -> float:
    """Displacement of the first joint or tendon of a coupling that belongs to the displacement x of the second."""
    return data[0] + x * (data[1] + x * (data[2] + x * (data[3] + x * data[4])))


@wp.func
def polynomial_slope(data: vec12, x: float) -> float:
    """Derivative of `polynomial`."""
    return data[1] + x * (2.0 * data[2] + x * (3.0 * data[3] + x * 4.0 * data[4]))


@wp.func
def coupling(data: vec12, first: float, second: float, has_second: bool) -> tuple[float, float]:
    """Position error of a coupling of joints or tendons, and the slope of the polynomial; from their displacements."""
    error = first - data[0]
    slope = float(0.0)
    if has_second:
        error -= polynomial(data, second) - data[0]
        slope = polynomial_slope(data, second)
    return error, slope


@wp.struct
class Frames:
    """The two bodies of a connect or weld, and the frames on them that it holds together; quaternions w, x, y, z."""

    body1: int
    body2: int
    pos1: wp.vec3
    pos2: wp.vec3
    quat1: wp.quat
    quat2: wp.quat


@wp.func
def equality_frames(
    # Model:
    eq_type: int,
    eq_objtype: int,
    obj1: int,
    obj2: int,
    data: vec12,
    site_bodyid: wp.array[int],
    site_quat: wp.array2d[wp.quat],
    # Data in:
    xpos_in: wp.array2d[wp.vec3],
    xquat_in: wp.array2d[wp.quat],
    xmat_in: wp.array2d[wp.mat33],
    site_xpos_in: wp.array2d[wp.vec3],
    # In:
    worldid: int,
) -> Frames:
    """The frames of a connect or weld between bodies or sites."""
    out = Frames()
    out.body1 = obj1
    out.body2 = obj2
    if eq_objtype == int(ObjType.SITE):
        site_id = worldid % site_quat.shape[0]
        out.body1 = site_bodyid[obj1]
        out.body2 = site_bodyid[obj2]
        out.pos1 = site_xpos_in[worldid, obj1]
        out.pos2 = site_xpos_in[worldid, obj2]
        out.quat1 = mul_quat(xquat_in[worldid, out.body1], site_quat[site_id, obj1])
        out.quat2 = mul_quat(xquat_in[worldid, out.body2], site_quat[site_id, obj2])
    else:
        anchor1 = wp.vec3(data[0], data[1], data[2])
        anchor2 = wp.vec3(data[3], data[4], data[5])
        out.quat1 = xquat_in[worldid, obj1]
        out.quat2 = xquat_in[worldid, obj2]
        if eq_type == int(EqType.WELD):  # MuJoCo stores the anchor of the second body first
            anchor1, anchor2 = anchor2, anchor1
            out.quat1 = mul_quat(out.quat1, wp.quat(data[6], data[7], data[8], data[9]))
        out.pos1 = xpos_in[worldid, obj1] + xmat_in[worldid, obj1] @ anchor1
        out.pos2 = xpos_in[worldid, obj2] + xmat_in[worldid, obj2] @ anchor2
    return out
