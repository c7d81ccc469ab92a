"""Accelerations from forces, with factors that there are, in one launch."""

import dataclasses

import mujoco_warp as mjw
import warp as wp

from stickslip.physics.mjwarp import private
from stickslip.physics.mjwarp.model import Model
from stickslip.physics.mjwarp.smooth.factor import Factor, threads
from stickslip.physics.mjwarp.smooth.fields import matrix_fields
from stickslip.physics.mjwarp.smooth.kernel import memory_for, response_kernel, solve_kernel, worlds_of


@dataclasses.dataclass(frozen=True)
class Loads:
    """Forces of constraints.

    Attributes:
        wrench: on every body, about its tree's subtree_com                           (nworld, nbody)
        qfrc_row: on single dofs                                                      (nworld, nv)
        work: sum of all forces times the velocities that are missing at them         (nworld,)
    """

    wrench: wp.array
    qfrc_row: wp.array
    work: wp.array


def respond(m: Model, d: mjw.Data, M: Factor, H: Factor | None, qacc_free: wp.array, loads: Loads) -> wp.array:
    """qfrc_constraint, efc.Ma and qacc from the forces of constraints; returns what the integrator makes of them.

    Where all forces of a world would together make up more velocity than is missing, they are cut by one factor
    (`response.h`), in efc.force too.

    Args:
        m: model
        d: data
        M: M and its factors
        H: the integrator's matrix and its factors; None: it is M
        qacc_free: acceleration by the integrator's matrix without forces of constraints          (nworld, nv)
        loads: forces of constraints
    """
    device, nbody = d.qacc.device, m.structure.body_subtreenum.shape[0]
    room, scratch, stride = memory_for(max(m.nC, 6 * nbody) + 3 * m.nv, d.nworld, device)
    factor = H or M
    motion = wp.empty((d.nworld, m.nv), dtype=float) if H else None
    gyroscopic = H is not None and private.solves_free_bodies(m)
    response = wp.empty((d.nworld, m.nv), dtype=float) if gyroscopic else None

    def launch(wrench: wp.array | None, qacc: wp.array | None) -> None:
        wp.launch(
            response_kernel(room),
            threads(d.nworld, device),
            inputs=[
                matrix_fields(m.structure.order),
                m.opt.timestep,
                m.dof_bodyid,
                m.structure.body_subtreenum,
                d.nefc,
                d.cdof,
                d.qfrc_smooth,
                wrench,
                loads.qfrc_row,
                loads.work,
                qacc_free,
                factor.L,
                factor.Dinv,
                M.L,
                M.Dinv,
                stride,
            ],
            outputs=[d.qfrc_constraint, d.efc.force, response, d.efc.Ma, qacc, motion, scratch],
            block_dim=32 * worlds_of(room),
        )

    if response is None:
        launch(loads.wrench, d.qacc)
    else:
        launch(loads.wrench, None)
        private.solve_free_bodies(m, d, response, d.qfrc_constraint)
        launch(None, d.qacc)
    return d.qacc if motion is None else motion


def solve(m: Model, d: mjw.Data, factor: Factor, x: wp.array, y: wp.array) -> None:
    """x = H^-1 y, where H may be M."""
    room, scratch, stride = memory_for(m.nC + 2 * m.nv, d.nworld, y.device)
    wp.launch(
        solve_kernel(room),
        threads(d.nworld, y.device),
        inputs=[matrix_fields(m.structure.order), factor.L, factor.Dinv, y, stride],
        outputs=[x, scratch],
        block_dim=32 * worlds_of(room),
    )


def solve_motion(m: Model, d: mjw.Data, factor: Factor, x: wp.array, y: wp.array) -> None:
    """x = H^-1 y, and for free bodies under implicitfast with what gyroscopic forces add to H."""
    solve(m, d, factor, x, y)
    private.solve_free_bodies(m, d, x, y)
