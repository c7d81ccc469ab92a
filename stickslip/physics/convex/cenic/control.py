"""How long steps are: what is left to the target, the error of an attempt, and the step after it (Algorithm 1)."""

import warp as wp

from stickslip.physics.convex.step.potential import real

wp.set_module_options({"enable_backward": False})

SAFE = wp.constant(wp.float64(0.9))
LOW = wp.constant(wp.float64(0.9))
HIGH = wp.constant(wp.float64(1.2))
MOST_GROWTH = wp.constant(wp.float64(5.0))
MOST_SHRINK = wp.constant(wp.float64(0.1))
HOPELESS = wp.constant(wp.float64(2.0))
"""Limit on the error estimate at the midpoint, in accuracies; above it, the rest of the step is not tried."""
STRETCH = wp.constant(wp.float64(1.1))
"""A step that would leave less than a tenth of itself to the target is extended to the target."""
FIRST = 0.1
"""First step, as a share of the longest: k_init."""


@wp.struct
class Clock:
    """Time of each world within a timestep of the simulation; shapes (nworld,).

    Worlds meet all targets, but wait for each other only at the last that was asked for.

    Attributes:
        asked: timesteps to go until all worlds have to be at the same time        (1,)
        ahead: how many of them come after this one
        left: time to the target, the end of this one, s
        next: step that the error allows, s
        dt: step of this attempt, s; 0: the world has arrived; negative: its error is too large already
        half, whole: the same as single precision sees half of it, and all, s
        least: shortest step that was accepted, s
        steps, rejections: counted
        failed: step that was too short, s; 0: none
        failed_at: time to the target at that moment, s
        error: of the step, as far as it is known
        count: worlds that have not arrived; steps that the last attempt brought; worlds past the midpoint       (3,)
    """

    asked: wp.array[int]
    ahead: wp.array[int]
    left: wp.array[wp.float64]
    next: wp.array[wp.float64]
    dt: wp.array[wp.float64]
    half: wp.array[float]
    whole: wp.array[float]
    least: wp.array[wp.float64]
    steps: wp.array[int]
    rejections: wp.array[int]
    failed: wp.array[wp.float64]
    failed_at: wp.array[wp.float64]
    error: wp.array[wp.float64]
    count: wp.array[int]


@wp.struct
class Bounds:
    """Accuracy and steps asked for."""

    accuracy: wp.float64
    longest: wp.float64
    shortest: wp.float64


@wp.struct
class Trace:
    """The last accepted steps of each world, a ring.

    Attributes:
        capacity: number of steps it can hold
        time, dt: when each ended, counted from the start of the data, and how long it was, s     (nworld, capacity)
        clock: time of each world in double precision, s                                         (nworld,)
    """

    capacity: int
    time: wp.array2d[wp.float64]
    dt: wp.array2d[wp.float64]
    clock: wp.array[wp.float64]


@wp.kernel
def start_clock(
    # Model:
    opt_timestep: wp.array[float],
    # In:
    first: wp.float64,
    # Out:
    clock: Clock,
):
    """A new target, one timestep away, and as many more after it as were asked for."""
    worldid = wp.tid()
    clock.ahead[worldid] = clock.asked[0] - 1
    clock.left[worldid] = real(opt_timestep[worldid % opt_timestep.shape[0]])
    if clock.next[worldid] <= real(0.0):
        clock.next[worldid] = first
    if clock.failed[worldid] > real(0.0):
        clock.left[worldid] = real(0.0)


@wp.kernel
def choose_step(clock: Clock, bounds: Bounds):
    """The step of an attempt: what the error allows, stretched or halved so that the target is met without a sliver."""
    worldid = wp.tid()
    left = clock.left[worldid]
    step = wp.min(clock.next[worldid], bounds.longest)
    if left <= STRETCH * step:
        step = left
    elif left < real(2.0) * step:
        step = real(0.5) * left
    clock.dt[worldid] = step
    clock.half[worldid] = float(real(0.5) * step)
    clock.whole[worldid] = float(step)
    if worldid == 0:
        for i in range(3):
            clock.count[i] = 0


@wp.func
def largest_error(weights: wp.array[real], a: wp.array2d[real], b: wp.array2d[real], worldid: int) -> real:
    """Largest weighted difference of two positions; infinite if one of them is not finite."""
    error = real(0.0)
    for i in range(weights.shape[0]):
        e = weights[i] * wp.abs(a[worldid, i] - b[worldid, i])
        if not wp.isfinite(e):
            error = wp.float64(wp.inf)
        error = wp.max(error, e)
    return error


@wp.kernel
def doubt_step(
    # In:
    weights: wp.array[wp.float64],
    bounds: Bounds,
    qpos_full: wp.array2d[real],
    qpos_seen: wp.array2d[real],
    # In and out:
    clock: Clock,
):
    """Reject at the midpoint where the extrapolated end is far from that of the whole step."""
    worldid = wp.tid()
    if clock.dt[worldid] > real(0.0):
        error = largest_error(weights, qpos_seen, qpos_full, worldid)
        clock.error[worldid] = error
        if error > HOPELESS * bounds.accuracy:
            clock.dt[worldid] = -clock.dt[worldid]
        else:
            wp.atomic_add(clock.count, 2, 1)


@wp.func
def fail_world(clock: Clock, qpos: wp.array2d[real], qvel: wp.array2d[real], dt: real, worldid: int):
    """Mark a world as failed: its state is no longer valid."""
    clock.failed[worldid] = dt
    clock.failed_at[worldid] = clock.left[worldid]
    clock.left[worldid] = real(0.0)
    for i in range(qpos.shape[1]):
        qpos[worldid, i] = wp.float64(wp.nan)
    for i in range(qvel.shape[1]):
        qvel[worldid, i] = wp.float64(wp.nan)


@wp.kernel
def fail_late(clock: Clock, qpos: wp.array2d[real], qvel: wp.array2d[real]):
    """Give up the worlds that have not arrived after all attempts."""
    worldid = wp.tid()
    if clock.left[worldid] > real(0.0):
        fail_world(clock, qpos, qvel, clock.next[worldid], worldid)


@wp.kernel
def judge_step(
    # Model:
    opt_timestep: wp.array[float],
    # In:
    weights: wp.array[wp.float64],
    bounds: Bounds,
    trace: Trace,
    qpos_full: wp.array2d[real],
    qpos_end: wp.array2d[real],
    qvel_end: wp.array2d[real],
    qvel_full: wp.array2d[real],
    act_end: wp.array2d[float],
    z_end: wp.array2d[real],
    # In and out:
    clock: Clock,
    time: wp.array[float],
    qpos: wp.array2d[real],
    qvel: wp.array2d[real],
    act: wp.array2d[float],
    z: wp.array2d[real],
    # Out:
    qpos_last: wp.array2d[real],
    qvel_last: wp.array2d[real],
    v_last: wp.array2d[real],
    dt_last: wp.array[real],
):
    """Accept or reject, and choose the step after: (3), (4) and the dead band."""
    worldid = wp.tid()
    dt = wp.abs(clock.dt[worldid])
    if dt == real(0.0):
        return
    error = clock.error[worldid]
    if clock.dt[worldid] > real(0.0):
        error = largest_error(weights, qpos_end, qpos_full, worldid)
    finite = wp.isfinite(error)
    for i in range(qvel.shape[1]):
        if clock.dt[worldid] > real(0.0) and not wp.isfinite(qvel_end[worldid, i]):
            finite = False

    factor = MOST_SHRINK
    if finite:
        factor = MOST_GROWTH
        if error > real(0.0):
            factor = wp.clamp(SAFE * wp.sqrt(bounds.accuracy / error), MOST_SHRINK, MOST_GROWTH)
    if finite and error <= bounds.accuracy:
        if factor > LOW and factor < HIGH:
            factor = real(1.0)
        after = factor * dt
        if dt < clock.next[worldid]:  # the target cut it short, not the error
            after = wp.max(after, clock.next[worldid])
        clock.next[worldid] = wp.min(after, bounds.longest)
        clock.left[worldid] -= dt
        if clock.left[worldid] <= real(1.0e-9) * dt:
            clock.left[worldid] = real(0.0)
            if clock.ahead[worldid] > 0:
                timestep = opt_timestep[worldid % opt_timestep.shape[0]]
                clock.ahead[worldid] -= 1
                clock.left[worldid] = real(timestep)
                time[worldid] += timestep
        for i in range(qpos.shape[1]):
            qpos_last[worldid, i] = qpos[worldid, i]
            qpos[worldid, i] = qpos_end[worldid, i]
        for i in range(qvel.shape[1]):
            qvel_last[worldid, i] = qvel[worldid, i]
            v_last[worldid, i] = qvel_full[worldid, i]
            qvel[worldid, i] = qvel_end[worldid, i]
        for i in range(act.shape[1]):
            act[worldid, i] = act_end[worldid, i]
        for i in range(z.shape[1]):
            z[worldid, i] = z_end[worldid, i]
        dt_last[worldid] = dt
        if clock.steps[worldid] == 0 or dt < clock.least[worldid]:
            clock.least[worldid] = dt
        if trace.capacity > 0:
            at = clock.steps[worldid] % trace.capacity
            trace.clock[worldid] += dt
            trace.time[worldid, at] = trace.clock[worldid]
            trace.dt[worldid, at] = dt
        clock.steps[worldid] += 1
        wp.atomic_add(clock.count, 1, 1)
    else:
        clock.rejections[worldid] += 1
        shorter = wp.min(factor, LOW) * dt
        clock.next[worldid] = shorter
        if shorter < bounds.shortest:
            fail_world(clock, qpos, qvel, dt, worldid)
    if clock.left[worldid] > real(0.0):
        wp.atomic_add(clock.count, 0, 1)
