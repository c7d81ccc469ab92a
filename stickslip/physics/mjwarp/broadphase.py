"""Collision detection: MuJoCo Warp's, with a search for pairs of geoms on the CPU that reads little of most of them."""

import functools

import mujoco_warp as mjw
import warp as wp

from stickslip.physics.mjwarp import private

wp.set_module_options({"enable_backward": False})

CHEAP = 3
"""The bits of planes and of bounding spheres among MuJoCo Warp's filters."""


@wp.func_native("""
    const auto of_world = [&](const auto& field) {
        return reinterpret_cast<const float*>(reinterpret_cast<const char*>(field.data)
            + (size_t)(worldid % field.shape[0]) * field.strides[0]);
    };
    const float* const bound = of_world(geom_rbound);
    const float* const margin = of_world(geom_margin);
    const float* const gap = of_world(geom_gap);
    const float* const pos = of_world(geom_xpos);
    const float* const mat = of_world(geom_xmat);
    for (; k < pairs.shape[0]; ++k) {
        const wp::vec2i pair = pairs.data[k], id = pairids.data[k];
        const int a = pair[0], b = pair[1];
        if (id[0] >= 0 || id[1] >= 0) break;
        const float reach = bound[a] + bound[b] + (margin[a] + gap[a]) + (margin[b] + gap[b]);
        const float* const from = pos + 3 * a;
        const float* const to = pos + 3 * b;
        const float x = to[0] - from[0], y = to[1] - from[1], z = to[2] - from[2];
        if (bound[a] == 0.0f || bound[b] == 0.0f) {  // a plane
            const float* const n = mat + 9 * (bound[a] == 0.0f ? a : b);
            const float height = x * n[2] + y * n[5] + z * n[8];
            if ((bound[a] == 0.0f ? height : -height) <= reach) break;
        } else if (x * x + y * y + z * z <= reach * reach) break;
    }
    return k;
""")
def skip_far(
    geom_rbound: wp.array2d[float],
    geom_margin: wp.array2d[float],
    geom_gap: wp.array2d[float],
    pairs: wp.array[wp.vec2i],
    pairids: wp.array[wp.vec2i],
    geom_xpos: wp.array2d[wp.vec3],
    geom_xmat: wp.array2d[wp.mat33],
    worldid: int,
    k: int,
) -> int:
    """The next pair, from k on, whose bounding spheres meet, or one of them a plane, or that the model lists."""
    ...


@functools.cache
def _pairs_of_world(filters: int, sizes: tuple[int, ...], ndataid: int) -> wp.Kernel:
    """The kernel for a choice of filters and of fields that differ between worlds."""
    is_near = private.broadphase_filter(filters, *sizes)
    add_geom_pair, is_missing = private.add_geom_pair, private.mesh_missing

    @wp.kernel(module="unique", enable_backward=False)
    def pairs_of_world(
        geom_type: wp.array[int],
        geom_dataid: wp.array2d[int],
        geom_aabb: wp.array3d[wp.vec3],
        geom_rbound: wp.array2d[float],
        geom_margin: wp.array2d[float],
        geom_gap: wp.array2d[float],
        pair_margin: wp.array2d[float],
        pair_gap: wp.array2d[float],
        pairs: wp.array[wp.vec2i],
        pairids: wp.array[wp.vec2i],
        geom_xpos: wp.array2d[wp.vec3],
        geom_xmat: wp.array2d[wp.mat33],
        naconmax: int,
        ncollision: wp.array[int],
        collision_pair: wp.array[wp.vec2i],
        collision_pairid: wp.array[wp.vec2i],
        collision_worldid: wp.array[int],
    ):
        worldid = wp.tid()
        k = int(0)
        while True:
            if wp.static(filters & CHEAP == CHEAP):
                k = skip_far(geom_rbound, geom_margin, geom_gap, pairs, pairids, geom_xpos, geom_xmat, worldid, k)
            if k >= pairs.shape[0]:
                break
            geom1 = pairs[k][0]
            geom2 = pairs[k][1]
            pairid = pairids[k]
            k += 1
            type1 = geom_type[geom1]
            type2 = geom_type[geom2]
            if wp.static(ndataid > 1):
                if is_missing(geom_dataid, geom1, type1, worldid % ndataid):
                    continue
                if is_missing(geom_dataid, geom2, type2, worldid % ndataid):
                    continue
            found = is_near(
                geom_aabb,
                geom_rbound,
                geom_margin,
                geom_gap,
                pair_margin,
                pair_gap,
                geom_xpos,
                geom_xmat,
                geom1,
                geom2,
                pairid[0],
                worldid,
            )
            if found or pairid[1] >= 0:
                add_geom_pair(
                    naconmax,
                    geom1,
                    geom2,
                    type1,
                    type2,
                    worldid,
                    pairid,
                    ncollision,
                    collision_pair,
                    collision_pairid,
                    collision_worldid,
                )

    return pairs_of_world


def find_pairs(m: mjw.Model, d: mjw.Data, context: private.CollisionContext) -> None:
    """What `nxn_broadphase` finds, in its order."""
    fields = (m.geom_aabb, m.geom_rbound, m.geom_margin, m.geom_gap, m.pair_margin, m.pair_gap)
    sizes = tuple(field.shape[0] for field in fields)
    pairs = [m.nxn_geom_pair_filtered, m.nxn_pairid_filtered]
    wp.launch(
        _pairs_of_world(int(m.opt.broadphase_filter), sizes, m.geom_dataid.shape[0]),
        dim=d.nworld,
        inputs=[m.geom_type, m.geom_dataid, *fields, *pairs, d.geom_xpos, d.geom_xmat, d.naconmax],
        outputs=[d.ncollision, context.collision_pair, context.collision_pairid, context.collision_worldid],
    )


def collide(m: mjw.Model, d: mjw.Data) -> None:
    """`mujoco_warp.collision` where `nacon` and `ncollision` are 0 already; nothing sleeps, and there is no flex."""
    if d.naconmax == 0 or m.opt.disableflags & (mjw.DisableBit.CONSTRAINT | mjw.DisableBit.CONTACT):
        return
    if m.flg_surfacevel or m.callback.contactfilter:
        mjw.collision(m, d)
        return
    context = private.collision_context(d.naconmax)
    if m.opt.broadphase != mjw.BroadphaseType.NXN:
        private.sap_broadphase(m, d, context)
    elif d.qpos.device.is_cuda:
        private.nxn_broadphase(m, d, context)
    else:
        find_pairs(m, d, context)
    private.narrowphase(m, d, context)
