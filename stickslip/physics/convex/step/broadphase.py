"""Which pairs of geoms may touch: pairs of bodies are tested first, then the geoms of close pairs.

MuJoCo Warp looks at every pair of geoms. A cube of 27 geoms has 729 pairs with another, and most of them are far apart.
"""

import functools

import mujoco_warp as mjw
import numpy as np
import warp as wp

from stickslip.physics.mjwarp import private

wp.set_module_options({"enable_backward": False})

FEWEST_PAIRS = 500
"""Pairs of geoms from which on bodies are looked at first."""
_UNBOUNDED = wp.constant(1.0e10)


@wp.struct
class Groups:
    """Pairs of geoms that can touch, by pair of bodies.

    Attributes:
        n: pairs of bodies
        body: the two bodies                       (n,)
        adr, num: their pairs of geoms             (n,)
        pair, pairid: as MuJoCo Warp keeps them    (npair,)
        geomadr, geomnum: geoms of a body          (nbody,)
    """

    n: int
    body: wp.array[wp.vec2i]
    adr: wp.array[int]
    num: wp.array[int]
    pair: wp.array[wp.vec2i]
    pairid: wp.array[wp.vec2i]
    geomadr: wp.array[int]
    geomnum: wp.array[int]


def make_groups(m: mjw.Model) -> Groups:
    """The pairs of a model; none (n = 0) where looking at bodies first is not worth it, or not possible."""
    groups = Groups()
    pair, pairid = m.nxn_geom_pair_filtered.numpy(), m.nxn_pairid_filtered.numpy()
    groups.n = 0
    groups.geomadr, groups.geomnum = m.body_geomadr, m.body_geomnum
    if (
        len(pair) >= FEWEST_PAIRS
        and not m.npair
        and not m.nflex
        and not m.flg_surfacevel
        and m.geom_dataid.shape[0] == 1
    ):
        body = np.sort(m.geom_bodyid.numpy()[pair], axis=1)
        order = np.lexsort((np.arange(len(pair)), body[:, 1], body[:, 0]))
        unique, start, count = np.unique(body[order], axis=0, return_index=True, return_counts=True)
        pair, pairid = pair[order], pairid[order]
        groups.n = len(unique)
        groups.body = wp.array(unique, dtype=wp.vec2i)
        groups.adr, groups.num = wp.array(start, dtype=int), wp.array(count, dtype=int)
        groups.pair, groups.pairid = wp.array(pair, dtype=wp.vec2i), wp.array(pairid, dtype=wp.vec2i)
    return groups


@wp.kernel
def _bound_bodies(
    # Model:
    geom_rbound: wp.array2d[float],
    geom_margin: wp.array2d[float],
    geom_gap: wp.array2d[float],
    # Data in:
    xpos_in: wp.array2d[wp.vec3],
    geom_xpos_in: wp.array2d[wp.vec3],
    # In:
    groups: Groups,
    # Out:
    radius_out: wp.array2d[float],
):
    """Radius about a body's origin that holds all its geoms; without end where one of them is a plane."""
    worldid, bodyid = wp.tid()
    radius = float(0.0)
    for k in range(groups.geomnum[bodyid]):
        geom = groups.geomadr[bodyid] + k
        bound = geom_rbound[worldid % geom_rbound.shape[0], geom]
        reach = geom_margin[worldid % geom_margin.shape[0], geom] + geom_gap[worldid % geom_gap.shape[0], geom]
        if bound == 0.0:
            radius = _UNBOUNDED
        distance = wp.length(geom_xpos_in[worldid, geom] - xpos_in[worldid, bodyid])
        radius = wp.max(radius, distance + bound + reach)
    radius_out[worldid, bodyid] = radius


@functools.cache
def _pairs_of_bodies(opt_broadphase_filter: int, sizes: tuple[int, ...]) -> wp.Kernel:
    """The kernel for a choice of filters and of fields that differ between worlds."""
    is_near = private.broadphase_filter(opt_broadphase_filter, *sizes)
    add_geom_pair = private.add_geom_pair

    @wp.kernel(module="unique", enable_backward=False)
    def pairs_of_bodies(
        # Model:
        geom_type: wp.array[int],
        geom_aabb: wp.array3d[wp.vec3],
        geom_rbound: wp.array2d[float],
        geom_margin: wp.array2d[float],
        geom_gap: wp.array2d[float],
        pair_margin: wp.array2d[float],
        pair_gap: wp.array2d[float],
        # Data in:
        xpos_in: wp.array2d[wp.vec3],
        geom_xpos_in: wp.array2d[wp.vec3],
        geom_xmat_in: wp.array2d[wp.mat33],
        naconmax_in: int,
        # In:
        groups: Groups,
        radius_in: wp.array2d[float],
        # Data out:
        ncollision_out: wp.array[int],
        # Out:
        collision_pair_out: wp.array[wp.vec2i],
        collision_pairid_out: wp.array[wp.vec2i],
        collision_worldid_out: wp.array[int],
    ):
        worldid, group = wp.tid()
        body = groups.body[group]
        reach = radius_in[worldid, body[0]] + radius_in[worldid, body[1]]
        apart = xpos_in[worldid, body[1]] - xpos_in[worldid, body[0]]
        if wp.length_sq(apart) > reach * reach:
            return
        for k in range(groups.adr[group], groups.adr[group] + groups.num[group]):
            geom = groups.pair[k]
            pairid = groups.pairid[k]
            if is_near(
                geom_aabb,
                geom_rbound,
                geom_margin,
                geom_gap,
                pair_margin,
                pair_gap,
                geom_xpos_in,
                geom_xmat_in,
                geom[0],
                geom[1],
                pairid[0],
                worldid,
            ):
                add_geom_pair(
                    naconmax_in,
                    geom[0],
                    geom[1],
                    geom_type[geom[0]],
                    geom_type[geom[1]],
                    worldid,
                    pairid,
                    ncollision_out,
                    collision_pair_out,
                    collision_pairid_out,
                    collision_worldid_out,
                )

    return pairs_of_bodies


def collide(m: mjw.Model, d: mjw.Data, groups: Groups) -> None:
    """Find all contacts, as `mujoco_warp.collision` does."""
    off = mjw.DisableBit.CONSTRAINT | mjw.DisableBit.CONTACT
    if groups.n == 0 or m.nsensorcollision or d.naconmax == 0 or m.opt.disableflags & off:
        mjw.collision(m, d)
        return
    context = private.collision_context(d.naconmax)
    d.ncollision.zero_()
    d.nacon.zero_()
    radius = wp.empty((d.nworld, m.nbody), dtype=float)
    wp.launch(
        _bound_bodies,
        dim=radius.shape,
        inputs=[m.geom_rbound, m.geom_margin, m.geom_gap, d.xpos, d.geom_xpos, groups],
        outputs=[radius],
    )
    fields = (m.geom_aabb, m.geom_rbound, m.geom_margin, m.geom_gap, m.pair_margin, m.pair_gap)
    wp.launch(
        _pairs_of_bodies(int(m.opt.broadphase_filter), tuple(field.shape[0] for field in fields)),
        dim=(d.nworld, groups.n),
        inputs=[m.geom_type, *fields, d.xpos, d.geom_xpos, d.geom_xmat, d.naconmax, groups, radius],
        outputs=[d.ncollision, context.collision_pair, context.collision_pairid, context.collision_worldid],
    )
    private.narrowphase(m, d, context)
