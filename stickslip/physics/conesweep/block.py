"""How many lanes work on one world: a few threads of a warp, or a whole block on CUDA; one on the CPU."""

import warp as wp

from stickslip.physics.mjwarp.lanes import MASK

wp.set_module_options({"enable_backward": False})

LEAST_LANES = 4
LEAST_WIDE = 8
MAX_LANES = 256
"""Fewest lanes of a world, in the sweeps and for what is done once per step, and most; the most are one block."""


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


def _scan(join: str) -> str:
    """CUDA C++ that joins a value of every lane, none of them negative: up to this lane, and of all."""
    return f"""
#if defined(__CUDA_ARCH__)
{MASK}
const auto join = [](int a, int b) {{ return {join}; }};
const int width = nlane < 32 ? nlane : 32;
int here = value;
for (int k = 1; k < width; k *= 2) {{
    const int other = __shfl_up_sync(mask, here, k, width);
    if ((lane & (width - 1)) >= k) here = join(here, other);
}}
int all = __shfl_sync(mask, here, width - 1, width);
if (nlane > 32) {{
    __shared__ int warps[{MAX_LANES // 32}];
    __syncthreads();  // what an earlier call left has been read
    if ((lane & 31) == 31) warps[lane / 32] = here;
    __syncthreads();
    all = 0;
    for (int k = 0; k < nlane / 32; ++k) {{
        if (k < lane / 32) here = join(here, warps[k]);
        all = join(all, warps[k]);
    }}
}}
return wp::vec_t<2, wp::int32>(here, all);
#else
return wp::vec_t<2, wp::int32>(value, value);
#endif
"""


@wp.func_native(_scan("a + b"))
def sum_lanes(value: int, lane: int, nlane: int) -> wp.vec2i:
    """The sum of a value over the lanes of a world up to this one, and over all; every lane calls it."""
    ...


@wp.func_native(_scan("a > b ? a : b"))
def most_of_lanes(value: int, lane: int, nlane: int) -> wp.vec2i:
    """The largest of a value of the lanes of a world up to this one, and of all; every lane calls it."""
    ...
