"""Dry friction and limits of joints and tendons, by the closed form of contacts, equation (8), each with its clamp."""

import mujoco_warp as mjw
import warp as wp
from mujoco_warp import JointType

from stickslip.physics.comfree.model import Model
from stickslip.physics.comfree.rows import Gains, Workspace, count_work, row_force, row_mass, unilateral
from stickslip.physics.mjwarp.geometry import ball_limit, nearer_limit
from stickslip.physics.mjwarp.private import ConstraintType, vec5
from stickslip.physics.mjwarp.rows import (
    Rows,
    Tendons,
    free_velocity,
    pull_tendon,
    store_row,
    tendon_free_velocity,
    tendon_velocity,
)

wp.set_module_options({"enable_backward": False})


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
    work_out: wp.array[float],
):
    """Dry friction of dofs (the first nv threads of a world) and tendons (the rest), within +-frictionloss."""
    worldid, index = wp.tid()
    if index < nv:
        limit = dof_frictionloss[worldid % dof_frictionloss.shape[0], index]
        if limit <= 0.0:
            return
        inverse = dof_invweight0[worldid % dof_invweight0.shape[0], index]
        mass = row_mass(gains, worldid, dof_solimp[worldid % dof_solimp.shape[0], index], 0.0, inverse)
        u = free_velocity(gains.timestep, qvel_in, qacc_free_in, worldid, index)
        free = row_force(gains, worldid, mass, u, 0.0)
        force = wp.clamp(free, -limit, limit)
        count_work(gains, worldid, mass, free, force, work_out)
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
        mass = row_mass(gains, worldid, tendon_solimp_fri[worldid % tendon_solimp_fri.shape[0], tenid], 0.0, inverse)
        u = tendon_free_velocity(gains.timestep, tendons, qvel_in, qacc_free_in, worldid, tenid)
        free = row_force(gains, worldid, mass, u, 0.0)
        force = wp.clamp(free, -limit, limit)
        count_work(gains, worldid, mass, free, force, work_out)
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
    work_out: wp.array[float],
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
        dist, axis = ball_limit(qpos_in, worldid, adr, bounds)
    else:
        dist, sign = nearer_limit(qpos_in[worldid, adr], bounds)
    phi = dist - margin
    if phi >= 0.0:
        return
    u = float(0.0)
    vel = float(0.0)
    if is_ball:
        for i in range(3):
            u -= axis[i] * free_velocity(gains.timestep, qvel_in, qacc_free_in, worldid, dofid + i)
            vel -= axis[i] * qvel_in[worldid, dofid + i]
    else:
        u = sign * free_velocity(gains.timestep, qvel_in, qacc_free_in, worldid, dofid)
        vel = sign * qvel_in[worldid, dofid]
    inverse = dof_invweight0[worldid % dof_invweight0.shape[0], dofid]
    mass = row_mass(gains, worldid, jnt_solimp[worldid % jnt_solimp.shape[0], jntid], phi, inverse)
    free = row_force(gains, worldid, mass, u, phi)
    force = unilateral(free, gains.smoothing)
    count_work(gains, worldid, mass, free, force, work_out)
    wp.atomic_add(nl_out, worldid, 1)
    row = wp.atomic_add(rows.nefc, worldid, 1)
    store_row(rows, worldid, row, int(ConstraintType.LIMIT_JOINT), jntid, dist, margin, mass, 0.0, force)
    if row < rows.njmax:
        rows.vel[worldid, row] = vel
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
    work_out: wp.array[float],
):
    """Limit of a tendon's length, pushing only."""
    worldid, index = wp.tid()
    tenid = ten_adr[index]
    bounds = tendon_range[worldid % tendon_range.shape[0], tenid]
    margin = tendon_margin[worldid % tendon_margin.shape[0], tenid]
    dist, sign = nearer_limit(tendons.length[worldid, tenid], bounds)
    phi = dist - margin
    if phi >= 0.0:
        return
    u = sign * tendon_free_velocity(gains.timestep, tendons, qvel_in, qacc_free_in, worldid, tenid)
    inverse = tendons.invweight0[worldid % tendons.invweight0.shape[0], tenid]
    mass = row_mass(gains, worldid, tendon_solimp_lim[worldid % tendon_solimp_lim.shape[0], tenid], phi, inverse)
    free = row_force(gains, worldid, mass, u, phi)
    force = unilateral(free, gains.smoothing)
    count_work(gains, worldid, mass, free, force, work_out)
    wp.atomic_add(nl_out, worldid, 1)
    row = wp.atomic_add(rows.nefc, worldid, 1)
    store_row(rows, worldid, row, int(ConstraintType.LIMIT_TENDON), tenid, dist, margin, mass, 0.0, force)
    if row < rows.njmax:
        rows.vel[worldid, row] = sign * tendon_velocity(tendons, qvel_in, worldid, tenid)
    pull_tendon(tendons, worldid, tenid, sign * force, qfrc_row_out)


def resolve_friction(m: Model, d: mjw.Data, s: Workspace) -> None:
    """Add the dry friction of joints and tendons."""
    wp.launch(
        _resolve_friction,
        dim=(d.nworld, m.nv + m.ntendon),
        inputs=[
            m.nv,
            s.gains,
            s.tendons,
            m.dof_solimp,
            m.dof_frictionloss,
            m.dof_invweight0,
            m.tendon_solimp_fri,
            m.tendon_frictionloss,
            d.qvel,
            s.qacc_free,
        ],
        outputs=[s.rows, d.nf, s.qfrc_row, s.work],
    )


def resolve_limits(m: Model, d: mjw.Data, s: Workspace) -> None:
    """Add the forces of joint and tendon limits."""
    wp.launch(
        _resolve_joint_limit,
        dim=(d.nworld, m.structure.jnt_limited.size),
        inputs=[
            s.gains,
            m.jnt_type,
            m.jnt_qposadr,
            m.jnt_dofadr,
            m.jnt_solimp,
            m.jnt_range,
            m.jnt_margin,
            m.dof_invweight0,
            m.structure.jnt_limited,
            d.qpos,
            d.qvel,
            s.qacc_free,
        ],
        outputs=[s.rows, d.nl, s.qfrc_row, s.work],
    )
    wp.launch(
        _resolve_tendon_limit,
        dim=(d.nworld, m.tendon_limited_adr.size),
        inputs=[
            s.gains,
            s.tendons,
            m.tendon_solimp_lim,
            m.tendon_range,
            m.tendon_margin,
            m.tendon_limited_adr,
            d.qvel,
            s.qacc_free,
        ],
        outputs=[s.rows, d.nl, s.qfrc_row, s.work],
    )
