"""The end of a step in contact space."""

import warp as wp

from stickslip.physics.conesweep.layout import Bodies, Tree, Work
from stickslip.physics.conesweep.memory.report import Result

wp.set_module_options({"enable_backward": False})


@wp.func
def finish_dofs(tree: Tree, bodies: Bodies, work: Work, result: Result, worldid: int, lane: int, nlane: int):
    """Constraint force, acceleration, and the velocity that makes the step's displacement, of the dofs.

    The sweeps left impulses, changes of velocity and displacements in their place.
    """
    timestep = bodies.timestep[worldid % bodies.timestep.shape[0]]
    for i in range(lane, tree.nv, nlane):
        v_free = work.v_free[worldid, i]
        force = result.qfrc_constraint[worldid, i] / timestep
        result.qfrc_constraint[worldid, i] = force
        result.Ma[worldid, i] = result.qfrc_smooth[worldid, i] + force
        result.qacc[worldid, i] = (v_free + result.qacc[worldid, i] - bodies.qvel[worldid, i]) / timestep
        result.velocity[worldid, i] = v_free + result.velocity[worldid, i] / timestep
