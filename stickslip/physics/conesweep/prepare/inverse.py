"""The inverse of the integrator's matrix for free bodies."""

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.struct
class Matrix:
    """The integrator's matrix in MuJoCo Warp's sparse layout, and its factors, H = L' D L."""

    M_rownnz: wp.array[int]
    M_rowadr: wp.array[int]
    H: wp.array2d[float]
    L: wp.array2d[float]
    Dinv: wp.array2d[float]


LARGE = wp.constant(1.0e9)
"""Numbers from 1 / LARGE to this have a determinant that single precision can hold; others are scaled first."""


@wp.func
def inverse_of_inertia(matrix: wp.mat33) -> wp.mat33:
    """The inverse of a positive definite matrix, however large or small its numbers are."""
    size = wp.trace(matrix)
    scale = float(1.0)
    if size > LARGE or size * LARGE < 1.0:
        scale = wp.pow(2.0, -wp.floor(wp.log2(size)))
    return scale * wp.inverse(scale * matrix)


@wp.func
def invert_six(matrix: Matrix, worldid: int, dofadr: int) -> wp.spatial_matrix:
    """Six dofs by blocks of three."""
    full = wp.spatial_matrix()
    for row in range(6):
        adr = matrix.M_rowadr[dofadr + row]
        count = matrix.M_rownnz[dofadr + row]
        for k in range(count):
            col = row + 1 - count + k  # dofs before it, or none; itself last
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
    invA = inverse_of_inertia(A)
    AB = invA @ B
    invS = inverse_of_inertia(C - wp.transpose(B) @ AB)
    off = -1.0 * (AB @ invS)
    top = invA - off @ wp.transpose(AB)
    inverse = wp.spatial_matrix()
    for r in range(3):
        for c in range(3):
            inverse[r, c] = top[r, c]
            inverse[r, c + 3] = off[r, c]
            inverse[r + 3, c] = off[c, r]
            inverse[r + 3, c + 3] = invS[r, c]
    return inverse
