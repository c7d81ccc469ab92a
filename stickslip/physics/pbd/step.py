"""A step of every world: all its substeps, contacts and iterations in one kernel."""

import mujoco_warp as mjw
import warp as wp

from stickslip.physics.pbd.find import meet, note_near
from stickslip.physics.pbd.lanes import lane_count, sync
from stickslip.physics.pbd.layout import (
    NOBODY,
    Bodies,
    Exact,
    Hand,
    Moment,
    Options,
    Shape,
    Step,
    Touching,
    World,
    real,
)
from stickslip.physics.pbd.rigid import diagonal, matrix_of, quaternion_of, trace_of, vec4d
from stickslip.physics.pbd.solve import answer_of, finish, iterate, predict

wp.set_module_options({"enable_backward": False})

SUBSTEP = wp.constant(real(1.0e-3))
"""Longest substep where their number is not given [s]."""
EARTH = wp.constant(real(9.81))
"""Acceleration that contacts are held against [m/s^2]."""
MOMENTUM = wp.constant(real(0.75))
"""Most of the last displacement of a contact that the next one is begun with."""
_DROPPED = wp.constant(int(mjw.OverflowType.NARROWPHASE))
"""MuJoCo Warp's bit for contacts that were dropped."""


@wp.func
def doubled(v: wp.vec3) -> wp.vec3d:
    return wp.vec3d(real(v[0]), real(v[1]), real(v[2]))


@wp.func
def kept(exact: real, shown: float) -> real:
    """The exact number, unless what shows it was written to."""
    if float(exact) == shown:
        return exact
    return real(shown)


@wp.func
def substeps_of(options: Options, timestep: real) -> int:
    """Their number in a step."""
    if options.substeps > 0:
        return options.substeps
    return wp.max(1, int(wp.ceil(timestep / SUBSTEP - real(1.0e-3))))


@wp.func
def weigh(shape: Shape, world: World, bodies: Bodies, options: Options, worldid: int, body: int):
    """Mass, centre of mass and moments of a body, as MuJoCo's model has them or as its particles do."""
    row_m = worldid % world.body_mass.shape[0]
    row_i = worldid % world.body_inertia.shape[0]
    row_p = worldid % world.body_ipos.shape[0]
    row_q = worldid % world.body_iquat.shape[0]
    mass = real(0.0)
    first = wp.vec3d()
    second = wp.mat33d()
    adr = shape.body_memberadr[body]
    for k in range(shape.body_membernum[body]):
        member = shape.member_id[adr + k]
        m = real(world.body_mass[row_m, member])
        mat = shape.member_mat[adr + k]
        at = shape.member_pos[adr + k] + mat * doubled(world.body_ipos[row_p, member])
        q = world.body_iquat[row_q, member]
        axes = mat * matrix_of(real(q[0]), real(q[1]), real(q[2]), real(q[3]))
        i = doubled(world.body_inertia[row_i, member])
        half = real(0.5) * (i[0] + i[1] + i[2])
        spread = axes * wp.diag(wp.vec3d(half - i[0], half - i[1], half - i[2])) * wp.transpose(axes)
        mass += m
        first += m * at
        second += spread + m * wp.outer(at, at)
    num = shape.body_num[body]
    if options.packed != 0 and num > 0:
        first = mass * shape.body_mean[body]
        second = mass * shape.body_square[body]
    centre = first / mass
    second -= mass * wp.outer(centre, centre)
    bodies.mass[worldid, body] = mass
    bodies.centre[worldid, body] = centre
    bodies.spread[worldid, body] = second
    inertia = diagonal(trace_of(second)) - second
    if options.packed != 0:
        inertia += diagonal(mass * shape.body_thick[body])
    bodies.inertia[worldid, body] = inertia
    bodies.inverse[worldid, body] = wp.inverse(inertia)
    bodies.grain[worldid, body] = mass / real(wp.max(num, 1))


@wp.func
def start(shape: Shape, world: World, exact: Exact, bodies: Bodies, worldid: int, body: int):
    """A body as qpos and qvel tell it, and the forces on it."""
    a = shape.body_qposadr[body]
    b = shape.body_dofadr[body]
    for k in range(7):
        exact.qpos[worldid, a + k] = kept(exact.qpos[worldid, a + k], world.qpos[worldid, a + k])
    for k in range(6):
        exact.qvel[worldid, b + k] = kept(exact.qvel[worldid, b + k], world.qvel[worldid, b + k])
    origin = wp.vec3d(exact.qpos[worldid, a], exact.qpos[worldid, a + 1], exact.qpos[worldid, a + 2])
    r = matrix_of(
        exact.qpos[worldid, a + 3], exact.qpos[worldid, a + 4], exact.qpos[worldid, a + 5], exact.qpos[worldid, a + 6]
    )
    arm = r * bodies.centre[worldid, body]
    omega = r * wp.vec3d(exact.qvel[worldid, b + 3], exact.qvel[worldid, b + 4], exact.qvel[worldid, b + 5])
    velocity = wp.vec3d(exact.qvel[worldid, b], exact.qvel[worldid, b + 1], exact.qvel[worldid, b + 2])
    bodies.rotation[worldid, body] = r
    bodies.pos[worldid, body] = origin + arm
    bodies.vel[worldid, body] = velocity + wp.cross(omega, arm)
    bodies.spin[worldid, body] = r * (bodies.inertia[worldid, body] * (wp.transpose(r) * omega))

    weight = bodies.mass[worldid, body] * doubled(world.gravity[worldid % world.gravity.shape[0]])
    at_origin = wp.vec3d(
        real(world.qfrc_applied[worldid, b]),
        real(world.qfrc_applied[worldid, b + 1]),
        real(world.qfrc_applied[worldid, b + 2]),
    )
    turning = r * wp.vec3d(
        real(world.qfrc_applied[worldid, b + 3]),
        real(world.qfrc_applied[worldid, b + 4]),
        real(world.qfrc_applied[worldid, b + 5]),
    )
    force = weight + at_origin
    torque = turning - wp.cross(arm, at_origin)
    adr = shape.body_memberadr[body]
    for k in range(shape.body_membernum[body]):
        member = shape.member_id[adr + k]
        wrench = world.xfrc_applied[worldid, member]
        push = doubled(wp.spatial_top(wrench))
        ipos = doubled(world.body_ipos[worldid % world.body_ipos.shape[0], member])
        at = r * (shape.member_pos[adr + k] + shape.member_mat[adr + k] * ipos)
        force += push
        torque += doubled(wp.spatial_bottom(wrench)) + wp.cross(at - arm, push)
    bodies.force[worldid, body] = force
    bodies.torque[worldid, body] = torque


@wp.func
def show(shape: Shape, world: World, exact: Exact, bodies: Bodies, worldid: int, body: int):
    """Tell qpos and qvel of a body."""
    a = shape.body_qposadr[body]
    b = shape.body_dofadr[body]
    r = bodies.rotation[worldid, body]
    arm = r * bodies.centre[worldid, body]
    own = bodies.inverse[worldid, body] * (wp.transpose(r) * bodies.spin[worldid, body])
    omega = r * own
    origin = bodies.pos[worldid, body] - arm
    velocity = bodies.vel[worldid, body] - wp.cross(omega, arm)
    near = vec4d(
        exact.qpos[worldid, a + 3], exact.qpos[worldid, a + 4], exact.qpos[worldid, a + 5], exact.qpos[worldid, a + 6]
    )
    q = quaternion_of(r, near)
    for k in range(3):
        exact.qpos[worldid, a + k] = origin[k]
        exact.qvel[worldid, b + k] = velocity[k]
        exact.qvel[worldid, b + 3 + k] = own[k]
    for k in range(4):
        exact.qpos[worldid, a + 3 + k] = q[k]
    for k in range(7):
        world.qpos[worldid, a + k] = float(exact.qpos[worldid, a + k])
    for k in range(6):
        world.qvel[worldid, b + k] = float(exact.qvel[worldid, b + k])


@wp.func
def let_go(hand: Hand, worldid: int):
    """What is moved by hand has arrived."""
    for k in range(hand.pos.shape[1]):
        hand.pos_before[worldid, k] = hand.pos[worldid, k]
        hand.quat_before[worldid, k] = hand.quat[worldid, k]


@wp.func
def find(s: Step, moment: Moment, worldid: int, lane: int):
    """Write down the contacts of a world, in the order of particles whatever the number of lanes."""
    shape = s.shape
    bodies = s.bodies
    touching = s.touching
    nlane = s.nlane
    for k in range(lane, shape.nbody * shape.nword, nlane):
        body = k // shape.nword
        s.near[worldid, body, k % shape.nword] = note_near(shape, bodies, worldid, body, k % shape.nword)
    sync()
    total = int(0)
    base = int(0)
    while base < shape.nparticle:
        particle = base + lane
        count = int(0)
        if particle < shape.nparticle:
            count = meet(s, moment, worldid, particle, -1)
        place = lane_count(count)
        first = total + place[0]
        count = wp.min(count, touching.room - first)
        if particle < touching.particle_adr.shape[1]:
            touching.particle_adr[worldid, particle] = first
            touching.particle_num[worldid, particle] = count
        if count > 0:
            meet(s, moment, worldid, particle, first)
            body = shape.owner[particle]
            wp.atomic_min(bodies.adr, worldid, body, first)
            wp.atomic_add(bodies.num, worldid, body, count)
        total += place[1]
        base += nlane
    if lane == 0:
        touching.count[worldid] = total
    sync()


@wp.struct
class Lanes:
    """Which of the lanes of a world this is, and of its team."""

    lane: int
    team: int
    mate: int  # in the team
    size: int  # of the team


@wp.func
def lanes_at(s: Step, lane: int) -> Lanes:
    out = Lanes()
    out.lane = lane
    out.size = s.nlane // s.nteam
    out.team = lane // out.size
    out.mate = lane - out.size * out.team
    return out


@wp.func
def begin_step(s: Step, worldid: int) -> Moment:
    """Lengths of the step and of its substeps."""
    moment = Moment()
    moment.timestep = real(s.world.timestep[worldid % s.world.timestep.shape[0]])
    moment.dt = moment.timestep / real(substeps_of(s.options, moment.timestep))
    return moment


@wp.func
def weigh_contact(shape: Shape, bodies: Bodies, touching: Touching, worldid: int, c: int, dt: real):
    """The gap of a contact at the end of the step, and its force in the place of its displacement [N]."""
    body = shape.owner[touching.particle[worldid, c]]
    normal = touching.normal[worldid, c]
    r = bodies.rotation[worldid, body] * touching.place[worldid, c]
    gap = wp.dot(normal, bodies.pos[worldid, body] + r) - touching.rest[worldid, c]
    other = touching.other[worldid, c]
    if other != NOBODY:
        theirs = shape.owner[other]
        r = bodies.rotation[worldid, theirs] * touching.opposite[worldid, c]
        gap -= wp.dot(normal, bodies.pos[worldid, theirs] + r)
    touching.gap[worldid, c] = gap
    touching.last[worldid, c] = touching.mass[worldid, c] * touching.shift[worldid, c] / (dt * dt)


@wp.func
def end_step(s: Step, lanes: Lanes, worldid: int, most: int, moment: Moment):
    """Tell where bodies are and what contacts do; `most` is the largest number of contacts there was."""
    if lanes.mate == 0:
        for body in range(lanes.team, s.shape.nbody, s.nteam):
            show(s.shape, s.world, s.exact, s.bodies, worldid, body)
    for k in range(lanes.lane, wp.min(s.touching.count[worldid], s.touching.room), s.nlane):
        weigh_contact(s.shape, s.bodies, s.touching, worldid, k, moment.dt)
    if lanes.lane == 0:
        let_go(s.world.hand, worldid)
        s.world.time[worldid] = float(real(s.world.time[worldid]) + moment.timestep)
        if most > s.touching.room:
            s.overflow[worldid] = s.overflow[worldid] | _DROPPED


@wp.kernel
def look(s: Step):
    """Find the contacts there are, and leave every world as it is."""
    shape = s.shape
    options = s.options
    world = s.world
    exact = s.exact
    bodies = s.bodies
    tid = wp.tid()
    worldid = tid // s.nlane
    lane = tid - s.nlane * worldid
    if lane == 0:
        for body in range(shape.nbody):
            weigh(shape, world, bodies, options, worldid, body)
            start(shape, world, exact, bodies, worldid, body)
            bodies.before[worldid, body] = bodies.pos[worldid, body]
            bodies.turn[worldid, body] = bodies.rotation[worldid, body]
            bodies.adr[worldid, body] = 0x7FFFFFFF
            bodies.num[worldid, body] = 0
    sync()
    moment = Moment()
    moment.over = real(1.0)
    find(s, moment, worldid, lane)


@wp.kernel
def advance(s: Step):
    """Advance every world by its timestep."""
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
    still = options.tolerance * EARTH * dt * dt

    if mate == 0:
        for body in range(team, shape.nbody, nteam):
            weigh(shape, world, bodies, options, worldid, body)
            start(shape, world, exact, bodies, worldid, body)
    most = int(0)
    for substep in range(substeps):
        if mate == 0:
            for body in range(team, shape.nbody, nteam):
                predict(shape, bodies, worldid, body, dt)
        sync()
        moment.over = real(substep + 1) / real(substeps)
        find(s, moment, worldid, lane)
        most = wp.max(most, touching.count[worldid])
        for body in range(team, shape.nbody, nteam):
            gain = options.relaxation
            if gain == real(0.0):
                answer = answer_of(bodies, touching, worldid, body, mate, size, nteam)
                gain = real(1.0)
                if answer > real(0.0):
                    gain = real(1.0) / answer
            if mate == 0:
                bodies.gain[worldid, body] = gain
        if lane == 0:
            touching.moving[worldid, 0] = 0
        sync()
        read = int(0)
        pace = real(1.0)
        iterations = options.iterations
        if options.surface != 0 and touching.count[worldid] == 0:
            iterations = 0  # nothing to do but to be rigid again
        for k in range(iterations):
            beta = real(0.0)
            if k + 1 < iterations:
                following = real(0.5) * (real(1.0) + wp.sqrt(real(1.0) + real(4.0) * pace * pace))
                beta = wp.min((pace - real(1.0)) / following, MOMENTUM)
                pace = following
            if lane == 0:
                touching.moving[worldid, (k + 1) % 3] = 0
            for body in range(team, shape.nbody, nteam):
                iterate(
                    shape, bodies, touching, options, worldid, body, read, 1 - read, beta, still, k, dt, mate,
                    size, nteam,
                )  # fmt: skip
            read = 1 - read
            sync()
            if still > real(0.0) and touching.moving[worldid, k % 3] == 0:
                break
        if mate == 0:
            for body in range(team, shape.nbody, nteam):
                finish(shape, bodies, worldid, body, read, options)
        sync()

    end_step(s, lanes, worldid, most, moment)
