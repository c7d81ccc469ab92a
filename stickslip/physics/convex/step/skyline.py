"""Cholesky of a matrix that is stored row by row from its first entry on: what lies before it stays zero.

Row i of world w starts at column `first[w, i]`; entry (i, j) stands at `adr[w, i] + j`; `last[w, j]` is the last row
that has a column j. The rows of a tree start at the same column. Rows that begin together, and reach no further back,
are a matrix of their own. The diagonal of the factor holds the reciprocals of
its entries. On CUDA the lanes of an island make it six columns at a time, on the CPU two rows and two columns.
"""

import warp as wp

wp.set_module_options({"enable_backward": False})

_ROWS = """
double* const L = factor.data + (size_t)worldid * (factor.strides[0] / sizeof(double));
const int* const f = first.data + (size_t)worldid * (first.strides[0] / sizeof(int));
const int* const a = adr.data + (size_t)worldid * (adr.strides[0] / sizeof(int));
#if defined(__CUDA_ARCH__)
const int* const z = last.data + (size_t)worldid * (last.strides[0] / sizeof(int));
#define SYNC_LANES if (nlane > 32) __syncthreads(); else __syncwarp();
#endif
"""

_FACTOR = (
    _ROWS
    + """
#if defined(__CUDA_ARCH__)
int j0 = begin;
while (j0 < end) {
    int count = 1;
    #pragma unroll 1
    while (count < 6 && j0 + count < end && f[j0 + count] == f[j0]) ++count;
    const double* col[6];
    #pragma unroll
    for (int c = 0; c < 6; ++c) col[c] = L + a[j0 + (c < count ? c : 0)];
    const int fj = f[j0], bottom = z[j0 + count - 1];
    // what the columns before take off these
    #pragma unroll 1
    for (int i = j0 + lane; i <= bottom; i += nlane) {
        const int fi = f[i];
        if (fi >= j0 + count) continue;
        double* const Li = L + a[i];
        double s[6] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
        #pragma unroll 2
        for (int k = fi > fj ? fi : fj; k < j0; ++k) {
            const double x = Li[k];
            #pragma unroll
            for (int c = 0; c < 6; ++c) s[c] += x * col[c][k];
        }
        #pragma unroll
        for (int c = 0; c < 6; ++c)
            if (c < count && j0 + c <= i && j0 + c >= fi) Li[j0 + c] -= s[c];
    }
    SYNC_LANES
    // one column after the other among themselves; their own rows are scaled at the end, when all have read them
    #pragma unroll 1
    for (int j = j0; j < j0 + count; ++j) {
        const double pivot = L[a[j] + j];
        const double d = rsqrt(pivot > least ? pivot : least);
        #pragma unroll 1
        for (int i = j + 1 + lane; i <= bottom; i += nlane) {
            if (f[i] > j) continue;
            double* const Li = L + a[i];
            const double l = Li[j] * d;
            if (i >= j0 + count) Li[j] = l;
            #pragma unroll 1
            for (int k = j + 1; k < j0 + count && k <= i; ++k) Li[k] -= l * d * L[a[k] + j];
        }
        SYNC_LANES
        if (lane == 0) L[a[j] + j] = d;
    }
    SYNC_LANES
    if (lane < count) {
        double* const Li = L + a[j0 + lane];
        #pragma unroll 1
        for (int k = j0; k < j0 + lane; ++k) Li[k] *= L[a[k] + k];
    }
    SYNC_LANES
    j0 += count;
}
#else
typedef double pair __attribute__((vector_size(16), aligned(8)));
int i = begin;
while (i < end) {
    const bool two = i + 1 < end && f[i + 1] == f[i];
    double* const p = L + a[i];
    double* const q = two ? L + a[i + 1] : p;
    const int fi = f[i];
    int j = fi;
    while (j < i) {
        const double* const u = L + a[j];
        const bool twin = j + 1 < i && f[j + 1] == f[j];
        const double* const v = twin ? L + a[j + 1] : u;
        int k = fi > f[j] ? fi : f[j];
        pair pu = {0.0, 0.0}, pv = pu, qu = pu, qv = pu;
        for (; k + 1 < j; k += 2) {
            const pair x = *(const pair*)(p + k), y = *(const pair*)(q + k);
            const pair s = *(const pair*)(u + k), t = *(const pair*)(v + k);
            pu += x * s; pv += x * t; qu += y * s; qv += y * t;
        }
        double rest[4] = {pu[0] + pu[1], pv[0] + pv[1], qu[0] + qu[1], qv[0] + qv[1]};
        if (k < j) {
            rest[0] += p[k] * u[k]; rest[1] += p[k] * v[k]; rest[2] += q[k] * u[k]; rest[3] += q[k] * v[k];
        }
        const double l = (p[j] - rest[0]) * u[j];
        p[j] = l;
        double m = l;
        if (two) { m = (q[j] - rest[2]) * u[j]; q[j] = m; }
        if (twin) {
            p[j + 1] = (p[j + 1] - rest[1] - l * v[j]) * v[j + 1];
            if (two) q[j + 1] = (q[j + 1] - rest[3] - m * v[j]) * v[j + 1];
        }
        j += twin ? 2 : 1;
    }
    double d = p[i], c = 0.0, e = 0.0;
    if (two) { c = q[i]; e = q[i + 1]; }
    for (int k = fi; k < i; ++k) { d -= p[k] * p[k]; if (two) { c -= q[k] * p[k]; e -= q[k] * q[k]; } }
    p[i] = 1.0 / sqrt(d > least ? d : least);
    if (two) {
        q[i] = c * p[i];
        e -= q[i] * q[i];
        q[i + 1] = 1.0 / sqrt(e > least ? e : least);
    }
    i += two ? 2 : 1;
}
#endif
"""
)


@wp.func_native(_FACTOR)
def factorize(
    factor: wp.array2d[wp.float64],
    first: wp.array2d[int],
    adr: wp.array2d[int],
    last: wp.array2d[int],
    begin: int,
    end: int,
    least: wp.float64,
    worldid: int,
    lane: int,
    nlane: int,
):
    """Factor rows `begin` to `end` in place: L L' of the lower triangle. A pivot below `least` becomes `least`."""
    ...


_SOLVE = (
    _ROWS
    + """
double* const b = x.data + (size_t)worldid * (x.strides[0] / sizeof(double));
#if defined(__CUDA_ARCH__)
// what is found is written a step later, when all lanes have read what stood there
double y = 0.0;
#pragma unroll 1
for (int j = begin; j < end; ++j) {
    if (j > begin && lane == 0) b[j - 1] = y;
    y = b[j] * L[a[j] + j];
    #pragma unroll 1
    for (int i = j + 1 + lane; i <= z[j]; i += nlane)
        if (f[i] <= j) b[i] -= L[a[i] + j] * y;
    SYNC_LANES
}
#pragma unroll 1
for (int j = end - 1; j >= begin; --j) {
    const double* const p = L + a[j];
    y = (j == end - 1 ? y : b[j]) * p[j];
    #pragma unroll 1
    for (int k = f[j] + lane; k < j; k += nlane) b[k] -= p[k] * y;
    SYNC_LANES
    if (lane == 0) b[j] = y;
}
SYNC_LANES
#else
typedef double pair __attribute__((vector_size(16), aligned(8)));
for (int i = begin; i < end; ++i) {
    const double* const p = L + a[i];
    pair s = {0.0, 0.0}, t = s;
    int k = f[i];
    for (; k + 3 < i; k += 4) {
        s += *(const pair*)(p + k) * *(const pair*)(b + k);
        t += *(const pair*)(p + k + 2) * *(const pair*)(b + k + 2);
    }
    s += t;
    double rest = s[0] + s[1];
    for (; k < i; ++k) rest += p[k] * b[k];
    b[i] = (b[i] - rest) * p[i];
}
for (int i = end - 1; i >= begin; --i) {
    const double* const p = L + a[i];
    const double y = b[i] * p[i];
    b[i] = y;
    for (int k = f[i]; k < i; ++k) b[k] -= p[k] * y;
}
#endif
"""
)


@wp.func_native(_SOLVE)
def substitute(
    factor: wp.array2d[wp.float64],
    first: wp.array2d[int],
    adr: wp.array2d[int],
    last: wp.array2d[int],
    x: wp.array2d[wp.float64],
    begin: int,
    end: int,
    worldid: int,
    lane: int,
    nlane: int,
):
    """x becomes (L L')^-1 x, from `begin` to `end`."""
    ...
