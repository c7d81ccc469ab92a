"""One convex step as its parts: geometry, forces, problem, solve, report."""

import mujoco_warp as mjw
import warp as wp

from stickslip.physics.convex.hydro.pairs import find_patches
from stickslip.physics.convex.step import broadphase
from stickslip.physics.convex.step.contacts import prepare_contacts
from stickslip.physics.convex.step.lanes import LEAST_LANES
from stickslip.physics.convex.step.layout import Solver
from stickslip.physics.convex.step.model import Model, Problem
from stickslip.physics.convex.step.newton import Options, solve_step
from stickslip.physics.convex.step.order import order_trees, sort_islands
from stickslip.physics.convex.step.rows import fill_equalities, fill_rows, joints_of, make_equalities
from stickslip.physics.mjwarp import stages
from stickslip.physics.mjwarp.adhesion import transmission
from stickslip.physics.mjwarp.smooth.smooth import find_smooth, is_fused

wp.set_module_options({"enable_backward": False})


def collide(m: Model, problem: Problem) -> None:
    """Find all contacts of a geometry: points, then patches."""
    broadphase.collide(m, problem.d, m.convex.groups)
    if m.convex.hydro is not None and problem.patches is not None:
        find_patches(m, problem.d, m.convex.hydro, problem.patches)


def geometry(m: Model, problem: Problem) -> None:
    """All that depends on positions, velocities and controls; no sensors."""
    d = problem.d
    if is_fused(m):
        find_smooth(m, d)
        if m.opt.run_collision_detection:
            collide(m, problem)
        make_rows(m, d)
        return
    mjw.kinematics(m, d)
    mjw.com_pos(m, d)
    if m.ntendon:
        mjw.tendon(m, d)
    stages.inertia(m, d)
    if m.opt.run_collision_detection:
        collide(m, problem)
    make_rows(m, d)
    transmission(m, d)
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
    wp.launch(order_trees, dim=d.nworld, inputs=[layout.tree, problem.inertia, problem.islands])
    nlane = LEAST_LANES if d.qpos.device.is_cuda else 1
    wp.launch(
        sort_islands,
        dim=(d.nworld, nlane),
        inputs=[layout.tree, problem.inertia, rows, nlane],
        outputs=[problem.touch, problem.islands],
        block_dim=nlane if nlane > 1 else 256,
    )


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
        dim=(problem.d.nworld, max(layout.tree.ntree, 1), nlane),
        inputs=[
            layout.tree,
            layout.material,
            problem.inertia,
            problem.touch,
            problem.rows,
            problem.islands,
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
