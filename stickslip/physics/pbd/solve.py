"""Iterations of a substep on bodies: contacts push their particles, bodies are fitted to them, momentum is kept.

A particle of a body that is fitted in every iteration never is anywhere but at `pos + turn q`, with the velocity
`vel + rate q`, q its place at rest. So sums over all particles are those over the ones that were pushed, and the rest
is known beforehand: an iteration costs what contacts cost, whatever a body is made of.
"""

import warp as wp

from stickslip.physics.pbd.lanes import team_sum
from stickslip.physics.pbd.layout import NOBODY, Bodies, Options, Shape, Sums, Touching, real
from stickslip.physics.pbd.rigid import diagonal, momentum, rotation_of, skew, trace_of, turned_towards

wp.set_module_options({"enable_backward": False})

mat66d = wp.types.matrix(shape=(6, 6), dtype=wp.float64)


@wp.func
def predict(shape: Shape, bodies: Bodies, worldid: int, body: int, dt: real):
    """Semi-implicit Euler for every particle of a body."""
    r = bodies.rotation[worldid, body]
    spin = bodies.spin[worldid, body] + dt * bodies.torque[worldid, body]
    rate = r * skew(bodies.inverse[worldid, body] * (wp.transpose(r) * spin))
    vel = bodies.vel[worldid, body] + dt * bodies.force[worldid, body] / bodies.mass[worldid, body]
    bodies.spin[worldid, body] = spin
    bodies.before[worldid, body] = bodies.pos[worldid, body]
    bodies.pos[worldid, body] = bodies.pos[worldid, body] + dt * vel
    bodies.turn[worldid, body] = r + dt * rate
    bodies.vel[worldid, body] = vel
    bodies.rate[worldid, body] = rate
    bodies.adr[worldid, body] = 0x7FFFFFFF
    bodies.num[worldid, body] = 0


@wp.func
def answer_of(bodies: Bodies, touching: Touching, worldid: int, body: int, lane: int, nlane: int, nteam: int) -> real:
    """How much farther than asked all contacts together push a body, at the most.

    Contacts at r with masses m answer to a push as K = M^-1/2 (sum of m J^T J) M^-1/2 does, J = (1, -[r]), M the body's
    6 x 6 inertia; those of pairs count twice. Its largest eigenvalue is at most tr(K^16)^(1/16): that is returned.
    """
    sums = Sums()
    first = bodies.adr[worldid, body]
    for k in range(lane, bodies.num[worldid, body], nlane):
        c = first + k
        mass = touching.mass[worldid, c]
        if touching.other[worldid, c] != NOBODY:
            mass *= real(2.0)
        r = touching.place[worldid, c]
        for i in range(3):
            sums[i] += mass * r[i]
            for j in range(3):
                sums[3 + 3 * i + j] += mass * r[i] * r[j]
        sums[12] += mass
    sums = team_sum(sums, nteam)
    spread = wp.mat33d(
        sums[3], sums[4], sums[5], sums[6], sums[7], sums[8], sums[9], sums[10], sums[11]
    )  # fmt: skip
    first_moment = skew(wp.vec3d(sums[0], sums[1], sums[2]))
    second = diagonal(trace_of(spread)) - spread
    total = bodies.mass[worldid, body]
    inverse = bodies.inverse[worldid, body]
    # M^-1 times the sum has the same eigenvalues as K
    answer = mat66d()
    a = first_moment / total
    b = inverse * first_moment
    e = inverse * second
    for i in range(3):
        answer[i, i] = sums[12] / total
        for j in range(3):
            answer[i, 3 + j] = -a[i, j]
            answer[3 + i, j] = b[i, j]
            answer[3 + i, 3 + j] = e[i, j]
    for _ in range(4):
        answer = answer * answer
    total16 = real(0.0)
    for i in range(6):
        total16 += answer[i, i]
    if total16 > real(0.0):
        return wp.pow(total16, real(0.0625))
    return real(0.0)


@wp.func
def pushed(
    bodies: Bodies,
    touching: Touching,
    options: Options,
    worldid: int,
    c: int,
    body: int,
    theirs: int,
    slot: int,
    other_slot: int,
    beta: real,
    still: real,
    iteration: int,
    dt: real,
) -> wp.vec3d:
    """How far a contact's particle is displaced in this iteration, relative to what it touches [m]."""
    normal = touching.normal[worldid, c]
    place = touching.place[worldid, c]
    gap = wp.dot(normal, bodies.turn[worldid, slot] * place) - touching.rest[worldid, c] - touching.slack[worldid, c]
    velocity = bodies.vel[worldid, slot] + bodies.rate[worldid, slot] * place
    gain = bodies.gain[worldid, body]
    if theirs == NOBODY:
        gap += wp.dot(normal, bodies.pos[worldid, slot])
        velocity -= touching.drift[worldid, c]
    else:
        opposite = touching.opposite[worldid, c]
        apart = bodies.pos[worldid, slot] - bodies.pos[worldid, other_slot]
        gap += wp.dot(normal, apart) - wp.dot(normal, bodies.turn[worldid, other_slot] * opposite)
        if options.relative != 0:
            velocity -= bodies.vel[worldid, other_slot] + bodies.rate[worldid, other_slot] * opposite
        gain = wp.min(gain, bodies.gain[worldid, theirs])
    sliding = velocity - wp.dot(velocity, normal) * normal
    mu = touching.friction[worldid, c]
    shift = touching.shift[worldid, c]
    if options.accumulate == 0:
        # the paper's: never back, and no more friction than what is deep now allows
        if gap > real(0.0):
            return wp.vec3d()
        speed = wp.length(sliding)
        push = -gain * gap * normal
        if speed > real(0.0):
            push -= gain * wp.min(-mu * gap, speed * dt) / speed * sliding
        touching.shift[worldid, c] = shift + push
        return push
    # the displacement of the whole substep is what is bounded: by a step of projected gradients, with momentum
    up = wp.max(wp.dot(shift, normal) - gain * gap, real(0.0))
    along = shift - wp.dot(shift, normal) * normal - gain * dt * sliding
    length = wp.length(along)
    if length > mu * up:
        along *= mu * up / length
    now = up * normal + along
    ahead = now + beta * (now - touching.last[worldid, c])
    if wp.length_sq(now - touching.last[worldid, c]) > still * still:
        touching.moving[worldid, iteration % 3] = 1
    touching.last[worldid, c] = now
    touching.shift[worldid, c] = ahead
    return ahead - shift


@wp.func
def iterate(
    shape: Shape,
    bodies: Bodies,
    touching: Touching,
    options: Options,
    worldid: int,
    body: int,
    read: int,
    write: int,
    beta: real,
    still: real,
    iteration: int,
    dt: real,
    lane: int,
    nlane: int,
    nteam: int,
):
    """One iteration for one body, from slot `read` to slot `write` (0 or 1)."""
    slot = read * shape.nbody + body
    to = write * shape.nbody + body
    if options.surface != 0 and bodies.num[worldid, body] == 0:
        if lane == 0:
            bodies.pos[worldid, to] = bodies.pos[worldid, slot]
            bodies.vel[worldid, to] = bodies.vel[worldid, slot]
            bodies.rate[worldid, to] = bodies.rate[worldid, slot]
            bodies.turn[worldid, to] = bodies.turn[worldid, slot]
        return
    first = bodies.adr[worldid, body]
    sums = Sums()
    turn = bodies.turn[worldid, slot]
    rate = bodies.rate[worldid, slot]
    for k in range(lane, bodies.num[worldid, body], nlane):
        c = first + k
        other = touching.other[worldid, c]
        theirs = int(NOBODY)
        other_slot = int(0)
        if other != NOBODY:
            theirs = shape.owner[other]
            other_slot = read * shape.nbody + theirs
        m = touching.mass[worldid, c] * pushed(
            bodies, touching, options, worldid, c, body, theirs, slot, other_slot, beta, still, iteration, dt
        )
        place = touching.place[worldid, c]
        if options.surface != 0:
            spin = wp.cross(touching.arm[worldid, c], m) / dt
        else:
            spin = wp.cross(turn * place, m) / dt + wp.cross(m, rate * place)
        for i in range(3):
            sums[i] += m[i]
            sums[12 + i] += spin[i]
            for j in range(3):
                sums[3 + 3 * i + j] += m[i] * place[j]
    sums = team_sum(sums, nteam)
    if lane == 0:
        spread = bodies.spread[worldid, body]
        moved = wp.vec3d(sums[0], sums[1], sums[2]) / bodies.mass[worldid, body]
        fit = turn * spread + wp.mat33d(
            sums[3], sums[4], sums[5], sums[6], sums[7], sums[8], sums[9], sums[10], sums[11]
        )  # fmt: skip
        rotation = turned_towards(fit, bodies.rotation[worldid, body], bodies.inverse[worldid, body])
        bodies.rotation[worldid, body] = rotation
        # P is kept as it is; L is told what it has to be
        spin = wp.vec3d(sums[12], sums[13], sums[14])
        if options.surface != 0:
            spin += bodies.spin[worldid, body]
        else:
            spin += momentum(turn, rate, spread)
        new_rate = rate + (rotation - turn) / dt
        excess = momentum(rotation, new_rate, spread) - spin
        wrong = rotation * skew(bodies.inverse[worldid, body] * (wp.transpose(rotation) * excess))
        bodies.spin[worldid, body] = spin
        bodies.pos[worldid, to] = bodies.pos[worldid, slot] + moved
        bodies.vel[worldid, to] = bodies.vel[worldid, slot] + moved / dt
        bodies.rate[worldid, to] = new_rate - wrong
        bodies.turn[worldid, to] = rotation - dt * wrong


@wp.func
def finish(shape: Shape, bodies: Bodies, worldid: int, body: int, read: int, options: Options):
    """A body is rigid again, with the momentum it has: the first slot holds it."""
    slot = read * shape.nbody + body
    turn = bodies.turn[worldid, slot]
    spread = bodies.spread[worldid, body]
    if options.surface == 0:
        bodies.spin[worldid, body] = momentum(turn, bodies.rate[worldid, slot], spread)
    rotation = rotation_of(turn * spread, bodies.rotation[worldid, body])
    bodies.rotation[worldid, body] = rotation
    bodies.pos[worldid, body] = bodies.pos[worldid, slot]
    bodies.vel[worldid, body] = bodies.vel[worldid, slot]
