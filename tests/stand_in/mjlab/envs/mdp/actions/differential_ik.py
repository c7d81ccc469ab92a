"""Inverse kinematics: Jacobians of points."""

from typing import Any

import mujoco_warp as mjwarp


def jacobian(m: Any, d: Any, *arrays: Any) -> None:
    mjwarp.jac(m, d, *arrays)
