"""The sweeps in contact space: exact Gauss-Seidel over rows on dofs, equalities and contacts."""

import functools

import warp as wp

from stickslip.physics.conesweep.layout import FRICTION, LIMIT, Bodies, Equalities, RowSet, Settings, Work
from stickslip.physics.conesweep.memory.report import Result
from stickslip.physics.conesweep.space.build import native
from stickslip.physics.conesweep.space.layout import Shape, Space
from stickslip.physics.conesweep.substeps import count_coupled_passes, count_coupled_substeps
from stickslip.physics.conesweep.sweep.aitken import ALIKE, ASTRAY
from stickslip.physics.conesweep.sweep.cone import CLOSE
from stickslip.physics.conesweep.sweep.settle import DEEP, GROWTH, PUSH_OUT

wp.set_module_options({"enable_backward": False})

SHARED = 48128
"""Shared memory of a block on CUDA, for records and rows of its worlds [bytes]; Warp itself has 1 kB of the 48 kB."""


NEWTON = 2
"""Most steps of Newton's method for a cone with spin or rolling, in a visit. The next visit goes on from there."""


def block_threads(lanes: int) -> int:
    """Threads of a block on CUDA: of eight worlds, or of two warps."""
    return min(8 * lanes, 64)


START, SETTLE, PUSH = range(3)
"""What a visit of a row, an equality or a contact does: its forces act for the first time; it is resolved; its depth is
taken out."""


@functools.cache
def sweep_kernel(shape: Shape) -> wp.Kernel:
    """`sweep` for models of this shape."""
    source = native(
        ["lanes", "sweep", "rows", "equality", "contact", "passes", "motion"],
        shape,
        shared_fours=SHARED // 16,
        block_threads=block_threads(shape.lanes),
        start=START,
        settle=SETTLE,
        push=PUSH,
        limit=int(LIMIT),
        friction=int(FRICTION),
        growth=float(GROWTH),
        deep=float(DEEP),
        fastest=float(PUSH_OUT),
        newton=NEWTON,
        close=float(CLOSE),
        alike=float(ALIKE),
        astray=float(ASTRAY),
    )

    @wp.func_native(source)
    def sweep(
        bodies: Bodies,
        work: Work,
        rows: RowSet,
        equalities: Equalities,
        space: Space,
        result: Result,
        dt: float,
        h: float,
        share: float,
        slop: float,
        restitution: float,
        jump: float,
        substeps: int,
        sweeps: int,
        passes: int,
        exists: bool,
        worldid: int,
        lane: int,
    ): ...

    lanes = shape.lanes

    @wp.kernel(module="unique", enable_backward=False)
    def _sweep(
        bodies: Bodies,
        settings: Settings,
        jump: float,
        work: Work,
        rows: RowSet,
        equalities: Equalities,
        space: Space,
        result: Result,
    ):
        """All sweeps of a step; the motion of dofs, and the forces on them."""
        thread = wp.tid()
        worldid = thread / lanes
        lane = thread - worldid * lanes
        exists = worldid < result.qacc.shape[0]
        worldid = wp.min(worldid, result.qacc.shape[0] - 1)
        dt = bodies.timestep[worldid % bodies.timestep.shape[0]]
        substeps = count_coupled_substeps(settings.substeps, dt)
        share = 1.0 - wp.pow(1.0 - settings.correction, 1.0 / float(substeps))  # of the depth, in a substep
        sweep(
            bodies,
            work,
            rows,
            equalities,
            space,
            result,
            dt,
            dt / float(substeps),
            share,
            settings.slop,
            settings.restitution,
            jump,
            substeps,
            settings.sweeps,
            count_coupled_passes(settings.passes, space.stacked[worldid]),
            exists,
            worldid,
            lane,
        )

    return _sweep
