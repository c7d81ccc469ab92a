"""The factor of a matrix along the tree."""

import mujoco_warp as mjw
import warp as wp

from stickslip.physics.mjwarp.model import Model

wp.set_module_options({"enable_backward": False})


@wp.kernel
def _factor_tree(
    # Model:
    nv: int,
    M_rownnz: wp.array[int],
    M_rowadr: wp.array[int],
    M_colind: wp.array[int],
    # In and out:
    L: wp.array2d[float],
):
    """H = L' D L in place: D on the diagonal, unit L below it."""
    worldid = wp.tid()
    for n in range(nv):
        k = nv - 1 - n
        adr = M_rowadr[k]
        nnz = M_rownnz[k] - 1
        pivot = L[worldid, adr + nnz]
        for a in range(nnz):
            i = nnz - 1 - a
            col = M_colind[adr + i]
            scaled = L[worldid, adr + i] / pivot
            # the row of an ancestor starts with the same columns as this row
            for j in range(i + 1):
                L[worldid, M_rowadr[col] + j] -= scaled * L[worldid, adr + j]
            L[worldid, adr + i] = scaled


def factor_tree(m: Model, d: mjw.Data, H: wp.array) -> wp.array:
    """H = L' D L in the sparse structure of M: row i of L holds the ancestors of dof i, its last entry D."""
    L = wp.clone(H)
    wp.launch(_factor_tree, dim=d.nworld, inputs=[m.nv, m.M_rownnz, m.M_rowadr, m.M_colind], outputs=[L])
    return L
