"""Scalar rows on dofs, and connects and welds between bodies: their geometry at the start of a step."""

import warp as wp
from mujoco_warp import ObjType

from stickslip.physics.conesweep.layout import EQUALITY, FRICTION, LIMIT, Bodies, Equalities, RowSet, Tree, Work
from stickslip.physics.mjwarp.contact import conjugate, mul_quat
from stickslip.physics.mjwarp.geometry import ball_limit, coupling, equality_frames, nearer_limit
from stickslip.physics.mjwarp.private import EqType, vec12

wp.set_module_options({"enable_backward": False})

JOINT_LIMIT = wp.constant(0)
BALL_LIMIT = wp.constant(1)
TENDON_LIMIT = wp.constant(2)
JOINT_FRICTION = wp.constant(3)
TENDON_FRICTION = wp.constant(4)
JOINT_COUPLING = wp.constant(5)
TENDON_COUPLING = wp.constant(6)

NEAR = wp.constant(0.01)
"""Limits nearer than this, beyond what the step's velocity covers, are active [rad or m]."""


@wp.func_native("""
#if defined(__CUDA_ARCH__)
return worldid % count;
#else
return count == 1 ? 0 : worldid % count;  // a row costs less than a division
#endif
""")
def own_of(worldid: int, count: int) -> int:
    """Which of `count` entries of a field is a world's: its own, or the one that all share."""
    ...


@wp.struct
class Joints:
    """What the rows are made of."""

    source: wp.array[wp.vec2i]  # (nrow,) which of the kinds above, and its id
    equality: bool
    friction: bool
    limit: bool
    qpos0: wp.array2d[float]
    qpos: wp.array2d[float]
    jnt_qposadr: wp.array[int]
    jnt_dofadr: wp.array[int]
    jnt_range: wp.array2d[wp.vec2]
    jnt_margin: wp.array2d[float]
    dof_frictionloss: wp.array2d[float]
    tendon_frictionloss: wp.array2d[float]
    tendon_range: wp.array2d[wp.vec2]
    tendon_margin: wp.array2d[float]
    tendon_length0: wp.array2d[float]
    ten_length: wp.array2d[float]
    ten_J: wp.array2d[float]
    ten_J_rownnz: wp.array[int]
    ten_J_rowadr: wp.array[int]
    eq_obj1id: wp.array[int]
    eq_obj2id: wp.array[int]
    eq_data: wp.array2d[vec12]
    eq_active: wp.array2d[bool]


@wp.func
def copy_tendon(rows: RowSet, joints: Joints, worldid: int, start: int, tenid: int, scale: float):
    """A tendon's Jacobian, scaled, into the values of a row."""
    for k in range(joints.ten_J_rownnz[tenid]):
        rows.val[worldid, start + k] = scale * joints.ten_J[worldid, joints.ten_J_rowadr[tenid] + k]


@wp.func
def make_rows(bodies: Bodies, work: Work, rows: RowSet, joints: Joints, worldid: int, lane: int, nlane: int):
    """Values, residual and bounds of every row that can act in this step."""
    timestep = bodies.timestep[worldid % bodies.timestep.shape[0]]
    for r in range(lane, rows.n, nlane):
        source = joints.source[r]
        id = source[1]
        kind = int(0)
        phi = float(0.0)
        low = float(-1.0e30)
        high = float(1.0e30)
        start = rows.adr[r]
        if (source[0] == JOINT_LIMIT or source[0] == BALL_LIMIT) and joints.limit:
            kind = LIMIT
            low = 0.0
            adr = joints.jnt_qposadr[id]
            bounds = joints.jnt_range[own_of(worldid, joints.jnt_range.shape[0]), id]
            if source[0] == BALL_LIMIT:
                phi, axis = ball_limit(joints.qpos, worldid, adr, bounds)
                for k in range(3):
                    rows.val[worldid, start + k] = -axis[k]
            else:
                phi, sign = nearer_limit(joints.qpos[worldid, adr], bounds)
                rows.val[worldid, start] = sign
            phi -= joints.jnt_margin[own_of(worldid, joints.jnt_margin.shape[0]), id]
        elif source[0] == TENDON_LIMIT and joints.limit:
            kind = LIMIT
            low = 0.0
            bounds = joints.tendon_range[own_of(worldid, joints.tendon_range.shape[0]), id]
            phi, sign = nearer_limit(joints.ten_length[worldid, id], bounds)
            phi -= joints.tendon_margin[own_of(worldid, joints.tendon_margin.shape[0]), id]
            copy_tendon(rows, joints, worldid, start, id, sign)
        elif source[0] == JOINT_FRICTION and joints.friction:
            high = joints.dof_frictionloss[own_of(worldid, joints.dof_frictionloss.shape[0]), id]
            low = -high
            rows.val[worldid, start] = 1.0
            if high > 0.0:
                kind = FRICTION
        elif source[0] == TENDON_FRICTION and joints.friction:
            high = joints.tendon_frictionloss[own_of(worldid, joints.tendon_frictionloss.shape[0]), id]
            low = -high
            copy_tendon(rows, joints, worldid, start, id, 1.0)
            if high > 0.0:
                kind = FRICTION
        elif source[0] == JOINT_COUPLING and joints.equality and joints.eq_active[worldid, id]:
            kind = EQUALITY
            data = joints.eq_data[own_of(worldid, joints.eq_data.shape[0]), id]
            first = joints.eq_obj1id[id]
            second = joints.eq_obj2id[id]
            world0 = own_of(worldid, joints.qpos0.shape[0])
            adr = joints.jnt_qposadr[first]
            moved = joints.qpos[worldid, adr] - joints.qpos0[world0, adr]
            other = float(0.0)
            if second >= 0:
                adr = joints.jnt_qposadr[second]
                other = joints.qpos[worldid, adr] - joints.qpos0[world0, adr]
            phi, slope = coupling(data, moved, other, second >= 0)
            rows.val[worldid, start] = 1.0
            if second >= 0:
                rows.val[worldid, start + 1] = -slope
        elif source[0] == TENDON_COUPLING and joints.equality and joints.eq_active[worldid, id]:
            kind = EQUALITY
            data = joints.eq_data[own_of(worldid, joints.eq_data.shape[0]), id]
            first = joints.eq_obj1id[id]
            second = joints.eq_obj2id[id]
            world0 = own_of(worldid, joints.tendon_length0.shape[0])
            moved = joints.ten_length[worldid, first] - joints.tendon_length0[world0, first]
            other = float(0.0)
            if second >= 0:
                other = joints.ten_length[worldid, second] - joints.tendon_length0[world0, second]
            phi, slope = coupling(data, moved, other, second >= 0)
            copy_tendon(rows, joints, worldid, start, first, 1.0)
            if second >= 0:
                start2 = start + joints.ten_J_rownnz[first]
                copy_tendon(rows, joints, worldid, start2, second, -slope)
        if kind == LIMIT:
            speed = float(0.0)
            for k in range(start, start + rows.nnz[r]):
                dof = rows.col[k]
                speed += wp.abs(rows.val[worldid, k]) * wp.max(
                    wp.abs(work.v_free[worldid, dof]), wp.abs(bodies.qvel[worldid, dof])
                )
            if phi - timestep * speed > NEAR:
                kind = 0
        rows.kind[worldid, r] = kind
        rows.phi[worldid, r] = phi
        rows.low[worldid, r] = low
        rows.high[worldid, r] = high
        f = float(0.0)
        if kind > 0:
            f = wp.clamp(rows.warm_start[worldid, r], low, high)
        rows.f[worldid, r] = f


@wp.struct
class Welds:
    """What the equalities are made of."""

    eqid: wp.array[int]  # (nequality,)
    equality: bool
    eq_type: wp.array[int]
    eq_obj1id: wp.array[int]
    eq_obj2id: wp.array[int]
    eq_objtype: wp.array[int]
    eq_data: wp.array2d[vec12]
    eq_active: wp.array2d[bool]
    site_bodyid: wp.array[int]
    site_quat: wp.array2d[wp.quat]
    site_xpos: wp.array2d[wp.vec3]
    xquat: wp.array2d[wp.quat]


@wp.func
def equality_bodies(welds: Welds, k: int) -> wp.vec2i:
    """The two bodies of a connect or weld, of which it may name sites."""
    eqid = welds.eqid[k]
    body1 = welds.eq_obj1id[eqid]
    body2 = welds.eq_obj2id[eqid]
    if welds.eq_objtype[eqid] == int(ObjType.SITE):
        body1 = welds.site_bodyid[body1]
        body2 = welds.site_bodyid[body2]
    return wp.vec2i(body1, body2)


@wp.func
def rotation_vector(q: wp.quat) -> wp.vec3:
    """Axis times angle, at most pi; the quaternion is stored w, x, y, z."""
    v = wp.vec3(q[1], q[2], q[3])
    w = q[0]
    if w < 0.0:
        v = -v
        w = -w
    sine = wp.length(v)
    if sine < 1.0e-9:
        return 2.0 * v
    return v * (2.0 * wp.atan2(sine, w) / sine)


@wp.func
def make_equalities(
    tree: Tree, bodies: Bodies, equalities: Equalities, welds: Welds, worldid: int, lane: int, nlane: int
):
    """Point, gap and turn of every connect and weld, and its warm start, turned with its first body."""
    for k in range(lane, equalities.n, nlane):
        eqid = welds.eqid[k]
        active = int(0)
        f = wp.spatial_vector()
        if welds.equality and welds.eq_active[worldid, eqid]:
            active = 3
            data = welds.eq_data[own_of(worldid, welds.eq_data.shape[0]), eqid]
            is_weld = welds.eq_type[eqid] == int(EqType.WELD)
            frames = equality_frames(
                welds.eq_type[eqid],
                welds.eq_objtype[eqid],
                welds.eq_obj1id[eqid],
                welds.eq_obj2id[eqid],
                data,
                welds.site_bodyid,
                welds.site_quat,
                bodies.xpos,
                welds.xquat,
                bodies.xmat,
                welds.site_xpos,
                worldid,
            )
            pos1 = frames.pos1
            pos2 = frames.pos2
            quat2 = frames.quat2
            turn = wp.vec3()
            if is_weld and data[10] > 0.0:
                active = 6
                turn = rotation_vector(mul_quat(quat2, conjugate(frames.quat1)))
            point = 0.5 * (pos1 + pos2)
            gap = pos2 - pos1
            if active == 6:  # a weld holds everywhere; about its body its directions hardly depend on each other
                moving = wp.where(tree.body_treeid[frames.body2] >= 0, frames.body2, frames.body1)
                centre = bodies.xpos[worldid, moving]
                gap += wp.cross(turn, centre - point)
                point = centre
            equalities.anchor[worldid, k] = 0.5 * (pos1 + pos2)
            equalities.point[worldid, k] = point
            equalities.error[worldid, k] = wp.spatial_vector(turn, gap)
            equalities.quat[worldid, k] = quat2
            xmat1 = bodies.xmat[worldid, frames.body1]
            kept = equalities.warm_start[worldid, k]
            torque = xmat1 @ wp.spatial_top(kept)
            if active == 3:
                torque = wp.vec3()
            f = wp.spatial_vector(torque, xmat1 @ wp.spatial_bottom(kept))
        equalities.f[worldid, k] = f
        equalities.active[worldid, k] = active
