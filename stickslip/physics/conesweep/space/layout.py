"""What the kernels of contact space pass to each other, and what of it follows from the model."""

import itertools
from collections.abc import Sequence

import mujoco
import numpy as np
import warp as wp
from numpy.typing import NDArray

wp.set_module_options({"enable_backward": False})

MOST_CHUNKS = 64
"""Chunks of dofs, at most: a mask of them has as many bits."""

CONTACT_RECORD = 5
ROUGH_RECORD = 11
"""Rows of four numbers of a contact's record, without and with spin and rolling.

Without: velocities without forces and distance; what the normal impulse changes, and approach (< 0: it bounces); forces
per velocity of normal and tangents, friction and contact; impulse and half of the mask; impulse before a jump and the
other half. With spin and rolling: the same of these, coefficients of friction, velocity of the surface.
"""

ROW_RECORD = 4
"""Rows of four numbers of a row's record: velocity without forces, residual and bounds of the impulse; inverse mass,
impulse, impulse before a jump and kind; what the rows before it in its block change, and its place; its mask."""


@wp.struct
class Space:
    """Rows of the worlds in contact space; see `build.h`. Rows on dofs that act are packed, four of them a block."""

    nchunk: int
    width: int  # dofs of all chunks
    row_size: int  # of all rows of a world, in vectors of four
    equality_size: int
    contact_fours: int  # longest row of a contact, in vectors of four
    body_mask: wp.array[wp.uint64]  # (nbody,) chunks of the dofs that move a body
    row_mask: wp.array[wp.uint64]  # (nrow,)
    row_adr: wp.array[int]
    equality_mask: wp.array[wp.uint64]  # (nequality,)
    equality_adr: wp.array[int]
    L: wp.array2d[float]  # (nworld, nC) H = L' D L in the sparse structure of M
    Dinv: wp.array2d[float]  # (nworld, nv)
    root: wp.array2d[float]  # (nworld, nv) its root
    nactive: wp.array[int]  # (nworld,) rows that act
    active: wp.array2d[int]  # (nworld, nrow)
    row: wp.array[wp.vec4]  # records of those
    row_z: wp.array[wp.vec4]
    equality_z: wp.array[wp.vec4]
    equality_speed: wp.array[float]  # (nworld nequality 6,) without forces
    equality_apart: wp.array[float]  # inverse masses, were the two bodies not of one tree
    contact: wp.array[wp.vec4]  # (2 N,) records of sorted contacts
    contact_z: wp.array[wp.vec4]  # (N,) rows of contacts, in MuJoCo Warp's order
    y: wp.array[wp.vec4]  # (nworld nchunk fours,) impulses at the end of the step
    x: wp.array[wp.vec4]  # displacement


def fours_of_chunk(nv: int) -> int:
    """Vectors of four dofs that a chunk has."""
    return max(1, -(-nv // (4 * MOST_CHUNKS)))


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


def places(sizes: Sequence[int]) -> list[int]:
    """Where things of these sizes begin, one after the other; last, the end."""
    return [int(place) for place in itertools.accumulate(sizes, initial=0)]
