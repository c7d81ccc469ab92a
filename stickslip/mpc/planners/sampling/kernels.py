"""Kernels of the sampling planners: draw controls, apply them, sum their costs, weight and average them.

Several plans can be computed at once, one per trial. A plan has samples, and a sample is rolled out in one or several
models, each a world: those of a sample are consecutive worlds, and so are the samples of a trial.

A thread of the scoring kernel is one term of the cost in one world. Each has its own sum, so that no sum depends on the
order of threads.
"""

from collections.abc import Sequence
from typing import Any

import warp as wp

from stickslip.mpc.cost import State, choose

wp.set_module_options({"enable_backward": False})

HOLD = wp.constant(0)
LINEAR = wp.constant(1)
CUBIC = wp.constant(2)
"""Splines, in the order of `task.SPLINES`."""


@wp.func
def interpolated(knots: wp.array2d[float], time: float, joint: int, spline: int) -> float:
    """A spline through the knots (k, nu) at a time in knots; before the first and after the last it is constant.

    The cubic one is Catmull-Rom's: it goes through all knots and depends on the nearest four.
    """
    last = knots.shape[0] - 1
    left = wp.clamp(int(wp.floor(time)), 0, last)
    value = knots[left, joint]
    part = wp.clamp(time - float(left), 0.0, 1.0)
    if spline != HOLD and part > 0.0:
        p1 = value
        p2 = knots[wp.min(left + 1, last), joint]
        if spline == LINEAR:
            value = p1 + part * (p2 - p1)
        else:
            p0 = knots[wp.max(left - 1, 0), joint]
            p3 = knots[wp.min(left + 2, last), joint]
            a = 0.5 * (p3 - p0) + 1.5 * (p1 - p2)
            b = p0 - 2.5 * p1 + 2.0 * p2 - 0.5 * p3
            c = 0.5 * (p2 - p0)
            value = p1 + part * (c + part * (b + part * a))
    return value


@wp.kernel
def _draw_knots(
    # In:
    random_in: wp.array2d[int],
    shift_in: wp.array2d[float],
    nominal_in: wp.array3d[float],
    std_in: wp.array3d[float],
    low: wp.array[float],
    high: wp.array[float],
    first: int,
    additive: int,
    spline: int,
    # Out:
    knots_out: wp.array3d[float],
):
    """Controls of a sample: the last plan, shifted by the time that passed, plus noise, except for sample 0.

    Changes of targets (additive) are zero beyond the end of the last plan, controls stay as they were there.
    """
    index, knot, joint = wp.tid()
    ntrial = nominal_in.shape[0]
    nsample = knots_out.shape[0] // ntrial
    trial = index // nsample
    sample = index % nsample
    nknot = nominal_in.shape[1]
    shift = float(0.0)
    if first == 1:
        shift = shift_in[trial, 0]
    u = float(0.0)
    if additive == 0:
        u = interpolated(nominal_in[trial], float(knot) + shift, joint, spline)
    elif knot + int(shift) < nknot:
        u = nominal_in[trial, knot + int(shift), joint]
    if sample > 0:
        # mix three numbers: the seed, the number of draws, the index of the control
        seed = wp.rand_init(random_in[trial, 0], random_in[trial, 1])
        state = wp.rand_init(int(seed), (sample * nknot + knot) * nominal_in.shape[2] + joint)
        u += std_in[trial % std_in.shape[0], knot, joint] * wp.randn(state)
    knots_out[index, knot, joint] = wp.clamp(u, low[joint], high[joint])


@wp.kernel
def _start_rollout(
    # In:
    qpos_in: wp.array2d[float],
    qvel_in: wp.array2d[float],
    ctrl_in: wp.array2d[float],
    # Data out:
    qpos_out: wp.array2d[float],
    qvel_out: wp.array2d[float],
    ctrl_out: wp.array2d[float],
    # Out:
    sums_out: wp.array2d[float],
):
    """Reset every world to the start of its plan, and its costs to zero."""
    worldid, i = wp.tid()
    trial = worldid // (qpos_out.shape[0] // qpos_in.shape[0])
    if i < qpos_in.shape[1]:
        qpos_out[worldid, i] = qpos_in[trial, i]
    if i < qvel_in.shape[1]:
        qvel_out[worldid, i] = qvel_in[trial, i]
    if i < ctrl_in.shape[1]:
        ctrl_out[worldid, i] = ctrl_in[trial, i]
    if i < sums_out.shape[1]:
        sums_out[worldid, i] = 0.0


@wp.func
def next_target(target: float, joint: float, u: float, bound: float, low: float, high: float) -> float:
    """The last joint target plus u, at most `bound` from the joint position, within the joint limits."""
    near = wp.clamp(target + u, joint - bound, joint + bound)
    return wp.clamp(near, low, high)


@wp.kernel
def _act(
    # Model:
    joints: wp.array[int],
    low: wp.array[float],
    high: wp.array[float],
    # Data in:
    qpos_in: wp.array2d[float],
    qvel_in: wp.array2d[float],
    # In:
    knots_in: wp.array3d[float],
    bound: float,
    spline: int,
    step: int,
    knot_steps: int,
    hold_steps: int,
    # Data out:
    ctrl_out: wp.array2d[float],
    # Out:
    action_out: wp.array2d[float],
    qpos_out: wp.array2d[float],
    qvel_out: wp.array2d[float],
):
    """Controls of a time step; keep the state at its beginning, to which poses and sensors will belong."""
    worldid, i = wp.tid()
    sample = worldid // (qpos_in.shape[0] // knots_in.shape[0])
    if i < qpos_in.shape[1]:
        qpos_out[worldid, i] = qpos_in[worldid, i]
    if i < qvel_in.shape[1]:
        qvel_out[worldid, i] = qvel_in[worldid, i]
    if i < ctrl_out.shape[1]:
        if joints.shape[0] > 0:
            if step % knot_steps == 0:
                u = knots_in[sample, step // knot_steps, i]
                action_out[worldid, i] = u
                joint = qpos_in[worldid, joints[i]]
                ctrl_out[worldid, i] = next_target(ctrl_out[worldid, i], joint, u, bound, low[i], high[i])
        elif step % hold_steps == 0:
            u = interpolated(knots_in[sample], float(step) / float(knot_steps), i, spline)
            action_out[worldid, i] = u
            ctrl_out[worldid, i] = wp.clamp(u, low[i], high[i])


def make_score(functions: Sequence[wp.Function]) -> Any:
    """The kernel that adds the terms of a cost, each a Warp function of `State`."""
    term = choose(functions)

    @wp.kernel(module="unique", enable_backward=False)
    def score(
        # Data in:
        qpos_in: wp.array2d[float],
        qvel_in: wp.array2d[float],
        ctrl_in: wp.array2d[float],
        sensordata_in: wp.array2d[float],
        site_xpos_in: wp.array2d[wp.vec3],
        site_xmat_in: wp.array2d[wp.mat33],
        xpos_in: wp.array2d[wp.vec3],
        xmat_in: wp.array2d[wp.mat33],
        # In:
        action_in: wp.array2d[float],
        goal_in: wp.array2d[float],
        running: wp.array[float],
        final: wp.array[float],
        share: float,
        ends: float,
        first: int,
        # Out:
        sums_out: wp.array2d[float],
        terms_out: wp.array2d[float],
    ):
        worldid, lane = wp.tid()
        trial = worldid // (qpos_in.shape[0] // goal_in.shape[0])
        s = State()
        s.qpos = qpos_in[worldid]
        s.qvel = qvel_in[worldid]
        s.ctrl = ctrl_in[worldid]
        s.action = action_in[worldid]
        s.sensor = sensordata_in[worldid]
        s.site_pos = site_xpos_in[worldid]
        s.site_rot = site_xmat_in[worldid]
        s.body_pos = xpos_in[worldid]
        s.body_rot = xmat_in[worldid]
        s.goal = goal_in[trial]
        value = term(s, lane)
        weight = share * running[lane] + ends * final[lane]
        if weight != 0.0:
            sums_out[worldid, lane] += weight * value
        if first == 1:
            terms_out[worldid, lane] = (running[lane] + final[lane]) * value

    return score


@wp.kernel
def _sum_cost(
    # In:
    sums_in: wp.array2d[float],
    nmodel: int,
    worst: int,
    # Out:
    cost_out: wp.array[float],
):
    """Cost of each sample, mean or worst over its models; infinite where it is not finite."""
    sample = wp.tid()
    total = float(0.0)
    most = float(-wp.inf)
    for worldid in range(sample * nmodel, (sample + 1) * nmodel):
        cost = float(0.0)
        for lane in range(sums_in.shape[1]):
            cost += sums_in[worldid, lane]
        total += cost
        most = wp.max(most, cost)
    value = total / float(nmodel)
    if not wp.isfinite(value):
        value = wp.inf
    elif worst == 1:
        value = most
    cost_out[sample] = value


@wp.kernel
def rank_sample(
    # In:
    cost_in: wp.array[float],
    nsample: int,
    # Out:
    rank_out: wp.array[int],
):
    """Rank of each sample within its trial; of equal costs the first is better."""
    index = wp.tid()
    first = index - index % nsample
    cost = cost_in[index]
    rank = int(0)
    for other in range(first, first + nsample):
        if cost_in[other] < cost or (cost_in[other] == cost and other < index):
            rank += 1
    rank_out[index] = rank


@wp.kernel
def weigh_sample(
    # In:
    cost_in: wp.array[float],
    rank_in: wp.array[int],
    nsample: int,
    top: int,
    uniform: int,
    temperature: float,
    floor: float,
    # Out:
    weight_out: wp.array[float],
):
    """Weight exp(-(S - min S)/temperature), not normalised.

    If `top` is not 0, of the best only, and the temperature is in units of their standard deviation plus `floor`.
    """
    index = wp.tid()
    first = index - index % nsample
    cost = cost_in[index]
    best = float(wp.inf)
    for other in range(first, first + nsample):
        best = wp.min(best, cost_in[other])
    if not wp.isfinite(cost) or (top > 0 and rank_in[index] >= top):
        weight_out[index] = 0.0
        return
    if uniform == 1:
        weight_out[index] = 1.0
        return
    scale = float(1.0)
    if top > 0:
        count = float(0.0)
        total = float(0.0)
        for other in range(first, first + nsample):
            if rank_in[other] < top and wp.isfinite(cost_in[other]):
                count += 1.0
                total += cost_in[other] - best
        mean = total / count
        squares = float(0.0)
        for other in range(first, first + nsample):
            if rank_in[other] < top and wp.isfinite(cost_in[other]):
                away = cost_in[other] - best - mean
                squares += away * away
        scale = wp.max(wp.sqrt(squares / count) + floor, 1.0e-12)
    weight_out[index] = wp.exp(-(cost - best) / (scale * temperature))


@wp.kernel
def _average_knots(
    # In:
    cost_in: wp.array[float],
    weight_in: wp.array[float],
    knots_in: wp.array3d[float],
    overflow_in: wp.array[int],
    terms_in: wp.array2d[float],
    std_in: wp.array3d[float],
    nsample: int,
    nmodel: int,
    least: float,
    # Out:
    random_out: wp.array2d[int],
    nominal_out: wp.array3d[float],
    spread_out: wp.array3d[float],
    answer_out: wp.array2d[float],
):
    """A plan: the weighted average of its samples, or the last plan if all weights are zero; and their spread.

    answer: first controls (nu,), costs of the best sample and of sample 0, number of finite samples, overflow bits,
    terms of the cost at the start (nterm,)
    """
    trial, knot, joint = wp.tid()
    first, nu = trial * nsample, knots_in.shape[2]
    total = float(0.0)
    u = float(0.0)
    for index in range(first, first + nsample):
        weight = weight_in[index]
        total += weight
        u += weight * knots_in[index, knot, joint]
    u = u / total if total > 0.0 else knots_in[first, knot, joint]
    nominal_out[trial, knot, joint] = u
    if least > 0.0:
        square = float(0.0)
        for index in range(first, first + nsample):
            away = knots_in[index, knot, joint] - u
            square += weight_in[index] * away * away
        floor = least * std_in[trial % std_in.shape[0], knot, joint]
        spread_out[trial, knot, joint] = wp.max(floor, wp.sqrt(square / total)) if total > 0.0 else floor
    if knot == 0:
        answer_out[trial, joint] = u
    if knot == 0 and joint == 0:
        best = float(wp.inf)
        finite = int(0)
        bits = int(0)
        for index in range(first, first + nsample):
            best = wp.min(best, cost_in[index])
            if wp.isfinite(cost_in[index]):
                finite += 1
            for worldid in range(index * nmodel, (index + 1) * nmodel):
                bits = bits | overflow_in[worldid]
        answer_out[trial, nu] = best
        answer_out[trial, nu + 1] = cost_in[first]
        answer_out[trial, nu + 2] = float(finite)
        answer_out[trial, nu + 3] = float(bits)
        for lane in range(terms_in.shape[1]):
            answer_out[trial, nu + 4 + lane] = terms_in[first * nmodel, lane]
        random_out[trial, 1] += 1
