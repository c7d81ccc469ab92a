// M or H in its sparse structure, factored and solved by the lanes of one world; put before `smooth.h`, and into the
// native functions of factor.py. A row has the ancestors of its dof, itself last, so that the place of an ancestor in a
// row is its number of ancestors, and L has the structure of M (Featherstone, Rigid Body Dynamics Algorithms, 6.5).
//
// Arguments: `m` with the tables named below, `thread`. SYNC separates what lanes write from what others read.
#if defined(__CUDA_ARCH__)
#define SYNC() __syncwarp()
constexpr int LANES = 32;
#else
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
// Groups of lanes take trees, and their dofs one after the other. What a dof reads of the structure of M is fetched while the
// one before it is done: memory is far away, and only what other lanes have written has to be waited for.
struct alignas(16) Link { int dof, adr, last, end; };  // its row, the place of its diagonal there, one past the last dof below
const int width = LANES / m.ngroup, part = lane % width, first_link = TABLE(link_adr)[lane / width];
const int nlink = TABLE(link_adr)[lane / width + 1] - first_link;
const auto link_at = [&](int n) {  // none before the first and after the last
    Link link = reinterpret_cast<const Link*>(m.link)[first_link + wp::max(wp::min(n, nlink - 1), 0)];
    if (n < 0 || n >= nlink) link.last = link.end = 0;
    return link;
};
const auto pair_at = [](int p, int& a, int& c) {  // pairs c <= a one after the other
    a = static_cast<int>(0.5f * (sqrtf(8.0f * p + 1.0f) - 1.0f));
    a += (a + 1) * (a + 2) / 2 <= p ? 1 : a * (a + 1) / 2 > p ? -1 : 0;
    c = p - a * (a + 1) / 2;
};
const auto factor = [&](float* H, float* Dinv) {  // H = L' D L in place, D on the diagonal; from the leaves inwards
    int a0, c0;
    pair_at(part, a0, c0);
    Link link = link_at(0);
    int above = a0 < link.last ? TABLE(M_above)[link.adr + a0] : 0;
    ROLLED for (int n = 0; n < m.nlink; ++n) {
        const Link next = link_at(n + 1);
        const int next_above = a0 < next.last ? TABLE(M_above)[next.adr + a0] : 0;
        float* const row = H + link.adr;
        const int last = link.last;
        const float inverse = 1.0f / row[last];
        if (a0 < last) H[above + c0] -= row[a0] * inverse * row[c0];  // the row of an ancestor has the same ancestors
        ROLLED for (int p = part + width; p < last * (last + 1) / 2; p += width) {
            int a, c;
            pair_at(p, a, c);
            H[TABLE(M_above)[link.adr + a] + c] -= row[a] * inverse * row[c];
        }
        SYNC();
        ROLLED for (int e = part; e < last; e += width) row[e] *= inverse;
        if (part == 0 && n < nlink) Dinv[link.dof] = inverse;
        link = next;
        above = next_above;
    }
    SYNC();
};
const auto solve = [&](const float* L, const float* Dinv, float* x) {  // x becomes H^-1 x
    Link link = link_at(0);
    int at = part < link.last ? M_colind[link.adr + part] : 0;
    ROLLED for (int n = 0; n < m.nlink; ++n) {
        const Link next = link_at(n + 1);
        const int next_at = part < next.last ? M_colind[next.adr + part] : 0;
        const float value = x[link.dof];
        if (part < link.last) x[at] -= L[link.adr + part] * value;
        ROLLED for (int e = part + width; e < link.last; e += width) x[M_colind[link.adr + e]] -= L[link.adr + e] * value;
        SYNC();
        link = next;
        at = next_at;
    }
    EACH(v, nv) x[v] *= Dinv[v];
    SYNC();
    link = link_at(nlink - 1);
    at = link.dof + 1 + part < link.end ? M_rowadr[link.dof + 1 + part] : 0;
    ROLLED for (int n = 0; n < m.nlink; ++n) {
        const Link next = link_at(nlink - 2 - n);
        const int next_at = next.dof + 1 + part < next.end ? M_rowadr[next.dof + 1 + part] : 0;
        const float value = x[link.dof];
        if (link.dof + 1 + part < link.end) x[link.dof + 1 + part] -= L[at + link.last] * value;
        ROLLED for (int i = link.dof + 1 + part + width; i < link.end; i += width) {
            x[i] -= L[M_rowadr[i] + link.last] * value;
        }
        SYNC();
        link = next;
        at = next_at;
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
