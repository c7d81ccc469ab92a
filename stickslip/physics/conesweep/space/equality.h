// Connects and welds. Numbers of a record: impulses per velocity, 6 x 6 (0 to 35); velocity without forces (36); error at the
// start of the step (42); impulse (48), and before a jump (54); where its rows are, with chunks only where it acts (60).
const auto visit_equality = [&](int number, bool goes_on, int task) {
    float* const record = reinterpret_cast<float*>(pairs + (number < nequality ? number : 0) * equality_record);
    const Four where = *reinterpret_cast<const Four*>(record + 60);
    const Mask mask = goes_on && number < nequality ? mask_of(where.y, where.z) : (Mask)0;
    const bool acts = mask != 0;
    if (!MOST_IN_WARP(acts ? 1 : 0)) return;
    const int size = COUNT_BITS(mask) * fours;
    const Four* const z = rows_at(acts ? where : zero, equality_z, 1);
    float d[6] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    if (task == start) {
        UNROLLED
        for (int r = 0; r < 6; ++r) d[r] = acts ? record[48 + r] : 0.0f;
    } else {
        float u[6] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}, moved[6] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
        float done[6] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
#if defined(__CUDA_ARCH__)
        FOR_CHUNKS(mask) for (int n = 0; n < fours; ++n) {
            UNROLLED
            for (int r = 0; r < 6; ++r) {
                const Four s = z[r * size + at + n];
                add_dot(u[r], s, y[k * fours + n]);
                if (task != push) continue;
                add_dot(moved[r], s, x[k * fours + n]);
                add_dot(done[r], s, pushed[k * fours + n]);
            }
        }
#else
        multiply_all(z, size, mask, y, u);
        if (task == push) {
            multiply_all(z, size, mask, x, moved);
            multiply_all(z, size, mask, pushed, done);
        }
#endif
        add_lanes(u);
        if (task == push) {
            add_lanes(moved);
            add_lanes(done);
        }
        const Four* const four = reinterpret_cast<const Four*>(record);
        const Four s[3] = {four[9], four[10], four[11]};  // velocity and error
        UNROLLED
        for (int r = 0; r < 6; ++r) {
            const float speed = part(s[r / 4], r % 4);
            u[r] += speed;
            if (task == push) {
                const float error = part(s[(6 + r) / 4], (6 + r) % 4) + moved[r] + elapsed * speed + h * u[r];
                u[r] = clamp(share * error, -fastest * h, fastest * h) + done[r];
            }
        }
        float f[6];
        UNROLLED
        for (int half = 0; half < 3; ++half) {
            const Four g[3] = {four[3 * half], four[3 * half + 1], four[3 * half + 2]};
            UNROLLED
            for (int e = 0; e < 12; ++e) d[2 * half + e / 6] += part(g[e / 4], e % 4) * u[e % 6];
        }
        UNROLLED
        for (int r = 0; r < 6; ++r) {
            d[r] = acts ? d[r] : 0.0f;
            f[r] = record[48 + r] + d[r];
        }
        SYNC();
        if (acts && task == settle) {
            UNROLLED
            for (int r = 0; r < 6; ++r) record[48 + r] = f[r];
        }
    }
#if defined(__CUDA_ARCH__)
    FOR_CHUNKS(mask) for (int n = 0; n < fours; ++n) {
        UNROLLED
        for (int r = 0; r < 6; ++r) {
            const Four s = z[r * size + at + n];
            if (task == push) add(pushed[k * fours + n], d[r], s);
            else add(y[k * fours + n], d[r], s);
        }
    }
#else
    apply_all(z, size, mask, d, task == push ? pushed : y);
#endif
};
