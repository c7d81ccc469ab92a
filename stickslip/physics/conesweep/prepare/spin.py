"""How a free body turns in a step without constraints: it keeps its angular momentum and its energy.

Euler's rule adds `dt I^-1 (L x w)` to the angular velocity w. That is across L, so that the body gains energy in every
step, and above about a radian per step it goes to infinity. Here the rule is the midpoint rule of the rotation group
in the frame of the body,

    I w+ = exp(-dt u) I w + dt (torque),    u = (w + w+) / 2 but for the torque, which acts on u as on w+,

and the pose moves by exp(dt u), so that the angular momentum in the world stays where it was, whatever the length of
the step. The rule is symmetric in time, so that energy comes back; where a step turns so far that u is not found,
energy is cut to what it was. Under implicitfast MuJoCo has a rule of its own, which is left as it is but for bodies on
tendons, of which it does not know (`mjwarp/model.py`).
"""

import mujoco_warp as mjw
import warp as wp

from stickslip.physics.conesweep.layout import Bodies, Work
from stickslip.physics.conesweep.prepare.inverse import inverse_of_inertia
from stickslip.physics.mjwarp.model import Model

wp.set_module_options({"enable_backward": False})

ROUNDS = wp.constant(8)
"""Most times that u is found again; each gains a factor of about `dt w / 2`."""

CLOSE = wp.constant(1.0e-6)
"""Change of u after which it counts as found, as a share of it."""

FAR = wp.constant(1.0e-3)
"""The same, from which on it counts as not found: the energy is then cut to what it was."""


SMALL = wp.constant(0.01)
"""Square of an angle up to which three terms of the series of its sine and cosine are exact in single precision."""


@wp.struct
class Spin:
    """Free bodies that are alone in their tree, and their inertia."""

    body: wp.array[int]
    body_dofadr: wp.array[int]
    body_subtreemass: wp.array2d[float]
    dof_armature: wp.array2d[float]
    M_rownnz: wp.array[int]
    M_rowadr: wp.array[int]
    M: wp.array2d[float]


def spin_of(m: Model, d: mjw.Data) -> Spin:
    """What `turn_freely` reads besides the kinematics."""
    spin = Spin()
    spin.body = m.structure.free if m.opt.integrator == mjw.IntegratorType.EULER else m.structure.tied
    spin.body_dofadr = m.body_dofadr
    spin.body_subtreemass, spin.dof_armature = m.body_subtreemass, m.dof_armature
    spin.M_rownnz, spin.M_rowadr, spin.M = m.M_rownnz, m.M_rowadr, d.M
    return spin


@wp.func
def rotation_less_one(angle: wp.vec3, v: wp.vec3) -> wp.vec3:
    """What a rotation by a vector of `angle` adds to v."""
    square = wp.length_sq(angle)
    across = 1.0 - square / 6.0 * (1.0 - square / 20.0)  # sin(a) / a
    inwards = 0.5 - square / 24.0 * (1.0 - square / 30.0)  # (1 - cos(a)) / a^2
    if square > SMALL:
        size = wp.sqrt(square)
        across = wp.sin(size) / size
        inwards = (1.0 - wp.cos(size)) / square
    first = wp.cross(angle, v)
    return across * first + inwards * wp.cross(angle, first)


@wp.func
def inertia_of(spin: Spin, worldid: int, dofadr: int, arm: wp.vec3, mass: float) -> wp.mat33:
    """Inertia about the centre of mass, in the axes of the body, which is `arm` away from its frame there."""
    inertia = wp.mat33()
    for r in range(3):
        adr = spin.M_rowadr[dofadr + 3 + r]
        count = spin.M_rownnz[dofadr + 3 + r]
        for c in range(3):
            if c <= r:
                value = mass * arm[r] * arm[c]
                k = count - 1 - (r - c)  # a row has dofs before it, or none; itself last
                if k >= 0:
                    value += spin.M[worldid, adr + k]
                if c == r:
                    value -= mass * wp.dot(arm, arm)
                    value -= spin.dof_armature[worldid % spin.dof_armature.shape[0], dofadr + 3 + r]
                inertia[r, c] = value
                inertia[c, r] = value
    return inertia


@wp.func
def turn_freely(spin: Spin, bodies: Bodies, work: Work, worldid: int, b: int):
    """Correct the velocity without constraints of a free body, which Euler's rule has found."""
    timestep = bodies.timestep[worldid % bodies.timestep.shape[0]]
    at = spin.body_dofadr[b]
    w = wp.vec3(bodies.qvel[worldid, at + 3], bodies.qvel[worldid, at + 4], bodies.qvel[worldid, at + 5])
    euler = wp.vec3(work.v_free[worldid, at + 3], work.v_free[worldid, at + 4], work.v_free[worldid, at + 5])
    axes = bodies.xmat[worldid, b]
    reach = bodies.subtree_com[worldid, b] - bodies.xpos[worldid, b]
    mass = spin.body_subtreemass[worldid % spin.body_subtreemass.shape[0], b]
    inertia = inertia_of(spin, worldid, at, wp.transpose(axes) @ reach, mass)
    inverse = inverse_of_inertia(inertia)
    L = inertia @ w
    at_rest = euler + timestep * (inverse @ wp.cross(w, L))  # what torques alone make of it
    middle = euler
    turn = wp.vec3()  # of w, by the rotation of the frame
    change = float(0.0)
    for n in range(ROUNDS):  # noqa: B007
        last = middle
        turn = inverse @ rotation_less_one(-timestep * last, L)
        middle = at_rest + 0.5 * turn
        change = wp.length(middle - last)
        if change <= CLOSE * wp.length(middle):
            break
    if not change <= FAR * wp.length(middle):
        alone = w + turn
        energy = wp.dot(w, L)
        new_energy = wp.dot(alone, inertia @ alone)
        if new_energy > energy:
            turn = wp.sqrt(energy / new_energy) * alone - w
            middle = at_rest + 0.5 * turn
    turned = at_rest + turn
    # the centre of mass goes on as before, seen from where the frame of the body is then
    before = axes @ w
    rotation = timestep * (axes @ middle)
    swung = rotation_less_one(rotation, reach)
    after = axes @ turned + rotation_less_one(rotation, axes @ turned)
    around = wp.cross(after, reach + swung)
    moved = wp.cross(axes @ euler, reach) + timestep * wp.cross(before, wp.cross(before, reach)) - around
    shift = around - swung / timestep
    for j in range(3):
        work.v_free[worldid, at + j] = work.v_free[worldid, at + j] + moved[j]
        work.v_free[worldid, at + 3 + j] = turned[j]
        work.lag[worldid, at + j] = shift[j]
        work.lag[worldid, at + 3 + j] = middle[j] - turned[j]


@wp.func
def turn_all(spin: Spin, bodies: Bodies, work: Work, worldid: int, lane: int, nlane: int):
    """Correct the velocities without constraints of all free bodies of a world."""
    for k in range(lane, spin.body.shape[0], nlane):
        turn_freely(spin, bodies, work, worldid, spin.body[k])
