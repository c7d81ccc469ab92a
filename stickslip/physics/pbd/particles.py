"""The method as it stands in the literature: every particle by itself, in single precision and world coordinates.

It is here to be compared with: what is lost by it, and what each of PBD-R's changes gives back, is rounding. `fitted`
has the same iterations without that.
"""

import warp as wp

from stickslip.physics.pbd.find import find, forget_contacts
from stickslip.physics.pbd.lanes import sync, team_sum_single
from stickslip.physics.pbd.layout import (
    NOBODY,
    Bodies,
    Exact,
    Options,
    Particles,
    Shape,
    Singles,
    Step,
    Touching,
    World,
    real,
)
from stickslip.physics.pbd.motion import arrive
from stickslip.physics.pbd.rigid import rotation_of, skew
from stickslip.physics.pbd.step import begin_step, end_step, lanes_at, start, substeps_of, weigh

wp.set_module_options({"enable_backward": False})


@wp.func
def nearest_rotation(fit: wp.mat33, guess: wp.mat33d) -> wp.mat33:
    """The polar part of a matrix that may be singular."""
    return wp.mat33(rotation_of(wp.mat33d(fit), guess))


@wp.func
def rest_of(shape: Shape, bodies: Bodies, worldid: int, body: int, particle: int) -> wp.vec3:
    """Where a particle is at rest, from the centre of mass [m]."""
    return wp.vec3(shape.place[particle] - bodies.body[worldid, body].centre)


@wp.func
def is_written(shape: Shape, world: World, exact: Exact, worldid: int, body: int) -> bool:
    """Whether the state of a body is not what was shown of its particles."""
    changed = bool(False)
    for k in range(7):
        adr = shape.body_qposadr[body] + k
        if float(exact.qpos[worldid, adr]) != world.qpos[worldid, adr]:
            changed = bool(True)
    for k in range(6):
        adr = shape.body_dofadr[body] + k
        if float(exact.qvel[worldid, adr]) != world.qvel[worldid, adr]:
            changed = bool(True)
    return changed


@wp.func
def moments_of(
    shape: Shape,
    bodies: Bodies,
    particles: Particles,
    worldid: int,
    body: int,
    centre: wp.vec3,
    lane: int,
    nlane: int,
) -> Singles:
    """Sums over the particles of a body: of r q^T (9), q the place at rest and r the one now, and of r x v (3)."""
    sums = Singles()
    for k in range(lane, shape.body_num[body], nlane):
        p = shape.body_adr[body] + k
        r = particles.x[worldid, p] - centre
        q = rest_of(shape, bodies, worldid, body, p)
        spin = wp.cross(r, particles.v[worldid, p])
        for i in range(3):
            sums[9 + i] += spin[i]
            for j in range(3):
                sums[3 * i + j] += r[i] * q[j]
    sums = team_sum_single(sums, nlane)
    return sums


@wp.func
def fit_of(moments: Singles) -> wp.mat33:
    """The first of these sums, r q^T."""
    return wp.mat33(
        moments[0], moments[1], moments[2], moments[3], moments[4], moments[5], moments[6], moments[7], moments[8]
    )


@wp.func
def spin_of(moments: Singles) -> wp.vec3:
    """The last of them, r x v."""
    return wp.vec3(moments[9], moments[10], moments[11])


@wp.func
def scatter(shape: Shape, bodies: Bodies, particles: Particles, worldid: int, body: int, lane: int, nlane: int):
    """Put every particle of a body where the body is."""
    r = bodies.body[worldid, body].rotation
    omega = r * (bodies.body[worldid, body].inverse * (wp.transpose(r) * bodies.body[worldid, body].spin))
    for k in range(lane, shape.body_num[body], nlane):
        p = shape.body_adr[body] + k
        arm = r * (shape.place[p] - bodies.body[worldid, body].centre)
        particles.x[worldid, p] = wp.vec3(bodies.slot[worldid, body].pos + arm)
        particles.v[worldid, p] = wp.vec3(bodies.slot[worldid, body].vel + wp.cross(omega, arm))


@wp.func
def gather(shape: Shape, bodies: Bodies, particles: Particles, worldid: int, body: int, lane: int, nlane: int):
    """What the particles of a body are as a whole: centre, rotation, velocity and angular momentum."""
    count = float(shape.body_num[body])
    grain = real(float(bodies.body[worldid, body].mass) / count)
    sums = Singles()
    for k in range(lane, shape.body_num[body], nlane):
        p = shape.body_adr[body] + k
        x = particles.x[worldid, p]
        v = particles.v[worldid, p]
        for i in range(3):
            sums[i] += x[i]
            sums[3 + i] += v[i]
    sums = team_sum_single(sums, nlane)
    centre = wp.vec3(sums[0], sums[1], sums[2]) / count
    velocity = wp.vec3(sums[3], sums[4], sums[5]) / count
    sums = moments_of(shape, bodies, particles, worldid, body, centre, lane, nlane)
    if lane == 0:
        rotation = rotation_of(wp.mat33d(fit_of(sums)), bodies.body[worldid, body].rotation)
        arrive(bodies, worldid, body, wp.vec3d(centre), wp.vec3d(velocity), rotation)
        bodies.body[worldid, body].spin = grain * wp.vec3d(spin_of(sums))


@wp.func
def integrate(
    shape: Shape,
    bodies: Bodies,
    particles: Particles,
    worldid: int,
    body: int,
    dt: real,
    lane: int,
    nlane: int,
):
    """Semi-implicit Euler for every particle; the body as a whole goes along, for contacts to be found."""
    r = bodies.body[worldid, body].rotation
    inverse = r * bodies.body[worldid, body].inverse * wp.transpose(r)
    centre = wp.vec3(bodies.slot[worldid, body].pos)
    push = wp.vec3(bodies.body[worldid, body].force / bodies.body[worldid, body].mass)
    twist = wp.vec3(inverse * bodies.body[worldid, body].torque)
    step = float(dt)
    for k in range(lane, shape.body_num[body], nlane):
        p = shape.body_adr[body] + k
        x = particles.x[worldid, p]
        v = particles.v[worldid, p] + step * (push + wp.cross(twist, x - centre))
        particles.start[worldid, p] = x
        particles.v[worldid, p] = v
        particles.x[worldid, p] = x + step * v
    sync(nlane)
    if lane == 0:
        omega = inverse * (bodies.body[worldid, body].spin + dt * bodies.body[worldid, body].torque)
        vel = bodies.slot[worldid, body].vel + dt * bodies.body[worldid, body].force / bodies.body[worldid, body].mass
        bodies.body[worldid, body].before = bodies.slot[worldid, body].pos
        bodies.slot[worldid, body].pos = bodies.slot[worldid, body].pos + dt * vel
        bodies.slot[worldid, body].vel = vel
        bodies.slot[worldid, body].turn = r + dt * (skew(omega) * r)
        forget_contacts(bodies, worldid, body)


@wp.func
def push_contact(
    touching: Touching,
    particles: Particles,
    options: Options,
    worldid: int,
    c: int,
    dt: real,
):
    """Note how far a contact displaces its particle in this iteration, relative to what it touches [m]."""
    p = touching.particle[worldid, c]
    other = touching.other[worldid, c]
    normal = wp.vec3(touching.normal[worldid, c])
    x = particles.x[worldid, p]
    v = particles.v[worldid, p]
    if other == NOBODY:
        v -= wp.vec3(touching.drift[worldid, c])
        gap = wp.dot(normal, x) - float(touching.rest[worldid, c])
    else:
        gap = wp.dot(normal, x - particles.x[worldid, other]) - float(touching.rest[worldid, c])
        if options.relative != 0:
            v -= particles.v[worldid, other]
    push = wp.vec3()
    if gap <= 0.0:
        sliding = v - wp.dot(v, normal) * normal
        speed = wp.length(sliding)
        push = -gap * normal
        if speed > 0.0:
            mu = float(touching.friction[worldid, c])
            push -= wp.min(-mu * gap, speed * float(dt)) / speed * sliding
        push = float(options.relaxation) * push
    touching.last[worldid, c] = wp.vec3d(push)


@wp.func
def move(
    shape: Shape,
    bodies: Bodies,
    touching: Touching,
    particles: Particles,
    options: Options,
    worldid: int,
    body: int,
    dt: real,
    lane: int,
    nlane: int,
):
    """One iteration for one body: its particles go where contacts push them, and back into shape."""
    step = float(dt)
    count = float(shape.body_num[body])
    grain = bodies.body[worldid, body].grain
    sums = Singles()
    for k in range(lane, shape.body_num[body], nlane):
        p = shape.body_adr[body] + k
        push = wp.vec3()
        first = touching.particle_adr[worldid, p]
        for c in range(first, first + touching.particle_num[worldid, p]):
            share = float(touching.mass[worldid, c] / grain)  # the other one goes the rest of the way
            push += share * wp.vec3(touching.last[worldid, c])
            touching.shift[worldid, c] = touching.shift[worldid, c] + touching.last[worldid, c]
        x = particles.x[worldid, p] + push
        v = particles.v[worldid, p]
        if options.velocity != 0:
            v += push / step
        else:
            v = (x - particles.start[worldid, p]) / step
        particles.x[worldid, p] = x
        particles.v[worldid, p] = v
        for i in range(3):
            sums[i] += x[i]
            sums[3 + i] += v[i]
    sums = team_sum_single(sums, nlane)
    centre = wp.vec3(sums[0], sums[1], sums[2]) / count
    before = wp.vec3(sums[3], sums[4], sums[5]) / count  # momentum over mass, as everything here

    sums = moments_of(shape, bodies, particles, worldid, body, centre, lane, nlane)
    spin_before = spin_of(sums)
    fit = fit_of(sums)
    u = wp.mat33()
    s = wp.vec3()
    w = wp.mat33()
    wp.svd3(fit, u, s, w)
    flip = wp.sign(wp.determinant(u) * wp.determinant(w))
    rotation = u * wp.diag(wp.vec3(1.0, 1.0, flip)) * wp.transpose(w)
    thick = float(shape.body_thick[body])
    if thick > 0.0:  # a chain: singular values do not tell how it is turned about itself
        rotation = nearest_rotation(fit, bodies.body[worldid, body].rotation)

    sums = Singles()
    for k in range(lane, shape.body_num[body], nlane):
        p = shape.body_adr[body] + k
        x = centre + rotation * rest_of(shape, bodies, worldid, body, p)
        v = particles.v[worldid, p]
        if options.velocity != 0:
            v += (x - particles.x[worldid, p]) / step
        else:
            v = (x - particles.start[worldid, p]) / step
        particles.x[worldid, p] = x
        particles.v[worldid, p] = v
        r = x - centre
        spin = wp.cross(r, v)
        for i in range(3):
            sums[i] += v[i]
            sums[3 + i] += spin[i]
        sums[6] += r[1] * r[1] + r[2] * r[2]
        sums[7] += r[0] * r[0] + r[2] * r[2]
        sums[8] += r[0] * r[0] + r[1] * r[1]
        sums[9] -= r[0] * r[1]
        sums[10] -= r[0] * r[2]
        sums[11] -= r[1] * r[2]
    if options.linear == 0 and options.angular == 0:
        return
    sums = team_sum_single(sums, nlane)
    missing = wp.vec3()
    omega = wp.vec3()
    if options.linear != 0:
        missing = before - wp.vec3(sums[0], sums[1], sums[2]) / count
    if options.angular != 0:
        inertia = wp.mat33(sums[6], sums[9], sums[10], sums[9], sums[7], sums[11], sums[10], sums[11], sums[8])
        inertia += wp.diag(wp.vec3(thick, thick, thick)) * count
        omega = wp.inverse(inertia) * (wp.vec3(sums[3], sums[4], sums[5]) - spin_before)
    for k in range(lane, shape.body_num[body], nlane):
        p = shape.body_adr[body] + k
        change = missing - wp.cross(omega, particles.x[worldid, p] - centre)
        particles.v[worldid, p] = particles.v[worldid, p] + change
        particles.x[worldid, p] = particles.x[worldid, p] + step * change


@wp.kernel
def advance_particles(s: Step):
    """Advance every world by its timestep, particle by particle."""
    shape = s.shape
    options = s.options
    world = s.world
    exact = s.exact
    bodies = s.bodies
    touching = s.touching
    particles = s.particles
    tid = wp.tid()
    worldid = tid // s.nlane
    lanes = lanes_at(s, tid - s.nlane * worldid)
    moment = begin_step(s, worldid)
    substeps = substeps_of(options, moment.timestep)
    dt = moment.dt
    nteam = s.nteam
    lane = lanes.lane
    team = lanes.team
    mate = lanes.mate
    size = lanes.size

    if lane == 0:
        touching.shown[worldid] = 0
    for body in range(team, shape.nbody, nteam):
        written = is_written(shape, world, exact, worldid, body)
        sync(size)
        if mate == 0:
            weigh(shape, world, bodies, options, worldid, body)
            start(shape, world, exact, bodies, worldid, body)
        sync(size)
        if written:
            scatter(shape, bodies, particles, worldid, body, mate, size)
        gather(shape, bodies, particles, worldid, body, mate, size)
    sync(s.nlane)
    most = int(0)
    for substep in range(substeps):
        for body in range(team, shape.nbody, nteam):
            integrate(shape, bodies, particles, worldid, body, dt, mate, size)
        sync(s.nlane)
        moment.over = real(substep + 1) / real(substeps)
        find(s, moment, worldid, lane)
        total = touching.count[worldid]
        most = wp.max(most, total)
        for _ in range(options.iterations):
            for c in range(lane, wp.min(total, touching.room), s.nlane):
                push_contact(touching, particles, options, worldid, c, dt)
            sync(s.nlane)
            for body in range(team, shape.nbody, nteam):
                move(shape, bodies, touching, particles, options, worldid, body, dt, mate, size)
            sync(s.nlane)
        for body in range(team, shape.nbody, nteam):
            gather(shape, bodies, particles, worldid, body, mate, size)
        sync(s.nlane)

    end_step(s, lanes, worldid, most, moment)
