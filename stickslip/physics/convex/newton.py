"""Newton's method on the convex problem of a step, (30) to (35): one island a block, all iterations in one kernel."""

import warp as wp

from stickslip.physics.convex.jacobian import (
    add_contacts,
    advance_contact,
    contact_velocity,
    multiply_inertia,
    set_inertia,
    subtract_impulse,
)
from stickslip.physics.convex.lanes import lane_max, sync
from stickslip.physics.convex.laws import row_impulse, row_velocity, set_law, tangential
from stickslip.physics.convex.layout import Inertia, Islands, Material, RowSet, Share, Solver, Touch, Tree, vec6
from stickslip.physics.convex.potential import normal_impulse, real
from stickslip.physics.convex.search import line_search
from stickslip.physics.convex.skyline import factorize, substitute

wp.set_module_options({"enable_backward": False})

BLURRED = wp.constant(wp.float64(1.0e-3))
"""Velocity below which contacts stick in all passes but the last, and where the last begins, m/s."""
LOOSE = wp.constant(wp.float64(100.0))
"""How much less exact these passes are, at the most."""
SHARPER = wp.constant(wp.float64(3.2))
"""How much sharper friction gets from iteration to iteration of the last pass."""
EASY = wp.constant(2)
"""Iterations of a first pass after which friction becomes sharp at once."""
STRAIGHT = wp.constant(wp.float64(0.9))
"""Share of its direction that an iteration went, above which friction becomes sharp at once."""
BENT = wp.constant(wp.float64(0.3))
"""Share below which friction stays as sharp as it is."""
ROUNDING = wp.constant(wp.float64(1.0e-14))
"""Change of velocity, relative to the speed, that is no change any more."""
LEAST_TOLERANCE = wp.constant(wp.float64(1.0e-10))
"""Of a solve, relative to the speed, however short the step: rounding allows no less in every model."""
REGISTERS = 96
"""Of a lane on CUDA: with fewer, more islands are under way at once. Chosen on an H200."""
SLOWEST = wp.constant(wp.float64(0.01))
"""Speed below which the tolerance gets no smaller, m/s or rad/s."""


@wp.struct
class Options:
    """How to solve.

    Attributes:
        scale: size of the step, as a share of dt
        tolerance: of the gradient over mass, relative to the speed
        span: length of a step that the tolerance is for, s: shorter ones have less, so that what many of them add up to
            is the same; 0 for one tolerance whatever the step
        iterations: most of Newton's method
        reuse: whether a factor may serve once more, where that is enough
        weight: share of the contacts' impulses: 1/2 in the trapezoid rule
        passes: solves, each with the friction that the normal forces of the one before allow; the first goes by the
            forces at the start of the step
    """

    scale: wp.float64
    tolerance: wp.float64
    span: wp.float64
    iterations: int
    reuse: bool
    weight: wp.float64
    passes: int


@wp.func
def share_of(islands: Islands, worldid: int, island: int, lane: int, nlane: int) -> Share:
    """What a lane has to know of its island."""
    share = Share()
    share.worldid = worldid
    share.dof = islands.dof_adr[worldid, island]
    share.dof_end = islands.dof_adr[worldid, island + 1]
    share.contact = islands.contact_adr[worldid, island]
    share.contact_end = islands.contact_adr[worldid, island + 1]
    share.row = islands.row_adr[worldid, island]
    share.row_end = islands.row_adr[worldid, island + 1]
    share.lane = lane
    share.nlane = nlane
    return share


@wp.func
def go_on(
    tree: Tree,
    material: Material,
    touch: Touch,
    rows: RowSet,
    islands: Islands,
    solver: Solver,
    dt: real,
    weight: real,
    blur: real,
    alpha: real,
    share: Share,
) -> real:
    """Go alpha along the direction, and make g = A v - r - J' gamma there; the largest change of a velocity.

    Alpha of 0 stays. Slopes of the contacts are kept for the Hessian.
    """
    worldid = share.worldid
    change = real(0.0)
    for k in range(share.dof + share.lane, share.dof_end, share.nlane):
        i = islands.dof[worldid, k]
        if alpha != real(0.0):
            step = alpha * solver.p[worldid, i]
            change = wp.max(change, wp.abs(step))
            solver.v[worldid, i] += step
            solver.Av[worldid, i] += alpha * solver.Ap[worldid, i]
        solver.g[worldid, i] = solver.Av[worldid, i] - solver.r[worldid, i]
    sync(share.nlane)
    for k in range(share.contact + share.lane, share.contact_end, share.nlane):
        slot = islands.contact[k]
        eps = blur * touch.eps[slot]
        s = wp.sqrt(eps * eps + advance_contact(touch, alpha, slot))
        normal, slope = normal_impulse(
            touch.v[slot][0], touch.elastic[slot], touch.stiffness[slot], touch.dissipation[slot], dt
        )
        tangent = dt * touch.lagged[slot] / s
        touch.normal[slot] = slope
        touch.tangent[slot] = tangent
        touch.bend[slot] = tangent / (s * s)
        if normal > real(0.0) or tangent > real(0.0):
            f = -tangent * wp.cw_mul(touch.musq[slot], tangential(touch.v[slot]))
            push = weight * vec6(normal, f[0], f[1], f[2], f[3], f[4])
            subtract_impulse(tree, touch, push, solver.g, slot, worldid)
    for k in range(share.row + share.lane, share.row_end, share.nlane):
        r = islands.row[worldid, k]
        if alpha != real(0.0):
            rows.s[worldid, r] += alpha * rows.ds[worldid, r]
        impulse, _slope = row_impulse(material, rows, worldid, r, rows.s[worldid, r])
        if impulse != real(0.0):
            for e in range(rows.adr[r], rows.adr[r] + rows.num[r]):
                wp.atomic_add(solver.g, worldid, rows.col[e], -impulse * rows.val[worldid, e])
    sync(share.nlane)
    return change


@wp.func
def foresee(
    tree: Tree, touch: Touch, islands: Islands, solver: Solver, weight: real, blur: real, target: real, share: Share
):
    """Add to g what it changes by, to first order, when friction gets sharper.

    Friction goes by slip over sharpness, so that a contact which sticks, and goes on with its force, slips less in
    proportion: first order is exact there.
    """
    for k in range(share.contact + share.lane, share.contact_end, share.nlane):
        slot = islands.contact[k]
        if touch.tangent[slot] > real(0.0):
            eps = touch.eps[slot]
            more = weight * touch.bend[slot] * blur * eps * (target - blur) * eps
            f = more * wp.cw_mul(touch.musq[slot], tangential(touch.v[slot]))
            push = vec6(real(0.0), f[0], f[1], f[2], f[3], f[4])
            subtract_impulse(tree, touch, push, solver.g, slot, share.worldid)
    sync(share.nlane)


@wp.func
def make_factor(
    tree: Tree,
    material: Material,
    inertia: Inertia,
    touch: Touch,
    rows: RowSet,
    islands: Islands,
    solver: Solver,
    dt: real,
    weight: real,
    share: Share,
):
    """The Hessian A + J' G J at the iterate, in the order of its geometry, and its factor."""
    worldid = share.worldid
    begin = inertia.adr[worldid, share.dof] + inertia.first[worldid, share.dof]
    end = inertia.adr[worldid, share.dof_end - 1] + share.dof_end
    for i in range(begin + share.lane, end, share.nlane):
        solver.factor[worldid, i] = real(0.0)
    sync(share.nlane)
    for row in range(share.dof + share.lane, share.dof_end, share.nlane):
        set_inertia(tree, inertia, solver.factor, dt, worldid, islands.dof[worldid, row])
    sync(share.nlane)
    add_contacts(tree, inertia, touch, islands, weight, share, solver.factor)
    for n in range(share.row + share.lane, share.row_end, share.nlane):
        r = islands.row[worldid, n]
        _impulse, slope = row_impulse(material, rows, worldid, r, rows.s[worldid, r])
        if slope > real(0.0):
            last = rows.adr[r] + rows.num[r]
            for k in range(rows.adr[r], last):
                row = inertia.at[worldid, rows.col[k]]
                scaled = slope * rows.val[worldid, k]
                for j in range(rows.adr[r], last):
                    col = inertia.at[worldid, rows.col[j]]
                    if col <= row:
                        wp.atomic_add(
                            solver.factor, worldid, inertia.adr[worldid, row] + col, scaled * rows.val[worldid, j]
                        )
    sync(share.nlane)
    factorize(
        solver.factor,
        inertia.first,
        inertia.adr,
        inertia.last,
        share.dof,
        share.dof_end,
        real(1.0e-30),
        worldid,
        share.lane,
        share.nlane,
    )
    sync(share.nlane)


@wp.func
def make_direction(
    tree: Tree, inertia: Inertia, touch: Touch, rows: RowSet, islands: Islands, solver: Solver, dt: real, share: Share
):
    """p = -H^-1 g, and what it does to contacts and rows."""
    worldid = share.worldid
    for k in range(share.dof + share.lane, share.dof_end, share.nlane):
        solver.x[worldid, k] = -solver.g[worldid, islands.dof[worldid, k]]
    sync(share.nlane)
    substitute(
        solver.factor,
        inertia.first,
        inertia.adr,
        inertia.last,
        solver.x,
        share.dof,
        share.dof_end,
        worldid,
        share.lane,
        share.nlane,
    )
    sync(share.nlane)
    for k in range(share.dof + share.lane, share.dof_end, share.nlane):
        solver.p[worldid, islands.dof[worldid, k]] = solver.x[worldid, k]
    sync(share.nlane)
    for k in range(share.dof + share.lane, share.dof_end, share.nlane):
        i = islands.dof[worldid, k]
        solver.Ap[worldid, i] = multiply_inertia(tree, inertia, solver.p, dt, worldid, i)
    for k in range(share.contact + share.lane, share.contact_end, share.nlane):
        slot = islands.contact[k]
        touch.dv[slot] = contact_velocity(tree, touch, solver.p, slot, worldid)
    for k in range(share.row + share.lane, share.row_end, share.nlane):
        r = islands.row[worldid, k]
        rows.ds[worldid, r] = row_velocity(rows, solver.p, worldid, r)
    sync(share.nlane)


@wp.func
def lagged_force(touch: Touch, dt: real, slot: int) -> real:
    """Normal force of a contact at its velocity, for friction to go by."""
    normal, _slope = normal_impulse(
        touch.v[slot][0], touch.elastic[slot], touch.stiffness[slot], touch.dissipation[slot], dt
    )
    return normal / dt


@wp.func
def update_friction(touch: Touch, islands: Islands, dt: real, share: Share):
    """Let friction go by the normal forces at the iterate."""
    for k in range(share.contact + share.lane, share.contact_end, share.nlane):
        slot = islands.contact[k]
        if touch.musq[slot][0] > real(0.0):
            touch.lagged[slot] = lagged_force(touch, dt, slot)


@wp.kernel(cuda_max_registers=REGISTERS)
def solve_step(
    tree: Tree,
    material: Material,
    inertia: Inertia,
    touch: Touch,
    rows: RowSet,
    islands: Islands,
    solver: Solver,
    options: Options,
    # In:
    dt_in: wp.array[real],
    v_start: wp.array2d[real],
    v_guess: wp.array2d[real],
    nlane: int,
    # Out:
    v_out: wp.array2d[real],
):
    """v_out = argmin of (16) for each island of each world with dt > 0."""
    worldid, island, lane = wp.tid()
    dt = dt_in[worldid] * options.scale
    if not (dt > real(0.0)) or island >= islands.num[worldid]:
        return
    share = share_of(islands, worldid, island, lane, nlane)
    if inertia.size[worldid] > solver.room:
        if lane == 0 and island == 0:
            solver.wanted[worldid] = wp.max(solver.wanted[worldid], inertia.size[worldid])
        for k in range(share.dof + lane, share.dof_end, nlane):
            v_out[worldid, islands.dof[worldid, k]] = wp.float64(wp.nan)
        return
    weight = options.weight
    tolerance = options.tolerance
    if dt < options.span:
        tolerance = wp.max(tolerance * dt / options.span, LEAST_TOLERANCE)
    # all passes but the last go by friction that is less sharp, and need not be exact; what touches nothing has but one
    most = wp.max(BLURRED / material.stiction, real(1.0))
    passes = wp.where(share.contact < share.contact_end, 1, options.passes)
    blur = wp.where(passes < options.passes, most, real(1.0))

    # r = M v + dt (force + damping v), with A holding the implicit part
    for n in range(share.dof + lane, share.dof_end, nlane):
        i = islands.dof[worldid, n]
        total = dt * (inertia.force[worldid, i] + wp.float64(inertia.damping[worldid, i]) * v_start[worldid, i])
        for k in range(tree.sym_adr[i], tree.sym_adr[i] + tree.sym_num[i]):
            total += wp.float64(inertia.M[worldid, tree.sym_at[k]]) * v_start[worldid, tree.sym_col[k]]
        solver.r[worldid, i] = total
        solver.v[worldid, i] = v_guess[worldid, i]
    sync(nlane)
    for k in range(share.dof + lane, share.dof_end, nlane):
        i = islands.dof[worldid, k]
        solver.Av[worldid, i] = multiply_inertia(tree, inertia, solver.v, dt, worldid, i)
    for k in range(share.contact + lane, share.contact_end, nlane):
        slot = islands.contact[k]
        touch.v[slot] = touch.given[slot] + contact_velocity(tree, touch, solver.v, slot, worldid)
        touch.lagged[slot] = touch.start[slot]
    for k in range(share.row + lane, share.row_end, nlane):
        r = islands.row[worldid, k]
        set_law(material, rows, dt, worldid, r)
        rows.s[worldid, r] = row_velocity(rows, solver.v, worldid, r)
    sync(nlane)

    iteration = int(0)
    factorizations = int(0)
    before = real(0.0)  # the error that the last iteration started with; 0: the factor is of another problem
    alpha = real(0.0)
    sharper = real(1.0)  # how much, in the next iteration; 1: friction stays as it is
    finished = bool(True)
    running = bool(True)
    while running:
        change = go_on(tree, material, touch, rows, islands, solver, dt, weight, blur, alpha, share)
        error = real(0.0)
        speed = SLOWEST
        for k in range(share.dof + lane, share.dof_end, nlane):
            i = islands.dof[worldid, k]
            scaled = wp.abs(solver.g[worldid, i]) / wp.float64(inertia.M[worldid, tree.diag_at[i]])
            if not wp.isfinite(scaled):
                scaled = wp.float64(wp.inf)
            error = wp.max(error, scaled)
            speed = wp.max(speed, wp.abs(solver.v[worldid, i]))
        largest = lane_max(wp.vec3d(error, speed, change), nlane)
        error = largest[0]
        speed = largest[1]
        limit = wp.min(blur, LOOSE) * tolerance * speed
        stalled = alpha != real(0.0) and largest[2] <= ROUNDING * speed
        arrived = error <= limit or stalled
        if not wp.isfinite(error):
            running = False
        elif arrived and passes < options.passes:
            update_friction(touch, islands, dt, share)
            passes += 1
            if passes == options.passes:
                sharper = wp.where(iteration <= EASY, most, SHARPER)
            alpha = real(0.0)
            before = real(0.0)
        elif arrived and blur <= real(1.0):
            running = False
        elif iteration >= options.iterations:
            running = False
            finished = False
        else:
            # in the place of (35): a factor serves once more where at the rate of the last iteration that is enough
            if not (options.reuse and before > real(0.0) and error * error <= before * limit):
                make_factor(tree, material, inertia, touch, rows, islands, solver, dt, weight, share)
                factorizations += 1
            before = error
            if arrived:
                sharper = wp.max(sharper, SHARPER)
            if sharper > real(1.0) and blur > real(1.0):
                target = wp.max(blur / sharper, real(1.0))
                foresee(tree, touch, islands, solver, weight, blur, target, share)
                blur = target
                before = real(0.0)
            make_direction(tree, inertia, touch, rows, islands, solver, dt, share)
            alpha = line_search(material, touch, rows, islands, solver, dt, weight, blur, share)
            iteration += 1
            if passes == options.passes:
                sharper = wp.where(alpha > STRAIGHT, most, wp.where(alpha > BENT, SHARPER, real(1.0)))

    for k in range(share.dof + lane, share.dof_end, nlane):
        i = islands.dof[worldid, k]
        v_out[worldid, i] = solver.v[worldid, i]
    if lane == 0:
        dofs = share.dof_end - share.dof
        wp.atomic_add(solver.iterations, worldid, wp.int64(dofs * iteration))
        wp.atomic_add(solver.factorizations, worldid, wp.int64(dofs * factorizations))
        if not finished:
            wp.atomic_add(solver.unfinished, worldid, 1)


@wp.kernel
def look_at(
    tree: Tree,
    material: Material,
    touch: Touch,
    rows: RowSet,
    # In:
    dt_in: wp.array[real],
    v_in: wp.array2d[real],
    passes: int,
):
    """Bring contacts and rows to a velocity that a step of dt ended with, with the friction that its last pass had.

    Of several passes, it is that of the normal forces at this velocity.
    """
    worldid = wp.tid()
    dt = dt_in[worldid]
    if dt > real(0.0):
        adr = touch.adr[worldid]
        for k in range(touch.num[worldid]):
            slot = adr + k
            touch.v[slot] = touch.given[slot] + contact_velocity(tree, touch, v_in, slot, worldid)
            touch.lagged[slot] = touch.start[slot]
            if passes > 1 and touch.musq[slot][0] > real(0.0):
                touch.lagged[slot] = lagged_force(touch, dt, slot)
        for r in range(rows.n):
            set_law(material, rows, dt, worldid, r)
            rows.s[worldid, r] = row_velocity(rows, v_in, worldid, r)
