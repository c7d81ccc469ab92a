// What `build.h` and `sweep.h` begin with: lanes, chunks of dofs, and rows in contact space.
//
// With H = L' D L, row r of the Jacobian becomes z_r = D^-1/2 L'^-1 J_r', so that J_r H^-1 J_s' = z_r . z_s. L has no
// fill-in: z_r is zero but for the dofs that move the bodies of the row, and those above them in their trees. Dofs come
// in chunks of four or a multiple; a row has a mask of chunks, and only these are stored, one after the other.
//
// Before this text come `Mask`, an unsigned integer with a bit for each chunk, and the constants: lanes, chunks (of a
// lane), fours (vectors of four in a chunk), contact_rows, contact_record, block_record, equality_record, shared_fours,
// block_threads, rough, tiny, and those of each function.
//
// Worlds that share a warp run in step: all take the same branches around anything that waits for other lanes, and those
// that have nothing to do there do it without effect.
#if defined(__CUDA_ARCH__)
#define COUNT_BITS(m) (sizeof(Mask) > 4 ? __popcll(m) : __popc((unsigned)(m)))
#define FROM_LANE(v, source) __shfl_sync(0xffffffffu, v, source, lanes)
#define MOST_IN_WARP(v) __reduce_max_sync(0xffffffffu, v)
#define HIGHEST_BIT(m) (sizeof(Mask) > 4 ? 63 - __clzll(m) : 31 - __clz((unsigned)(m)))
#define LOWEST_BIT(m) (sizeof(Mask) > 4 ? __ffsll(m) - 1 : __ffs((unsigned)(m)) - 1)
#define COUNT_ALL(acts) __popc(__ballot_sync(0xffffffffu, acts))
#define COUNT_BEFORE(acts) __popc(__ballot_sync(0xffffffffu, acts) & ((1u << lane) - 1))
#define SYNC() __syncwarp()
#define UNROLLED _Pragma("unroll")
#define ROLLED _Pragma("unroll 1")
#define ROOT(a) rsqrtf(a)
#define DIVIDE(a, b) __fdividef(a, b)
#else
#define COUNT_BITS(m) __builtin_popcountll(m)
#define FROM_LANE(v, source) (v)
#define MOST_IN_WARP(v) (v)
#define HIGHEST_BIT(m) (63 - __builtin_clzll(m))
#define LOWEST_BIT(m) __builtin_ctzll(m)
#define COUNT_ALL(acts) ((acts) ? 1 : 0)
#define COUNT_BEFORE(acts) 0
#define SYNC()
#define UNROLLED
#define ROLLED
#define ROOT(a) (1.0f / wp::sqrt(a))
#define DIVIDE(a, b) ((a) / (b))
#endif
constexpr int most_chunks = 8 * sizeof(Mask);
#if defined(__CUDA_ARCH__)
struct alignas(16) Four { float x, y, z, w; };
const auto dot = [](const Four& a, const Four& b) { return (a.x * b.x + a.y * b.y) + (a.z * b.z + a.w * b.w); };
const auto add = [](Four& a, float s, const Four& b) { a.x += s * b.x; a.y += s * b.y; a.z += s * b.z; a.w += s * b.w; };
const auto part = [](const Four& a, int m) { return m == 0 ? a.x : m == 1 ? a.y : m == 2 ? a.z : a.w; };
#else
typedef float Four __attribute__((ext_vector_type(4)));  // one register
const auto total = [](Four a) { return (a.x + a.y) + (a.z + a.w); };
const auto dot = [&](Four a, Four b) { return total(a * b); };
const auto add = [](Four& a, float s, Four b) { a += s * b; };
const auto part = [](Four a, int m) { return a[m]; };
#endif
const Four zero = {0.0f, 0.0f, 0.0f, 0.0f};
const auto bits = [](float value) { union { float f; int i; } u; u.f = value; return u.i; };
const auto keep_bits = [](int value) { union { int i; float f; } u; u.i = value; return u.f; };
const auto mask_of = [&](float low, float high) {
    return sizeof(Mask) > 4 ? (Mask)((unsigned long long)(unsigned)bits(low) | (unsigned long long)(unsigned)bits(high) << 32)
                            : (Mask)(unsigned)bits(low);
};
#if defined(__CUDA_ARCH__)
const auto least_of = [](float a, float b) { return fminf(a, b); };
const auto most_of = [](float a, float b) { return fmaxf(a, b); };
const auto add_dot = [](float& sum, const Four& a, const Four& b) {
    sum = fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
};
#else
const auto least_of = [](float a, float b) { return a < b ? a : b; };
const auto most_of = [](float a, float b) { return a > b ? a : b; };
#endif
const auto clamp = [&](float v, float a, float b) { return least_of(most_of(v, a), b); };
// Shared memory of this world, on CUDA, and copies to it. They have arrived after `arrive`.
#if defined(__CUDA_ARCH__)
__shared__ Four room[shared_fours];
constexpr int share_of = shared_fours * lanes / block_threads;
Four* const mine = room + threadIdx.x / lanes * share_of;
const auto copy = [&](Four* to, const Four* from, int count) {
    for (int n = lane; n < count; n += lanes) {
#if __CUDA_ARCH__ >= 800
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to + n)), "l"(from + n));
#else
        to[n] = from[n];
#endif
    }
};
const auto copy_floats = [&](float* to, const float* from, int count) {
    for (int n = lane; n < count; n += lanes) {
#if __CUDA_ARCH__ >= 800
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((unsigned)__cvta_generic_to_shared(to + n)), "l"(from + n));
#else
        to[n] = from[n];
#endif
    }
};
#endif
const auto arrive = [&]() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
    SYNC();
};
// The sum over this lane and those before it.
const auto sum_up_to = [&](int value) {
#if defined(__CUDA_ARCH__)
    for (int o = 1; o < lanes; o *= 2) {
        const int other = __shfl_up_sync(0xffffffffu, value, o);
        if (lane >= o) value += other;
    }
#endif
    return value;
};
// The factor L by chunks, and where the row of each dof begins with which chunks; in shared memory where they fit.
struct alignas(16) Place { int adr; int low; int high; int unused; };
const auto chunks_at = [&](const Place& place) { return mask_of(keep_bits(place.low), keep_bits(place.high)); };
const Four* L4 = reinterpret_cast<const Four*>(space.L4.data) + (size_t)worldid * space.L4_size;
const Place* dofs = reinterpret_cast<const Place*>(space.dof.data);
const Four* const root = reinterpret_cast<const Four*>(space.root.data) + (size_t)worldid * space.nchunk * fours;
const auto fetch_factor = [&]() {
#if defined(__CUDA_ARCH__)
    if (space.L4_size + space.nv > share_of) return;
    copy(mine, L4, space.L4_size);
    copy(mine + space.L4_size, reinterpret_cast<const Four*>(dofs), space.nv);
    L4 = mine;
    dofs = reinterpret_cast<const Place*>(mine + space.L4_size);
#endif
};
