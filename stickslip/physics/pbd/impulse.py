"""Iterations of a substep on bodies described by their momentum: contacts change it, and poses follow.

The momentum of a body, P and L, is what the impulses of its contacts make it; from it follows where its particles are
at the end of the substep: the centre goes by `dt P / m`, and the rotation is the one in the course of which particles
have L, `sum of m r x (Q r - r) = dt L`. Neither shape nor momentum has to be put right afterwards, and an iteration
costs what contacts cost, whatever a body is made of.
"""

import warp as wp

from stickslip.physics.pbd.contact import respond
from stickslip.physics.pbd.lanes import team_impulse
from stickslip.physics.pbd.layout import NOBODY, Bodies, Impulse, Iteration, Shape, Step, real
from stickslip.physics.pbd.motion import arrive, coast
from stickslip.physics.pbd.rigid import axial, diagonal, skew, straightened, trace_of

wp.set_module_options({"enable_backward": False})

_STEPS = wp.constant(32)
"""Most steps towards a rotation; two are usual, and thirty at 0.9 rad in a substep."""
_EXACT = wp.constant(real(1.0e-20))
"""Square of the last of them [rad^2]; what it leaves is that times the angle of the substep."""
_FOUND = wp.constant(real(1.0e-12))
"""Square of the last of them, where they end before that, with which there is a rotation [rad^2]."""
_SMALL = wp.constant(real(1.0e-6))
"""Square of half an angle up to which 1 / (1 + that) is a series of three [rad^2]."""
ITERATES_AT_REST = 0
"""Where nothing touches there is nothing to iterate for."""


@wp.func
def turned(change: wp.mat33d, w: wp.vec3d) -> wp.mat33d:
    """A rotation less one, turned on by about w; a rotation to rounding, whatever w."""
    k = skew(w)
    q = real(0.25) * wp.length_sq(w)
    scale = real(1.0) - q + q * q
    if q > _SMALL:
        scale = real(1.0) / (real(1.0) + q)
    k = scale * (k + real(0.5) * (k * k))
    return change + k + k * change


@wp.func
def change_for(spread: wp.mat33d, inverse: wp.mat33d, moment: wp.vec3d, guess: wp.mat33d) -> wp.mat33d:
    """The rotation Q, less one, for which the sum of m r x (Q r) is `moment`.

    There is none for more than about a radian; then the body turns by what its angular velocity would be.
    """
    change = guess
    left = real(1.0)
    for _ in range(_STEPS):
        w = inverse * (moment + axial(spread + change * spread))
        change = turned(change, w)
        left = wp.length_sq(w)
        if not left > _EXACT:
            break
    if not left < _FOUND:
        change = turned(wp.mat33d(), inverse * moment)
    return change


@wp.func
def predict(bodies: Bodies, worldid: int, body: int, dt: real):
    """A substep without contacts."""
    spin = coast(bodies, worldid, body, dt)
    r = bodies.body[worldid, body].rotation
    inertia = bodies.body[worldid, body].inertia
    spread = diagonal(real(0.5) * trace_of(inertia)) - r * inertia * wp.transpose(r)
    inverse = r * bodies.body[worldid, body].inverse * wp.transpose(r)
    change = change_for(spread, inverse, dt * spin, turned(wp.mat33d(), dt * (inverse * spin)))
    bodies.body[worldid, body].spread_now = spread
    bodies.body[worldid, body].inverse_now = inverse
    bodies.slot[worldid, body].change = change
    bodies.slot[worldid, body].turn = r + change * r


@wp.func
def iterate(s: Step, it: Iteration, worldid: int, body: int, lane: int, nlane: int) -> int:
    """One iteration for one body; returns whether a contact of this lane still moved."""
    bodies = s.bodies
    touching = s.touching
    slot = it.read * s.shape.nbody + body
    to = (1 - it.read) * s.shape.nbody + body
    num = bodies.num[worldid, body]
    vel = bodies.slot[worldid, slot].vel
    change = bodies.slot[worldid, slot].change
    moved = int(0)
    if num == 0:
        if lane == 0:
            bodies.slot[worldid, to].vel = vel
            bodies.slot[worldid, to].change = change
        return moved
    first = bodies.adr[worldid, body]
    mine = bodies.body[worldid, body].gain
    sums = Impulse()
    for k in range(lane, num, nlane):
        c = first + k
        normal = touching.normal[worldid, c]
        # displacement since the start of the substep, relative to the other surface
        displacement = it.dt * vel + change * touching.lever[worldid, c]
        own = displacement
        gain = mine
        other = touching.other[worldid, c]
        if other == NOBODY:
            displacement -= it.dt * touching.drift[worldid, c]
            own = displacement
        else:
            theirs = s.shape.owner[other]
            there = it.read * s.shape.nbody + theirs
            displacement -= (
                it.dt * bodies.slot[worldid, there].vel
                + bodies.slot[worldid, there].change * touching.counter[worldid, c]
            )
            gain = wp.min(gain, bodies.body[worldid, theirs].gain)
            if s.options.relative != 0:
                own = displacement
        gap = touching.clearance[worldid, c] + wp.dot(normal, displacement)
        sliding = own - wp.dot(own, normal) * normal
        answer = respond(touching, s.options, it, worldid, c, gap, sliding, normal, gain)
        moved = moved | answer.moved
        m = touching.mass[worldid, c] * answer.push
        spin = wp.cross(touching.arm[worldid, c], m)
        for i in range(3):
            sums[i] += m[i]
            sums[3 + i] += spin[i]
    sums = team_impulse(sums, nlane)
    if lane == 0:
        spin = bodies.body[worldid, body].spin + it.per_dt * wp.vec3d(sums[3], sums[4], sums[5])
        bodies.body[worldid, body].spin = spin
        bodies.slot[worldid, to].vel = vel + it.per_dt * bodies.body[worldid, body].light * wp.vec3d(
            sums[0], sums[1], sums[2]
        )
        bodies.slot[worldid, to].change = change_for(
            bodies.body[worldid, body].spread_now, bodies.body[worldid, body].inverse_now, it.dt * spin, change
        )
    return moved


@wp.func
def finish(shape: Shape, bodies: Bodies, worldid: int, body: int, read: int, dt: real):
    """A body is where the substep has taken it."""
    slot = read * shape.nbody + body
    r = bodies.body[worldid, body].rotation
    vel = bodies.slot[worldid, slot].vel
    rotation = straightened(r + bodies.slot[worldid, slot].change * r)
    arrive(bodies, worldid, body, bodies.body[worldid, body].before + dt * vel, vel, rotation)
