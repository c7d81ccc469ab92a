"""Which particles touch what, once a substep."""

import warp as wp

from stickslip.physics.pbd.colliders import nearest
from stickslip.physics.pbd.layout import NOBODY, Bodies, Hand, Moment, Shape, Step, Surface, real
from stickslip.physics.pbd.rigid import matrix_of

wp.set_module_options({"enable_backward": False})


RECOVERY = wp.constant(real(50.0))
GENTLE = wp.constant(real(0.02))
"""An overlap at the start of a substep is undone at this rate [1/s], or this speed if that is more [m/s]; all at once
would shoot bodies apart."""


@wp.func
def friction_between(surface: Surface, worldid: int, a: int, b: int) -> real:
    """Coefficient of two geoms: of the one with priority, else the larger; none where contact is without friction."""
    row = worldid % surface.friction.shape[0]
    mu = wp.max(surface.friction[row, a][0], surface.friction[row, b][0])
    condim = wp.max(surface.condim[a], surface.condim[b])
    if surface.priority[a] > surface.priority[b]:
        mu = surface.friction[row, a][0]
        condim = surface.condim[a]
    if surface.priority[b] > surface.priority[a]:
        mu = surface.friction[row, b][0]
        condim = surface.condim[b]
    if condim == 1:
        mu = float(0.0)
    return real(mu)


@wp.func
def position_of(shape: Shape, bodies: Bodies, worldid: int, particle: int) -> wp.vec3d:
    """Of a particle, from the centre of mass of its body [m]; of the first slot."""
    body = shape.owner[particle]
    return bodies.turn[worldid, body] * (shape.place[particle] - bodies.centre[worldid, body])


@wp.struct
class Held:
    """Pose of a body that is moved by hand."""

    pos: wp.vec3d
    mat: wp.mat33d


@wp.func
def held_at(hand: Hand, worldid: int, mocap: int, share: real) -> Held:
    """Where it is when so much of the step is over, from 0 to 1."""
    p = hand.pos[worldid, mocap]
    q = hand.quat[worldid, mocap]
    p0 = hand.pos_before[worldid, mocap]
    q0 = hand.quat_before[worldid, mocap]
    if not (p0[0] == p0[0] and q0[0] == q0[0]):  # noqa: PLR0124 - not a number
        p0 = p
        q0 = q
    sign = real(1.0)
    if q[0] * q0[0] + q[1] * q0[1] + q[2] * q0[2] + q[3] * q0[3] < 0.0:
        sign = real(-1.0)
    rest = real(1.0) - share
    out = Held()
    out.pos = wp.vec3d(
        rest * real(p0[0]) + share * real(p[0]),
        rest * real(p0[1]) + share * real(p[1]),
        rest * real(p0[2]) + share * real(p[2]),
    )
    out.mat = matrix_of(
        rest * sign * real(q0[0]) + share * real(q[0]),
        rest * sign * real(q0[1]) + share * real(q[1]),
        rest * sign * real(q0[2]) + share * real(q[2]),
        rest * sign * real(q0[3]) + share * real(q[3]),
    )
    return out


@wp.func
def drift_of(hand: Hand, moment: Moment, worldid: int, mocap: int, point: wp.vec3d) -> wp.vec3d:
    """Velocity of a point of it, which is `point` now, over the substep that ends now [m/s]."""
    if not moment.dt > real(0.0):
        return wp.vec3d()
    now = held_at(hand, worldid, mocap, moment.over)
    then = held_at(hand, worldid, mocap, moment.over - moment.dt / moment.timestep)
    own = wp.transpose(now.mat) * (point - now.pos)
    return (point - then.pos - then.mat * own) / moment.dt


@wp.func
def note_near(shape: Shape, bodies: Bodies, worldid: int, body: int, word: int) -> int:
    """Bits of the bodies, 32 at a time, whose particles may be near those of a body."""
    bits = int(0)
    here = bodies.pos[worldid, body] + bodies.turn[worldid, body] * (
        shape.body_middle[body] - bodies.centre[worldid, body]
    )
    for k in range(32):
        other = 32 * word + k
        if other < shape.nbody and other != body:
            there = bodies.pos[worldid, other] + bodies.turn[worldid, other] * (
                shape.body_middle[other] - bodies.centre[worldid, other]
            )
            reach = shape.body_reach[body] + shape.body_reach[other]
            if wp.length_sq(here - there) < reach * reach:
                bits = bits | (1 << k)
    return bits


@wp.func
def settle_contact(
    s: Step,
    worldid: int,
    index: int,
    particle: int,
    other: int,
    collider: int,
    normal: wp.vec3d,
    gap: real,
    mu: real,
    drift: wp.vec3d,
    dt: real,
):
    """Write down a contact of a particle with another, or with a collider."""
    shape = s.shape
    bodies = s.bodies
    touching = s.touching
    options = s.options
    body = shape.owner[particle]
    radius = shape.radius[particle]
    at = shape.place[particle] - bodies.centre[worldid, body]
    from_centre = bodies.turn[worldid, body] * at
    touching.particle[worldid, index] = particle
    touching.other[worldid, index] = other
    touching.collider[worldid, index] = collider
    touching.normal[worldid, index] = normal
    touching.gap[worldid, index] = gap
    touching.friction[worldid, index] = mu
    touching.drift[worldid, index] = drift
    touching.shift[worldid, index] = wp.vec3d()
    touching.last[worldid, index] = wp.vec3d()
    mass = bodies.grain[worldid, body]
    rest = real(0.0)
    if options.surface != 0:
        at -= radius * (wp.transpose(bodies.rotation[worldid, body]) * normal)
    else:
        rest = radius
    point = bodies.pos[worldid, body] + from_centre - (radius + real(0.5) * gap) * normal
    opposite = wp.vec3d()
    velocity = bodies.vel[worldid, body]
    if other != NOBODY:
        theirs = shape.owner[other]
        opposite = shape.place[other] - bodies.centre[worldid, theirs]
        if options.surface != 0:
            opposite += shape.radius[other] * (wp.transpose(bodies.rotation[worldid, theirs]) * normal)
        else:
            rest += shape.radius[other]
        grain = bodies.grain[worldid, theirs]
        mass = mass * grain / (mass + grain)
        ours = real(1.0) / bodies.mass[worldid, body]
        share = real(1.0) / bodies.mass[worldid, theirs]
        velocity = (ours * velocity + share * bodies.vel[worldid, theirs]) / (ours + share)
        if particle > other:  # both sides of a pair mean the same point
            point = (
                bodies.pos[worldid, theirs]
                + bodies.turn[worldid, theirs] * (shape.place[other] - bodies.centre[worldid, theirs])
                + (shape.radius[other] + real(0.5) * gap) * normal
            )
    else:
        # normal . (pos + turn at) - rest is the gap
        touched = bodies.pos[worldid, body] + bodies.turn[worldid, body] * at
        rest = wp.dot(normal, touched) - gap
    touching.place[worldid, index] = at
    touching.opposite[worldid, index] = opposite
    touching.point[worldid, index] = point
    touching.arm[worldid, index] = point - dt * velocity - bodies.before[worldid, body]
    touching.rest[worldid, index] = rest
    slack = real(0.0)
    if options.accumulate != 0:
        # the gap there was at the start of the substep
        was = wp.dot(normal, bodies.before[worldid, body] + bodies.rotation[worldid, body] * at) - rest
        if other != NOBODY:
            theirs = shape.owner[other]
            was -= wp.dot(normal, bodies.before[worldid, theirs] + bodies.rotation[worldid, theirs] * opposite)
        else:
            was += dt * wp.dot(normal, drift)
        slack = wp.min(was + dt * wp.max(-RECOVERY * was, GENTLE), real(0.0))
    touching.slack[worldid, index] = slack
    touching.mass[worldid, index] = mass


@wp.func
def meet(s: Step, moment: Moment, worldid: int, particle: int, index: int) -> int:
    """How many contacts a particle has; from `index` on they are written down, if that is not negative."""
    shape = s.shape
    bodies = s.bodies
    options = s.options
    count = int(0)
    body = shape.owner[particle]
    geom = shape.geom[particle]
    radius = shape.radius[particle]
    margin = options.margin * radius
    from_centre = position_of(shape, bodies, worldid, particle)
    at = bodies.pos[worldid, body] + from_centre

    for collider in range(shape.ncollider):
        if shape.meets[geom, shape.collider_geom[collider]]:
            pos = shape.collider_pos[collider]
            mat = shape.collider_mat[collider]
            mocap = shape.collider_mocap[collider]
            if mocap >= 0:
                held = held_at(s.world.hand, worldid, mocap, moment.over)
                pos = held.pos + held.mat * pos
                mat = held.mat * mat
            inside = wp.transpose(mat) * (at - pos)
            found = nearest(s.colliders, collider, inside, radius + margin)
            gap = found.dist - radius
            if gap < margin:
                if index >= 0 and index + count < s.touching.room:
                    mu = friction_between(s.surface, worldid, geom, shape.collider_geom[collider])
                    normal = mat * found.normal
                    drift = wp.vec3d()
                    if mocap >= 0:
                        drift = drift_of(s.world.hand, moment, worldid, mocap, at - radius * normal)
                    settle_contact(
                        s, worldid, index + count, particle, NOBODY, collider, normal, gap, mu, drift, moment.dt
                    )
                count += 1

    for word in range(shape.nword):
        bits = s.near[worldid, body, word]
        for k in range(32):
            if (bits >> k) & 1:
                theirs = 32 * word + k
                apart = bodies.pos[worldid, body] - bodies.pos[worldid, theirs] + from_centre
                inside = wp.transpose(bodies.rotation[worldid, theirs]) * apart + bodies.centre[worldid, theirs]
                side = shape.body_cell[theirs]
                cells = shape.body_cells[theirs]
                x = (inside - shape.body_corner[theirs]) / side
                i0 = int(wp.floor(x[0]))
                j0 = int(wp.floor(x[1]))
                k0 = int(wp.floor(x[2]))
                for i in range(wp.max(i0 - 1, 0), wp.min(i0 + 2, cells[0])):
                    for j in range(wp.max(j0 - 1, 0), wp.min(j0 + 2, cells[1])):
                        first = shape.body_celladr[theirs] + (i * cells[1] + j) * cells[2]
                        low = wp.max(k0 - 1, 0)
                        high = wp.min(k0 + 2, cells[2])
                        if low < high:
                            for slot in range(shape.cell_adr[first + low], shape.cell_adr[first + high]):
                                other = shape.cell_particle[slot]
                                away = apart - position_of(shape, bodies, worldid, other)
                                length = wp.length(away)
                                gap = length - radius - shape.radius[other]
                                reach = options.margin * wp.min(radius, shape.radius[other])
                                if gap < reach and shape.meets[geom, shape.geom[other]]:
                                    if index >= 0 and index + count < s.touching.room:
                                        normal = wp.vec3d(real(0.0), real(0.0), real(1.0))
                                        if length > real(0.0):
                                            normal = away / length
                                        elif particle < other:
                                            normal = -normal
                                        mu = friction_between(s.surface, worldid, geom, shape.geom[other])
                                        settle_contact(
                                            s, worldid, index + count, particle, other, NOBODY, normal, gap, mu,
                                            wp.vec3d(), moment.dt,
                                        )  # fmt: skip
                                    count += 1
    return count
