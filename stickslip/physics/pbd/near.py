"""Which bodies, and which clusters of particles, may touch anything."""

import warp as wp

from stickslip.physics.mjwarp.lanes import sync
from stickslip.physics.pbd.colliders import is_within, may_reach
from stickslip.physics.pbd.lanes import first_bit, lane_count
from stickslip.physics.pbd.layout import Bodies, Moment, Options, Shape, Step, real
from stickslip.physics.pbd.mocap import collider_at

wp.set_module_options({"enable_backward": False})


@wp.func
def apart_from(bodies: Bodies, worldid: int, body: int, from_centre: wp.vec3d, theirs: int) -> wp.vec3d:
    """A point given relative to one body's centre of mass, relative to another's [m]."""
    return bodies.slot[worldid, body].pos - bodies.slot[worldid, theirs].pos + from_centre


@wp.func
def back_of(options: Options, bodies: Bodies, worldid: int, body: int) -> wp.mat33d:
    """From the axes of the world to those of a body: what undoes `turn`, which is a rotation by impulses only.

    Otherwise it stretches by 1 + w^2 / 2 across the axis that a body turns about by w in the substep.
    """
    turn = bodies.slot[worldid, body].turn
    if options.surface != 0:
        return wp.transpose(turn)
    return wp.inverse(turn)


@wp.func
def stretch_of(turn: wp.mat33d) -> real:
    """Square of how much it stretches, and so no less than that; the sum of its squares is 1 + twice as much."""
    total = real(0.0)
    for i in range(3):
        for j in range(3):
            total += turn[i, j] * turn[i, j]
    return real(0.5) * (total - real(1.0))


@wp.func
def near_bits(shape: Shape, bodies: Bodies, worldid: int, body: int, word: int) -> int:
    """Bits of the bodies, 32 at a time, whose particles may be near those of a body."""
    bits = int(0)
    turn = bodies.slot[worldid, body].turn
    here = bodies.slot[worldid, body].pos + turn * (shape.body_middle[body] - bodies.body[worldid, body].centre)
    own_reach = stretch_of(turn) * shape.body_reach[body]
    for k in range(32):
        other = 32 * word + k
        if other < shape.nbody and other != body:
            their_turn = bodies.slot[worldid, other].turn
            there = bodies.slot[worldid, other].pos + their_turn * (
                shape.body_middle[other] - bodies.body[worldid, other].centre
            )
            reach = own_reach + stretch_of(their_turn) * shape.body_reach[other]
            if wp.length_sq(here - there) < reach * reach:
                bits = bits | (1 << k)
    return bits


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
        pose = collider_at(shape, s.world.mocap, worldid, collider, moment.over)
        back = wp.transpose(pose.mat)
        if may_reach(s.colliders, collider, back * (at - pose.pos), extent(back * turn, half, pad)):
            return 1
    for word in range(shape.nword):
        bits = s.near[worldid, body, word]
        while bits != 0:
            k = first_bit(bits)
            bits = bits ^ (1 << k)
            theirs = 32 * word + k
            back = back_of(s.options, bodies, worldid, theirs)
            apart = apart_from(bodies, worldid, body, from_centre, theirs)
            inside = back * apart + bodies.body[worldid, theirs].centre
            side = shape.body_cell[theirs]
            cells = shape.body_cells[theirs]
            low = shape.body_corner[theirs]
            high = low + side * wp.vec3d(real(cells[0]), real(cells[1]), real(cells[2]))
            if is_within(inside, low, high, extent(back * turn, half, pad + side)):
                return 1
    return 0


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
