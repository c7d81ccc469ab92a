"""Rows of a world in contact space: blocks of rows on dofs, equalities and contacts."""

import functools
import pathlib
from collections.abc import Sequence

import warp as wp

from stickslip.physics.conesweep.layout import LONE, Bodies, Contacts, Equalities, RowSet, Tree, Work
from stickslip.physics.conesweep.memory.warm_start import BOUNCE
from stickslip.physics.conesweep.prepare.inertia import TINY
from stickslip.physics.conesweep.prepare.inverse import Matrix
from stickslip.physics.conesweep.space.layout import (
    BLOCK_RECORD,
    CONTACT_RECORD,
    EQUALITY_RECORD,
    ROUGH_RECORD,
    Shape,
    Space,
)
from stickslip.physics.conesweep.sweep.cone import MIN_FRICTION
from stickslip.physics.mjwarp.lanes import WARP

wp.set_module_options({"enable_backward": False})

LOCKED = 1.0e-4
"""Share of the inverse mass that two bodies of a tree would have apart, below which they hold each other."""


INNER = 4
"""Passes over the directions of a connect or weld when it is resolved."""

MASK = 32
"""Chunks of dofs that a short mask has; others have twice as many."""

THREADS = 128
"""Threads of a block on CUDA."""

REGISTERS = 64
"""Registers per thread: memory is far away, and with so many a multiprocessor has threads enough to wait for it."""

SHARED = 26624
"""Shared memory of a block on CUDA, for the factors and rows of its worlds [bytes]."""


def native(files: Sequence[str], shape: Shape, **constants: float) -> str:
    """The C++ of a native function: constants, then its text, with `common.h` before it."""
    record = ROUGH_RECORD if shape.rows > 3 else CONTACT_RECORD
    constants = {
        "lanes": shape.lanes,
        "chunks": shape.chunks,
        "fours": shape.fours,
        "contact_rows": shape.rows,
        "contact_record": record,
        "touch_rows": record,
        "force_rows": record,
        "block_record": BLOCK_RECORD,
        "equality_record": EQUALITY_RECORD,
        "rough": shape.rows > 3,
        "has_rows": shape.has_rows,
        "has_equalities": shape.has_equalities,
        "tiny": float(TINY),
        **constants,
    }
    lines = ["#if !defined(__CUDA_ARCH__)", "#pragma clang fp contract(fast)", "#endif"]  # nvcc contracts by itself
    for constant, value in constants.items():
        if isinstance(value, bool):
            lines.append(f"constexpr bool {constant} = {str(value).lower()};")
        elif isinstance(value, int):
            lines.append(f"constexpr int {constant} = {value};")
        else:
            lines.append(f"constexpr float {constant} = {float(value)!r}f;")
    lines.append(f"typedef unsigned {'int' if shape.lanes * shape.chunks <= MASK else 'long long'} Mask;")
    folder = pathlib.Path(__file__).parent
    return "\n".join([*lines, *((folder / f"{file}.h").read_text() for file in ("common", *files, "end"))])


@wp.func_native("""
const float* const L = matrix.L.data + (size_t)worldid * (matrix.L.strides[0] / sizeof(float));
const float* const Dinv = matrix.Dinv.data + (size_t)worldid * (matrix.Dinv.strides[0] / sizeof(float));
float* const root = space.root.data + (size_t)worldid * (space.root.strides[0] / sizeof(float));
for (int i = lane; i < space.nv; i += nlane) root[i] = wp::sqrt(Dinv[i]);
for (int e = lane; e < space.L4_size; e += nlane) {
    const wp::vec4i places = space.gather.data[e];
    wp::vec4 row;
    for (int k = 0; k < 4; ++k) row[k] = places[k] >= 0 ? L[places[k]] : 0.0f;
    space.L4.data[(size_t)worldid * space.L4_size + e] = row;
}
""")
def gather_factors(matrix: Matrix, space: Space, worldid: int, lane: int, nlane: int):
    """The factors of H by chunks of dofs."""
    ...


@functools.cache
def build_kernel(shape: Shape, has_contacts: bool) -> wp.Kernel:
    """`build` for models of this shape: rows of contacts, or all others. On CUDA a warp makes the rows of a world."""
    chunks = 1 if shape.lanes * shape.chunks <= MASK else 2 * MASK
    shape = shape._replace(lanes=int(WARP) if shape.lanes > 1 else 1, chunks=chunks)
    if has_contacts:
        shape = shape._replace(has_rows=False, has_equalities=False)
    return _build_kernel(shape, has_contacts)


@functools.cache
def _build_kernel(shape: Shape, has_contacts: bool) -> wp.Kernel:
    source = native(
        ["build"],
        shape,
        has_contacts=has_contacts,
        block_threads=THREADS,
        shared_fours=SHARED // 16,
        inner=INNER,
        lone=int(LONE),
        locked=LOCKED,
        least=float(MIN_FRICTION),
        bounce=float(BOUNCE),
    )

    @wp.func_native(source)
    def build(
        tree: Tree,
        contacts: Contacts,
        bodies: Bodies,
        work: Work,
        rows: RowSet,
        equalities: Equalities,
        space: Space,
        dt: float,
        restitution: float,
        exists: bool,
        worldid: int,
        lane: int,
    ): ...

    lanes = shape.lanes

    @wp.kernel(module="unique", enable_backward=False, cuda_max_registers=REGISTERS)
    def _build(
        restitution: float,
        tree: Tree,
        contacts: Contacts,
        bodies: Bodies,
        work: Work,
        rows: RowSet,
        equalities: Equalities,
        space: Space,
    ):
        thread = wp.tid()
        worldid = thread / lanes
        lane = thread - worldid * lanes
        exists = worldid < space.nactive.shape[0]
        worldid = wp.min(worldid, space.nactive.shape[0] - 1)
        dt = bodies.timestep[worldid % bodies.timestep.shape[0]]
        build(tree, contacts, bodies, work, rows, equalities, space, dt, restitution, exists, worldid, lane)

    return _build
