"""The integrator's matrix with its factors, H = L' D L, in the structure of M."""

import dataclasses
import pathlib

import mujoco_warp as mjw
import warp as wp

from stickslip.physics.mjwarp.lanes import WARP
from stickslip.physics.mjwarp.model import Model
from stickslip.physics.mjwarp.smooth.fields import MatrixOrder, matrix_fields

wp.set_module_options({"enable_backward": False})

END = "#undef SYNC\n#undef TABLE\n#undef ROLLED\n#undef EACH\n"
"""After any text that `factor.h` is put before."""
_HEAD = pathlib.Path(__file__).with_name("factor.h").read_text()


@dataclasses.dataclass(frozen=True)
class Factor:
    """H = L' D L. Rows have the ancestors of a dof, itself last, as those of M.

    Attributes:
        H: the matrix                                               (nworld, nC)
        L: factor; D is on its diagonal, where L itself has 1       (nworld, nC)
        Dinv: 1 / D                                                 (nworld, nv)
    """

    H: wp.array
    L: wp.array
    Dinv: wp.array


@wp.func_native(
    f"""{_HEAD}
const float* const H = H_in.data + size_t(world) * nC;
float* const L = L_out.data + size_t(world) * nC;
float* const Dinv = Dinv_out.data + size_t(world) * nv;
EACH(e, nC) L[e] = H[e];
SYNC();
factor(L, Dinv);
{END}"""
)
def factor_world(
    m: MatrixOrder, H_in: wp.array2d[float], L_out: wp.array2d[float], Dinv_out: wp.array2d[float], thread: int
):
    """Factor the matrix of one world, by the lanes of a warp or one thread."""
    ...


@wp.kernel
def _factor(
    # Model:
    m: MatrixOrder,
    # In:
    H_in: wp.array2d[float],
    # Out:
    L_out: wp.array2d[float],
    Dinv_out: wp.array2d[float],
):
    factor_world(m, H_in, L_out, Dinv_out, wp.tid())


def threads(nworld: int, device: wp.Device) -> int:
    """A warp per world, or a thread on a CPU."""
    return nworld * int(WARP) if device.is_cuda else nworld


def factorize(m: Model, d: mjw.Data, H: wp.array) -> Factor:
    """The factors of a matrix in the structure of M."""
    factor = Factor(H, wp.empty_like(H), wp.empty((d.nworld, m.nv), dtype=float))
    inputs = [matrix_fields(m.structure.order), H]
    wp.launch(_factor, threads(d.nworld, H.device), inputs=inputs, outputs=[factor.L, factor.Dinv])
    return factor
