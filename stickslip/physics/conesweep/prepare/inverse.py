"""The inverse of the integrator's matrix, tree by tree: small ones by one lane, large ones by a block of threads."""

import functools

import warp as wp

from stickslip.physics.conesweep.layout import Tree, Work

wp.set_module_options({"enable_backward": False})

SMALL_TREE = wp.constant(8)
"""Most dofs of a tree whose matrix one lane inverts; larger ones are inverted by a block of threads each."""
ON_CHIP = 96
"""Most dofs of a tree whose matrix fits into the shared memory of a block."""


@wp.struct
class Matrix:
    """The integrator's matrix in MuJoCo Warp's sparse layout."""

    M_rownnz: wp.array[int]
    M_rowadr: wp.array[int]
    M_colind: wp.array[int]
    H: wp.array2d[float]


@wp.func
def invert_small(matrix: Matrix, inverse: wp.array2d[float], worldid: int, dofadr: int, n: int, base: int, width: int):
    """Gauss and Jordan's elimination in place, by one lane. H is positive definite, so there is no pivoting."""
    for row in range(n):
        dofid = dofadr + row
        for j in range(row):
            inverse[worldid, base + row * width + j] = 0.0
            inverse[worldid, base + j * width + row] = 0.0
        for k in range(matrix.M_rownnz[dofid]):
            col = matrix.M_colind[matrix.M_rowadr[dofid] + k] - dofadr
            value = matrix.H[worldid, matrix.M_rowadr[dofid] + k]
            inverse[worldid, base + row * width + col] = value
            inverse[worldid, base + col * width + row] = value
    for k in range(n):
        pivot = 1.0 / inverse[worldid, base + k * width + k]
        for i in range(n):
            if i != k:
                factor = inverse[worldid, base + i * width + k] * pivot
                for j in range(n):
                    if j != k:
                        at = base + i * width + j
                        inverse[worldid, at] = inverse[worldid, at] - factor * inverse[worldid, base + k * width + j]
        for i in range(n):
            if i != k:
                inverse[worldid, base + k * width + i] = inverse[worldid, base + k * width + i] * pivot
                inverse[worldid, base + i * width + k] = inverse[worldid, base + i * width + k] * -pivot
        inverse[worldid, base + k * width + k] = pivot


@wp.func
def invert_six(matrix: Matrix, inverse: wp.array2d[float], worldid: int, dofadr: int, base: int, width: int):
    """Six dofs, a free body in most cases: by blocks of three."""
    full = wp.spatial_matrix()
    for row in range(6):
        adr = matrix.M_rowadr[dofadr + row]
        for k in range(matrix.M_rownnz[dofadr + row]):
            col = matrix.M_colind[adr + k] - dofadr
            value = matrix.H[worldid, adr + k]
            for c in range(6):  # constant indices keep the matrix in registers
                if c == col:
                    full[row, c] = value
                    full[c, row] = value
    A = wp.mat33()
    B = wp.mat33()
    C = wp.mat33()
    for r in range(3):
        for c in range(3):
            A[r, c] = full[r, c]
            B[r, c] = full[r, c + 3]
            C[r, c] = full[r + 3, c + 3]
    invA = wp.inverse(A)
    AB = invA @ B
    invS = wp.inverse(C - wp.transpose(B) @ AB)
    off = -1.0 * (AB @ invS)
    top = invA - off @ wp.transpose(AB)
    for r in range(3):
        for c in range(3):
            inverse[worldid, base + r * width + c] = top[r, c]
            inverse[worldid, base + r * width + c + 3] = off[r, c]
            inverse[worldid, base + (r + 3) * width + c] = off[c, r]
            inverse[worldid, base + (r + 3) * width + c + 3] = invS[r, c]


@wp.func
def invert_small_trees(tree: Tree, matrix: Matrix, work: Work, worldid: int, lane: int, nlane: int):
    """Invert H tree by tree, those of up to SMALL_TREE dofs."""
    for t in range(lane, tree.ntree, nlane):
        n = tree.tree_dofnum[t]
        base = tree.tree_inverse[t]
        width = tree.tree_width[t]
        if n == 6:
            invert_six(matrix, work.inverse, worldid, tree.tree_dofadr[t], base, width)
        elif n <= SMALL_TREE:
            invert_small(matrix, work.inverse, worldid, tree.tree_dofadr[t], n, base, width)


_INVERT = """
#if defined(__CUDA_ARCH__)
const int lane = threadIdx.x, threads = blockDim.x;
#define ALL_DONE() __syncthreads()
#else
const int lane = 0, threads = 1;
#define ALL_DONE()
#endif
const int n = tree.tree_dofnum.data[t];
const int dofadr = tree.tree_dofadr.data[t];
const float* H = matrix.H.data + (size_t)worldid * (matrix.H.strides[0] / sizeof(float));
float* out = work.inverse.data + (size_t)worldid * (work.inverse.strides[0] / sizeof(float));
out += tree.tree_inverse.data[t];
const int width = tree.tree_width.data[t];
float* a = out;
int stride = width;
#if defined(__CUDA_ARCH__)
__shared__ float room[ROOM];
if (ROOM > 1) {
    a = room;
    stride = n + 1;
}
#endif
for (int i = lane; i < n * stride; i += threads) a[i] = 0.0f;
ALL_DONE();
for (int row = lane; row < n; row += threads) {
    const int adr = matrix.M_rowadr.data[dofadr + row];
    const int nnz = matrix.M_rownnz.data[dofadr + row];
    for (int k = 0; k < nnz; ++k) {
        const int col = matrix.M_colind.data[adr + k] - dofadr;
        a[row * stride + col] = H[adr + k];
        a[col * stride + row] = H[adr + k];
    }
}
ALL_DONE();
for (int k = 0; k < n; ++k) {
    const float pivot = 1.0f / a[k * stride + k];
#if defined(__CUDA_ARCH__)
    for (int col = lane; col < n; col += threads) {
        if (col == k) continue;
        const float scaled = a[k * stride + col] * pivot;
        #pragma unroll 8
        for (int row = 0; row < n; ++row)
            if (row != k) a[row * stride + col] -= a[row * stride + k] * scaled;
    }
#else
    for (int row = 0; row < n; ++row) {
        if (row == k) continue;
        const float kept = a[row * stride + k];
        const float scaled = kept * pivot;
        for (int col = 0; col < n; ++col) a[row * stride + col] -= a[k * stride + col] * scaled;
        a[row * stride + k] = kept;
    }
#endif
    ALL_DONE();
    for (int i = lane; i < n; i += threads) {
        if (i == k) a[k * stride + k] = pivot;
        else {
            a[k * stride + i] *= pivot;
            a[i * stride + k] *= -pivot;
        }
    }
    ALL_DONE();
}
if (a != out)
    for (int i = lane; i < n * n; i += threads) out[i / n * width + i % n] = a[i / n * stride + i % n];
#undef ALL_DONE
"""


@functools.cache
def large_inverse(size: int) -> wp.Function:
    """The function that inverts H of a tree of up to `size` dofs, on CUDA by a block of threads, a column each.

    Gauss and Jordan's elimination in the shared memory of the block where the matrix fits, otherwise where the inverse
    goes.
    """
    room = size * (size + 1) if size <= ON_CHIP else 1

    @wp.func_native(_INVERT.replace("ROOM", str(room)))
    def invert(tree: Tree, matrix: Matrix, work: Work, worldid: int, t: int): ...

    return invert


@functools.cache
def invert_kernel(size: int) -> wp.Kernel:
    """`invert` for large trees of up to `size` dofs."""

    invert = large_inverse(size)

    @wp.kernel(module="unique", enable_backward=False)
    def _invert(nlane: int, tree: Tree, matrix: Matrix, work: Work):
        block = wp.tid() / nlane
        invert(tree, matrix, work, block / tree.nlarge, tree.large[block % tree.nlarge])

    return _invert
