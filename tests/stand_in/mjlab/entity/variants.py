"""Models with other meshes in each world."""

from typing import Any

import mujoco
import mujoco_warp as mjwarp


def build_variant_model(mjm: mujoco.MjModel) -> Any:
    return mjwarp.put_model(mjm)
