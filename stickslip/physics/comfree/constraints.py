"""Equalities, dry friction and limits without Jacobian rows: the same closed form as contacts, equation (8).

A connect or weld acts between two bodies and needs only their twists, like a contact. The others act on joints or
tendons and push on `qfrc_row`. Each writes the rows that MuJoCo's consumers read: kind, id, residual and force, in
MuJoCo's order (connects, welds, other equalities, dry friction, limits).
"""

import warp as wp
from mujoco_warp import JointType, ObjType

from stickslip.physics.comfree.kernels import impedance_force, unilateral
from stickslip.physics.contact import impedance, point_velocity, wrench_at
from stickslip.physics.mjwarp_private import ConstraintType, EqType, vec5, vec12

wp.set_module_options({"enable_backward": False})

MIN_INVERSE_MASS = wp.constant(1.0e-15)
"""MuJoCo's floor under the inverse mass of a row."""


@wp.struct
class Rows:
    """Where rows are written; shapes (nworld,) and (nworld, njmax)."""

    njmax: int
    nefc: wp.array[int]
    type: wp.array2d[int]
    id: wp.array2d[int]
    pos: wp.array2d[float]
    margin: wp.array2d[float]
    D: wp.array2d[float]
    frictionloss: wp.array2d[float]
    force: wp.array2d[float]


@wp.struct
class Gains:
    """ComFree's k_user and d_user, timestep and softplus sharpness; shapes (*,)."""

    timestep: wp.array[float]
    stiffness: wp.array[float]
    damping: wp.array[float]
    smoothing: float


@wp.func
def row_mass(solimp: vec5, phi: float, inverse: float) -> float:
    """M(phi) = r / (1 - r) over MuJoCo's approximate inverse mass of the row, equation (12)."""
    r = impedance(solimp, phi)
    return 1.0 / wp.max(inverse * (1.0 - r) / r, MIN_INVERSE_MASS)


@wp.func
def row_force(gains: Gains, worldid: int, mass: float, u: float, phi: float) -> float:
    """The impedance force of (8) on one row, before its clamp."""
    timestep = gains.timestep[worldid % gains.timestep.shape[0]]
    k = gains.stiffness[worldid % gains.stiffness.shape[0]]
    d = gains.damping[worldid % gains.damping.shape[0]]
    return impedance_force(mass, k, d, timestep, u, phi)


@wp.func
def free_velocity(
    gains: Gains, qvel_in: wp.array2d[float], qacc_free_in: wp.array2d[float], worldid: int, dofid: int
) -> float:
    """v_s of one dof, equation (2)."""
    timestep = gains.timestep[worldid % gains.timestep.shape[0]]
    return qvel_in[worldid, dofid] + timestep * qacc_free_in[worldid, dofid]


@wp.func
def store_row(
    rows: Rows,
    worldid: int,
    row: int,
    kind: int,
    id: int,
    pos: float,
    margin: float,
    mass: float,
    frictionloss: float,
    force: float,
):
    if row < rows.njmax:
        rows.type[worldid, row] = kind
        rows.id[worldid, row] = id
        rows.pos[worldid, row] = pos
        rows.margin[worldid, row] = margin
        rows.D[worldid, row] = mass
        rows.frictionloss[worldid, row] = frictionloss
        rows.force[worldid, row] = force


@wp.func
def mul_quat(a: wp.quat, b: wp.quat) -> wp.quat:
    """Product of quaternions stored as MuJoCo stores them: w, x, y, z."""
    va = wp.vec3(a[1], a[2], a[3])
    vb = wp.vec3(b[1], b[2], b[3])
    v = a[0] * vb + b[0] * va + wp.cross(va, vb)
    return wp.quat(a[0] * b[0] - wp.dot(va, vb), v[0], v[1], v[2])


@wp.func
def conjugate(q: wp.quat) -> wp.quat:
    return wp.quat(q[0], -q[1], -q[2], -q[3])


@wp.func
def weld_rotation(conj2: wp.quat, axis: wp.vec3, quat1: wp.quat, scale: float) -> wp.vec3:
    """Rate of the weld's rotation residual for a relative angular velocity: scale/2 vec(q2* (0, omega) q1)."""
    q = mul_quat(mul_quat(conj2, wp.quat(0.0, axis[0], axis[1], axis[2])), quat1)
    return 0.5 * scale * wp.vec3(q[1], q[2], q[3])


@wp.kernel
def _resolve_body_equality(
    # Model:
    gains: Gains,
    body_rootid: wp.array[int],
    body_weldid: wp.array[int],
    body_invweight0: wp.array2d[wp.vec2],
    site_bodyid: wp.array[int],
    site_quat: wp.array2d[wp.quat],
    eq_type: wp.array[int],
    eq_obj1id: wp.array[int],
    eq_obj2id: wp.array[int],
    eq_objtype: wp.array[int],
    eq_solimp: wp.array2d[vec5],
    eq_data: wp.array2d[vec12],
    eq_adr: wp.array[int],
    # Data in:
    eq_active_in: wp.array2d[bool],
    xpos_in: wp.array2d[wp.vec3],
    xquat_in: wp.array2d[wp.quat],
    xmat_in: wp.array2d[wp.mat33],
    site_xpos_in: wp.array2d[wp.vec3],
    subtree_com_in: wp.array2d[wp.vec3],
    # In:
    twist_in: wp.array2d[wp.spatial_vector],
    # Data out:
    rows: Rows,
    ne_out: wp.array[int],
    # Out:
    wrench_out: wp.array2d[wp.spatial_vector],
):
    """A connect (3 rows) or weld (6 rows) between two bodies or sites."""
    worldid, index = wp.tid()
    eqid = eq_adr[index]
    if not eq_active_in[worldid, eqid]:
        return
    data = eq_data[worldid % eq_data.shape[0], eqid]
    is_weld = eq_type[eqid] == int(EqType.WELD)
    body1 = eq_obj1id[eqid]
    body2 = eq_obj2id[eqid]
    anchor1 = wp.vec3(data[0], data[1], data[2])
    anchor2 = wp.vec3(data[3], data[4], data[5])
    if is_weld:  # MuJoCo stores the anchor of the second body first
        anchor1, anchor2 = anchor2, anchor1
    quat1 = wp.quat(1.0, 0.0, 0.0, 0.0)
    quat2 = wp.quat(1.0, 0.0, 0.0, 0.0)
    pos1 = wp.vec3()
    pos2 = wp.vec3()
    if eq_objtype[eqid] == int(ObjType.SITE):
        pos1 = site_xpos_in[worldid, body1]
        pos2 = site_xpos_in[worldid, body2]
        if is_weld:
            site_id = worldid % site_quat.shape[0]
            quat1 = mul_quat(xquat_in[worldid, site_bodyid[body1]], site_quat[site_id, body1])
            quat2 = mul_quat(xquat_in[worldid, site_bodyid[body2]], site_quat[site_id, body2])
        body1 = site_bodyid[body1]
        body2 = site_bodyid[body2]
    else:
        pos1 = xpos_in[worldid, body1] + xmat_in[worldid, body1] @ anchor1
        pos2 = xpos_in[worldid, body2] + xmat_in[worldid, body2] @ anchor2
        if is_weld:
            quat1 = mul_quat(xquat_in[worldid, body1], wp.quat(data[6], data[7], data[8], data[9]))
            quat2 = xquat_in[worldid, body2]

    arm1 = pos1 - subtree_com_in[worldid, body_rootid[body1]]
    arm2 = pos2 - subtree_com_in[worldid, body_rootid[body2]]
    twist1 = twist_in[worldid, body1]
    twist2 = twist_in[worldid, body2]
    gap = pos1 - pos2
    velocity = point_velocity(twist1, arm1) - point_velocity(twist2, arm2)
    scale = data[10]
    conj2 = conjugate(quat2)
    turn = wp.vec3()
    if is_weld:
        error = mul_quat(conj2, quat1)
        turn = scale * wp.vec3(error[1], error[2], error[3])

    invweight_id = worldid % body_invweight0.shape[0]
    inverse = body_invweight0[invweight_id, body1] + body_invweight0[invweight_id, body2]
    solimp = eq_solimp[worldid % eq_solimp.shape[0], eqid]
    size = wp.sqrt(wp.length_sq(gap) + wp.length_sq(turn))
    nrow = 3
    if is_weld:
        nrow = 6
    wp.atomic_add(ne_out, worldid, nrow)
    base = wp.atomic_add(rows.nefc, worldid, nrow)

    force = wp.vec3()
    torque = wp.vec3()
    mass = row_mass(solimp, size, inverse[0])
    kind = int(ConstraintType.EQUALITY)
    for i in range(3):
        force[i] = row_force(gains, worldid, mass, velocity[i], gap[i])
        store_row(rows, worldid, base + i, kind, eqid, gap[i], 0.0, mass, 0.0, force[i])
    if is_weld:
        spin = wp.spatial_top(twist1) - wp.spatial_top(twist2)
        rate = weld_rotation(conj2, spin, quat1, scale)
        mass = row_mass(solimp, size, inverse[1])
        moment = wp.vec3()
        for i in range(3):
            moment[i] = row_force(gains, worldid, mass, rate[i], turn[i])
            store_row(rows, worldid, base + 3 + i, kind, eqid, turn[i], 0.0, mass, 0.0, moment[i])
        # the transpose of omega -> rate, axis by axis
        torque = wp.vec3(
            wp.dot(weld_rotation(conj2, wp.vec3(1.0, 0.0, 0.0), quat1, scale), moment),
            wp.dot(weld_rotation(conj2, wp.vec3(0.0, 1.0, 0.0), quat1, scale), moment),
            wp.dot(weld_rotation(conj2, wp.vec3(0.0, 0.0, 1.0), quat1, scale), moment),
        )
    if body_weldid[body1] != 0:
        wp.atomic_add(wrench_out, worldid, body1, wrench_at(force, torque, arm1))
    if body_weldid[body2] != 0:
        wp.atomic_add(wrench_out, worldid, body2, -wrench_at(force, torque, arm2))


@wp.func
def polynomial(data: vec12, x: float) -> float:
    return data[0] + x * (data[1] + x * (data[2] + x * (data[3] + x * data[4])))


@wp.func
def polynomial_slope(data: vec12, x: float) -> float:
    return data[1] + x * (2.0 * data[2] + x * (3.0 * data[3] + x * 4.0 * data[4]))


@wp.kernel
def _resolve_joint_equality(
    # Model:
    gains: Gains,
    qpos0: wp.array2d[float],
    jnt_qposadr: wp.array[int],
    jnt_dofadr: wp.array[int],
    dof_invweight0: wp.array2d[float],
    eq_obj1id: wp.array[int],
    eq_obj2id: wp.array[int],
    eq_solimp: wp.array2d[vec5],
    eq_data: wp.array2d[vec12],
    eq_adr: wp.array[int],
    # Data in:
    qpos_in: wp.array2d[float],
    qvel_in: wp.array2d[float],
    eq_active_in: wp.array2d[bool],
    # In:
    qacc_free_in: wp.array2d[float],
    # Data out:
    rows: Rows,
    ne_out: wp.array[int],
    # Out:
    qfrc_row_out: wp.array2d[float],
):
    """The first joint follows a polynomial of the second, or stays where it is."""
    worldid, index = wp.tid()
    eqid = eq_adr[index]
    if not eq_active_in[worldid, eqid]:
        return
    data = eq_data[worldid % eq_data.shape[0], eqid]
    jnt1 = eq_obj1id[eqid]
    jnt2 = eq_obj2id[eqid]
    qpos0_id = worldid % qpos0.shape[0]
    invweight_id = worldid % dof_invweight0.shape[0]
    dof1 = jnt_dofadr[jnt1]
    phi = qpos_in[worldid, jnt_qposadr[jnt1]] - qpos0[qpos0_id, jnt_qposadr[jnt1]] - data[0]
    u = free_velocity(gains, qvel_in, qacc_free_in, worldid, dof1)
    inverse = dof_invweight0[invweight_id, dof1]
    slope = float(0.0)
    dof2 = int(-1)
    if jnt2 >= 0:
        dof2 = jnt_dofadr[jnt2]
        x = qpos_in[worldid, jnt_qposadr[jnt2]] - qpos0[qpos0_id, jnt_qposadr[jnt2]]
        phi -= polynomial(data, x) - data[0]
        slope = polynomial_slope(data, x)
        u -= slope * free_velocity(gains, qvel_in, qacc_free_in, worldid, dof2)
        inverse += dof_invweight0[invweight_id, dof2]
    mass = row_mass(eq_solimp[worldid % eq_solimp.shape[0], eqid], phi, inverse)
    force = row_force(gains, worldid, mass, u, phi)
    wp.atomic_add(ne_out, worldid, 1)
    row = wp.atomic_add(rows.nefc, worldid, 1)
    store_row(rows, worldid, row, int(ConstraintType.EQUALITY), eqid, phi, 0.0, mass, 0.0, force)
    wp.atomic_add(qfrc_row_out, worldid, dof1, force)
    if dof2 >= 0:
        wp.atomic_add(qfrc_row_out, worldid, dof2, -slope * force)


@wp.struct
class Tendons:
    """Lengths and Jacobians of tendons, as MuJoCo Warp keeps them."""

    J_rownnz: wp.array[int]
    J_rowadr: wp.array[int]
    J_colind: wp.array[int]
    invweight0: wp.array2d[float]
    J: wp.array2d[float]
    length: wp.array2d[float]


@wp.func
def tendon_free_velocity(
    gains: Gains,
    tendons: Tendons,
    qvel_in: wp.array2d[float],
    qacc_free_in: wp.array2d[float],
    worldid: int,
    tenid: int,
) -> float:
    u = float(0.0)
    adr = tendons.J_rowadr[tenid]
    for i in range(tendons.J_rownnz[tenid]):
        dofid = tendons.J_colind[adr + i]
        u += tendons.J[worldid, adr + i] * free_velocity(gains, qvel_in, qacc_free_in, worldid, dofid)
    return u


@wp.func
def pull_tendon(tendons: Tendons, worldid: int, tenid: int, force: float, qfrc_row_out: wp.array2d[float]):
    """Add J' force of a tendon."""
    adr = tendons.J_rowadr[tenid]
    for i in range(tendons.J_rownnz[tenid]):
        wp.atomic_add(qfrc_row_out, worldid, tendons.J_colind[adr + i], tendons.J[worldid, adr + i] * force)


@wp.kernel
def _resolve_tendon_equality(
    # Model:
    gains: Gains,
    tendons: Tendons,
    tendon_length0: wp.array2d[float],
    eq_obj1id: wp.array[int],
    eq_obj2id: wp.array[int],
    eq_solimp: wp.array2d[vec5],
    eq_data: wp.array2d[vec12],
    eq_adr: wp.array[int],
    # Data in:
    qvel_in: wp.array2d[float],
    eq_active_in: wp.array2d[bool],
    # In:
    qacc_free_in: wp.array2d[float],
    # Data out:
    rows: Rows,
    ne_out: wp.array[int],
    # Out:
    qfrc_row_out: wp.array2d[float],
):
    """The length of the first tendon follows a polynomial of the second's, or stays as it is."""
    worldid, index = wp.tid()
    eqid = eq_adr[index]
    if not eq_active_in[worldid, eqid]:
        return
    data = eq_data[worldid % eq_data.shape[0], eqid]
    ten1 = eq_obj1id[eqid]
    ten2 = eq_obj2id[eqid]
    length0_id = worldid % tendon_length0.shape[0]
    invweight_id = worldid % tendons.invweight0.shape[0]
    phi = tendons.length[worldid, ten1] - tendon_length0[length0_id, ten1] - data[0]
    u = tendon_free_velocity(gains, tendons, qvel_in, qacc_free_in, worldid, ten1)
    inverse = tendons.invweight0[invweight_id, ten1]
    slope = float(0.0)
    if ten2 >= 0:
        x = tendons.length[worldid, ten2] - tendon_length0[length0_id, ten2]
        phi -= polynomial(data, x) - data[0]
        slope = polynomial_slope(data, x)
        u -= slope * tendon_free_velocity(gains, tendons, qvel_in, qacc_free_in, worldid, ten2)
        inverse += tendons.invweight0[invweight_id, ten2]
    mass = row_mass(eq_solimp[worldid % eq_solimp.shape[0], eqid], phi, inverse)
    force = row_force(gains, worldid, mass, u, phi)
    wp.atomic_add(ne_out, worldid, 1)
    row = wp.atomic_add(rows.nefc, worldid, 1)
    store_row(rows, worldid, row, int(ConstraintType.EQUALITY), eqid, phi, 0.0, mass, 0.0, force)
    pull_tendon(tendons, worldid, ten1, force, qfrc_row_out)
    if ten2 >= 0:
        pull_tendon(tendons, worldid, ten2, -slope * force, qfrc_row_out)


@wp.kernel
def _resolve_friction(
    # Model:
    nv: int,
    gains: Gains,
    tendons: Tendons,
    dof_solimp: wp.array2d[vec5],
    dof_frictionloss: wp.array2d[float],
    dof_invweight0: wp.array2d[float],
    tendon_solimp_fri: wp.array2d[vec5],
    tendon_frictionloss: wp.array2d[float],
    # Data in:
    qvel_in: wp.array2d[float],
    # In:
    qacc_free_in: wp.array2d[float],
    # Data out:
    rows: Rows,
    nf_out: wp.array[int],
    # Out:
    qfrc_row_out: wp.array2d[float],
):
    """Dry friction of dofs (the first nv threads of a world) and tendons (the rest), within +-frictionloss."""
    worldid, index = wp.tid()
    if index < nv:
        limit = dof_frictionloss[worldid % dof_frictionloss.shape[0], index]
        if limit <= 0.0:
            return
        inverse = dof_invweight0[worldid % dof_invweight0.shape[0], index]
        mass = row_mass(dof_solimp[worldid % dof_solimp.shape[0], index], 0.0, inverse)
        u = free_velocity(gains, qvel_in, qacc_free_in, worldid, index)
        force = wp.clamp(row_force(gains, worldid, mass, u, 0.0), -limit, limit)
        wp.atomic_add(nf_out, worldid, 1)
        row = wp.atomic_add(rows.nefc, worldid, 1)
        store_row(rows, worldid, row, int(ConstraintType.FRICTION_DOF), index, 0.0, 0.0, mass, limit, force)
        wp.atomic_add(qfrc_row_out, worldid, index, force)
    else:
        tenid = index - nv
        limit = tendon_frictionloss[worldid % tendon_frictionloss.shape[0], tenid]
        if limit <= 0.0:
            return
        inverse = tendons.invweight0[worldid % tendons.invweight0.shape[0], tenid]
        mass = row_mass(tendon_solimp_fri[worldid % tendon_solimp_fri.shape[0], tenid], 0.0, inverse)
        u = tendon_free_velocity(gains, tendons, qvel_in, qacc_free_in, worldid, tenid)
        force = wp.clamp(row_force(gains, worldid, mass, u, 0.0), -limit, limit)
        wp.atomic_add(nf_out, worldid, 1)
        row = wp.atomic_add(rows.nefc, worldid, 1)
        store_row(rows, worldid, row, int(ConstraintType.FRICTION_TENDON), tenid, 0.0, 0.0, mass, limit, force)
        pull_tendon(tendons, worldid, tenid, force, qfrc_row_out)


@wp.kernel
def _resolve_joint_limit(
    # Model:
    gains: Gains,
    jnt_type: wp.array[int],
    jnt_qposadr: wp.array[int],
    jnt_dofadr: wp.array[int],
    jnt_solimp: wp.array2d[vec5],
    jnt_range: wp.array2d[wp.vec2],
    jnt_margin: wp.array2d[float],
    dof_invweight0: wp.array2d[float],
    jnt_adr: wp.array[int],
    # Data in:
    qpos_in: wp.array2d[float],
    qvel_in: wp.array2d[float],
    # In:
    qacc_free_in: wp.array2d[float],
    # Data out:
    rows: Rows,
    nl_out: wp.array[int],
    # Out:
    qfrc_row_out: wp.array2d[float],
):
    """Limit of a hinge, slide or ball joint, pushing only."""
    worldid, index = wp.tid()
    jntid = jnt_adr[index]
    adr = jnt_qposadr[jntid]
    dofid = jnt_dofadr[jntid]
    bounds = jnt_range[worldid % jnt_range.shape[0], jntid]
    margin = jnt_margin[worldid % jnt_margin.shape[0], jntid]
    is_ball = jnt_type[jntid] == int(JointType.BALL)
    dist = float(0.0)
    sign = float(1.0)
    axis = wp.vec3()
    if is_ball:
        v = wp.vec3(qpos_in[worldid, adr + 1], qpos_in[worldid, adr + 2], qpos_in[worldid, adr + 3])
        sine = wp.length(v)
        angle = 2.0 * wp.atan2(sine, qpos_in[worldid, adr])
        axis = wp.normalize(v)
        if angle > wp.pi:  # the other way round is shorter
            angle = 2.0 * wp.pi - angle
            axis = -axis
        dist = wp.max(bounds[0], bounds[1]) - angle
    else:
        low = qpos_in[worldid, adr] - bounds[0]
        high = bounds[1] - qpos_in[worldid, adr]
        dist = wp.min(low, high)
        if low >= high:
            sign = -1.0
    phi = dist - margin
    if phi >= 0.0:
        return
    u = float(0.0)
    if is_ball:
        for i in range(3):
            u -= axis[i] * free_velocity(gains, qvel_in, qacc_free_in, worldid, dofid + i)
    else:
        u = sign * free_velocity(gains, qvel_in, qacc_free_in, worldid, dofid)
    inverse = dof_invweight0[worldid % dof_invweight0.shape[0], dofid]
    mass = row_mass(jnt_solimp[worldid % jnt_solimp.shape[0], jntid], phi, inverse)
    force = unilateral(row_force(gains, worldid, mass, u, phi), gains.smoothing)
    wp.atomic_add(nl_out, worldid, 1)
    row = wp.atomic_add(rows.nefc, worldid, 1)
    store_row(rows, worldid, row, int(ConstraintType.LIMIT_JOINT), jntid, dist, margin, mass, 0.0, force)
    if is_ball:
        for i in range(3):
            wp.atomic_add(qfrc_row_out, worldid, dofid + i, -axis[i] * force)
    else:
        wp.atomic_add(qfrc_row_out, worldid, dofid, sign * force)


@wp.kernel
def _resolve_tendon_limit(
    # Model:
    gains: Gains,
    tendons: Tendons,
    tendon_solimp_lim: wp.array2d[vec5],
    tendon_range: wp.array2d[wp.vec2],
    tendon_margin: wp.array2d[float],
    ten_adr: wp.array[int],
    # Data in:
    qvel_in: wp.array2d[float],
    # In:
    qacc_free_in: wp.array2d[float],
    # Data out:
    rows: Rows,
    nl_out: wp.array[int],
    # Out:
    qfrc_row_out: wp.array2d[float],
):
    """Limit of a tendon's length, pushing only."""
    worldid, index = wp.tid()
    tenid = ten_adr[index]
    bounds = tendon_range[worldid % tendon_range.shape[0], tenid]
    margin = tendon_margin[worldid % tendon_margin.shape[0], tenid]
    low = tendons.length[worldid, tenid] - bounds[0]
    high = bounds[1] - tendons.length[worldid, tenid]
    dist = wp.min(low, high)
    phi = dist - margin
    if phi >= 0.0:
        return
    sign = float(1.0)
    if low >= high:
        sign = -1.0
    u = sign * tendon_free_velocity(gains, tendons, qvel_in, qacc_free_in, worldid, tenid)
    inverse = tendons.invweight0[worldid % tendons.invweight0.shape[0], tenid]
    mass = row_mass(tendon_solimp_lim[worldid % tendon_solimp_lim.shape[0], tenid], phi, inverse)
    force = unilateral(row_force(gains, worldid, mass, u, phi), gains.smoothing)
    wp.atomic_add(nl_out, worldid, 1)
    row = wp.atomic_add(rows.nefc, worldid, 1)
    store_row(rows, worldid, row, int(ConstraintType.LIMIT_TENDON), tenid, dist, margin, mass, 0.0, force)
    pull_tendon(tendons, worldid, tenid, sign * force, qfrc_row_out)
