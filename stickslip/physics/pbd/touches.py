"""Contacts of particles as `DeviceContacts`: those that touch or push, one after the other, of two sides one."""

import warp as wp

from stickslip.physics.contacts import DeviceContacts
from stickslip.physics.pbd.layout import NOBODY, Shape, Touching, real

wp.set_module_options({"enable_backward": False})


@wp.kernel
def _mark_touches(
    # In:
    touching: Touching,
    # Out:
    mark_out: wp.array[int],
    ncon_out: wp.array[int],
):
    worldid, k = wp.tid()
    mark = int(0)
    if k < touching.count[worldid] and touching.other[worldid, k] < touching.particle[worldid, k]:
        force = touching.last[worldid, k]
        if touching.gap[worldid, k] <= real(0.0) or wp.length_sq(force) > real(0.0):
            mark = 1
            wp.atomic_add(ncon_out, worldid, 1)
    mark_out[worldid * touching.capacity + k] = mark


@wp.func
def _frame_of(normal: wp.vec3d) -> wp.mat33d:
    """Normal and two tangents, as rows."""
    beside = wp.vec3d(real(0.0), real(1.0), real(0.0))
    if wp.abs(normal[0]) < real(0.5):
        beside = wp.vec3d(real(1.0), real(0.0), real(0.0))
    first = wp.normalize(wp.cross(normal, beside))
    return wp.matrix_from_rows(normal, first, wp.cross(normal, first))


@wp.kernel
def _gather_touches(
    # In:
    shape: Shape,
    touching: Touching,
    mark_in: wp.array[int],
    number_in: wp.array[int],
    # Out:
    count_out: wp.array[int],
    world_out: wp.array[int],
    geom_out: wp.array[wp.vec2i],
    dist_out: wp.array[float],
    pos_out: wp.array[wp.vec3],
    frame_out: wp.array[wp.mat33],
    force_out: wp.array[wp.spatial_vector],
):
    worldid, k = wp.tid()
    index = worldid * touching.capacity + k
    number = number_in[index]
    if index == number_in.shape[0] - 1:
        count_out[0] = number
    if mark_in[index] == 0:
        return
    place = number - 1
    other = touching.other[worldid, k]
    theirs = int(-1)
    if other != NOBODY:  # noqa: SIM108 - Warp would read both
        theirs = shape.geom[other]
    else:
        theirs = shape.collider_geom[touching.collider[worldid, k]]
    frame = _frame_of(touching.normal[worldid, k])
    force = frame * touching.last[worldid, k]
    world_out[place] = worldid
    geom_out[place] = wp.vec2i(theirs, shape.geom[touching.particle[worldid, k]])
    dist_out[place] = float(touching.gap[worldid, k])
    pos_out[place] = wp.vec3(touching.point[worldid, k])
    frame_out[place] = wp.mat33(frame)
    force_out[place] = wp.spatial_vector(wp.vec3(force), wp.vec3())


def fill_contacts(shape: Shape, touching: Touching, out: DeviceContacts) -> None:
    """Fill `out`, which has room for all candidates of all worlds, with the contacts of the last step."""
    mark, number, _ = out.scratch
    dim = (out.ncon.shape[0], touching.capacity)
    out.ncon.zero_()
    wp.launch(_mark_touches, dim=dim, inputs=[touching], outputs=[mark, out.ncon])
    wp.utils.array_scan(mark, number, inclusive=True)
    wp.launch(
        _gather_touches,
        dim=dim,
        inputs=[shape, touching, mark, number],
        outputs=[out.count, out.world, out.geom, out.dist, out.pos, out.frame, out.force],
    )
