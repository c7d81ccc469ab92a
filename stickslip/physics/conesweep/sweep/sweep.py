"""The sweeps: colour by colour, every pair of bodies resolves its contacts, as if nothing else acted on them."""

import functools

import warp as wp

from stickslip.physics.conesweep.layout import COLORS, LONE, SMOOTH, SPIN, Bodies, Settings, Tree, Work
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
from stickslip.physics.conesweep.prepare.inertia import at_point, from_point
from stickslip.physics.conesweep.sweep.settle import contact_wrench, settle_smooth, settle_spin, vec12
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


@functools.cache
def resolver(rough: bool) -> wp.Function:
    """The function that resolves the pairs of a colour, for models with friction other than plain, or without."""

    @wp.func
    def resolve_pairs(
        tree: Tree,
        settings: Settings,
        work: Work,
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
        """Each pair of a colour resolves its contacts in sequence, forth and back."""
        adr = work.adr[worldid]
        start = work.color_adr[worldid, color]
        npair = work.color_adr[worldid, color + 1] - start
        for n in range(lane, npair, nlane):
            p, first, pair, kind, form, count = unpack_plan(load_plan(work.plan, adr + start + n))
            point = xyz(load(work.point, p))
            # relative velocity, and displacement since the start of the step
            U = wp.spatial_vector()
            X = wp.spatial_vector()
            for side in range(2):
                if kind[side] == LONE:
                    at = (worldid * tree.nbody + pair[side]) * ROWS
                    twist, _P = load_two(work.motion, at)
                    shift, _Px = load_two(work.motion, at + 3)
                    arm = point - load_position(work.Lam, at)
                    sign = float(2 * side - 1)
                    U += sign * at_point(twist, arm)
                    X += sign * at_point(shift, arm)
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
            elif wp.static(rough) and form == SPIN:
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
            wrench = wp.spatial_vector()
            push = wp.spatial_vector()
            for j in range(6):
                wrench[j] = both[j]
                push[j] = both[6 + j]
            store_two(work.given, p * GIVEN, wrench, push)
            # bodies are the pair's own while its colour runs
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
    work: Work, com: wp.vec3, color: int, worldid: int, bodyid: int
) -> tuple[wp.spatial_vector, wp.spatial_vector]:
    """Wrench and push of the pairs of a colour (-1: all) on a body, always added in the same order."""
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
    return wrench, push


@wp.func
def gather(
    tree: Tree,
    bodies: Bodies,
    work: Work,
    dt: float,
    is_last: bool,
    color: int,
    worldid: int,
    lane: int,
    nlane: int,
):
    """What a colour (-1: all) did to bodies, where several of its pairs may share them."""
    for t in range(lane, tree.ntree, nlane):
        b = tree.tree_lone[t]
        if work.used[worldid, b] != 0:
            com = bodies.subtree_com[worldid, tree.body_rootid[b]]
            wrench, push = on_body(work, com, color, worldid, b)
            act_on(work, (worldid * tree.nbody + b) * ROWS, dt * wrench, push, is_last)


@wp.func
def drift(tree: Tree, work: Work, h: float, worldid: int, lane: int, nlane: int):
    """All that moves goes on for a substep."""
    for k in range(lane, 3 * tree.ntree, nlane):
        row = (worldid * tree.nbody + tree.tree_lone[k / 3]) * ROWS + k % 3
        store(work.motion, row + 3, load(work.motion, row + 3) + h * load(work.motion, row))
