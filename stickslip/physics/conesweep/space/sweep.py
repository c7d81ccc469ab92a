"""The sweeps in contact space: exact Gauss-Seidel over rows on dofs, equalities and contacts."""

import functools
import pathlib

import warp as wp

from stickslip.physics.conesweep.layout import FRICTION, LIMIT, Bodies, Equalities, RowSet, Settings, Work
from stickslip.physics.conesweep.pack import FORCE
from stickslip.physics.conesweep.prepare.inertia import TINY
from stickslip.physics.conesweep.space.build import native_constants
from stickslip.physics.conesweep.space.layout import CONTACT_RECORD, ROUGH_RECORD, ROW_RECORD, Space
from stickslip.physics.conesweep.substeps import count_passes, count_substeps
from stickslip.physics.conesweep.sweep.aitken import ALIKE, ASTRAY
from stickslip.physics.conesweep.sweep.cone import CLOSE, MIN_FRICTION
from stickslip.physics.conesweep.sweep.settle import DEEP, GROWTH, PUSH_OUT

wp.set_module_options({"enable_backward": False})

INNER = 4
"""Passes over the directions of a connect or weld when it is resolved."""

_BODY = pathlib.Path(__file__).with_name("sweep.h").read_text()


@functools.cache
def sweep_kernel(rows: int, fours: int, chunks: int) -> wp.Kernel:
    """`sweep` for contacts of up to so many rows, chunks of so many vectors of four, and chunks of a lane."""
    constants = native_constants(
        chunks=chunks,
        fours=fours,
        contact_rows=rows,
        contact_record=ROUGH_RECORD if rows > 3 else CONTACT_RECORD,
        row_record=ROW_RECORD,
        force_rows=int(FORCE),
        inner=INNER,
        rough=rows > 3,
        limit=int(LIMIT),
        friction=int(FRICTION),
        growth=float(GROWTH),
        deep=float(DEEP),
        fastest=float(PUSH_OUT),
        least=float(MIN_FRICTION),
        near=float(CLOSE),
        tiny=float(TINY),
        alike=float(ALIKE),
        astray=float(ASTRAY),
    )

    @wp.func_native(constants + _BODY)
    def sweep(
        work: Work,
        rows: RowSet,
        equalities: Equalities,
        space: Space,
        dt: float,
        h: float,
        share: float,
        slop: float,
        restitution: float,
        jump: float,
        substeps: int,
        sweeps: int,
        passes: int,
        worldid: int,
        lane: int,
        nlane: int,
    ): ...

    @wp.kernel(module="unique", enable_backward=False)
    def _sweep(
        nlane: int,
        bodies: Bodies,
        settings: Settings,
        jump: float,
        work: Work,
        rows: RowSet,
        equalities: Equalities,
        space: Space,
    ):
        """All sweeps of a step."""
        thread = wp.tid()
        worldid = thread / nlane
        lane = thread - worldid * nlane
        dt = bodies.timestep[worldid % bodies.timestep.shape[0]]
        substeps = count_substeps(settings.substeps, dt)
        share = 1.0 - wp.pow(1.0 - settings.correction, 1.0 / float(substeps))  # of the depth, in a substep
        sweep(
            work,
            rows,
            equalities,
            space,
            dt,
            dt / float(substeps),
            share,
            settings.slop,
            settings.restitution,
            jump,
            substeps,
            settings.sweeps,
            count_passes(settings.passes, dt),
            worldid,
            lane,
            nlane,
        )

    return _sweep
