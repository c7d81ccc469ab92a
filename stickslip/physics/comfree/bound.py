"""All forces of a world cut back where together they would do more than (8) asks of each.

(8) gives every facet and row a force as if it were alone, and those on the same bodies add up. With the forces times s,

    |v+ - v*|^2 = |v_s - v*|^2 - 2 dt s f . J (v* - v_s) + dt^2 s^2 f . J H^-1 J' f      in the metric of H

where v* is any velocity at which no facet is violated, so that J (v* - v_s) is at least r, the velocity that is missing
at each. The distance to v* shrinks if s < 2 f . r / (dt f . J H^-1 J' f), whatever the model, and most for half of it,
where the missing velocity is made up on the average over the forces. v* = 0 is one of these velocities unless
something has to be pushed out: a step then gains no energy.
"""

import mujoco_warp as mjw
import warp as wp

from stickslip.physics.comfree.model import Model
from stickslip.physics.comfree.rows import Workspace
from stickslip.physics.mjwarp.pipeline import Prediction
from stickslip.physics.mjwarp.smooth.factor import solve, solve_motion

wp.set_module_options({"enable_backward": False})


@wp.kernel
def _sum_power(
    # Data in:
    qfrc_constraint_in: wp.array2d[float],
    # In:
    response_in: wp.array2d[float],
    # Out:
    power_out: wp.array[float],
):
    """f . J H^-1 J' f of a world."""
    worldid, dofid = wp.tid()
    wp.atomic_add(power_out, worldid, qfrc_constraint_in[worldid, dofid] * response_in[worldid, dofid])


@wp.kernel
def _cut_forces(
    # Model:
    opt_timestep: wp.array[float],
    nv: int,
    # Data in:
    njmax_in: int,
    nefc_in: wp.array[int],
    qfrc_smooth_in: wp.array2d[float],
    # In:
    qacc_free_in: wp.array2d[float],
    response_in: wp.array2d[float],
    work_in: wp.array[float],
    power_in: wp.array[float],
    # Data out:
    qfrc_constraint_out: wp.array2d[float],
    efc_Ma_out: wp.array2d[float],
    efc_force_out: wp.array2d[float],
    # Out:
    qacc_out: wp.array2d[float],
):
    """A dof and a row of a world, with its forces times s."""
    worldid, index = wp.tid()
    timestep = opt_timestep[worldid % opt_timestep.shape[0]]
    share = float(1.0)
    made_up = timestep * power_in[worldid]
    if made_up > work_in[worldid]:
        share = work_in[worldid] / made_up
    if index < nv:
        qacc_out[worldid, index] = qacc_free_in[worldid, index] + share * response_in[worldid, index]
    if share == 1.0:
        return
    if index < nv:
        qfrc = share * qfrc_constraint_out[worldid, index]
        qfrc_constraint_out[worldid, index] = qfrc
        efc_Ma_out[worldid, index] = qfrc_smooth_in[worldid, index] + qfrc
    if index < wp.min(nefc_in[worldid], njmax_in):
        efc_force_out[worldid, index] *= share


def bound_forces(m: Model, d: mjw.Data, s: Workspace, prediction: Prediction) -> None:
    """Cut back the forces of worlds where it is needed, and find the motion, `prediction.motion`."""
    response = wp.empty((d.nworld, m.nv), dtype=float)
    if prediction.factor is prediction.M:
        solve(m, d, prediction.factor, response, d.qfrc_constraint)
    else:
        solve_motion(m, d, prediction.factor, response, d.qfrc_constraint)
    power = wp.zeros(d.nworld, dtype=float)
    wp.launch(_sum_power, dim=(d.nworld, m.nv), inputs=[d.qfrc_constraint, response], outputs=[power])
    prediction.motion = wp.empty((d.nworld, m.nv), dtype=float)
    wp.launch(
        _cut_forces,
        dim=(d.nworld, max(m.nv, d.njmax)),
        inputs=[
            m.opt.timestep,
            m.nv,
            d.njmax,
            d.nefc,
            d.qfrc_smooth,
            s.qacc_free,
            response,
            s.work,
            power,
        ],
        outputs=[d.qfrc_constraint, d.efc.Ma, d.efc.force, prediction.motion],
    )
