"""Accelerations from forces, with factors that there are, in one launch."""

import dataclasses

import mujoco_warp as mjw
import warp as wp

from stickslip.physics.mjwarp import private
from stickslip.physics.mjwarp.model import Model
from stickslip.physics.mjwarp.smooth.factor import Factor, threads
from stickslip.physics.mjwarp.smooth.fields import matrix_fields
from stickslip.physics.mjwarp.smooth.kernel import memory_for, response_kernel, worlds_of


@dataclasses.dataclass(frozen=True)
class Loads:
    """Forces of constraints.

    Attributes:
        wrench: on every body, about its tree's subtree_com             (nworld, nbody)
        qfrc_row: on single dofs                                        (nworld, nv)
    """

    wrench: wp.array
    qfrc_row: wp.array


def _respond(
    m: Model, d: mjw.Data, factors: tuple[Factor, Factor | None], loads: Loads | None, y: wp.array, *x: wp.array | None
) -> None:
    first, second = factors
    device, nbody = y.device, m.structure.body_subtreenum.shape[0]
    room, scratch, stride = memory_for(max(m.nC, 6 * nbody) + 3 * m.nv, d.nworld, device)
    wp.launch(
        response_kernel(room),
        threads(d.nworld, device),
        inputs=[
            matrix_fields(m, m.structure.order),
            m.dof_bodyid,
            m.structure.body_subtreenum,
            d.cdof,
            d.qfrc_smooth,
            *((loads.wrench, loads.qfrc_row) if loads else (None, None)),
            first.L,
            first.Dinv,
            *((second.L, second.Dinv) if second else (None, None)),
            stride,
        ],
        outputs=[d.qfrc_constraint if loads else None, y, *x, scratch],
        block_dim=32 * worlds_of(room),
    )


def respond(m: Model, d: mjw.Data, M: Factor, H: Factor | None, loads: Loads) -> wp.array:
    """qfrc_constraint, efc.Ma and qacc from the forces of constraints; returns what the integrator makes of them.

    Args:
        m: model
        d: data
        M: M and its factors
        H: the integrator's matrix and its factors; None: it is M
        loads: forces of constraints
    """
    motion = wp.empty((d.nworld, m.nv), dtype=float) if H else None
    _respond(m, d, (M, H), loads, d.efc.Ma, d.qacc, motion)
    if motion is None:
        return d.qacc
    private.solve_free_bodies(m, d, motion, d.efc.Ma)
    return motion


def solve(m: Model, d: mjw.Data, factor: Factor, x: wp.array, y: wp.array) -> None:
    """x = H^-1 y, where H may be M."""
    _respond(m, d, (factor, None), None, y, x, None)


def solve_motion(m: Model, d: mjw.Data, factor: Factor, x: wp.array, y: wp.array) -> None:
    """x = H^-1 y, and for free bodies under implicitfast with what gyroscopic forces add to H."""
    solve(m, d, factor, x, y)
    private.solve_free_bodies(m, d, x, y)
