"""Kernels of the planner `mppi`: draw controls, apply them, sum their costs, weight and average them.

Several plans can be computed at once, one per trial: `trial` is a plan, `worldid` one of its samples. The samples of a
trial are consecutive worlds.

A thread of `_score_step` is a lane: a joint (its target, posture and control), then a fingertip (contact), then the
object (orientation, position, fallen). Each lane has its own sum, so that no sum depends on the order of threads.
"""

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.struct
class Weights:
    """Weights of the cost; see `task.Cost`. Kernels divide running costs by the number of steps."""

    contact: float
    control: float
    posture: float
    orientation: float
    position: wp.vec3
    fallen: float
    floor: float
    final_position: float
    final_orientation: float


@wp.kernel
def _draw_knots(
    # In:
    random_in: wp.array2d[int],
    shift_in: wp.array2d[float],
    nominal_in: wp.array3d[float],
    nsample: int,
    first: int,
    std: float,
    bound: float,
    # Out:
    knots_out: wp.array3d[float],
):
    """Controls of a sample: the remaining ones of the last plan, plus noise, except for sample 0."""
    worldid, knot, joint = wp.tid()
    trial = worldid // nsample
    sample = worldid % nsample
    nknot = nominal_in.shape[1]
    shift = int(0)
    if first == 1:
        shift = int(shift_in[trial, 0])
    u = float(0.0)
    if knot + shift < nknot:
        u = nominal_in[trial, knot + shift, joint]
    if sample > 0:
        # mix three numbers: the seed, the number of draws, the index of the control
        seed = wp.rand_init(random_in[trial, 0], random_in[trial, 1])
        state = wp.rand_init(int(seed), (sample * nknot + knot) * nominal_in.shape[2] + joint)
        u += std * wp.randn(state)
    knots_out[worldid, knot, joint] = wp.clamp(u, -bound, bound)


@wp.kernel
def _start_rollout(
    # In:
    qpos_in: wp.array2d[float],
    qvel_in: wp.array2d[float],
    ctrl_in: wp.array2d[float],
    nsample: int,
    # Data out:
    qpos_out: wp.array2d[float],
    qvel_out: wp.array2d[float],
    ctrl_out: wp.array2d[float],
    # Out:
    sums_out: wp.array2d[float],
):
    """Reset every world to the start of its plan, and its costs to zero."""
    worldid, i = wp.tid()
    trial = worldid // nsample
    if i < qpos_in.shape[1]:
        qpos_out[worldid, i] = qpos_in[trial, i]
    if i < qvel_in.shape[1]:
        qvel_out[worldid, i] = qvel_in[trial, i]
    if i < ctrl_in.shape[1]:
        ctrl_out[worldid, i] = ctrl_in[trial, i]
    if i < sums_out.shape[1]:
        sums_out[worldid, i] = 0.0


@wp.func
def tip_position(
    # In:
    start: int,
    end: int,
    frame: wp.array[wp.transform],
    hinge: wp.array[int],
    axis: wp.array[wp.vec3],
    adr: wp.array[int],
    rest: wp.array[float],
    tip: wp.vec3,
    qpos: wp.array[float],
) -> wp.vec3:
    """Position of a fingertip, joint by joint from the world, as in MuJoCo's kinematics."""
    pose = wp.transform_identity()
    for i in range(start, end):
        pose = pose * frame[i]
        q = qpos[adr[i]] - rest[i]
        if hinge[i] == 1:
            pose = pose * wp.transform(wp.vec3(), wp.quat_from_axis_angle(axis[i], q))
        else:
            pose = pose * wp.transform(q * axis[i], wp.quat_identity())
    return wp.transform_point(pose, tip)


@wp.func
def rotation_error(qpos: wp.array[float], goal: wp.array[float]) -> float:
    """1 - (q.q*)^2 of the object's free joint, the last in qpos; its quaternion need not be normalised."""
    n = qpos.shape[0]
    dot = float(0.0)
    size = float(0.0)
    for i in range(4):
        dot += qpos[n - 4 + i] * goal[3 + i]
        size += qpos[n - 4 + i] * qpos[n - 4 + i]
    return wp.max(0.0, 1.0 - dot * dot / size)


@wp.func
def next_target(target: float, joint: float, u: float, bound: float, low: float, high: float) -> float:
    """The last joint target plus u, at most `bound` from the joint position, within the joint limits."""
    near = wp.clamp(target + u, joint - bound, joint + bound)
    return wp.clamp(near, low, high)


@wp.kernel
def _score_step(
    # Model:
    chain_start: wp.array[int],
    chain_frame: wp.array[wp.transform],
    chain_hinge: wp.array[int],
    chain_axis: wp.array[wp.vec3],
    chain_adr: wp.array[int],
    chain_rest: wp.array[float],
    chain_tip: wp.array[wp.vec3],
    low: wp.array[float],
    high: wp.array[float],
    posture: wp.array[float],
    # Data in:
    qpos_in: wp.array2d[float],
    # In:
    goal_in: wp.array2d[float],
    knots_in: wp.array3d[float],
    weights: Weights,
    nsample: int,
    bound: float,
    step: int,
    knot_steps: int,
    horizon: int,
    # Data out:
    ctrl_out: wp.array2d[float],
    # Out:
    sums_out: wp.array2d[float],
):
    """Cost of the state before a step, except the first, which all share; joint targets at the start of a knot."""
    worldid, lane = wp.tid()
    nu = low.shape[0]
    ntip = chain_tip.shape[0]
    qpos = qpos_in[worldid]
    nq = qpos.shape[0]
    share = 1.0 / float(horizon)
    cost = float(0.0)
    if lane < nu:
        if step > 0:
            away = qpos[lane] - posture[lane]
            cost = share * weights.posture * away * away
        if step < horizon and step % knot_steps == 0:
            u = knots_in[worldid, step // knot_steps, lane]
            cost += share * float(wp.min(knot_steps, horizon - step)) * weights.control * u * u
            last = ctrl_out[worldid, lane]
            ctrl_out[worldid, lane] = next_target(last, qpos[lane], u, bound, low[lane], high[lane])
    elif step > 0:
        pos = wp.vec3(qpos[nq - 7], qpos[nq - 6], qpos[nq - 5])
        if lane < nu + ntip:
            i = lane - nu
            tip = tip_position(
                chain_start[i],
                chain_start[i + 1],
                chain_frame,
                chain_hinge,
                chain_axis,
                chain_adr,
                chain_rest,
                chain_tip[i],
                qpos,
            )
            cost = share * weights.contact * wp.length_sq(tip - pos)
        else:
            goal = goal_in[worldid // nsample]
            error = pos - wp.vec3(goal[0], goal[1], goal[2])
            rotation = rotation_error(qpos, goal)
            cost = share * (weights.orientation * rotation + wp.dot(weights.position, wp.vec3(wp.abs(error))))
            if pos[2] < weights.floor:
                cost += share * weights.fallen
            if step == horizon:
                cost += weights.final_position * wp.length_sq(error) + weights.final_orientation * rotation
    sums_out[worldid, lane] += cost


@wp.kernel
def _sum_cost(
    # In:
    sums_in: wp.array2d[float],
    # Out:
    cost_out: wp.array[float],
):
    """Cost of each sample; infinite where it is not finite."""
    worldid = wp.tid()
    cost = float(0.0)
    for lane in range(sums_in.shape[1]):
        cost += sums_in[worldid, lane]
    if not wp.isfinite(cost):
        cost = wp.inf
    cost_out[worldid] = cost


@wp.kernel
def _rank_sample(
    # In:
    cost_in: wp.array[float],
    nsample: int,
    # Out:
    rank_out: wp.array[int],
):
    """Rank of each sample within its trial; of equal costs the first is better."""
    worldid = wp.tid()
    first = worldid - worldid % nsample
    cost = cost_in[worldid]
    rank = int(0)
    for other in range(first, first + nsample):
        if cost_in[other] < cost or (cost_in[other] == cost and other < worldid):
            rank += 1
    rank_out[worldid] = rank


@wp.kernel
def _weigh_sample(
    # In:
    cost_in: wp.array[float],
    rank_in: wp.array[int],
    nsample: int,
    top: int,
    temperature: float,
    # Out:
    weight_out: wp.array[float],
):
    """Weight exp(-(S - min S)/temperature), not normalised; if `top` is not 0, of the best only, standardised."""
    worldid = wp.tid()
    first = worldid - worldid % nsample
    cost = cost_in[worldid]
    best = float(wp.inf)
    for other in range(first, first + nsample):
        best = wp.min(best, cost_in[other])
    if not wp.isfinite(cost) or (top > 0 and rank_in[worldid] >= top):
        weight_out[worldid] = 0.0
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
        scale = wp.max(wp.sqrt(squares / count), 1.0e-12)
    weight_out[worldid] = wp.exp(-(cost - best) / (scale * temperature))


@wp.kernel
def _average_knots(
    # In:
    cost_in: wp.array[float],
    weight_in: wp.array[float],
    knots_in: wp.array3d[float],
    overflow_in: wp.array[int],
    nsample: int,
    # Out:
    random_out: wp.array2d[int],
    nominal_out: wp.array3d[float],
    answer_out: wp.array2d[float],
):
    """A plan: the weighted average of its samples, or the last plan if all weights are zero.

    answer: first controls (nu,), costs of the best sample and of sample 0, number of finite samples, overflow bits
    """
    trial, knot, joint = wp.tid()
    first, nu = trial * nsample, knots_in.shape[2]
    total = float(0.0)
    u = float(0.0)
    for worldid in range(first, first + nsample):
        weight = weight_in[worldid]
        total += weight
        u += weight * knots_in[worldid, knot, joint]
    u = u / total if total > 0.0 else knots_in[first, knot, joint]
    nominal_out[trial, knot, joint] = u
    if knot == 0:
        answer_out[trial, joint] = u
    if knot == 0 and joint == 0:
        best = float(wp.inf)
        finite = int(0)
        bits = int(0)
        for worldid in range(first, first + nsample):
            best = wp.min(best, cost_in[worldid])
            if wp.isfinite(cost_in[worldid]):
                finite += 1
            bits = bits | overflow_in[worldid]
        answer_out[trial, nu] = best
        answer_out[trial, nu + 1] = cost_in[first]
        answer_out[trial, nu + 2] = float(finite)
        answer_out[trial, nu + 3] = float(bits)
        random_out[trial, 1] += 1
