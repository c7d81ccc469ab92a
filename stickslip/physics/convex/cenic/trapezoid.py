"""The trapezoid rule (25): a second solve at the end that the first one found, with the mean of both ends' forces."""

import warp as wp

from stickslip.physics.convex.step.jacobian import contact_velocity, subtract_impulse
from stickslip.physics.convex.step.laws import tangential
from stickslip.physics.convex.step.layout import Inertia, Solver, Touch, Tree, vec6
from stickslip.physics.convex.step.potential import friction_impulse, real, slip

wp.set_module_options({"enable_backward": False})


@wp.kernel
def begin_forces(tree: Tree, touch: Touch, v_start: wp.array2d[real], solver: Solver):
    """solver.g = minus the contact forces on dofs as they are at the start of the step, (6) and (7)."""
    worldid = wp.tid()
    for i in range(tree.nv):
        solver.g[worldid, i] = real(0.0)
    adr = touch.adr[worldid]
    for k in range(touch.num[worldid]):
        slot = adr + k
        v = touch.given[slot] + contact_velocity(tree, touch, v_start, slot, worldid)
        normal = wp.max(touch.elastic[slot], real(0.0)) * wp.max(real(1.0) - touch.dissipation[slot] * v[0], real(0.0))
        t = tangential(v)
        f = friction_impulse(t, touch.musq[slot], touch.lagged[slot], slip(t, touch.musq[slot], touch.eps[slot]))
        subtract_impulse(tree, touch, vec6(normal, f[0], f[1], f[2], f[3], f[4]), solver.g, slot, worldid)


@wp.kernel
def mean_inertia(
    # In:
    M_start: wp.array2d[float],
    # In and out:
    end: Inertia,
):
    worldid, k = wp.tid()
    end.M[worldid, k] = 0.5 * (M_start[worldid, k] + end.M[worldid, k])


@wp.kernel
def mean_forces(
    # In:
    start: Inertia,
    solver: Solver,
    # In and out:
    end: Inertia,
):
    """Forces of both ends; those of contacts at the start come from solver.g. Nothing is linearized further."""
    worldid, i = wp.tid()
    contact = -real(0.5) * solver.g[worldid, i]
    end.force[worldid, i] = real(0.5) * (start.force[worldid, i] + end.force[worldid, i]) + contact
    end.damping[worldid, i] = 0.0
    end.spring[worldid, i] = 0.0


@wp.kernel
def step_back(tree: Tree, dt_in: wp.array[real], v_end: wp.array2d[real], touch: Touch):
    """Elastic forces at the end of the step, brought back to its start along the velocity of the end."""
    worldid = wp.tid()
    adr = touch.adr[worldid]
    for k in range(touch.num[worldid]):
        slot = adr + k
        v = contact_velocity(tree, touch, v_end, slot, worldid)
        touch.elastic[slot] += dt_in[worldid] * touch.stiffness[slot] * v[0]
