"""The end of a step in contact space: what its impulses and displacement are for the dofs."""

import warp as wp

from stickslip.physics.conesweep.layout import Bodies, Tree, Work
from stickslip.physics.conesweep.memory.report import Result
from stickslip.physics.conesweep.prepare.inverse import Matrix
from stickslip.physics.conesweep.space.layout import Space

wp.set_module_options({"enable_backward": False})


@wp.func_native("""
const float* const L = space.L.data + (size_t)worldid * (space.L.strides[0] / sizeof(float));
const float* const root = space.root.data + (size_t)worldid * (space.root.strides[0] / sizeof(float));
const size_t of_world = (size_t)worldid * tree.nv;
const float* const y = reinterpret_cast<const float*>(space.y.data) + (size_t)worldid * space.width;
const float* const x = reinterpret_cast<const float*>(space.x.data) + (size_t)worldid * space.width;
float* const force = result.qfrc_constraint.data + of_world;
float* const v = result.qacc.data + of_world;
float* const moved = result.velocity.data + of_world;
for (int part = lane; part < 3; part += nlane) {
    if (part < 2) {  // L^-1 D^-1/2 y or x, from the first dof to the last
        float* const out = part == 0 ? v : moved;
        const float* const in = part == 0 ? y : x;
        for (int i = 0; i < tree.nv; ++i) {
            const int adr = matrix.M_rowadr.data[i], last = matrix.M_rownnz.data[i] - 1;
            float value = root[i] * in[i];
            for (int a = 0; a < last; ++a) value -= L[adr + a] * out[matrix.M_colind.data[adr + a]];
            out[i] = value;
        }
    } else {  // L' D^1/2 y, from the last dof to the first
        for (int i = 0; i < tree.nv; ++i) force[i] = y[i] / root[i];
        for (int i = 0; i < tree.nv; ++i) {
            const int adr = matrix.M_rowadr.data[i], last = matrix.M_rownnz.data[i] - 1;
            const float own = y[i] / root[i];
            for (int a = 0; a < last; ++a) force[matrix.M_colind.data[adr + a]] += L[adr + a] * own;
        }
    }
}
""")
def find_motion(tree: Tree, matrix: Matrix, space: Space, result: Result, worldid: int, lane: int, nlane: int):
    """Velocities, displacements and impulses of dofs, that all constraints together make."""
    ...


@wp.func
def finish_dofs(
    tree: Tree, bodies: Bodies, work: Work, result: Result, worldid: int, lane: int, nlane: int
):
    """Constraint force, acceleration, and the velocity that makes the step's displacement, dof by dof."""
    timestep = bodies.timestep[worldid % bodies.timestep.shape[0]]
    for i in range(lane, tree.nv, nlane):
        v_free = work.v_free[worldid, i]
        force = result.qfrc_constraint[worldid, i] / timestep
        result.qfrc_constraint[worldid, i] = force
        result.Ma[worldid, i] = result.qfrc_smooth[worldid, i] + force
        result.qacc[worldid, i] = (v_free + result.qacc[worldid, i] - bodies.qvel[worldid, i]) / timestep
        result.velocity[worldid, i] = v_free + result.velocity[worldid, i] / timestep
