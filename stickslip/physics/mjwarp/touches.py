"""Which contacts touch. A physics that finds contacts before they touch marks those that are only near.

A near contact is open and has no force. Its bit `CONSTRAINT` in `contact.type` is clear and `NEAR` is set, so that the
sensors of MuJoCo Warp, `get_data_into` and `contacts()` pass it by, as they pass by contacts for distance sensors.
"""

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp

from stickslip.physics.mjwarp.private import ContactType

wp.set_module_options({"enable_backward": False})

TOUCHING = wp.constant(int(ContactType.CONSTRAINT))
"""Bit of `contact.type`: the contact touches, or is within the gap that the model itself has, as in MuJoCo."""
NEAR = wp.constant(1 << 8)
"""Bit of `contact.type` in its place: the contact is only near. MuJoCo Warp does not use this bit."""
FOUND = wp.constant(int(TOUCHING) | int(NEAR))
"""What takes part in a solve."""


@wp.struct
class Gaps:
    """The gaps of the model itself, without what a physics added to them to look ahead; m."""

    any: bool
    geom: wp.array[float]  # (ngeom,)
    npair: int
    pair_geom: wp.array[wp.vec2i]  # (npair,)
    pair: wp.array[float]


def gaps_of(mjm: mujoco.MjModel) -> Gaps:
    """The gaps of a model, on the current device."""
    gaps = Gaps()
    gaps.any = bool(mjm.geom_gap.any() or mjm.pair_gap.any())
    gaps.geom = wp.array(mjm.geom_gap, dtype=float)
    gaps.npair = mjm.npair
    pairs = np.stack([mjm.pair_geom1, mjm.pair_geom2], axis=1).astype(np.int32)
    gaps.pair_geom = wp.array(pairs, dtype=wp.vec2i)
    gaps.pair = wp.array(mjm.pair_gap, dtype=float)
    return gaps


@wp.func
def is_apart(gaps: Gaps, geom: wp.vec2i, dist: float, includemargin: float) -> bool:
    """Whether MuJoCo would not have found this contact."""
    gap = float(0.0)
    if gaps.any:
        gap = gaps.geom[geom[0]] + gaps.geom[geom[1]]
        for p in range(gaps.npair):
            pair = gaps.pair_geom[p]
            if (pair[0] == geom[0] and pair[1] == geom[1]) or (pair[0] == geom[1] and pair[1] == geom[0]):
                gap = gaps.pair[p]
    return dist >= includemargin + gap


@wp.func
def marked(type: int, is_near: bool) -> int:
    """The type of a contact that takes part in a solve, marked as near or as touching."""
    if is_near:
        return (type & ~TOUCHING) | NEAR
    return (type & ~NEAR) | TOUCHING


@wp.kernel
def _mark_apart(
    # In:
    gaps: Gaps,
    # Data in:
    naconmax: int,
    nacon_in: wp.array[int],
    contact_dist_in: wp.array[float],
    contact_includemargin_in: wp.array[float],
    contact_geom_in: wp.array[wp.vec2i],
    # Data out:
    contact_type_out: wp.array[int],
):
    conid = wp.tid()
    if conid >= wp.min(nacon_in[0], naconmax):
        return
    type = contact_type_out[conid]
    if type & FOUND:
        near = is_apart(gaps, contact_geom_in[conid], contact_dist_in[conid], contact_includemargin_in[conid])
        contact_type_out[conid] = marked(type, near)


def mark_apart(d: mjw.Data, gaps: Gaps) -> None:
    """Mark contacts by their distance alone, before there are forces; the solve marks them again."""
    c = d.contact
    wp.launch(
        _mark_apart,
        dim=d.naconmax,
        inputs=[gaps, d.naconmax, d.nacon, c.dist, c.includemargin, c.geom],
        outputs=[c.type],
    )


@wp.kernel
def _count_touches(
    # Data in:
    naconmax: int,
    nacon_in: wp.array[int],
    contact_type_in: wp.array[int],
    # Out:
    count_out: wp.array[int],
):
    conid = wp.tid()
    if conid < wp.min(nacon_in[0], naconmax) and (contact_type_in[conid] & TOUCHING):
        wp.atomic_add(count_out, 0, 1)


def count_touches(d: mjw.Data) -> int:
    """How many contacts touch, over all worlds; counted on the device."""
    device = d.nacon.device
    count = wp.zeros(1, dtype=int, device=device)
    inputs = [d.naconmax, d.nacon, d.contact.type]
    wp.launch(_count_touches, dim=d.naconmax, inputs=inputs, outputs=[count], device=device)
    return int(count.numpy()[0])
