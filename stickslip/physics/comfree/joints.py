"""Dry friction and limits of joints and tendons, by the closed form of contacts, equation (8), each with its clamp."""

import mujoco_warp as mjw
import warp as wp
from mujoco_warp import JointType

from stickslip.physics.comfree.model import Model
from stickslip.physics.comfree.rows import Gains, limit_mass, row_force, row_mass, row_work, unilateral
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


@wp.struct
class Joints:
    """Dry friction and limits of joints; `limited` lists joints with limits. Positions and velocities now and free."""

    type: wp.array[int]
    qposadr: wp.array[int]
    dofadr: wp.array[int]
    range: wp.array2d[wp.vec2]
    margin: wp.array2d[float]
    limited: wp.array[int]
    dof_solimp: wp.array2d[vec5]
    dof_frictionloss: wp.array2d[float]
    dof_invweight0: wp.array2d[float]
    qpos0: wp.array2d[float]
    qpos: wp.array2d[float]
    qvel: wp.array2d[float]
    qacc_free: wp.array2d[float]


def joints_of(m: Model, d: mjw.Data, qacc_free: wp.array) -> Joints:
    """The joints of a model and its data."""
    joints = Joints()
    joints.type, joints.qposadr, joints.dofadr = m.jnt_type, m.jnt_qposadr, m.jnt_dofadr
    joints.range, joints.margin = m.jnt_range, m.jnt_margin
    joints.limited, joints.qpos0 = m.structure.jnt_limited, m.qpos0
    joints.dof_solimp, joints.dof_frictionloss = m.dof_solimp, m.dof_frictionloss
    joints.dof_invweight0 = m.dof_invweight0
    joints.qpos, joints.qvel, joints.qacc_free = d.qpos, d.qvel, qacc_free
    return joints


@wp.struct
class TendonRows:
    """Dry friction and limits of tendons; `limited` lists tendons with limits."""

    solimp_fri: wp.array2d[vec5]
    frictionloss: wp.array2d[float]
    range: wp.array2d[wp.vec2]
    margin: wp.array2d[float]
    limited: wp.array[int]
    length0: wp.array2d[float]


def tendon_rows_of(m: Model) -> TendonRows:
    """The tendons of a model."""
    rows = TendonRows()
    rows.solimp_fri, rows.frictionloss = m.tendon_solimp_fri, m.tendon_frictionloss
    rows.range, rows.margin = m.tendon_range, m.tendon_margin
    rows.limited, rows.length0 = m.tendon_limited_adr, m.tendon_length0
    return rows


@wp.func
def friction_of(joints: Joints, tendons: TendonRows, worldid: int, index: int) -> float:
    """Dry friction of a dof, or after those of a tendon."""
    nv = joints.qvel.shape[1]
    if index < nv:
        return joints.dof_frictionloss[worldid % joints.dof_frictionloss.shape[0], index]
    return tendons.frictionloss[worldid % tendons.frictionloss.shape[0], index - nv]


@wp.func
def resolve_friction(
    # Model:
    gains: Gains,
    joints: Joints,
    tendons: Tendons,
    tendon_rows: TendonRows,
    # In:
    worldid: int,
    index: int,
    row: int,
    # Data out:
    rows: Rows,
    # Out:
    qfrc_row_out: wp.array2d[float],
) -> float:
    """Dry friction of a dof, or after those of a tendon, within +-frictionloss; returns its work."""
    work = float(0.0)
    limit = friction_of(joints, tendon_rows, worldid, index)
    nv = joints.qvel.shape[1]
    if index < nv:
        inverse = joints.dof_invweight0[worldid % joints.dof_invweight0.shape[0], index]
        mass = row_mass(gains, worldid, joints.dof_solimp[worldid % joints.dof_solimp.shape[0], index], 0.0, inverse)
        u = free_velocity(gains.timestep, joints.qvel, joints.qacc_free, worldid, index)
        free = row_force(gains, worldid, mass, u, 0.0)
        force = wp.clamp(free, -limit, limit)
        work = row_work(gains, worldid, mass, free, force)
        store_row(rows, worldid, row, int(ConstraintType.FRICTION_DOF), index, 0.0, 0.0, mass, limit, force)
        wp.atomic_add(qfrc_row_out, worldid, index, force)
    else:
        tenid = index - nv
        inverse = tendons.invweight0[worldid % tendons.invweight0.shape[0], tenid]
        mass = row_mass(
            gains, worldid, tendon_rows.solimp_fri[worldid % tendon_rows.solimp_fri.shape[0], tenid], 0.0, inverse
        )
        u = tendon_free_velocity(gains.timestep, tendons, joints.qvel, joints.qacc_free, worldid, tenid)
        free = row_force(gains, worldid, mass, u, 0.0)
        force = wp.clamp(free, -limit, limit)
        work = row_work(gains, worldid, mass, free, force)
        store_row(rows, worldid, row, int(ConstraintType.FRICTION_TENDON), tenid, 0.0, 0.0, mass, limit, force)
        pull_tendon(tendons, worldid, tenid, force, qfrc_row_out)
    return work


@wp.struct
class Limit:
    """Distance from the nearer bound, the direction away from it, and for a ball joint the axis it is turned about."""

    dist: float
    margin: float
    sign: float
    axis: wp.vec3


@wp.func
def limit_of(joints: Joints, tendons: Tendons, tendon_rows: TendonRows, worldid: int, index: int) -> Limit:
    """The limit of a joint that has one, or after those of a tendon."""
    limit = Limit()
    njnt = joints.limited.shape[0]
    if index < njnt:
        jntid = joints.limited[index]
        adr = joints.qposadr[jntid]
        bounds = joints.range[worldid % joints.range.shape[0], jntid]
        limit.margin = joints.margin[worldid % joints.margin.shape[0], jntid]
        if joints.type[jntid] == int(JointType.BALL):
            dist, axis = ball_limit(joints.qpos, worldid, adr, bounds)
            limit.dist = dist
            limit.axis = axis
        else:
            dist, sign = nearer_limit(joints.qpos[worldid, adr], bounds)
            limit.dist = dist
            limit.sign = sign
    else:
        tenid = tendon_rows.limited[index - njnt]
        bounds = tendon_rows.range[worldid % tendon_rows.range.shape[0], tenid]
        limit.margin = tendon_rows.margin[worldid % tendon_rows.margin.shape[0], tenid]
        dist, sign = nearer_limit(tendons.length[worldid, tenid], bounds)
        limit.dist = dist
        limit.sign = sign
    return limit


@wp.func
def resolve_limit(
    # Model:
    gains: Gains,
    joints: Joints,
    tendons: Tendons,
    tendon_rows: TendonRows,
    # In:
    limit: Limit,
    worldid: int,
    index: int,
    row: int,
    # Data out:
    rows: Rows,
    # Out:
    qfrc_row_out: wp.array2d[float],
) -> float:
    """Limit of a hinge, slide or ball joint, or of a tendon's length, pushing only; returns its work."""
    phi = limit.dist - limit.margin
    sign = limit.sign
    axis = limit.axis
    u = float(0.0)
    vel = float(0.0)
    mass = float(0.0)
    work = float(0.0)
    njnt = joints.limited.shape[0]
    if index < njnt:
        jntid = joints.limited[index]
        dofid = joints.dofadr[jntid]
        is_ball = joints.type[jntid] == int(JointType.BALL)
        if is_ball:
            for i in range(3):
                u -= axis[i] * free_velocity(gains.timestep, joints.qvel, joints.qacc_free, worldid, dofid + i)
                vel -= axis[i] * joints.qvel[worldid, dofid + i]
        else:
            u = sign * free_velocity(gains.timestep, joints.qvel, joints.qacc_free, worldid, dofid)
            vel = sign * joints.qvel[worldid, dofid]
        inverse = joints.dof_invweight0[worldid % joints.dof_invweight0.shape[0], dofid]
        mass = limit_mass(gains, worldid, inverse)
        free = row_force(gains, worldid, mass, u, phi)
        force = unilateral(free, gains.smoothing)
        work = row_work(gains, worldid, mass, free, force)
        kind = int(ConstraintType.LIMIT_JOINT)
        store_row(rows, worldid, row, kind, jntid, limit.dist, limit.margin, mass, 0.0, force)
        if is_ball:
            for i in range(3):
                wp.atomic_add(qfrc_row_out, worldid, dofid + i, -axis[i] * force)
        else:
            wp.atomic_add(qfrc_row_out, worldid, dofid, sign * force)
    else:
        tenid = tendon_rows.limited[index - njnt]
        u = sign * tendon_free_velocity(gains.timestep, tendons, joints.qvel, joints.qacc_free, worldid, tenid)
        vel = sign * tendon_velocity(tendons, joints.qvel, worldid, tenid)
        inverse = tendons.invweight0[worldid % tendons.invweight0.shape[0], tenid]
        mass = limit_mass(gains, worldid, inverse)
        free = row_force(gains, worldid, mass, u, phi)
        force = unilateral(free, gains.smoothing)
        work = row_work(gains, worldid, mass, free, force)
        kind = int(ConstraintType.LIMIT_TENDON)
        store_row(rows, worldid, row, kind, tenid, limit.dist, limit.margin, mass, 0.0, force)
        pull_tendon(tendons, worldid, tenid, sign * force, qfrc_row_out)
    if row < rows.njmax:
        rows.vel[worldid, row] = vel
    return work
