"""Kernels of the planner `newton`: Gauss-Newton on the controls of a plan within their bounds, in float64.

A thread solves one problem from beginning to end, without synchronisation. On a CPU one plan takes a fraction of a
millisecond; on a GPU any number of problems are solved at once. The tests hold them to the same method in NumPy.
"""

import warp as wp

from stickslip.mpc.model.rotations import exponential, matrix, multiply, right_jacobian, turned, vec4d
from stickslip.mpc.planners.newton.structs import Chains, Contact, Given, Weights, Work

wp.set_module_options({"enable_backward": False})

MAX_HALVINGS = wp.constant(12)
"""Halvings of a step before the line search gives up."""
ARMIJO = wp.constant(wp.float64(1e-4))
"""Fraction of the decrease predicted by the gradient that a step must achieve."""
DAMPING = wp.constant(wp.float64(1e-9))
"""Damping of the Gauss-Newton matrix, relative to its largest diagonal entry."""
NONE = wp.constant(wp.float64(1e-14))
"""Slope of softplus below which a row is ignored."""


@wp.func
def find_tip(chains: Chains, tip: int, joints: wp.array[wp.float64], column: wp.array[wp.vec3d], wanted: bool):
    """Position of a fingertip [m]; if wanted, also its derivatives by the joints of its chain, in `column`."""
    frame = wp.identity(3, dtype=wp.float64)
    point = wp.vec3d()
    for i in range(chains.start[tip], chains.start[tip + 1]):
        point += frame * chains.offset[i]
        frame = frame * chains.rotation[i]
        q = joints[chains.joint[i]] - chains.reference[i]
        if chains.hinge[i] == 1:
            frame = frame * turned(chains.axis[i], q)
        else:
            point += q * (frame * chains.axis[i])
    found = point + frame * chains.site[tip]
    if wanted:
        frame = wp.identity(3, dtype=wp.float64)
        point = wp.vec3d()
        for i in range(chains.start[tip], chains.start[tip + 1]):
            point += frame * chains.offset[i]
            frame = frame * chains.rotation[i]
            q = joints[chains.joint[i]] - chains.reference[i]
            axis = frame * chains.axis[i]
            if chains.hinge[i] == 1:
                column[i] = wp.cross(axis, found - point)
                frame = frame * turned(chains.axis[i], q)
            else:
                column[i] = axis
                point += q * axis
    return found


@wp.func
def evaluate(p: int, contact: Contact, weights: Weights, chains: Chains, g: Given, w: Work, u: wp.array[wp.float64]):
    """Cost of controls; keeps in `w` what `differentiate` needs."""
    nr = g.joints.shape[1]
    nv = nr + 6
    horizon = w.delta.shape[1]
    ntip = chains.site.shape[0]
    total = wp.float64(0.0)
    pos = g.pos[p]
    quat = g.quat[p]
    for t in range(horizon):
        for v in range(nv):
            w.delta[p, t, v] = wp.float64(0.0)
        for r in range(nr):
            value = u[t * nr + r]
            w.delta[p, t, r] = value
            total += weights.control * value * value
        w.delta[p, t, nr + 2] = -contact.drop
        for i in range(g.count[p]):
            approach = -g.rows[p, i, nr + 2] * contact.drop
            for r in range(nr):
                approach += g.rows[p, i, r] * u[t * nr + r]
            x = contact.sharpness * (-contact.gain * approach - contact.distance * g.phi[p, i])
            small = wp.exp(-wp.abs(x))
            force = (wp.max(x, wp.float64(0.0)) + wp.log(wp.float64(1.0) + small)) / contact.sharpness
            share = wp.float64(1.0) / (wp.float64(1.0) + small)
            if x < wp.float64(0.0):
                share = small / (wp.float64(1.0) + small)
            w.share[p, t, i] = share
            for v in range(nv):
                w.delta[p, t, v] += g.compliance[v] * g.rows[p, i, v] * force
        for r in range(nr):
            before = g.joints[p, r]
            if t > 0:
                before = w.joints[p, t - 1, r]
            w.joints[p, t, r] = before + w.delta[p, t, r]
        d = w.delta[p, t]
        pos += wp.vec3d(d[nr], d[nr + 1], d[nr + 2])
        quat = multiply(quat, exponential(wp.vec3d(d[nr + 3], d[nr + 4], d[nr + 5])))
        w.pos[p, t] = pos
        w.quat[p, t] = quat
        if t < horizon - 1:
            seen = matrix(quat)
            grasp = wp.vec3d()
            for k in range(ntip):
                tip = find_tip(chains, k, w.joints[p, t], w.column[p], False)
                w.tip[p, t, k] = tip
                total += weights.contact * wp.length_sq(tip - pos)
                grasp += wp.normalize(wp.transpose(seen) * (tip - pos))
            total += weights.grasp * wp.length_sq(grasp)
            for r in range(nr):
                bent = w.joints[p, t, r] - g.posture[r]
                total += weights.posture * bent * bent
    total += weights.final_position * wp.length_sq(pos - g.goal_pos[p])
    goal = g.goal_quat[p]
    left = multiply(vec4d(goal[0], -goal[1], -goal[2], -goal[3]), quat)
    total += weights.final_orientation * (left[1] * left[1] + left[2] * left[2] + left[3] * left[3])
    return total


@wp.func
def add_residual(p: int, w: Work, size: int, weight: wp.float64, value: wp.vec3d):
    """Add three residuals with derivatives in `w.residual` to the gradient and the lower half of the matrix."""
    two = wp.float64(2.0) * weight
    for i in range(size):
        a = wp.vec3d(w.residual[p, 0, i], w.residual[p, 1, i], w.residual[p, 2, i])
        w.gradient[p, i] += two * wp.dot(a, value)
        a = two * a
        for j in range(i + 1):
            w.hessian[p, i, j] += a[0] * w.residual[p, 0, j] + a[1] * w.residual[p, 1, j] + a[2] * w.residual[p, 2, j]


@wp.func
def differentiate(p: int, contact: Contact, weights: Weights, chains: Chains, g: Given, w: Work):
    """Gradient and Gauss-Newton matrix at the controls last given to `evaluate`."""
    nr = g.joints.shape[1]
    nv = nr + 6
    horizon = w.delta.shape[1]
    n = horizon * nr
    two = wp.float64(2.0)
    for i in range(n):
        w.gradient[p, i] = two * weights.control * w.u[p, i]
        for j in range(i + 1):
            w.hessian[p, i, j] = wp.float64(0.0)
        w.hessian[p, i, i] = two * weights.control
    for t in range(horizon):
        d = w.delta[p, t]
        turn = wp.vec3d(d[nr + 3], d[nr + 4], d[nr + 5])
        # derivative of the displacement by its control: each row in contact couples joints and object
        for v in range(nv):
            for r in range(nr):
                w.slope[p, v, r] = wp.float64(0.0)
        for r in range(nr):
            w.slope[p, r, r] = wp.float64(1.0)
        for i in range(g.count[p]):
            share = contact.gain * w.share[p, t, i]
            if share > NONE:
                for r in range(nr):
                    by = g.rows[p, i, r]
                    if by != wp.float64(0.0):
                        for v in range(nv):
                            w.slope[p, v, r] -= share * by * g.compliance[v] * g.rows[p, i, v]
        # derivative of the state by all controls so far
        back = wp.transpose(matrix(exponential(turn)))
        for c in range(t * nr):
            a = back * wp.vec3d(w.moved[p, nr + 3, c], w.moved[p, nr + 4, c], w.moved[p, nr + 5, c])
            for i in range(3):
                w.moved[p, nr + 3 + i, c] = a[i]
        bend = right_jacobian(turn)
        for r in range(nr):
            c = t * nr + r
            for v in range(nr + 3):
                w.moved[p, v, c] = w.slope[p, v, r]
            a = bend * wp.vec3d(w.slope[p, nr + 3, r], w.slope[p, nr + 4, r], w.slope[p, nr + 5, r])
            for i in range(3):
                w.moved[p, nr + 3 + i, c] = a[i]
        size = (t + 1) * nr
        pos = w.pos[p, t]
        quat = w.quat[p, t]
        if t < horizon - 1:
            add_running_cost(p, t, size, weights, chains, g, w)
        else:
            for c in range(size):
                for i in range(3):
                    w.residual[p, i, c] = w.moved[p, nr + i, c]
            add_residual(p, w, size, weights.final_position, pos - g.goal_pos[p])
            goal = g.goal_quat[p]
            left = multiply(vec4d(goal[0], -goal[1], -goal[2], -goal[3]), quat)
            vector = wp.vec3d(left[1], left[2], left[3])
            by_turn = wp.float64(0.5) * (left[0] * wp.identity(3, dtype=wp.float64) + wp.skew(vector))
            for c in range(size):
                a = by_turn * wp.vec3d(w.moved[p, nr + 3, c], w.moved[p, nr + 4, c], w.moved[p, nr + 5, c])
                for i in range(3):
                    w.residual[p, i, c] = a[i]
            add_residual(p, w, size, weights.final_orientation, vector)


@wp.func
def add_running_cost(p: int, t: int, size: int, weights: Weights, chains: Chains, g: Given, w: Work):
    """Add the running cost after a step: contact, grasp and posture."""
    nr = g.joints.shape[1]
    pos = w.pos[p, t]
    seen = wp.transpose(matrix(w.quat[p, t]))
    ntip = chains.site.shape[0]
    for k in range(ntip):
        tip = find_tip(chains, k, w.joints[p, t], w.column[p], True)
        for c in range(size):
            a = -wp.vec3d(w.moved[p, nr, c], w.moved[p, nr + 1, c], w.moved[p, nr + 2, c])
            for i in range(chains.start[k], chains.start[k + 1]):
                a += w.moved[p, chains.joint[i], c] * w.column[p, i]
            for i in range(3):
                w.residual[p, i, c] = a[i]
        add_residual(p, w, size, weights.contact, tip - pos)
    if weights.grasp > wp.float64(0.0):
        total = wp.vec3d()
        for c in range(size):
            for i in range(3):
                w.residual[p, i, c] = wp.float64(0.0)
        for k in range(ntip):
            away = seen * (w.tip[p, t, k] - pos)
            far = wp.length(away)
            unit = away / far
            total += unit
            across = (wp.identity(3, dtype=wp.float64) - wp.outer(unit, unit)) / far
            for c in range(size):
                a = -wp.vec3d(w.moved[p, nr, c], w.moved[p, nr + 1, c], w.moved[p, nr + 2, c])
                for i in range(chains.start[k], chains.start[k + 1]):
                    a += w.moved[p, chains.joint[i], c] * w.column[p, i]
                spin = wp.vec3d(w.moved[p, nr + 3, c], w.moved[p, nr + 4, c], w.moved[p, nr + 5, c])
                a = across * (seen * a + wp.cross(away, spin))
                for i in range(3):
                    w.residual[p, i, c] += a[i]
        add_residual(p, w, size, weights.grasp, total)
    if weights.posture > wp.float64(0.0):
        two = wp.float64(2.0) * weights.posture
        for r in range(nr):
            bent = w.joints[p, t, r] - g.posture[r]
            for i in range(size):
                w.gradient[p, i] += two * w.moved[p, r, i] * bent
                for j in range(i + 1):
                    w.hessian[p, i, j] += two * w.moved[p, r, i] * w.moved[p, r, j]


@wp.func
def find_step(p: int, g: Given, w: Work) -> bool:
    """Gauss-Newton step for the free controls; zero for those at a bound whose gradient points beyond it.

    The Cholesky factor replaces the matrix. Returns False if no control is free.
    """
    nr = g.joints.shape[1]
    n = w.u.shape[1]
    zero = wp.float64(0.0)
    largest = zero
    free = int(0)
    for i in range(n):
        u = w.u[p, i]
        slope = w.gradient[p, i]
        r = i % nr
        held = (u <= g.low[p, r] and slope > zero) or (u >= g.high[p, r] and slope < zero)
        w.step[p, i] = -slope
        if held:
            w.step[p, i] = zero
            for j in range(n):
                if j < i:
                    w.hessian[p, i, j] = zero
                elif j > i:
                    w.hessian[p, j, i] = zero
            w.hessian[p, i, i] = wp.float64(1.0)
        else:
            free += 1
            largest = wp.max(largest, w.hessian[p, i, i])
    if free == 0:
        return False
    for i in range(n):
        w.hessian[p, i, i] += DAMPING * largest
        for j in range(i + 1):
            value = w.hessian[p, i, j]
            for k in range(j):
                value -= w.hessian[p, i, k] * w.hessian[p, j, k]
            if i == j:
                w.hessian[p, i, i] = wp.sqrt(value)
            else:
                w.hessian[p, i, j] = value / w.hessian[p, j, j]
    for i in range(n):
        value = w.step[p, i]
        for k in range(i):
            value -= w.hessian[p, i, k] * w.step[p, k]
        w.step[p, i] = value / w.hessian[p, i, i]
    for back in range(n):
        i = n - 1 - back
        value = w.step[p, i]
        for k in range(i + 1, n):
            value -= w.hessian[p, k, i] * w.step[p, k]
        w.step[p, i] = value / w.hessian[p, i, i]
    return True


@wp.kernel
def _solve_plans(
    # Model:
    contact: Contact,
    weights: Weights,
    chains: Chains,
    # In:
    given: Given,
    iterations: int,
    tolerance: wp.float64,
    # Out:
    work: Work,
):
    """Minimise the cost of every problem, starting from the controls in `work.u`."""
    p = wp.tid()
    nr = given.joints.shape[1]
    n = work.u.shape[1]
    for i in range(n):
        work.u[p, i] = wp.clamp(work.u[p, i], given.low[p, i % nr], given.high[p, i % nr])
    cost = evaluate(p, contact, weights, chains, given, work, work.u[p])
    taken = int(0)
    going = bool(True)
    while going and taken < iterations:
        taken += 1
        differentiate(p, contact, weights, chains, given, work)
        going = find_step(p, given, work)
        size = wp.float64(1.0)
        tries = int(0)
        searching = going
        while searching:
            predicted = wp.float64(0.0)
            for i in range(n):
                value = wp.clamp(work.u[p, i] + size * work.step[p, i], given.low[p, i % nr], given.high[p, i % nr])
                work.tried[p, i] = value
                predicted += work.gradient[p, i] * (value - work.u[p, i])
            new = evaluate(p, contact, weights, chains, given, work, work.tried[p])
            tries += 1
            if new <= cost + ARMIJO * predicted:
                searching = False
                going = cost - new > tolerance * wp.abs(cost)
                cost = new
                for i in range(n):
                    work.u[p, i] = work.tried[p, i]
            elif tries >= MAX_HALVINGS:
                searching = False
                going = False
            size *= wp.float64(0.5)
    work.cost[p] = cost
    work.iterations[p] = taken
