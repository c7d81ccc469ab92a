"""Equality constraints without Jacobian rows, by the closed form of contacts, equation (8), and never clamped.

A connect or weld acts between two bodies and needs only their twists. Couplings of joints and of tendons act on dofs.
"""

import mujoco_warp as mjw
import warp as wp

from stickslip.physics.comfree.model import Model
from stickslip.physics.comfree.rows import Gains, Workspace, count_work, row_force, row_mass
from stickslip.physics.mjwarp.contact import conjugate, mul_quat, point_velocity, wrench_at
from stickslip.physics.mjwarp.geometry import coupling, equality_frames
from stickslip.physics.mjwarp.private import ConstraintType, EqType, vec5, vec12
from stickslip.physics.mjwarp.rows import (
    Rows,
    Tendons,
    free_velocity,
    pull_tendon,
    store_row,
    tendon_free_velocity,
)

wp.set_module_options({"enable_backward": False})


@wp.func
def weld_rotation(conj2: wp.quat, axis: wp.vec3, quat1: wp.quat, scale: float) -> wp.vec3:
    """Rate of the weld's rotation residual for a relative angular velocity: scale/2 vec(q2* (0, omega) q1)."""
    q = mul_quat(mul_quat(conj2, wp.quat(0.0, axis[0], axis[1], axis[2])), quat1)
    return 0.5 * scale * wp.vec3(q[1], q[2], q[3])


@wp.struct
class Equalities:
    """The equality constraints of the model; `order` lists connects, welds, joint and then tendon couplings."""

    type: wp.array[int]
    obj1id: wp.array[int]
    obj2id: wp.array[int]
    objtype: wp.array[int]
    solimp: wp.array2d[vec5]
    data: wp.array2d[vec12]
    order: wp.array[int]


@wp.func
def row_count(kind: int) -> int:
    if kind == int(EqType.WELD):
        return 6
    if kind == int(EqType.CONNECT):
        return 3
    return 1


@wp.func
def resolve_bodies(
    # Model:
    gains: Gains,
    equalities: Equalities,
    body_rootid: wp.array[int],
    body_weldid: wp.array[int],
    body_invweight0: wp.array2d[wp.vec2],
    site_bodyid: wp.array[int],
    site_quat: wp.array2d[wp.quat],
    # Data in:
    xpos_in: wp.array2d[wp.vec3],
    xquat_in: wp.array2d[wp.quat],
    xmat_in: wp.array2d[wp.mat33],
    site_xpos_in: wp.array2d[wp.vec3],
    subtree_com_in: wp.array2d[wp.vec3],
    # In:
    twist_in: wp.array2d[wp.spatial_vector],
    worldid: int,
    eqid: int,
    base: int,
    # Data out:
    rows: Rows,
    # Out:
    wrench_out: wp.array2d[wp.spatial_vector],
    work_out: wp.array[float],
):
    """A connect (3 rows) or weld (6 rows) between two bodies or sites."""
    data = equalities.data[worldid % equalities.data.shape[0], eqid]
    is_weld = equalities.type[eqid] == int(EqType.WELD)
    frames = equality_frames(
        equalities.type[eqid],
        equalities.objtype[eqid],
        equalities.obj1id[eqid],
        equalities.obj2id[eqid],
        data,
        site_bodyid,
        site_quat,
        xpos_in,
        xquat_in,
        xmat_in,
        site_xpos_in,
        worldid,
    )
    body1 = frames.body1
    body2 = frames.body2
    quat1 = frames.quat1
    pos1 = frames.pos1
    pos2 = frames.pos2
    arm1 = pos1 - subtree_com_in[worldid, body_rootid[body1]]
    arm2 = pos2 - subtree_com_in[worldid, body_rootid[body2]]
    twist1 = twist_in[worldid, body1]
    twist2 = twist_in[worldid, body2]
    gap = pos1 - pos2
    velocity = point_velocity(twist1, arm1) - point_velocity(twist2, arm2)
    scale = data[10]
    conj2 = conjugate(frames.quat2)
    turn = wp.vec3()
    if is_weld:
        error = mul_quat(conj2, quat1)
        turn = scale * wp.vec3(error[1], error[2], error[3])

    invweight_id = worldid % body_invweight0.shape[0]
    inverse = body_invweight0[invweight_id, body1] + body_invweight0[invweight_id, body2]
    solimp = equalities.solimp[worldid % equalities.solimp.shape[0], eqid]
    size = wp.sqrt(wp.length_sq(gap) + wp.length_sq(turn))
    force = wp.vec3()
    torque = wp.vec3()
    mass = row_mass(gains, worldid, solimp, size, inverse[0])
    kind = int(ConstraintType.EQUALITY)
    for i in range(3):
        force[i] = row_force(gains, worldid, mass, velocity[i], gap[i])
        count_work(gains, worldid, mass, force[i], force[i], work_out)
        store_row(rows, worldid, base + i, kind, eqid, gap[i], 0.0, mass, 0.0, force[i])
    if is_weld:
        spin = wp.spatial_top(twist1) - wp.spatial_top(twist2)
        rate = weld_rotation(conj2, spin, quat1, scale)
        mass = row_mass(gains, worldid, solimp, size, inverse[1])
        moment = wp.vec3()
        for i in range(3):
            moment[i] = row_force(gains, worldid, mass, rate[i], turn[i])
            count_work(gains, worldid, mass, moment[i], moment[i], work_out)
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
def resolve_joints(
    # Model:
    gains: Gains,
    equalities: Equalities,
    qpos0: wp.array2d[float],
    jnt_qposadr: wp.array[int],
    jnt_dofadr: wp.array[int],
    dof_invweight0: wp.array2d[float],
    # Data in:
    qpos_in: wp.array2d[float],
    qvel_in: wp.array2d[float],
    # In:
    qacc_free_in: wp.array2d[float],
    worldid: int,
    eqid: int,
    base: int,
    # Data out:
    rows: Rows,
    # Out:
    qfrc_row_out: wp.array2d[float],
    work_out: wp.array[float],
):
    """The first joint follows a polynomial of the second, or stays where it is."""
    data = equalities.data[worldid % equalities.data.shape[0], eqid]
    jnt1 = equalities.obj1id[eqid]
    jnt2 = equalities.obj2id[eqid]
    qpos0_id = worldid % qpos0.shape[0]
    invweight_id = worldid % dof_invweight0.shape[0]
    dof1 = jnt_dofadr[jnt1]
    first = qpos_in[worldid, jnt_qposadr[jnt1]] - qpos0[qpos0_id, jnt_qposadr[jnt1]]
    u = free_velocity(gains.timestep, qvel_in, qacc_free_in, worldid, dof1)
    inverse = dof_invweight0[invweight_id, dof1]
    second = float(0.0)
    if jnt2 >= 0:
        second = qpos_in[worldid, jnt_qposadr[jnt2]] - qpos0[qpos0_id, jnt_qposadr[jnt2]]
    phi, slope = coupling(data, first, second, jnt2 >= 0)
    dof2 = int(-1)
    if jnt2 >= 0:
        dof2 = jnt_dofadr[jnt2]
        u -= slope * free_velocity(gains.timestep, qvel_in, qacc_free_in, worldid, dof2)
        inverse += slope * slope * dof_invweight0[invweight_id, dof2]
    mass = row_mass(gains, worldid, equalities.solimp[worldid % equalities.solimp.shape[0], eqid], phi, inverse)
    force = row_force(gains, worldid, mass, u, phi)
    count_work(gains, worldid, mass, force, force, work_out)
    store_row(rows, worldid, base, int(ConstraintType.EQUALITY), eqid, phi, 0.0, mass, 0.0, force)
    wp.atomic_add(qfrc_row_out, worldid, dof1, force)
    if dof2 >= 0:
        wp.atomic_add(qfrc_row_out, worldid, dof2, -slope * force)


@wp.func
def resolve_tendons(
    # Model:
    gains: Gains,
    equalities: Equalities,
    tendons: Tendons,
    tendon_length0: wp.array2d[float],
    # Data in:
    qvel_in: wp.array2d[float],
    # In:
    qacc_free_in: wp.array2d[float],
    worldid: int,
    eqid: int,
    base: int,
    # Data out:
    rows: Rows,
    # Out:
    qfrc_row_out: wp.array2d[float],
    work_out: wp.array[float],
):
    """The length of the first tendon follows a polynomial of the second's, or stays as it is."""
    data = equalities.data[worldid % equalities.data.shape[0], eqid]
    ten1 = equalities.obj1id[eqid]
    ten2 = equalities.obj2id[eqid]
    length0_id = worldid % tendon_length0.shape[0]
    invweight_id = worldid % tendons.invweight0.shape[0]
    first = tendons.length[worldid, ten1] - tendon_length0[length0_id, ten1]
    u = tendon_free_velocity(gains.timestep, tendons, qvel_in, qacc_free_in, worldid, ten1)
    inverse = tendons.invweight0[invweight_id, ten1]
    second = float(0.0)
    if ten2 >= 0:
        second = tendons.length[worldid, ten2] - tendon_length0[length0_id, ten2]
    phi, slope = coupling(data, first, second, ten2 >= 0)
    if ten2 >= 0:
        u -= slope * tendon_free_velocity(gains.timestep, tendons, qvel_in, qacc_free_in, worldid, ten2)
        inverse += slope * slope * tendons.invweight0[invweight_id, ten2]
    mass = row_mass(gains, worldid, equalities.solimp[worldid % equalities.solimp.shape[0], eqid], phi, inverse)
    force = row_force(gains, worldid, mass, u, phi)
    count_work(gains, worldid, mass, force, force, work_out)
    store_row(rows, worldid, base, int(ConstraintType.EQUALITY), eqid, phi, 0.0, mass, 0.0, force)
    pull_tendon(tendons, worldid, ten1, force, qfrc_row_out)
    if ten2 >= 0:
        pull_tendon(tendons, worldid, ten2, -slope * force, qfrc_row_out)


@wp.kernel
def _resolve_equality(
    # Model:
    gains: Gains,
    equalities: Equalities,
    tendons: Tendons,
    qpos0: wp.array2d[float],
    body_rootid: wp.array[int],
    body_weldid: wp.array[int],
    body_invweight0: wp.array2d[wp.vec2],
    jnt_qposadr: wp.array[int],
    jnt_dofadr: wp.array[int],
    dof_invweight0: wp.array2d[float],
    site_bodyid: wp.array[int],
    site_quat: wp.array2d[wp.quat],
    tendon_length0: wp.array2d[float],
    # Data in:
    qpos_in: wp.array2d[float],
    qvel_in: wp.array2d[float],
    eq_active_in: wp.array2d[bool],
    xpos_in: wp.array2d[wp.vec3],
    xquat_in: wp.array2d[wp.quat],
    xmat_in: wp.array2d[wp.mat33],
    site_xpos_in: wp.array2d[wp.vec3],
    subtree_com_in: wp.array2d[wp.vec3],
    # In:
    qacc_free_in: wp.array2d[float],
    twist_in: wp.array2d[wp.spatial_vector],
    # Data out:
    rows: Rows,
    ne_out: wp.array[int],
    # Out:
    wrench_out: wp.array2d[wp.spatial_vector],
    qfrc_row_out: wp.array2d[float],
    work_out: wp.array[float],
):
    """One equality constraint; its rows follow those of the active ones before it, so their order is MuJoCo's."""
    worldid, index = wp.tid()
    base = int(0)
    for i in range(index):
        if eq_active_in[worldid, equalities.order[i]]:
            base += row_count(equalities.type[equalities.order[i]])
    eqid = equalities.order[index]
    kind = equalities.type[eqid]
    active = eq_active_in[worldid, eqid]
    if index == equalities.order.shape[0] - 1:
        ne = base
        if active:
            ne += row_count(kind)
        ne_out[worldid] = ne
        rows.nefc[worldid] = ne
    if not active:
        return
    if kind == int(EqType.JOINT):
        resolve_joints(
            gains,
            equalities,
            qpos0,
            jnt_qposadr,
            jnt_dofadr,
            dof_invweight0,
            qpos_in,
            qvel_in,
            qacc_free_in,
            worldid,
            eqid,
            base,
            rows,
            qfrc_row_out,
            work_out,
        )
    elif kind == int(EqType.TENDON):
        resolve_tendons(
            gains,
            equalities,
            tendons,
            tendon_length0,
            qvel_in,
            qacc_free_in,
            worldid,
            eqid,
            base,
            rows,
            qfrc_row_out,
            work_out,
        )
    else:
        resolve_bodies(
            gains,
            equalities,
            body_rootid,
            body_weldid,
            body_invweight0,
            site_bodyid,
            site_quat,
            xpos_in,
            xquat_in,
            xmat_in,
            site_xpos_in,
            subtree_com_in,
            twist_in,
            worldid,
            eqid,
            base,
            rows,
            wrench_out,
            work_out,
        )


def resolve_equalities(m: Model, d: mjw.Data, s: Workspace) -> None:
    """Add the forces of all equality constraints."""
    equalities = Equalities()
    equalities.type, equalities.objtype = m.eq_type, m.eq_objtype
    equalities.obj1id, equalities.obj2id = m.eq_obj1id, m.eq_obj2id
    equalities.solimp, equalities.data, equalities.order = m.eq_solimp, m.eq_data, m.structure.eq_order
    wp.launch(
        _resolve_equality,
        dim=(d.nworld, m.structure.eq_order.size),
        inputs=[
            s.gains,
            equalities,
            s.tendons,
            m.qpos0,
            m.body_rootid,
            m.body_weldid,
            m.body_invweight0,
            m.jnt_qposadr,
            m.jnt_dofadr,
            m.dof_invweight0,
            m.site_bodyid,
            m.site_quat,
            m.tendon_length0,
            d.qpos,
            d.qvel,
            d.eq_active,
            d.xpos,
            d.xquat,
            d.xmat,
            d.site_xpos,
            d.subtree_com,
            s.qacc_free,
            s.twist,
        ],
        outputs=[s.rows, d.ne, s.wrench, s.qfrc_row, s.work],
    )
