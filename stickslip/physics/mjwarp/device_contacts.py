"""MuJoCo Warp's contacts as `DeviceContacts`: those that touch, one after the other, with their forces."""

import mujoco_warp as mjw
import warp as wp

from stickslip.physics.contacts import DeviceContacts
from stickslip.physics.mjwarp.touches import TOUCHING

wp.set_module_options({"enable_backward": False})

_NONE = 2**31 - 1
"""A number that no contact has: `mujoco_warp.contact_force` leaves its entry alone."""


@wp.kernel
def _mark_touches(
    # Data in:
    nacon_in: wp.array[int],
    contact_type_in: wp.array[int],
    contact_worldid_in: wp.array[int],
    # Out:
    mark_out: wp.array[int],
    ncon_out: wp.array[int],
):
    conid = wp.tid()
    mark = int(0)
    # those without this bit are near, or serve distance sensors
    if conid < nacon_in[0] and (contact_type_in[conid] & TOUCHING) != 0:
        mark = 1
        wp.atomic_add(ncon_out, contact_worldid_in[conid], 1)
    mark_out[conid] = mark


@wp.kernel
def _gather_touches(
    # Data in:
    contact_worldid_in: wp.array[int],
    contact_geom_in: wp.array[wp.vec2i],
    contact_dist_in: wp.array[float],
    contact_pos_in: wp.array[wp.vec3],
    contact_frame_in: wp.array[wp.mat33],
    # In:
    mark_in: wp.array[int],
    number_in: wp.array[int],
    # Out:
    count_out: wp.array[int],
    world_out: wp.array[int],
    geom_out: wp.array[wp.vec2i],
    dist_out: wp.array[float],
    pos_out: wp.array[wp.vec3],
    frame_out: wp.array[wp.mat33],
    conid_out: wp.array[int],
):
    conid = wp.tid()
    number = number_in[conid]
    if conid == number_in.shape[0] - 1:
        count_out[0] = number
    if mark_in[conid] != 0:
        place = number - 1
        world_out[place] = contact_worldid_in[conid]
        geom_out[place] = contact_geom_in[conid]
        dist_out[place] = contact_dist_in[conid]
        pos_out[place] = contact_pos_in[conid]
        frame_out[place] = contact_frame_in[conid]
        conid_out[place] = conid


def fill_contacts(m: mjw.Model, d: mjw.Data, out: DeviceContacts) -> None:
    """Fill `out`, which has room for `naconmax`, with the contacts of the data, in their order."""
    mark, number, conid = out.scratch
    out.ncon.zero_()
    conid.fill_(_NONE)
    c = d.contact
    wp.launch(_mark_touches, dim=d.naconmax, inputs=[d.nacon, c.type, c.worldid], outputs=[mark, out.ncon])
    wp.utils.array_scan(mark, number, inclusive=True)
    wp.launch(
        _gather_touches,
        dim=d.naconmax,
        inputs=[c.worldid, c.geom, c.dist, c.pos, c.frame, mark, number],
        outputs=[out.count, out.world, out.geom, out.dist, out.pos, out.frame, conid],
    )
    mjw.contact_force(m, d, conid, False, out.force)
