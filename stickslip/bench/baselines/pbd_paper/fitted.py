"""Iterations of a substep as published, on bodies: contacts displace particles, shapes are matched, momentum is kept.

After every iteration a particle with rest position q is at `pos + turn q` with the velocity `vel + rate q`. Sums over
all particles are then sums over the displaced ones plus moments of the body that are known in advance. The cost of an
iteration depends on the number of contacts only, not on the number of particles.
"""

import warp as wp

from stickslip.physics.pbd.contact import respond
from stickslip.physics.pbd.lanes import team_sum
from stickslip.physics.pbd.layout import NOBODY, Bodies, Iteration, Options, Response, Shape, Step, Sums, Touching, real
from stickslip.physics.pbd.motion import arrive, coast
from stickslip.physics.pbd.rigid import momentum, rotation_of, skew, turned_towards

wp.set_module_options({"enable_backward": False})

ITERATES_AT_REST = 1
"""Shape matching runs without contacts too."""


@wp.func
def predict(bodies: Bodies, worldid: int, body: int, dt: real):
    """Semi-implicit Euler for every particle of a body."""
    spin = coast(bodies, worldid, body, dt)
    r = bodies.body[worldid, body].rotation
    rate = r * skew(bodies.body[worldid, body].inverse * (wp.transpose(r) * spin))
    bodies.slot[worldid, body].turn = r + dt * rate
    bodies.slot[worldid, body].rate = rate


@wp.func
def pushed(
    shape: Shape, bodies: Bodies, touching: Touching, options: Options, it: Iteration, worldid: int, c: int, body: int
) -> Response:
    """Displacement of a contact's particle in this iteration, relative to what it touches [m]."""
    slot = it.read * shape.nbody + body
    normal = touching.normal[worldid, c]
    place = touching.place[worldid, c]
    gap = (
        wp.dot(normal, bodies.slot[worldid, slot].turn * place) - touching.rest[worldid, c] - touching.slack[worldid, c]
    )
    velocity = bodies.slot[worldid, slot].vel + bodies.slot[worldid, slot].rate * place
    gain = bodies.body[worldid, body].gain
    other = touching.other[worldid, c]
    if other == NOBODY:
        gap += wp.dot(normal, bodies.slot[worldid, slot].pos)
        velocity -= touching.drift[worldid, c]
    else:
        theirs = shape.owner[other]
        there = it.read * shape.nbody + theirs
        opposite = touching.opposite[worldid, c]
        apart = bodies.slot[worldid, slot].pos - bodies.slot[worldid, there].pos
        gap += wp.dot(normal, apart) - wp.dot(normal, bodies.slot[worldid, there].turn * opposite)
        if options.relative != 0:
            velocity -= bodies.slot[worldid, there].vel + bodies.slot[worldid, there].rate * opposite
        gain = wp.min(gain, bodies.body[worldid, theirs].gain)
    sliding = it.dt * (velocity - wp.dot(velocity, normal) * normal)
    return respond(touching, options, it, worldid, c, gap, sliding, normal, gain)


@wp.func
def iterate(s: Step, it: Iteration, worldid: int, body: int, lane: int, nlane: int) -> int:
    """One iteration for one body; returns whether a contact of this lane still moved."""
    bodies = s.bodies
    touching = s.touching
    slot = it.read * s.shape.nbody + body
    to = (1 - it.read) * s.shape.nbody + body
    first = bodies.adr[worldid, body]
    sums = Sums()
    turn = bodies.slot[worldid, slot].turn
    rate = bodies.slot[worldid, slot].rate
    moved = int(0)
    for k in range(lane, bodies.num[worldid, body], nlane):
        c = first + k
        answer = pushed(s.shape, bodies, touching, s.options, it, worldid, c, body)
        moved = moved | answer.moved
        m = touching.mass[worldid, c] * answer.push
        place = touching.place[worldid, c]
        spin = it.per_dt * wp.cross(turn * place, m) + wp.cross(m, rate * place)
        for i in range(3):
            sums[i] += m[i]
            sums[12 + i] += spin[i]
            for j in range(3):
                sums[3 + 3 * i + j] += m[i] * place[j]
    sums = team_sum(sums, nlane)
    if lane == 0:
        spread = bodies.body[worldid, body].spread
        shift = bodies.body[worldid, body].light * wp.vec3d(sums[0], sums[1], sums[2])
        fit = turn * spread + wp.mat33d(
            sums[3], sums[4], sums[5], sums[6], sums[7], sums[8], sums[9], sums[10], sums[11]
        )  # fmt: skip
        rotation = turned_towards(fit, bodies.body[worldid, body].rotation, bodies.body[worldid, body].inverse)
        bodies.body[worldid, body].rotation = rotation
        # P is conserved as it is; L is corrected
        spin = wp.vec3d(sums[12], sums[13], sums[14]) + momentum(turn, rate, spread)
        new_rate = rate + it.per_dt * (rotation - turn)
        excess = momentum(rotation, new_rate, spread) - spin
        wrong = rotation * skew(bodies.body[worldid, body].inverse * (wp.transpose(rotation) * excess))
        bodies.slot[worldid, to].pos = bodies.slot[worldid, slot].pos + shift
        bodies.slot[worldid, to].vel = bodies.slot[worldid, slot].vel + it.per_dt * shift
        bodies.slot[worldid, to].rate = new_rate - wrong
        bodies.slot[worldid, to].turn = rotation - it.dt * wrong
    return moved


@wp.func
def finish(shape: Shape, bodies: Bodies, worldid: int, body: int, read: int, dt: real):
    """End of a substep: the body is rigid again, with the momentum it has. `dt` is not used."""
    slot = read * shape.nbody + body
    turn = bodies.slot[worldid, slot].turn
    spread = bodies.body[worldid, body].spread
    bodies.body[worldid, body].spin = momentum(turn, bodies.slot[worldid, slot].rate, spread)
    rotation = rotation_of(turn * spread, bodies.body[worldid, body].rotation)
    arrive(bodies, worldid, body, bodies.slot[worldid, slot].pos, bodies.slot[worldid, slot].vel, rotation)
