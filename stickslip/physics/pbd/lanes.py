"""Lanes that work on one world together: a block of threads on CUDA or half a warp, one on the CPU.

Their number is a power of two. Lanes are in teams: a team works on one body at a time; with several each is a warp.
"""

import warp as wp

from stickslip.physics.mjwarp.lanes import MASK
from stickslip.physics.pbd.layout import Impulse, Sums

wp.set_module_options({"enable_backward": False})

WARP = 32
MOST_LANES = 256
"""Threads of a warp; most lanes of a world on CUDA."""
BATCH_WORLDS, BATCH_PARTICLES = 2048, 128
"""From so many worlds on, and up to so many particles, two worlds of one body share a warp."""
PARTICLES_A_LANE = 8
"""As many of one body are work enough for a lane."""
MOST_THREADS = 1 << 19
"""Of all worlds; with as many, each has no more lanes than one body needs."""


@wp.func_native(f"""
#if defined(__CUDA_ARCH__)
{MASK}
if (nlane > 32) return __syncthreads_or(x);
__syncwarp(mask);
return __any_sync(mask, x);
#else
return x;
#endif
""")
def sync_any(x: int, nlane: int) -> int:
    """Wait for all lanes of the world, or of a team; not 0 if x is not 0 in any of them."""
    ...


TEAM_SUM = f"""
#if defined(__CUDA_ARCH__)
{MASK}
__shared__ REAL partial[COUNT * 32];
#pragma unroll 1
for (int offset = nlane < 32 ? nlane >> 1 : 16; offset > 0; offset >>= 1) {{
    #pragma unroll
    for (int c = 0; c < COUNT; ++c) x[c] += __shfl_xor_sync(mask, x[c], offset);
}}
if (nlane > 32) {{
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = nlane >> 5;
    if (lane == 0)
        for (int c = 0; c < COUNT; ++c) partial[COUNT * warp + c] = x[c];
    __syncthreads();
    for (int c = 0; c < COUNT; ++c) x[c] = partial[COUNT * (lane & (warps - 1)) + c];
    #pragma unroll 1
    for (int offset = warps >> 1; offset > 0; offset >>= 1) {{
        #pragma unroll
        for (int c = 0; c < COUNT; ++c) x[c] += __shfl_xor_sync(0xffffffffu, x[c], offset);
    }}
    __syncthreads();
}}
#endif
return x;
"""
"""Code of a sum over the lanes of a team, the same in each, in a fixed order: COUNT numbers of the type REAL."""


@wp.func_native(TEAM_SUM.replace("REAL", "double").replace("COUNT", "15"))
def team_sum(x: Sums, nlane: int) -> Sums:
    """Sum of x over the lanes of a team, the same in each, in a fixed order."""
    ...


@wp.func_native(TEAM_SUM.replace("REAL", "double").replace("COUNT", "6"))
def team_impulse(x: Impulse, nlane: int) -> Impulse:
    """The same of an impulse."""
    ...


@wp.func_native(f"""
#if defined(__CUDA_ARCH__)
{MASK}
__shared__ int part[33];
const int width = nlane < 32 ? nlane : 32;
const int lane = threadIdx.x & (width - 1), warp = threadIdx.x >> 5, warps = nlane >> 5;
int sum = x;
for (int offset = 1; offset < width; offset <<= 1) {{
    const int other = __shfl_up_sync(mask, sum, offset, width);
    if (lane >= offset) sum += other;
}}
if (nlane <= 32) return wp::vec_t<2, int>(sum - x, __shfl_sync(mask, sum, width - 1, width));
__syncthreads();
if (lane == 31) part[warp] = sum;
__syncthreads();
int before = 0, all = 0;
for (int k = 0; k < warps; ++k) {{
    if (k < warp) before += part[k];
    all += part[k];
}}
return wp::vec_t<2, int>(before + sum - x, all);
#else
return wp::vec_t<2, int>(0, x);
#endif
""")
def lane_count(x: int, nlane: int) -> wp.vec2i:
    """Sum of x over the lanes before this one, and over all of them."""
    ...


@wp.func_native("""
#if defined(__CUDA_ARCH__)
return __ffs(bits) - 1;
#else
return __builtin_ctz(bits);
#endif
""")
def first_bit(bits: int) -> int:
    """Number of the lowest bit that is set; one has to be."""
    ...


def lanes_of(nbody: int, nparticle: int, nworld: int, cuda: bool) -> tuple[int, int]:
    """Lanes of a world, and teams of them.

    One body has all lanes, as many as there is work for, in many worlds half a warp; several have a warp each.

    Args:
        nbody: bodies of a world
        nparticle: their particles
        nworld: worlds
        cuda: whether that is the device
    """
    if not cuda:
        return 1, 1
    if nbody <= 1 and nparticle <= BATCH_PARTICLES and nworld >= BATCH_WORLDS:
        return WARP // 2, 1
    count = WARP
    wanted = nparticle / PARTICLES_A_LANE if nbody <= 1 else WARP * nbody
    while count < MOST_LANES and count < wanted and count * nworld < MOST_THREADS:
        count *= 2
    return count, 1 if nbody <= 1 else count // WARP
