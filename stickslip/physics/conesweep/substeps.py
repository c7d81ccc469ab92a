"""How many substeps and passes a step has."""

import warp as wp

wp.set_module_options({"enable_backward": False})

FINE_STEP = wp.constant(0.003)
"""Timestep up to which the fewer substeps and passes are enough [s]."""
FINE_SUBSTEPS = wp.constant(6)
SUBSTEPS = wp.constant(16)
FINE_PASSES = wp.constant(4)
PASSES = wp.constant(8)


@wp.func
def count_substeps(wanted: int, timestep: float) -> int:
    """Substeps of a step: as many as are asked for, or enough for its length."""
    if wanted > 0:
        return wanted
    return wp.where(timestep <= FINE_STEP, FINE_SUBSTEPS, SUBSTEPS)


SUBSTEP = wp.constant(0.0005)
"""Substep in contact space, within the same bounds [s]."""


@wp.func
def count_coupled_substeps(wanted: int, timestep: float) -> int:
    """Substeps of a step in contact space: as many as are asked for, or enough for its length."""
    if wanted > 0:
        return wanted
    return wp.clamp(int(wp.ceil(timestep / SUBSTEP - 0.01)), FINE_SUBSTEPS, SUBSTEPS)


COUPLED_PASSES = wp.constant(2)
STACKED_PASSES = wp.constant(4)
"""Passes in contact space, and where bodies that move by themselves touch each other: these pass on what they carry."""


@wp.func
def count_coupled_passes(wanted: int, stacked: int) -> int:
    """Passes over all rows in contact space: as many as are asked for, or enough."""
    if wanted > 0:
        return wanted
    return wp.where(stacked != 0, STACKED_PASSES, COUPLED_PASSES)


@wp.func
def count_passes(wanted: int, timestep: float) -> int:
    """Passes over contacts: as many as are asked for, or enough for its length."""
    if wanted > 0:
        return wanted
    return wp.where(timestep <= FINE_STEP, FINE_PASSES, PASSES)
