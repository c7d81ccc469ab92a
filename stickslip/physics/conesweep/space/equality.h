// Connects and welds. Numbers of a record: impulses per velocity, 6 x 6 (0 to 35); velocity without forces (36); error at the
// start of the step (42); impulse (48), and before a jump (54); where the rows are in shared memory (60).
const auto visit_equality = [&](int number, bool goes_on, int task) {
    const bool acts = goes_on && number < nequality && equality_active[number] > 0;
    if (!MOST_IN_WARP(acts ? 1 : 0)) return;
    float* const record = reinterpret_cast<float*>(pairs + (acts ? number : 0) * equality_record);
    const Mask mask = acts ? equality_mask(number) : (Mask)0;
    const int size = COUNT_BITS(mask) * fours;
    const Four* const z = rows_at(acts ? bits(record[60]) : 0, equality_z + (acts ? space.equality_adr.data[number] : 0));
    float d[6] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    if (task == start) {
        UNROLLED
        for (int r = 0; r < 6; ++r) d[r] = acts ? record[48 + r] : 0.0f;
    } else {
        float u[6] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}, moved[6] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
        float done[6] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
        FOR_CHUNKS(mask) for (int n = 0; n < fours; ++n) {
            UNROLLED
            for (int r = 0; r < 6; ++r) {
                const Four s = z[r * size + at + n];
                u[r] += dot(s, y[k * fours + n]);
                if (task != push) continue;
                moved[r] += dot(s, x[k * fours + n]);
                done[r] += dot(s, pushed[k * fours + n]);
            }
        }
        add_lanes(u);
        if (task == push) {
            add_lanes(moved);
            add_lanes(done);
        }
        UNROLLED
        for (int r = 0; acts && r < 6; ++r) {
            const float speed = record[36 + r];
            u[r] += speed;
            if (task == push) {
                const float error = record[42 + r] + moved[r] + elapsed * speed + h * u[r];
                u[r] = clamp(share * error, -fastest * h, fastest * h) + done[r];
            }
        }
        float f[6];
        UNROLLED
        for (int r = 0; acts && r < 6; ++r) {
            UNROLLED
            for (int c = 0; c < 6; ++c) d[r] += record[6 * r + c] * u[c];
            f[r] = record[48 + r] + d[r];
        }
        SYNC();
        UNROLLED
        for (int r = 0; acts && task == settle && r < 6; ++r) record[48 + r] = f[r];
    }
    FOR_CHUNKS(mask) for (int n = 0; n < fours; ++n) {
        UNROLLED
        for (int r = 0; r < 6; ++r) {
            const Four s = z[r * size + at + n];
            if (task == push) add(pushed[k * fours + n], d[r], s);
            else add(y[k * fours + n], d[r], s);
        }
    }
};
