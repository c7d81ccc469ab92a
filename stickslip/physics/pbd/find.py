"""Which particles touch what, once a substep.

Clusters of particles are looked at first, then the particles of those that are near something; what they touch is
listed, and then each contact is written down in full.
"""

import warp as wp

from stickslip.physics.pbd.colliders import is_within, may_reach, nearest
from stickslip.physics.pbd.lanes import lane_count, sync, sync_any
from stickslip.physics.pbd.layout import NOBODY, Bodies, Hand, Moment, Shape, Step, Surface, Touching, real
from stickslip.physics.pbd.rigid import matrix_of

wp.set_module_options({"enable_backward": False})


RECOVERY = wp.constant(real(50.0))
GENTLE = wp.constant(real(0.02))
"""An overlap at the start of a substep is undone at this rate [1/s], or this speed if that is more [m/s]; all at once
would shoot bodies apart."""


CLUSTER = wp.constant(32)
"""Most particles of a cluster."""


@wp.func(inline=False)
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
    return bodies.slot[worldid, body].turn * (shape.place[particle] - bodies.body[worldid, body].centre)


@wp.struct
class Held:
    """Pose of a body that is moved by hand, or of a collider."""

    pos: wp.vec3d
    mat: wp.mat33d


@wp.func(inline=False)
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
def collider_at(shape: Shape, hand: Hand, worldid: int, collider: int, share: real) -> Held:
    """Where a collider is when so much of the step is over."""
    out = Held()
    out.pos = shape.collider_pos[collider]
    out.mat = shape.collider_mat[collider]
    mocap = shape.collider_mocap[collider]
    if mocap >= 0:
        held = held_at(hand, worldid, mocap, share)
        out.pos = held.pos + held.mat * out.pos
        out.mat = held.mat * out.mat
    return out


@wp.func(inline=False)
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
    here = bodies.slot[worldid, body].pos + bodies.slot[worldid, body].turn * (
        shape.body_middle[body] - bodies.body[worldid, body].centre
    )
    for k in range(32):
        other = 32 * word + k
        if other < shape.nbody and other != body:
            there = bodies.slot[worldid, other].pos + bodies.slot[worldid, other].turn * (
                shape.body_middle[other] - bodies.body[worldid, other].centre
            )
            reach = shape.body_reach[body] + shape.body_reach[other]
            if wp.length_sq(here - there) < reach * reach:
                bits = bits | (1 << k)
    return bits


@wp.struct
class Met:
    """What a particle touches."""

    other: int  # particle, or NOBODY
    collider: int
    normal: wp.vec3d
    gap: real  # [m]


@wp.func
def note(touching: Touching, worldid: int, index: int, particle: int, met: Met):
    """Put a contact on the list, if there is room."""
    if index < touching.room:
        touching.particle[worldid, index] = particle
        touching.other[worldid, index] = met.other
        touching.collider[worldid, index] = met.collider
        touching.normal[worldid, index] = met.normal
        touching.gap[worldid, index] = met.gap


@wp.func
def meet(s: Step, moment: Moment, worldid: int, particle: int, index: int):
    """How many contacts a particle has, and the last one; from `index` on they are listed, if that is not negative."""
    shape = s.shape
    bodies = s.bodies
    touching = s.touching
    count = int(0)
    met = Met()
    body = shape.owner[particle]
    geom = shape.geom[particle]
    radius = shape.radius[particle]
    margin = s.options.margin * radius
    from_centre = position_of(shape, bodies, worldid, particle)
    at = bodies.slot[worldid, body].pos + from_centre

    for collider in range(shape.ncollider):
        if shape.meets[geom, shape.collider_geom[collider]]:
            held = collider_at(shape, s.world.hand, worldid, collider, moment.over)
            near = nearest(s.colliders, collider, wp.transpose(held.mat) * (at - held.pos), radius + margin)
            if near.dist - radius < margin:
                met.other = NOBODY
                met.collider = collider
                met.normal = held.mat * near.normal
                met.gap = near.dist - radius
                if index >= 0:
                    note(touching, worldid, index + count, particle, met)
                count += 1

    for word in range(shape.nword):
        bits = s.near[worldid, body, word]
        k = int(0)
        while bits != 0:
            if bits & 1:
                theirs = 32 * word + k
                apart = bodies.slot[worldid, body].pos - bodies.slot[worldid, theirs].pos + from_centre
                inside = wp.transpose(bodies.slot[worldid, theirs].turn) * apart + bodies.body[worldid, theirs].centre
                cells = shape.body_cells[theirs]
                x = (inside - shape.body_corner[theirs]) / shape.body_cell[theirs]
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
                                reach = s.options.margin * wp.min(radius, shape.radius[other])
                                if gap < reach and shape.meets[geom, shape.geom[other]]:
                                    met.other = other
                                    met.collider = NOBODY
                                    met.gap = gap
                                    met.normal = wp.vec3d(real(0.0), real(0.0), real(1.0))
                                    if length > real(0.0):
                                        met.normal = (real(1.0) / length) * away
                                    elif particle < other:
                                        met.normal = -met.normal
                                    if index >= 0:
                                        note(touching, worldid, index + count, particle, met)
                                    count += 1
            bits = int(wp.uint32(bits) >> wp.uint32(1))
            k += 1
    return count, met


@wp.func
def extent(turn: wp.mat33d, half: wp.vec3d, pad: real) -> wp.vec3d:
    """Half sides of the box around one that is turned, and is padded."""
    out = wp.vec3d(pad, pad, pad)
    for i in range(3):
        for j in range(3):
            out[i] += wp.abs(turn[i, j]) * half[j]
    return out


@wp.func
def is_near(s: Step, moment: Moment, worldid: int, cluster: int) -> int:
    """1 if a particle of a cluster may touch anything, else 0."""
    shape = s.shape
    bodies = s.bodies
    body = shape.cluster_body[cluster]
    half = shape.cluster_half[cluster]
    pad = shape.cluster_pad[cluster]
    turn = bodies.slot[worldid, body].turn
    from_centre = turn * (shape.cluster_middle[cluster] - bodies.body[worldid, body].centre)
    at = bodies.slot[worldid, body].pos + from_centre
    for collider in range(shape.ncollider):
        held = collider_at(shape, s.world.hand, worldid, collider, moment.over)
        back = wp.transpose(held.mat)
        if may_reach(s.colliders, collider, back * (at - held.pos), extent(back * turn, half, pad)):
            return 1
    for word in range(shape.nword):
        bits = s.near[worldid, body, word]
        k = int(0)
        while bits != 0:
            if bits & 1:
                theirs = 32 * word + k
                apart = bodies.slot[worldid, body].pos - bodies.slot[worldid, theirs].pos + from_centre
                back = wp.transpose(bodies.slot[worldid, theirs].turn)
                inside = back * apart + bodies.body[worldid, theirs].centre
                side = shape.body_cell[theirs]
                cells = shape.body_cells[theirs]
                low = shape.body_corner[theirs]
                high = low + side * wp.vec3d(real(cells[0]), real(cells[1]), real(cells[2]))
                if is_within(inside, low, high, extent(back * turn, half, pad + side)):
                    return 1
            bits = int(wp.uint32(bits) >> wp.uint32(1))
            k += 1
    return 0


@wp.func
def settle(s: Step, moment: Moment, worldid: int, index: int):
    """Write down a contact that is on the list."""
    shape = s.shape
    bodies = s.bodies
    touching = s.touching
    dt = moment.dt
    particle = touching.particle[worldid, index]
    other = touching.other[worldid, index]
    normal = touching.normal[worldid, index]
    gap = touching.gap[worldid, index]
    body = shape.owner[particle]
    geom = shape.geom[particle]
    radius = shape.radius[particle]
    before = bodies.body[worldid, body].before
    pos = bodies.slot[worldid, body].pos
    at = shape.place[particle] - bodies.body[worldid, body].centre
    lever = bodies.body[worldid, body].rotation * at
    from_centre = bodies.slot[worldid, body].turn * at
    point = pos + from_centre - (radius + real(0.5) * gap) * normal
    mass = bodies.body[worldid, body].grain
    velocity = bodies.slot[worldid, body].vel
    # how far the particle comes along the normal in the substep, against what it touches; and where it is touched does
    way = wp.dot(normal, pos + from_centre - before - lever)
    surface_way = way
    rest = real(0.0)
    opposite = wp.vec3d()
    counter = wp.vec3d()
    drift = wp.vec3d()
    if other != NOBODY:
        theirs = shape.owner[other]
        their_radius = shape.radius[other]
        their_pos = bodies.slot[worldid, theirs].pos
        opposite = shape.place[other] - bodies.body[worldid, theirs].centre
        counter = bodies.body[worldid, theirs].rotation * opposite
        across = bodies.slot[worldid, theirs].turn * opposite
        mu = friction_between(s.surface, worldid, geom, shape.geom[other])
        if particle > other:  # both sides of a pair mean the same point
            point = their_pos + across + (their_radius + real(0.5) * gap) * normal
        way -= wp.dot(normal, their_pos + across - bodies.body[worldid, theirs].before - counter)
        rest = radius + their_radius
        surface_way = way
        if s.options.surface != 0:
            out = their_radius * (wp.transpose(bodies.body[worldid, theirs].rotation) * normal)
            surface_way -= wp.dot(normal, bodies.slot[worldid, theirs].turn * out) - their_radius
            opposite += out
            counter += their_radius * normal
        grain = bodies.body[worldid, theirs].grain
        mass = mass * grain / (mass + grain)
        ours = bodies.body[worldid, body].light
        share = bodies.body[worldid, theirs].light
        velocity = (real(1.0) / (ours + share)) * (ours * velocity + share * bodies.slot[worldid, theirs].vel)
    else:
        collider = touching.collider[worldid, index]
        mu = friction_between(s.surface, worldid, geom, shape.collider_geom[collider])
        if shape.collider_mocap[collider] >= 0:
            touched = pos + from_centre - radius * normal
            drift = drift_of(s.world.hand, moment, worldid, shape.collider_mocap[collider], touched)
        way -= dt * wp.dot(normal, drift)
        surface_way = way
        rest = wp.dot(normal, pos + from_centre) - gap
    if s.options.surface != 0:
        out = radius * (wp.transpose(bodies.body[worldid, body].rotation) * normal)
        surface_way -= wp.dot(normal, bodies.slot[worldid, body].turn * out) - radius
        at -= out
        lever -= radius * normal
    slack = real(0.0)
    if s.options.accumulate != 0:
        was = gap - way
        slack = wp.min(was + dt * wp.max(-RECOVERY * was, GENTLE), real(0.0))
    touching.friction[worldid, index] = mu
    touching.drift[worldid, index] = drift
    touching.shift[worldid, index] = wp.vec3d()
    touching.last[worldid, index] = wp.vec3d()
    touching.place[worldid, index] = at
    touching.opposite[worldid, index] = opposite
    touching.lever[worldid, index] = lever
    touching.counter[worldid, index] = counter
    touching.point[worldid, index] = point
    touching.arm[worldid, index] = point - dt * velocity - before
    touching.rest[worldid, index] = rest
    touching.slack[worldid, index] = slack
    touching.room_left[worldid, index] = gap - surface_way - slack
    touching.mass[worldid, index] = mass


@wp.func
def wake(s: Step, moment: Moment, worldid: int, lane: int) -> int:
    """List the clusters that may touch something; how many there are."""
    total = int(0)
    base = int(0)
    while base < s.shape.ncluster:
        cluster = base + lane
        near = int(0)
        if cluster < s.shape.ncluster:
            near = is_near(s, moment, worldid, cluster)
        before = lane_count(near, s.nlane)
        if near != 0:
            s.awake[worldid, total + before[0]] = cluster
        total += before[1]
        base += s.nlane
    sync(s.nlane)
    return total


@wp.func
def find(s: Step, moment: Moment, worldid: int, lane: int):
    """Write down the contacts of a world, in the order of particles whatever the number of lanes."""
    shape = s.shape
    bodies = s.bodies
    touching = s.touching
    for k in range(lane, shape.nbody * shape.nword, s.nlane):
        body = k // shape.nword
        s.near[worldid, body, k % shape.nword] = note_near(shape, bodies, worldid, body, k % shape.nword)
    for k in range(lane, touching.particle_num.shape[1], s.nlane):
        touching.particle_num[worldid, k] = 0
    sync(s.nlane)
    awake = wake(s, moment, worldid, lane)
    total = int(0)
    base = int(0)
    while base < CLUSTER * awake:
        k = base + lane
        particle = int(NOBODY)
        if k < CLUSTER * awake:
            cluster = s.awake[worldid, k // CLUSTER]
            if k % CLUSTER < shape.cluster_num[cluster]:
                particle = shape.cluster_adr[cluster] + k % CLUSTER
        count = int(0)
        first = int(-1)
        last = Met()
        again = int(1)
        while again != 0:
            if particle != NOBODY and (first < 0 or count > 1):
                count, last = meet(s, moment, worldid, particle, first)
            again = int(0)
            if first < 0:
                before = lane_count(count, s.nlane)
                first = total + before[0]
                total += before[1]
                if count > 1:  # now that it is known where they go
                    again = 1
                again = sync_any(again, s.nlane)
        if count == 1:
            note(touching, worldid, first, particle, last)
        count = wp.min(count, touching.room - first)
        if count > 0:
            if particle < touching.particle_num.shape[1]:
                touching.particle_adr[worldid, particle] = first
                touching.particle_num[worldid, particle] = count
            wp.atomic_min(bodies.adr, worldid, shape.owner[particle], first)
            wp.atomic_add(bodies.num, worldid, shape.owner[particle], count)
        base += s.nlane
    if lane == 0:
        touching.count[worldid] = total
    sync(s.nlane)
    for index in range(lane, wp.min(total, touching.room), s.nlane):
        settle(s, moment, worldid, index)
    sync(s.nlane)
