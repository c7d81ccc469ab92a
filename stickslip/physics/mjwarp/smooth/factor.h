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
const auto lanes_each = [](int items) {  // lanes that share an item where there are few
    int group = 1;
    while (2 * group * items <= LANES) group *= 2;
    return group;
};
const auto factor = [&](float* H, float* Dinv) {  // H = L' D L in place, D on the diagonal; from the leaves inwards
    ROLLED for (int level = m.ndoflevel - 1; level >= 0; --level) {
        const int begin = TABLE(factor_adr)[level], items = TABLE(factor_adr)[level + 1] - begin;
        const int group = lanes_each(items), part = lane % group;
        ROLLED for (int k0 = 0; k0 < items; k0 += LANES / group) {
            const int k = k0 + lane / group;
            const int e = k < items ? TABLE(factor_elem)[begin + k] : 0, i = M_row[e];
            const int a = M_rownnz[i] - 1, b = e - M_rowadr[i];
            float sum = 0.0f;
            if (k < items) {  // rows below i lie after it
                for (int row = i + 1 + part; row < TABLE(dof_end)[i]; row += group) {
                    const float* const below = H + M_rowadr[row];
                    sum += below[a] * below[b] * Dinv[row];
                }
            }
            sum = sum_lanes(sum, group);
            if (k < items && part == 0) {
                const float value = H[e] - sum;
                H[e] = value;
                if (a == b) Dinv[i] = 1.0f / value;
            }
        }
        SYNC();
    }
    EACH(e, nC) {
        if (M_colind[e] != M_row[e]) H[e] *= Dinv[M_row[e]];
    }
    SYNC();
};
const auto solve = [&](const float* L, const float* Dinv, float* x) {  // x becomes H^-1 x
    ROLLED for (int level = m.ndoflevel - 1; level >= 0; --level) {
        const int begin = TABLE(dof_level_adr)[level], items = TABLE(dof_level_adr)[level + 1] - begin;
        const int group = lanes_each(items), part = lane % group;
        ROLLED for (int k0 = 0; k0 < items; k0 += LANES / group) {
            const int k = k0 + lane / group, i = k < items ? TABLE(dof_level)[begin + k] : 0;
            float sum = 0.0f;
            if (k < items) {
                for (int row = i + 1 + part; row < TABLE(dof_end)[i]; row += group) {
                    sum += L[M_rowadr[row] + level] * x[row];
                }
            }
            sum = sum_lanes(sum, group);
            if (k < items && part == 0) x[i] -= sum;
        }
        SYNC();
    }
    ROLLED for (int level = 0; level < m.ndoflevel; ++level) {
        const int begin = TABLE(dof_level_adr)[level], items = TABLE(dof_level_adr)[level + 1] - begin;
        EACH(k, items) {
            const int i = TABLE(dof_level)[begin + k], adr = M_rowadr[i];
            float value = x[i] * Dinv[i];
            for (int a = 0; a < level; ++a) value -= L[adr + a] * x[M_colind[adr + a]];
            x[i] = value;
        }
        SYNC();
    }
};
