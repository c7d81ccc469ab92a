"""Poses, velocities and the sensors that read only these, of the present state: what is cheap of `forward`."""

import contextlib

import mujoco_warp as mjw
import warp as wp

from stickslip import compilation
from stickslip.physics.mjwarp import private
from stickslip.physics.mjwarp.adhesion import transmission
from stickslip.physics.mjwarp.model import Model
from stickslip.physics.mjwarp.smooth.smooth import find_smooth, is_fused
from stickslip.physics.mjwarp.stages import find_poses


def find_kinematics(m: Model, d: mjw.Data, *, poses_only: bool = False, worlds: wp.array | None = None) -> None:
    """Find them; contacts, accelerations, forces and the sensors of forces stay those of the last step.

    Args:
        m: model
        d: data
        poses_only: leave out velocities and sensors
        worlds: mask of the worlds that need it; they may be found in others, too
    """
    if poses_only:
        find_poses(m, d)
        return
    fused = is_fused(m)
    # the next step reads those of the last one
    last = {"cvel": d.cvel, "cdof_dot": d.cdof_dot} if m.nsensor or not fused else {}
    with compilation.unchanged(last) if last else contextlib.nullcontext():
        if fused:
            find_smooth(m, d, only_motion=True, write_velocities=bool(last), worlds=worlds)
        else:
            find_poses(m, d)
            transmission(m, d)
            private.actuator_velocity(m, d)
            mjw.com_vel(m, d)
        mjw.sensor_pos(m, d)
        mjw.sensor_vel(m, d)
