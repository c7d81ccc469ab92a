"""The sweeps: colour by colour, every pair of bodies resolves its contacts, as if nothing else acted on them."""

import functools

import warp as wp

from stickslip.physics.conesweep.layout import (
    COLORS,
    FIXED,
    LONE,
    SMOOTH,
    SPIN,
    Bodies,
    Equalities,
    Settings,
    Traits,
    Tree,
    Work,
)
from stickslip.physics.conesweep.pack import (
    GIVEN,
    ROWS,
    TOUCH,
    load,
    load_force,
    load_frame,
    load_given,
    load_plan,
    load_position,
    load_two,
    store,
    store_two,
    symmetric_times,
    unpack_plan,
    xyz,
)
from stickslip.physics.conesweep.prepare.inertia import TINY, at_point, from_point
from stickslip.physics.conesweep.sweep.dofs import motion_of
from stickslip.physics.conesweep.sweep.settle import PUSH_OUT, contact_wrench, settle_smooth, settle_spin, vec12
from stickslip.physics.conesweep.sweep.settle_any import settle_any

wp.set_module_options({"enable_backward": False})


@wp.func
def start_pairs(work: Work, worldid: int, lane: int, nlane: int):
    """The wrench of all forces of each pair, and no push."""
    adr = work.adr[worldid]
    for p in range(lane, work.npair[worldid], nlane):
        wrench = wp.spatial_vector()
        first = work.first[adr + p]
        for i in range(first, first + work.ncon[adr + p]):
            arm = xyz(load(work.touch, i * TOUCH + 2))
            wrench += contact_wrench(load_frame(work.touch, i), arm, load_force(work.f, i))
        store_two(work.given, (adr + p) * GIVEN, wrench, wp.spatial_vector())


@wp.func
def start_equalities(equalities: Equalities, worldid: int, lane: int, nlane: int):
    """Likewise of equalities."""
    for k in range(lane, equalities.n, nlane):
        equalities.wrench[worldid, k] = equalities.f[worldid, k]
        equalities.push[worldid, k] = wp.spatial_vector()


@wp.func
def cancel(K: wp.spatial_matrix, u: wp.spatial_vector, active: int, passes: int) -> wp.spatial_vector:
    """x with K x = -u in the last `active` directions, one after the other, except those without compliance."""
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
def lone_record(tree: Tree, worldid: int, t: int) -> int:
    """Where the record of the lone body of a tree begins; -1 if the tree is jointed."""
    b = tree.tree_lone[t]
    if b < 0:
        return -1
    return (worldid * tree.nbody + b) * ROWS


@functools.cache
def resolver(traits: Traits) -> wp.Function:
    """The function that resolves the pairs and equalities of a colour, for models with these traits."""

    @wp.func
    def resolve_pairs(
        tree: Tree,
        bodies: Bodies,
        settings: Settings,
        work: Work,
        equalities: Equalities,
        dt: float,
        h: float,
        share: float,
        passes: int,
        is_last: bool,
        color: int,
        worldid: int,
        lane: int,
        nlane: int,
    ):
        """Each pair of a colour resolves its contacts in sequence, forth and back; equalities follow the pairs."""
        adr = work.adr[worldid]
        start = work.color_adr[worldid, color]
        npair = work.color_adr[worldid, color + 1] - start
        equality_start = int(0)
        nequality = int(0)
        if wp.static(traits.equalities):
            equality_start = equalities.color_adr[worldid, color]
            nequality = equalities.color_adr[worldid, color + 1] - equality_start
        for n in range(lane, npair + nequality, nlane):
            p = int(0)
            first = int(0)
            count = int(0)
            form = int(SMOOTH)
            equality = int(-1)
            pair = wp.vec2i()
            kind = wp.vec2i()
            point = wp.vec3()
            if n < npair:
                p, first, pair, kind, form, count = unpack_plan(load_plan(work.plan, adr + start + n))
                point = xyz(load(work.point, p))
            elif wp.static(traits.equalities):
                equality = equalities.order[worldid, equality_start + n - npair]
                pair = equalities.bodies[equality]
                kind = wp.vec2i(tree.body_kind[pair[0]], tree.body_kind[pair[1]])
                point = equalities.point[worldid, equality]
            # relative velocity, and displacement since the start of the step
            U = wp.spatial_vector()
            X = wp.spatial_vector()
            for side in range(2):
                if kind[side] != FIXED:
                    at = (worldid * tree.nbody + pair[side]) * ROWS
                    twist = wp.spatial_vector()
                    shift = wp.spatial_vector()
                    if kind[side] == LONE:
                        twist, _P = load_two(work.motion, at)
                        shift, _Px = load_two(work.motion, at + 3)
                    elif wp.static(traits.jointed):
                        twist, shift = motion_of(tree, bodies, work, worldid, pair[side])
                    arm = point - load_position(work.Lam, at)
                    sign = float(2 * side - 1)
                    U += sign * at_point(twist, arm)
                    X += sign * at_point(shift, arm)
            wrench = wp.spatial_vector()
            push = wp.spatial_vector()
            if equality < 0:
                both = vec12()
                if form == SMOOTH:
                    both = settle_smooth(
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
                        passes,
                        is_last,
                    )
                elif wp.static(traits.rough) and form == SPIN:
                    both = settle_spin(
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
                        passes,
                        is_last,
                    )
                else:
                    both = settle_any(
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
                        passes,
                        is_last,
                    )
                for j in range(6):
                    wrench[j] = both[j]
                    push[j] = both[6 + j]
                store_two(work.given, p * GIVEN, wrench, push)
            elif wp.static(traits.equalities):
                K = equalities.K[worldid, equality]
                active = equalities.active[worldid, equality]
                impulse = cancel(K, U, active, passes)
                wrench = impulse / dt
                equalities.f[worldid, equality] = equalities.f[worldid, equality] + wrench
                if is_last:
                    error = equalities.error[worldid, equality] + X + h * (U + K @ impulse)
                    for i in range(6):
                        error[i] = wp.clamp(share * error[i], -PUSH_OUT * h, PUSH_OUT * h)
                    push = cancel(K, error, active, passes)
                equalities.wrench[worldid, equality] = wrench
                equalities.push[worldid, equality] = push
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
def on_body(
    work: Work,
    equalities: Equalities,
    com: wp.vec3,
    equality_wrench: wp.array2d[wp.spatial_vector],
    equality_push: wp.array2d[wp.spatial_vector],
    color: int,
    worldid: int,
    bodyid: int,
) -> tuple[wp.spatial_vector, wp.spatial_vector]:
    """Wrench and push of the pairs and equalities of a colour (-1: all) on a body, always added in the same order."""
    adr = work.adr[worldid]
    wrench = wp.spatial_vector()
    push = wp.spatial_vector()
    p = work.head[worldid, bodyid]
    while p >= 0:
        is_second = work.bodies[adr + p][1] == bodyid
        if color < 0 or work.color[adr + p] == color:
            arm = xyz(load(work.point, adr + p)) - com
            sign = wp.where(is_second, 1.0, -1.0)
            given, pushed = load_given(work.given, adr + p)
            wrench += sign * from_point(given, arm)
            push += sign * from_point(pushed, arm)
        if is_second:  # noqa: SIM108 - a ternary would read both
            p = work.next2[adr + p]
        else:
            p = work.next1[adr + p]
    for k in range(equalities.body_num[bodyid]):
        equality = equalities.body_equality[equalities.body_adr[bodyid] + k]
        if equalities.active[worldid, equality] > 0 and (color < 0 or equalities.color[worldid, equality] == color):
            arm = equalities.point[worldid, equality] - com
            sign = wp.where(equalities.bodies[equality][1] == bodyid, 1.0, -1.0)
            wrench += sign * from_point(equality_wrench[worldid, equality], arm)
            push += sign * from_point(equality_push[worldid, equality], arm)
    return wrench, push


@wp.func
def gather(
    tree: Tree,
    bodies: Bodies,
    work: Work,
    equalities: Equalities,
    dt: float,
    is_last: bool,
    color: int,
    worldid: int,
    lane: int,
    nlane: int,
):
    """What a colour (-1: all) did to lone bodies, where several of its pairs may share them."""
    for t in range(lane, tree.ntree, nlane):
        at = lone_record(tree, worldid, t)
        if at >= 0:
            b = tree.tree_lone[t]
            if work.used[worldid, b] != 0:
                com = bodies.subtree_com[worldid, tree.body_rootid[b]]
                wrench, push = on_body(work, equalities, com, equalities.wrench, equalities.push, color, worldid, b)
                act_on(work, at, dt * wrench, push, is_last)


@wp.func
def drift(tree: Tree, work: Work, h: float, worldid: int, lane: int, nlane: int):
    """All that moves goes on for a substep."""
    for k in range(lane, 3 * tree.ntree, nlane):
        at = lone_record(tree, worldid, k / 3)
        if at >= 0:
            row = at + k % 3
            store(work.motion, row + 3, load(work.motion, row + 3) + h * load(work.motion, row))
    for k in range(lane, tree.njointed_dof, nlane):
        i = tree.jointed_dof[k]
        vx = work.vx[worldid, i]
        work.vx[worldid, i] = wp.vec2(vx[0], vx[1] + h * vx[0])
