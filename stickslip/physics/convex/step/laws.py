"""Impulses of contacts and rows at their velocities, and how rows depend on the size of a step."""

import math

import warp as wp

from stickslip.physics.convex.step.layout import Law, Material, RowSet, Touch, vec6
from stickslip.physics.convex.step.potential import (
    clamped_impulse,
    dry_impulse,
    friction_impulse,
    normal_impulse,
    real,
    slip,
    vec5,
)

wp.set_module_options({"enable_backward": False})

RIGID = wp.constant(int(Law.RIGID))
LIMIT = wp.constant(int(Law.LIMIT))
LINEAR = wp.constant(int(Law.LINEAR))
DRY = wp.constant(int(Law.DRY))

PI = wp.constant(wp.float64(math.pi))
UNBOUNDED = wp.constant(wp.float64(1.0e300))
RETURN_TIME = wp.constant(wp.float64(0.02))
"""Shortest time in which a near-rigid row that is far off closes, s."""
RETURN_SPEED = wp.constant(wp.float64(1.0))
"""Speed at which it may always close, m/s or rad/s."""


@wp.func
def tangential(v: vec6) -> vec5:
    return vec5(v[1], v[2], v[3], v[4], v[5])


@wp.func
def contact_impulse(touch: Touch, slot: int, v: vec6, dt: real) -> vec6:
    """Normal impulse (13) and friction (14) at a velocity of the contact."""
    normal, _slope = normal_impulse(v[0], touch.elastic[slot], touch.stiffness[slot], touch.dissipation[slot], dt)
    t = tangential(v)
    musq = touch.musq[slot]
    f = friction_impulse(t, musq, dt * touch.lagged[slot], slip(t, musq, touch.eps[slot]))
    return vec6(normal, f[0], f[1], f[2], f[3], f[4])


@wp.func
def stiction_of(material: Material, worldid: int) -> real:
    """The velocity of a world that counts as sticking."""
    return real(material.stiction[worldid % material.stiction.shape[0]])


@wp.func
def row_impulse(rows: RowSet, worldid: int, r: int, s: real):
    """Impulse of a row, and minus its slope."""
    if rows.law[worldid, r] == DRY:
        return dry_impulse(s, rows.bias[worldid, r], rows.gain[worldid, r])
    return clamped_impulse(
        s, rows.bias[worldid, r], rows.gain[worldid, r], rows.least[worldid, r], rows.most[worldid, r]
    )


@wp.func
def closing_speed(residual: real, period: real, limit: bool) -> real:
    """Speed at which a near-rigid row yields or removes its residual: residual / period, as in (18).

    Where that is fast and the residual is one to be rid of, it takes its time: what starts a metre off would otherwise
    be shot back within a step, the faster, the shorter the step.
    """
    speed = residual / period
    if limit and residual > real(0.0):
        return speed
    most = wp.max(RETURN_SPEED, wp.abs(residual) / RETURN_TIME)
    return wp.clamp(speed, -most, most)


@wp.func
def set_law(material: Material, rows: RowSet, dt: real, worldid: int, r: int):
    """The impulse of a row for a step of dt: bias - gain s between bounds; of dry friction, loss and eps."""
    law = rows.law[worldid, r]
    bias = real(0.0)
    gain = real(0.0)
    least = -UNBOUNDED
    most = UNBOUNDED
    if law == RIGID or law == LIMIT:  # noqa: SIM109 - Warp knows no `in`
        # (18) with k = 4 pi^2 m / (beta dt)^2 and tau = beta dt / pi: gain = dt (dt + tau) k
        beta = material.rigidity
        tau = beta * dt / PI
        gain = real(4.0) * PI * PI / (beta * beta) * (real(1.0) + beta / PI)
        gain = gain / rows.weight[worldid, r]
        bias = -gain * closing_speed(rows.residual[worldid, r], dt + tau, law == LIMIT)
        if law == LIMIT:
            least = real(0.0)
    elif law == LINEAR:
        rate = rows.rate[worldid, r]
        gain = rate + dt * rows.spring[worldid, r]
        bias = rows.residual[worldid, r]
        if gain > real(0.0):
            bias += rate * rows.vel[worldid, r]
        gain = dt * wp.max(gain, real(0.0))
        bias = dt * bias
        least = dt * rows.low[worldid, r]
        most = dt * rows.high[worldid, r]
    elif law == DRY:
        bias = dt * rows.weight[worldid, r]
        gain = stiction_of(material, worldid)
    else:
        least = real(0.0)
        most = real(0.0)
    rows.bias[worldid, r] = bias
    rows.gain[worldid, r] = gain
    rows.least[worldid, r] = least
    rows.most[worldid, r] = most


@wp.func
def row_velocity(rows: RowSet, x: wp.array2d[real], worldid: int, r: int) -> real:
    total = real(0.0)
    for k in range(rows.adr[r], rows.adr[r] + rows.num[r]):
        total += rows.val[worldid, k] * x[worldid, rows.col[k]]
    return total
