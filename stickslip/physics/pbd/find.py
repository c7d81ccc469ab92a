"""Which particles touch what, once a substep.

Clusters of particles are looked at first, then the particles of clusters that are near something; what they touch is
listed, and then each contact is written down in full.
"""

import warp as wp

from stickslip.physics.mjwarp.lanes import sync
from stickslip.physics.pbd.colliders import nearest
from stickslip.physics.pbd.lanes import first_bit, lane_count, sync_any
from stickslip.physics.pbd.layout import NOBODY, Bodies, Moment, Options, Shape, Step, Surface, Touching, real
from stickslip.physics.pbd.mocap import collider_at, drift_of
from stickslip.physics.pbd.near import apart_from, back_of, near_bits, wake

wp.set_module_options({"enable_backward": False})


RECOVERY = wp.constant(real(50.0))
GENTLE = wp.constant(real(0.02))
"""An overlap at the start of a substep is undone at this rate [1/s], or this speed if that is more [m/s]; all at once
would shoot bodies apart."""


CLUSTER = wp.constant(32)
"""Most particles of a cluster."""

_NO_ADDRESS = wp.constant(0x7FFFFFFF)
"""Of contacts, where there are none: the first of them is below."""


@wp.func
def forget_contacts(bodies: Bodies, worldid: int, body: int):
    """A body has no contacts until they are found."""
    bodies.adr[worldid, body] = _NO_ADDRESS
    bodies.num[worldid, body] = 0


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
class Met:
    """What a particle touches."""

    other: int  # particle, or NOBODY
    collider: int
    normal: wp.vec3d
    gap: real  # [m]


@wp.func
def note(touching: Touching, worldid: int, index: int, particle: int, met: Met):
    """Put a contact on the list, if it fits."""
    if index < touching.capacity:
        touching.particle[worldid, index] = particle
        touching.other[worldid, index] = met.other
        touching.collider[worldid, index] = met.collider
        touching.normal[worldid, index] = met.normal
        touching.gap[worldid, index] = met.gap


@wp.func
def meet_body(s: Step, worldid: int, particle: int, apart: wp.vec3d, theirs: int, index: int, count: int):
    """How many contacts a particle has with those of another body, and the last one; they are listed as in `meet`.

    Args:
        s: the step
        worldid: world
        particle: it
        apart: where it is, from the centre of mass of the other body [m]
        theirs: that body
        index: where the contacts of the particle are listed, if not negative
        count: how many it has already, which are counted too
    """
    shape = s.shape
    met = Met()
    geom = shape.geom[particle]
    radius = shape.radius[particle]
    inside = back_of(s.options, s.bodies, worldid, theirs) * apart + s.bodies.body[worldid, theirs].centre
    cells = shape.body_cells[theirs]
    x = (inside - shape.body_corner[theirs]) / shape.body_cell[theirs]
    i0 = int(wp.floor(x[0]))
    j0 = int(wp.floor(x[1]))
    k0 = int(wp.floor(x[2]))
    low = wp.max(k0 - 1, 0)
    high = wp.min(k0 + 2, cells[2])
    for i in range(wp.max(i0 - 1, 0), wp.min(i0 + 2, cells[0])):
        for j in range(wp.max(j0 - 1, 0), wp.min(j0 + 2, cells[1])):
            first = shape.body_celladr[theirs] + (i * cells[1] + j) * cells[2]
            if low < high:
                for slot in range(shape.cell_adr[first + low], shape.cell_adr[first + high]):
                    other = shape.cell_particle[slot]
                    away = apart - position_of(shape, s.bodies, worldid, other)
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
                            note(s.touching, worldid, index + count, particle, met)
                        count += 1
    return count, met


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
            pose = collider_at(shape, s.world.mocap, worldid, collider, moment.over)
            near = nearest(s.colliders, collider, wp.transpose(pose.mat) * (at - pose.pos), radius + margin)
            if near.dist - radius < margin:
                met.other = NOBODY
                met.collider = collider
                met.normal = pose.mat * near.normal
                met.gap = near.dist - radius
                if index >= 0:
                    note(touching, worldid, index + count, particle, met)
                count += 1

    for word in range(shape.nword):
        bits = s.near[worldid, body, word]
        while bits != 0:
            k = first_bit(bits)
            bits = bits ^ (1 << k)
            apart = apart_from(bodies, worldid, body, from_centre, 32 * word + k)
            more, last = meet_body(s, worldid, particle, apart, 32 * word + k, index, count)
            if more > count:
                count = more
                met = last
    return count, met


@wp.struct
class Side:
    """One of the two of a contact."""

    at: wp.vec3d  # where the particle is at the end of the substep [m]
    place: wp.vec3d  # where it is touched, in the frame of its body about the centre of mass [m]
    lever: wp.vec3d  # the same at the start of the substep, in the axes of the world [m]
    displacement: wp.vec3d  # of the particle in the substep [m]
    roll: real  # how far outward the touched place comes by turning alone [m]


@wp.func
def side_of(s: Step, worldid: int, particle: int, outward: wp.vec3d) -> Side:
    """The side of a particle that is touched in that direction."""
    body = s.shape.owner[particle]
    rotation = s.bodies.body[worldid, body].rotation
    turn = s.bodies.slot[worldid, body].turn
    out = Side()
    out.place = s.shape.place[particle] - s.bodies.body[worldid, body].centre
    out.lever = rotation * out.place
    out.at = s.bodies.slot[worldid, body].pos + turn * out.place
    out.displacement = out.at - s.bodies.body[worldid, body].before - out.lever
    if s.options.surface != 0:
        radius = s.shape.radius[particle]
        beyond = radius * (wp.transpose(rotation) * outward)
        out.roll = wp.dot(outward, turn * beyond) - radius
        out.place += beyond
        out.lever += radius * outward
    return out


@wp.func
def slack_of(options: Options, was: real, dt: real) -> real:
    """How much of a gap may stay at the end of a substep, of what it was at the start [m]; not positive."""
    if options.accumulate == 0:
        return real(0.0)
    return wp.min(was + dt * wp.max(-RECOVERY * was, GENTLE), real(0.0))


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
    mine = side_of(s, worldid, particle, -normal)
    point = mine.at - (radius + real(0.5) * gap) * normal
    mass = bodies.body[worldid, body].grain
    velocity = bodies.slot[worldid, body].vel
    # displacement of the particle in the substep along the normal, relative to the other surface
    displacement = wp.dot(normal, mine.displacement)
    their_roll = real(0.0)
    rest = real(0.0)
    opposite = wp.vec3d()
    counter = wp.vec3d()
    drift = wp.vec3d()
    if other != NOBODY:
        theirs = shape.owner[other]
        their_radius = shape.radius[other]
        their = side_of(s, worldid, other, normal)
        mu = friction_between(s.surface, worldid, geom, shape.geom[other])
        if particle > other:  # both sides of a pair mean the same point
            point = their.at + (their_radius + real(0.5) * gap) * normal
        displacement -= wp.dot(normal, their.displacement)
        their_roll = their.roll
        rest = radius + their_radius
        opposite = their.place
        counter = their.lever
        grain = bodies.body[worldid, theirs].grain
        mass = mass * grain / (mass + grain)
        ours = bodies.body[worldid, body].light
        share = bodies.body[worldid, theirs].light
        velocity = (real(1.0) / (ours + share)) * (ours * velocity + share * bodies.slot[worldid, theirs].vel)
    else:
        collider = touching.collider[worldid, index]
        mu = friction_between(s.surface, worldid, geom, shape.collider_geom[collider])
        if shape.collider_mocap[collider] >= 0:
            touched = mine.at - radius * normal
            drift = drift_of(s.world.mocap, moment, worldid, shape.collider_mocap[collider], touched)
        displacement -= dt * wp.dot(normal, drift)
        rest = wp.dot(normal, mine.at) - gap
    slack = slack_of(s.options, gap - displacement, dt)
    touching.friction[worldid, index] = mu
    touching.drift[worldid, index] = drift
    touching.shift[worldid, index] = wp.vec3d()
    touching.last[worldid, index] = wp.vec3d()
    touching.place[worldid, index] = mine.place
    touching.opposite[worldid, index] = opposite
    touching.lever[worldid, index] = mine.lever
    touching.counter[worldid, index] = counter
    touching.point[worldid, index] = point
    touching.arm[worldid, index] = point - dt * velocity - bodies.body[worldid, body].before
    touching.rest[worldid, index] = rest
    touching.slack[worldid, index] = slack
    # touched places go with their particles, and outward by turning
    touching.clearance[worldid, index] = gap - (displacement - their_roll - mine.roll) - slack
    touching.mass[worldid, index] = mass


@wp.func
def find(s: Step, moment: Moment, worldid: int, lane: int):
    """Write down the contacts of a world, in the order of particles whatever the number of lanes."""
    shape = s.shape
    bodies = s.bodies
    touching = s.touching
    for k in range(lane, shape.nbody * shape.nword, s.nlane):
        body = k // shape.nword
        s.near[worldid, body, k % shape.nword] = near_bits(shape, bodies, worldid, body, k % shape.nword)
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
        count = wp.min(count, touching.capacity - first)
        if count > 0:
            wp.atomic_min(bodies.adr, worldid, shape.owner[particle], first)
            wp.atomic_add(bodies.num, worldid, shape.owner[particle], count)
        base += s.nlane
    if lane == 0:
        touching.count[worldid] = total
    sync(s.nlane)
    for index in range(lane, wp.min(total, touching.capacity), s.nlane):
        settle(s, moment, worldid, index)
    sync(s.nlane)
