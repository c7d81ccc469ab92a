// Body of the native function `find` of the response kernel (kernel.py): what the forces of constraints do to one world, by the lanes of one
// warp, or by one thread of a CPU. Before this text kernel.py puts `memory.h` with what that needs.
//
// Forces that each constraint finds for itself add up, and may together do more than each asks for. With all of them times s,
//
//     |v+ - v*|^2 = |v_s - v*|^2 - 2 dt s f . J (v* - v_s) + dt^2 s^2 f . J H^-1 J' f      in the metric of H
//
// where v* is any velocity that violates no constraint, so that J (v* - v_s) is at least r, the velocity that is missing at
// each. The distance to v* shrinks if s < 2 f . r / (dt f . J H^-1 J' f), whatever the model, and most for half of it, where
// the missing velocity is made up on the average over the forces. v* = 0 is one of these velocities unless something has to
// be pushed out: a step then gains no energy. Here s is that half, or 1 if it is more.
//
// Arguments: `m` the structure of M, `wrench_in` and `qfrc_row_in` the forces, `work_in` f . r, `qacc_free_in` and
// `motion_out` accelerations without and with forces, by the factors `L_in` and `Dinv_in` of H, `qacc_out` that with forces
// by those of M. Without `motion_out`, H is M.
//
// Where `response` is given, H is more than its factors say, and a launch between two of these mends H^-1 J' f: the first has
// no `qacc_out` and stops there, the second has no `wrench_in` and begins there.
const int nbody = body_subtreenum.shape[0];
float* const L = s;              // a factor; sums of wrenches before
float* const Dinv = L + wp::max(nC, 6 * nbody);
float* const force = Dinv + nv;  // J' f
float* const x = force + nv;
const size_t row = size_t(world) * nv;
if (wrench_in.data) {
    const float* const wrench = reinterpret_cast<const float*>(wrench_in.data) + size_t(world) * 6 * nbody;
    const float* const cdof = reinterpret_cast<const float*>(cdof_in.data) + 6 * row;
    EACH(k, 6 * nbody) {  // of the bodies of a subtree, which lie one after another
        float sum = 0.0f;
        for (int e = k; e < k + 6 * body_subtreenum.data[k / 6]; e += 6) sum += wrench[e];
        L[k] = sum;
    }
    SYNC();
    EACH(v, nv) {
        const float* const moved = L + 6 * dof_bodyid.data[v];
        float sum = 0.0f;
        for (int c = 0; c < 6; ++c) sum += cdof[6 * v + c] * moved[c];
        sum += qfrc_row_in.data[row + v];
        qfrc_constraint.data[row + v] = sum;
        force[v] = sum;
        x[v] = sum;
    }
    SYNC();
} else {
    EACH(v, nv) {
        force[v] = qfrc_constraint.data[row + v];
        x[v] = response.data[row + v];
    }
}
ROLLED for (int pass = wrench_in.data ? 0 : 1; pass < 2; ++pass) {  // H^-1 J' f; after the cut, M^-1 of all forces
    if (pass == 1) {
        if (!qacc_out.data) {
            EACH(v, nv) response.data[row + v] = x[v];
            return;
        }
        float power = 0.0f;
        EACH(v, nv) power += force[v] * x[v];
        const float made_up = opt_timestep.data[world % opt_timestep.shape[0]] * sum_lanes(power, LANES);
        const float missing = work_in.data[world];
        const float share = made_up > missing ? missing / made_up : 1.0f;
        float* const motion = (motion_out.data ? motion_out.data : qacc_out.data) + row;
        EACH(v, nv) {
            const float qfrc = share * force[v];
            motion[v] = qacc_free_in.data[row + v] + share * x[v];
            qfrc_constraint.data[row + v] = qfrc;
            x[v] = qfrc_smooth_in.data[row + v] + qfrc;
            Ma_out.data[row + v] = x[v];
        }
        if (share < 1.0f) {
            const int njmax = efc_force.shape[1];
            EACH(i, wp::min(nefc_in.data[world], njmax)) efc_force.data[size_t(world) * njmax + i] *= share;
        }
        if (!motion_out.data) return;
    }
    const float* const from = (pass == 0 ? L_in.data : LM_in.data) + size_t(world) * nC;
    const float* const inverse = (pass == 0 ? Dinv_in.data : DinvM_in.data) + row;
    EACH(e, nC) L[e] = from[e];
    EACH(v, nv) Dinv[v] = inverse[v];
    SYNC();
    solve(L, Dinv, x);
}
EACH(v, nv) qacc_out.data[row + v] = x[v];
