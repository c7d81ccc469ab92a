// Body of the native function `sweep` (sweep.py): all sweeps of one world in contact space.
//
// The state of a world is y, the impulses of all rows in the coordinates of `build.h`: a row r has the velocity
// u_r + z_r . y, and an impulse d along it adds d z_r to y. x is the displacement at the start of the substep in the
// same coordinates, `pushed` what takes out depth during the substep. Each lane holds the chunks of these whose number is its own modulo the number of lanes; so nothing but the sums of products
// goes from lane to lane. All lanes compute the same forces, and all of them write these.
//
// Why C++: y and x stay in registers, in arrays that unrolled loops index.
//
// Before this text sweep.py puts the constants: chunks (of a lane), fours (of a chunk), contact_rows, contact_record,
// row_record, rough, slop, growth, deep, fastest, least, tiny, alike, astray, the kinds of rows.
#if defined(__CUDA_ARCH__)
const unsigned group = nlane < 32 ? ((1u << nlane) - 1u) << (threadIdx.x & 31 & ~(nlane - 1)) : 0xffffffffu;
#define COUNT_BITS(m) __popcll(m)
#define ADD_LANES(v) for (int o = nlane / 2; o > 0; o /= 2) v += __shfl_xor_sync(group, v, o)
#define ALL_READ() __syncwarp(group)
#define ROOT(a) rsqrtf(a)
#else
#define COUNT_BITS(m) __builtin_popcountll(m)
#define ADD_LANES(v)
#define ALL_READ()
#define ROOT(a) (1.0f / wp::sqrt(a))
#endif
typedef unsigned long long Mask;
struct alignas(16) Four { float x, y, z, w; };
const auto dot = [](const Four& a, const Four& b) { return (a.x * b.x + a.y * b.y) + (a.z * b.z + a.w * b.w); };
const auto add = [](Four& a, float s, const Four& b) { a.x += s * b.x; a.y += s * b.y; a.z += s * b.z; a.w += s * b.w; };
const auto bits = [](float value) { union { float f; int i; } u; u.f = value; return u.i; };
const auto mask_of = [&](float low, float high) { return (Mask)(unsigned)bits(low) | (Mask)(unsigned)bits(high) << 32; };
const auto clamp = [](float v, float a, float b) { return v < a ? a : v > b ? b : v; };
const auto least_of = [](float a, float b) { return a < b ? a : b; };
const auto most_of = [](float a, float b) { return a > b ? a : b; };
Four y[chunks * fours], x[chunks * fours], pushed[chunks * fours], y0[chunks * fours], y1[chunks * fours];
for (int k = 0; k < chunks * fours; ++k) y[k] = x[k] = pushed[k] = y0[k] = y1[k] = Four{0.0f, 0.0f, 0.0f, 0.0f};

// For each own chunk k of a row: f(k, place of the chunk among those of the mask).
#if defined(__CUDA_ARCH__)
#define FOR_CHUNKS(mask)                                                                   \
    _Pragma("unroll") for (int k = 0, chunk = lane; k < chunks; ++k, chunk += nlane)       \
        if (chunk < 64 && (mask >> chunk & 1ull))                                          \
            for (int at = COUNT_BITS(mask & ((1ull << chunk) - 1ull)) * fours, once = 1; once; once = 0)
#else
#define FOR_CHUNKS(mask) \
    for (int k = 0, at = 0; k < chunks && (mask) >> k; ++k) \
        if ((mask) >> k & 1ull) for (int once = 1; once; once = 0, at += fours)
#endif

const int nrow = rows.n, nactive = space.nactive.data[worldid];
const int nblock = (nactive + 3) / 4;
Four* const row_records = reinterpret_cast<Four*>(space.row.data) + (size_t)worldid * nrow * row_record;
const Four* const row_z = reinterpret_cast<const Four*>(space.row_z.data) + (size_t)worldid * space.row_size;
const int nequality = equalities.n;
const Four* const equality_z = reinterpret_cast<const Four*>(space.equality_z.data) + (size_t)worldid * space.equality_size;
const float* const equality_speed = space.equality_speed.data + (size_t)worldid * nequality * 6;
const float* const equality_K = reinterpret_cast<const float*>(equalities.K.data) + (size_t)worldid * nequality * 36;
const float* const equality_error = reinterpret_cast<const float*>(equalities.error.data) + (size_t)worldid * nequality * 6;
float* const equality_f = reinterpret_cast<float*>(equalities.f.data) + (size_t)worldid * nequality * 6;
float* const equality_mark = reinterpret_cast<float*>(equalities.f_mark.data) + (size_t)worldid * nequality * 6;
const int* const equality_active = equalities.active.data + (size_t)worldid * nequality;
const int adr = work.adr.data[worldid], num = work.num.data[worldid];
Four* const contact_records = reinterpret_cast<Four*>(space.contact.data) + (size_t)adr * contact_record;
const Four* const contact_z = reinterpret_cast<const Four*>(space.contact_z.data);
const int contact_size = contact_rows * space.contact_fours;

float elapsed = 0.0f;  // since the start of the step
const float per_h = 1.0f / h;

// x with K x = -u in the last `active` directions, one after the other, except those without compliance
const auto cancel = [&](const float* K, const float* u, int active, float* out) {
    float left[6];
    for (int i = 0; i < 6; ++i) {
        left[i] = u[i];
        out[i] = 0.0f;
    }
    for (int run = 0; run < inner; ++run)
        for (int i = 6 - active; i < 6; ++i) {
            if (K[7 * i] <= tiny) continue;
            const float change = -left[i] / K[7 * i];
            out[i] += change;
            for (int j = 0; j < 6; ++j) left[j] += K[6 * j + i] * change;
        }
};

// the nearest point of the cone over tangents, spin and rolling: see cone.py
const auto project = [&](float* f, float normal, int dim, const float* mu, const float* gain) {
    float size = 0.0f;
    for (int i = 0; i < dim - 1; ++i) {
        const float g = f[i] / most_of(mu[i], least);
        size += g * g;
    }
    if (normal <= 0.0f || dim == 1) {
        for (int i = 0; i < 5; ++i) f[i] = 0.0f;
        return;
    }
    if (size <= normal * normal) return;
    if (dim == 3 && mu[0] == mu[1]) {
        const float scale = normal / wp::sqrt(size);
        f[0] *= scale;
        f[1] *= scale;
        return;
    }
    float part[5], rate[5];
    for (int i = 0; i < dim - 1; ++i) {
        const float m = most_of(mu[i], least);
        rate[i] = gain[i < 2 ? 0 : i - 1 > 2 ? 2 : i - 1] / (m * m);
        part[i] = f[i] * f[i] / (m * m);
    }
    float nu = 0.0f, total = 0.0f;
    for (int iteration = 0; iteration < 8; ++iteration) {
        total = 0.0f;
        float slope = 0.0f;
        for (int i = 0; i < dim - 1; ++i) {
            const float d = 1.0f / (1.0f + nu * rate[i]), g = part[i] * d * d;
            total += g;
            slope += g * d * rate[i];
        }
        size = wp::sqrt(total);
        if (wp::abs(size - normal) < near * normal) break;
        nu = most_of(0.0f, nu + (1.0f / normal - 1.0f / size) * total * size / most_of(slope, 1.0e-30f));
    }
    const float scale = least_of(1.0f, normal / wp::sqrt(most_of(total, 1.0e-30f)));
    for (int i = 0; i < dim - 1; ++i) f[i] *= scale / (1.0f + nu * rate[i]);
};

// up to four rows on dofs; `is_start`: their forces act for the first time
const auto visit_rows = [&](int block, bool is_start, bool is_last) {
    Four* const record = row_records + 4 * block * row_record;
    const int count = least_of(nactive - 4 * block, 4);
    Four a[4], b[4], c[4];
    Mask mask[4];
    float u[4] = {0.0f, 0.0f, 0.0f, 0.0f}, moved[4] = {0.0f, 0.0f, 0.0f, 0.0f}, done[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    float d[4] = {0.0f, 0.0f, 0.0f, 0.0f}, push[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    bool looks = false;  // at positions
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        mask[r] = 0;
        a[r] = b[r] = c[r] = Four{0.0f, 0.0f, 0.0f, 0.0f};
        if (r >= count) continue;
        a[r] = record[r * row_record];
        b[r] = record[r * row_record + 1];
        c[r] = record[r * row_record + 2];
        const Four e = record[r * row_record + 3];
        mask[r] = mask_of(e.x, e.y);
        looks = looks || bits(b[r].w) != friction;
    }
    if (is_start) {
        #pragma unroll
        for (int r = 0; r < 4; ++r) d[r] = b[r].y;
    } else {
        #pragma unroll
        for (int r = 0; r < 4; ++r) {
            const Four* const z = row_z + bits(c[r].w);
            FOR_CHUNKS(mask[r]) for (int m = 0; m < fours; ++m) {
                u[r] += dot(z[at + m], y[k * fours + m]);
                if (looks) moved[r] += dot(z[at + m], x[k * fours + m]);
                if (looks && is_last) done[r] += dot(z[at + m], pushed[k * fours + m]);
            }
        }
        #pragma unroll
        for (int r = 0; r < 4; ++r) ADD_LANES(u[r]);
        if (looks) {
            #pragma unroll
            for (int r = 0; r < 4; ++r) ADD_LANES(moved[r]);
            if (is_last) {
                #pragma unroll
                for (int r = 0; r < 4; ++r) ADD_LANES(done[r]);
            }
        }
        ALL_READ();
        #pragma unroll
        for (int r = 0; r < 4; ++r) {
            const float coupling[3] = {c[r].x, c[r].y, c[r].z};
            u[r] += a[r].x;
            moved[r] += a[r].y + elapsed * a[r].x;
            #pragma unroll
            for (int q = 0; q < r; ++q) u[r] += coupling[q] * d[q];
            if (b[r].x <= 0.0f) continue;
            float target = 0.0f;
            if (bits(b[r].w) == limit && moved[r] > 0.0f) target = -moved[r] * per_h;
            const float now = clamp(b[r].y - (u[r] - target) / b[r].x, a[r].z, a[r].w);
            d[r] = now - b[r].y;
            u[r] += b[r].x * d[r];
            #pragma unroll
            for (int q = 0; q < r; ++q) u[q] += coupling[q] * d[r];
            b[r].y = now;
            record[r * row_record + 1] = b[r];
        }
        if (is_last && looks) {
            #pragma unroll
            for (int r = 0; r < 4; ++r) {
                const float coupling[3] = {c[r].x, c[r].y, c[r].z};
                if (b[r].x <= 0.0f || bits(b[r].w) == friction) continue;
                #pragma unroll
                for (int q = 0; q < r; ++q) done[r] += coupling[q] * push[q];
                const bool is_limit = bits(b[r].w) == limit;
                const float error = moved[r] + h * u[r] + (is_limit ? slop : 0.0f);
                const float wanted = clamp(-share * error, -fastest * h, fastest * h) - done[r];
                if (is_limit && (error >= 0.0f || wanted <= 0.0f)) continue;
                push[r] = wanted / b[r].x;
            }
        }
    }
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        const Four* const z = row_z + bits(c[r].w);
        if (d[r] != 0.0f) FOR_CHUNKS(mask[r]) for (int m = 0; m < fours; ++m) add(y[k * fours + m], d[r], z[at + m]);
        if (push[r] != 0.0f) FOR_CHUNKS(mask[r]) for (int m = 0; m < fours; ++m) add(pushed[k * fours + m], push[r], z[at + m]);
    }
};

const auto visit_equality = [&](int n, bool is_start, bool is_last) {
    const int active = equality_active[n];
    if (active == 0) return;
    const Mask mask = space.equality_mask.data[n];
    const int size = COUNT_BITS(mask) * fours;
    const Four* const z = equality_z + space.equality_adr.data[n];
    const float* const K = equality_K + 36 * n;
    float d[6], push[6] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    if (is_start) {
        for (int r = 0; r < 6; ++r) d[r] = dt * equality_f[6 * n + r];
    } else {
        float u[6] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}, moved[6] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
        float done[6] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
        FOR_CHUNKS(mask) for (int m = 0; m < fours; ++m) {
            #pragma unroll
            for (int r = 0; r < 6; ++r) {
                u[r] += dot(z[r * size + at + m], y[k * fours + m]);
                if (is_last) moved[r] += dot(z[r * size + at + m], x[k * fours + m]);
                if (is_last) done[r] += dot(z[r * size + at + m], pushed[k * fours + m]);
            }
        }
        float f[6];
        #pragma unroll
        for (int r = 0; r < 6; ++r) {
            ADD_LANES(u[r]);
            if (is_last) {
                ADD_LANES(moved[r]);
                ADD_LANES(done[r]);
            }
            u[r] += equality_speed[6 * n + r];
            f[r] = equality_f[6 * n + r];
        }
        cancel(K, u, active, d);
        ALL_READ();
        for (int r = 0; r < 6; ++r) equality_f[6 * n + r] = f[r] + d[r] / dt;
        if (is_last) {
            float error[6];
            for (int r = 0; r < 6; ++r) {
                float speed = u[r];
                for (int c = 0; c < 6; ++c) speed += K[6 * r + c] * d[c];
                error[r] = equality_error[6 * n + r] + moved[r] + elapsed * equality_speed[6 * n + r] + h * speed;
                error[r] = clamp(share * error[r], -fastest * h, fastest * h) + done[r];
            }
            cancel(K, error, active, push);
        }
    }
    FOR_CHUNKS(mask) for (int m = 0; m < fours; ++m) {
        #pragma unroll
        for (int r = 0; r < 6; ++r) {
            add(y[k * fours + m], d[r], z[r * size + at + m]);
            add(pushed[k * fours + m], push[r], z[r * size + at + m]);
        }
    }
};

const auto visit_contact = [&](int n, bool is_start, bool is_last) {
    Four* const record = contact_records + n * contact_record;
    const Four a = record[0], b = record[1], c = record[2];
    Four f = record[3];
    const Mask mask = mask_of(f.w, record[4].w);
    const int size = COUNT_BITS(mask) * fours;
    const Four* const z = contact_z + (size_t)bits(c.w) * contact_size;
    const float mu = c.z;
    const bool slides = mu > 0.0f;
    const bool turns = rough && mu < 0.0f;
    float d[6] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}, push = 0.0f;
    int dim = slides ? 3 : 1;
    if (turns) dim = bits(record[7].w);
    if (is_start) {
        d[0] = f.x;
        d[1] = f.y;
        d[2] = f.z;
        if (turns) {
            const Four g = record[7];
            d[3] = g.x;
            d[4] = g.y;
            d[5] = g.z;
        }
    } else {
        float u[6] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}, moved = 0.0f, done = 0.0f;
        FOR_CHUNKS(mask) for (int m = 0; m < fours; ++m) {
            const Four v = y[k * fours + m];
            const Four first = z[at + m];
            u[0] += dot(first, v);
            moved += dot(first, x[k * fours + m]);
            if (is_last) done += dot(first, pushed[k * fours + m]);
            if (slides || turns) {
                u[1] += dot(z[size + at + m], v);
                u[2] += dot(z[2 * size + at + m], v);
            }
            if (turns)
                for (int r = 3; r < dim; ++r) u[r] += dot(z[r * size + at + m], v);
        }
        ADD_LANES(u[0]);
        ADD_LANES(u[1]);
        ADD_LANES(u[2]);
        ADD_LANES(moved);
        if (is_last) ADD_LANES(done);
        if (turns)
            for (int r = 3; r < 6; ++r) ADD_LANES(u[r]);
        ALL_READ();
        const float distance = a.w + moved + elapsed * a.x;
        // normal: may not close faster than the gap allows
        float target = least_of(-distance * per_h, 0.0f);
        if (b.w != 0.0f && (b.w < 0.0f || distance <= h * b.w)) {
            target = restitution * wp::abs(b.w);
            record[1].w = -wp::abs(b.w);
        }
        const float normal = most_of(0.0f, f.x - (u[0] + a.x - target) * c.x);
        d[0] = normal - f.x;
        // friction: against the slip, within the cone
        if (slides) {
            float t1 = f.y - (u[1] + a.y + b.y * d[0]) * c.y, t2 = f.z - (u[2] + a.z + b.z * d[0]) * c.y;
            const float size2 = t1 * t1 + t2 * t2, bound = mu * normal;
            if (size2 > bound * bound) {
                const float scale = bound * ROOT(size2);
                t1 *= scale;
                t2 *= scale;
            }
            d[1] = t1 - f.y;
            d[2] = t2 - f.z;
        } else if (turns) {
            const Four e = record[5], g = record[6], old = record[7], m0 = record[9], m1 = record[10];
            const float gain[3] = {c.y, e.w, g.w};
            const float coefficient[5] = {m0.x, m0.y, m0.z, m0.w, m1.x};
            const float before[5] = {f.y, f.z, old.x, old.y, old.z};
            const float slip[5] = {u[1] + a.y + b.y * d[0] + m1.y, u[2] + a.z + b.z * d[0] + m1.z,
                                   u[3] + e.x + g.x * d[0] + m1.w, u[4] + e.y + g.y * d[0], u[5] + e.z + g.z * d[0]};
            float t[5] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
            for (int i = 0; i < dim - 1; ++i) t[i] = before[i] - slip[i] * gain[i < 2 ? 0 : i - 1 > 2 ? 2 : i - 1];
            project(t, normal, dim, coefficient, gain);
            for (int i = 0; i < 5; ++i) d[i + 1] = t[i] - before[i];
            record[7] = Four{t[2], t[3], t[4], old.w};
        }
        if (is_last) {  // depth is taken out by a displacement of its own, which leaves no velocity behind
            float speed = u[0] + a.x + b.x * d[0] + b.y * d[1] + b.z * d[2];
            if (turns) {
                const Four g = record[6];
                speed += g.x * d[3] + g.y * d[4] + g.z * d[5];
            }
            const float depth = -(distance + h * speed + slop);
            if (depth > 0.0f) {
                const float wanted = least_of(share * depth * (1.0f + growth * depth / (depth + deep)), fastest * h);
                push = most_of(wanted - done, 0.0f) * c.x;
            }
        }
        f.x = normal;
        f.y += d[1];
        f.z += d[2];
        record[3] = f;
    }
    FOR_CHUNKS(mask) for (int m = 0; m < fours; ++m) {
        const Four first = z[at + m];
        add(y[k * fours + m], d[0], first);
        add(pushed[k * fours + m], push, first);
        if (slides || turns) {
            add(y[k * fours + m], d[1], z[size + at + m]);
            add(y[k * fours + m], d[2], z[2 * size + at + m]);
        }
        if (turns)
            for (int r = 3; r < dim; ++r) add(y[k * fours + m], d[r], z[r * size + at + m]);
    }
};

const auto visit_all = [&](bool is_start, bool is_back, bool is_last) {
    for (int n = 0; n < nblock; ++n) visit_rows(is_back ? nblock - 1 - n : n, is_start, is_last);
    for (int n = 0; n < nequality; ++n) visit_equality(is_back ? nequality - 1 - n : n, is_start, is_last);
    for (int n = 0; n < num; ++n) visit_contact(is_back ? num - 1 - n : n, is_start, is_last);
};

// once all lanes have read what is about to change
const auto mark_forces = [&](float gain) {  // 0: mark; else go on by so much of the change since the mark
    const bool marks = gain == 0.0f;
    ALL_READ();
    for (int n = lane; n < nactive; n += nlane) {
        Four* const b = row_records + n * row_record + 1;
        if (marks) b->z = b->y;
        else b->y += gain * (b->y - b->z);
    }
    for (int n = lane; n < 6 * nequality; n += nlane) {
        if (marks) equality_mark[n] = equality_f[n];
        else equality_f[n] += gain * (equality_f[n] - equality_mark[n]);
    }
    for (int n = lane; n < num; n += nlane) {
        for (int part = 0; part < (rough ? 2 : 1); ++part) {
            Four* const f = contact_records + n * contact_record + (part ? 7 : 3);
            if (marks) {
                f[1].x = f->x;
                f[1].y = f->y;
                f[1].z = f->z;
            } else {
                f->x += gain * (f->x - f[1].x);
                f->y += gain * (f->y - f[1].y);
                f->z += gain * (f->z - f[1].z);
            }
        }
    }
    ALL_READ();
};

if (nactive + nequality + num > 0) {
    visit_all(true, false, false);
    const int nsweep = substeps * sweeps;
    for (int n = 0; n < nsweep; ++n) {
        const bool is_end = (n + 1) % sweeps == 0, is_second = n % 2 == 1;
        const bool may_jump = jump > 0.0f && n / 2 * 2 + 2 < nsweep;
        if (may_jump) {
            for (int k = 0; k < chunks * fours; ++k) (is_second ? y1 : y0)[k] = y[k];
            if (is_second) mark_forces(0.0f);
        }
        for (int run = 0; run < passes; ++run) visit_all(false, run % 2 == 1, is_end && run == passes - 1);
        if (may_jump && is_second) {  // Aitken: where two sweeps change the same way, go to where all further would lead
            float first = 0.0f, both = 0.0f, second = 0.0f;
            for (int k = 0; k < chunks * fours; ++k) {
                Four p = y1[k], q = y[k];
                add(p, -1.0f, y0[k]);
                add(q, -1.0f, y1[k]);
                first += dot(p, p);
                both += dot(p, q);
                second += dot(q, q);
            }
            ADD_LANES(first);
            ADD_LANES(both);
            ADD_LANES(second);
            float gain = 0.0f;
            const float cosine = both * both / most_of(first * second, 1.0e-30f);
            if (both > 0.0f && cosine > alike && both < first) {
                const float ratio = both / first;
                gain = least_of(ratio / (1.0f - ratio), jump);
                gain = least_of(gain, astray / most_of(1.0f - cosine, 1.0e-6f));
            }
            if (gain > 0.0f) {
                for (int k = 0; k < chunks * fours; ++k) {
                    Four q = y[k];
                    add(q, -1.0f, y1[k]);
                    add(y[k], gain, q);
                }
                mark_forces(gain);
            }
        }
        if (is_end) {
            for (int k = 0; k < chunks * fours; ++k) {
                add(x[k], h, y[k]);
                add(x[k], 1.0f, pushed[k]);
                pushed[k] = Four{0.0f, 0.0f, 0.0f, 0.0f};
            }
            elapsed += h;
        }
    }
}
ALL_READ();
for (int n = lane; n < nactive; n += nlane)
    rows.f.data[(size_t)worldid * nrow + space.active.data[(size_t)worldid * nrow + n]]
        = row_records[n * row_record + 1].y / dt;
for (int n = lane; n < num; n += nlane) {
    const Four* const record = contact_records + n * contact_record;
    Four* const f = reinterpret_cast<Four*>(work.f.data) + force_rows * (adr + n);
    f[0] = Four{record[3].x / dt, record[3].y / dt, record[3].z / dt, 0.0f};
    if (rough) f[1] = Four{record[7].x / dt, record[7].y / dt, record[7].z / dt, 0.0f};
}
Four* const y_out = reinterpret_cast<Four*>(space.y.data) + (size_t)worldid * space.nchunk * fours;
Four* const x_out = reinterpret_cast<Four*>(space.x.data) + (size_t)worldid * space.nchunk * fours;
for (int k = 0, chunk = lane; k < chunks; ++k, chunk += nlane) {
    if (chunk >= space.nchunk) continue;
    for (int m = 0; m < fours; ++m) {
        y_out[chunk * fours + m] = y[k * fours + m];
        x_out[chunk * fours + m] = x[k * fours + m];
    }
}
#undef COUNT_BITS
#undef ADD_LANES
#undef ALL_READ
#undef ROOT
#undef FOR_CHUNKS
