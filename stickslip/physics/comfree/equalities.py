"""Equality constraints without Jacobian rows, by the closed form of contacts, equation (8), and never clamped.

A connect or weld acts between two bodies and needs only their twists. Couplings of joints and of tendons act on dofs.
"""

import mujoco_warp as mjw
import warp as wp

from stickslip.physics.comfree.joints import Joints, TendonRows
from stickslip.physics.comfree.model import Model
from stickslip.physics.comfree.rows import Gains, row_force, row_mass, row_work
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
    active: wp.array2d[bool]


def equalities_of(m: Model, d: mjw.Data) -> Equalities:
    """The equality constraints of a model and its data."""
    equalities = Equalities()
    equalities.type, equalities.objtype = m.eq_type, m.eq_objtype
    equalities.obj1id, equalities.obj2id = m.eq_obj1id, m.eq_obj2id
    equalities.solimp, equalities.data, equalities.order = m.eq_solimp, m.eq_data, m.structure.eq_order
    equalities.active = d.eq_active
    return equalities


@wp.struct
class Bodies:
    """Where bodies are, and how they move without constraints."""

    rootid: wp.array[int]
    weldid: wp.array[int]
    invweight0: wp.array2d[wp.vec2]
    site_bodyid: wp.array[int]
    site_quat: wp.array2d[wp.quat]
    xpos: wp.array2d[wp.vec3]
    xquat: wp.array2d[wp.quat]
    xmat: wp.array2d[wp.mat33]
    site_xpos: wp.array2d[wp.vec3]
    subtree_com: wp.array2d[wp.vec3]
    twist: wp.array2d[wp.spatial_vector]


def bodies_of(m: Model, d: mjw.Data, twist: wp.array) -> Bodies:
    """The bodies of a model and its data, with the twists that they will have."""
    bodies = Bodies()
    bodies.rootid, bodies.weldid, bodies.invweight0 = m.body_rootid, m.body_weldid, m.body_invweight0
    bodies.site_bodyid, bodies.site_quat = m.site_bodyid, m.site_quat
    bodies.xpos, bodies.xquat, bodies.xmat = d.xpos, d.xquat, d.xmat
    bodies.site_xpos, bodies.subtree_com, bodies.twist = d.site_xpos, d.subtree_com, twist
    return bodies


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
    bodies: Bodies,
    # In:
    worldid: int,
    eqid: int,
    base: int,
    # Data out:
    rows: Rows,
    # Out:
    wrench_out: wp.array2d[wp.spatial_vector],
) -> float:
    """A connect (3 rows) or weld (6 rows) between two bodies or sites; returns its work."""
    data = equalities.data[worldid % equalities.data.shape[0], eqid]
    is_weld = equalities.type[eqid] == int(EqType.WELD)
    frames = equality_frames(
        equalities.type[eqid],
        equalities.objtype[eqid],
        equalities.obj1id[eqid],
        equalities.obj2id[eqid],
        data,
        bodies.site_bodyid,
        bodies.site_quat,
        bodies.xpos,
        bodies.xquat,
        bodies.xmat,
        bodies.site_xpos,
        worldid,
    )
    body1 = frames.body1
    body2 = frames.body2
    quat1 = frames.quat1
    pos1 = frames.pos1
    pos2 = frames.pos2
    arm1 = pos1 - bodies.subtree_com[worldid, bodies.rootid[body1]]
    arm2 = pos2 - bodies.subtree_com[worldid, bodies.rootid[body2]]
    twist1 = bodies.twist[worldid, body1]
    twist2 = bodies.twist[worldid, body2]
    gap = pos1 - pos2
    velocity = point_velocity(twist1, arm1) - point_velocity(twist2, arm2)
    scale = data[10]
    conj2 = conjugate(frames.quat2)
    turn = wp.vec3()
    if is_weld:
        error = mul_quat(conj2, quat1)
        turn = scale * wp.vec3(error[1], error[2], error[3])

    invweight_id = worldid % bodies.invweight0.shape[0]
    inverse = bodies.invweight0[invweight_id, body1] + bodies.invweight0[invweight_id, body2]
    solimp = equalities.solimp[worldid % equalities.solimp.shape[0], eqid]
    size = wp.sqrt(wp.length_sq(gap) + wp.length_sq(turn))
    force = wp.vec3()
    torque = wp.vec3()
    work = float(0.0)
    mass = row_mass(gains, worldid, solimp, size, inverse[0])
    kind = int(ConstraintType.EQUALITY)
    for i in range(3):
        force[i] = row_force(gains, worldid, mass, velocity[i], gap[i])
        work += row_work(gains, worldid, mass, force[i], force[i])
        store_row(rows, worldid, base + i, kind, eqid, gap[i], 0.0, mass, 0.0, force[i])
    if is_weld:
        spin = wp.spatial_top(twist1) - wp.spatial_top(twist2)
        rate = weld_rotation(conj2, spin, quat1, scale)
        mass = row_mass(gains, worldid, solimp, size, inverse[1])
        moment = wp.vec3()
        for i in range(3):
            moment[i] = row_force(gains, worldid, mass, rate[i], turn[i])
            work += row_work(gains, worldid, mass, moment[i], moment[i])
            store_row(rows, worldid, base + 3 + i, kind, eqid, turn[i], 0.0, mass, 0.0, moment[i])
        # the transpose of omega -> rate, axis by axis
        torque = wp.vec3(
            wp.dot(weld_rotation(conj2, wp.vec3(1.0, 0.0, 0.0), quat1, scale), moment),
            wp.dot(weld_rotation(conj2, wp.vec3(0.0, 1.0, 0.0), quat1, scale), moment),
            wp.dot(weld_rotation(conj2, wp.vec3(0.0, 0.0, 1.0), quat1, scale), moment),
        )
    if bodies.weldid[body1] != 0:
        wp.atomic_add(wrench_out, worldid, body1, wrench_at(force, torque, arm1))
    if bodies.weldid[body2] != 0:
        wp.atomic_add(wrench_out, worldid, body2, -wrench_at(force, torque, arm2))
    return work


@wp.func
def resolve_joints(
    # Model:
    gains: Gains,
    equalities: Equalities,
    joints: Joints,
    # In:
    worldid: int,
    eqid: int,
    base: int,
    # Data out:
    rows: Rows,
    # Out:
    qfrc_row_out: wp.array2d[float],
) -> float:
    """The first joint follows a polynomial of the second, or stays where it is; returns its work."""
    data = equalities.data[worldid % equalities.data.shape[0], eqid]
    jnt1 = equalities.obj1id[eqid]
    jnt2 = equalities.obj2id[eqid]
    qpos0_id = worldid % joints.qpos0.shape[0]
    invweight_id = worldid % joints.dof_invweight0.shape[0]
    dof1 = joints.dofadr[jnt1]
    first = joints.qpos[worldid, joints.qposadr[jnt1]] - joints.qpos0[qpos0_id, joints.qposadr[jnt1]]
    u = free_velocity(gains.timestep, joints.qvel, joints.qacc_free, worldid, dof1)
    inverse = joints.dof_invweight0[invweight_id, dof1]
    second = float(0.0)
    if jnt2 >= 0:
        second = joints.qpos[worldid, joints.qposadr[jnt2]] - joints.qpos0[qpos0_id, joints.qposadr[jnt2]]
    phi, slope = coupling(data, first, second, jnt2 >= 0)
    dof2 = int(-1)
    if jnt2 >= 0:
        dof2 = joints.dofadr[jnt2]
        u -= slope * free_velocity(gains.timestep, joints.qvel, joints.qacc_free, worldid, dof2)
        inverse += slope * slope * joints.dof_invweight0[invweight_id, dof2]
    mass = row_mass(gains, worldid, equalities.solimp[worldid % equalities.solimp.shape[0], eqid], phi, inverse)
    force = row_force(gains, worldid, mass, u, phi)
    store_row(rows, worldid, base, int(ConstraintType.EQUALITY), eqid, phi, 0.0, mass, 0.0, force)
    wp.atomic_add(qfrc_row_out, worldid, dof1, force)
    if dof2 >= 0:
        wp.atomic_add(qfrc_row_out, worldid, dof2, -slope * force)
    return row_work(gains, worldid, mass, force, force)


@wp.func
def resolve_tendons(
    # Model:
    gains: Gains,
    equalities: Equalities,
    joints: Joints,
    tendons: Tendons,
    tendon_rows: TendonRows,
    # In:
    worldid: int,
    eqid: int,
    base: int,
    # Data out:
    rows: Rows,
    # Out:
    qfrc_row_out: wp.array2d[float],
) -> float:
    """The length of the first tendon follows a polynomial of the second's, or stays as it is; returns its work."""
    data = equalities.data[worldid % equalities.data.shape[0], eqid]
    ten1 = equalities.obj1id[eqid]
    ten2 = equalities.obj2id[eqid]
    length0_id = worldid % tendon_rows.length0.shape[0]
    invweight_id = worldid % tendons.invweight0.shape[0]
    first = tendons.length[worldid, ten1] - tendon_rows.length0[length0_id, ten1]
    u = tendon_free_velocity(gains.timestep, tendons, joints.qvel, joints.qacc_free, worldid, ten1)
    inverse = tendons.invweight0[invweight_id, ten1]
    second = float(0.0)
    if ten2 >= 0:
        second = tendons.length[worldid, ten2] - tendon_rows.length0[length0_id, ten2]
    phi, slope = coupling(data, first, second, ten2 >= 0)
    if ten2 >= 0:
        u -= slope * tendon_free_velocity(gains.timestep, tendons, joints.qvel, joints.qacc_free, worldid, ten2)
        inverse += slope * slope * tendons.invweight0[invweight_id, ten2]
    mass = row_mass(gains, worldid, equalities.solimp[worldid % equalities.solimp.shape[0], eqid], phi, inverse)
    force = row_force(gains, worldid, mass, u, phi)
    store_row(rows, worldid, base, int(ConstraintType.EQUALITY), eqid, phi, 0.0, mass, 0.0, force)
    pull_tendon(tendons, worldid, ten1, force, qfrc_row_out)
    if ten2 >= 0:
        pull_tendon(tendons, worldid, ten2, -slope * force, qfrc_row_out)
    return row_work(gains, worldid, mass, force, force)


@wp.func
def resolve_equality(
    # Model:
    gains: Gains,
    equalities: Equalities,
    bodies: Bodies,
    joints: Joints,
    tendons: Tendons,
    tendon_rows: TendonRows,
    # In:
    worldid: int,
    eqid: int,
    base: int,
    # Data out:
    rows: Rows,
    # Out:
    wrench_out: wp.array2d[wp.spatial_vector],
    qfrc_row_out: wp.array2d[float],
) -> float:
    """One equality constraint that is active; its rows begin at `base`. Returns its work."""
    kind = equalities.type[eqid]
    work = float(0.0)
    if kind == int(EqType.JOINT):
        work = resolve_joints(gains, equalities, joints, worldid, eqid, base, rows, qfrc_row_out)
    elif kind == int(EqType.TENDON):
        work = resolve_tendons(gains, equalities, joints, tendons, tendon_rows, worldid, eqid, base, rows, qfrc_row_out)
    else:
        work = resolve_bodies(gains, equalities, bodies, worldid, eqid, base, rows, wrench_out)
    return work
