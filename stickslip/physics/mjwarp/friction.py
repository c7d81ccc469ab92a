"""Dry friction of dofs: which of them can have some, for a physics that lays out its rows once, with the model."""

from typing import Any

import mujoco
import mujoco_warp as mjw
import numpy as np
from numpy.typing import NDArray

from stickslip import arrays
from stickslip.errors import InputError


def friction_dofs(mjm: mujoco.MjModel) -> NDArray[np.integer]:
    """Dofs that have a row of dry friction, which acts where `dof_frictionloss` is positive: all but of free joints.

    A free joint has such rows only where the model has friction: a body without rows on its dofs is much faster.
    """
    is_free = mjm.jnt_type[mjm.dof_jntid] == int(mujoco.mjtJoint.mjJNT_FREE)
    return np.flatnonzero(~is_free | (mjm.dof_frictionloss > 0.0))


def check_frictionloss(m: mjw.Model, value: Any, dofs: NDArray[np.integer]) -> None:
    """Raise InputError where a fit value of `dof_frictionloss` is of a dof without a row; `dofs` have one."""
    device = m.dof_frictionloss.device
    if len(dofs) == m.nv or device.is_capturing:
        return
    given = arrays.device_array("dof_frictionloss", value, device)
    value = arrays.host_array(value if given is None else given)
    largest = np.asarray(value, dtype=float).reshape(-1, m.nv).max(axis=0, initial=0.0)
    without = np.setdiff1d(np.flatnonzero(largest > 0.0), dofs)
    if without.size:
        raise InputError(
            f"dof_frictionloss of dof {without[0]}, of a free joint, is 0 in the model, so that it cannot be set to "
            f"{largest[without[0]]:g}; give that joint a small positive frictionloss in the model"
        )
