"""Lanes that work on one world together: a block of threads on CUDA, one on the CPU.

Lanes are in teams. A team works on one body at a time; with several teams each is a warp.
"""

import warp as wp

from stickslip.physics.pbd.layout import Impulse, Singles, Sums

wp.set_module_options({"enable_backward": False})

WARP = 32
MOST_LANES = 256
"""Threads of a warp; most lanes of a world on CUDA."""


@wp.func_native("""
#if defined(__CUDA_ARCH__)
__syncthreads();
#endif
""")
def sync():
    """Wait for all lanes of the world; what they wrote can be read afterwards."""
    ...


@wp.func_native("""
#if defined(__CUDA_ARCH__)
return __syncthreads_or(x);
#else
return x;
#endif
""")
def sync_any(x: int) -> int:
    """The same; not 0 if x is not, in any of them."""
    ...


@wp.func_native("""
#if defined(__CUDA_ARCH__)
if (nteam == 1) __syncthreads();
else __syncwarp();
#endif
""")
def sync_team(nteam: int):
    """Wait for the lanes of the own team."""
    ...


_SUM = """
#if defined(__CUDA_ARCH__)
__shared__ REAL partial[COUNT * 32];
#pragma unroll 1
for (int offset = 16; offset > 0; offset >>= 1) {
    #pragma unroll
    for (int c = 0; c < COUNT; ++c) x[c] += __shfl_xor_sync(0xffffffffu, x[c], offset);
}
if (nteam == 1 && blockDim.x > 32) {
    __syncthreads();
    if ((threadIdx.x & 31) == 0)
        for (int c = 0; c < COUNT; ++c) partial[COUNT * (threadIdx.x >> 5) + c] = x[c];
    __syncthreads();
    for (int c = 0; c < COUNT; ++c) x[c] = partial[c];
    #pragma unroll 1
    for (int k = 1; k < blockDim.x / 32; ++k)
        for (int c = 0; c < COUNT; ++c) x[c] += partial[COUNT * k + c];
    __syncthreads();
}
#endif
return x;
"""


@wp.func_native(_SUM.replace("REAL", "double").replace("COUNT", "15"))
def team_sum(x: Sums, nteam: int) -> Sums:
    """Sum of x over the lanes of a team, the same in each, in a fixed order."""
    ...


@wp.func_native(_SUM.replace("REAL", "double").replace("COUNT", "6"))
def team_impulse(x: Impulse, nteam: int) -> Impulse:
    """The same of an impulse."""
    ...


@wp.func_native(_SUM.replace("REAL", "float").replace("COUNT", "12"))
def team_sum_single(x: Singles, nteam: int) -> Singles:
    """The same in single precision."""
    ...


@wp.func_native("""
#if defined(__CUDA_ARCH__)
__shared__ int part[33];
const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
int sum = x;
for (int offset = 1; offset < 32; offset <<= 1) {
    const int other = __shfl_up_sync(0xffffffffu, sum, offset);
    if (lane >= offset) sum += other;
}
__syncthreads();
if (lane == 31) part[warp] = sum;
__syncthreads();
int before = 0, all = 0;
for (int k = 0; k < warps; ++k) {
    if (k < warp) before += part[k];
    all += part[k];
}
return wp::vec_t<2, int>(before + sum - x, all);
#else
return wp::vec_t<2, int>(0, x);
#endif
""")
def lane_count(x: int) -> wp.vec2i:
    """Sum of x over the lanes before this one, and over all of them."""
    ...


def lanes_of(nbody: int, nparticle: int, nworld: int, cuda: bool) -> tuple[int, int]:
    """Lanes of a world, and teams of them.

    One body has all lanes, as many as there is work for; several have a warp each.

    Args:
        nbody: bodies of a world
        nparticle: their particles
        nworld: worlds
        cuda: whether that is the device
    """
    if not cuda:
        return 1, 1
    count = WARP
    wanted = nparticle / 8 if nbody <= 1 else WARP * nbody
    while count < MOST_LANES and count < wanted and count * nworld < 1 << 19:
        count *= 2
    return count, 1 if nbody <= 1 else count // WARP
