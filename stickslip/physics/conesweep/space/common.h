// What `build.h` and `sweep.h` begin with: lanes, chunks of dofs, and rows in contact space.
//
// With H = L' D L, row r of the Jacobian becomes z_r = D^-1/2 L'^-1 J_r', so that J_r H^-1 J_s' = z_r . z_s. L has no
// fill-in: z_r is zero but for the dofs that move the bodies of the row, and those above them in their trees. Dofs come
// in chunks of four or a multiple; a row has a mask of chunks, and only these are stored, one after the other. Each lane
// holds the chunks whose number is its own modulo the number of lanes, in registers.
//
// Before this text come `Mask`, an unsigned integer with a bit for each chunk, and the constants: lanes, chunks (of a
// lane), fours (vectors of four in a chunk), contact_rows, contact_record, block_record, equality_record, shared_fours,
// block_threads, rough, tiny, and those of each function.
//
// Worlds, or parts of them, that share a warp run in step: all take the same branches around anything that waits for
// other lanes, and those that have nothing to do there do it without effect.
#if defined(__CUDA_ARCH__)
#define COUNT_BITS(m) (sizeof(Mask) > 4 ? __popcll(m) : __popc((unsigned)(m)))
#define FROM_LANE(v, source) __shfl_sync(0xffffffffu, v, source, lanes)
#define MOST_IN_WARP(v) __reduce_max_sync(0xffffffffu, v)
#define SYNC() __syncwarp()
#define UNROLLED _Pragma("unroll")
#define ROLLED _Pragma("unroll 1")
#define PIPELINED _Pragma("unroll 2")
#define ROOT(a) rsqrtf(a)
#define DIVIDE(a, b) __fdividef(a, b)
#else
#define COUNT_BITS(m) __builtin_popcountll(m)
#define FROM_LANE(v, source) (v)
#define MOST_IN_WARP(v) (v)
#define SYNC()
#define UNROLLED
#define ROLLED
#define PIPELINED
#define ROOT(a) (1.0f / wp::sqrt(a))
#define DIVIDE(a, b) ((a) / (b))
#endif
constexpr int most_chunks = 8 * sizeof(Mask);
struct alignas(16) Four { float x, y, z, w; };
constexpr int own = chunks * fours;
const Four zero = {0.0f, 0.0f, 0.0f, 0.0f};
const auto dot = [](const Four& a, const Four& b) { return (a.x * b.x + a.y * b.y) + (a.z * b.z + a.w * b.w); };
const auto add = [](Four& a, float s, const Four& b) { a.x += s * b.x; a.y += s * b.y; a.z += s * b.z; a.w += s * b.w; };
const auto part = [](const Four& a, int m) { return m == 0 ? a.x : m == 1 ? a.y : m == 2 ? a.z : a.w; };
const auto set_part = [](Four& a, int m, float v) { (m == 0 ? a.x : m == 1 ? a.y : m == 2 ? a.z : a.w) = v; };
const auto bits = [](float value) { union { float f; int i; } u; u.f = value; return u.i; };
const auto keep_bits = [](int value) { union { int i; float f; } u; u.i = value; return u.f; };
const auto mask_of = [&](float low, float high) {
    return sizeof(Mask) > 4 ? (Mask)((unsigned long long)(unsigned)bits(low) | (unsigned long long)(unsigned)bits(high) << 32)
                            : (Mask)(unsigned)bits(low);
};
const auto least_of = [](float a, float b) { return a < b ? a : b; };
const auto most_of = [](float a, float b) { return a > b ? a : b; };
const auto clamp = [](float v, float a, float b) { return v < a ? a : v > b ? b : v; };
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
#define FOR_CHUNKS(mask)                                                  \
    for (int k = 0, chunk = 0, at = 0; k < chunks && (mask) >> k; ++k, ++chunk) \
        if ((mask) >> k & 1) for (int once = 1; once; once = 0, at += fours)
#endif
// Some rows that lie `size` vectors apart, with the chunks of a mask. Where a lane has few chunks, it keeps them in `kept`
// between `fetch` and `apply`; otherwise they are read again.
#if defined(__CUDA_ARCH__)
constexpr bool is_kept = own <= 4;
#else
constexpr bool is_kept = false;
#endif
const auto fetch = [&](auto& kept, const Four* z, int size, Mask mask, int count) {
    if (!is_kept) return;
    constexpr int most = sizeof(kept) / sizeof(kept[0]);
    UNROLLED
    for (int k = 0, chunk = lane; k < chunks; ++k, chunk += lanes) {
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
const auto multiply = [&](const auto& kept, const Four* z, int size, Mask mask, int count, const Four* v, float* sums) {
    constexpr int most = sizeof(kept) / sizeof(kept[0]);
    if (is_kept) {
        UNROLLED
        for (int r = 0; r < most; ++r) {
            UNROLLED
            for (int n = 0; n < own; ++n) sums[r] += dot(kept[r][n], v[n]);
        }
    } else {
        FOR_CHUNKS(mask) for (int n = 0; n < fours; ++n) {
            UNROLLED
            for (int r = 0; r < most; ++r)
                if (r < count) sums[r] += dot(z[r * size + at + n], v[k * fours + n]);
        }
    }
};
// sum += z . v of the first row alone
const auto multiply_first = [&](const auto& kept, const Four* z, Mask mask, const Four* v, float& sum) {
    if (is_kept) {
        UNROLLED
        for (int n = 0; n < own; ++n) sum += dot(kept[0][n], v[n]);
    } else {
        FOR_CHUNKS(mask) for (int n = 0; n < fours; ++n) sum += dot(z[at + n], v[k * fours + n]);
    }
};
// v += sum of d_r z_r
const auto apply = [&](const auto& kept, const Four* z, int size, Mask mask, int count, const float* d, Four* v) {
    constexpr int most = sizeof(kept) / sizeof(kept[0]);
    if (is_kept) {
        UNROLLED
        for (int r = 0; r < most; ++r) {
            UNROLLED
            for (int n = 0; n < own; ++n) add(v[n], d[r], kept[r][n]);
        }
    } else {
        FOR_CHUNKS(mask) for (int n = 0; n < fours; ++n) {
            UNROLLED
            for (int r = 0; r < most; ++r)
                if (r < count) add(v[k * fours + n], d[r], z[r * size + at + n]);
        }
    }
};
// Shared memory of this world, on CUDA, and copies to it. They have arrived after `arrive`.
#if defined(__CUDA_ARCH__)
__shared__ Four room[shared_fours];
constexpr int share_of = shared_fours * (threads_of_world < block_threads ? threads_of_world : block_threads) / block_threads;
Four* const mine = room + threadIdx.x / threads_of_world * share_of;
const auto copy = [&](Four* to, const Four* from, int count, int thread, int threads) {
    for (int n = thread; n < count; n += threads) {
#if __CUDA_ARCH__ >= 800
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to + n)), "l"(from + n));
#else
        to[n] = from[n];
#endif
    }
};
const auto arrive = [&]() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
    __syncwarp();
};
#endif
// The factor L by chunks, and where the row of each dof begins with which chunks; in shared memory where they fit.
struct alignas(16) Place { int adr; int low; int high; int unused; };
const auto chunks_at = [&](const Place& place) { return mask_of(keep_bits(place.low), keep_bits(place.high)); };
const Four* L4 = reinterpret_cast<const Four*>(space.L4.data) + (size_t)worldid * space.L4_size;
const Place* dofs = reinterpret_cast<const Place*>(space.dof.data);
const Four* const root = reinterpret_cast<const Four*>(space.root.data) + (size_t)worldid * space.nchunk * fours;
const auto fetch_factor = [&](int thread, int threads) {
#if defined(__CUDA_ARCH__)
    if (space.L4_size + space.nv > share_of) return;
    copy(mine, L4, space.L4_size, thread, threads);
    copy(mine + space.L4_size, reinterpret_cast<const Four*>(dofs), space.nv, thread, threads);
    L4 = mine;
    dofs = reinterpret_cast<const Place*>(mine + space.L4_size);
#endif
};
