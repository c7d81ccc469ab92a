// Body of the native function `response` (kernel.py): what the forces of constraints do to one world, by the lanes of one
// warp, or by one thread of a CPU. Before this text kernel.py puts `memory.h` with what that needs.
//
// Arguments: `m` the structure of M, `y` forces on dofs, `x_out` and `motion_out` what one or two factored matrices make
// of them. Where wrenches on bodies are given, forces are summed here, and put into `y`.
float* const L = s;              // a factor; sums of wrenches before
float* const Dinv = L + wp::max(nC, 6 * body_subtreenum.shape[0]);
float* const force = Dinv + nv;  // on dofs
float* const x = force + nv;
if (wrench_in.data) {
    const int nbody = body_subtreenum.shape[0];
    const float* const wrench = reinterpret_cast<const float*>(wrench_in.data) + size_t(world) * 6 * nbody;
    const float* const cdof = reinterpret_cast<const float*>(cdof_in.data) + size_t(world) * 6 * nv;
    const size_t row = size_t(world) * nv;
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
        qfrc_constraint_out.data[row + v] = sum;
        force[v] = qfrc_smooth_in.data[row + v] + sum;
        y.data[row + v] = force[v];
    }
} else {
    EACH(v, nv) force[v] = y.data[size_t(world) * nv + v];
}
SYNC();
for (int pass = 0; pass < (L2_in.data ? 2 : 1); ++pass) {
    const float* const from = (pass == 0 ? L_in.data : L2_in.data) + size_t(world) * nC;
    const float* const inverse = (pass == 0 ? Dinv_in.data : Dinv2_in.data) + size_t(world) * nv;
    float* const to = (pass == 0 ? x_out.data : motion_out.data) + size_t(world) * nv;
    EACH(e, nC) L[e] = from[e];
    EACH(v, nv) {
        Dinv[v] = inverse[v];
        x[v] = force[v];
    }
    SYNC();
    solve(L, Dinv, x);
    EACH(v, nv) to[v] = x[v];
    SYNC();
}
