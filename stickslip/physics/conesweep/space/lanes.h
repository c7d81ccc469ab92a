// Rows shared by lanes: each holds the chunks whose number is its own modulo the number of lanes, in registers.
constexpr int own = chunks * fours;
// The sums over lanes of a few numbers, for all lanes.
const auto add_lanes = [&](auto& values) {
#if defined(__CUDA_ARCH__)
    UNROLLED
    for (int o = lanes / 2; o > 0; o /= 2) {
        UNROLLED
        for (int n = 0; n < sizeof(values) / sizeof(float); ++n) values[n] += __shfl_xor_sync(0xffffffffu, values[n], o);
    }
#endif
};
// For each own chunk k (number `chunk`) in a mask: its place `at` among those of the mask, in vectors of four.
#if defined(__CUDA_ARCH__)
#define FOR_CHUNKS(mask)                                                              \
    UNROLLED for (int k = 0, chunk = lane;          k < chunks; ++k, chunk += lanes)  \
        if (chunk < most_chunks && ((mask) >> chunk & 1))                             \
            for (int at = COUNT_BITS((mask) & (((Mask)1 << chunk) - 1)) * fours, once = 1; once; once = 0)
#else
#define FOR_CHUNKS(mask)                                                      \
    for (Mask left = (mask), at = 0; left != 0; left &= left - 1, at += fours)  \
        for (int k = LOWEST_BIT(left), once = 1; once; once = 0)
#endif
// Some rows that lie `size` vectors apart, with the chunks of a mask. Where a lane has few chunks, it keeps them in `kept`
// between `fetch` and `apply`; otherwise they are read again.
#if defined(__CUDA_ARCH__)
// Whether any lane has a k-th chunk in a mask.
const auto has = [](Mask mask, int k) { return k == 0 || mask >> k * lanes != 0; };
constexpr bool is_kept = own <= 4;
const auto fetch = [&](auto& kept, const Four* z, int size, Mask mask, int count) {
    if (!is_kept) return;
    constexpr int most = sizeof(kept) / sizeof(kept[0]);
    UNROLLED
    for (int k = 0, chunk = lane; k < chunks; ++k, chunk += lanes) {
        if (!has(mask, k)) continue;
        const bool is_in = chunk < most_chunks && (mask >> chunk & 1);
        const Four* const from = z + COUNT_BITS(mask & (((Mask)1 << (chunk & (most_chunks - 1))) - 1)) * fours;
        UNROLLED
        for (int r = 0; r < most; ++r) {
            UNROLLED
            for (int n = 0; n < fours; ++n) kept[r][k * fours + n] = is_in && r < count ? from[r * size + n] : zero;
        }
    }
};
// sums[r] += z_r . v for the first `count` rows; of this lane's chunks
const auto multiply = [&](const auto& kept, const Four* z, int size, Mask mask, int count, const Four* v, auto& sums) {
    constexpr int most = sizeof(sums) / sizeof(float);
    if (is_kept) {
        UNROLLED
        for (int k = 0; k < chunks; ++k) {
            if (!has(mask, k)) continue;
            UNROLLED
            for (int r = 0; r < most; ++r) {
                UNROLLED
                for (int n = k * fours; n < (k + 1) * fours; ++n) add_dot(sums[r], kept[r][n], v[n]);
            }
        }
    } else {
        FOR_CHUNKS(mask) for (int n = 0; n < fours; ++n) {
            UNROLLED
            for (int r = 0; r < most; ++r)
                if (r < count) add_dot(sums[r], z[r * size + at + n], v[k * fours + n]);
        }
    }
};
// v += sum of d_r z_r
const auto apply = [&](const auto& kept, const Four* z, int size, Mask mask, int count, const auto& d, Four* v) {
    constexpr int most = sizeof(d) / sizeof(float);
    if (is_kept) {
        UNROLLED
        for (int k = 0; k < chunks; ++k) {
            if (!has(mask, k)) continue;
            UNROLLED
            for (int r = 0; r < most; ++r) {
                UNROLLED
                for (int n = k * fours; n < (k + 1) * fours; ++n) add(v[n], d[r], kept[r][n]);
            }
        }
    } else {
        FOR_CHUNKS(mask) for (int n = 0; n < fours; ++n) {
            UNROLLED
            for (int r = 0; r < most; ++r)
                if (r < count) add(v[k * fours + n], d[r], z[r * size + at + n]);
        }
    }
};
#else
// One lane: rows are read where they are, products are summed in four parts. A contact has three rows, or one and two of
// zeros, or all.
constexpr bool is_kept = false;
const auto fetch = [](auto&, const Four*, int, Mask, int) {};
const auto multiply_all = [&](const Four* z, int size, Mask mask, const Four* v, auto& sums) {
    constexpr int most = sizeof(sums) / sizeof(float);
    Four parts[most];
    for (int r = 0; r < most; ++r) parts[r] = zero;
    for (Mask left = mask; left != 0; left &= left - 1, z += fours) {
        const Four* const s = v + LOWEST_BIT(left) * fours;
        for (int n = 0; n < fours; ++n)
            for (int r = 0; r < most; ++r) parts[r] += z[r * size + n] * s[n];
    }
    for (int r = 0; r < most; ++r) sums[r] += total(parts[r]);
};
const auto apply_all = [&](const Four* z, int size, Mask mask, const auto& d, Four* v) {
    constexpr int most = sizeof(d) / sizeof(float);
    for (Mask left = mask; left != 0; left &= left - 1, z += fours) {
        Four* const s = v + LOWEST_BIT(left) * fours;
        for (int n = 0; n < fours; ++n)
            for (int r = 0; r < most; ++r) s[n] += d[r] * z[r * size + n];
    }
};
const auto multiply = [&](const auto&, const Four* z, int size, Mask mask, int count, const Four* v, auto& sums) {
    typedef float Three[3];
    if (sizeof(sums) > sizeof(Three) && count <= 3) multiply_all(z, size, mask, v, reinterpret_cast<Three&>(sums));
    else multiply_all(z, size, mask, v, sums);
};
const auto apply = [&](const auto&, const Four* z, int size, Mask mask, int count, const auto& d, Four* v) {
    typedef const float Three[3];
    if (sizeof(d) > sizeof(Three) && count <= 3) apply_all(z, size, mask, reinterpret_cast<Three&>(d), v);
    else apply_all(z, size, mask, d, v);
};
#endif
