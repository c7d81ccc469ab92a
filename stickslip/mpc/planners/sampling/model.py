"""The model of the rollouts."""

import mujoco


def plan_model(spec: mujoco.MjSpec, sensors: bool = True) -> mujoco.MjModel:
    """The model without cameras and lights, with unused features disabled, so that a step launches fewer kernels.

    Args:
        spec: the scene; it is changed
        sensors: keep the sensors
    """
    for unseen in [*spec.cameras, *spec.lights, *([] if sensors else spec.sensors)]:
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
