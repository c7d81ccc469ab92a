"""What the kernels of contact space pass to each other, and what of it follows from the model."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np
import warp as wp
from numpy.typing import NDArray

wp.set_module_options({"enable_backward": False})

MOST_CHUNKS = 64
"""Chunks of dofs, at most: a mask of them has as many bits."""

CONTACT_RECORD = 6
ROUGH_RECORD = 12
"""Rows of four numbers of a contact's record, without and with spin and rolling.

- velocities without forces; distance at the start of the substep
- inverse mass of the normal and its products with the tangents; approach (< 0: it bounces)
- velocity to impulse of normal and tangents; friction (see `layout`); the cone's multiplier
- impulse; distance at the start of the step
- impulse before a jump
- where its rows are (see `sweep.h`)

The others are the same of spin and rolling, one over the coefficients of friction, velocity of the surface.
"""

BLOCK_RECORD = 12
EQUALITY_RECORD = 16
"""Rows of four numbers of the records of a block of rows on dofs (`rows.h`) and of an equality (`equality.h`)."""


class Shape(NamedTuple):
    """What kernels of contact space are made for.

    Attributes:
        rows: of a contact, at most: 3, 4 or 6
        fours: vectors of four dofs that a chunk has
        chunks: of a lane
        lanes: that share a row; on the CPU one
        has_rows: whether there are rows on dofs
        has_equalities: whether there are connects or welds
    """

    rows: int
    fours: int
    chunks: int
    lanes: int
    has_rows: bool
    has_equalities: bool


@wp.struct
class Space:
    """Rows of the worlds in contact space; see `common.h`. Rows on dofs come in blocks of four."""

    nv: int
    nchunk: int
    nblock: int  # blocks of rows on dofs, at most
    L4_size: int  # sizes are of a world, in vectors of four
    row_size: int
    equality_size: int
    contact_fours: int  # longest row of a contact, in vectors of four
    moves: wp.array2d[int]  # (nbody, nchunk) dofs of a chunk that move a body, as bits
    body_mask: wp.array[wp.uint64]  # (nbody,) chunks of the dofs that move a body
    dof: wp.array[wp.vec4i]  # (nv,) where its row of L4 begins; halves of a mask: its chunk and those above it
    row_mask: wp.array[wp.uint64]  # (nrow,)
    equality_mask: wp.array[wp.uint64]  # (nequality,)
    equality_adr: wp.array[int]
    gather: wp.array[wp.vec4i]  # (L4_size,) where the numbers of L4 are in L; -1: 0
    L4: wp.array[wp.vec4]  # (nworld L4_size,) L by chunks, where H = L' D L
    root: wp.array2d[float]  # (nworld, dofs of all chunks) root of one over D
    nactive: wp.array[int]  # (nworld,) blocks that act
    stacked: wp.array[int]  # (nworld,) whether bodies that move by themselves touch each other
    row: wp.array[wp.vec4]  # records of blocks of rows that act
    row_z: wp.array[wp.vec4]
    equality: wp.array[wp.vec4]  # records
    equality_z: wp.array[wp.vec4]
    contact: wp.array[wp.vec4]  # (N,) records of sorted contacts
    contact_z: wp.array[wp.vec4]  # (N,) rows of contacts, in MuJoCo Warp's order


def fours_of_chunk(nv: int) -> int:
    """Vectors of four dofs that a chunk has."""
    return max(1, -(-nv // (4 * MOST_CHUNKS)))


def shape_of(mjm: mujoco.MjModel, rows: int, lanes: int, has_rows: bool, has_equalities: bool) -> Shape:
    """The shape of a model: one of few, so that there are few kernels to compile for many models."""
    fours = fours_of_chunk(mjm.nv)
    chunks, growth = (1, 2) if lanes > 1 else (4, 4)
    while 4 * fours * chunks * lanes < mjm.nv:
        chunks *= growth
    if lanes == 1:  # no registers to spare
        has_rows = has_equalities = True
    return Shape(rows, fours, chunks, lanes, has_rows, has_equalities)


def masks_of(mjm: mujoco.MjModel, dofs: Sequence[Sequence[int]]) -> NDArray[np.uint64]:
    """Masks of the chunks of these dofs and of all that are above them in their trees."""
    per = 4 * fours_of_chunk(mjm.nv)
    above = np.zeros(mjm.nv, dtype=object)
    for i in range(mjm.nv):
        parent = mjm.dof_parentid[i]
        above[i] = (1 << (i // per)) | (above[parent] if parent >= 0 else 0)
    masks = []
    for group in dofs:
        mask = 0
        for i in group:
            mask |= int(above[i])
        masks.append(mask)
    return np.array(masks, dtype=np.uint64)


def count_bits(masks: NDArray[np.uint64]) -> NDArray[np.integer]:
    return np.bitwise_count(masks).astype(int)


def longest_contact(masks: NDArray[np.uint64]) -> int:
    """Most chunks of two bodies together."""
    kinds = np.unique(masks)
    return int(max((count_bits(kinds | mask).max() for mask in kinds), default=0))


def most_chunks(masks: NDArray[np.uint64]) -> int:
    """Chunks of all blocks of rows, at most: four rows share one, of those that act one after the other."""
    most, lengths = [0] * (len(masks) + 1), count_bits(masks)
    for first in reversed(range(len(masks))):  # of the blocks from this row on
        union = longest = 0
        for last in range(first, len(masks)):
            union |= int(masks[last])
            longest = max(longest, int(lengths[last]))
            if last >= first + 3 or last == len(masks) - 1:
                most[first] = max(most[first], min(union.bit_count(), 4 * longest) + most[last + 1])
    return most[0]


def places(sizes: Sequence[int]) -> list[int]:
    """Where things of these sizes begin, one after the other; last, the end."""
    return [int(place) for place in itertools.accumulate(sizes, initial=0)]


def gather_factor(mjm: mujoco.MjModel, masks: NDArray[np.uint64]) -> tuple[NDArray[np.integer], list[int]]:
    """Where the numbers of L by chunks are in the sparse L, and where each dof begins; last, the end."""
    fours = fours_of_chunk(mjm.nv)
    per = 4 * fours
    adr = places(list(fours * count_bits(masks)))
    table = np.full((adr[-1] * 4,), -1, dtype=np.int32)
    for i in range(mjm.nv):
        chunks = [c for c in range(MOST_CHUNKS) if int(masks[i]) >> c & 1]
        for k in range(mjm.M_rownnz[i] - 1):
            j = mjm.M_colind[mjm.M_rowadr[i] + k]
            table[4 * adr[i] + chunks.index(j // per) * per + j % per] = mjm.M_rowadr[i] + k
    return table.reshape(-1, 4), adr


def dofs_moving(chains: Sequence[Sequence[int]], nv: int) -> NDArray[np.integer]:
    """For each body and chunk, the dofs that move the body, as bits."""
    per = 4 * fours_of_chunk(nv)
    bits = np.zeros((len(chains), -(-nv // per)), dtype=np.int64)
    for body, chain in enumerate(chains):
        for i in chain:
            bits[body, i // per] |= 1 << (i % per)
    return bits.astype(np.uint32).astype(np.int32)
