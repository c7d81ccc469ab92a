// Contacts; see `layout.py` for their records.
struct Touch {
    Four* record;
    Four a, b, c, f;
    Four e, g, old, m0, m1;  // of spin and rolling
    const Four* z;
    int size, dim;
    Mask mask;
    bool acts, slides, turns;
    Four kept[contact_rows][is_kept ? own : 1];
};
const auto fetch_contact = [&](Touch& t, int n, bool goes_on) {
    t.acts = goes_on && n < num;
    t.record = t.acts ? touches + n * contact_record : idle_contact;
    t.a = t.record[0];
    t.b = t.record[1];
    t.c = t.record[2];
    t.f = t.record[3];
    const Four where = t.record[5];
    t.mask = t.acts ? mask_at(where) : (Mask)0;
    t.size = COUNT_BITS(t.mask) * fours;
    t.turns = rough && t.acts && t.c.z < 0.0f;
    t.slides = t.c.z > 0.0f || t.turns;
    t.dim = dim_of(t.record);
    if (rough) {
        t.e = t.record[6];
        t.g = t.record[7];
        t.old = t.record[8];
        t.m0 = t.record[10];
        t.m1 = t.record[11];
    }
    t.z = rows_at(where, contact_z, contact_size);
    fetch(t.kept, t.z, t.size, t.mask, t.dim);
};

// Spin and rolling: the nearest point of the cone over tangents, spin and rolling, see cone.py. Newton's method goes on
// from the last visit. `grip` is one over the coefficients of friction.
const auto turn = [&](const Touch& touch, const float* slip, float normal, float* d) {
    constexpr int most = contact_rows - 1;
    const float gain[5] = {touch.c.y, touch.c.y, touch.e.w, touch.g.w, touch.g.w};
    const float grip[5] = {touch.m0.x, touch.m0.y, touch.m0.z, touch.m0.w, touch.m1.x};
    const float before[5] = {touch.f.y, touch.f.z, touch.old.x, touch.old.y, touch.old.z};
    const float surface[5] = {touch.m1.y, touch.m1.z, touch.m1.w, 0.0f, 0.0f};
    float t[5], part_of[5], size = 0.0f;
    UNROLLED
    for (int i = 0; i < most; ++i) {
        t[i] = i < touch.dim - 1 ? before[i] - (slip[i] + surface[i]) * gain[i] : 0.0f;
        part_of[i] = t[i] * t[i] * grip[i] * grip[i];
        size += part_of[i];
    }
    if (normal <= 0.0f) {
        UNROLLED
        for (int i = 0; i < most; ++i) t[i] = 0.0f;
    } else if (size > normal * normal) {
        if (touch.dim == 3 && grip[0] == grip[1]) {
            const float scale = normal * ROOT(size);
            t[0] *= scale;
            t[1] *= scale;
        } else {
            float nu = touch.record[2].w, total = 0.0f;
            const float per_normal = DIVIDE(1.0f, normal);
            for (int iteration = 0; iteration < newton; ++iteration) {
                float slope = 0.0f;
                total = 0.0f;
                UNROLLED
                for (int i = 0; i < most; ++i) {
                    const float rate = gain[i] * grip[i] * grip[i], shrink = DIVIDE(1.0f, 1.0f + nu * rate);
                    const float share_of_it = part_of[i] * shrink * shrink;
                    total += share_of_it;
                    slope += share_of_it * shrink * rate;
                }
                const float inverse = ROOT(most_of(total, 1.0e-30f));
                if (wp::abs(1.0f - normal * inverse) < close) break;
                nu = most_of(0.0f, nu + DIVIDE((per_normal - inverse) * total, most_of(slope * inverse, 1.0e-30f)));
            }
            touch.record[2].w = nu;
            const float scale = least_of(1.0f, normal * ROOT(most_of(total, 1.0e-30f)));
            UNROLLED
            for (int i = 0; i < most; ++i) t[i] *= DIVIDE(scale, 1.0f + nu * gain[i] * grip[i] * grip[i]);
        }
    }
    UNROLLED
    for (int i = 0; i < most; ++i) d[i + 1] = t[i] - before[i];
    const float spin = t[contact_rows > 3 ? 2 : 0];
    constexpr int i3 = contact_rows > 4 ? 3 : 0, i4 = contact_rows > 4 ? 4 : 0;
    touch.record[8] = Four{spin, contact_rows > 4 ? t[i3] : 0.0f, contact_rows > 4 ? t[i4] : 0.0f, touch.old.w};
};

const auto settle_contact = [&](Touch& t, bool is_first) {
    float d[contact_rows], u[contact_rows];
    UNROLLED
    for (int r = 0; r < contact_rows; ++r) d[r] = u[r] = 0.0f;
    multiply(t.kept, t.z, t.size, t.mask, t.dim, y, u);
    add_lanes(u);
    if (is_first) {
        float moved[1] = {0.0f};
        multiply(t.kept, t.z, t.size, t.mask, 1, x, moved);
        add_lanes(moved);
        t.a.w = t.f.w + elapsed * t.a.x + moved[0];
        if (t.acts) t.record[0].w = t.a.w;
    }
    SYNC();
    // normal: may not close faster than the gap allows
    float target = least_of(-t.a.w * per_h, 0.0f);
    if (t.acts && t.b.w != 0.0f && (t.b.w < 0.0f || t.a.w <= h * t.b.w)) {
        target = restitution * wp::abs(t.b.w);
        t.record[1].w = -wp::abs(t.b.w);
    }
    const float normal = most_of(0.0f, t.f.x - (u[0] + t.a.x - target) * t.c.x);
    d[0] = normal - t.f.x;
    // friction: against the slip, within the cone
    const float slip1 = u[1] + t.a.y + t.b.y * d[0], slip2 = u[2] + t.a.z + t.b.z * d[0];
    if (rough && t.turns) {
        constexpr int r3 = contact_rows > 3 ? 3 : 0, r4 = contact_rows > 4 ? 4 : 0, r5 = contact_rows > 5 ? 5 : 0;
        const float slip[5] = {slip1, slip2, u[r3] + t.e.x + t.g.x * d[0], u[r4] + t.e.y + t.g.y * d[0],
                               u[r5] + t.e.z + t.g.z * d[0]};
        turn(t, slip, normal, d);
    } else if (t.slides) {
        float t1 = t.f.y - slip1 * t.c.y, t2 = t.f.z - slip2 * t.c.y;
        const float square = t1 * t1 + t2 * t2, bound = t.c.z * normal;
        if (square > bound * bound) {
            const float scale = bound * ROOT(square);
            t1 *= scale;
            t2 *= scale;
        }
        d[1] = t1 - t.f.y;
        d[2] = t2 - t.f.z;
    }
    if (t.acts) t.record[3] = Four{normal, t.f.y + d[1], t.f.z + d[2], t.f.w};
    UNROLLED
    for (int r = 0; r < contact_rows; ++r) d[r] = t.acts ? d[r] : 0.0f;
    apply(t.kept, t.z, t.size, t.mask, t.dim, d, y);
};
// Depth is taken out by a displacement of its own, which leaves no velocity behind.
const auto push_contact = [&](int n, bool goes_on) {
    const bool acts = goes_on && n < num;
    const Four* const record = acts ? touches + n * contact_record : idle_contact;
    const Four a = record[0], c = record[2];
    const Four where = record[5];
    const Mask mask = acts ? mask_at(where) : (Mask)0;
    const int size = COUNT_BITS(mask) * fours;
    const Four* const z = rows_at(where, contact_z, contact_size);
    Four kept[1][is_kept ? own : 1];
    fetch(kept, z, size, mask, 1);
    float now[1] = {0.0f}, done[1] = {0.0f};
    multiply(kept, z, size, mask, 1, y, now);
    multiply(kept, z, size, mask, 1, pushed, done);
    float u[2] = {now[0], done[0]};
    add_lanes(u);
    const float depth = -(a.w + h * (u[0] + a.x) + slop);
    const float more = 1.0f + growth * DIVIDE(depth, depth + deep);
    const float wanted = least_of(share * depth * more, fastest * h) - u[1];
    const float d[1] = {acts && depth > 0.0f && wanted > 0.0f ? wanted * c.x : 0.0f};
    apply(kept, z, size, mask, 1, d, pushed);
};
