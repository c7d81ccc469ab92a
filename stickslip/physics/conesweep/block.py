"""How many lanes work on one world: a few threads of a warp, or a whole block on CUDA; one on the CPU."""

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
