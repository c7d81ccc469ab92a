"""Contacts by world, sorted, in pairs of bodies, each with the force it carried in the last step."""

import warp as wp

from stickslip.physics.conesweep.cone import project
from stickslip.physics.conesweep.inertia import is_lone
from stickslip.physics.conesweep.layout import COLORS, Bodies, Contacts, Links, Memory, Settings, Tree, Work
from stickslip.physics.contact import body_twist
from stickslip.physics.mjwarp_private import ContactType, vec5

wp.set_module_options({"enable_backward": False})

FEATURE_BITS = wp.constant(wp.int64(6))
MAX_FEATURE = wp.constant(wp.int64(64))
"""Contacts of a pair of geoms that keys can tell apart."""


@wp.kernel
def count_contacts(tree: Tree, contacts: Contacts, work: Work):
    """Give each contact that takes part a place among those of its world."""
    conid = wp.tid()
    if conid >= wp.min(contacts.count[0], contacts.nmax):
        return
    geom = contacts.geom[conid]
    weld1 = tree.body_weldid[tree.geom_bodyid[geom[0]]]
    weld2 = tree.body_weldid[tree.geom_bodyid[geom[1]]]
    slot = int(-1)
    if (contacts.type[conid] & ContactType.CONSTRAINT) and (
        tree.body_treeid[weld1] >= 0 or tree.body_treeid[weld2] >= 0
    ):
        slot = wp.atomic_add(work.num, contacts.worldid[conid], 1)
    work.slot[conid] = slot
    work.age[conid] = 0


@wp.kernel
def place_worlds(memory: Memory, work: Work):
    """Room for the contacts of a world, and for those of the last step that it may get back."""
    worldid = wp.tid()
    work.adr[worldid] = wp.atomic_add(work.cursor, 0, work.num[worldid] + memory.num[worldid])


@wp.func
def keys_of_pair(maxgeom: int) -> wp.int64:
    """Keys that the contacts of two bodies can have; a key over this is its pair of bodies."""
    return MAX_FEATURE * wp.int64(maxgeom) * wp.int64(maxgeom)


@wp.kernel
def group_contacts(tree: Tree, contacts: Contacts, work: Work):
    """Bring contacts together by world, with keys that sort them by pair of bodies, pair of geoms and feature."""
    conid = wp.tid()
    if conid >= wp.min(contacts.count[0], contacts.nmax):
        return
    slot = work.slot[conid]
    if slot < 0:
        return
    geom = contacts.geom[conid]
    weld1 = tree.body_weldid[tree.geom_bodyid[geom[0]]]
    weld2 = tree.body_weldid[tree.geom_bodyid[geom[1]]]
    local1 = tree.geom_local[geom[0]]
    local2 = tree.geom_local[geom[1]]
    if weld1 > weld2:
        weld1, weld2 = weld2, weld1
        local1, local2 = local2, local1
    key = wp.int64(weld1) * wp.int64(tree.nbody) + wp.int64(weld2)
    key = (key * wp.int64(tree.maxgeom) + wp.int64(local1)) * wp.int64(tree.maxgeom) + wp.int64(local2)
    key = key * MAX_FEATURE + wp.int64(wp.clamp(contacts.geomcollisionid[conid], 0, 63))
    index = work.adr[contacts.worldid[conid]] + slot
    work.unsorted_key[index] = key
    work.unsorted_con[index] = conid


@wp.func
def earlier(a: wp.vec3, b: wp.vec3) -> bool:
    """Order of positions: breaks ties between contacts of one feature the same way every time."""
    if a[0] != b[0]:
        return a[0] < b[0]
    if a[1] != b[1]:
        return a[1] < b[1]
    return a[2] < b[2]


@wp.func
def sort_contacts(tree: Tree, contacts: Contacts, work: Work, worldid: int, lane: int, nlane: int):
    """Sort by counting how many of the world come before."""
    keys = keys_of_pair(tree.maxgeom)
    adr = work.adr[worldid]
    num = work.num[worldid]
    for i in range(lane, num, nlane):
        key = work.unsorted_key[adr + i]
        con = work.unsorted_con[adr + i]
        rank = int(0)
        for j in range(num):
            other = work.unsorted_key[adr + j]
            if other < key:
                rank += 1
            elif other == key and j != i:
                a = contacts.pos[work.unsorted_con[adr + j]]
                b = contacts.pos[con]
                if earlier(a, b) or (not earlier(b, a) and j < i):
                    rank += 1
        work.key[adr + rank] = key
        work.con[adr + rank] = con
        work.code[adr + rank] = int(key / keys)


@wp.func
def make_pairs(tree: Tree, contacts: Contacts, work: Work, worldid: int, lane: int, nlane: int):
    """One pair for each run of contacts between the same two bodies; its point is their middle."""
    adr = work.adr[worldid]
    num = work.num[worldid]
    for i in range(lane, num, nlane):
        code = work.code[adr + i]
        before = int(0)
        last = work.code[adr]
        for j in range(1, i + 1):
            now = work.code[adr + j]
            before += wp.where(now != last, 1, 0)
            last = now
        work.of_pair[adr + i] = before
        is_first = bool(True)
        if i > 0:
            is_first = work.code[adr + i - 1] != code
        if i == num - 1:
            work.npair[worldid] = before + 1
        if is_first:
            count = int(0)
            point = wp.vec3()
            while i + count < num:
                if work.code[adr + i + count] != code:
                    break
                point += contacts.pos[work.con[adr + i + count]]
                count += 1
            work.first[adr + before] = adr + i
            work.ncon[adr + before] = count
            work.bodies[adr + before] = wp.vec2i(code / tree.nbody, code % tree.nbody)
            work.point[adr + before] = point / float(count)


@wp.func
def clear_world(tree: Tree, bodies: Bodies, work: Work, links: Links, worldid: int, lane: int, nlane: int):
    """Velocity without constraints, of dofs and bodies; nothing has acted yet."""
    timestep = bodies.timestep[worldid % bodies.timestep.shape[0]]
    for b in range(lane, tree.nbody, nlane):
        work.head[worldid, b] = -1
        work.used[worldid, b] = 0
        work.P[worldid, b] = wp.spatial_vector()
        work.Px[worldid, b] = wp.spatial_vector()
        work.X[worldid, b] = wp.spatial_vector()
        twist = body_twist(
            tree.body_weldid,
            tree.body_dofnum,
            tree.body_dofadr,
            tree.dof_parentid,
            bodies.cdof,
            bodies.qvel,
            bodies.qacc_free,
            timestep,
            worldid,
            b,
        )
        work.twist[worldid, b] = twist
        work.V[worldid, b] = twist
    for i in range(lane, tree.nv, nlane):
        v = bodies.qvel[worldid, i] + timestep * bodies.qacc_free[worldid, i]
        work.v_free[worldid, i] = v
        work.v[worldid, i] = v
        work.x[worldid, i] = 0.0
    for t in range(lane, tree.ntree, nlane):
        work.touched[worldid, t] = 0
        for c in range(COLORS):
            work.count[worldid, t, c] = 0
    for c in range(lane, COLORS + 1, nlane):
        work.color_adr[worldid, c] = 0
        links.color_adr[worldid, c] = 0
    if lane == 0:
        work.npair[worldid] = 0
        work.nactive[worldid] = 0


@wp.func
def order_pairs(work: Work, links: Links, worldid: int, lane: int, nlane: int):
    """Pairs and links of one colour next to each other."""
    adr = work.adr[worldid]
    npair = work.npair[worldid]
    for p in range(lane, npair, nlane):
        color = work.color[adr + p]
        place = work.color_adr[worldid, color]
        for q in range(p):
            place += wp.where(work.color[adr + q] == color, 1, 0)
        work.order[adr + place] = p
    for k in range(lane, links.n, nlane):
        color = links.color[worldid, k]
        if color >= 0:
            place = links.color_adr[worldid, color]
            for q in range(k):
                place += wp.where(links.color[worldid, q] == color, 1, 0)
            links.order[worldid, place] = k


@wp.func
def color_pairs(tree: Tree, work: Work, links: Links, worldid: int):
    """Colours, by one lane, one after the other: rows on dofs have the first, then links, then pairs in contact.

    Each gets the first colour that neither of its lone bodies has yet. Jointed bodies that something acts on are
    listed.
    """
    ncolor = int(0)
    jointed_colors = int(0)
    for t in range(tree.ntree):
        if work.touched[worldid, t] > 0:
            work.count[worldid, t, 0] = 1
            jointed_colors = 1
            ncolor = 1
    adr = work.adr[worldid]
    for k in range(links.n + work.npair[worldid]):
        p = k - links.n
        pair = wp.vec2i(0, 0)
        if p >= 0:
            pair = work.bodies[adr + p]
        elif links.active[worldid, k] > 0:
            pair = links.bodies[k]
        used = int(0)
        for side in range(2):
            if is_lone(tree.body_treeid, tree.tree_lone, pair[side]):
                used = used | work.used[worldid, pair[side]]
        color = int(0)
        while color < COLORS - 1 and ((used >> color) & 1) == 1:
            color += 1
        bit = 1 << color
        for side in range(2):
            b = pair[side]
            t = tree.body_treeid[b]
            if t >= 0:
                if side == 0 or tree.body_treeid[pair[0]] != t:
                    work.count[worldid, t, color] = work.count[worldid, t, color] + 1
                ncolor = wp.max(ncolor, color + 1)
                if tree.tree_lone[t] >= 0:
                    work.used[worldid, b] = work.used[worldid, b] | bit
                else:
                    jointed_colors = jointed_colors | bit
                    if work.used[worldid, b] == 0:
                        work.used[worldid, b] = 1
                        work.active[worldid, work.nactive[worldid]] = b
                        work.nactive[worldid] = work.nactive[worldid] + 1
        if p >= 0:
            work.color[adr + p] = color
            work.color_adr[worldid, color + 1] = work.color_adr[worldid, color + 1] + 1
        else:
            links.color[worldid, k] = wp.where(links.active[worldid, k] > 0, color, -1)
            if links.active[worldid, k] > 0:
                links.color_adr[worldid, color + 1] = links.color_adr[worldid, color + 1] + 1
    for c in range(COLORS):
        work.color_adr[worldid, c + 1] = work.color_adr[worldid, c + 1] + work.color_adr[worldid, c]
        links.color_adr[worldid, c + 1] = links.color_adr[worldid, c + 1] + links.color_adr[worldid, c]
    wp.atomic_max(work.ncolor, 0, ncolor)
    wp.atomic_or(work.jointed_colors, 0, jointed_colors)


@wp.func
def link_pairs(tree: Tree, work: Work, worldid: int, lane: int, nlane: int):
    """The pairs of each body as a list, in their order."""
    adr = work.adr[worldid]
    npair = work.npair[worldid]
    for b in range(lane, tree.nbody, nlane):
        if tree.body_treeid[b] >= 0 and tree.body_weldid[b] == b:
            last = int(-1)
            is_second = bool(False)
            for p in range(npair + 1):
                here = p == npair
                if p < npair:
                    here = work.bodies[adr + p][0] == b or work.bodies[adr + p][1] == b
                if here:
                    link = wp.where(p == npair, -1, p)
                    if last < 0:
                        work.head[worldid, b] = link
                    elif is_second:
                        work.next2[adr + last] = link
                    else:
                        work.next1[adr + last] = link
                    if p < npair:
                        last = p
                        is_second = work.bodies[adr + p][1] == b


@wp.func
def smaller(radius1: float, radius2: float) -> float:
    """Radius of the smaller of two geoms; planes have none."""
    if radius1 <= 0.0 or (radius2 > 0.0 and radius2 < radius1):
        return radius2
    return radius1


@wp.func
def append_contact(
    contacts: Contacts, memory: Memory, old: int, worldid: int, pos: wp.vec3, dist: float, normal: wp.vec3, feature: int
) -> int:
    """A contact of the last step where it is now, among MuJoCo Warp's; -1 if there is no room."""
    conid = wp.atomic_add(contacts.count, 0, 1)
    if conid >= contacts.nmax:
        return -1
    axis = wp.vec3(0.0, 1.0, 0.0)
    if wp.abs(normal[1]) > 0.5:
        axis = wp.vec3(0.0, 0.0, 1.0)
    tangent = wp.normalize(axis - wp.dot(axis, normal) * normal)
    contacts.frame[conid] = wp.matrix_from_rows(normal, tangent, wp.cross(normal, tangent))
    contacts.pos[conid] = pos
    contacts.dist[conid] = dist
    contacts.worldid[conid] = worldid
    contacts.geomcollisionid[conid] = feature
    contacts.type[conid] = int(ContactType.CONSTRAINT)
    contacts.geom[conid] = memory.geom[old]
    contacts.dim[conid] = memory.dim[old]
    contacts.friction[conid] = memory.friction[old]
    contacts.includemargin[conid] = memory.margin[old]
    contacts.surfacevel[conid] = wp.vec3()
    contacts.adhesion[conid] = 0.0
    for i in range(contacts.efc_address.shape[1]):
        contacts.efc_address[conid, i] = -1
    return conid


@wp.func
def keep_contacts(
    tree: Tree,
    contacts: Contacts,
    bodies: Bodies,
    memory: Memory,
    work: Work,
    found: int,
    worldid: int,
    lane: int,
    nlane: int,
):
    """Bring back contacts that collision detection lost though their points still touch.

    MuJoCo Warp finds one to four points of two faces that touch, not always the same, and now and then none: a body
    that stands on what is left tips over. A contact of the last step comes back if its two points are still together
    and collision detection finds fewer than ENOUGH contacts of the two geoms, none of them nearby. Where it finds none
    at all, contacts come back for PATIENCE steps. One lane looks at all old contacts of two geoms. `found` is the
    number of contacts of the world that collision detection found.
    """
    adr = work.adr[worldid]
    old_adr = memory.adr[worldid]
    old_num = memory.num[worldid]
    for i in range(lane, old_num, nlane):
        pair = memory.key[old_adr + i] >> FEATURE_BITS
        is_first = bool(True)
        if i > 0:
            is_first = (memory.key[old_adr + i - 1] >> FEATURE_BITS) != pair
        if is_first:
            have = int(0)
            for j in range(found):
                if (work.unsorted_key[adr + j] >> FEATURE_BITS) == pair:
                    have += 1
            lost = have == 0
            geom = memory.geom[old_adr + i]
            body1 = tree.geom_bodyid[geom[0]]
            body2 = tree.geom_bodyid[geom[1]]
            world0 = worldid % bodies.geom_rbound.shape[0]
            radius = smaller(bodies.geom_rbound[world0, geom[0]], bodies.geom_rbound[world0, geom[1]])
            k = int(i)
            if have >= ENOUGH:
                k = old_num
            while k < old_num and have < MOST:
                old = old_adr + k
                if (memory.key[old] >> FEATURE_BITS) != pair:
                    break
                point1 = bodies.xpos[worldid, body1] + bodies.xmat[worldid, body1] @ memory.local1[old]
                point2 = bodies.xpos[worldid, body2] + bodies.xmat[worldid, body2] @ memory.local2[old]
                normal = bodies.xmat[worldid, body1] @ memory.normal[old]
                apart = point2 - point1
                dist = wp.dot(normal, apart)
                drift = wp.length(apart - dist * normal)
                pos = 0.5 * (point1 + point2)
                near = drift < DRIFT * radius and dist - memory.margin[old] < LIFT * radius
                if near and (not lost or memory.age[old] < PATIENCE):
                    is_new = bool(True)
                    for j in range(found):
                        away = wp.length(contacts.pos[work.unsorted_con[adr + j]] - pos)
                        if (work.unsorted_key[adr + j] >> FEATURE_BITS) == pair and away < NEARBY * radius:
                            is_new = False
                    if is_new:
                        key = memory.key[old]
                        feature = int(key - key / MAX_FEATURE * MAX_FEATURE)
                        conid = append_contact(contacts, memory, old, worldid, pos, dist, normal, feature)
                        if conid >= 0:
                            work.age[conid] = wp.where(lost, memory.age[old] + 1, 0)
                            slot = wp.atomic_add(work.num, worldid, 1)
                            work.unsorted_key[adr + slot] = key
                            work.unsorted_con[adr + slot] = conid
                            have += 1
                k += 1


BOUNCE = wp.constant(0.05)
"""Slowest approach that bounces [m/s]."""
REACH = wp.constant(0.25)
"""How far a contact may move in a step and still be the same, in radii of the smaller geom."""
ENOUGH = wp.constant(4)
"""Contacts of two geoms from which none is brought back."""
MOST = wp.constant(8)
"""Contacts of two geoms at most, with those that are brought back."""
PATIENCE = wp.constant(4)
"""Steps for which contacts of two geoms come back that collision detection does not find at all."""
DRIFT = wp.constant(0.02)
"""How far the two points of a contact may slide apart before it is lost, in radii of the smaller geom."""
LIFT = wp.constant(0.01)
"""How far they may come apart along the normal, likewise."""
NEARBY = wp.constant(0.2)
"""A contact nearer than this to one that was found is that one, likewise."""


@wp.func
def to_body(xpos: wp.vec3, xmat: wp.mat33, pos: wp.vec3) -> wp.vec3:
    """A position in the frame of a body."""
    return wp.transpose(xmat) @ (pos - xpos)


@wp.func
def match_contacts(
    tree: Tree,
    contacts: Contacts,
    bodies: Bodies,
    memory: Memory,
    work: Work,
    worldid: int,
    lane: int,
    nlane: int,
):
    """Find the contact of the last step that each one continues: the same two geoms, the nearest in a body's frame."""
    adr = work.adr[worldid]
    num = work.num[worldid]
    old_adr = memory.adr[worldid]
    old_num = memory.num[worldid]
    for i in range(lane, num, nlane):
        best = int(-1)
        if old_num > 0:
            con = work.con[adr + i]
            geom = contacts.geom[con]
            body1 = tree.geom_bodyid[geom[0]]
            body2 = tree.geom_bodyid[geom[1]]
            shift = 0.5 * contacts.dist[con] * contacts.frame[con][0]
            local1 = to_body(bodies.xpos[worldid, body1], bodies.xmat[worldid, body1], contacts.pos[con] - shift)
            local2 = to_body(bodies.xpos[worldid, body2], bodies.xmat[worldid, body2], contacts.pos[con] + shift)
            world0 = worldid % bodies.geom_rbound.shape[0]
            radius = smaller(bodies.geom_rbound[world0, geom[0]], bodies.geom_rbound[world0, geom[1]])
            nearest = REACH * radius
            pair = work.key[adr + i] >> FEATURE_BITS
            low = int(0)
            high = int(old_num)
            while low < high:
                mid = (low + high) / 2
                if (memory.key[old_adr + mid] >> FEATURE_BITS) < pair:
                    low = mid + 1
                else:
                    high = mid
            while low < old_num:
                if (memory.key[old_adr + low] >> FEATURE_BITS) != pair:
                    break
                away1 = wp.length(memory.local1[old_adr + low] - local1)
                away2 = wp.length(memory.local2[old_adr + low] - local2)
                away = wp.min(away1, away2)
                if away < nearest:
                    nearest = away
                    best = old_adr + low
                low += 1
        work.matched[adr + i] = best


@wp.func
def carry_forces(
    tree: Tree,
    contacts: Contacts,
    bodies: Bodies,
    settings: Settings,
    memory: Memory,
    work: Work,
    worldid: int,
    lane: int,
    nlane: int,
):
    """Geometry of each contact about its pair's point, and the force it starts with, turned with its bodies."""
    adr = work.adr[worldid]
    for n in range(lane, work.num[worldid], nlane):
        i = adr + n
        p = adr + work.of_pair[i]
        first = work.first[p]
        pair = work.bodies[p]
        point = work.point[p]
        con = work.con[i]
        geom = contacts.geom[con]
        body1 = tree.geom_bodyid[geom[0]]
        body2 = tree.geom_bodyid[geom[1]]
        frame = contacts.frame[con]
        pos = contacts.pos[con]
        dim = contacts.dim[con]
        mu = contacts.friction[con]
        f = wp.spatial_vector()
        old = work.matched[i]
        if old >= 0:
            share = int(0)  # contacts that continue the same one share its force
            for j in range(first, first + work.ncon[p]):
                if work.matched[j] == old:
                    share += 1
            xmat1 = bodies.xmat[worldid, body1]
            xmat2 = bodies.xmat[worldid, body2]
            force1 = memory.force1[old]
            force2 = memory.force2[old]
            scale = 0.5 / float(share)
            force = scale * (xmat1 @ wp.spatial_bottom(force1) + xmat2 @ wp.spatial_bottom(force2))
            torque = scale * (xmat1 @ wp.spatial_top(force1) + xmat2 @ wp.spatial_top(force2))
            force = frame @ force
            torque = frame @ torque
            normal = wp.max(force[0], 0.0)
            friction = vec5(force[1], force[2], torque[0], torque[1], torque[2])
            friction = project(friction, normal, dim, mu, wp.vec3(1.0, 1.0, 1.0))
            f = wp.spatial_vector(normal, friction[0], friction[1], friction[2], friction[3], friction[4])
        if tree.body_weldid[body1] != pair[0]:  # geoms the other way round than the bodies
            frame = -1.0 * frame
        arm = pos - point
        work.frame[i] = frame
        work.arm[i] = arm
        work.phi[i] = contacts.dist[con] - contacts.includemargin[con]
        work.f[i] = f
        friction_kind = float(0.0)
        if dim > 3 or (dim == 3 and (mu[0] != mu[1] or wp.length_sq(contacts.surfacevel[con]) > 0.0)):
            friction_kind = -1.0
        elif dim == 3:
            friction_kind = mu[0]
        work.friction[i] = friction_kind
        approach = float(0.0)
        if settings.restitution > 0.0 and f[0] <= 0.0:
            arm1 = pos - bodies.subtree_com[worldid, tree.body_rootid[pair[0]]]
            arm2 = pos - bodies.subtree_com[worldid, tree.body_rootid[pair[1]]]
            V1 = work.twist[worldid, pair[0]]
            V2 = work.twist[worldid, pair[1]]
            u = wp.spatial_bottom(V2) - wp.spatial_bottom(V1)
            u += wp.cross(wp.spatial_top(V2), arm2) - wp.cross(wp.spatial_top(V1), arm1)
            speed = -wp.dot(frame[0], u)
            if speed > BOUNCE:
                approach = speed
        work.approach[i] = approach
