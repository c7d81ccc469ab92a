"""A step of every world: all its substeps, contacts and iterations in one kernel."""

from types import ModuleType

import mujoco_warp as mjw
import warp as wp

from stickslip.physics.mjwarp.lanes import sync
from stickslip.physics.pbd import impulse
from stickslip.physics.pbd.contact import answer_of
from stickslip.physics.pbd.find import find, forget_contacts
from stickslip.physics.pbd.lanes import sync_any
from stickslip.physics.pbd.layout import (
    NOBODY,
    Bodies,
    Exact,
    Iteration,
    Moment,
    Options,
    Shape,
    Step,
    Touching,
    World,
    real,
)
from stickslip.physics.pbd.mocap import finish_mocap
from stickslip.physics.pbd.rigid import diagonal, matrix_of, quaternion_of, trace_of, vec4d

wp.set_module_options({"enable_backward": False})

SUBSTEP = wp.constant(real(1.0e-3))
"""Longest substep where their number is not given [s]."""
EARTH = wp.constant(real(9.81))
"""Acceleration that contacts are held against [m/s^2]."""
MOMENTUM = wp.constant(real(0.65))
"""Most of the last displacement of a contact that the next one is begun with."""
REGISTERS, BATCH_REGISTERS = 255, 128
"""Most of a thread on CUDA; the fewer, the more worlds are worked on at a time, and the slower each."""
BATCH_THREADS = 1 << 15
"""Threads from which on that pays."""
_DROPPED = wp.constant(int(mjw.OverflowType.NARROWPHASE))
"""MuJoCo Warp's bit for contacts that were dropped."""


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
        at = shape.member_pos[adr + k] + mat * wp.vec3d(world.body_ipos[row_p, member])
        q = world.body_iquat[row_q, member]
        axes = mat * matrix_of(real(q[0]), real(q[1]), real(q[2]), real(q[3]))
        i = wp.vec3d(world.body_inertia[row_i, member])
        half = real(0.5) * (i[0] + i[1] + i[2])
        spread = axes * wp.diag(wp.vec3d(half - i[0], half - i[1], half - i[2])) * wp.transpose(axes)
        mass += m
        first += m * at
        second += spread + m * wp.outer(at, at)
    bodies.body[worldid, body].model_centre = first / mass
    num = shape.body_num[body]
    if options.packed != 0 and num > 0:
        first = mass * shape.body_mean[body]
        second = mass * shape.body_square[body]
    centre = first / mass
    second -= mass * wp.outer(centre, centre)
    bodies.body[worldid, body].mass = mass
    bodies.body[worldid, body].light = real(1.0) / mass
    bodies.body[worldid, body].centre = centre
    bodies.body[worldid, body].spread = second
    inertia = diagonal(trace_of(second)) - second
    if options.packed != 0:
        inertia += diagonal(mass * shape.body_thick[body])
    bodies.body[worldid, body].inertia = inertia
    bodies.body[worldid, body].inverse = wp.inverse(inertia)
    bodies.body[worldid, body].grain = mass / real(wp.max(num, 1))


@wp.func
def start(shape: Shape, world: World, exact: Exact, bodies: Bodies, worldid: int, body: int):
    """A body's state from qpos and qvel, and the forces on it."""
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
    arm = r * bodies.body[worldid, body].centre
    omega = r * wp.vec3d(exact.qvel[worldid, b + 3], exact.qvel[worldid, b + 4], exact.qvel[worldid, b + 5])
    velocity = wp.vec3d(exact.qvel[worldid, b], exact.qvel[worldid, b + 1], exact.qvel[worldid, b + 2])
    bodies.body[worldid, body].rotation = r
    bodies.slot[worldid, body].pos = origin + arm
    bodies.slot[worldid, body].vel = velocity + wp.cross(omega, arm)
    bodies.body[worldid, body].spin = r * (bodies.body[worldid, body].inertia * (wp.transpose(r) * omega))

    weight = bodies.body[worldid, body].mass * wp.vec3d(world.gravity[worldid % world.gravity.shape[0]])
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
    # what acts there acts in the centre of mass, packed or not
    model_centre = r * bodies.body[worldid, body].model_centre
    adr = shape.body_memberadr[body]
    for k in range(shape.body_membernum[body]):
        member = shape.member_id[adr + k]
        wrench = world.xfrc_applied[worldid, member]
        push = wp.vec3d(wp.spatial_top(wrench))
        ipos = wp.vec3d(world.body_ipos[worldid % world.body_ipos.shape[0], member])
        at = r * (shape.member_pos[adr + k] + shape.member_mat[adr + k] * ipos)
        force += push
        torque += wp.vec3d(wp.spatial_bottom(wrench)) + wp.cross(at - model_centre, push)
    bodies.body[worldid, body].force = force
    bodies.body[worldid, body].torque = torque


@wp.func
def show(shape: Shape, world: World, exact: Exact, bodies: Bodies, worldid: int, body: int):
    """Tell qpos and qvel of a body."""
    a = shape.body_qposadr[body]
    b = shape.body_dofadr[body]
    r = bodies.body[worldid, body].rotation
    arm = r * bodies.body[worldid, body].centre
    own = bodies.body[worldid, body].inverse * (wp.transpose(r) * bodies.body[worldid, body].spin)
    omega = r * own
    origin = bodies.slot[worldid, body].pos - arm
    velocity = bodies.slot[worldid, body].vel - wp.cross(omega, arm)
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
def centre_of(shape: Shape, bodies: Bodies, worldid: int, particle: int) -> wp.vec3d:
    """Where a particle is at the end of a substep [m]."""
    body = shape.owner[particle]
    at = shape.place[particle] - bodies.body[worldid, body].centre
    return bodies.slot[worldid, body].pos + bodies.body[worldid, body].rotation * at


@wp.func
def weigh_contact(shape: Shape, bodies: Bodies, touching: Touching, worldid: int, c: int, dt: real) -> int:
    """The gap of a contact at the end of the step, and its force in the place of its displacement [N].

    Returns 1 if it touches or has a force; of two that are the two sides of one, for one of them.
    """
    normal = touching.normal[worldid, c]
    gap = wp.dot(normal, centre_of(shape, bodies, worldid, touching.particle[worldid, c])) - touching.rest[worldid, c]
    other = touching.other[worldid, c]
    if other != NOBODY:
        gap -= wp.dot(normal, centre_of(shape, bodies, worldid, other))
    force = touching.mass[worldid, c] / (dt * dt) * touching.shift[worldid, c]
    touching.gap[worldid, c] = gap
    touching.last[worldid, c] = force
    if other < touching.particle[worldid, c] and (gap <= real(0.0) or wp.length_sq(force) > real(0.0)):
        return 1
    return 0


@wp.func
def end_step(s: Step, lanes: Lanes, worldid: int, most: int, moment: Moment):
    """Tell where bodies are and what contacts do; `most` is the largest number of contacts there was."""
    if lanes.mate == 0:
        for body in range(lanes.team, s.shape.nbody, s.nteam):
            show(s.shape, s.world, s.exact, s.bodies, worldid, body)
    found = int(0)
    for k in range(lanes.lane, wp.min(s.touching.count[worldid], s.touching.capacity), s.nlane):
        found += weigh_contact(s.shape, s.bodies, s.touching, worldid, k, moment.dt)
    if found > 0:
        wp.atomic_add(s.nacon, 0, found)
        wp.atomic_add(s.touching.shown, worldid, found)
    if lanes.lane == 0:
        s.touching.most[worldid] = wp.max(s.touching.most[worldid], most)
        finish_mocap(s.world.mocap, worldid)
        s.world.time[worldid] = float(real(s.world.time[worldid]) + moment.timestep)
        if most > s.touching.capacity:
            s.overflow[worldid] = s.overflow[worldid] | _DROPPED


@wp.kernel
def look(s: Step):
    """Find the current contacts; the state does not change."""
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
            bodies.body[worldid, body].before = bodies.slot[worldid, body].pos
            bodies.slot[worldid, body].turn = bodies.body[worldid, body].rotation
            forget_contacts(bodies, worldid, body)
    sync(s.nlane)
    moment = Moment()
    moment.over = real(1.0)
    find(s, moment, worldid, lane)


@wp.func
def set_gains(s: Step, lanes: Lanes, worldid: int):
    """How far the contacts of each body may go in an iteration, of what they would have to."""
    for body in range(lanes.team, s.shape.nbody, s.nteam):
        gain = s.options.relaxation
        if gain == real(0.0):
            answer = answer_of(s.bodies, s.touching, worldid, body, lanes.mate, lanes.size)
            gain = real(1.0)
            if answer > real(0.0):
                gain = real(1.0) / answer
        if lanes.mate == 0:
            s.bodies.body[worldid, body].gain = gain
    sync(s.nlane)


@wp.func
def first_iteration(s: Step, moment: Moment) -> Iteration:
    it = Iteration()
    it.dt = moment.dt
    it.per_dt = real(1.0) / moment.dt
    it.still = s.options.tolerance * EARTH * moment.dt * moment.dt
    return it


@wp.func
def next_pace(pace: real) -> real:
    """Nesterov's sequence."""
    return real(0.5) * (real(1.0) + wp.sqrt(real(1.0) + real(4.0) * pace * pace))


@wp.func
def start_all(s: Step, lanes: Lanes, worldid: int):
    """Set every body from qpos and qvel, and report no contacts."""
    if lanes.lane == 0:
        s.touching.shown[worldid] = 0
    if lanes.mate == 0:
        for body in range(lanes.team, s.shape.nbody, s.nteam):
            weigh(s.shape, s.world, s.bodies, s.options, worldid, body)
            start(s.shape, s.world, s.exact, s.bodies, worldid, body)


def make_advance(form: ModuleType, registers: int = REGISTERS) -> wp.Kernel:
    """A kernel that advances every world by its timestep.

    Args:
        form: module that says how bodies respond to contacts, such as `impulse`
        registers: limit per thread on CUDA
    """
    predict, iterate, finish = form.predict, form.iterate, form.finish
    iterates_at_rest = form.ITERATES_AT_REST

    @wp.kernel(module="unique", enable_backward=False, cuda_max_registers=registers)
    def advance(s: Step):
        tid = wp.tid()
        worldid = tid // s.nlane
        lanes = lanes_at(s, tid - s.nlane * worldid)
        moment = begin_step(s, worldid)
        substeps = substeps_of(s.options, moment.timestep)
        it = first_iteration(s, moment)
        start_all(s, lanes, worldid)
        most = int(0)
        for substep in range(substeps):
            if lanes.mate == 0:
                for body in range(lanes.team, s.shape.nbody, s.nteam):
                    predict(s.bodies, worldid, body, moment.dt)
            sync(s.nlane)
            moment.over = real(substep + 1) / real(substeps)
            find(s, moment, worldid, lanes.lane)
            most = wp.max(most, s.touching.count[worldid])
            iterations = s.options.iterations
            if s.touching.count[worldid] == 0:
                iterations = iterates_at_rest * iterations
            else:
                set_gains(s, lanes, worldid)
            it.read = 0
            pace = real(1.0)
            for k in range(iterations):
                following = next_pace(pace)
                it.beta = wp.min((pace - real(1.0)) / following, MOMENTUM)
                pace = following
                if k + 1 == iterations:
                    it.beta = real(0.0)
                moved = int(0)
                for body in range(lanes.team, s.shape.nbody, s.nteam):
                    moved = moved | iterate(s, it, worldid, body, lanes.mate, lanes.size)
                it.read = 1 - it.read
                moved = sync_any(moved, s.nlane)
                if it.still > real(0.0) and moved == 0:
                    break
            if lanes.mate == 0:
                for body in range(lanes.team, s.shape.nbody, s.nteam):
                    finish(s.shape, s.bodies, worldid, body, it.read, moment.dt)
            sync(s.nlane)

        end_step(s, lanes, worldid, most, moment)

    return advance


advance = make_advance(impulse)
advance_batch = make_advance(impulse, BATCH_REGISTERS)
