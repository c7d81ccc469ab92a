"""Cholesky of a matrix that is stored row by row from its first entry on: what lies before it stays zero.

Row i of world w starts at column `first[w, i]`; entry (i, j) stands at `adr[w, i] + j`. The diagonal of the factor holds
the reciprocals of its entries.
"""

import warp as wp

wp.set_module_options({"enable_backward": False})

_ROWS = """
double* const L = factor.data + (size_t)worldid * (factor.strides[0] / sizeof(double));
const int* const f = first.data + (size_t)worldid * (first.strides[0] / sizeof(int));
const int* const a = adr.data + (size_t)worldid * (adr.strides[0] / sizeof(int));
"""

_FACTOR = (
    _ROWS
    + """
#if defined(__CUDA_ARCH__)
for (int j = 0; j < n; ++j) {
    const double* const Lj = L + a[j];
    const int fj = f[j];
    for (int i = j + lane; i < n; i += nlane) {
        const int fi = f[i];
        if (fi > j) continue;
        double* const Li = L + a[i];
        double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
        int k = fi > fj ? fi : fj;
        for (; k + 3 < j; k += 4) {
            s0 += Li[k] * Lj[k]; s1 += Li[k + 1] * Lj[k + 1];
            s2 += Li[k + 2] * Lj[k + 2]; s3 += Li[k + 3] * Lj[k + 3];
        }
        for (; k < j; ++k) s0 += Li[k] * Lj[k];
        Li[j] -= (s0 + s1) + (s2 + s3);
    }
    if (nlane > 32) __syncthreads(); else __syncwarp();
    const double pivot = Lj[j] > least ? rsqrt(Lj[j]) : rsqrt(least);
    if (nlane > 32) __syncthreads(); else __syncwarp();
    for (int i = j + lane; i < n; i += nlane) {
        if (i == j) L[a[j] + j] = pivot;
        else if (f[i] <= j) L[a[i] + j] *= pivot;
    }
    if (nlane > 32) __syncthreads(); else __syncwarp();
}
#else
typedef double pair __attribute__((vector_size(16), aligned(8)));
int i = 0;
while (i < n) {
    const bool two = i + 1 < n && f[i + 1] == f[i];
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
    n: int,
    least: wp.float64,
    worldid: int,
    lane: int,
    nlane: int,
):
    """Factor in place: L L' of the lower triangle. A pivot below `least` becomes `least`."""
    ...


_SOLVE = (
    _ROWS
    + """
double* const b = x.data + (size_t)worldid * (x.strides[0] / sizeof(double));
#if defined(__CUDA_ARCH__)
for (int j = 0; j < n; ++j) {
    const double y = b[j] * L[a[j] + j];
    for (int i = j + 1 + lane; i < n; i += nlane)
        if (f[i] <= j) b[i] -= L[a[i] + j] * y;
    if (nlane > 32) __syncthreads(); else __syncwarp();
    if (lane == 0) b[j] = y;
}
if (nlane > 32) __syncthreads(); else __syncwarp();
for (int i = n - 1; i >= 0; --i) {
    const double y = b[i] * L[a[i] + i];
    if (nlane > 32) __syncthreads(); else __syncwarp();
    for (int k = f[i] + lane; k < i; k += nlane) b[k] -= L[a[i] + k] * y;
    if (lane == 0) b[i] = y;
    if (nlane > 32) __syncthreads(); else __syncwarp();
}
#else
typedef double pair __attribute__((vector_size(16), aligned(8)));
for (int i = 0; i < n; ++i) {
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
for (int i = n - 1; i >= 0; --i) {
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
    x: wp.array2d[wp.float64],
    n: int,
    worldid: int,
    lane: int,
    nlane: int,
):
    """x becomes (L L')^-1 x."""
    ...
