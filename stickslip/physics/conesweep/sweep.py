"""The sweeps: colour by colour, every pair of bodies resolves its contacts, as if nothing else acted on them."""

import functools

import warp as wp

from stickslip.physics.conesweep.inertia import TINY, at_point, from_point
from stickslip.physics.conesweep.layout import (
    COLORS,
    FIXED,
    LONE,
    Bodies,
    Links,
    RowSet,
    Settings,
    Traits,
    Tree,
    Work,
)
from stickslip.physics.conesweep.pack import (
    ROWS,
    TOUCH,
    load,
    load_force,
    load_frame,
    load_plan,
    load_position,
    load_two,
    store,
    store_two,
    symmetric_times,
    xyz,
)
from stickslip.physics.conesweep.settle import DEEP, GROWTH, PUSH_OUT, contact_wrench, settle_few, settle_many, vec12

wp.set_module_options({"enable_backward": False})

LIMIT = wp.constant(1)
EQUALITY = wp.constant(2)
FRICTION = wp.constant(3)


@wp.func
def start_pairs(work: Work, worldid: int, lane: int, nlane: int):
    """The wrench of all forces of each pair."""
    adr = work.adr[worldid]
    for p in range(lane, work.npair[worldid], nlane):
        wrench = wp.spatial_vector()
        first = work.first[adr + p]
        for i in range(first, first + work.ncon[adr + p]):
            arm = xyz(load(work.touch, i * TOUCH + 2))
            wrench += contact_wrench(load_frame(work.touch, i), arm, load_force(work.f, i))
        work.wrench[adr + p] = wrench


@wp.func
def start_rows(rows: RowSet, worldid: int, lane: int, nlane: int):
    """The carried forces of rows are what they do first."""
    for r in range(lane, rows.n, nlane):
        rows.df[worldid, r] = rows.f[worldid, r]


@wp.func
def start_links(links: Links, worldid: int, lane: int, nlane: int):
    """Likewise of links."""
    for k in range(lane, links.n, nlane):
        links.wrench[worldid, k] = links.f[worldid, k]


@wp.func
def cancel(K: wp.spatial_matrix, u: wp.spatial_vector, active: int, passes: int) -> wp.spatial_vector:
    """x with K x = -u in the last `active` directions, one after the other, but for those that cannot give way."""
    x = wp.spatial_vector()
    left = u
    for _run in range(passes):
        for i in range(6):
            if i >= 6 - active and K[i, i] > TINY:
                change = -left[i] / K[i, i]
                x[i] = x[i] + change
                for j in range(6):
                    left[j] = left[j] + K[j, i] * change
    return x


@wp.func(inline=True)
def moving_record(tree: Tree, work: Work, worldid: int, k: int) -> int:
    """Where the record of the k-th body that can move begins: lone bodies by tree, then active jointed ones; or -1."""
    b = int(-1)
    if k < tree.ntree:  # noqa: SIM108 - a ternary would read both
        b = tree.tree_lone[k]
    else:
        b = work.active[worldid, k - tree.ntree]
    if b < 0:
        return -1
    return (worldid * tree.nbody + b) * ROWS


@functools.cache
def resolver(traits: Traits) -> wp.Function:
    """The function that resolves the pairs and links of a colour, for models with these traits."""

    @wp.func
    def resolve_pairs(
        tree: Tree,
        settings: Settings,
        work: Work,
        links: Links,
        dt: float,
        h: float,
        share: float,
        is_last: bool,
        color: int,
        worldid: int,
        lane: int,
        nlane: int,
    ):
        """Each pair of a colour resolves its contacts, one after the other, there and back; links follow the pairs."""
        adr = work.adr[worldid]
        start = work.color_adr[worldid, color]
        npair = work.color_adr[worldid, color + 1] - start
        link_start = int(0)
        nlink = int(0)
        if wp.static(traits.links):
            link_start = links.color_adr[worldid, color]
            nlink = links.color_adr[worldid, color + 1] - link_start
        for n in range(lane, npair + nlink, nlane):
            p = int(0)
            first = int(0)
            count = int(0)
            is_smooth = bool(True)
            link = int(-1)
            pair = wp.vec2i()
            kind = wp.vec2i()
            point = wp.vec3()
            if n < npair:
                plan = load_plan(work.plan, adr + start + n)
                p = plan[0]
                first = plan[1]
                count = plan[3] & 15
                is_smooth = ((plan[3] >> 4) & 1) == 1
                pair = wp.vec2i(plan[2] >> 2, plan[3] >> 7)
                kind = wp.vec2i(plan[2] & 3, (plan[3] >> 5) & 3)
                point = xyz(load(work.point, p))
            elif wp.static(traits.links):
                link = links.order[worldid, link_start + n - npair]
                pair = links.bodies[link]
                kind = wp.vec2i(tree.body_kind[pair[0]], tree.body_kind[pair[1]])
                point = links.point[worldid, link]
            # relative velocity, and displacement since the start of the step
            U = wp.spatial_vector()
            X = wp.spatial_vector()
            for side in range(2):
                if kind[side] != FIXED:
                    at = (worldid * tree.nbody + pair[side]) * ROWS
                    twist, _P = load_two(work.motion, at)
                    shift, _Px = load_two(work.motion, at + 3)
                    arm = point - load_position(work.Lam, at)
                    sign = float(2 * side - 1)
                    U += sign * at_point(twist, arm)
                    X += sign * at_point(shift, arm)
            wrench = wp.spatial_vector()
            push = wp.spatial_vector()
            if link < 0:
                both = vec12()
                if is_smooth:
                    both = settle_few(
                        work.touch,
                        work.pull,
                        work.f,
                        first,
                        count,
                        U,
                        X,
                        dt,
                        h,
                        share,
                        settings.slop,
                        settings.restitution,
                        GROWTH,
                        DEEP,
                        PUSH_OUT,
                        settings.passes,
                        is_last,
                    )
                else:
                    both = settle_many(
                        work.touch,
                        work.pull,
                        work.turn,
                        work.f,
                        first,
                        count,
                        U,
                        X,
                        dt,
                        h,
                        share,
                        settings.slop,
                        settings.restitution,
                        settings.passes,
                        is_last,
                    )
                for j in range(6):
                    wrench[j] = both[j]
                    push[j] = both[6 + j]
                work.wrench[p] = wrench
                work.push[p] = push
            elif wp.static(traits.links):
                K = links.K[worldid, link]
                active = links.active[worldid, link]
                impulse = cancel(K, U, active, settings.passes)
                wrench = impulse / dt
                links.f[worldid, link] = links.f[worldid, link] + wrench
                if is_last:
                    error = links.error[worldid, link] + X + h * (U + K @ impulse)
                    for i in range(6):
                        error[i] = wp.clamp(share * error[i], -PUSH_OUT * h, PUSH_OUT * h)
                    push = cancel(K, error, active, settings.passes)
                links.wrench[worldid, link] = wrench
                links.push[worldid, link] = push
            # lone bodies are the pair's own while its colour runs
            if color < COLORS - 1:
                for side in range(2):
                    if kind[side] == LONE:
                        at = (worldid * tree.nbody + pair[side]) * ROWS
                        sign = float(2 * side - 1)
                        arm = point - load_position(work.Lam, at)
                        act_on(work, at, sign * dt * from_point(wrench, arm), sign * from_point(push, arm), is_last)

    return resolve_pairs


@wp.func(inline=True)
def act_on(work: Work, at: int, impulse: wp.spatial_vector, push: wp.spatial_vector, is_last: bool):
    """A lone body takes up an impulse, and what displaces it."""
    given = symmetric_times(work.Lam, at, impulse)
    pushed = symmetric_times(work.Lam, at, push)
    V, P = load_two(work.motion, at)
    store_two(work.motion, at, V + given, P + impulse)
    if is_last:
        X, Px = load_two(work.motion, at + 3)
        store_two(work.motion, at + 3, X + pushed, Px + push)


@wp.func
def resolve_rows(
    settings: Settings,
    work: Work,
    rows: RowSet,
    dt: float,
    h: float,
    share: float,
    is_last: bool,
    worldid: int,
    lane: int,
    nlane: int,
):
    """Rows on dofs, each within its bounds."""
    for r in range(lane, rows.n, nlane):
        kind = rows.kind[worldid, r]
        df = float(0.0)
        dp = float(0.0)
        weight = rows.weight[worldid, r]
        if kind > 0 and weight > TINY:
            u = float(0.0)
            moved = float(0.0)
            for k in range(rows.adr[r], rows.adr[r] + rows.nnz[r]):
                u += rows.val[worldid, k] * work.v[worldid, rows.col[k]]
                moved += rows.val[worldid, k] * work.x[worldid, rows.col[k]]
            phi = rows.phi[worldid, r] + moved
            target = float(0.0)
            if kind == LIMIT and phi > 0.0:
                target = -phi / h
            old = float(rows.f[worldid, r])
            f = wp.clamp(old - (u - target) / (weight * dt), rows.low[worldid, r], rows.high[worldid, r])
            df = f - old
            rows.f[worldid, r] = f
            if is_last:
                error = phi + h * (u + weight * dt * df)
                if kind == LIMIT:
                    error = wp.min(error + settings.slop, 0.0)
                if kind == FRICTION:
                    error = 0.0
                dp = wp.clamp(-share * error, -PUSH_OUT * h, PUSH_OUT * h) / weight
        rows.df[worldid, r] = df
        rows.dp[worldid, r] = dp


@wp.func
def on_body(
    work: Work,
    links: Links,
    com: wp.vec3,
    link_wrench: wp.array2d[wp.spatial_vector],
    link_push: wp.array2d[wp.spatial_vector],
    is_last: bool,
    color: int,
    worldid: int,
    bodyid: int,
) -> tuple[wp.spatial_vector, wp.spatial_vector]:
    """Wrench and push of the pairs and links of a colour (-1: all) on a body, always added in the same order."""
    adr = work.adr[worldid]
    wrench = wp.spatial_vector()
    push = wp.spatial_vector()
    p = work.head[worldid, bodyid]
    while p >= 0:
        is_second = work.bodies[adr + p][1] == bodyid
        if color < 0 or work.color[adr + p] == color:
            arm = xyz(load(work.point, adr + p)) - com
            sign = wp.where(is_second, 1.0, -1.0)
            wrench += sign * from_point(work.wrench[adr + p], arm)
            if is_last:
                push += sign * from_point(work.push[adr + p], arm)
        if is_second:  # noqa: SIM108 - a ternary would read both
            p = work.next2[adr + p]
        else:
            p = work.next1[adr + p]
    for k in range(links.body_num[bodyid]):
        link = links.body_link[links.body_adr[bodyid] + k]
        if links.active[worldid, link] > 0 and (color < 0 or links.color[worldid, link] == color):
            arm = links.point[worldid, link] - com
            sign = wp.where(links.bodies[link][1] == bodyid, 1.0, -1.0)
            wrench += sign * from_point(link_wrench[worldid, link], arm)
            if is_last:
                push += sign * from_point(link_push[worldid, link], arm)
    return wrench, push


@wp.func
def gather(
    tree: Tree,
    bodies: Bodies,
    work: Work,
    links: Links,
    dt: float,
    is_last: bool,
    color: int,
    worldid: int,
    lane: int,
    nlane: int,
):
    """What a colour (-1: all) did to jointed bodies, and to lone bodies that several of its pairs share."""
    nlone = int(0)
    if color < 0 or color == COLORS - 1:
        nlone = tree.ntree
    for k in range(lane, nlone + work.nactive[worldid], nlane):
        b = int(-1)
        if k < nlone:
            b = tree.tree_lone[k]
            if b >= 0:  # noqa: SIM102 - `and` would read with b = -1
                if work.used[worldid, b] == 0:
                    b = -1
        else:
            b = work.active[worldid, k - nlone]
        if b >= 0:
            com = bodies.subtree_com[worldid, tree.body_rootid[b]]
            wrench, push = on_body(work, links, com, links.wrench, links.push, is_last, color, worldid, b)
            if k < nlone:
                act_on(work, (worldid * tree.nbody + b) * ROWS, dt * wrench, push, is_last)
            else:
                work.total[worldid, b] = wrench
                work.total_push[worldid, b] = push


@wp.func
def drift(tree: Tree, work: Work, h: float, worldid: int, lane: int, nlane: int):
    """All that moves goes on for a substep."""
    for k in range(lane, 3 * (tree.ntree + work.nactive[worldid]), nlane):
        at = moving_record(tree, work, worldid, k / 3)
        if at >= 0:
            row = at + k % 3
            store(work.motion, row + 3, load(work.motion, row + 3) + h * load(work.motion, row))
    for k in range(lane, tree.njointed_dof, nlane):
        i = tree.jointed_dof[k]
        work.x[worldid, i] = work.x[worldid, i] + h * work.v[worldid, i]
