"""Contacts by world, sorted, in pairs of bodies, and the colours of pairs that may be resolved side by side."""

import warp as wp

from stickslip.physics.conesweep.layout import (
    ANY,
    COLORS,
    CURSOR,
    JOINTED,
    LONE,
    MOST_OF_PAIR,
    ROUGH,
    SMOOTH,
    SPIN,
    SPINNING,
    Bodies,
    Contacts,
    Links,
    Memory,
    Tree,
    Work,
)
from stickslip.physics.conesweep.pack import ROWS, TOUCH, load, store, store_two
from stickslip.physics.mjwarp_private import ContactType

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
    work.adr[worldid] = wp.atomic_add(work.shared, CURSOR, work.num[worldid] + memory.num[worldid])


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
    """One pair for each run of contacts between the same two bodies, or several if they are too many for one.

    A pair's point is the middle of its contacts.
    """
    adr = work.adr[worldid]
    num = work.num[worldid]
    for i in range(lane, num, nlane):
        before = int(-1)  # pairs before this contact's
        start = int(0)
        last = int(-1)
        for j in range(i + 1):
            now = work.code[adr + j]
            if now != last or j - start == MOST_OF_PAIR:
                before += 1
                start = j
            last = now
        work.of_pair[adr + i] = before
        if i == num - 1:
            work.npair[worldid] = before + 1
        if i == start:
            code = last
            count = int(0)
            point = wp.vec3()
            while i + count < num and count < MOST_OF_PAIR:
                if work.code[adr + i + count] != code:
                    break
                point += contacts.pos[work.con[adr + i + count]]
                count += 1
            work.first[adr + before] = adr + i
            work.ncon[adr + before] = count
            pair = wp.vec2i(code / tree.nbody, code % tree.nbody)
            work.bodies[adr + before] = pair
            work.lone[adr + before] = lone_of(tree, pair)
            point /= float(count)
            store(work.point, adr + before, wp.vec4(point[0], point[1], point[2], 0.0))


@wp.func
def clear_world(tree: Tree, bodies: Bodies, work: Work, links: Links, worldid: int, lane: int, nlane: int):
    """Velocity without constraints, of dofs and lone bodies; nothing has acted yet."""
    timestep = bodies.timestep[worldid % bodies.timestep.shape[0]]
    for b in range(lane, tree.nbody, nlane):
        work.head[worldid, b] = -1
        work.used[worldid, b] = 0
        if tree.body_kind[b] == LONE:
            twist = wp.spatial_vector()
            for k in range(tree.chain_adr[b], tree.chain_adr[b + 1]):
                i = tree.chain[k]
                v = bodies.qvel[worldid, i] + timestep * bodies.qacc_free[worldid, i]
                twist += v * bodies.cdof[worldid, i]
            at = (worldid * tree.nbody + b) * ROWS
            store_two(work.motion, at, twist, wp.spatial_vector())
            store_two(work.motion, at + 3, wp.spatial_vector(), wp.spatial_vector())
    for i in range(lane, tree.nv, nlane):
        v = bodies.qvel[worldid, i] + timestep * bodies.qacc_free[worldid, i]
        work.v_free[worldid, i] = v
        work.vx[worldid, i] = wp.vec2(v, 0.0)
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
        work.ncolor[worldid] = 0
        work.jointed_colors[worldid] = 0


@wp.func
def order_pairs(tree: Tree, work: Work, links: Links, worldid: int, lane: int, nlane: int):
    """Pairs and links of one colour next to each other."""
    adr = work.adr[worldid]
    npair = work.npair[worldid]
    for k in range(lane, npair, nlane):
        p = adr + k
        color = work.color[p]
        place = work.color_adr[worldid, color]
        for q in range(k):
            place += wp.where(work.color[adr + q] == color, 1, 0)
        first = work.first[p]
        count = work.ncon[p]
        form = int(SMOOTH)
        for i in range(first, first + count):
            friction = load(work.touch, i * TOUCH + 1)[3]
            if friction == ROUGH:
                form = ANY
            elif friction == SPINNING and form == SMOOTH:
                form = SPIN
        pair = work.bodies[p]
        body1 = pair[0] * 4 + tree.body_kind[pair[0]]
        body2 = pair[1] * 4 + tree.body_kind[pair[1]]
        work.plan[adr + place] = wp.vec4i(p, first, body1, (body2 * 4 + form) * 16 + count)
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
    listed. Whatever can wait is left to `count_colors`, by all lanes.
    """
    adr = work.adr[worldid]
    for k in range(links.n + work.npair[worldid]):
        p = k - links.n
        lone = wp.vec2i(-1, -1)
        if p >= 0:
            lone = work.lone[adr + p]
        elif links.active[worldid, k] > 0:
            lone = lone_of(tree, links.bodies[k])
        used = int(0)
        if lone[0] >= 0:
            used = work.used[worldid, lone[0]]
        if lone[1] >= 0:
            used = used | work.used[worldid, lone[1]]
        color = int(0)
        while color < COLORS - 1 and ((used >> color) & 1) == 1:
            color += 1
        if lone[0] >= 0:
            work.used[worldid, lone[0]] = work.used[worldid, lone[0]] | (1 << color)
        if lone[1] >= 0:
            work.used[worldid, lone[1]] = work.used[worldid, lone[1]] | (1 << color)
        if p >= 0:
            work.color[adr + p] = color
        else:
            links.color[worldid, k] = wp.where(links.active[worldid, k] > 0, color, -1)
        if tree.njointed > 0:
            pair = wp.vec2i(0, 0)
            if p >= 0:
                pair = work.bodies[adr + p]
            elif links.active[worldid, k] > 0:
                pair = links.bodies[k]
            for side in range(2):
                b = pair[side]
                if tree.body_kind[b] == JOINTED and work.used[worldid, b] == 0:
                    work.used[worldid, b] = 1
                    work.active[worldid, work.nactive[worldid]] = b
                    work.nactive[worldid] = work.nactive[worldid] + 1


@wp.func
def lone_of(tree: Tree, pair: wp.vec2i) -> wp.vec2i:
    """The two bodies of a pair, -1 for one that is not lone."""
    return wp.vec2i(
        wp.where(tree.body_kind[pair[0]] == LONE, pair[0], -1), wp.where(tree.body_kind[pair[1]] == LONE, pair[1], -1)
    )


@wp.func
def count_colors(tree: Tree, work: Work, links: Links, worldid: int, lane: int, nlane: int):
    """What acts on each tree at once, and how many pairs and links have each colour."""
    adr = work.adr[worldid]
    for k in range(lane, links.n + work.npair[worldid], nlane):
        p = k - links.n
        pair = wp.vec2i(0, 0)
        color = int(0)
        if p >= 0:
            pair = work.bodies[adr + p]
            color = work.color[adr + p]
            wp.atomic_add(work.color_adr, worldid, color + 1, 1)
        elif links.active[worldid, k] > 0:
            pair = links.bodies[k]
            color = links.color[worldid, k]
            wp.atomic_add(links.color_adr, worldid, color + 1, 1)
        for side in range(2):
            t = tree.body_treeid[pair[side]]
            if t >= 0:
                if side == 0 or tree.body_treeid[pair[0]] != t:
                    wp.atomic_add(work.count, worldid, t, color, 1)
                wp.atomic_max(work.ncolor, worldid, color + 1)
                if tree.body_kind[pair[side]] == JOINTED:
                    wp.atomic_or(work.jointed_colors, worldid, 1 << color)
    for t in range(lane, tree.ntree, nlane):
        if work.touched[worldid, t] > 0:
            wp.atomic_add(work.count, worldid, t, 0, 1)
            wp.atomic_max(work.ncolor, worldid, 1)
            wp.atomic_or(work.jointed_colors, worldid, 1)


@wp.func
def place_colors(work: Work, links: Links, worldid: int):
    """Where each colour begins; by one lane."""
    for c in range(COLORS):
        work.color_adr[worldid, c + 1] = work.color_adr[worldid, c + 1] + work.color_adr[worldid, c]
        links.color_adr[worldid, c + 1] = links.color_adr[worldid, c + 1] + links.color_adr[worldid, c]


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
