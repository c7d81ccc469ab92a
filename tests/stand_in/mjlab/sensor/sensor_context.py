"""Rendering."""

from typing import Any

import mujoco
import mujoco_warp as mjwarp


def context_of(mjm: mujoco.MjModel, nworld: int) -> Any:
    return mjwarp.create_render_context(mjm=mjm, nworld=nworld, cam_res=[(4, 4)], render_depth=[True])
