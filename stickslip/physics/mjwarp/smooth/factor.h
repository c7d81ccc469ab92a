// M or H in its sparse structure, factored and solved by the lanes of one world; put before `smooth.h`, and into the
// native functions of factor.py. A row has the ancestors of its dof, itself last, so that the place of an ancestor in a
// row is its number of ancestors, and L has the structure of M (Featherstone, Rigid Body Dynamics Algorithms, 6.5).
//
// Arguments: `m` with the tables named below, `thread`. SYNC separates what lanes write from what others read.
#if defined(__CUDA_ARCH__)
#define SYNC() __syncwarp()
constexpr int LANES = 32;
#else
#pragma clang fp contract(fast)  // a multiplication and an addition at once, as on CUDA
#define SYNC()
constexpr int LANES = 1;
#endif
#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
// Numbers below 1e-38 count as zero: products of small velocities get there, and each takes a hundred times as long.
struct Flush {
    const unsigned before = __builtin_ia32_stmxcsr();
    Flush() { __builtin_ia32_ldmxcsr(before | 0x8040); }
    ~Flush() { __builtin_ia32_ldmxcsr(before); }
};
const Flush flush;
#endif
#define TABLE(name) reinterpret_cast<const int*>(m.name)
#define ROLLED _Pragma("unroll 1")  // code of a long pass once, for the cache of instructions
#define EACH(i, n) ROLLED for (int i = lane; i < (n); i += LANES)
const int world = thread / LANES, lane = thread - world * LANES;
const int nv = m.nv, nC = m.nC;
const int* const M_rownnz = TABLE(M_rownnz);
const int* const M_rowadr = TABLE(M_rowadr);
const int* const M_colind = TABLE(M_colind);
const int* const M_row = TABLE(M_row);
const auto sum_lanes = [](float value, int group) {
#if defined(__CUDA_ARCH__)
    for (int o = group / 2; o > 0; o /= 2) value += __shfl_xor_sync(0xffffffffu, value, o);
#endif
    return value;
};
#if defined(__CUDA_ARCH__)
// Groups of lanes, as many as a power of two, take trees, and their dofs one after the other. Each lane has the link of one of
// the next dofs of its group.
struct alignas(16) Link { int dof, adr, last, end; };  // its row, the place of its diagonal there, one past the last dof below
const int width = LANES / m.ngroup, part = lane % width, first_link = TABLE(link_adr)[lane / width];
const int nlink = TABLE(link_adr)[lane / width + 1] - first_link;
const auto fetch_link = [&](int n) {  // none before the first and after the last
    Link link = reinterpret_cast<const Link*>(m.link)[first_link + wp::max(wp::min(n, nlink - 1), 0)];
    if (n < 0 || n >= nlink) link.last = link.end = 0;
    return link;
};
const auto link_of = [&](const Link& link, int n) {
    return Link{__shfl_sync(0xffffffffu, link.dof, n, width), __shfl_sync(0xffffffffu, link.adr, n, width),
                __shfl_sync(0xffffffffu, link.last, n, width), __shfl_sync(0xffffffffu, link.end, n, width)};
};
const auto pair_at = [](int p, int& a, int& c) {  // pairs c <= a one after the other
    a = static_cast<int>(0.5f * (sqrtf(8.0f * p + 1.0f) - 1.0f));
    a += (a + 1) * (a + 2) / 2 <= p ? 1 : a * (a + 1) / 2 > p ? -1 : 0;
    c = p - a * (a + 1) / 2;
};
const auto invert = [](float x) {
    const float y = __fdividef(1.0f, x);
    return y * (2.0f - x * y);
};
const auto factor = [&](float* H, float* Dinv) {  // H = L' D L in place, D on the diagonal; from the leaves inwards
    constexpr int slots = 3;  // pairs of ancestors that a lane takes at once
    int a[slots], c[slots];
    for (int i = 0; i < slots; ++i) pair_at(part + i * width, a[i], c[i]);
    Link links{};
    ROLLED for (int n = 0; n < m.nlink; ++n) {
        if ((n & (width - 1)) == 0) links = fetch_link(n + part);
        const Link link = link_of(links, n);
        const int last = link.last;
        float* const row = H + link.adr;
        const int* const above = TABLE(M_above) + link.adr;  // rows of ancestors, which have the same ancestors
        int to[slots];
        float value[slots];
        for (int i = 0; i < slots; ++i) {  // reads without branches
            to[i] = above[wp::min(a[i], last)] + wp::min(c[i], last);
            value[i] = row[wp::min(a[i], last)] * row[wp::min(c[i], last)];
        }
        const float inverse = invert(row[last]);
        for (int i = 0; i < slots; ++i) value[i] = H[to[i]] - value[i] * inverse;
        for (int i = 0; i < slots; ++i)
            if (a[i] < last) H[to[i]] = value[i];
        ROLLED for (int p = part + slots * width; p < last * (last + 1) / 2; p += width) {
            int i, j;
            pair_at(p, i, j);
            H[TABLE(M_above)[link.adr + i] + j] -= row[i] * row[j] * inverse;
        }
        if (part == 0 && n < nlink) Dinv[link.dof] = inverse;
        SYNC();
    }
    EACH(e, nC) {
        if (M_colind[e] != M_row[e]) H[e] *= Dinv[M_row[e]];
    }
    SYNC();
};
const auto solve = [&](const float* L, const float* Dinv, float* x) {  // x becomes H^-1 x
    Link links{};
    ROLLED for (int n = 0; n < m.nlink; ++n) {
        if ((n & (width - 1)) == 0) links = fetch_link(n + part);
        const Link link = link_of(links, n);
        const int e = wp::min(part, link.last), to = M_colind[link.adr + e];
        const float change = L[link.adr + e] * x[link.dof];
        if (part < link.last) x[to] -= change;
        ROLLED for (int k = link.adr + part + width; k < link.adr + link.last; k += width) {
            x[M_colind[k]] -= L[k] * x[link.dof];
        }
        SYNC();
    }
    EACH(v, nv) x[v] *= Dinv[v];
    SYNC();
    ROLLED for (int n = 0; n < m.nlink; ++n) {  // rows below a dof lie after it
        if ((n & (width - 1)) == 0) links = fetch_link(nlink - 1 - n - part);
        const Link link = link_of(links, n);
        const int below = wp::min(link.dof + 1 + part, nv - 1);
        const float change = L[M_rowadr[below] + wp::min(link.last, M_rownnz[below] - 1)] * x[link.dof];
        if (link.dof + 1 + part < link.end) x[below] -= change;
        ROLLED for (int i = below + width; i < link.end; i += width) x[i] -= L[M_rowadr[i] + link.last] * x[link.dof];
        SYNC();
    }
};
#else
const auto factor = [&](float* H, float* Dinv) {  // H = L' D L in place, D on the diagonal; from the leaves inwards
    for (int k = nv - 1; k >= 0; --k) {
        float* const row = H + M_rowadr[k];
        const int last = M_rownnz[k] - 1;
        const float inverse = 1.0f / row[last];
        Dinv[k] = inverse;
        for (int a = 0; a < last; ++a) {  // the row of an ancestor has the same ancestors
            float* const above = H + M_rowadr[M_colind[M_rowadr[k] + a]];
            const float share = row[a] * inverse;
            for (int c = 0; c <= a; ++c) above[c] -= share * row[c];
        }
        for (int a = 0; a < last; ++a) row[a] *= inverse;
    }
};
const auto solve = [&](const float* L, const float* Dinv, float* x) {  // x becomes H^-1 x
    for (int k = nv - 1; k >= 0; --k) {
        const int adr = M_rowadr[k], last = M_rownnz[k] - 1;
        for (int a = 0; a < last; ++a) x[M_colind[adr + a]] -= L[adr + a] * x[k];
    }
    for (int k = 0; k < nv; ++k) {
        const int adr = M_rowadr[k], last = M_rownnz[k] - 1;
        float value = x[k] * Dinv[k];
        for (int a = 0; a < last; ++a) value -= L[adr + a] * x[M_colind[adr + a]];
        x[k] = value;
    }
};
#endif
