"""Contacts by world, sorted and grouped into pairs of bodies, and a colouring of the pairs."""

import warp as wp

from stickslip.physics.conesweep.layout import (
    ANY,
    COLORS,
    LONE,
    MOST_OF_PAIR,
    ROUGH,
    SMOOTH,
    SPIN,
    SPINNING,
    Bodies,
    Contacts,
    PreviousContacts,
    Tree,
    Work,
)
from stickslip.physics.conesweep.pack import ROWS, TOUCH, load, pack_plan, store, store_two
from stickslip.physics.conesweep.prepare.sorting import MAX_FEATURE
from stickslip.physics.mjwarp.lanes import sync
from stickslip.physics.mjwarp.touches import FOUND, is_apart, marked

wp.set_module_options({"enable_backward": False})


FEW_PAIRS = wp.constant(64)
"""Pairs of a world up to which each body searches all of them for its own."""


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
    type = contacts.type[conid]
    if type & FOUND:
        if tree.body_treeid[weld1] >= 0 or tree.body_treeid[weld2] >= 0:
            slot = wp.atomic_add(work.num, contacts.worldid[conid], 1)
        else:  # no force will tell whether it touches
            near = is_apart(contacts.gaps, geom, contacts.dist[conid], contacts.includemargin[conid])
            contacts.type[conid] = marked(type, near)
    work.slot[conid] = slot
    work.age[conid] = 0


@wp.kernel
def place_worlds(previous: PreviousContacts, work: Work):
    """A range for the contacts of a world, with space for those of the previous step that may be restored."""
    worldid = wp.tid()
    work.adr[worldid] = wp.atomic_add(work.cursor, 0, work.num[worldid] + previous.num[worldid])


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
def run_start(work: Work, adr: int, i: int) -> int:
    """First of the sorted contacts between the two bodies of contact i; both count from `adr`."""
    code = work.code[adr + i]
    low = int(0)
    high = int(i)
    while low < high:
        mid = (low + high) / 2
        if work.code[adr + mid] < code:
            low = mid + 1
        else:
            high = mid
    return int(low)


@wp.func
def make_pairs(tree: Tree, contacts: Contacts, work: Work, worldid: int, lane: int, nlane: int):
    """One pair for each run of contacts between the same two bodies, or several if they are too many for one.

    A pair's point is the mean position of its contacts. Each lane has a range of contacts. It counts the pairs that
    begin there, and then numbers them after those of the lanes before it.
    """
    adr = work.adr[worldid]
    num = work.num[worldid]
    share = (num + nlane - 1) / nlane
    begins = int(0)
    for i in range(lane * share, wp.min((lane + 1) * share, num)):
        if (i - run_start(work, adr, i)) % MOST_OF_PAIR == 0:
            begins += 1
    work.partial[worldid, lane] = wp.vec3(float(begins))
    sync(nlane)
    before = int(-1)  # pairs before this contact's
    for k in range(lane):
        before += int(work.partial[worldid, k][0])
    for i in range(lane * share, wp.min((lane + 1) * share, num)):
        code = work.code[adr + i]
        if (i - run_start(work, adr, i)) % MOST_OF_PAIR == 0:
            before += 1
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
        work.of_pair[adr + i] = before
        if i == num - 1:
            work.npair[worldid] = before + 1


@wp.func
def find_free_motion(tree: Tree, bodies: Bodies, work: Work, worldid: int, lane: int, nlane: int):
    """Velocity of dofs without constraints; no pairs yet."""
    timestep = bodies.timestep[worldid % bodies.timestep.shape[0]]
    for i in range(lane, tree.nv, nlane):
        work.v_free[worldid, i] = bodies.qvel[worldid, i] + timestep * bodies.qacc_free[worldid, i]
    if lane == 0:
        work.npair[worldid] = 0


@wp.func
def clear_world(tree: Tree, bodies: Bodies, work: Work, worldid: int, lane: int, nlane: int):
    """Free bodies move without constraints; nothing has acted yet."""
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
    for t in range(lane, tree.ntree, nlane):
        for c in range(COLORS):
            work.count[worldid, t, c] = 0
    for c in range(lane, COLORS + 1, nlane):
        work.color_adr[worldid, c] = 0
    if lane == 0:
        work.ncolor[worldid] = 0


@wp.func
def order_pairs(tree: Tree, work: Work, worldid: int, lane: int, nlane: int):
    """Put pairs of one colour next to each other."""
    adr = work.adr[worldid]
    npair = work.npair[worldid]
    for c in range(lane, COLORS, nlane):
        place = work.color_adr[worldid, c]
        if work.color_adr[worldid, c + 1] > place:
            for k in range(npair):
                if work.color[adr + k] == c:
                    work.place[adr + k] = place
                    place += 1
    sync(nlane)
    for k in range(lane, npair, nlane):
        p = adr + k
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
        kinds = wp.vec2i(tree.body_kind[pair[0]], tree.body_kind[pair[1]])
        work.plan[adr + work.place[p]] = pack_plan(p, first, pair, kinds, form, count)


@wp.func
def color_pairs(tree: Tree, work: Work, worldid: int):
    """Colours in sequence, by one lane: each pair gets the first that neither of its bodies has yet."""
    adr = work.adr[worldid]
    for p in range(work.npair[worldid]):
        lone = work.lone[adr + p]
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
        work.color[adr + p] = color


@wp.func
def lone_of(tree: Tree, pair: wp.vec2i) -> wp.vec2i:
    """The two bodies of a pair, -1 for one that is not lone."""
    return wp.vec2i(
        wp.where(tree.body_kind[pair[0]] == LONE, pair[0], -1), wp.where(tree.body_kind[pair[1]] == LONE, pair[1], -1)
    )


@wp.func
def count_colors(tree: Tree, work: Work, worldid: int, lane: int, nlane: int):
    """What acts on each tree at once, and how many pairs have each colour."""
    adr = work.adr[worldid]
    for p in range(lane, work.npair[worldid], nlane):
        pair = work.bodies[adr + p]
        color = work.color[adr + p]
        wp.atomic_add(work.color_adr, worldid, color + 1, 1)
        wp.atomic_max(work.ncolor, worldid, color + 1)
        for side in range(2):
            t = tree.body_treeid[pair[side]]
            if t >= 0:
                wp.atomic_add(work.count, worldid, t, color, 1)


@wp.func
def place_colors(work: Work, worldid: int):
    """Where each colour begins; by one lane."""
    for c in range(COLORS):
        work.color_adr[worldid, c + 1] = work.color_adr[worldid, c + 1] + work.color_adr[worldid, c]


@wp.func
def list_pairs(tree: Tree, work: Work, worldid: int, lane: int, nlane: int):
    """The pairs of each body as a list, in their order. Few pairs are searched by each body, many by one lane."""
    adr = work.adr[worldid]
    npair = work.npair[worldid]
    if npair > FEW_PAIRS:
        if lane == nlane - 1:  # lane 0 colours pairs meanwhile
            for k in range(npair):
                p = npair - 1 - k
                pair = work.bodies[adr + p]
                if is_listed(tree, pair[0]):
                    work.next1[adr + p] = work.head[worldid, pair[0]]
                    work.head[worldid, pair[0]] = p
                if is_listed(tree, pair[1]):
                    work.next2[adr + p] = work.head[worldid, pair[1]]
                    work.head[worldid, pair[1]] = p
    else:
        for b in range(lane, tree.nbody, nlane):
            if is_listed(tree, b):
                following = int(-1)
                for k in range(npair):
                    p = npair - 1 - k
                    pair = work.bodies[adr + p]
                    if pair[0] == b:
                        work.next1[adr + p] = following
                        following = p
                    elif pair[1] == b:
                        work.next2[adr + p] = following
                        following = p
                work.head[worldid, b] = following


@wp.func
def is_listed(tree: Tree, bodyid: int) -> bool:
    """Whether a body can move by itself; the others are part of one that can, or fixed."""
    return tree.body_treeid[bodyid] >= 0 and tree.body_weldid[bodyid] == bodyid
