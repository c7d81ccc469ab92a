"""Newton's method on the convex problem of a step, (30) to (35): one block per island, all iterations in one kernel."""

import warp as wp

from stickslip.physics.convex.step.iteration import (
    advance_iterate,
    anticipate_friction,
    lagged_force,
    make_direction,
    make_factor,
    update_friction,
)
from stickslip.physics.convex.step.jacobian import contact_velocity, multiply_inertia
from stickslip.physics.convex.step.lanes import lane_max
from stickslip.physics.convex.step.laws import row_velocity, set_law, stiction_of
from stickslip.physics.convex.step.layout import Inertia, Islands, Material, RowSet, Share, Solver, Touch, Tree
from stickslip.physics.convex.step.potential import real
from stickslip.physics.convex.step.search import line_search
from stickslip.physics.mjwarp.lanes import sync

wp.set_module_options({"enable_backward": False})

BLURRED = wp.constant(wp.float64(1.0e-3))
"""Velocity below which contacts stick in all passes but the last, and at the start of the last, m/s."""
LOOSE = wp.constant(wp.float64(100.0))
"""Largest factor on the tolerance of these passes."""
SHARPER = wp.constant(wp.float64(3.2))
"""Factor by which friction gets sharper in each iteration of the last pass."""
EASY = wp.constant(2)
"""Iterations of a first pass after which friction becomes sharp at once."""
STRAIGHT = wp.constant(wp.float64(0.9))
"""Step length above which friction becomes sharp at once."""
BENT = wp.constant(wp.float64(0.3))
"""Step length below which friction stays as sharp as it is."""
ROUNDING = wp.constant(wp.float64(1.0e-14))
"""Velocity change, relative to the speed, that counts as none."""
LEAST_TOLERANCE = wp.constant(wp.float64(1.0e-10))
"""Smallest tolerance of a solve, relative to the speed, for any step size; a bound by rounding."""
REGISTERS = 96
"""Registers per lane on CUDA: with fewer, more islands run at once. Chosen on an H200."""
SLOWEST = wp.constant(wp.float64(0.01))
"""Speed below which the tolerance stops shrinking, m/s or rad/s."""


@wp.struct
class Options:
    """How to solve.

    Attributes:
        scale: size of the step, as a share of dt
        tolerance: of the gradient over mass, relative to the speed
        span: step size for which the tolerance holds, s; shorter steps have a proportionally smaller one, so that their
            errors add up to the same; 0: one tolerance for all steps
        iterations: most Newton iterations
        reuse: whether a factor may be used for a second iteration
        weight: share of the contacts' impulses: 1/2 in the trapezoid rule
        passes: solves, each with friction bounded by the normal forces of the solve before; the first by those at
            the start of the step
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
    """The part of an island that a lane works on."""
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
    """v_out = argmin of (16) for every island of every world with dt > 0."""
    worldid, island, lane = wp.tid()
    dt = dt_in[worldid] * options.scale
    if not (dt > real(0.0)) or island >= islands.num[worldid]:
        return
    share = share_of(islands, worldid, island, lane, nlane)
    if inertia.size[worldid] > solver.capacity:
        if lane == 0 and island == 0:
            solver.wanted[worldid] = wp.max(solver.wanted[worldid], inertia.size[worldid])
        for k in range(share.dof + lane, share.dof_end, nlane):
            v_out[worldid, islands.dof[worldid, k]] = wp.float64(wp.nan)
        return
    weight = options.weight
    tolerance = options.tolerance
    if dt < options.span:
        tolerance = wp.max(tolerance * dt / options.span, LEAST_TOLERANCE)
    # all passes but the last have blurred friction and a looser tolerance; without contacts one pass is enough
    most = wp.max(BLURRED / stiction_of(material, worldid), real(1.0))
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
    before = real(0.0)  # error at the start of the last iteration; 0: the factor belongs to another problem
    alpha = real(0.0)
    sharper = real(1.0)  # factor for the next iteration; 1: friction stays as it is
    finished = bool(True)
    running = bool(True)
    while running:
        change = advance_iterate(tree, touch, rows, islands, solver, dt, weight, blur, alpha, share)
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
            # instead of (35): reuse the factor if one more iteration at the last rate is enough
            if not (options.reuse and before > real(0.0) and error * error <= before * limit):
                make_factor(tree, inertia, touch, rows, islands, solver, dt, weight, share)
                factorizations += 1
            before = error
            if arrived:
                sharper = wp.max(sharper, SHARPER)
            if sharper > real(1.0) and blur > real(1.0):
                target = wp.max(blur / sharper, real(1.0))
                anticipate_friction(tree, touch, islands, solver, weight, blur, target, share)
                blur = target
                before = real(0.0)
            make_direction(tree, inertia, touch, rows, islands, solver, dt, share)
            alpha = line_search(touch, rows, islands, solver, dt, weight, blur, share)
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
def evaluate_at(
    tree: Tree,
    material: Material,
    touch: Touch,
    rows: RowSet,
    # In:
    dt_in: wp.array[real],
    v_in: wp.array2d[real],
    passes: int,
):
    """Evaluate contacts and rows at the velocity at the end of a step of dt, with the friction of its last pass.

    With several passes, friction is bounded by the normal forces at this velocity.
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
