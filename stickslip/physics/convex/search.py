"""The line search: how far to go along a direction, found from slopes, with a cubic for the first guess."""

import warp as wp

from stickslip.physics.convex.lanes import lane_sum
from stickslip.physics.convex.laws import DRY, row_impulse, tangential
from stickslip.physics.convex.layout import Islands, Material, RowSet, Share, Solver, Touch
from stickslip.physics.convex.potential import clamped_cost, normal_cost, normal_impulse, real, slip

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
    material: Material,
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
        v = touch.v[slot]
        dv = touch.dv[slot]
        normal, bend = normal_impulse(
            v[0] + alpha * dv[0], touch.elastic[slot], touch.stiffness[slot], touch.dissipation[slot], dt
        )
        slope -= weight * normal * dv[0]
        curvature += weight * bend * dv[0] * dv[0]
        lagged = weight * dt * touch.lagged[slot]
        if lagged > real(0.0):
            dt5 = tangential(dv)
            t = tangential(v) + alpha * dt5
            musq = touch.musq[slot]
            s = slip(t, musq, blur * touch.eps[slot])
            scaled = wp.cw_mul(musq, dt5)
            a = wp.dot(scaled, t) / s
            slope += lagged * a
            curvature += lagged / s * (wp.dot(scaled, dt5) - a * a)
    for k in range(share.row + share.lane, share.row_end, share.nlane):
        r = islands.row[worldid, k]
        ds = rows.ds[worldid, r]
        impulse, bend = row_impulse(material, rows, worldid, r, rows.s[worldid, r] + alpha * ds)
        slope -= impulse * ds
        curvature += bend * ds * ds
    return slope, curvature


@wp.func
def cost(
    material: Material,
    touch: Touch,
    rows: RowSet,
    islands: Islands,
    alpha: real,
    dt: real,
    weight: real,
    blur: real,
    share: Share,
) -> real:
    """The potentials of contacts and rows along the direction; of this lane's share."""
    worldid = share.worldid
    total = real(0.0)
    for k in range(share.contact + share.lane, share.contact_end, share.nlane):
        slot = islands.contact[k]
        v = touch.v[slot] + alpha * touch.dv[slot]
        total += weight * normal_cost(v[0], touch.elastic[slot], touch.stiffness[slot], touch.dissipation[slot], dt)
        lagged = weight * dt * touch.lagged[slot]
        if lagged > real(0.0):
            total += lagged * slip(tangential(v), touch.musq[slot], blur * touch.eps[slot])
    for k in range(share.row + share.lane, share.row_end, share.nlane):
        r = islands.row[worldid, k]
        s = rows.s[worldid, r] + alpha * rows.ds[worldid, r]
        if rows.law[worldid, r] == DRY:
            total += rows.bias[worldid, r] * wp.sqrt(s * s + material.joint_stiction * material.joint_stiction)
        else:
            total += clamped_cost(
                s, rows.bias[worldid, r], rows.gain[worldid, r], rows.least[worldid, r], rows.most[worldid, r]
            )
    return total


@wp.func
def cubic_guess(f0: real, f1: real, g0: real, g1: real) -> real:
    """Where the cubic through two values and slopes at 0 and 1 is lowest; half way where it has no minimum."""
    d1 = g0 + g1 - real(3.0) * (f1 - f0)
    d2 = wp.sqrt(wp.max(d1 * d1 - g0 * g1, real(0.0)))
    bottom = g1 - g0 + real(2.0) * d2
    if not (bottom > real(0.0)):
        return real(0.5)
    return wp.clamp(real(1.0) - (g1 + d2 - d1) / bottom, real(0.01), real(0.99))


@wp.func
def line_search(
    material: Material,
    touch: Touch,
    rows: RowSet,
    islands: Islands,
    solver: Solver,
    dt: real,
    weight: real,
    blur: real,
    share: Share,
) -> real:
    """The step along p where the slope vanishes, to a share of that at the start."""
    worldid = share.worldid
    nlane = share.nlane
    slope0 = real(0.0)
    linear = real(0.0)
    quadratic = real(0.0)
    for k in range(share.dof + share.lane, share.dof_end, share.nlane):
        i = islands.dof[worldid, k]
        p = solver.p[worldid, i]
        slope0 += solver.g[worldid, i] * p
        linear += (solver.Av[worldid, i] - solver.r[worldid, i]) * p
        quadratic += solver.Ap[worldid, i] * p
    slope0 = lane_sum(slope0, nlane)
    linear = lane_sum(linear, nlane)
    quadratic = lane_sum(quadratic, nlane)
    enough = -SEARCH_TOLERANCE * slope0

    low = real(0.0)
    high = real(1.0)
    alpha = real(1.0)
    slope, curvature = along(material, touch, rows, islands, alpha, dt, weight, blur, share)
    slope = lane_sum(slope, nlane) + linear + quadratic
    curvature = lane_sum(curvature, nlane) + quadratic
    count = int(1)
    if wp.abs(slope) > enough:
        if slope < real(0.0):
            # too short: go on while it falls
            while slope < real(0.0) and high < WIDEST:
                low = high
                high = real(2.0) * high
                slope, curvature = along(material, touch, rows, islands, high, dt, weight, blur, share)
                slope = lane_sum(slope, nlane) + linear + high * quadratic
                curvature = lane_sum(curvature, nlane) + quadratic
                count += 1
            alpha = high
        else:
            f0 = lane_sum(cost(material, touch, rows, islands, real(0.0), dt, weight, blur, share), nlane)
            f1 = lane_sum(cost(material, touch, rows, islands, real(1.0), dt, weight, blur, share), nlane)
            f1 += linear + real(0.5) * quadratic
            alpha = cubic_guess(f0, f1, slope0, slope)
            slope, curvature = along(material, touch, rows, islands, alpha, dt, weight, blur, share)
            slope = lane_sum(slope, nlane) + linear + alpha * quadratic
            curvature = lane_sum(curvature, nlane) + quadratic
            count += 3
        while wp.abs(slope) > enough and high - low > NARROW * high and count < SEARCHES:
            if slope < real(0.0):
                low = alpha
            else:
                high = alpha
            alpha = alpha - slope / wp.max(curvature, real(1.0e-300))
            if not (alpha > low and alpha < high):
                alpha = real(0.5) * (low + high)
            slope, curvature = along(material, touch, rows, islands, alpha, dt, weight, blur, share)
            slope = lane_sum(slope, nlane) + linear + alpha * quadratic
            curvature = lane_sum(curvature, nlane) + quadratic
            count += 1
    if share.lane == 0:
        wp.atomic_add(solver.searches, worldid, wp.int64((share.dof_end - share.dof) * count))
    return alpha
