"""Contacts by world, sorted and grouped into pairs of bodies, and a colouring of the pairs."""

import warp as wp

from stickslip.physics.conesweep.block import most_of_lanes, sum_lanes
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
from stickslip.physics.conesweep.pack import TOUCH, load, pack_plan, store
from stickslip.physics.conesweep.prepare.sorting import MAX_FEATURE
from stickslip.physics.mjwarp.lanes import sync
from stickslip.physics.mjwarp.touches import FOUND, is_apart, marked

wp.set_module_options({"enable_backward": False})


FEW_PAIRS = wp.constant(64)
"""Pairs of a world up to which each body searches all of them for its own."""


@wp.kernel
def list_contacts(tree: Tree, contacts: Contacts, work: Work):
    """Put each contact that takes part on a list of its world, one of as many as there are lanes.

    Its key sorts by pair of bodies, pair of geoms and feature.
    """
    conid = wp.tid()
    if conid >= wp.min(contacts.count[0], contacts.nmax):
        return
    type = contacts.type[conid]
    if (type & FOUND) == 0:
        return
    geom = contacts.geom[conid]
    weld1 = tree.body_weldid[tree.geom_bodyid[geom[0]]]
    weld2 = tree.body_weldid[tree.geom_bodyid[geom[1]]]
    if tree.body_treeid[weld1] < 0 and tree.body_treeid[weld2] < 0:  # no force will tell whether it touches
        near = is_apart(contacts.gaps, geom, contacts.dist[conid], contacts.includemargin[conid])
        contacts.type[conid] = marked(type, near)
        return
    local1 = tree.geom_local[geom[0]]
    local2 = tree.geom_local[geom[1]]
    if weld1 > weld2:
        weld1, weld2 = weld2, weld1
        local1, local2 = local2, local1
    key = wp.int64(weld1) * wp.int64(tree.nbody) + wp.int64(weld2)
    key = (key * wp.int64(tree.maxgeom) + wp.int64(local1)) * wp.int64(tree.maxgeom) + wp.int64(local2)
    work.found_key[conid] = key * MAX_FEATURE + wp.int64(wp.clamp(contacts.geomcollisionid[conid], 0, 63))
    work.age[conid] = 0
    place = conid % work.heads.shape[1]
    work.next[conid] = wp.atomic_exch(work.heads, contacts.worldid[conid], place, conid + 1)


@wp.func
def gather_contacts(previous: PreviousContacts, work: Work, worldid: int, lane: int, nlane: int) -> int:
    """Bring the contacts of a world together, in the order in which each lane's list has got them; returns how many.

    Behind them is place for those of the previous step that may be restored.
    """
    count = int(0)
    con = work.heads[worldid, lane]
    while con > 0:
        count += 1
        con = work.next[con - 1]
    total = sum_lanes(count, lane, nlane)
    start = int(0)
    if lane == 0:
        start = wp.atomic_add(work.cursor, 0, total[1] + previous.num[worldid])
        work.start[worldid] = start
        work.num[worldid] = total[1]
    index = sum_lanes(start, lane, nlane)[1] + total[0]
    con = work.heads[worldid, lane]
    while con > 0:
        index -= 1
        work.unsorted_key[index] = work.found_key[con - 1]
        work.unsorted_con[index] = con - 1
        con = work.next[con - 1]
    return total[1]


@wp.func
def make_pairs(tree: Tree, contacts: Contacts, work: Work, worldid: int, lane: int, nlane: int):
    """One pair for each run of contacts between the same two bodies, or several if they are too many for one.

    A pair's point is the mean position of its contacts.
    """
    adr = work.adr[worldid]
    num = work.num[worldid]
    run = int(0)  # first contact between the two bodies of the one before
    npair = int(0)
    for start in range(0, num, nlane):
        i = start + lane
        code = int(-1)
        begin = int(0)
        if i < num:
            code = work.code[adr + i]
            if i > 0:  # noqa: SIM102 - Warp evaluates both sides of `and`
                if work.code[adr + i - 1] != code:
                    begin = i
        begins = most_of_lanes(begin, lane, nlane)
        first = wp.max(run, begins[0])
        run = wp.max(run, begins[1])
        is_first = int(0)
        if i < num and (i - first) % MOST_OF_PAIR == 0:
            is_first = 1
        pairs = sum_lanes(is_first, lane, nlane)
        p = npair + pairs[0] - 1
        npair += pairs[1]
        if i < num:
            work.of_pair[adr + i] = p
        if is_first > 0:
            count = int(0)
            point = wp.vec3()
            while i + count < num and count < MOST_OF_PAIR:
                if work.code[adr + i + count] != code:
                    break
                point += contacts.pos[work.con[adr + i + count]]
                count += 1
            work.first[adr + p] = adr + i
            work.ncon[adr + p] = count
            pair = wp.vec2i(code / tree.nbody, code % tree.nbody)
            work.bodies[adr + p] = pair
            work.lone[adr + p] = lone_of(tree, pair)
            point /= float(count)
            store(work.point, adr + p, wp.vec4(point[0], point[1], point[2], 0.0))
    if lane == 0:
        work.npair[worldid] = npair


@wp.func
def find_free_motion(tree: Tree, bodies: Bodies, work: Work, worldid: int, lane: int, nlane: int):
    """Velocity of dofs without constraints."""
    timestep = bodies.timestep[worldid % bodies.timestep.shape[0]]
    for i in range(lane, tree.nv, nlane):
        work.v_free[worldid, i] = bodies.qvel[worldid, i] + timestep * bodies.qacc_free[worldid, i]
        work.lag[worldid, i] = 0.0


@wp.func
def order_pairs(tree: Tree, work: Work, worldid: int, lane: int, nlane: int):
    """Put pairs of one colour next to each other, and count those of the last one that act on a tree at once."""
    adr = work.adr[worldid]
    npair = work.npair[worldid]
    placed = int(0)
    ncolor = int(0)
    for start in range(0, COLORS, nlane):
        c = start + lane
        count = int(0)
        if c < COLORS and placed < npair:
            for k in range(npair):
                if work.color[adr + k] == c:
                    count += 1
        pairs = sum_lanes(count, lane, nlane)
        place = placed + pairs[0] - count
        placed += pairs[1]
        ncolor = wp.max(ncolor, most_of_lanes(wp.where(count > 0, c + 1, 0), lane, nlane)[1])
        if c < COLORS:
            work.color_adr[worldid, c] = place
        if count > 0:
            for k in range(npair):
                if work.color[adr + k] == c:
                    work.place[adr + k] = place
                    place += 1
                    if c == COLORS - 1:
                        add_to_crowd(tree, work, worldid, work.bodies[adr + k])
    if lane == 0:
        work.color_adr[worldid, COLORS] = placed
        work.ncolor[worldid] = ncolor
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
def add_to_crowd(tree: Tree, work: Work, worldid: int, pair: wp.vec2i):
    """One more pair that acts on the trees of its bodies; one lane does this for all of a world."""
    for side in range(2):
        t = tree.body_treeid[pair[side]]
        if t >= 0:
            work.crowd[worldid, t] = work.crowd[worldid, t] + 1


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
