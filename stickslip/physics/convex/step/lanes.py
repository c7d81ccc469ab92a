"""Lanes that solve one island or find one patch together: threads of a block on CUDA, one on the CPU."""

import warp as wp

from stickslip.physics.mjwarp.lanes import MASK

wp.set_module_options({"enable_backward": False})

LEAST_LANES = 32
MOST_LANES = 128
"""Fewest and most lanes of an island on CUDA; none shares a warp, since each takes its own number of iterations."""


_REDUCE = """
#if defined(__CUDA_ARCH__)
MASK
__shared__ double partial[3 * 32];
#pragma unroll 1
for (int offset = (nlane < 32 ? nlane : 32) / 2; offset > 0; offset >>= 1) {
    #pragma unroll
    for (int c = 0; c < 3; ++c) {
        const double other = __shfl_xor_sync(mask, x[c], offset);
        x[c] = JOIN(x[c], other);
    }
}
if (nlane > 32) {
    __syncthreads();
    if ((threadIdx.x & 31) == 0)
        for (int c = 0; c < 3; ++c) partial[3 * (threadIdx.x >> 5) + c] = x[c];
    __syncthreads();
    for (int c = 0; c < 3; ++c) x[c] = partial[c];
    #pragma unroll 1
    for (int k = 1; k < nlane / 32; ++k)
        for (int c = 0; c < 3; ++c) x[c] = JOIN(x[c], partial[3 * k + c]);
}
#endif
return x;
""".replace("MASK", MASK)


@wp.func_native(_REDUCE.replace("JOIN(x[c], ", "(x[c] + "))
def lane_sum(x: wp.vec3d, nlane: int) -> wp.vec3d:
    """Sum of x over the lanes, the same in each."""
    ...


@wp.func_native(_REDUCE.replace("JOIN", "fmax"))
def lane_max(x: wp.vec3d, nlane: int) -> wp.vec3d:
    """Largest of each of x over the lanes, the same in each; what is not a number is passed over."""
    ...


@wp.func_native(f"""
#if defined(__CUDA_ARCH__)
{MASK}
const unsigned ones = (__ballot_sync(mask, flag) & mask) >> (threadIdx.x & 31 & ~(nlane - 1));
return {{__popc(ones & ((1u << lane) - 1u)), __popc(ones)}};
#else
return {{0, flag}};
#endif
""")
def count_before(flag: int, lane: int, nlane: int) -> wp.vec2i:
    """Of up to 32 lanes, how many before this one have a flag of 1 and not 0, and how many in all."""
    ...


def lanes(islands: int, work: int, threads: int = 65536) -> int:
    """Lanes of an island on CUDA: a power of two that fills the device, and no more than there is work for.

    Args:
        islands: in all worlds, about
        work: largest number of things in an island that are done side by side
        threads: that fill the device; from measurements on an H200
    """
    count = LEAST_LANES
    while count < MOST_LANES and count < work and count * islands < threads:
        count *= 2
    return count
