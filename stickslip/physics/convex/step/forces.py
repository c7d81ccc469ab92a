"""Forces on dofs that a step takes as they are at its start, and how those of springs and dampers change."""

import mujoco_warp as mjw
import warp as wp

from stickslip.physics.convex.step.model import Model, Problem
from stickslip.physics.convex.step.potential import real
from stickslip.physics.mjwarp import private

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
    add_explicit(m, d, d.qfrc_smooth)
    mjw.xfrc_accumulate(m, d, d.qfrc_smooth)
    wp.launch(_keep_forces, dim=(d.nworld, m.nv), inputs=[d.qfrc_smooth], outputs=[inertia.force])


def add_explicit(m: Model, d: mjw.Data, qfrc: wp.array) -> None:
    """Add the forces of explicit actuators on dofs that have implicit ones too."""
    layout = m.convex
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
            outputs=[qfrc],
        )
