"""The line search: how far to go along a direction, found from slopes, with a cubic for the first guess.

Each piece of code stands once, as in the solve: on CUDA a loop that is longer than the cache of instructions waits for
them.
"""

import warp as wp

from stickslip.physics.convex.step.jacobian import slip_along
from stickslip.physics.convex.step.lanes import lane_sum
from stickslip.physics.convex.step.laws import row_impulse
from stickslip.physics.convex.step.layout import Islands, RowSet, Share, Solver, Touch
from stickslip.physics.convex.step.potential import normal_impulse, real

wp.set_module_options({"enable_backward": False})

SEARCH_TOLERANCE = wp.constant(wp.float64(1.0e-2))
"""Slope at the end of a line search, as a share of that at its start."""
NARROW = wp.constant(wp.float64(1.0e-6))
"""Width at which a line search stops, as a share of the step: friction that is nearly sharp has no slope in between."""
SEARCHES = wp.constant(30)
"""Most evaluations of a line search."""
WIDEST = wp.constant(wp.float64(16.0))
"""Longest step along a direction, which a factor from before may have made too short."""


@wp.func
def along(
    touch: Touch,
    rows: RowSet,
    islands: Islands,
    alpha: real,
    dt: real,
    weight: real,
    blur: real,
    share: Share,
):
    """First and second derivative along the direction, of contacts and rows only; of this lane's share."""
    worldid = share.worldid
    slope = real(0.0)
    curvature = real(0.0)
    for k in range(share.contact + share.lane, share.contact_end, share.nlane):
        slot = islands.contact[k]
        dv = touch.dv[slot][0]
        v = touch.v[slot][0] + alpha * dv
        normal, bend = normal_impulse(v, touch.elastic[slot], touch.stiffness[slot], touch.dissipation[slot], dt)
        slope -= weight * normal * dv
        curvature += weight * bend * dv * dv
        lagged = weight * dt * touch.lagged[slot]
        if lagged > real(0.0):
            eps = blur * touch.eps[slot]
            terms = slip_along(touch, alpha, slot)
            inverse = real(1.0) / wp.sqrt(eps * eps + terms[0])
            a = terms[1] * inverse
            slope += lagged * a
            curvature += lagged * inverse * (terms[2] - a * a)
    for k in range(share.row + share.lane, share.row_end, share.nlane):
        r = islands.row[worldid, k]
        ds = rows.ds[worldid, r]
        impulse, bend = row_impulse(rows, worldid, r, rows.s[worldid, r] + alpha * ds)
        slope -= impulse * ds
        curvature += bend * ds * ds
    return slope, curvature


@wp.func
def cubic_guess(slope0: real, slope1: real, curvature1: real) -> real:
    """Where the cubic is lowest that has a negative slope at 0, a positive one at 1, and this curvature at 1."""
    bend = slope0 - slope1 + curvature1
    root = wp.sqrt(wp.max(curvature1 * curvature1 - real(4.0) * bend * slope1, real(0.0)))
    return real(1.0) - real(2.0) * slope1 / (curvature1 + root)


@wp.func
def line_search(
    touch: Touch,
    rows: RowSet,
    islands: Islands,
    solver: Solver,
    dt: real,
    weight: real,
    blur: real,
    share: Share,
) -> real:
    """The step along p where the slope vanishes, to a share of that at the start.

    Where friction has just become sharper, g is foreseen, and so is the slope at the start.
    """
    worldid = share.worldid
    sums = wp.vec3d(real(0.0), real(0.0), real(0.0))
    for k in range(share.dof + share.lane, share.dof_end, share.nlane):
        i = islands.dof[worldid, k]
        p = solver.p[worldid, i]
        Av = solver.Av[worldid, i] - solver.r[worldid, i]
        sums += p * wp.vec3d(solver.g[worldid, i], Av, solver.Ap[worldid, i])
    sums = lane_sum(sums, share.nlane)
    slope0 = sums[0]
    linear = sums[1]
    quadratic = sums[2]
    enough = -SEARCH_TOLERANCE * slope0

    low = real(0.0)
    high = real(0.0)  # 0: not known yet
    alpha = real(1.0)
    count = int(0)
    searching = bool(True)
    while searching:
        slope, curvature = along(touch, rows, islands, alpha, dt, weight, blur, share)
        sums = lane_sum(wp.vec3d(slope, curvature, real(0.0)), share.nlane)
        slope = sums[0] + linear + alpha * quadratic
        curvature = sums[1] + quadratic
        count += 1
        if wp.abs(slope) <= enough or count >= SEARCHES:
            searching = False
        elif slope < real(0.0) and high == real(0.0):
            # too short: go on while it falls
            searching = alpha < WIDEST
            low = alpha
            alpha = wp.min(real(2.0) * alpha, WIDEST)
        else:
            if slope < real(0.0):
                low = alpha
            else:
                high = alpha
            if count == 1:
                alpha = cubic_guess(slope0, slope, curvature)
            else:
                alpha = alpha - slope / wp.max(curvature, real(1.0e-300))
            if not (alpha > low and alpha < high):
                alpha = real(0.5) * (low + high)
            searching = high - low > NARROW * high
    if share.lane == 0:
        wp.atomic_add(solver.searches, worldid, wp.int64((share.dof_end - share.dof) * count))
    return alpha
