"""Lanes: threads that work on one world, island or body together. On CUDA a power of two of them, on the CPU one."""

import warp as wp

wp.set_module_options({"enable_backward": False})

WARP = wp.constant(32)
"""Threads of a warp."""

MASK = """
const unsigned mask = nlane < 32 ? ((1u << nlane) - 1u) << (threadIdx.x & 31 & ~(nlane - 1)) : 0xffffffffu;
"""
"""CUDA C++ for the lanes of one group in their warp, given `nlane`; for native functions that shuffle among them."""


@wp.func_native(f"""
#if defined(__CUDA_ARCH__)
{MASK}
if (nlane > 32) __syncthreads();
else __syncwarp(mask);
#endif
""")
def sync(nlane: int):
    """Wait for the lanes of a group; what they wrote can be read afterwards. Groups that share a warp may diverge."""
    ...


@wp.func_native("""
#if defined(__CUDA_ARCH__)
if (nlane > 32) __syncthreads();
else __syncwarp();
#endif
""")
def sync_warp(nlane: int):
    """Wait for the lanes of a group, and for the groups that share its warp, which stay converged.

    Each of these groups has to reach the same calls.
    """
    ...


@wp.func_native("""
#if defined(__CUDA_ARCH__)
int sum = number;
for (int o = 1; o < 32; o *= 2) {
    const int other = __shfl_up_sync(0xffffffffu, sum, o);
    if ((threadIdx.x & 31u) >= unsigned(o)) sum += other;
}
return sum - number;
#else
return 0;
#endif
""")
def sum_before(number: int) -> int:
    """The sum of the numbers of all lanes of a warp before this one, which have to reach the same call."""
    ...


@wp.func_native("""
#if defined(__CUDA_ARCH__)
for (int o = 16; o > 0; o /= 2) number += __shfl_xor_sync(0xffffffffu, number, o);
#endif
return number;
""")
def sum_all(number: int) -> int:
    """The sum of the numbers of all lanes of a warp, which have to reach the same call."""
    ...


@wp.func_native("""
#if defined(__CUDA_ARCH__)
for (int o = 16; o > 0; o /= 2) value += __shfl_xor_sync(0xffffffffu, value, o);
#endif
return value;
""")
def add_lanes(value: float) -> float:
    """The sum of the values of all lanes of a warp, in one order; they have to reach the same call."""
    ...
