"""Contacts of a geometry as the solver wants them: by world, with Jacobian, compliance and friction."""

import mujoco_warp as mjw
import warp as wp
from mujoco_warp import OverflowType

from stickslip.physics.convex.hydro.points import Patches
from stickslip.physics.convex.step.laws import stiction_of
from stickslip.physics.convex.step.layout import Inertia, Material, Touch, Tree, vec6
from stickslip.physics.convex.step.potential import real, static_share, vec5
from stickslip.physics.mjwarp.contact import point_velocity
from stickslip.physics.mjwarp.private import vec5 as solimp_type
from stickslip.physics.mjwarp.touches import FOUND

wp.set_module_options({"enable_backward": False})

_DISSIPATION = wp.constant(wp.float64(40.0))
"""Dissipation of a contact whose solref is critically damped, s/m: it leaves with 2.5 cm/s at the most."""
_STIFFER = wp.constant(wp.float64(50.0))
"""How much stiffer than MuJoCo's a contact is that names no stiffness: it costs no more, and bodies sink less."""
_LEAST_SLIP = wp.constant(wp.float64(1.0e-30))


@wp.struct
class Pool:
    """MuJoCo Warp's contacts; shapes (naconmax,).

    If `is_hydro`, `stiffness` and `share` are those of `Patches`.
    """

    nmax: int
    count: wp.array[int]
    dist: wp.array[float]
    pos: wp.array[wp.vec3]
    frame: wp.array[wp.mat33]
    includemargin: wp.array[float]
    friction: wp.array[solimp_type]
    solref: wp.array[wp.vec2]
    solimp: wp.array[solimp_type]
    dim: wp.array[int]
    geom: wp.array[wp.vec2i]
    worldid: wp.array[int]
    type: wp.array[int]
    surfacevel: wp.array[wp.vec3]
    is_hydro: bool
    stiffness: wp.array[float]
    share: wp.array[float]


def pool_of(d: mjw.Data, patches: "Patches | None") -> Pool:
    """The contacts of a Data, with what those of patches have besides."""
    pool = Pool()
    pool.nmax, pool.count = d.naconmax, d.nacon
    pool.is_hydro = patches is not None
    for name in ("stiffness", "share"):
        setattr(pool, name, wp.empty(0, dtype=float) if patches is None else getattr(patches, name))
    for name in Pool.vars:
        if name not in ("nmax", "count", "is_hydro", "stiffness", "share"):
            setattr(pool, name, getattr(d.contact, name))
    return pool


@wp.kernel
def clear_contacts(tree: Tree, inertia: Inertia, touch: Touch):
    """No contacts yet, and only the trees that rows bring together are near."""
    worldid, t = wp.tid()
    if t == 0:
        touch.num[worldid] = 0
        if worldid == 0:
            touch.cursor[0] = 0
    if t < tree.ntree:
        for u in range(tree.ntree):
            inertia.near[worldid, t, u] = tree.linked[t, u]


@wp.kernel
def count_contacts(tree: Tree, pool: Pool, inertia: Inertia, touch: Touch):
    """Give each contact that takes part a number in its world; note which trees it brings together."""
    conid = wp.tid()
    if conid >= wp.min(pool.count[0], pool.nmax):
        return
    geom = pool.geom[conid]
    tree1 = tree.body_treeid[tree.geom_bodyid[geom[0]]]
    tree2 = tree.body_treeid[tree.geom_bodyid[geom[1]]]
    place = int(-1)
    if (pool.type[conid] & FOUND) and (tree1 >= 0 or tree2 >= 0):
        worldid = pool.worldid[conid]
        place = wp.atomic_add(touch.num, worldid, 1)
        if tree1 >= 0 and tree2 >= 0 and tree1 != tree2:
            inertia.near[worldid, tree1, tree2] = wp.uint8(1)
            inertia.near[worldid, tree2, tree1] = wp.uint8(1)
    touch.place[conid] = place


@wp.kernel
def place_worlds(
    touch: Touch,
    pool: Pool,
    # Data in:
    ncollision_in: wp.array[int],
    # Data out:
    overflow_out: wp.array[int],
):
    """Give each world the slots of its contacts; note what did not fit."""
    worldid = wp.tid()
    if pool.count[0] > pool.nmax:
        overflow_out[worldid] = overflow_out[worldid] | int(OverflowType.NARROWPHASE)
    if ncollision_in[0] > pool.nmax:
        overflow_out[worldid] = overflow_out[worldid] | int(OverflowType.BROADPHASE)
    touch.adr[worldid] = wp.atomic_add(touch.cursor, 0, touch.num[worldid])


@wp.func
def compliance(stiffness: float, invweight: float, solref: wp.vec2, solimp: solimp_type) -> real:
    """One over the stiffness of a geom, m/N; 0 of what is rigid: a body that cannot move and names no stiffness.

    Where the model names none, solref determines it. In its usual form a body at rest on a single contact sinks a
    share of what it does with MuJoCo; the direct form, -k -b, is a spring of k for each unit of mass.
    """
    if stiffness > 0.0:
        return real(1.0) / real(stiffness)
    share = real(wp.clamp(solimp[1], 1.0e-4, 0.9999))
    per_mass = real(0.0)
    if solref[0] > 0.0:
        rate = real(1.0) / wp.max(share * real(solref[0]) * real(solref[1]), real(1.0e-6))
        per_mass = _STIFFER * rate * rate * share / (real(1.0) - share)
    else:
        per_mass = wp.max(-real(solref[0]) / share, real(1.0e-6))
    return real(invweight) / per_mass


@wp.func
def dissipation_of(dissipation: float, solref: wp.vec2) -> real:
    """Hunt and Crossley's dissipation of a geom, s/m; in proportion to the damping ratio where the model names none."""
    if dissipation >= 0.0:
        return real(dissipation)
    if solref[0] > 0.0:
        return _DISSIPATION * wp.max(real(solref[1]), real(0.0))
    return (
        _DISSIPATION
        * real(0.5)
        * wp.max(-real(solref[1]), real(0.0))
        / wp.sqrt(wp.max(-real(solref[0]), real(1.0e-12)))
    )


@wp.kernel
def fill_contacts(
    # Model:
    body_invweight0: wp.array2d[wp.vec2],
    # Data in:
    subtree_com_in: wp.array2d[wp.vec3],
    cdof_in: wp.array2d[wp.spatial_vector],
    # In:
    tree: Tree,
    material: Material,
    pool: Pool,
    v_start: wp.array2d[real],
    # Out:
    touch: Touch,
):
    """Jacobian, compliance, and the friction that the velocity at the start of the step gives."""
    conid = wp.tid()
    if conid >= wp.min(pool.count[0], pool.nmax):
        return
    place = touch.place[conid]
    if place < 0:
        return
    worldid = pool.worldid[conid]
    slot = touch.adr[worldid] + place
    geom = pool.geom[conid]
    dim = pool.dim[conid]
    frame = pool.frame[conid]
    touch.con[slot] = conid
    touch.dim[slot] = dim
    body1 = tree.geom_bodyid[geom[0]]
    body2 = tree.geom_bodyid[geom[1]]
    touch.body1[slot] = body1
    touch.body2[slot] = body2
    touch.ndof[slot] = tree.chain_num[body1] + tree.chain_num[body2]

    base = slot * tree.ndim * tree.width
    surface = pool.surfacevel[conid]
    given = vec6()
    for r in range(3):
        if r + 1 < dim:
            given[r + 1] = real(surface[r])
    touch.given[slot] = given
    v = given
    for side in range(2):
        body = wp.where(side == 0, body1, body2)
        sign = wp.where(side == 0, -1.0, 1.0)
        shift = wp.where(side == 0, 0, tree.chain_num[body1])
        arm = pool.pos[conid] - subtree_com_in[worldid, tree.body_rootid[body]]
        adr = tree.chain_adr[body]
        for e in range(tree.chain_num[body]):
            dof = tree.chain_dof[adr + e]
            touch.dof[slot * tree.width + shift + e] = dof
            cdof = cdof_in[worldid, dof]
            linear = sign * (frame * point_velocity(cdof, arm))
            angular = sign * (frame * wp.spatial_top(cdof))
            speed = v_start[worldid, dof]
            for r in range(3):
                if r < dim:
                    touch.J[base + r * tree.width + shift + e] = real(linear[r])
                    v[r] += real(linear[r]) * speed
                if r + 3 < dim:
                    touch.J[base + (r + 3) * tree.width + shift + e] = real(angular[r])
                    v[r + 3] += real(angular[r]) * speed

    solref = pool.solref[conid]
    solimp = pool.solimp[conid]
    weight = worldid % body_invweight0.shape[0]
    row = worldid % material.geom_stiffness.shape[0]
    c1 = compliance(material.geom_stiffness[row, geom[0]], body_invweight0[weight, body1][0], solref, solimp)
    c2 = compliance(material.geom_stiffness[row, geom[1]], body_invweight0[weight, body2][0], solref, solimp)
    if pool.is_hydro and pool.stiffness[conid] > 0.0:
        c1 = real(pool.share[conid]) / real(pool.stiffness[conid])
        c2 = (real(1.0) - real(pool.share[conid])) / real(pool.stiffness[conid])
    total = wp.max(c1 + c2, real(1.0e-12))
    stiffness = real(1.0) / total
    row = worldid % material.geom_dissipation.shape[0]
    d1 = dissipation_of(material.geom_dissipation[row, geom[0]], solref)
    d2 = dissipation_of(material.geom_dissipation[row, geom[1]], solref)
    dissipation = (c1 * d1 + c2 * d2) / total
    elastic = -stiffness * real(pool.dist[conid] - pool.includemargin[conid])
    touch.stiffness[slot] = stiffness
    touch.dissipation[slot] = dissipation
    touch.elastic[slot] = elastic

    # (6) with the velocity at the start, and (8)
    lagged = wp.max(elastic, real(0.0)) * wp.max(real(1.0) - dissipation * v[0], real(0.0))
    friction = pool.friction[conid]
    mu = real(friction[0])
    ratio = real(1.0)
    row = worldid % material.geom_static_friction.shape[0]
    static = real(wp.max(material.geom_static_friction[row, geom[0]], material.geom_static_friction[row, geom[1]]))
    stiction = stiction_of(material, worldid)
    if static > mu and mu > real(0.0):
        slipping = wp.sqrt(v[1] * v[1] + v[2] * v[2]) / stiction
        ratio += (static / mu - real(1.0)) * static_share(slipping)
    musq = vec5()
    for r in range(5):
        if r + 1 < dim:
            musq[r] = ratio * ratio * real(friction[r]) * real(friction[r])
    if dim == 1 or mu <= real(0.0):
        lagged = real(0.0)
    touch.musq[slot] = musq
    touch.start[slot] = lagged
    touch.lagged[slot] = lagged
    touch.eps[slot] = wp.max(ratio * mu * stiction, _LEAST_SLIP)


def prepare_contacts(m: mjw.Model, d: mjw.Data, tree: Tree, material: Material, problem, v_start: wp.array) -> None:
    """Fill the contacts of a problem from what collision found."""
    inertia, touch, pool = problem.inertia, problem.touch, problem.pool
    wp.launch(clear_contacts, dim=(d.nworld, max(tree.ntree, 1)), inputs=[tree, inertia, touch])
    wp.launch(count_contacts, dim=d.naconmax, inputs=[tree, pool, inertia, touch])
    wp.launch(place_worlds, dim=d.nworld, inputs=[touch, pool, d.ncollision], outputs=[d.overflow])
    wp.launch(
        fill_contacts,
        dim=d.naconmax,
        inputs=[m.body_invweight0, d.subtree_com, d.cdof, tree, material, pool, v_start],
        outputs=[touch],
    )
