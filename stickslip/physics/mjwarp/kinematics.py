"""Poses, velocities and the sensors that read only these, of the present state: what is cheap of `forward`."""

import mujoco_warp as mjw

from stickslip import compilation
from stickslip.physics.mjwarp import private
from stickslip.physics.mjwarp.model import Model
from stickslip.physics.mjwarp.smooth.smooth import find_smooth, is_fused
from stickslip.physics.mjwarp.stages import find_poses


def find_kinematics(m: Model, d: mjw.Data, *, poses_only: bool = False) -> None:
    """Find them; contacts, accelerations and the sensors of forces stay those of the last step.

    Args:
        m: model
        d: data
        poses_only: leave out velocities and sensors
    """
    if poses_only:
        find_poses(m, d)
        return
    with compilation.unchanged({"cvel": d.cvel, "cdof_dot": d.cdof_dot}):  # the next step reads the last ones
        if is_fused(m):
            find_smooth(m, d)
        else:
            find_poses(m, d)
            mjw.transmission(m, d)
            private.actuator_velocity(m, d)
            mjw.com_vel(m, d)
        mjw.sensor_pos(m, d)
        mjw.sensor_vel(m, d)
