// Body of the native function `build` (build.py), after `common.h`: the rows of a world in contact space. All rows of a block,
// an equality or a contact are made at the same time: they have the same chunks, and then need each other's products. On CUDA
// a lane makes a row, and `lane` is one of a warp; on the CPU each number of a vector belongs to a row.
const int nv = tree.nv;
const float* axes = reinterpret_cast<const float*>(reinterpret_cast<const char*>(bodies.cdof.data)
    + (size_t)worldid * bodies.cdof.strides[0]);
const float* const coms = reinterpret_cast<const float*>(reinterpret_cast<const char*>(bodies.subtree_com.data)
    + (size_t)worldid * bodies.subtree_com.strides[0]);
const float* v_free = work.v_free.data + (size_t)worldid * (work.v_free.strides[0] / sizeof(float));
fetch_factor();
int taken = 0;  // of shared memory, in vectors of four
#if defined(__CUDA_ARCH__)
if (L4 == mine) taken = space.L4_size + nv;
if (taken + (7 * nv + 3) / 4 <= share_of) {
    float* const near_axes = reinterpret_cast<float*>(mine + taken);
    copy_floats(near_axes, axes, 6 * nv);
    copy_floats(near_axes + 6 * nv, v_free, nv);
    axes = near_axes;
    v_free = near_axes + 6 * nv;
    taken += (7 * nv + 3) / 4;
}
#endif

const auto are_one_tree = [&](int body1, int body2) {
    return body1 != body2 && tree.body_treeid.data[body1] == tree.body_treeid.data[body2];
};
#if defined(__CUDA_ARCH__)
const auto place_in = [&](Mask mask, int chunk) { return COUNT_BITS(mask & (((Mask)1 << chunk) - 1)) * fours; };
// Rows are made in shared memory, where they fit, and then stored.
Four* bench = nullptr;
int pitch = 0;
const auto clear_bench = [&](int size) {
    pitch = MOST_IN_WARP(size) | 1;  // odd: lanes meet different banks
    bench = taken + lanes * pitch <= share_of ? mine + taken : nullptr;
};
const auto row_at = [&](int of_lane, Four* far) { return bench ? bench + of_lane * pitch : far; };
const auto store_row = [&](const Four* z, int size, Four* far) {
    for (int n = 0; bench && n < size; ++n) far[n] = z[n];
};
// z = D^-1/2 L'^-1 z, from the last dof to the first
const auto solve_half = [&](Four* z, Mask mask) {
    for (Mask left = mask; left != 0;) {
        const int chunk = HIGHEST_BIT(left), base = place_in(mask, chunk);
        left ^= (Mask)1 << chunk;
        Four own_part[fours];
        UNROLLED
        for (int n = 0; n < fours; ++n) own_part[n] = z[base + n];
        UNROLLED
        for (int m = 4 * fours - 1; m >= 0; --m) {
            const float value = part(own_part[m / 4], m % 4);
            if (value == 0.0f) continue;
            const Place place = dofs[chunk * 4 * fours + m];
            const Four* l = L4 + place.adr;
            // chunks above, four at a time: reading does not wait for writing
            for (Mask above = chunks_at(place) ^ (Mask)1 << chunk; above != 0;) {
                int to[4];
                UNROLLED
                for (int e = 0; e < 4; ++e) {
                    to[e] = above != 0 ? place_in(mask, LOWEST_BIT(above)) : -1;
                    above &= above - 1;
                }
                UNROLLED
                for (int n = 0; n < fours; ++n) {
                    Four s[4];
                    UNROLLED
                    for (int e = 0; e < 4; ++e)
                        if (to[e] >= 0) {
                            s[e] = z[to[e] + n];
                            add(s[e], -value, l[e * fours + n]);
                        }
                    UNROLLED
                    for (int e = 0; e < 4; ++e)
                        if (to[e] >= 0) z[to[e] + n] = s[e];
                }
                UNROLLED
                for (int e = 0; e < 4; ++e) l += to[e] >= 0 ? fours : 0;
            }
            UNROLLED
            for (int n = 0; n < fours; ++n) add(own_part[n], -value, l[n]);
        }
        UNROLLED
        for (int n = 0; n < fours; ++n) {
            const Four s = root[chunk * fours + n];
            z[base + n] = Four{own_part[n].x * s.x, own_part[n].y * s.y, own_part[n].z * s.z, own_part[n].w * s.w};
        }
    }
};
// A row between two bodies, which is a wrench (torque, force) at a point, and its velocity; whether the tree itself holds the
// bodies in this direction: what moves both moves them alike, and little is left of either.
const auto make_row = [&](Four* z, Mask mask, const float* w, const float* point, int body1, int body2, float& speed) {
    float apart = 0.0f, rest = 0.0f;  // sums of squares with the weights of D: of both sides by themselves, of the row
    speed = 0.0f;
    const float* const com1 = coms + 3 * tree.body_rootid.data[body1];
    const float* const com2 = coms + 3 * tree.body_rootid.data[body2];
    const float a1[3] = {point[0] - com1[0], point[1] - com1[1], point[2] - com1[2]};
    const float a2[3] = {point[0] - com2[0], point[1] - com2[1], point[2] - com2[2]};
    int at = 0;
    for (Mask left = mask; left != 0; left &= left - 1, at += fours) {
        const int chunk = LOWEST_BIT(left);
        const int moves1 = space.moves.data[body1 * space.nchunk + chunk], moves2 = space.moves.data[body2 * space.nchunk + chunk];
        UNROLLED
        for (int n = 0; n < fours; ++n) {
            const Four s = root[chunk * fours + n];
            float value[4];
            UNROLLED
            for (int m = 0; m < 4; ++m) {
                const bool acts1 = moves1 >> (4 * n + m) & 1, acts2 = moves2 >> (4 * n + m) & 1;
                const int i = acts1 || acts2 ? chunk * 4 * fours + 4 * n + m : 0;
                const float* const c = axes + 6 * i;
                const float x = acts2 ? a2[0] : a1[0], y = acts2 ? a2[1] : a1[1], z = acts2 ? a2[2] : a1[2];
                const float t0 = c[0], t1 = c[1], t2 = c[2];
                const float l0 = c[3] + t1 * z - t2 * y, l1 = c[4] + t2 * x - t0 * z, l2 = c[5] + t0 * y - t1 * x;
                const float both = (w[0] * t0 + w[1] * t1 + w[2] * t2) + (w[3] * l0 + w[4] * l1 + w[5] * l2);
                const float scaled = both * part(s, m);
                value[m] = acts1 == acts2 ? 0.0f : acts2 ? both : -both;
                apart += (acts1 ? scaled * scaled : 0.0f) + (acts2 ? scaled * scaled : 0.0f);
                rest += acts1 == acts2 ? 0.0f : scaled * scaled;
                speed += value[m] * v_free[i];
            }
            z[at + n] = Four{value[0], value[1], value[2], value[3]};
        }
    }
    const bool is_one_tree = are_one_tree(body1, body2);
    solve_half(z, mask);
    return is_one_tree && rest < locked * apart;
};
const auto product = [&](const Four* a, const Four* b, int size) {
    float total = 0.0f;
    for (int n = 0; n < size; ++n) total += dot(a[n], b[n]);
    return total;
};
// A number of each of `count` rows that are made at the same time.
const auto gather = [&](float value, int r, int count, float* all) {
    UNROLLED
    for (int q = 0; q < count; ++q) all[q] = __shfl_sync(0xffffffffu, value, lane - r + q);
};
const auto whole = [](int count) { return lanes / count * count; };  // lanes for things of so many rows
#else
typedef float Eight __attribute__((ext_vector_type(8)));
// Row r of those that are made together is number r of the vectors z, one for each dof. A row between two bodies is a wrench
// (torque, force) at a point; w has its numbers.
const float* const roots = reinterpret_cast<const float*>(root);
const auto clear = [&](auto* z, Mask mask) {
    for (Mask left = mask; left != 0; left &= left - 1) {
        const int chunk = LOWEST_BIT(left);
        for (int i = chunk * 4 * fours; i < (chunk + 1) * 4 * fours; ++i) z[i] = 0.0f;
    }
};
// Sets the rows, and finds their velocities and the sums of squares, with the weights of D, of both sides by themselves and of
// the row: the tree itself holds the bodies where what moves both moves them alike, and little is left of either.
const auto set_rows = [&](auto* z, Mask mask, const auto* w, const float* point, int body1, int body2, auto& speed, auto& apart,
                          auto& rest) {
    const float* const com1 = coms + 3 * tree.body_rootid.data[body1];
    const float* const com2 = coms + 3 * tree.body_rootid.data[body2];
    const float a1[3] = {point[0] - com1[0], point[1] - com1[1], point[2] - com1[2]};
    const float a2[3] = {point[0] - com2[0], point[1] - com2[1], point[2] - com2[2]};
    clear(z, mask);
    speed = apart = rest = 0.0f;
    for (Mask left = mask; left != 0; left &= left - 1) {
        const int chunk = LOWEST_BIT(left);
        const unsigned moves1 = space.moves.data[body1 * space.nchunk + chunk];
        const unsigned moves2 = space.moves.data[body2 * space.nchunk + chunk];
        for (unsigned moves = moves1 | moves2; moves != 0; moves &= moves - 1) {
            const int bit = LOWEST_BIT(moves), i = chunk * 4 * fours + bit;
            const bool acts1 = moves1 >> bit & 1, acts2 = moves2 >> bit & 1;
            const float* const c = axes + 6 * i;
            const float* const a = acts2 ? a2 : a1;
            const float l0 = c[3] + c[1] * a[2] - c[2] * a[1], l1 = c[4] + c[2] * a[0] - c[0] * a[2],
                        l2 = c[5] + c[0] * a[1] - c[1] * a[0];
            const auto both = (w[0] * c[0] + w[1] * c[1] + w[2] * c[2]) + (w[3] * l0 + w[4] * l1 + w[5] * l2);
            const auto scaled = both * roots[i];
            apart += scaled * scaled;
            if (acts1 && acts2) {
                apart += scaled * scaled;
                continue;
            }
            rest += scaled * scaled;
            z[i] = acts2 ? both : -both;
            speed += z[i] * v_free[i];
        }
    }
};
// z = D^-1/2 L'^-1 z, from the last chunk to the first: each within itself, then what it does to those above
const auto solve_half = [&](auto* z, Mask mask) {
    constexpr int per = 4 * fours;
    for (Mask left = mask; left != 0;) {
        const int chunk = HIGHEST_BIT(left), count = nv - chunk * per < per ? nv - chunk * per : per;
        left ^= (Mask)1 << chunk;
        const Place* const places = dofs + chunk * per;
        auto* const s = z + chunk * per;
        const float* l[per];
        Mask above[per], any = 0;
        for (int m = per - 1; m >= 0; --m) {
            above[m] = m < count ? chunks_at(places[m]) ^ (Mask)1 << chunk : (Mask)0;
            any |= above[m];
            if (m >= count) continue;
            l[m] = reinterpret_cast<const float*>(L4 + places[m].adr);
            const float* const within = l[m] + COUNT_BITS(above[m]) * per;
            for (int q = 0; q < m; ++q) s[q] -= within[q] * s[m];
        }
        for (; any != 0; any &= any - 1) {
            const int other = LOWEST_BIT(any);
            auto* const to = z + other * per;
            for (int m = 0; m < per; ++m) {
                if (!(above[m] >> other & 1)) continue;
                for (int q = 0; q < per; ++q) to[q] -= l[m][q] * s[m];
                l[m] += per;
            }
        }
        for (int m = 0; m < count; ++m) s[m] *= roots[chunk * per + m];
    }
};
// Stores the rows, and finds the products of all of them with each.
const auto store_rows = [&](const auto* z, Mask mask, Four* far, auto& products) {
    constexpr int most = sizeof(products) / sizeof(products[0]);
    const int size = COUNT_BITS(mask) * fours;
    for (int q = 0; q < most; ++q) products[q] = 0.0f;
    for (Mask left = mask; left != 0; left &= left - 1) {
        const auto* s = z + LOWEST_BIT(left) * 4 * fours;
        for (int n = 0; n < fours; ++n, ++far, s += 4) {
            for (int r = 0; r < most; ++r) far[r * size] = Four{s[0][r], s[1][r], s[2][r], s[3][r]};
            for (int m = 0; m < 4; ++m)
                for (int q = 0; q < most; ++q) products[q] += s[m] * s[m][q];
        }
    }
};
#endif
const auto invert = [&](float w) { return w > tiny ? 1.0f / w : 0.0f; };

// Rows on dofs: those that act, one after the other, four a block. On the way, the chunks of a block and where its rows begin.
const int nrow = exists && has_rows ? rows.n : 0;
Four* const blocks = reinterpret_cast<Four*>(space.row.data) + (size_t)worldid * space.nblock * block_record;
Four* const row_z = reinterpret_cast<Four*>(space.row_z.data) + (size_t)worldid * space.row_size;
const int* const kinds = rows.kind.data + (size_t)worldid * rows.n;
int nactive = 0;
for (int first = 0; first < nrow; first += lanes) {
    const int row = first + lane;
    const bool acts = row < nrow && kinds[row] > 0;
    const int n = nactive + COUNT_BEFORE(acts);
    if (acts) reinterpret_cast<int*>(blocks + n / 4 * block_record + 11)[n % 4] = row;
    nactive += COUNT_ALL(acts);
}
const int nblock = (nactive + 3) / 4;
if (has_rows && exists && lane == 0) {
    for (int n = nactive; n % 4 != 0; ++n) reinterpret_cast<int*>(blocks + n / 4 * block_record + 11)[n % 4] = -1;
    space.nactive.data[worldid] = nblock;
}
SYNC();
for (int first = 0, end = 0; first < nblock; first += lanes) {
    const int b = first + lane;
    Mask mask = 0;
    if (b < nblock) {
        const int* const of_block = reinterpret_cast<const int*>(blocks + b * block_record + 11);
        UNROLLED
        for (int r = 0; r < 4; ++r)
            if (of_block[r] >= 0) mask |= (Mask)space.row_mask.data[of_block[r]];
    }
    const int size = 4 * fours * COUNT_BITS(mask), up_to = sum_up_to(size);
    if (b < nblock)
        blocks[b * block_record + 8] = Four{keep_bits(end + up_to - size), keep_bits((int)(unsigned)mask),
                                            keep_bits((int)((unsigned long long)mask >> 32)), 0.0f};
    end += FROM_LANE(up_to, lanes - 1);
}
arrive();
const float* const values = rows.val.data + (size_t)worldid * (rows.val.strides[0] / sizeof(float));
const auto write_row = [&](Four* record, int r, int row, int kind, float speed, const auto& products) {
    const float weight = kind > 0 ? products[r] : 0.0f;
    float phi = 0.0f, low = 0.0f, high = 0.0f, f = 0.0f;
    if (kind > 0) {
        const size_t at = (size_t)worldid * nrow + row;
        phi = rows.phi.data[at];
        low = dt * rows.low.data[at];
        high = dt * rows.high.data[at];
        f = dt * rows.f.data[at];
        rows.weight.data[at] = weight;
    }
    record[r] = Four{speed, f, invert(weight), 0.0f};
    reinterpret_cast<float*>(record + 4)[r] = low;
    reinterpret_cast<float*>(record + 5)[r] = high;
    for (int q = 0; q < r; ++q) reinterpret_cast<float*>(record + 6)[r * (r - 1) / 2 + q] = products[q];
    reinterpret_cast<float*>(record + 9)[r] = 0.0f;
    reinterpret_cast<float*>(record + 10)[r] = phi;
};
#if defined(__CUDA_ARCH__)
for (int first = 0; first < 4 * nblock; first += whole(4)) {
    const int n = first + lane, b = n / 4, r = n % 4;
    const bool exists_here = lane < whole(4) && n < 4 * nblock;
    Four* const record = blocks + (exists_here ? b : 0) * block_record;
    const Mask mask = mask_of(record[8].y, record[8].z);
    const int row = exists_here ? reinterpret_cast<const int*>(record + 11)[r] : -1;
    const int kind = row >= 0 ? kinds[row] : 0, size = COUNT_BITS(mask) * fours;
    clear_bench(exists_here ? size : 0);
    Four* const far = row_z + bits(record[8].x) + r * size;
    Four* const z = row_at(lane, far);
    float speed = 0.0f;
    if (exists_here) {
        for (int n = 0; n < size; ++n) z[n] = zero;
        if (kind > 0) {
            const int from = rows.adr.data[row], to = from + rows.nnz.data[row];
            for (int n = from; n < to; ++n) {
                const int i = rows.col.data[n];
                reinterpret_cast<float*>(z + place_in(mask, i / (4 * fours)))[i % (4 * fours)] += values[n];
                speed += values[n] * v_free[i];
            }
            solve_half(z, mask);
        }
        store_row(z, size, far);
    }
    SYNC();
    if (exists_here) {
        float products[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        for (int q = 0; q <= r; ++q) products[q] = product(z, row_at(lane - r + q, far + (q - r) * size), size);
        write_row(record, r, row, kind, speed, products);
    }
    int packed = kind << 8 * r;
    packed |= __shfl_xor_sync(0xffffffffu, packed, 1);
    packed |= __shfl_xor_sync(0xffffffffu, packed, 2);
    if (exists_here && r == 3) record[7].z = keep_bits(packed);
    SYNC();
}
#else
for (int b = 0; b < nblock; ++b) {
    Four* const record = blocks + b * block_record;
    const int* const of_block = reinterpret_cast<const int*>(record + 11);
    const Mask mask = mask_of(record[8].y, record[8].z);
    Four z[most_chunks * 4 * fours], products[4], speed = zero;
    clear(z, mask);
    for (int r = 0; r < 4 && of_block[r] >= 0; ++r) {
        const int from = rows.adr.data[of_block[r]], to = from + rows.nnz.data[of_block[r]];
        for (int n = from; n < to; ++n) {
            z[rows.col.data[n]][r] += values[n];
            speed[r] += values[n] * v_free[rows.col.data[n]];
        }
    }
    solve_half(z, mask);
    store_rows(z, mask, row_z + bits(record[8].x), products);
    int packed = 0;
    for (int r = 0; r < 4; ++r) {
        const int row = of_block[r], kind = row >= 0 ? kinds[row] : 0;
        write_row(record, r, row, kind, speed[r], products[r]);
        packed |= kind << 8 * r;
    }
    record[7].z = keep_bits(packed);
}
#endif
// Connects and welds: six wrenches about the point of each.
const int nequality = exists && has_equalities ? equalities.n : 0;
float held[6], K[6][6];
const auto drop_held = [&]() {
    UNROLLED
    for (int e = 0; e < 36; ++e)
        if (held[e / 6] != 0.0f || held[e % 6] != 0.0f) K[e / 6][e % 6] = 0.0f;
};
const auto start_equality = [&](float* record, size_t place, int r, float speed) {
    record[36 + r] = speed;
    record[42 + r] = reinterpret_cast<const float*>(equalities.error.data)[6 * place + r];
    record[48 + r] = dt * reinterpret_cast<const float*>(equalities.f.data)[6 * place + r];
    record[54 + r] = 0.0f;
};
const auto place_equality = [&](float* record, int n, int count, Mask mask) {
    record[60] = keep_bits(space.equality_adr.data[n]);
    record[61] = keep_bits(count > 0 ? (int)(unsigned)mask : 0);
    record[62] = keep_bits(count > 0 ? (int)((unsigned long long)mask >> 32) : 0);
    record[63] = 0.0f;  // where its rows are in shared memory
};
// Impulses that cancel the velocities `left`: the last `count` directions one after the other, except those without
// compliance, a few times over.
const auto answer = [&](auto* left, auto* out, int count) {
    UNROLLED
    for (int i = 0; i < 6; ++i) out[i] = 0.0f;
    ROLLED
    for (int pass = 0; pass < inner; ++pass) {
        UNROLLED
        for (int i = 0; i < 6; ++i) {
            if (i < 6 - count || K[i][i] <= tiny) continue;
            const auto change = DIVIDE(-left[i], K[i][i]);
            out[i] += change;
            UNROLLED
            for (int j = 0; j < 6; ++j) left[j] += K[j][i] * change;
        }
    }
};
#if defined(__CUDA_ARCH__)
for (int first = 0; first < 6 * nequality; first += whole(6)) {
    const int n = (first + lane) / 6, r = (first + lane) % 6;
    const bool exists_here = lane < whole(6) && n < nequality;
    const size_t place = (size_t)worldid * equalities.n + (exists_here ? n : 0);
    const int count = exists_here ? equalities.active.data[place] : 0;
    const Mask mask = (Mask)space.equality_mask.data[exists_here ? n : 0];
    const int size = COUNT_BITS(mask) * fours;
    clear_bench(exists_here ? size : 0);
    Four* const far = reinterpret_cast<Four*>(space.equality_z.data) + (size_t)worldid * space.equality_size
        + space.equality_adr.data[exists_here ? n : 0] + r * size;
    Four* const z = row_at(lane, far);
    float* const record = reinterpret_cast<float*>(space.equality.data) + place * 4 * equality_record;
    bool is_held = false;
    if (count > 0) {
        float wrench[6], speed;
        for (int c = 0; c < 6; ++c) wrench[c] = c == r ? 1.0f : 0.0f;
        const float* const point = reinterpret_cast<const float*>(equalities.point.data) + 3 * place;
        const int* const pair = reinterpret_cast<const int*>(equalities.bodies.data) + 2 * n;
        is_held = make_row(z, mask, wrench, point, pair[0], pair[1], speed);
        store_row(z, size, far);
        start_equality(record, place, r, speed);
    }
    if (exists_here && r == 5) place_equality(record, n, count, mask);
    SYNC();
    float products[6];
    for (int c = 0; c < 6; ++c) products[c] = count > 0 ? product(z, row_at(lane - r + c, far + (c - r) * size), size) : 0.0f;
    gather(is_held ? 1.0f : 0.0f, r, 6, held);
    UNROLLED
    for (int c = 0; c < 6; ++c) gather(products[c], r, 6, K[c]);  // symmetric
    drop_held();
    if (count > 0 && r == 0) {
        UNROLLED
        for (int c = 0; c < 6; ++c) reinterpret_cast<float*>(equalities.weight.data)[6 * place + c] = K[c][c];
    }
    if (count > 0) {
        float left[6], out[6];  // a unit velocity in direction r
        UNROLLED
        for (int i = 0; i < 6; ++i) left[i] = i == r ? 1.0f : 0.0f;
        answer(left, out, count);
        UNROLLED
        for (int i = 0; i < 6; ++i) record[6 * i + r] = out[i];
    }
    SYNC();
}
#else
for (int n = 0; n < nequality; ++n) {
    const size_t place = (size_t)worldid * equalities.n + n;
    const int count = equalities.active.data[place];
    const Mask mask = (Mask)space.equality_mask.data[n];
    float* const record = reinterpret_cast<float*>(space.equality.data) + place * 4 * equality_record;
    place_equality(record, n, count, mask);
    if (count == 0) continue;
    const float* const point = reinterpret_cast<const float*>(equalities.point.data) + 3 * place;
    const int* const pair = reinterpret_cast<const int*>(equalities.bodies.data) + 2 * n;
    Eight z[most_chunks * 4 * fours], wrench[6], products[6], speed, apart, rest, out[6];
    for (int c = 0; c < 6; ++c) {
        wrench[c] = 0.0f;
        wrench[c][c] = 1.0f;
    }
    set_rows(z, mask, wrench, point, pair[0], pair[1], speed, apart, rest);
    solve_half(z, mask);
    Four* const far = reinterpret_cast<Four*>(space.equality_z.data) + (size_t)worldid * space.equality_size;
    store_rows(z, mask, far + space.equality_adr.data[n], products);
    for (int r = 0; r < 6; ++r) {
        start_equality(record, place, r, speed[r]);
        held[r] = are_one_tree(pair[0], pair[1]) && rest[r] < locked * apart[r] ? 1.0f : 0.0f;
        for (int c = 0; c < 6; ++c) K[c][r] = products[c][r];
    }
    drop_held();
    answer(wrench, out, count);  // unit velocities, one a direction
    for (int c = 0; c < 6; ++c) {
        reinterpret_cast<float*>(equalities.weight.data)[6 * place + c] = K[c][c];
        for (int r = 0; r < 6; ++r) record[6 * c + r] = out[c][r];
    }
}
#endif
// Contacts
const int adr = has_contacts ? work.adr.data[worldid] : 0, num = has_contacts && exists ? work.num.data[worldid] : 0;
bool is_stacked = false;
float speeds[contact_rows], with_normal[contact_rows], itself[contact_rows], with_first[contact_rows];
#if defined(__CUDA_ARCH__)
for (int first = 0; first < contact_rows * num; first += whole(contact_rows)) {
    const int n = (first + lane) / contact_rows, r = (first + lane) % contact_rows;
    const bool exists_here = lane < whole(contact_rows) && n < num;
#else
for (int n = 0; n < num; ++n) {
    constexpr bool exists_here = true;
    constexpr int r = 0;
#endif
    const int i = exists_here ? adr + n : 0, con = exists_here ? work.con.data[i] : 0, dim = contacts.dim.data[con];
    const int* const pair = reinterpret_cast<const int*>(work.bodies.data) + 2 * (adr + work.of_pair.data[i]);
    const bool are_lone = exists_here && tree.body_kind.data[pair[0]] == lone && tree.body_kind.data[pair[1]] == lone;
    is_stacked = COUNT_ALL(are_lone) > 0 || is_stacked;
    const Mask mask = exists_here ? (Mask)(space.body_mask.data[pair[0]] | space.body_mask.data[pair[1]]) : (Mask)0;
    const int size = COUNT_BITS(mask) * fours;
    const Four* const touch = reinterpret_cast<const Four*>(work.touch.data) + touch_rows * i;
    const Four a = touch[0], b = touch[1];
    Four* const far = reinterpret_cast<Four*>(space.contact_z.data) + (size_t)con * contact_rows * space.contact_fours + r * size;
    Four* const record = reinterpret_cast<Four*>(space.contact.data) + (size_t)i * contact_record;
    const float* const point = reinterpret_cast<const float*>(contacts.pos.data) + 3 * con;
#if defined(__CUDA_ARCH__)
    clear_bench(size);
    Four* const z = row_at(lane, far);
    bool is_held = false;
    float speed = 0.0f;
    if (exists_here && r < dim) {
        const float axis[3] = {r % 3 == 0 ? a.x : r % 3 == 1 ? b.x : a.y * b.z - a.z * b.y,
                               r % 3 == 0 ? a.y : r % 3 == 1 ? b.y : a.z * b.x - a.x * b.z,
                               r % 3 == 0 ? a.z : r % 3 == 1 ? b.z : a.x * b.y - a.y * b.x};
        float wrench[6];
        UNROLLED
        for (int c = 0; c < 3; ++c) {
            wrench[c] = r < 3 ? 0.0f : axis[c];
            wrench[3 + c] = r < 3 ? axis[c] : 0.0f;
        }
        is_held = make_row(z, mask, wrench, point, pair[0], pair[1], speed);
    } else if (exists_here) {
        for (int e = 0; e < size; ++e) z[e] = zero;
    }
    if (exists_here) store_row(z, size, far);
    SYNC();
    gather(speed, r, contact_rows, speeds);
    gather(exists_here ? product(z, row_at(lane - r, far - r * size), size) : 0.0f, r, contact_rows, with_normal);
    gather(exists_here && !is_held ? product(z, z, size) : 0.0f, r, contact_rows, itself);
    gather(exists_here && r == 2 ? product(z, row_at(lane - 1, far - size), size) : 0.0f, r, contact_rows, with_first);
    SYNC();
    if (!exists_here || r < contact_rows - 1) continue;
#else
    typedef float Rows __attribute__((ext_vector_type(contact_rows > 4 ? 8 : 4)));
    Rows z[most_chunks * 4 * fours], wrench[6], products[contact_rows], speed, apart, rest;
    const float axis[3][3] = {{a.x, a.y, a.z}, {b.x, b.y, b.z}, {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x}};
    for (int c = 0; c < 6; ++c) wrench[c] = 0.0f;
    for (int q = 0; q < contact_rows; ++q)
        for (int c = 0; q < dim && c < 3; ++c) wrench[q < 3 ? 3 + c : c][q] = axis[q % 3][c];
    set_rows(z, mask, wrench, point, pair[0], pair[1], speed, apart, rest);
    solve_half(z, mask);
    store_rows(z, mask, far, products);
    for (int q = 0; q < contact_rows; ++q) {
        const bool is_held = are_one_tree(pair[0], pair[1]) && rest[q] < locked * apart[q];
        speeds[q] = speed[q];
        with_normal[q] = products[0][q];
        with_first[q] = products[1][q];
        itself[q] = is_held ? 0.0f : products[q][q];
    }
#endif
    const Four* const force = reinterpret_cast<const Four*>(work.f.data) + force_rows * i;
    const float across = itself[1] > 0.0f && itself[2] > 0.0f ? with_first[2] : 0.0f;
    const float half = 0.5f * (itself[1] - itself[2]);
    const float tangent = 0.5f * (itself[1] + itself[2]) + wp::sqrt(half * half + across * across);
    const float groups = dim > 4 ? 3.0f : dim > 3 ? 2.0f : 1.0f;  // directions that are corrected at once may add up
    const float approach = restitution > 0.0f && force[0].x <= 0.0f && -speeds[0] > bounce ? -speeds[0] : 0.0f;
    record[0] = Four{speeds[0], speeds[1], speeds[2], a.w};
    record[1] = Four{itself[0], with_normal[1], with_normal[2], approach};
    record[2] = Four{invert(itself[0]), invert(groups * tangent), b.w, 0.0f};
    record[3] = Four{dt * force[0].x, dt * force[0].y, dt * force[0].z, a.w};
    record[5] = Four{keep_bits(con), keep_bits((int)(unsigned)mask), keep_bits((int)((unsigned long long)mask >> 32)), 0.0f};
    if (rough) {
        const float* const mu = reinterpret_cast<const float*>(contacts.friction.data) + 5 * con;
        const float* const surface = reinterpret_cast<const float*>(contacts.surfacevel.data) + 3 * con;
        constexpr bool rolls = contact_rows > 4;
        constexpr int r3 = rough ? 3 : 0, r4 = rolls ? 4 : 0, r5 = rolls ? 5 : 0;
        record[6] = Four{speeds[r3], rolls ? speeds[r4] : 0.0f, rolls ? speeds[r5] : 0.0f, invert(groups * itself[r3])};
        record[7] = Four{with_normal[r3], rolls ? with_normal[r4] : 0.0f, rolls ? with_normal[r5] : 0.0f,
                         rolls ? invert(groups * (itself[r4] + itself[r5])) : 0.0f};
        record[8] = Four{dt * force[1].x, dt * force[1].y, dt * force[1].z, keep_bits(dim)};
        record[9] = zero;
        const auto grip = [&](float value) { return 1.0f / most_of(value, least); };
        record[10] = Four{grip(mu[0]), grip(mu[1]), grip(mu[2]), grip(mu[3])};
        record[11] = Four{grip(mu[4]), surface[0], work.hand.data[i] * surface[1], surface[2]};
    }
    record[4] = zero;  // last: `force` is there, as `touch` is in the rows before
}
if (has_contacts && exists && lane == 0) space.stacked.data[worldid] = is_stacked ? 1 : 0;
