"""The model of the rollouts."""

import mujoco

from stickslip.mpc.task import Problem


def plan_model(problem: Problem) -> mujoco.MjModel:
    """The model without cameras and lights, with unused features disabled, so that a step launches fewer kernels."""
    spec = problem.task.build(problem.object)
    for unseen in [*spec.cameras, *spec.lights]:
        spec.delete(unseen)
    mjm = spec.compile()
    off = mujoco.mjtDisableBit
    if not mjm.dof_frictionloss.any() and not mjm.tendon_frictionloss.any():
        mjm.opt.disableflags |= int(off.mjDSBL_FRICTIONLOSS)
    if not mjm.neq:
        mjm.opt.disableflags |= int(off.mjDSBL_EQUALITY)
    if not mjm.nsensor:
        mjm.opt.disableflags |= int(off.mjDSBL_SENSOR)
    return mjm
