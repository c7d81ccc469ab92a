"""Lanes that work on one world together: a few threads of a warp, or a whole block on CUDA; one on the CPU."""

import warp as wp

wp.set_module_options({"enable_backward": False})

WARP = wp.constant(32)
"""Threads of a warp."""
LEAST_LANES = 4
LEAST_WIDE = 8
MAX_LANES = 256
"""Fewest lanes of a world, in the sweeps and for what is done once a step, and most; the most are one block."""


@wp.func_native("""
#if defined(__CUDA_ARCH__)
if (nlane > 32) __syncthreads();
else __syncwarp();
#endif
""")
def sync(nlane: int):
    """Wait for all lanes of the world; what they wrote can be read afterwards.

    Worlds that share a warp wait for each other, so that they run in step: every world has to come by the same way.
    """
    ...


def lanes(least: int, pieces: float, most: float) -> int:
    """Lanes of a world on CUDA: a power of two, so that worlds do not straddle warps.

    Args:
        least: fewest
        pieces: pieces of work in a world, beyond which lanes are idle
        most: lanes that fill the device; more only wait for each other
    """
    count = 1
    while count < least or count < min(pieces, most, MAX_LANES):
        count *= 2
    return count
