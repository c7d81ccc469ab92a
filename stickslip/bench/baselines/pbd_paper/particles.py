"""Particles one by one, in single precision and world coordinates, as in the literature.

What this form loses, and what each change of PBD-R recovers, is rounding. `fitted` has the same iterations on bodies in
double precision.
"""

import warp as wp

from stickslip.physics.mjwarp.lanes import sync
from stickslip.physics.pbd.find import find, forget_contacts
from stickslip.physics.pbd.lanes import TEAM_SUM
from stickslip.physics.pbd.layout import NOBODY, Bodies, Exact, Options, Shape, Step, Touching, World, real
from stickslip.physics.pbd.motion import arrive
from stickslip.physics.pbd.rigid import rotation_of, skew
from stickslip.physics.pbd.step import begin_step, end_step, lanes_at, start, substeps_of, weigh

wp.set_module_options({"enable_backward": False})

Singles = wp.types.vector(length=12, dtype=float)
"""Sums over the particles of a body, in single precision."""


@wp.struct
class Particles:
    """Particles in single precision and in the coordinates of the world, (nworld, nparticle)."""

    x: wp.array2d[wp.vec3]  # [m]
    v: wp.array2d[wp.vec3]  # [m/s]
    start: wp.array2d[wp.vec3]  # positions at the start of the substep [m]
    adr: wp.array2d[int]  # first contact of each particle
    num: wp.array2d[int]  # number of its contacts


@wp.struct
class Changes:
    """The changes that make PBD into PBD-R, each on or off."""

    velocity: int  # velocities follow from displacements, not from positions
    linear: int  # shape matching conserves momentum
    angular: int  # shape matching conserves angular momentum


@wp.func_native(TEAM_SUM.replace("REAL", "float").replace("COUNT", "12"))
def team_sum_single(x: Singles, nlane: int) -> Singles:
    """Sum of x over the lanes of a team, the same in each, in a fixed order."""
    ...


@wp.func
def nearest_rotation(fit: wp.mat33, guess: wp.mat33d) -> wp.mat33:
    """The rotation of the polar decomposition of a matrix that may be singular."""
    return wp.mat33(rotation_of(wp.mat33d(fit), guess))


@wp.func
def rest_of(shape: Shape, bodies: Bodies, worldid: int, body: int, particle: int) -> wp.vec3:
    """Rest position of a particle relative to the centre of mass [m]."""
    return wp.vec3(shape.place[particle] - bodies.body[worldid, body].centre)


@wp.func
def is_written(shape: Shape, world: World, exact: Exact, worldid: int, body: int) -> bool:
    """Whether qpos or qvel of a body were written since the last step."""
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
    """Sums over the particles of a body: r q^T (9), with q at rest and r now, and r x v (3)."""
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
    """The sum of r q^T among the moments."""
    return wp.mat33(
        moments[0], moments[1], moments[2], moments[3], moments[4], moments[5], moments[6], moments[7], moments[8]
    )


@wp.func
def spin_of(moments: Singles) -> wp.vec3:
    """The sum of r x v among the moments."""
    return wp.vec3(moments[9], moments[10], moments[11])


@wp.func
def scatter(shape: Shape, bodies: Bodies, particles: Particles, worldid: int, body: int, lane: int, nlane: int):
    """Place the particles of a body according to its pose and velocity."""
    r = bodies.body[worldid, body].rotation
    omega = r * (bodies.body[worldid, body].inverse * (wp.transpose(r) * bodies.body[worldid, body].spin))
    for k in range(lane, shape.body_num[body], nlane):
        p = shape.body_adr[body] + k
        arm = r * (shape.place[p] - bodies.body[worldid, body].centre)
        particles.x[worldid, p] = wp.vec3(bodies.slot[worldid, body].pos + arm)
        particles.v[worldid, p] = wp.vec3(bodies.slot[worldid, body].vel + wp.cross(omega, arm))


@wp.func
def gather(shape: Shape, bodies: Bodies, particles: Particles, worldid: int, body: int, lane: int, nlane: int):
    """Centre, rotation, velocity and angular momentum of a body from its particles."""
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
    """Semi-implicit Euler for every particle; the body follows, so that contacts can be found."""
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
    """Store how far a contact displaces its particle in this iteration, relative to what it touches [m]."""
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
    changes: Changes,
    worldid: int,
    body: int,
    dt: real,
    lane: int,
    nlane: int,
):
    """One iteration for one body: contacts displace its particles, then the shape is matched."""
    step = float(dt)
    count = float(shape.body_num[body])
    grain = bodies.body[worldid, body].grain
    sums = Singles()
    for k in range(lane, shape.body_num[body], nlane):
        p = shape.body_adr[body] + k
        push = wp.vec3()
        first = particles.adr[worldid, p]
        for c in range(first, first + particles.num[worldid, p]):
            share = float(touching.mass[worldid, c] / grain)  # the other particle takes the remaining share
            push += share * wp.vec3(touching.last[worldid, c])
            touching.shift[worldid, c] = touching.shift[worldid, c] + touching.last[worldid, c]
        x = particles.x[worldid, p] + push
        v = particles.v[worldid, p]
        if changes.velocity != 0:
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
    before = wp.vec3(sums[3], sums[4], sums[5]) / count  # momentum over mass, like all sums here

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
    if thick > 0.0:  # a chain: singular values do not determine its rotation about itself
        rotation = nearest_rotation(fit, bodies.body[worldid, body].rotation)

    sums = Singles()
    for k in range(lane, shape.body_num[body], nlane):
        p = shape.body_adr[body] + k
        x = centre + rotation * rest_of(shape, bodies, worldid, body, p)
        v = particles.v[worldid, p]
        if changes.velocity != 0:
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
    if changes.linear == 0 and changes.angular == 0:
        return
    sums = team_sum_single(sums, nlane)
    missing = wp.vec3()
    omega = wp.vec3()
    if changes.linear != 0:
        missing = before - wp.vec3(sums[0], sums[1], sums[2]) / count
    if changes.angular != 0:
        inertia = wp.mat33(sums[6], sums[9], sums[10], sums[9], sums[7], sums[11], sums[10], sums[11], sums[8])
        inertia += wp.diag(wp.vec3(thick, thick, thick)) * count
        omega = wp.inverse(inertia) * (wp.vec3(sums[3], sums[4], sums[5]) - spin_before)
    for k in range(lane, shape.body_num[body], nlane):
        p = shape.body_adr[body] + k
        change = missing - wp.cross(omega, particles.x[worldid, p] - centre)
        particles.v[worldid, p] = particles.v[worldid, p] + change
        particles.x[worldid, p] = particles.x[worldid, p] + step * change


@wp.func
def assign_contacts(touching: Touching, particles: Particles, worldid: int, lane: int, nlane: int):
    """Which contacts each particle has; they are sorted by particle."""
    for p in range(lane, particles.num.shape[1], nlane):
        particles.num[worldid, p] = 0
    sync(nlane)
    count = wp.min(touching.count[worldid], touching.capacity)
    for c in range(lane, count, nlane):
        p = touching.particle[worldid, c]
        first = bool(c == 0)
        if c > 0:
            first = touching.particle[worldid, c - 1] != p
        if first:
            last = int(c + 1)
            while last < count and touching.particle[worldid, last] == p:
                last += 1
            particles.adr[worldid, p] = c
            particles.num[worldid, p] = last - c
    sync(nlane)


@wp.kernel
def advance_particles(s: Step, particles: Particles, changes: Changes):
    """Advance every world by its timestep, particle by particle."""
    shape = s.shape
    options = s.options
    world = s.world
    exact = s.exact
    bodies = s.bodies
    touching = s.touching
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
        assign_contacts(touching, particles, worldid, lane, s.nlane)
        total = touching.count[worldid]
        most = wp.max(most, total)
        for _ in range(options.iterations):
            for c in range(lane, wp.min(total, touching.capacity), s.nlane):
                push_contact(touching, particles, options, worldid, c, dt)
            sync(s.nlane)
            for body in range(team, shape.nbody, nteam):
                move(shape, bodies, touching, particles, changes, worldid, body, dt, mate, size)
            sync(s.nlane)
        for body in range(team, shape.nbody, nteam):
            gather(shape, bodies, particles, worldid, body, mate, size)
        sync(s.nlane)

    end_step(s, lanes, worldid, most, moment)
