"""How contacts answer to a gap and to sliding: what they push, and how much all of a body's push together."""

import warp as wp

from stickslip.physics.pbd.lanes import team_sum
from stickslip.physics.pbd.layout import NOBODY, Bodies, Iteration, Options, Response, Sums, Touching, real
from stickslip.physics.pbd.rigid import diagonal, skew, trace_of

wp.set_module_options({"enable_backward": False})

mat66d = wp.types.matrix(shape=(6, 6), dtype=wp.float64)


@wp.func
def respond(
    touching: Touching,
    options: Options,
    it: Iteration,
    worldid: int,
    c: int,
    gap: real,
    sliding: wp.vec3d,
    normal: wp.vec3d,
    gain: real,
) -> Response:
    """How far a contact's particle is displaced in this iteration, relative to what it touches [m].

    Args:
        touching: contacts
        options: parameters
        it: the iteration
        worldid: world
        c: contact
        gap: between the two, as they are now [m]
        sliding: how far they slide along each other in the substep [m]
        normal: towards the particle
        gain: share of what it would take that is done
    """
    out = Response()
    mu = touching.friction[worldid, c]
    shift = touching.shift[worldid, c]
    if options.accumulate == 0:
        # the paper's: never back, and no more friction than what is deep now allows
        if gap > real(0.0):
            return out
        length = wp.length(sliding)
        out.push = -gain * gap * normal
        if length > real(0.0):
            out.push -= gain * wp.min(-mu * gap, length) / length * sliding
        out.moved = 1
        touching.shift[worldid, c] = shift + out.push
        return out
    # the displacement of the whole substep is what is bounded: by a step of projected gradients, with momentum
    height = wp.dot(shift, normal)
    up = wp.max(height - gain * gap, real(0.0))
    along = shift - height * normal - gain * sliding
    length_sq = wp.length_sq(along)
    bound = mu * up
    if length_sq > bound * bound:
        along *= bound / wp.sqrt(length_sq)
    now = up * normal + along
    step = now - touching.last[worldid, c]
    ahead = now + it.beta * step
    if wp.length_sq(step) > it.still * it.still:
        out.moved = 1
    touching.last[worldid, c] = now
    touching.shift[worldid, c] = ahead
    out.push = ahead - shift
    return out


@wp.func
def answer_of(bodies: Bodies, touching: Touching, worldid: int, body: int, lane: int, nlane: int) -> real:
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
    sums = team_sum(sums, nlane)
    spread = wp.mat33d(
        sums[3], sums[4], sums[5], sums[6], sums[7], sums[8], sums[9], sums[10], sums[11]
    )  # fmt: skip
    first_moment = skew(wp.vec3d(sums[0], sums[1], sums[2]))
    second = diagonal(trace_of(spread)) - spread
    light = bodies.body[worldid, body].light
    inverse = bodies.body[worldid, body].inverse
    # M^-1 times the sum has the same eigenvalues as K
    answer = mat66d()
    a = light * first_moment
    b = inverse * first_moment
    e = inverse * second
    for i in range(3):
        answer[i, i] = light * sums[12]
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
