// Body of the native function `sweep` (sweep.py), after `common.h`: all sweeps of one world in contact space.
//
// The state of a world is y, the impulses of all rows in the coordinates of `common.h`: a row r has the velocity
// u_r + z_r . y, and an impulse d along it adds d z_r to y. x is the displacement at the start of the substep in the same
// coordinates, `pushed` what takes out depth at its end. Nothing but sums of products goes from lane to lane; all lanes
// compute the same forces, and all of them write these. `exists`: whether there is such a world.
//
// Why C++: y and x stay in registers, in arrays that unrolled loops index.
Four y[own], x[own], pushed[own], y0[own], y1[own];
UNROLLED
for (int n = 0; n < own; ++n) y[n] = x[n] = pushed[n] = y0[n] = y1[n] = zero;

const int nrow = rows.n, nblock = (nrow + 3) / 4;
Four* row_records = reinterpret_cast<Four*>(space.row.data) + (size_t)worldid * nblock * 4 * row_record;
const Four* const row_z = reinterpret_cast<const Four*>(space.row_z.data) + (size_t)worldid * space.row_size;
const int* const active = space.active.data + (size_t)worldid * nblock;
const int nactive = exists ? space.nactive.data[worldid] : 0;
const int nequality = exists ? equalities.n : 0;
const Four* const equality_z = reinterpret_cast<const Four*>(space.equality_z.data) + (size_t)worldid * space.equality_size;
const float* const equality_speed = space.equality_speed.data + (size_t)worldid * nequality * 6;
const float* const equality_K = reinterpret_cast<const float*>(equalities.K.data) + (size_t)worldid * nequality * 36;
const float* const equality_error = reinterpret_cast<const float*>(equalities.error.data) + (size_t)worldid * nequality * 6;
float* const equality_f = reinterpret_cast<float*>(equalities.f.data) + (size_t)worldid * nequality * 6;
float* const equality_mark = reinterpret_cast<float*>(equalities.f_mark.data) + (size_t)worldid * nequality * 6;
const int* const equality_active = equalities.active.data + (size_t)worldid * nequality;
const int adr = work.adr.data[worldid], num = exists ? work.num.data[worldid] : 0;
Four* contact_records = reinterpret_cast<Four*>(space.contact.data) + (size_t)adr * contact_record;
Four* const idle_rows = row_records;  // what is read where nothing acts
Four* const idle_contact = reinterpret_cast<Four*>(space.contact.data);
bool is_near = false;  // whether records are in shared memory, blocks of rows one after the other
#if defined(__CUDA_ARCH__)
__shared__ Four room[shared_fours];
constexpr int share_of = shared_fours * lanes / block_threads;
is_near = nactive * 4 * row_record + num * contact_record <= share_of;
if (is_near) {
    Four* const mine = room + threadIdx.x / lanes * share_of;
    for (int n = lane; n < nactive * 4 * row_record; n += lanes)
        mine[n] = row_records[active[n / (4 * row_record)] * 4 * row_record + n % (4 * row_record)];
    Four* const others = mine + nactive * 4 * row_record;
    for (int n = lane; n < num * contact_record; n += lanes) others[n] = contact_records[n];
    row_records = mine;
    contact_records = others;
}
__syncwarp();
#endif
const auto rows_at = [&](int e) { return row_records + (is_near ? e : active[e]) * 4 * row_record; };
const Four* const contact_z = reinterpret_cast<const Four*>(space.contact_z.data);
const int contact_size = contact_rows * space.contact_fours;
float elapsed = 0.0f;  // since the start of the step
const float per_h = 1.0f / h, per_dt = 1.0f / dt;

// x with K x = -u in the last `count` directions, one after the other, except those without compliance
const auto cancel = [&](const float* K, const float* u, int count, float* out) {
    float left[6];
    for (int i = 0; i < 6; ++i) {
        left[i] = u[i];
        out[i] = 0.0f;
    }
    ROLLED
    for (int run = 0; run < inner; ++run) {
        UNROLLED
        for (int i = 0; i < 6; ++i) {
            if (i < 6 - count || K[7 * i] <= tiny) continue;
            const float change = DIVIDE(-left[i], K[7 * i]);
            out[i] += change;
            UNROLLED
            for (int j = 0; j < 6; ++j) left[j] += K[6 * j + i] * change;
        }
    }
};

// Four rows on dofs. START: their forces act for the first time. PUSH: depth is taken out.
const auto visit_rows = [&](Four* record, bool acts, int task, bool is_first) {
    const Four place = record[3];
    const Mask mask = acts ? mask_of(place.z, place.w) : (Mask)0;
    const int size = COUNT_BITS(mask) * fours;
    const Four* const z = row_z + (acts ? bits(place.y) : 0);
    Four kept[4][is_kept ? own : 1];
    fetch(kept, z, size, mask, 4);
    float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (task == start) {
        UNROLLED
        for (int r = 0; r < 4; ++r) d[r] = record[r * row_record + 1].y;
    } else {
        Four a[4], b[4], c[4];
        UNROLLED
        for (int r = 0; r < 4; ++r) {
            a[r] = record[r * row_record];
            b[r] = record[r * row_record + 1];
            c[r] = record[r * row_record + 2];
        }
        float u[4] = {0.0f, 0.0f, 0.0f, 0.0f}, moved[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        multiply(kept, z, size, mask, 4, y, u);
        add_lanes(u);
        if (is_first || task == push) {
            if (task == push) multiply(kept, z, size, mask, 4, pushed, moved);
            else multiply(kept, z, size, mask, 4, x, moved);
            add_lanes(moved);
        }
        ALL_READ();
        UNROLLED
        for (int r = 0; r < 4; ++r) {
            const float coupling[3] = {c[r].x, c[r].y, c[r].z};
            const bool is_limit = bits(b[r].w) == limit;
            u[r] += a[r].x;
            if (task == push) {
                UNROLLED
                for (int q = 0; q < r; ++q) moved[r] += coupling[q] * d[q];
                const float error = a[r].y + h * u[r] + (is_limit ? slop : 0.0f);
                const float wanted = clamp(-share * error, -fastest * h, fastest * h) - moved[r];
                const bool moves = bits(b[r].w) != friction && (!is_limit || (error < 0.0f && wanted > 0.0f));
                d[r] = acts && moves ? wanted * b[r].x : 0.0f;
            } else {
                UNROLLED
                for (int q = 0; q < r; ++q) u[r] += coupling[q] * d[q];
                if (is_first) {
                    a[r].y = record[r * row_record + 3].x + elapsed * a[r].x + moved[r];
                    if (acts) record[r * row_record].y = a[r].y;
                }
                const float target = is_limit && a[r].y > 0.0f ? -a[r].y * per_h : 0.0f;
                const float now = clamp(b[r].y - (u[r] - target) * b[r].x, a[r].z, a[r].w);
                d[r] = acts && b[r].x > 0.0f ? now - b[r].y : 0.0f;
                if (acts && b[r].x > 0.0f) record[r * row_record + 1].y = now;
            }
        }
    }
    if (task == push) apply(kept, z, size, mask, 4, d, pushed);
    else apply(kept, z, size, mask, 4, d, y);
};

const auto visit_equality = [&](int number, bool exists_here, int task) {
    const int count = exists_here ? equality_active[number] : 0;
    const bool acts = count > 0;
    if (!MOST_IN_WARP(count)) return;
    const Mask mask = acts ? (Mask)space.equality_mask.data[number] : (Mask)0;
    const int size = COUNT_BITS(mask) * fours;
    const Four* const z = equality_z + space.equality_adr.data[number];
    const float* const K = equality_K + 36 * number;
    float d[6];
    if (task == start) {
        UNROLLED
        for (int r = 0; r < 6; ++r) d[r] = dt * equality_f[6 * number + r];
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
        UNROLLED
        for (int r = 0; r < 6; ++r) u[r] += equality_speed[6 * number + r];
        if (task == push) {
            add_lanes(moved);
            add_lanes(done);
            UNROLLED
            for (int r = 0; r < 6; ++r) {
                const float error = equality_error[6 * number + r] + moved[r] + elapsed * equality_speed[6 * number + r] + h * u[r];
                u[r] = clamp(share * error, -fastest * h, fastest * h) + done[r];
            }
            cancel(K, u, count, d);
        } else {
            float f[6];
            UNROLLED
            for (int r = 0; r < 6; ++r) f[r] = equality_f[6 * number + r];
            cancel(K, u, count, d);
            ALL_READ();
            UNROLLED
            for (int r = 0; r < 6; ++r)
                if (acts) equality_f[6 * number + r] = f[r] + d[r] * per_dt;
        }
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

// Spin and rolling: the nearest point of the cone over tangents, spin and rolling, see cone.py. Newton's method goes on
// from the last visit.
const auto turn = [&](Four* record, const float* slip, float normal, int dim, const Four& f, float gain_t, float* d) {
    const Four g = record[6], w = record[7], old = record[8], m0 = record[10], m1 = record[11];
    const float gain[5] = {gain_t, gain_t, g.w, w.w, w.w};
    const float mu[5] = {m0.x, m0.y, m0.z, m0.w, m1.x};
    const float before[5] = {f.y, f.z, old.x, old.y, old.z};
    const float surface[5] = {m1.y, m1.z, m1.w, 0.0f, 0.0f};
    float t[5], size = 0.0f, grip[5];
    UNROLLED
    for (int i = 0; i < 5; ++i) {
        const bool acts = i < dim - 1;
        t[i] = acts ? before[i] - (slip[i] + surface[i]) * gain[i] : 0.0f;
        grip[i] = DIVIDE(1.0f, most_of(mu[i], least));
        size += t[i] * t[i] * grip[i] * grip[i];
    }
    if (normal <= 0.0f) {
        UNROLLED
        for (int i = 0; i < 5; ++i) t[i] = 0.0f;
    } else if (size > normal * normal) {
        if (dim == 3 && mu[0] == mu[1]) {
            const float scale = normal * ROOT(size);
            t[0] *= scale;
            t[1] *= scale;
        } else {
            float nu = record[5].y, total = 0.0f;
            const float per_normal = DIVIDE(1.0f, normal);
            for (int iteration = 0; iteration < 6; ++iteration) {
                float slope = 0.0f;
                total = 0.0f;
                UNROLLED
                for (int i = 0; i < 5; ++i) {
                    const float rate = gain[i] * grip[i] * grip[i], shrink = DIVIDE(1.0f, 1.0f + nu * rate);
                    const float q = t[i] * grip[i] * shrink, share_of = q * q;
                    total += share_of;
                    slope += share_of * shrink * rate;
                }
                const float inverse = ROOT(most_of(total, 1.0e-30f));
                if (wp::abs(1.0f - normal * inverse) < near) break;
                nu = most_of(0.0f, nu + DIVIDE((per_normal - inverse) * total, most_of(slope * inverse, 1.0e-30f)));
            }
            record[5].y = nu;
            const float scale = least_of(1.0f, normal * ROOT(most_of(total, 1.0e-30f)));
            UNROLLED
            for (int i = 0; i < 5; ++i) t[i] *= DIVIDE(scale, 1.0f + nu * gain[i] * grip[i] * grip[i]);
        }
    }
    UNROLLED
    for (int i = 0; i < 5; ++i) d[i + 1] = t[i] - before[i];
    record[8] = Four{t[2], t[3], t[4], old.w};
};

const auto visit_contact = [&](Four* record, bool acts, int task, bool is_first) {
    Four a = record[0];
    const Four b = record[1], c = record[2];
    Four f = record[3];
    const Mask mask = acts ? mask_of(f.w, record[4].w) : (Mask)0;
    const int size = COUNT_BITS(mask) * fours;
    const Four* const z = contact_z + (size_t)(acts ? bits(c.w) : 0) * contact_size;
    const bool turns = rough && acts && c.z < 0.0f;
    const bool slides = c.z > 0.0f || turns;
    const int dim = turns ? bits(record[8].w) : slides ? 3 : 1;
    Four kept[contact_rows][is_kept ? own : 1];
    fetch(kept, z, size, mask, dim);
    float d[6] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    if (task == start) {
        d[0] = f.x;
        d[1] = f.y;
        d[2] = f.z;
        if (turns) {
            const Four g = record[8];
            d[3] = g.x;
            d[4] = g.y;
            d[5] = g.z;
        }
    } else {
        float u[contact_rows], moved[1] = {0.0f};
        UNROLLED
        for (int r = 0; r < contact_rows; ++r) u[r] = 0.0f;
        multiply(kept, z, size, mask, task == push ? 1 : dim, y, u);
        add_lanes(u);
        if (is_first || task == push) {
            float ignored[contact_rows];
            UNROLLED
            for (int r = 0; r < contact_rows; ++r) ignored[r] = 0.0f;
            if (task == push) multiply(kept, z, size, mask, 1, pushed, ignored);
            else multiply(kept, z, size, mask, 1, x, ignored);
            moved[0] = ignored[0];
            add_lanes(moved);
        }
        ALL_READ();
        u[0] += a.x;
        if (task == push) {  // depth is taken out by a displacement of its own, which leaves no velocity behind
            const float depth = -(a.w + h * u[0] + slop);
            const float more = 1.0f + growth * DIVIDE(depth, depth + deep);
            const float wanted = least_of(share * depth * more, fastest * h) - moved[0];
            d[0] = acts && depth > 0.0f && wanted > 0.0f ? wanted * c.x : 0.0f;
        } else {
            if (is_first) {
                a.w = record[5].x + elapsed * a.x + moved[0];
                if (acts) record[0].w = a.w;
            }
            // normal: may not close faster than the gap allows
            float target = least_of(-a.w * per_h, 0.0f);
            if (acts && b.w != 0.0f && (b.w < 0.0f || a.w <= h * b.w)) {
                target = restitution * wp::abs(b.w);
                record[1].w = -wp::abs(b.w);
            }
            const float normal = most_of(0.0f, f.x - (u[0] - target) * c.x);
            d[0] = normal - f.x;
            // friction: against the slip, within the cone
            const float slip1 = u[1] + a.y + b.y * d[0], slip2 = u[2] + a.z + b.z * d[0];
            if (turns) {
                const Four e = record[6], g = record[7];
                constexpr int r3 = contact_rows > 3 ? 3 : 0, r4 = contact_rows > 3 ? 4 : 0, r5 = contact_rows > 3 ? 5 : 0;
                const float slip[5] = {slip1, slip2, u[r3] + e.x + g.x * d[0], u[r4] + e.y + g.y * d[0],
                                       u[r5] + e.z + g.z * d[0]};
                turn(record, slip, normal, dim, f, c.y, d);
            } else if (slides) {
                float t1 = f.y - slip1 * c.y, t2 = f.z - slip2 * c.y;
                const float square = t1 * t1 + t2 * t2, bound = c.z * normal;
                if (square > bound * bound) {
                    const float scale = bound * ROOT(square);
                    t1 *= scale;
                    t2 *= scale;
                }
                d[1] = t1 - f.y;
                d[2] = t2 - f.z;
            }
            f.x = normal;
            f.y += d[1];
            f.z += d[2];
            if (acts) record[3] = f;
        }
    }
    if (task == push) apply(kept, z, size, mask, 1, d, pushed);
    else apply(kept, z, size, mask, dim, d, y);
};

// Marks all forces (gain 0), or lets them go on by `gain` times their change since then.
const auto mark_forces = [&](bool acts, float gain) {
    const bool marks = gain == 0.0f;
    const auto mark = [&](float& now, float& kept) {
        if (marks) kept = now;
        else now += gain * (now - kept);
    };
    ALL_READ();
    for (int n = lane; acts && n < 4 * nactive; n += lanes) {
        Four& b = rows_at(n / 4)[n % 4 * row_record + 1];
        mark(b.y, b.z);
    }
    for (int n = lane; acts && n < 6 * nequality; n += lanes) mark(equality_f[n], equality_mark[n]);
    for (int n = lane; acts && n < num; n += lanes) {
        Four* const record = contact_records + n * contact_record;
        mark(record[3].x, record[4].x);
        mark(record[3].y, record[4].y);
        mark(record[3].z, record[4].z);
        if (rough) {
            mark(record[8].x, record[9].x);
            mark(record[8].y, record[9].y);
            mark(record[8].z, record[9].z);
        }
    }
    ALL_READ();
};

// Runs over all units: the warm start, then for each substep its sweeps with their passes, and one that takes out depth.
// Always in the same order: forth and back, the unit where it turns would be resolved twice in a row.
const int most_sweeps = MOST_IN_WARP(substeps) * sweeps, most_passes = MOST_IN_WARP(passes);
const int most_blocks = MOST_IN_WARP(nactive), most_equalities = MOST_IN_WARP(nequality), most_contacts = MOST_IN_WARP(num);
const int nsweep = substeps * sweeps;
int n = most_blocks + most_equalities + most_contacts > 0 ? -1 : most_sweeps, run = 0, task = start;
ROLLED
while (n < most_sweeps) {
    const bool is_first = task == settle && run == 0 && n % sweeps == 0;
    const bool is_second = n % 2 == 1;
    const bool goes_on = n < nsweep && (task != settle || run < passes);  // this world
    const bool may_jump = jump > 0.0f && n / 2 * 2 + 2 < nsweep;
    if (task == settle && run == 0 && jump > 0.0f) {
        UNROLLED
        for (int e = 0; e < own; ++e) {
            if (is_second) y1[e] = y[e];
            else y0[e] = y[e];
        }
        if (is_second) mark_forces(may_jump, 0.0f);
    }
    if (has_rows) {
        ROLLED
        for (int e = 0; e < most_blocks; ++e) {
            const bool acts = goes_on && e < nactive;
            visit_rows(acts ? rows_at(e) : idle_rows, acts, task, is_first);
        }
    }
    if (has_equalities) {
        ROLLED
        for (int e = 0; e < most_equalities; ++e) {
            const bool acts = goes_on && e < nequality;
            visit_equality(acts ? e : 0, acts, task);
        }
    }
    ROLLED
    for (int e = 0; e < most_contacts; ++e) {
        const bool acts = goes_on && e < num;
        visit_contact(acts ? contact_records + e * contact_record : idle_contact, acts, task, is_first);
    }
    if (task == settle && run == most_passes - 1 && is_second && jump > 0.0f) {
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
    // what comes next
    if (task == start) {
        task = settle;
        n = 0;
    } else if (task == push) {
        UNROLLED
        for (int e = 0; e < own; ++e) {
            add(x[e], goes_on ? h : 0.0f, y[e]);
            add(x[e], 1.0f, pushed[e]);
            pushed[e] = zero;
        }
        elapsed += h;
        task = settle;
        ++n;
    } else if (++run == most_passes) {
        run = 0;
        if ((n + 1) % sweeps == 0) task = push;
        else ++n;
    }
}
ALL_READ();
for (int n = lane; n < 4 * nactive; n += lanes) {
    const int row = 4 * active[n / 4] + n % 4;
    if (row < nrow && rows.kind.data[(size_t)worldid * nrow + row] > 0)
        rows.f.data[(size_t)worldid * nrow + row] = rows_at(n / 4)[n % 4 * row_record + 1].y * per_dt;
}
for (int n = lane; n < num; n += lanes) {
    const Four* const record = contact_records + n * contact_record;
    Four* const f = reinterpret_cast<Four*>(work.f.data) + force_rows * (adr + n);
    f[0] = Four{record[3].x * per_dt, record[3].y * per_dt, record[3].z * per_dt, 0.0f};
    if (rough) f[1] = Four{record[8].x * per_dt, record[8].y * per_dt, record[8].z * per_dt, 0.0f};
}
// Velocities and displacements of dofs, L^-1 D^-1/2 y and x; and forces on them, L' D^1/2 y: from the first dof to the last.
const int nv = space.nv;
float* const out_v = result.qacc.data + (size_t)worldid * nv;
float* const out_x = result.velocity.data + (size_t)worldid * nv;
float* const out_f = result.qfrc_constraint.data + (size_t)worldid * nv;
Four force[own];
UNROLLED
for (int k = 0; k < chunks; ++k) {
    const int chunk = lane + k * lanes;
    UNROLLED
    for (int n = 0; n < fours; ++n) {
        const int e = k * fours + n;
        const Four s = chunk < space.nchunk ? root[chunk * fours + n] : zero;
        const auto over = [&](float a, float b) { return b > 0.0f ? DIVIDE(a, b) : 0.0f; };
        force[e] = Four{over(y[e].x, s.x), over(y[e].y, s.y), over(y[e].z, s.z), over(y[e].w, s.w)};
        y0[e] = force[e];
        y[e] = Four{y[e].x * s.x, y[e].y * s.y, y[e].z * s.z, y[e].w * s.w};
        x[e] = Four{x[e].x * s.x, x[e].y * s.y, x[e].z * s.z, x[e].w * s.w};
    }
}
UNROLLED
for (int own_chunk = 0; own_chunk < chunks; ++own_chunk) {
    ROLLED
    for (int source = 0; source < lanes && source + own_chunk * lanes < space.nchunk; ++source) {
        UNROLLED
        for (int m = 0; m < 4 * fours; ++m) {
            const int i = (source + own_chunk * lanes) * 4 * fours + m;
            if (i >= nv) continue;
            const int mine = own_chunk * fours + m / 4;
            const Mask above = (Mask)space.dof_mask.data[i];
            const Four* const l = L4 + space.dof_adr.data[i];
            const float impulse = FROM_LANE(part(y0[mine], m % 4), source);
            float sums[2] = {0.0f, 0.0f};
            FOR_CHUNKS(above) for (int n = 0; n < fours; ++n) {
                const Four c = l[at + n];
                sums[0] += dot(c, y[k * fours + n]);
                sums[1] += dot(c, x[k * fours + n]);
                add(force[k * fours + n], impulse, c);
            }
            add_lanes(sums);
            if (lane == source) {
                if (m % 4 == 0) y[mine].x -= sums[0], x[mine].x -= sums[1];
                if (m % 4 == 1) y[mine].y -= sums[0], x[mine].y -= sums[1];
                if (m % 4 == 2) y[mine].z -= sums[0], x[mine].z -= sums[1];
                if (m % 4 == 3) y[mine].w -= sums[0], x[mine].w -= sums[1];
            }
        }
    }
}
UNROLLED
for (int k = 0; k < chunks; ++k) {
    UNROLLED
    for (int m = 0; m < 4 * fours; ++m) {
        const int i = (lane + k * lanes) * 4 * fours + m;
        if (i >= nv || !exists) continue;
        out_v[i] = part(y[k * fours + m / 4], m % 4);
        out_x[i] = part(x[k * fours + m / 4], m % 4);
        out_f[i] = part(force[k * fours + m / 4], m % 4);
    }
}
