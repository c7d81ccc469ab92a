"""Lanes that solve one island together: a block of threads on CUDA, one on the CPU."""

import warp as wp

wp.set_module_options({"enable_backward": False})

LEAST_LANES = 32
MOST_LANES = 128
"""Fewest and most lanes of an island on CUDA; none shares a warp, since each takes its own number of iterations."""


@wp.func_native("""
#if defined(__CUDA_ARCH__)
if (nlane > 32) __syncthreads();
else __syncwarp();
#endif
""")
def sync(nlane: int):
    """Wait for all lanes of the island; what they wrote can be read afterwards."""
    ...


@wp.func_native("""
#if defined(__CUDA_ARCH__)
__shared__ double partial[32];
for (int offset = 16; offset > 0; offset >>= 1) x += __shfl_xor_sync(0xffffffffu, x, offset);
if (nlane > 32) {
    __syncthreads();
    if ((threadIdx.x & 31) == 0) partial[threadIdx.x >> 5] = x;
    __syncthreads();
    x = 0.0;
    for (int k = 0; k < nlane / 32; ++k) x += partial[k];
}
#endif
return x;
""")
def lane_sum(x: wp.float64, nlane: int) -> wp.float64:
    """Sum of x over the lanes, the same in each."""
    ...


@wp.func_native("""
#if defined(__CUDA_ARCH__)
__shared__ double partial[32];
for (int offset = 16; offset > 0; offset >>= 1) x = fmax(x, __shfl_xor_sync(0xffffffffu, x, offset));
if (nlane > 32) {
    __syncthreads();
    if ((threadIdx.x & 31) == 0) partial[threadIdx.x >> 5] = x;
    __syncthreads();
    x = partial[0];
    for (int k = 1; k < nlane / 32; ++k) x = fmax(x, partial[k]);
}
#endif
return x;
""")
def lane_max(x: wp.float64, nlane: int) -> wp.float64:
    """Largest x of the lanes, the same in each; numbers that are not finite have to be dealt with before."""
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
