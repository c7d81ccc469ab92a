"""Equalities, dry friction and limits in one launch: a warp for each world, or a thread of a CPU."""

import dataclasses

import mujoco_warp as mjw
import warp as wp

from stickslip.physics.comfree.equalities import (
    Bodies,
    Equalities,
    bodies_of,
    equalities_of,
    resolve_equality,
    row_count,
)
from stickslip.physics.comfree.joints import (
    Joints,
    TendonRows,
    friction_of,
    joints_of,
    limit_of,
    resolve_friction,
    resolve_limit,
    tendon_rows_of,
)
from stickslip.physics.comfree.model import Model
from stickslip.physics.comfree.rows import Gains, gains_of
from stickslip.physics.mjwarp.contact import body_twist
from stickslip.physics.mjwarp.lanes import WARP, add_lanes, sum_all, sum_before, sync_warp
from stickslip.physics.mjwarp.rows import Rows, Tendons, rows_of, tendons_of
from stickslip.physics.mjwarp.smooth.response import Loads

wp.set_module_options({"enable_backward": False})

_REGISTERS = 64
"""Of a thread: with so few, 32 worlds fit on a multiprocessor; what spills is mostly that of welds."""


@wp.kernel(grid_stride=False, cuda_max_registers=_REGISTERS)
def _constrain(
    # In:
    nlane: int,
    nequality: int,
    nfriction: int,
    nlimit: int,
    # Model:
    gains: Gains,
    equalities: Equalities,
    bodies: Bodies,
    joints: Joints,
    tendons: Tendons,
    tendon_rows: TendonRows,
    body_dofnum: wp.array[int],
    body_dofadr: wp.array[int],
    dof_parentid: wp.array[int],
    # Data in:
    cdof_in: wp.array2d[wp.spatial_vector],
    # Data out:
    rows: Rows,
    ne_out: wp.array[int],
    nf_out: wp.array[int],
    nl_out: wp.array[int],
    # Out:
    wrench_out: wp.array2d[wp.spatial_vector],
    qfrc_row_out: wp.array2d[float],
    work_out: wp.array[float],
):
    """Twists of all bodies for v + dt qacc; then rows in MuJoCo's order, each with its force.

    Lanes take constraints in turn. How many rows those before it have, a lane learns from the others.
    """
    thread = wp.tid()
    worldid = thread / nlane
    lane = thread - worldid * nlane
    timestep = gains.timestep[worldid % gains.timestep.shape[0]]
    for bodyid in range(lane, body_dofnum.shape[0], nlane):
        bodies.twist[worldid, bodyid] = body_twist(
            bodies.weldid,
            body_dofnum,
            body_dofadr,
            dof_parentid,
            cdof_in,
            joints.qvel,
            joints.qacc_free,
            timestep,
            worldid,
            bodyid,
        )
        wrench_out[worldid, bodyid] = wp.spatial_vector()
    for dofid in range(lane, qfrc_row_out.shape[1], nlane):
        qfrc_row_out[worldid, dofid] = 0.0
    sync_warp(nlane)

    row = int(0)
    work = float(0.0)
    for first in range(0, nequality, nlane):
        index = first + lane
        number = int(0)
        eqid = int(0)
        if index < nequality:
            eqid = equalities.order[index]
            if equalities.active[worldid, eqid]:
                number = row_count(equalities.type[eqid])
        base = row + sum_before(number)
        if number > 0:
            work += resolve_equality(
                gains,
                equalities,
                bodies,
                joints,
                tendons,
                tendon_rows,
                worldid,
                eqid,
                base,
                rows,
                wrench_out,
                qfrc_row_out,
            )
        row += sum_all(number)
    ne = row
    sync_warp(nlane)

    for first in range(0, nfriction, nlane):
        index = first + lane
        number = int(0)
        if index < nfriction and friction_of(joints, tendon_rows, worldid, index) > 0.0:
            number = 1
        base = row + sum_before(number)
        if number > 0:
            work += resolve_friction(gains, joints, tendons, tendon_rows, worldid, index, base, rows, qfrc_row_out)
        row += sum_all(number)
    nf = row - ne
    sync_warp(nlane)

    for first in range(0, nlimit, nlane):
        index = first + lane
        number = int(0)
        if index < nlimit:
            limit = limit_of(joints, tendons, tendon_rows, worldid, index)
            if limit.dist - limit.margin < 0.0:
                number = 1
        base = row + sum_before(number)
        if number > 0:
            limit = limit_of(joints, tendons, tendon_rows, worldid, index)
            work += resolve_limit(gains, joints, tendons, tendon_rows, limit, worldid, index, base, rows, qfrc_row_out)
        row += sum_all(number)
    work = add_lanes(work)
    if lane == 0:
        work_out[worldid] = work
        ne_out[worldid] = ne
        nf_out[worldid] = nf
        nl_out[worldid] = row - ne - nf
        rows.nefc[worldid] = row


@dataclasses.dataclass(frozen=True)
class Workspace:
    """What "constraints" hands on to "contact", and both to "acceleration".

    Attributes:
        twist: of every body without constraints, about its tree's subtree_com      (nworld, nbody)
        loads: wrenches about the same points, and forces on single dofs
    """

    twist: wp.array
    loads: Loads


def resolve_constraints(m: Model, d: mjw.Data, qacc_free: wp.array, *, limits_only: bool = False) -> Workspace:
    """Rows and forces of all constraints but contacts.

    Args:
        m: model
        d: data
        qacc_free: acceleration without constraints                     (nworld, nv)
        limits_only: no equalities and no dry friction
    """
    twist, wrench = (wp.empty((d.nworld, m.nbody), dtype=wp.spatial_vector) for _ in range(2))
    qfrc_row = wp.empty((d.nworld, m.nv), dtype=float)
    work = wp.empty(d.nworld, dtype=float)

    def number(flag: mjw.DisableBit, constraints: int) -> int:
        left_out = m.opt.disableflags & flag or (limits_only and flag != mjw.DisableBit.LIMIT)
        return 0 if left_out else constraints

    nlane = int(WARP) if d.qpos.device.is_cuda else 1
    wp.launch(
        _constrain,
        dim=d.nworld * nlane,
        inputs=[
            nlane,
            number(mjw.DisableBit.EQUALITY, m.structure.eq_order.size),
            number(mjw.DisableBit.FRICTIONLOSS, m.nv + m.ntendon),
            number(mjw.DisableBit.LIMIT, m.structure.jnt_limited.size + m.tendon_limited_adr.size),
            gains_of(m),
            equalities_of(m, d),
            bodies_of(m, d, twist),
            joints_of(m, d, qacc_free),
            tendons_of(m, d),
            tendon_rows_of(m),
            m.body_dofnum,
            m.body_dofadr,
            m.dof_parentid,
            d.cdof,
        ],
        outputs=[rows_of(d), d.ne, d.nf, d.nl, wrench, qfrc_row, work],
        block_dim=128,
    )
    return Workspace(twist, Loads(wrench, qfrc_row, work))
