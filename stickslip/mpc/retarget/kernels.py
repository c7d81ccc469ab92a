"""Kernels of the optimisation: draw noise, follow the reference, weigh the samples, move the controls.

Controls are a sequence per trial, one for each time step of the horizon. Noise is drawn at knots and interpolated
linearly between them. Samples of a trial are consecutive worlds; its first has no noise.
"""

import warp as wp

wp.set_module_options({"enable_backward": False})

FREE = wp.constant(0)
BALL = wp.constant(1)
"""Types of joints, as MuJoCo numbers them."""
STIFFNESS = wp.constant(40.0)
"""Stiffness of full guidance, per unit of mass or inertia [1/s^2]."""
DAMPING = wp.constant(12.0)
"""Damping of full guidance, per unit of mass or inertia [1/s]."""


@wp.func
def between_knots(knots: wp.array2d[float], step: int, nstep: int, actuator: int) -> float:
    """Noise (k, nu) at a step: linear, the first knot at the first step and the last knot at the last."""
    last = knots.shape[0] - 1
    place = float(step) * float(last) / float(nstep - 1)
    left = wp.min(int(place), last - 1)
    part = place - float(left)
    return (1.0 - part) * knots[left, actuator] + part * knots[left + 1, actuator]


@wp.kernel
def draw_noise(
    # In:
    random_in: wp.array2d[int],
    round_in: wp.array[int],
    std: wp.array2d[float],
    shrink: float,
    nexploit: int,
    exploit_noise: float,
    # Out:
    noise_out: wp.array3d[float],
):
    """Noise of a sample at its knots: none for the first of a trial, little for the last ones."""
    index, knot, actuator = wp.tid()
    ntrial = random_in.shape[0]
    nsample = noise_out.shape[0] // ntrial
    trial = index // nsample
    sample = index % nsample
    value = float(0.0)
    if sample > 0:
        scale = wp.pow(shrink, float(round_in[0])) * std[knot, actuator]
        if sample >= nsample - nexploit:
            scale *= exploit_noise
        seed = wp.rand_init(random_in[trial, 0], random_in[trial, 1])
        place = (sample * noise_out.shape[1] + knot) * noise_out.shape[2] + actuator
        value = scale * wp.randn(wp.rand_init(int(seed), place))
    noise_out[index, knot, actuator] = value


@wp.kernel
def start_rollout(
    # In:
    qpos_in: wp.array2d[float],
    qvel_in: wp.array2d[float],
    # Data out:
    qpos_out: wp.array2d[float],
    qvel_out: wp.array2d[float],
    xfrc_applied_out: wp.array2d[wp.spatial_vector],
    # Out:
    cost_out: wp.array[float],
):
    """Reset every world to the state of its trial."""
    worldid, i = wp.tid()
    trial = worldid // (qpos_out.shape[0] // qpos_in.shape[0])
    if i < qpos_in.shape[1]:
        qpos_out[worldid, i] = qpos_in[trial, i]
    if i < qvel_in.shape[1]:
        qvel_out[worldid, i] = qvel_in[trial, i]
    if i < xfrc_applied_out.shape[1]:
        xfrc_applied_out[worldid, i] = wp.spatial_vector()
    if i == 0:
        cost_out[worldid] = 0.0


@wp.func
def rotation_vector(quat: wp.quat) -> wp.vec3:
    """Rotation vector of a unit quaternion, at most pi long [rad]."""
    q = quat
    if q[3] < 0.0:
        q = wp.quat(-q[0], -q[1], -q[2], -q[3])
    axis = wp.vec3(q[0], q[1], q[2])
    size = wp.length(axis)
    if size < 1.0e-7:
        return 2.0 * axis
    return (2.0 * wp.atan2(size, q[3]) / size) * axis


@wp.func
def quat_at(values: wp.array[float], adr: int) -> wp.quat:
    """A quaternion that is stored w first."""
    return wp.normalize(wp.quat(values[adr + 1], values[adr + 2], values[adr + 3], values[adr]))


@wp.func
def vector_at(values: wp.array[float], adr: int) -> wp.vec3:
    return wp.vec3(values[adr], values[adr + 1], values[adr + 2])


@wp.func
def turn_from(values: wp.array[float], reference: wp.array[float], adr: int) -> wp.vec3:
    """Rotation from the reference to an orientation, in the frame of the reference."""
    return rotation_vector(wp.quat_inverse(quat_at(reference, adr)) * quat_at(values, adr))


@wp.func
def weighted_square(vector: wp.vec3, weights: wp.array[float], adr: int) -> float:
    weighted = wp.cw_mul(vector, vector_at(weights, adr))
    return wp.length_sq(weighted)


@wp.func
def tracking_error(
    jnt_type: wp.array[int],
    jnt_qposadr: wp.array[int],
    jnt_dofadr: wp.array[int],
    dof_weights: wp.array[float],
    qpos: wp.array[float],
    reference: wp.array[float],
) -> float:
    """Norm of the weighted difference of two positions."""
    total = float(0.0)
    for joint in range(jnt_type.shape[0]):
        adr = jnt_qposadr[joint]
        dof = jnt_dofadr[joint]
        if jnt_type[joint] == FREE:
            total += weighted_square(vector_at(qpos, adr) - vector_at(reference, adr), dof_weights, dof)
            total += weighted_square(turn_from(qpos, reference, adr + 3), dof_weights, dof + 3)
        elif jnt_type[joint] == BALL:
            total += weighted_square(turn_from(qpos, reference, adr), dof_weights, dof)
        else:
            away = dof_weights[dof] * (qpos[adr] - reference[adr])
            total += away * away
    return wp.sqrt(total)


@wp.kernel
def follow(
    # Model:
    jnt_type: wp.array[int],
    jnt_qposadr: wp.array[int],
    jnt_dofadr: wp.array[int],
    dof_weights: wp.array[float],
    sites: wp.array[int],
    guided: wp.array[int],
    guided_body: wp.array[int],
    mass: wp.array[float],
    inertia: wp.array[float],
    weight: wp.vec3,
    low: wp.array[float],
    high: wp.array[float],
    velocity_weight: float,
    contact_weight: float,
    control_weight: float,
    # Data in:
    qpos_in: wp.array2d[float],
    qvel_in: wp.array2d[float],
    site_xpos_in: wp.array2d[wp.vec3],
    # Reference:
    reference_qpos: wp.array2d[float],
    reference_qvel: wp.array2d[float],
    reference_ctrl: wp.array2d[float],
    reference_contact: wp.array2d[float],
    reference_contact_pos: wp.array2d[wp.vec3],
    # In:
    begin_in: wp.array[int],
    round_in: wp.array[int],
    guidance: wp.array[float],
    controls_in: wp.array3d[float],
    noise_in: wp.array3d[float],
    step: int,
    nstep: int,
    # Data out:
    ctrl_out: wp.array2d[float],
    xfrc_applied_out: wp.array2d[wp.spatial_vector],
    # Out:
    cost_out: wp.array[float],
    steps_out: wp.array2d[float],
):
    """Before step `step`: add the cost of the last one, then set controls and guidance of this one.

    The first lanes of a world set a control each, its last does the rest. Positions of sites are those at the beginning
    of the last step, and so is what they are compared with.
    """
    worldid, lane = wp.tid()
    nu = ctrl_out.shape[1]
    trial = worldid // (qpos_in.shape[0] // begin_in.shape[0])
    last = reference_qpos.shape[0] - 1
    frame = wp.min(begin_in[trial] + step, last)
    if lane < nu:
        if step < nstep:
            u = controls_in[trial, step, lane] + between_knots(noise_in[worldid], step, nstep, lane)
            ctrl_out[worldid, lane] = wp.clamp(u, low[lane], high[lane])
        return
    if step > 0:
        before = wp.min(begin_in[trial] + step - 1, last)
        cost = tracking_error(jnt_type, jnt_qposadr, jnt_dofadr, dof_weights, qpos_in[worldid], reference_qpos[frame])
        if velocity_weight > 0.0:
            total = float(0.0)
            for dof in range(qvel_in.shape[1]):
                away = qvel_in[worldid, dof] - reference_qvel[frame, dof]
                total += away * away
            cost += velocity_weight * wp.sqrt(total)
        for i in range(sites.shape[0]):
            if reference_contact[before, i] > 0.0:
                away_from = site_xpos_in[worldid, sites[i]] - reference_contact_pos[before, i]
                cost += contact_weight * wp.length(away_from)
        if control_weight > 0.0:
            total = float(0.0)
            for i in range(nu):
                u = controls_in[trial, step - 1, i] + between_knots(noise_in[worldid], step - 1, nstep, i)
                away = wp.clamp(u, low[i], high[i]) - reference_ctrl[before, i]
                total += away * away
            cost += control_weight * total / float(nu)
        cost_out[worldid] += cost / float(nstep)
        if steps_out.shape[0] > 0:
            steps_out[worldid, step - 1] = cost
    share = guidance[wp.min(round_in[0], guidance.shape[0] - 1)]
    if step < nstep and guided.shape[0] > 0:
        for i in range(guided.shape[0]):
            wrench = wp.spatial_vector()
            if share > 0.0:
                adr = jnt_qposadr[guided[i]]
                dof = jnt_dofadr[guided[i]]
                away_pos = vector_at(qpos_in[worldid], adr) - vector_at(reference_qpos[frame], adr)
                away_vel = vector_at(qvel_in[worldid], dof) - vector_at(reference_qvel[frame], dof)
                force = -mass[i] * (STIFFNESS * away_pos + DAMPING * away_vel + weight)
                q = quat_at(qpos_in[worldid], adr + 3)
                turn = wp.quat_rotate(
                    quat_at(reference_qpos[frame], adr + 3), turn_from(qpos_in[worldid], reference_qpos[frame], adr + 3)
                )
                spin = wp.quat_rotate(q, vector_at(qvel_in[worldid], dof + 3)) - wp.quat_rotate(
                    quat_at(reference_qpos[frame], adr + 3), vector_at(reference_qvel[frame], dof + 3)
                )
                torque = -inertia[i] * (STIFFNESS * turn + DAMPING * spin)
                wrench = wp.spatial_vector(share * force, share * torque)
            xfrc_applied_out[worldid, guided_body[i]] = wrench


@wp.kernel
def mend_cost(
    # Out:
    cost_out: wp.array[float],
):
    """A cost that is not finite is infinite."""
    index = wp.tid()
    if not wp.isfinite(cost_out[index]):
        cost_out[index] = wp.inf


@wp.kernel
def average_noise(
    # In:
    weight_in: wp.array[float],
    noise_in: wp.array3d[float],
    nsample: int,
    # Out:
    mean_out: wp.array3d[float],
):
    """Weighted mean of the noise of each trial (trials, k, nu); zero if all weights are."""
    trial, knot, actuator = wp.tid()
    first = trial * nsample
    total = float(0.0)
    value = float(0.0)
    for index in range(first, first + nsample):
        total += weight_in[index]
        value += weight_in[index] * noise_in[index, knot, actuator]
    mean_out[trial, knot, actuator] = value / total if total > 0.0 else 0.0


@wp.kernel
def take_round(
    # In:
    active_in: wp.array[int],
    cost_in: wp.array[float],
    mean_in: wp.array3d[float],
    guidance: wp.array[float],
    round_in: wp.array[int],
    nsample: int,
    # Out:
    controls_out: wp.array3d[float],
    best_out: wp.array3d[float],
    best_cost_in: wp.array[float],
):
    """Keep the controls if they were the best so far, without guidance; then move them by the mean of the noise."""
    trial, step, actuator = wp.tid()
    if active_in[trial] == 0:
        return
    u = controls_out[trial, step, actuator]
    if guidance[round_in[0]] == 0.0 and cost_in[trial * nsample] < best_cost_in[trial]:
        best_out[trial, step, actuator] = u
    controls_out[trial, step, actuator] = u + between_knots(mean_in[trial], step, controls_out.shape[1], actuator)


@wp.kernel
def end_round(
    # In:
    active_in: wp.array[int],
    cost_in: wp.array[float],
    guidance: wp.array[float],
    round_in: wp.array[int],
    nsample: int,
    # Out:
    best_cost_out: wp.array[float],
    random_out: wp.array2d[int],
    answer_out: wp.array2d[float],
):
    """answer of a trial: cost of the sample without noise, cost of the best, number of finite samples."""
    trial = wp.tid()
    first = trial * nsample
    best = float(wp.inf)
    finite = int(0)
    for index in range(first, first + nsample):
        best = wp.min(best, cost_in[index])
        if wp.isfinite(cost_in[index]):
            finite += 1
    answer_out[trial, 0] = cost_in[first]
    answer_out[trial, 1] = best
    answer_out[trial, 2] = float(finite)
    if active_in[trial] == 1:
        if guidance[round_in[0]] == 0.0:
            best_cost_out[trial] = wp.min(best_cost_out[trial], cost_in[first])
        random_out[trial, 1] += 1


@wp.kernel
def next_round(
    # Out:
    round_out: wp.array[int],
):
    round_out[0] += 1


@wp.kernel
def keep_better(
    # In:
    cost_in: wp.array[float],
    best_in: wp.array3d[float],
    best_cost_in: wp.array[float],
    # Out:
    controls_out: wp.array3d[float],
):
    """Go back to the best controls if the last ones are worse."""
    trial, step, actuator = wp.tid()
    if best_cost_in[trial] < cost_in[trial]:
        controls_out[trial, step, actuator] = best_in[trial, step, actuator]


@wp.kernel
def shift_controls(
    # In:
    reference_ctrl: wp.array2d[float],
    begin_in: wp.array[int],
    moved_in: wp.array[int],
    controls_in: wp.array3d[float],
    # Out:
    controls_out: wp.array3d[float],
):
    """Controls of the next horizon: the last ones from `moved` steps on, then the reference's."""
    trial, step, actuator = wp.tid()
    later = step + moved_in[trial]
    if later < controls_in.shape[1]:
        controls_out[trial, step, actuator] = controls_in[trial, later, actuator]
    else:
        frame = wp.min(begin_in[trial] + step, reference_ctrl.shape[0] - 1)
        controls_out[trial, step, actuator] = reference_ctrl[frame, actuator]
