// Body of the native function `build` (build.py), after `common.h`: the rows of a world in contact space. A group of
// lanes makes all rows of a block, an equality or a contact at once; `unit` is the number of the group, of `nunit`.
const int nv = tree.nv;
const float* const axes = reinterpret_cast<const float*>(reinterpret_cast<const char*>(bodies.cdof.data)
    + (size_t)worldid * bodies.cdof.strides[0]);
const float* const coms = reinterpret_cast<const float*>(reinterpret_cast<const char*>(bodies.subtree_com.data)
    + (size_t)worldid * bodies.subtree_com.strides[0]);
const float* const v_free = work.v_free.data + (size_t)worldid * (work.v_free.strides[0] / sizeof(float));

// z = D^-1/2 L'^-1 x for some rows at once, from the last dof to the first.
const auto solve_half = [&](auto& x, Mask mask) {
    constexpr int count = sizeof(x) / sizeof(x[0]);
    UNROLLED
    for (int k = chunks - 1; k >= 0; --k) {
        ROLLED
        for (int source = lanes - 1; source >= 0; --source) {
            const int chunk = source + k * lanes;
            if (chunk >= space.nchunk || !MOST_IN_WARP((int)(mask >> chunk & 1))) continue;
            UNROLLED
            for (int m = 4 * fours - 1; m >= 0; --m) {
                const int i = chunk * 4 * fours + m;
                float value[count];
                UNROLLED
                for (int r = 0; r < count; ++r) value[r] = FROM_LANE(part(x[r][k * fours + m / 4], m % 4), source);
                if (i >= nv || !(mask >> chunk & 1)) continue;
                const Place place = dofs[i];
                const Mask above = chunks_at(place);
                const Four* const l = L4 + place.adr;
                FOR_CHUNKS(above) {
                    for (int n = 0; n < fours; ++n) {
                        const Four c = l[at + n];
                        UNROLLED
                        for (int r = 0; r < count; ++r) add(x[r][k * fours + n], -value[r], c);
                    }
                }
            }
        }
    }
    FOR_CHUNKS(mask) for (int n = 0; n < fours; ++n) {
        const Four s = root[chunk * fours + n];
        UNROLLED
        for (int r = 0; r < count; ++r) {
            Four& a = x[r][k * fours + n];
            a.x *= s.x;
            a.y *= s.y;
            a.z *= s.z;
            a.w *= s.w;
        }
    }
};
const auto clear = [&](auto& x) {
    constexpr int count = sizeof(x) / sizeof(x[0]);
    UNROLLED
    for (int r = 0; r < count; ++r) {
        UNROLLED
        for (int n = 0; n < own; ++n) x[r][n] = zero;
    }
};
// Rows that are wrenches (torque, force) on a body at a point, times a sign. `speed` is their velocity, `apart` the sum of
// their squares with the weights of D.
const auto add_body = [&](auto& x, Mask mask, const auto& wrench, const float* point, int body, float sign, auto& speed,
                          auto& apart) {
    constexpr int count = sizeof(x) / sizeof(x[0]);
    const float* const com = coms + 3 * tree.body_rootid.data[body];
    const float a0 = point[0] - com[0], a1 = point[1] - com[1], a2 = point[2] - com[2];
    FOR_CHUNKS(mask) {
        const int moves = space.moves.data[body * space.nchunk + chunk];
        UNROLLED
        for (int m = 0; m < 4 * fours; ++m) {
            if (!(moves >> m & 1)) continue;
            const int i = chunk * 4 * fours + m;
            const float* const c = axes + 6 * i;
            const float t0 = c[0], t1 = c[1], t2 = c[2];
            const float s = part(root[chunk * fours + m / 4], m % 4), weight = s * s;
            const float l0 = c[3] + t1 * a2 - t2 * a1, l1 = c[4] + t2 * a0 - t0 * a2, l2 = c[5] + t0 * a1 - t1 * a0;
            UNROLLED
            for (int r = 0; r < count; ++r) {
                const float* const w = wrench[r];
                const float value = sign * ((w[0] * t0 + w[1] * t1 + w[2] * t2) + (w[3] * l0 + w[4] * l1 + w[5] * l2));
                Four& a = x[r][k * fours + m / 4];
                if (m % 4 == 0) a.x += value;
                if (m % 4 == 1) a.y += value;
                if (m % 4 == 2) a.z += value;
                if (m % 4 == 3) a.w += value;
                speed[r] += value * v_free[i];
                apart[r] += value * value * weight;
            }
        }
    }
};
// Products of rows: of each with itself, and of all with the first `firsts`, into a matrix.
const auto multiply_rows = [&](const auto& x, auto& products) {
    constexpr int count = sizeof(x) / sizeof(x[0]);
    UNROLLED
    for (int r = 0, e = 0; r < count; ++r) {
        UNROLLED
        for (int c = 0; c <= r; ++c, ++e) {
            float total = 0.0f;
            UNROLLED
            for (int n = 0; n < own; ++n) total += dot(x[r][n], x[c][n]);
            products[e] = total;
        }
    }
    add_lanes(products);
};
// Rows between two bodies, their velocities, and their products, by rows of the lower half. Directions that the tree
// itself holds get none: what moves both bodies moves them alike, and little is left of either.
const auto make_rows = [&](auto& x, Mask mask, const auto& wrench, const float* point, int body1, int body2, auto& speed,
                           auto& products) {
    constexpr int count = sizeof(x) / sizeof(x[0]);
    float apart[count], left[count];
    clear(x);
    UNROLLED
    for (int r = 0; r < count; ++r) speed[r] = apart[r] = left[r] = 0.0f;
    ROLLED
    for (int side = 0; side < 2; ++side)
        add_body(x, mask, wrench, point, side ? body2 : body1, side ? 1.0f : -1.0f, speed, apart);
    add_lanes(speed);
    const bool is_one_tree = body1 != body2 && tree.body_treeid.data[body1] == tree.body_treeid.data[body2];
    if (MOST_IN_WARP(is_one_tree ? 1 : 0)) {
        FOR_CHUNKS(mask) for (int n = 0; n < fours; ++n) {
            const Four s = root[chunk * fours + n];
            UNROLLED
            for (int r = 0; r < count; ++r) {
                const Four a = x[r][k * fours + n], b = {a.x * s.x, a.y * s.y, a.z * s.z, a.w * s.w};
                left[r] += dot(b, b);
            }
        }
        add_lanes(apart);
        add_lanes(left);
    }
    solve_half(x, mask);
    multiply_rows(x, products);
    UNROLLED
    for (int r = 0, e = 0; r < count; e += ++r)
        if (is_one_tree && left[r] < locked * apart[r]) products[e + r] = 0.0f;
};
const auto store_rows = [&](const auto& x, Mask mask, Four* z) {
    constexpr int count = sizeof(x) / sizeof(x[0]);
    const int size = COUNT_BITS(mask) * fours;
    FOR_CHUNKS(mask) for (int n = 0; n < fours; ++n) {
        UNROLLED
        for (int r = 0; r < count; ++r) z[r * size + at + n] = x[r][k * fours + n];
    }
};

// Rows on dofs: those that act, one after the other, four a block.
const int nrow = exists ? rows.n : 0;
Four* const blocks = reinterpret_cast<Four*>(space.row.data) + (size_t)worldid * space.nblock * block_record;
const int* const kinds = rows.kind.data + (size_t)worldid * rows.n;
int nactive = 0;
#if defined(__CUDA_ARCH__)
fetch_factor(unit * lanes + lane, threads_of_world);
#endif
if (has_rows) {
    const int thread = unit * lanes + lane;
#if defined(__CUDA_ARCH__)
    const int runs = MOST_IN_WARP((nrow + threads_of_world - 1) / threads_of_world);
    for (int run = 0; run < runs; ++run) {
        const int row = run * threads_of_world + thread;
        const bool acts = row < nrow && kinds[row] > 0;
        const unsigned votes = __ballot_sync(0xffffffffu, acts);
        const int n = nactive + __popc(votes & ((1u << thread) - 1));
        if (acts) reinterpret_cast<int*>(blocks + n / 4 * block_record + 11)[n % 4] = row;
        nactive += __popc(votes);
    }
#else
    for (int row = 0; row < nrow; ++row)
        if (kinds[row] > 0) {
            reinterpret_cast<int*>(blocks + nactive / 4 * block_record + 11)[nactive % 4] = row;
            ++nactive;
        }
#endif
    SYNC();
    if (exists && thread == 0) {
        for (int n = nactive; n % 4 != 0; ++n) reinterpret_cast<int*>(blocks + n / 4 * block_record + 11)[n % 4] = -1;
        space.nactive.data[worldid] = (nactive + 3) / 4;
    }
    SYNC();
}
const int nblock = (nactive + 3) / 4;
#if defined(__CUDA_ARCH__)
arrive();
#endif
const int block_runs = has_rows ? MOST_IN_WARP((nblock - unit + nunit - 1) / nunit) : 0;
int end = 0;
ROLLED
for (int run = 0, b = 0; run < block_runs; ++run) {
    // the chunks of this group's block; where its rows begin, after those of all blocks before
    Mask mask = 0;
    int begin = end;
    for (; b <= unit + run * nunit && b < nblock; ++b) {
        begin = end;
        mask = 0;
        const int* const of_block = reinterpret_cast<const int*>(blocks + b * block_record + 11);
        UNROLLED
        for (int r = 0; r < 4; ++r)
            if (of_block[r] >= 0) mask |= (Mask)space.row_mask.data[of_block[r]];
        end += 4 * fours * COUNT_BITS(mask);
    }
    const bool acts = unit + run * nunit < nblock;
    if (!acts) mask = 0;
    Four* const record = blocks + (acts ? unit + run * nunit : 0) * block_record;
    int row[4], kind[4];
    UNROLLED
    for (int r = 0; r < 4; ++r) {
        row[r] = acts ? reinterpret_cast<const int*>(record + 11)[r] : -1;
        kind[r] = row[r] >= 0 ? kinds[row[r]] : 0;
    }
    Four x[4][own];
    float speed[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    clear(x);
    const float* const values = rows.val.data + (size_t)worldid * (rows.val.strides[0] / sizeof(float));
    UNROLLED
    for (int r = 0; r < 4; ++r) {
        if (kind[r] == 0) continue;
        for (int n = rows.adr.data[row[r]]; n < rows.adr.data[row[r]] + rows.nnz.data[row[r]]; ++n) {
            const int i = rows.col.data[n];
            const float value = values[n];
            speed[r] += value * v_free[i];
            FOR_CHUNKS(mask) {
                UNROLLED
                for (int m = 0; m < 4 * fours; ++m) {
                    if (i != chunk * 4 * fours + m) continue;
                    Four& a = x[r][k * fours + m / 4];
                    set_part(a, m % 4, part(a, m % 4) + value);
                }
            }
        }
    }
    solve_half(x, mask);
    float products[10];
    multiply_rows(x, products);
    if (acts) store_rows(x, mask, reinterpret_cast<Four*>(space.row_z.data) + (size_t)worldid * space.row_size + begin);
    if (acts && lane == 0) {
        Four low = zero, high = zero, phi = zero;
        int kinds_of_block = 0;
        UNROLLED
        for (int r = 0; r < 4; ++r) {
            const int e = r * (r + 1) / 2;
            const float weight = kind[r] > 0 ? products[e + r] : 0.0f;
            float f = 0.0f;
            if (kind[r] > 0) {
                const size_t at = (size_t)worldid * nrow + row[r];
                set_part(phi, r, rows.phi.data[at]);
                set_part(low, r, dt * rows.low.data[at]);
                set_part(high, r, dt * rows.high.data[at]);
                f = dt * rows.f.data[at];
                rows.weight.data[at] = weight;
            }
            kinds_of_block |= kind[r] << 8 * r;
            record[r] = Four{speed[r], f, weight > tiny ? 1.0f / weight : 0.0f, 0.0f};
        }
        record[4] = low;
        record[5] = high;
        record[6] = Four{products[1], products[3], products[4], products[6]};
        record[7] = Four{products[7], products[8], keep_bits(kinds_of_block), 0.0f};
        record[8] = Four{keep_bits(begin), keep_bits((int)(unsigned)mask), keep_bits((int)((unsigned long long)mask >> 32)), 0.0f};
        record[9] = zero;
        record[10] = phi;
    }
}
// connects and welds: six wrenches about the point of each
const int nequality = exists ? equalities.n : 0;
const int equality_runs = has_equalities ? MOST_IN_WARP((nequality - unit + nunit - 1) / nunit) : 0;
ROLLED
for (int run = 0, e = unit; run < equality_runs; ++run, e += nunit) {
    const int n = e < nequality ? e : 0;
    const size_t place = (size_t)worldid * nequality + n;
    const bool acts = e < nequality && equalities.active.data[place] > 0;
    const Mask mask = acts ? (Mask)space.equality_mask.data[n] : (Mask)0;
    float wrench[6][6];
    for (int r = 0; r < 6; ++r)
        for (int c = 0; c < 6; ++c) wrench[r][c] = c == r ? 1.0f : 0.0f;
    const float* const point = reinterpret_cast<const float*>(equalities.point.data) + 3 * place;
    const int* const pair = reinterpret_cast<const int*>(equalities.bodies.data) + 2 * n;
    Four x[6][own];
    float speed[6], products[21];
    make_rows(x, mask, wrench, point, pair[0], pair[1], speed, products);
    if (acts)
        store_rows(x, mask, reinterpret_cast<Four*>(space.equality_z.data) + (size_t)worldid * space.equality_size
            + space.equality_adr.data[n]);
    float K[6][6];
    UNROLLED
    for (int r = 0, e = 0; r < 6; e += ++r) {
        UNROLLED
        for (int c = 0; c <= r; ++c) {
            const bool is_held = products[e + r] == 0.0f || products[c * (c + 1) / 2 + c] == 0.0f;
            K[r][c] = K[c][r] = is_held ? 0.0f : products[e + c];
        }
    }
    float* const record = reinterpret_cast<float*>(space.equality.data) + place * 4 * equality_record;
    const int count = acts ? equalities.active.data[place] : 0;
    // impulses that cancel a unit velocity in one direction: the last `count` directions one after the other, except those
    // without compliance, a few times over
    for (int c = lane; acts && c < 6; c += lanes) {
        float left[6], out[6];
        UNROLLED
        for (int i = 0; i < 6; ++i) {
            left[i] = i == c ? 1.0f : 0.0f;
            out[i] = 0.0f;
        }
        ROLLED
        for (int pass = 0; pass < inner; ++pass) {
            UNROLLED
            for (int i = 0; i < 6; ++i) {
                if (i < 6 - count || K[i][i] <= tiny) continue;
                const float change = DIVIDE(-left[i], K[i][i]);
                out[i] += change;
                UNROLLED
                for (int j = 0; j < 6; ++j) left[j] += K[j][i] * change;
            }
        }
        UNROLLED
        for (int i = 0; i < 6; ++i) record[6 * i + c] = out[i];
    }
    if (acts && lane == 0) {
        float* const weight = reinterpret_cast<float*>(equalities.weight.data) + 6 * place;
        const float* const error = reinterpret_cast<const float*>(equalities.error.data) + 6 * place;
        const float* const f = reinterpret_cast<const float*>(equalities.f.data) + 6 * place;
        UNROLLED
        for (int r = 0; r < 6; ++r) {
            weight[r] = K[r][r];
            record[36 + r] = speed[r];
            record[42 + r] = error[r];
            record[48 + r] = dt * f[r];
            record[54 + r] = 0.0f;
        }
        record[60] = 0.0f;  // where its rows are in shared memory
    }
}
// contacts
const int adr = work.adr.data[worldid], num = exists ? work.num.data[worldid] : 0;
const int contact_runs = MOST_IN_WARP((num - unit + nunit - 1) / nunit);
ROLLED
for (int run = 0, n = unit; run < contact_runs; ++run, n += nunit) {
    const bool acts = n < num;
    const int i = acts ? adr + n : 0;
    const int con = acts ? work.con.data[i] : 0;
    const int dim = contacts.dim.data[con];
    const int* const bodies_of_pair = reinterpret_cast<const int*>(work.bodies.data) + 2 * (adr + work.of_pair.data[i]);
    const int pair[2] = {acts ? bodies_of_pair[0] : 0, acts ? bodies_of_pair[1] : 0};
    const Mask mask = acts ? (Mask)(space.body_mask.data[pair[0]] | space.body_mask.data[pair[1]]) : (Mask)0;
    const Four* const touch = reinterpret_cast<const Four*>(work.touch.data) + touch_rows * i;
    const Four* const force = reinterpret_cast<const Four*>(work.f.data) + force_rows * i;
    const Four a = touch[0], b = touch[1];
    const float frame[3][3] = {{a.x, a.y, a.z},
                               {b.x, b.y, b.z},
                               {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x}};
    float wrench[contact_rows][6];
    UNROLLED
    for (int r = 0; r < contact_rows; ++r) {
        UNROLLED
        for (int c = 0; c < 3; ++c) {
            const bool acts = r < dim;
            wrench[r][c] = r < 3 || !acts ? 0.0f : frame[r % 3][c];
            wrench[r][3 + c] = r < 3 && acts ? frame[r % 3][c] : 0.0f;
        }
    }
    Four x[contact_rows][own];
    float speed[contact_rows], products[contact_rows * (contact_rows + 1) / 2];
    const float* const point = reinterpret_cast<const float*>(contacts.pos.data) + 3 * con;
    make_rows(x, mask, wrench, point, pair[0], pair[1], speed, products);
    if (acts)
        store_rows(x, mask, reinterpret_cast<Four*>(space.contact_z.data) + (size_t)con * contact_rows * space.contact_fours);
    if (!acts || lane > 0) continue;
    const auto invert = [&](float w) { return w > tiny ? 1.0f / w : 0.0f; };
    const float across = products[2] > 0.0f && products[5] > 0.0f ? products[4] : 0.0f;
    const float half = 0.5f * (products[2] - products[5]);
    const float tangent = 0.5f * (products[2] + products[5]) + wp::sqrt(half * half + across * across);
    const float groups = dim > 4 ? 3.0f : dim > 3 ? 2.0f : 1.0f;  // directions that are corrected at once may add up
    const float approach = restitution > 0.0f && force[0].x <= 0.0f && -speed[0] > bounce ? -speed[0] : 0.0f;
    Four* const record = reinterpret_cast<Four*>(space.contact.data) + (size_t)i * contact_record;
    record[0] = Four{speed[0], speed[1], speed[2], a.w};
    record[1] = Four{products[0], products[1], products[3], approach};
    record[2] = Four{invert(products[0]), invert(groups * tangent), b.w, keep_bits(con)};
    record[3] = Four{dt * force[0].x, dt * force[0].y, dt * force[0].z, keep_bits((int)(unsigned)mask)};
    record[4] = Four{0.0f, 0.0f, 0.0f, keep_bits((int)((unsigned long long)mask >> 32))};
    record[5] = Four{a.w, 0.0f, 0.0f, 0.0f};
    if (rough) {
        constexpr int last = contact_rows - 1;  // so that indices are in bounds where there are fewer rows
        constexpr int at3 = last < 3 ? 0 : 6, at4 = last < 4 ? 0 : 10, at5 = last < 5 ? 0 : 15;
        constexpr int r3 = last < 3 ? 0 : 3, r4 = last < 4 ? 0 : 4, r5 = last < 5 ? 0 : 5;
        const float* const mu = reinterpret_cast<const float*>(contacts.friction.data) + 5 * con;
        const float* const surface = reinterpret_cast<const float*>(contacts.surfacevel.data) + 3 * con;
        record[6] = Four{speed[r3], speed[r4], speed[r5], invert(groups * products[at3 + r3])};
        record[7] = Four{products[at3], products[at4], products[at5], invert(groups * (products[at4 + r4] + products[at5 + r5]))};
        record[8] = Four{dt * force[1].x, dt * force[1].y, dt * force[1].z, keep_bits(dim)};
        record[9] = zero;
        record[10] = Four{mu[0], mu[1], mu[2], mu[3]};
        record[11] = Four{mu[4], surface[0], work.hand.data[i] * surface[1], surface[2]};
    }
}
