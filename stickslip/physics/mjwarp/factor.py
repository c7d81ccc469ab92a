"""The sparse factors of a matrix with the structure of M: M = L' D L, which has no fill-in."""

import mujoco_warp as mjw
import warp as wp

from stickslip.physics.mjwarp.lanes import WARP

wp.set_module_options({"enable_backward": False})


@wp.func_native("""
#if defined(__CUDA_ARCH__)
#define ALL_DONE() __syncwarp()
#else
#define ALL_DONE()
#endif
const float* const in = M.data + (size_t)worldid * (M.strides[0] / sizeof(float));
float* const out = L.data + (size_t)worldid * (L.strides[0] / sizeof(float));
float* const inverses = Dinv.data + (size_t)worldid * (Dinv.strides[0] / sizeof(float));
const int* const rowadr = M_rowadr.data;
const int* const colind = M_colind.data;
for (int e = lane; e < L.shape.dims[1]; e += nlane) out[e] = in[e];
ALL_DONE();
for (int k = nv - 1; k >= 0; --k) {
    const float* const row = out + rowadr[k];
    const int* const above = colind + rowadr[k];
    const int last = M_rownnz.data[k] - 1;
    const float inverse = 1.0f / row[last];
#if defined(__CUDA_ARCH__)
    for (int p = lane; p < last * (last + 1) / 2; p += nlane) {  // rows of the ancestors, none of which is the row itself
        int a = (int)((sqrtf(8.0f * p + 1.0f) - 1.0f) * 0.5f);
        while ((a + 1) * (a + 2) / 2 <= p) ++a;
        while (a * (a + 1) / 2 > p) --a;
        const int b = p - a * (a + 1) / 2;
        out[rowadr[above[a]] + b] -= row[a] * inverse * row[b];
    }
#else
    for (int a = 0; a < last; ++a) {
        float* const to = out + rowadr[above[a]];
        const float scaled = row[a] * inverse;
        for (int b = 0; b <= a; ++b) to[b] -= scaled * row[b];
    }
#endif
    ALL_DONE();
    for (int a = lane; a < last; a += nlane) out[rowadr[k] + a] *= inverse;
    if (lane == 0) inverses[k] = inverse;
    ALL_DONE();
}
#undef ALL_DONE
""")
def factor_world(
    nv: int,
    M_rownnz: wp.array[int],
    M_rowadr: wp.array[int],
    M_colind: wp.array[int],
    M: wp.array2d[float],
    L: wp.array2d[float],
    Dinv: wp.array2d[float],
    worldid: int,
    lane: int,
    nlane: int,
):
    """M = L' D L of one world by a few lanes; a row of M has the ancestors of its dof, itself last."""
    ...


@wp.kernel
def _factor(
    # Model:
    nv: int,
    M_rownnz: wp.array[int],
    M_rowadr: wp.array[int],
    M_colind: wp.array[int],
    # In:
    M: wp.array2d[float],
    nlane: int,
    # Out:
    L_out: wp.array2d[float],
    Dinv_out: wp.array2d[float],
):
    thread = wp.tid()
    worldid = thread / nlane
    factor_world(nv, M_rownnz, M_rowadr, M_colind, M, L_out, Dinv_out, worldid, thread - worldid * nlane, nlane)


def factor(m: mjw.Model, M: wp.array, L: wp.array, Dinv: wp.array) -> None:
    """Factor M, or another matrix with its structure, of every world.

    Args:
        m: model
        M: matrix                                  (nworld, nC)
        L: factor below the diagonal, by rows      (nworld, nC)
        Dinv: one over D                           (nworld, nv)
    """
    nlane = int(WARP) if M.device.is_cuda else 1
    inputs = [m.nv, m.M_rownnz, m.M_rowadr, m.M_colind, M, nlane]
    wp.launch(_factor, M.shape[0] * nlane, inputs=inputs, outputs=[L, Dinv])
