"""What a step leaves for those who look: rows with forces, contact forces, accelerations."""

import mujoco_warp as mjw
import warp as wp
from mujoco_warp import OverflowType

from stickslip.physics.convex.step.forces import add_explicit
from stickslip.physics.convex.step.jacobian import subtract_impulse
from stickslip.physics.convex.step.laws import contact_impulse, row_impulse
from stickslip.physics.convex.step.layout import Law, RowSet, Solver, Touch, Tree
from stickslip.physics.convex.step.model import Model, Problem
from stickslip.physics.convex.step.potential import real
from stickslip.physics.convex.step.rows import (
    ACTUATOR,
    BALL,
    DRY,
    LOWER,
    TENDON_DRY,
    TENDON_LOWER,
    TENDON_UPPER,
    UPPER,
    Joints,
    joints_of,
)
from stickslip.physics.mjwarp.private import ConstraintType
from stickslip.physics.mjwarp.rows import Rows, rows_of, store_row
from stickslip.physics.mjwarp.touches import mark_apart, marked

wp.set_module_options({"enable_backward": False})

_LIMIT = wp.constant(int(Law.LIMIT))
_DRY = wp.constant(int(Law.DRY))


@wp.struct
class Reported:
    """Where a step is reported: MuJoCo Warp's data."""

    ne: wp.array[int]
    nf: wp.array[int]
    nl: wp.array[int]
    efc_address: wp.array2d[int]
    type: wp.array[int]
    actuator_force: wp.array2d[float]
    qfrc_constraint: wp.array2d[float]
    qfrc_actuator: wp.array2d[float]
    overflow: wp.array[int]


_OF_CONTACTS = ("efc_address", "type")


def reported_in(d: mjw.Data) -> Reported:
    """The arrays of a Data that report a step."""
    reported = Reported()
    for name in Reported.vars:
        setattr(reported, name, getattr(d.contact if name in _OF_CONTACTS else d, name))
    return reported


@wp.kernel
def _report_rows(
    tree: Tree,
    touch: Touch,
    rows: RowSet,
    joints: Joints,
    dt_in: wp.array[real],
    efc_row: wp.array2d[int],
    # Out:
    solver: Solver,
    out: Rows,
    reported: Reported,
):
    """Forces of all constraints of a world, in MuJoCo's order; solver.g becomes minus their sum on dofs."""
    worldid = wp.tid()
    dt = dt_in[worldid]
    if not (dt > real(0.0)):
        return
    for i in range(tree.nv):
        solver.g[worldid, i] = real(0.0)
    ne = reported.ne[worldid]
    row = ne
    for k in range(wp.min(ne, efc_row.shape[1])):
        r = efc_row[worldid, k]
        impulse, _slope = row_impulse(rows, worldid, r, rows.s[worldid, r])
        out.force[worldid, k] = float(impulse / dt)
        for e in range(rows.adr[r], rows.adr[r] + rows.num[r]):
            solver.g[worldid, rows.col[e]] -= impulse * rows.val[worldid, e]
    nf = int(0)
    nl = int(0)
    for turn in range(2):  # dry friction first, then limits
        for r in range(rows.n):
            kind = joints.source[r][0]
            id = joints.source[r][1]
            type = int(-1)
            if turn == 0 and kind == DRY:
                type = int(ConstraintType.FRICTION_DOF)
            elif turn == 0 and kind == TENDON_DRY:
                type = int(ConstraintType.FRICTION_TENDON)
            elif turn == 1 and (kind == LOWER or kind == UPPER or kind == BALL):  # noqa: SIM109 - Warp knows no `in`
                type = int(ConstraintType.LIMIT_JOINT)
            elif turn == 1 and (kind == TENDON_LOWER or kind == TENDON_UPPER):  # noqa: SIM109
                type = int(ConstraintType.LIMIT_TENDON)
            if type >= 0:
                impulse, _slope = row_impulse(rows, worldid, r, rows.s[worldid, r])
                active = impulse > real(0.0) or rows.residual[worldid, r] < real(0.0)
                dry = turn == 0 and rows.law[worldid, r] == _DRY
                if dry or (active and rows.law[worldid, r] == _LIMIT):
                    pos = wp.where(turn == 0, 0.0, float(rows.residual[worldid, r]))
                    loss = wp.where(turn == 0, float(rows.weight[worldid, r]), 0.0)
                    mass = wp.where(turn == 0, 0.0, float(real(1.0) / rows.weight[worldid, r]))
                    store_row(out, worldid, row, type, id, pos, 0.0, mass, loss, float(impulse / dt))
                    row += 1
                    nf += 1 - turn
                    nl += turn
                    for e in range(rows.adr[r], rows.adr[r] + rows.num[r]):
                        solver.g[worldid, rows.col[e]] -= impulse * rows.val[worldid, e]
            elif turn == 0 and kind == ACTUATOR:
                impulse, _slope = row_impulse(rows, worldid, r, rows.s[worldid, r])
                reported.actuator_force[worldid, id] = float(impulse / dt)
    reported.nf[worldid] = nf
    reported.nl[worldid] = nl

    adr = touch.adr[worldid]
    for k in range(touch.num[worldid]):
        slot = adr + k
        con = touch.con[slot]
        dim = touch.dim[slot]
        push = contact_impulse(touch, slot, touch.v[slot], dt)
        # friction of the last pass may outlast the normal force that it went by
        active = touch.elastic[slot] > real(0.0) or push[0] > real(0.0) or touch.lagged[slot] > real(0.0)
        for i in range(reported.efc_address.shape[1]):
            reported.efc_address[con, i] = -1
        if active:
            reported.type[con] = marked(reported.type[con], False)
            subtract_impulse(tree, touch, push, solver.g, slot, worldid)
            type = wp.where(dim == 1, int(ConstraintType.CONTACT_FRICTIONLESS), int(ConstraintType.CONTACT_ELLIPTIC))
            dist = -float(touch.elastic[slot] / touch.stiffness[slot])
            for i in range(dim):
                store_row(
                    out, worldid, row + i, type, con, wp.where(i == 0, dist, 0.0), 0.0, 0.0, 0.0, float(push[i] / dt)
                )
                if row + i < out.njmax:
                    reported.efc_address[con, i] = row + i
            row += dim
    out.nefc[worldid] = row
    if row > out.njmax:
        reported.overflow[worldid] = reported.overflow[worldid] | int(OverflowType.NEFC)


@wp.kernel
def _report_dofs(
    # In:
    dt_in: wp.array[real],
    v_start: wp.array2d[real],
    v_end: wp.array2d[real],
    solver: Solver,
    # Data out:
    qacc_out: wp.array2d[float],
    qfrc_constraint_out: wp.array2d[float],
):
    worldid, i = wp.tid()
    dt = dt_in[worldid]
    if dt > real(0.0):
        qacc_out[worldid, i] = float((v_end[worldid, i] - v_start[worldid, i]) / dt)
        qfrc_constraint_out[worldid, i] = float(-solver.g[worldid, i] / dt)


@wp.kernel
def _report_actuators(
    # In:
    rows: RowSet,
    joints: Joints,
    dof_implicit: wp.array[bool],
    # Data in:
    actuator_force_in: wp.array2d[float],
    # Data out:
    qfrc_actuator_out: wp.array2d[float],
):
    """Forces of implicit actuators on their dofs."""
    worldid = wp.tid()
    for i in range(dof_implicit.shape[0]):
        if dof_implicit[i]:
            qfrc_actuator_out[worldid, i] = 0.0
    for r in range(rows.n):
        if joints.source[r][0] == ACTUATOR:
            force = actuator_force_in[worldid, joints.source[r][1]]
            for e in range(rows.adr[r], rows.adr[r] + rows.num[r]):
                qfrc_actuator_out[worldid, rows.col[e]] += float(rows.val[worldid, e]) * force


def report_step(m: Model, problem: Problem, solver: Solver, dt: wp.array, v_start: wp.array, v_end: wp.array) -> None:
    """Write forces and accelerations of the last solve of this problem where sensors and users look for them."""
    d, layout = problem.d, m.convex
    joints = joints_of(m, d, layout.source)
    mark_apart(d, m.structure.gaps)  # the rows below show which contacts have a force
    wp.launch(
        _report_rows,
        dim=d.nworld,
        inputs=[
            layout.tree,
            problem.touch,
            problem.rows,
            joints,
            dt,
            problem.efc_row,
        ],
        outputs=[solver, rows_of(d), reported_in(d)],
    )
    wp.launch(
        _report_dofs,
        dim=(d.nworld, m.nv),
        inputs=[dt, v_start, v_end, solver],
        outputs=[d.qacc, d.qfrc_constraint],
    )
    if any(kind == int(ACTUATOR) for kind, *_ in layout.plan.source):
        wp.launch(
            _report_actuators,
            dim=d.nworld,
            inputs=[problem.rows, joints, layout.dof_implicit, d.actuator_force],
            outputs=[d.qfrc_actuator],
        )
        add_explicit(m, d, d.qfrc_actuator)
    mjw.mul_m(m, d, d.efc.Ma, d.qacc)
