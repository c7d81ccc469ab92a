"""One convex step as its parts: geometry, forces, problem, solve, and what is told of it."""

import mujoco_warp as mjw
import warp as wp

from stickslip.physics import mjwarp_private as private
from stickslip.physics import stages
from stickslip.physics.convex.broadphase import collide
from stickslip.physics.convex.contacts import prepare_contacts
from stickslip.physics.convex.layout import Solver
from stickslip.physics.convex.model import Model, Problem
from stickslip.physics.convex.newton import Options, solve_step
from stickslip.physics.convex.order import order_trees
from stickslip.physics.convex.potential import real
from stickslip.physics.convex.rows import fill_equalities, fill_rows, joints_of, make_equalities

wp.set_module_options({"enable_backward": False})


@wp.kernel
def _sum_forces(
    # Model:
    jnt_stiffness: wp.array2d[float],
    dof_jntid: wp.array[int],
    # Data in:
    qfrc_passive_in: wp.array2d[float],
    qfrc_bias_in: wp.array2d[float],
    qfrc_applied_in: wp.array2d[float],
    qfrc_actuator_in: wp.array2d[float],
    # In:
    dof_implicit: wp.array[bool],
    # Data out:
    qfrc_smooth_out: wp.array2d[float],
    # Out:
    spring_out: wp.array2d[float],
):
    """Forces on a dof that are taken as they are at the start of the step, but for those on bodies."""
    worldid, i = wp.tid()
    force = qfrc_passive_in[worldid, i] - qfrc_bias_in[worldid, i] + qfrc_applied_in[worldid, i]
    if not dof_implicit[i]:
        force += qfrc_actuator_in[worldid, i]
    qfrc_smooth_out[worldid, i] = force
    spring_out[worldid, i] = jnt_stiffness[worldid % jnt_stiffness.shape[0], dof_jntid[i]]


@wp.kernel
def _add_explicit(
    # Data in:
    moment_rownnz_in: wp.array2d[int],
    moment_rowadr_in: wp.array2d[int],
    moment_colind_in: wp.array2d[int],
    actuator_moment_in: wp.array2d[float],
    actuator_force_in: wp.array2d[float],
    # In:
    actuators: wp.array[int],
    dof_implicit: wp.array[bool],
    # Data out:
    qfrc_smooth_out: wp.array2d[float],
):
    """Forces of explicit actuators on dofs that have implicit ones too."""
    worldid, k = wp.tid()
    i = actuators[k]
    adr = moment_rowadr_in[worldid, i]
    for e in range(adr, adr + moment_rownnz_in[worldid, i]):
        dof = moment_colind_in[worldid, e]
        if dof_implicit[dof]:
            wp.atomic_add(qfrc_smooth_out, worldid, dof, actuator_moment_in[worldid, e] * actuator_force_in[worldid, i])


@wp.kernel
def _keep_forces(
    # Data in:
    qfrc_smooth_in: wp.array2d[float],
    # Out:
    force_out: wp.array2d[real],
):
    worldid, i = wp.tid()
    force_out[worldid, i] = real(qfrc_smooth_in[worldid, i])


def geometry(m: Model, d: mjw.Data) -> None:
    """All that depends on positions, velocities and controls, as MuJoCo Warp works it out; no sensors."""
    mjw.kinematics(m, d)
    mjw.com_pos(m, d)
    if m.ntendon:
        mjw.tendon(m, d)
    stages.inertia(m, d)
    if m.opt.run_collision_detection:
        collide(m, d, m.convex.groups)
    make_rows(m, d)
    mjw.transmission(m, d)
    mjw.fwd_velocity(m, d)
    stages.control(m, d)
    mjw.fwd_actuation(m, d)


def make_rows(m: Model, d: mjw.Data) -> None:
    """Rows of equalities, which MuJoCo Warp makes; no others yet."""
    if m.neq:
        make_equalities(m, d)
    else:
        for count in (d.ne, d.nf, d.nl, d.nefc):
            count.zero_()


def sum_forces(m: Model, problem: Problem) -> None:
    """The forces of a step that are taken as they are at its start, and how springs and dampers of joints change."""
    d, layout, inertia = problem.d, m.convex, problem.inertia
    wp.launch(
        _sum_forces,
        dim=(d.nworld, m.nv),
        inputs=[
            m.jnt_stiffness,
            m.dof_jntid,
            d.qfrc_passive,
            d.qfrc_bias,
            d.qfrc_applied,
            d.qfrc_actuator,
            layout.dof_implicit,
        ],
        outputs=[d.qfrc_smooth, inertia.spring],
    )
    if m.opt.disableflags & mjw.DisableBit.SPRING:
        inertia.spring.zero_()
    if not (m.opt.disableflags & mjw.DisableBit.DAMPER) and not m.undamped:
        private.damping_slope(m, d, inertia.damping)
    if layout.explicit.size:
        wp.launch(
            _add_explicit,
            dim=(d.nworld, layout.explicit.size),
            inputs=[
                d.moment_rownnz,
                d.moment_rowadr,
                d.moment_colind,
                d.actuator_moment,
                d.actuator_force,
                layout.explicit,
                layout.dof_implicit,
            ],
            outputs=[d.qfrc_smooth],
        )
    mjw.xfrc_accumulate(m, d, d.qfrc_smooth)
    wp.launch(_keep_forces, dim=(d.nworld, m.nv), inputs=[d.qfrc_smooth], outputs=[inertia.force])


def prepare(m: Model, problem: Problem, v_start: wp.array) -> None:
    """The problem of a geometry, for a step of any size that starts with `v_start`."""
    d, layout, rows = problem.d, m.convex, problem.rows
    prepare_contacts(m, d, layout.tree, layout.material, problem, v_start)
    if rows.n:
        wp.launch(fill_rows, dim=(d.nworld, rows.n), inputs=[joints_of(m, d, layout.source), v_start], outputs=[rows])
    if m.neq:
        wp.launch(
            fill_equalities,
            dim=problem.efc_row.shape,
            inputs=[
                m.body_invweight0,
                m.dof_invweight0,
                m.tendon_invweight0,
                m.site_bodyid,
                m.jnt_dofadr,
                m.eq_type,
                m.eq_obj1id,
                m.eq_obj2id,
                m.eq_objtype,
                d.ne,
                d.efc.id,
                d.efc.pos,
                d.efc.J,
                d.efc.J_rownnz,
                d.efc.J_rowadr,
                d.efc.J_colind,
                m.is_sparse,
                layout.eq_row,
            ],
            outputs=[rows, problem.efc_row],
        )
    wp.launch(order_trees, dim=d.nworld, inputs=[layout.tree, problem.inertia])


def solve(
    m: Model,
    problem: Problem,
    solver: Solver,
    nlane: int,
    options: Options,
    dt: wp.array,
    v_start: wp.array,
    v_guess: wp.array,
    v_out: wp.array,
) -> None:
    """v_out = the velocity at the end of a step of options.scale dt, for each world with dt > 0."""
    layout = m.convex
    wp.launch(
        solve_step,
        dim=(problem.d.nworld, nlane),
        inputs=[
            layout.tree,
            layout.material,
            problem.inertia,
            problem.touch,
            problem.rows,
            solver,
            options,
            dt,
            v_start,
            v_guess,
            nlane,
        ],
        outputs=[v_out],
        block_dim=nlane if nlane > 1 else 256,
    )
