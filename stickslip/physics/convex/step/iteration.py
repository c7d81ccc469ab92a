"""The parts of an iteration of Newton's method: gradient, Hessian and its factor, direction, friction."""

import warp as wp

from stickslip.physics.convex.step.jacobian import (
    add_contacts,
    advance_contact,
    contact_velocity,
    multiply_inertia,
    set_inertia,
    subtract_impulse,
)
from stickslip.physics.convex.step.laws import row_impulse, row_velocity, tangential
from stickslip.physics.convex.step.layout import Inertia, Islands, RowSet, Share, Solver, Touch, Tree, vec6
from stickslip.physics.convex.step.potential import normal_impulse, real
from stickslip.physics.convex.step.skyline import factorize, substitute
from stickslip.physics.mjwarp.lanes import sync

wp.set_module_options({"enable_backward": False})


@wp.func
def advance_iterate(
    tree: Tree,
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
    """Step by alpha along the direction and evaluate g = A v - r - J' gamma there; returns the largest velocity change.

    An alpha of 0 evaluates only. Slopes of the contacts are stored for the Hessian.
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
        impulse, _slope = row_impulse(rows, worldid, r, rows.s[worldid, r])
        if impulse != real(0.0):
            for e in range(rows.adr[r], rows.adr[r] + rows.num[r]):
                wp.atomic_add(solver.g, worldid, rows.col[e], -impulse * rows.val[worldid, e])
    sync(share.nlane)
    return change


@wp.func
def anticipate_friction(
    tree: Tree, touch: Touch, islands: Islands, solver: Solver, weight: real, blur: real, target: real, share: Share
):
    """Add the first-order change of g when friction gets sharper.

    Friction depends on slip over sharpness. A contact that sticks keeps its force and slips proportionally less, so the
    first order is exact there.
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
    inertia: Inertia,
    touch: Touch,
    rows: RowSet,
    islands: Islands,
    solver: Solver,
    dt: real,
    weight: real,
    share: Share,
):
    """The Hessian A + J' G J at the iterate, in elimination order, and its Cholesky factor."""
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
        _impulse, slope = row_impulse(rows, worldid, r, rows.s[worldid, r])
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
    """p = -H^-1 g, and its velocities at contacts and rows."""
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
    """Normal force of a contact at its velocity; bounds friction in the next pass."""
    normal, _slope = normal_impulse(
        touch.v[slot][0], touch.elastic[slot], touch.stiffness[slot], touch.dissipation[slot], dt
    )
    return normal / dt


@wp.func
def update_friction(touch: Touch, islands: Islands, dt: real, share: Share):
    """Bound friction by the normal forces at the iterate."""
    for k in range(share.contact + share.lane, share.contact_end, share.nlane):
        slot = islands.contact[k]
        if touch.musq[slot][0] > real(0.0):
            touch.lagged[slot] = lagged_force(touch, dt, slot)
