// The order: the warm start acts; then for each substep its sweeps with their passes, and one that takes out depth. Passes go in
// one order: forth and back, the contact where they turn is resolved twice in a row. Where bodies that move by themselves
// touch each other there are more passes, forth and back: what a stack carries has to go up and down.

// Marks all forces (gain 0), or lets them go on by `gain` times their change since then.
const auto mark_forces = [&](bool acts, float gain) {
    const bool marks = gain == 0.0f;
    const auto mark = [&](float& now, float& kept) {
        if (marks) kept = now;
        else now += gain * (now - kept);
    };
    SYNC();
    for (int n = lane; acts && n < 4 * nblock; n += lanes) {
        float* const record = reinterpret_cast<float*>(blocks + n / 4 * block_record);
        mark(record[n % 4 * 4 + 1], record[36 + n % 4]);
    }
    for (int n = lane; acts && n < 6 * nequality; n += lanes) {
        float* const record = reinterpret_cast<float*>(pairs + n / 6 * equality_record);
        mark(record[48 + n % 6], record[54 + n % 6]);
    }
    for (int n = lane; acts && n < num; n += lanes) {
        float* const record = reinterpret_cast<float*>(touches + n * contact_record);
        UNROLLED
        for (int c = 0; c < 3; ++c) {
            mark(record[12 + c], record[16 + c]);
            if (rough) mark(record[32 + c], record[36 + c]);
        }
    }
    SYNC();
};

const int most_sweeps = MOST_IN_WARP(substeps) * sweeps, most_passes = MOST_IN_WARP(passes);
const int most_blocks = MOST_IN_WARP(nblock), most_equalities = MOST_IN_WARP(nequality), most_contacts = MOST_IN_WARP(num);
const int nsweep = substeps * sweeps;
const bool is_stacked = space.stacked.data[worldid] != 0;
// the warm start
ROLLED
for (int e = 0; has_rows && e < most_blocks; ++e) {
    Block b;
    fetch_block(b, e, true);
    float d[4];
    UNROLLED
    for (int r = 0; r < 4; ++r) d[r] = b.acts ? b.a[r].y : 0.0f;
    apply(b.kept, b.z, b.size, b.mask, 4, d, y);
}
ROLLED
for (int e = 0; has_equalities && e < most_equalities; ++e) visit_equality(e, true, start);
ROLLED
for (int e = 0; e < most_contacts; ++e) {
    Touch t;
    fetch_contact(t, e, true);
    const float forces[6] = {t.f.x, t.f.y, t.f.z, t.turns ? t.old.x : 0.0f, t.turns ? t.old.y : 0.0f, t.turns ? t.old.z : 0.0f};
    float d[contact_rows];
    UNROLLED
    for (int r = 0; r < contact_rows; ++r) d[r] = t.acts ? forces[r] : 0.0f;
    apply(t.kept, t.z, t.size, t.mask, t.dim, d, y);
}
const bool any = most_blocks + most_equalities + most_contacts > 0;
ROLLED
for (int n = 0; any && n < most_sweeps; ++n) {
    const bool is_second = n % 2 == 1;
    const bool may_jump = jump > 0.0f && n / 2 * 2 + 2 < nsweep;
    if (jump > 0.0f) {
        UNROLLED
        for (int e = 0; e < own; ++e) {
            if (is_second) y1[e] = y[e];
            else y0[e] = y[e];
        }
        if (is_second) mark_forces(may_jump, 0.0f);
    }
    ROLLED
    for (int run = 0; run < most_passes; ++run) {
        const bool is_first = run == 0 && n % sweeps == 0;
        const bool goes_on = n < nsweep && run < passes;
        ROLLED
        for (int e = 0; has_rows && e < most_blocks; ++e) {
            Block b;
            fetch_block(b, e, goes_on);
            settle_block(b, is_first);
        }
        ROLLED
        for (int e = 0; has_equalities && e < most_equalities; ++e) visit_equality(e, goes_on, settle);
        ROLLED
        for (int e = 0; e < most_contacts; ++e) {
            Touch t;
            fetch_contact(t, is_stacked && run % 2 == 1 ? num - 1 - e : e, goes_on && e < num);
            settle_contact(t, is_first);
        }
    }
    if (is_second && jump > 0.0f) {
        // Aitken: where two sweeps change a world in the same way, go to where all further ones would lead
        float sums[3] = {0.0f, 0.0f, 0.0f};
        UNROLLED
        for (int e = 0; e < own; ++e) {
            Four p = y1[e], q = y[e];
            add(p, -1.0f, y0[e]);
            add(q, -1.0f, y1[e]);
            sums[0] += dot(p, p);
            sums[1] += dot(p, q);
            sums[2] += dot(q, q);
        }
        add_lanes(sums);
        const float cosine = sums[1] * sums[1] / most_of(sums[0] * sums[2], 1.0e-30f);
        const float ratio = sums[1] / most_of(sums[0], 1.0e-30f);
        const bool jumps = may_jump && sums[1] > 0.0f && cosine > alike && ratio < 1.0f;
        const float gain = jumps ? least_of(least_of(ratio / (1.0f - ratio), jump), astray / most_of(1.0f - cosine, 1.0e-6f)) : 0.0f;
        UNROLLED
        for (int e = 0; e < own; ++e) {
            Four q = y[e];
            add(q, -1.0f, y1[e]);
            add(y[e], gain, q);
        }
        mark_forces(jumps, gain);
    }
    if ((n + 1) % sweeps != 0) continue;
    const bool goes_on = n < nsweep;
    ROLLED
    for (int e = 0; has_rows && e < most_blocks; ++e) push_block(e, goes_on);
    ROLLED
    for (int e = 0; has_equalities && e < most_equalities; ++e) visit_equality(e, goes_on, push);
    ROLLED
    for (int e = 0; e < most_contacts; ++e) push_contact(e, goes_on);
    UNROLLED
    for (int e = 0; e < own; ++e) {
        add(x[e], goes_on ? h : 0.0f, y[e]);
        add(x[e], 1.0f, pushed[e]);
        pushed[e] = zero;
    }
    elapsed += h;
}
