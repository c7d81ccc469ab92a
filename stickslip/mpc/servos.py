"""What a position servo is."""

import mujoco


def is_servo(mjm: mujoco.MjModel, actuator: int) -> bool:
    """Whether an actuator is kp (ctrl - joint) of a hinge or slide, with any damping and no state."""
    joint = mjm.actuator_trnid[actuator, 0]
    return bool(
        mjm.actuator_trntype[actuator] == mujoco.mjtTrn.mjTRN_JOINT
        and mjm.jnt_type[joint] in (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))
        and mjm.actuator_dyntype[actuator] == mujoco.mjtDyn.mjDYN_NONE
        and mjm.actuator_gaintype[actuator] == mujoco.mjtGain.mjGAIN_FIXED
        and mjm.actuator_biastype[actuator] == mujoco.mjtBias.mjBIAS_AFFINE
        and mjm.actuator_biasprm[actuator, 1] == -mjm.actuator_gainprm[actuator, 0] != 0.0
    )
