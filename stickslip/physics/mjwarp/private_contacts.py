"""What is used of MuJoCo Warp that it does not make public, for contacts that are added to those it finds."""

import mujoco_warp as mjw
import warp as wp
from mujoco_warp._src import collision_core, collision_driver

contact_material_params = collision_core.contact_material_params


def contact_surfacevel(m: mjw.Model, d: mjw.Data) -> None:
    """The last of `mujoco_warp.collision`: velocities of surfaces at all contacts, also those added since."""
    c = d.contact
    wp.launch(
        collision_driver._contact_surfacevel,
        dim=d.naconmax,
        inputs=[m.geom_surfacevel, d.geom_xpos, d.geom_xmat, c.pos, c.frame, c.geom, c.worldid, d.naconmax, d.nacon],
        outputs=[c.surfacevel],
    )
