"""Newton's method on the convex problem of a step, (30) to (35): one world a block, all iterations in one kernel."""

import warp as wp

from stickslip.physics.convex.jacobian import add_contacts, contact_velocity, multiply_inertia, subtract_impulse
from stickslip.physics.convex.lanes import lane_max, sync
from stickslip.physics.convex.laws import row_impulse, row_velocity, set_laws, tangential
from stickslip.physics.convex.layout import Inertia, Material, RowSet, Solver, Touch, Tree, vec6
from stickslip.physics.convex.potential import normal_impulse, real, slip
from stickslip.physics.convex.search import line_search
from stickslip.physics.convex.skyline import factorize, substitute

wp.set_module_options({"enable_backward": False})

DESIRED = wp.constant(wp.float64(10.0))
"""Iterations that a factor may take before a fresh one pays: N of (35)."""
LARGEST_RATE = wp.constant(wp.float64(0.9999))
BLUR = wp.constant(wp.float64(100.0))
"""How much less sharp friction is, and the solve less exact, in all passes but the last."""
ROUNDING = wp.constant(wp.float64(1.0e-14))
"""Change of velocity, relative to the speed, that is no change any more."""
LEAST_TOLERANCE = wp.constant(wp.float64(1.0e-10))
"""Of a solve, relative to the speed, however short the step: rounding allows no less in every model."""
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
        reuse: whether factors are kept from solve to solve
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
def make_gradient(
    tree: Tree,
    material: Material,
    touch: Touch,
    rows: RowSet,
    solver: Solver,
    dt: real,
    weight: real,
    blur: real,
    worldid: int,
    lane: int,
    nlane: int,
):
    """g = A v - r - J' gamma; slopes of the contacts are kept for the Hessian."""
    for i in range(lane, tree.nv, nlane):
        solver.g[worldid, i] = solver.Av[worldid, i] - solver.r[worldid, i]
    sync(nlane)
    adr = touch.adr[worldid]
    for k in range(lane, touch.num[worldid], nlane):
        slot = adr + k
        v = touch.v[slot]
        normal, slope = normal_impulse(v[0], touch.elastic[slot], touch.stiffness[slot], touch.dissipation[slot], dt)
        t = tangential(v)
        musq = touch.musq[slot]
        s = slip(t, musq, blur * touch.eps[slot])
        tangent = dt * touch.lagged[slot] / s
        touch.normal[slot] = slope
        touch.tangent[slot] = tangent
        touch.bend[slot] = tangent / (s * s)
        if normal > real(0.0) or tangent > real(0.0):
            f = -tangent * wp.cw_mul(musq, t)
            push = weight * vec6(normal, f[0], f[1], f[2], f[3], f[4])
            subtract_impulse(tree, touch, push, solver.g, slot, worldid)
    for r in range(lane, rows.n, nlane):
        impulse, _slope = row_impulse(material, rows, worldid, r, rows.s[worldid, r])
        if impulse != real(0.0):
            for k in range(rows.adr[r], rows.adr[r] + rows.num[r]):
                wp.atomic_add(solver.g, worldid, rows.col[k], -impulse * rows.val[worldid, k])
    sync(nlane)


@wp.func
def make_factor(
    tree: Tree,
    material: Material,
    inertia: Inertia,
    touch: Touch,
    rows: RowSet,
    solver: Solver,
    dt: real,
    weight: real,
    worldid: int,
    lane: int,
    nlane: int,
):
    """The Hessian A + J' G J at the iterate, in the order of its geometry, and its factor."""
    for i in range(lane, tree.nv, nlane):
        solver.at[worldid, i] = inertia.at[worldid, i]
        solver.first[worldid, i] = inertia.first[worldid, i]
        solver.adr[worldid, i] = inertia.adr[worldid, i]
        solver.last[worldid, i] = inertia.last[worldid, i]
    for i in range(lane, inertia.size[worldid], nlane):
        solver.factor[worldid, i] = real(0.0)
    sync(nlane)
    for i in range(lane, tree.nv, nlane):
        row = solver.at[worldid, i]
        adr = solver.adr[worldid, row]
        implicit = wp.float64(inertia.damping[worldid, i]) + dt * wp.float64(inertia.spring[worldid, i])
        solver.factor[worldid, adr + row] = dt * implicit
        for k in range(tree.sym_adr[i], tree.sym_adr[i] + tree.sym_num[i]):
            col = solver.at[worldid, tree.sym_col[k]]
            if col <= row:
                solver.factor[worldid, adr + col] += wp.float64(inertia.M[worldid, tree.sym_at[k]])
    sync(nlane)
    add_contacts(tree, touch, solver, weight, worldid, lane, nlane)
    for r in range(lane, rows.n, nlane):
        _impulse, slope = row_impulse(material, rows, worldid, r, rows.s[worldid, r])
        if slope > real(0.0):
            end = rows.adr[r] + rows.num[r]
            for k in range(rows.adr[r], end):
                row = solver.at[worldid, rows.col[k]]
                scaled = slope * rows.val[worldid, k]
                for j in range(rows.adr[r], end):
                    col = solver.at[worldid, rows.col[j]]
                    if col <= row:
                        wp.atomic_add(
                            solver.factor, worldid, solver.adr[worldid, row] + col, scaled * rows.val[worldid, j]
                        )
    sync(nlane)
    factorize(solver.factor, solver.first, solver.adr, solver.last, tree.nv, real(1.0e-30), worldid, lane, nlane)
    sync(nlane)


@wp.func
def make_direction(
    tree: Tree,
    inertia: Inertia,
    touch: Touch,
    rows: RowSet,
    solver: Solver,
    dt: real,
    worldid: int,
    lane: int,
    nlane: int,
):
    """p = -H^-1 g, and what it does to contacts and rows."""
    for i in range(lane, tree.nv, nlane):
        solver.x[worldid, solver.at[worldid, i]] = -solver.g[worldid, i]
    sync(nlane)
    substitute(solver.factor, solver.first, solver.adr, solver.last, solver.x, tree.nv, worldid, lane, nlane)
    sync(nlane)
    for i in range(lane, tree.nv, nlane):
        solver.p[worldid, i] = solver.x[worldid, solver.at[worldid, i]]
    sync(nlane)
    multiply_inertia(tree, inertia, solver.p, solver.Ap, dt, worldid, lane, nlane)
    adr = touch.adr[worldid]
    for k in range(lane, touch.num[worldid], nlane):
        touch.dv[adr + k] = contact_velocity(tree, touch, solver.p, adr + k, worldid)
    for r in range(lane, rows.n, nlane):
        rows.ds[worldid, r] = row_velocity(rows, solver.p, worldid, r)
    sync(nlane)


@wp.func
def update_friction(touch: Touch, dt: real, worldid: int, lane: int, nlane: int):
    """Let friction go by the normal forces at the iterate."""
    adr = touch.adr[worldid]
    for k in range(lane, touch.num[worldid], nlane):
        slot = adr + k
        if touch.musq[slot][0] > real(0.0):
            normal, _slope = normal_impulse(
                touch.v[slot][0], touch.elastic[slot], touch.stiffness[slot], touch.dissipation[slot], dt
            )
            touch.lagged[slot] = normal / dt


@wp.kernel
def solve_step(
    tree: Tree,
    material: Material,
    inertia: Inertia,
    touch: Touch,
    rows: RowSet,
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
    """v_out = argmin of (16) for each world with dt > 0."""
    worldid, lane = wp.tid()
    dt = dt_in[worldid] * options.scale
    if not (dt > real(0.0)):
        return
    if inertia.size[worldid] > solver.room:
        if lane == 0:
            solver.wanted[worldid] = wp.max(solver.wanted[worldid], inertia.size[worldid])
        for i in range(lane, tree.nv, nlane):
            v_out[worldid, i] = wp.float64(wp.nan)
        return
    weight = options.weight
    tolerance = options.tolerance
    if dt < options.span:
        tolerance = wp.max(tolerance * dt / options.span, LEAST_TOLERANCE)
    # all passes but the last go by friction that is less sharp, and need not be exact
    blur = wp.where(options.passes > 1, BLUR, real(1.0))

    # r = M v + dt (force + damping v), with A holding the implicit part
    for i in range(lane, tree.nv, nlane):
        total = dt * (inertia.force[worldid, i] + wp.float64(inertia.damping[worldid, i]) * v_start[worldid, i])
        for k in range(tree.sym_adr[i], tree.sym_adr[i] + tree.sym_num[i]):
            total += wp.float64(inertia.M[worldid, tree.sym_at[k]]) * v_start[worldid, tree.sym_col[k]]
        solver.r[worldid, i] = total
        solver.v[worldid, i] = v_guess[worldid, i]
    set_laws(material, rows, dt, worldid, lane, nlane)
    sync(nlane)
    multiply_inertia(tree, inertia, solver.v, solver.Av, dt, worldid, lane, nlane)
    adr = touch.adr[worldid]
    for k in range(lane, touch.num[worldid], nlane):
        touch.v[adr + k] = touch.given[adr + k] + contact_velocity(tree, touch, solver.v, adr + k, worldid)
        touch.lagged[adr + k] = touch.start[adr + k]
    for r in range(lane, rows.n, nlane):
        rows.s[worldid, r] = row_velocity(rows, solver.v, worldid, r)
    sync(nlane)
    make_gradient(tree, material, touch, rows, solver, dt, weight, blur, worldid, lane, nlane)

    valid = options.reuse and solver.valid[worldid] != 0
    fresh = bool(False)
    iteration = int(0)
    factorizations = int(0)
    before = real(-1.0)
    rate = real(-1.0)
    running = bool(True)
    finished = bool(True)
    stalled = bool(False)
    passes = int(1)
    while running:
        error = real(0.0)
        speed = SLOWEST
        broken = real(0.0)
        for i in range(lane, tree.nv, nlane):
            scaled = wp.abs(solver.g[worldid, i]) / wp.float64(inertia.M[worldid, tree.diag_at[i]])
            if not wp.isfinite(scaled):
                broken = real(1.0)
            error = wp.max(error, scaled)
            speed = wp.max(speed, wp.abs(solver.v[worldid, i]))
        error = lane_max(error, nlane)
        speed = lane_max(speed, nlane)
        broken = lane_max(broken, nlane)
        limit = blur * tolerance * speed
        if broken > real(0.0):
            running = False
        elif error <= limit or stalled:
            if passes < options.passes:
                update_friction(touch, dt, worldid, lane, nlane)
                passes += 1
                blur = wp.where(passes < options.passes, BLUR, real(1.0))
                stalled = False
                before = real(-1.0)
                rate = real(-1.0)
                make_gradient(tree, material, touch, rows, solver, dt, weight, blur, worldid, lane, nlane)
            else:
                running = False
        elif iteration >= options.iterations:
            running = False
            finished = False
        else:
            # (35): a fresh factor where the one there would take too long
            if valid and not fresh and rate >= real(0.0):
                left = wp.pow(rate, wp.max(DESIRED - real(iteration), real(1.0))) / (real(1.0) - rate)
                if left * before > limit:
                    valid = False
            if fresh and iteration > 0:
                valid = False
            if not valid:
                make_factor(tree, material, inertia, touch, rows, solver, dt, weight, worldid, lane, nlane)
                factorizations += 1
                valid = True
                fresh = True
                rate = real(-1.0)
            make_direction(tree, inertia, touch, rows, solver, dt, worldid, lane, nlane)
            alpha = line_search(tree, material, touch, rows, solver, dt, weight, blur, worldid, lane, nlane)
            change = real(0.0)
            for i in range(lane, tree.nv, nlane):
                step = alpha * solver.p[worldid, i]
                change = wp.max(change, wp.abs(step))
                solver.v[worldid, i] += step
                solver.Av[worldid, i] += alpha * solver.Ap[worldid, i]
            for k in range(lane, touch.num[worldid], nlane):
                touch.v[adr + k] += alpha * touch.dv[adr + k]
            for r in range(lane, rows.n, nlane):
                rows.s[worldid, r] += alpha * rows.ds[worldid, r]
            change = lane_max(change, nlane)
            iteration += 1
            make_gradient(tree, material, touch, rows, solver, dt, weight, blur, worldid, lane, nlane)
            if before > real(0.0):
                rate = wp.min(change / before, LARGEST_RATE)
            stalled = change <= ROUNDING * speed
            if stalled and not fresh:  # it may be the factor of another problem that stalls
                valid = False
                stalled = False
            before = change

    for i in range(lane, tree.nv, nlane):
        v_out[worldid, i] = solver.v[worldid, i]
    if lane == 0:
        solver.iterations[worldid] += iteration
        solver.factorizations[worldid] += factorizations
        solver.valid[worldid] = wp.where(valid, 1, 0)
        if not finished:
            solver.unfinished[worldid] += 1


@wp.kernel
def look_at(
    tree: Tree,
    material: Material,
    touch: Touch,
    rows: RowSet,
    # In:
    dt_in: wp.array[real],
    v_in: wp.array2d[real],
):
    """Bring contacts and rows to a velocity that a step of dt ended with, as the solve of that step left them."""
    worldid = wp.tid()
    dt = dt_in[worldid]
    if dt > real(0.0):
        set_laws(material, rows, dt, worldid, 0, 1)
        adr = touch.adr[worldid]
        for k in range(touch.num[worldid]):
            touch.v[adr + k] = touch.given[adr + k] + contact_velocity(tree, touch, v_in, adr + k, worldid)
        for r in range(rows.n):
            rows.s[worldid, r] = row_velocity(rows, v_in, worldid, r)
