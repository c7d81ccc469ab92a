"""The checks of a step: what a world does that it must not, found on the device.

An event is recorded when a check begins to fail; while it goes on failing, it is the same event.
"""

import warp as wp

wp.set_module_options({"enable_backward": False})

NOT_FINITE = wp.constant(0)
ENERGY = wp.constant(1)
PENETRATION = wp.constant(2)
JOINT = wp.constant(3)
DROPPED = wp.constant(4)
TWINS = wp.constant(5)
ELASTIC = wp.constant(0.2)
"""Time in which energy that was stored in contacts comes back, s."""
FORGETS = wp.constant(1.0)
"""Time in which energy that came from nothing is forgotten, if no more comes, s."""


@wp.struct
class Found:
    """An event on the device: `step` since the watch was opened; `figure` and `limit` in the unit of its kind."""

    kind: int
    world: int
    body: int
    step: int
    bits: int
    figure: float
    limit: float


@wp.struct
class Bounds:
    """What is allowed; a kind is watched if its limit is above 0, twins if theirs is not negative."""

    largest: float
    energy: float  # J
    depth: float  # thicknesses
    joint: float  # widths of the range
    twins: float
    gap: wp.array(dtype=float)  # thickness of geoms, m  (ngeom,)
    geom_bodyid: wp.array(dtype=int)
    dof_bodyid: wp.array(dtype=int)
    jnt_type: wp.array(dtype=int)
    jnt_limited: wp.array(dtype=int)
    jnt_qposadr: wp.array(dtype=int)
    jnt_bodyid: wp.array(dtype=int)
    qpos_bodyid: wp.array(dtype=int)


@wp.struct
class Memory:
    """What is kept of each world from step to step: see `Watch`."""

    active: wp.array(dtype=int)  # bits of the kinds that fail       (nworld,)
    bits: wp.array(dtype=int)  # of `overflow`                       (nworld,)
    lost: wp.array(dtype=float)  # energy that may come back, J       (nworld,)
    excess: wp.array(dtype=float)  # energy from nothing, J           (nworld,)
    peak: wp.array(dtype=float)  # kinetic energy, the most lately, J  (nworld,)
    time: wp.array(dtype=float)  # after the last step, s             (nworld,)
    count: wp.array2d(dtype=int)  # events of each kind               (nworld, kinds)
    total: wp.array(dtype=int)  # events of all worlds                (1,)


@wp.kernel
def begin_worlds(
    # Data in:
    time: wp.array[float],
    overflow: wp.array[int],
    qvel: wp.array2d[float],
    # In:
    kinetic: wp.array2d[float],
    speed: wp.array2d[wp.vec2],
    energy: wp.array[wp.float64],
    # Out:
    memory: Memory,
    qvel_out: wp.array2d[float],
    kinetic_out: wp.array2d[float],
    speed_out: wp.array2d[wp.vec2],
    energy_out: wp.array[wp.float64],
):
    """Take the present state as that before the next step; what was kept of a world that was reset is forgotten."""
    w = wp.tid()
    if time[w] != memory.time[w]:
        memory.active[w] = 0
        memory.lost[w] = 0.0
        memory.excess[w] = 0.0
        memory.peak[w] = 0.0
        memory.time[w] = time[w]
    if overflow.shape[0] > 0:
        memory.bits[w] = overflow[w]
    for i in range(qvel.shape[1]):
        qvel_out[w, i] = qvel[w, i]
    for b in range(kinetic.shape[1]):
        kinetic_out[w, b] = kinetic[w, b]
        speed_out[w, b] = speed[w, b]
    energy_out[w] = energy[w]


@wp.kernel
def start_check(
    # Out:
    clock_out: wp.array[int],
    deepest_out: wp.array[float],
    contact_out: wp.array[int],
):
    """Count the step, and forget the deepest contact of the last one."""
    w = wp.tid()
    if w == 0:
        clock_out[0] = clock_out[0] + 1
    deepest_out[w] = 0.0
    contact_out[w] = 2147483647


@wp.kernel
def find_deepest(
    # In:
    bounds: Bounds,
    count: wp.array[int],
    world: wp.array[int],
    geom: wp.array[wp.vec2i],
    dist: wp.array[float],
    # Out:
    deepest_out: wp.array[float],
):
    """The deepest penetration of each world, in thicknesses of the thinner geom."""
    i = wp.tid()
    if i >= count[0]:
        return
    pair = geom[i]
    if pair[0] < 0 or pair[1] < 0:
        return
    thin = wp.min(bounds.gap[pair[0]], bounds.gap[pair[1]])
    wp.atomic_max(deepest_out, world[i], -dist[i] / thin)


@wp.kernel
def find_contact(
    # In:
    bounds: Bounds,
    count: wp.array[int],
    world: wp.array[int],
    geom: wp.array[wp.vec2i],
    dist: wp.array[float],
    deepest: wp.array[float],
    # Out:
    contact_out: wp.array[int],
):
    """The first contact of each world that is the deepest."""
    i = wp.tid()
    if i >= count[0]:
        return
    pair = geom[i]
    if pair[0] < 0 or pair[1] < 0:
        return
    thin = wp.min(bounds.gap[pair[0]], bounds.gap[pair[1]])
    if -dist[i] / thin == deepest[world[i]]:
        wp.atomic_min(contact_out, world[i], i)


@wp.func
def _power(
    w: int,
    force0: wp.array2d[float],
    force1: wp.array2d[float],
    force2: wp.array2d[float],
    force3: wp.array2d[float],
    force4: wp.array2d[float],
    force5: wp.array2d[float],
    xfrc: wp.array2d[wp.spatial_vector],
    qvel: wp.array2d[float],
    speed: wp.array2d[wp.vec2],
):
    """The most that all forces but those of constraints can do at these velocities, W."""
    power = float(0.0)
    for i in range(qvel.shape[1]):
        force = float(0.0)
        if force0.shape[0] > 0:
            force += wp.abs(force0[w, i])
        if force1.shape[0] > 0:
            force += wp.abs(force1[w, i])
        if force2.shape[0] > 0:
            force += wp.abs(force2[w, i])
        if force3.shape[0] > 0:
            force += wp.abs(force3[w, i])
        if force4.shape[0] > 0:
            force += wp.abs(force4[w, i])
        if force5.shape[0] > 0:
            force += wp.abs(force5[w, i])
        power += force * wp.abs(qvel[w, i])
    for b in range(speed.shape[1]):
        applied = xfrc[w, b]
        power += wp.length(wp.vec3(applied[0], applied[1], applied[2])) * speed[w, b][0]
        power += wp.length(wp.vec3(applied[3], applied[4], applied[5])) * speed[w, b][1]
    return power


@wp.func
def _record(
    events: wp.array[Found],
    memory: Memory,
    kind: int,
    w: int,
    body: int,
    step: int,
    bits: int,
    figure: float,
    limit: float,
):
    memory.count[w, kind] = memory.count[w, kind] + 1
    place = wp.atomic_add(memory.total, 0, 1)
    if place < events.shape[0]:
        found = Found()
        found.kind = kind
        found.world = w
        found.body = body
        found.step = step
        found.bits = bits
        found.figure = figure
        found.limit = limit
        events[place] = found


@wp.kernel
def check_worlds(
    # In:
    clock: wp.array[int],
    ignored: wp.array[int],
    bounds: Bounds,
    # Data in:
    timestep: wp.array[float],
    time: wp.array[float],
    qpos: wp.array2d[float],
    qvel: wp.array2d[float],
    jnt_range: wp.array2d[wp.vec2],
    overflow: wp.array[int],
    force0: wp.array2d[float],
    force1: wp.array2d[float],
    force2: wp.array2d[float],
    force3: wp.array2d[float],
    force4: wp.array2d[float],
    force5: wp.array2d[float],
    xfrc: wp.array2d[wp.spatial_vector],
    geom: wp.array[wp.vec2i],
    dist: wp.array[float],
    deepest: wp.array[float],
    contact: wp.array[int],
    kinetic: wp.array2d[float],
    speed: wp.array2d[wp.vec2],
    energy: wp.array[wp.float64],
    # Before the step; then of this one:
    qvel_before: wp.array2d[float],
    kinetic_before: wp.array2d[float],
    speed_before: wp.array2d[wp.vec2],
    energy_before: wp.array[wp.float64],
    memory: Memory,
    # Out:
    events: wp.array[Found],
):
    w = wp.tid()
    step = clock[0]
    was = memory.active[w]
    now = int(0)

    # not finite
    body = int(-1)
    value = float(0.0)
    for i in range(qvel.shape[1]):
        if body < 0 and not (wp.abs(qvel[w, i]) <= bounds.largest):
            body = bounds.dof_bodyid[i]
            value = qvel[w, i]
    for i in range(qpos.shape[1]):
        if body < 0 and not (wp.abs(qpos[w, i]) <= bounds.largest):
            body = bounds.qpos_bodyid[i]
            value = qpos[w, i]
    if body >= 0:
        now = now | (1 << NOT_FINITE)
        if (was & (1 << NOT_FINITE)) == 0:
            _record(events, memory, NOT_FINITE, w, body, step, 0, value, bounds.largest)

    # energy from nothing
    if bounds.energy > 0.0 and body < 0:
        before = float(0.0)
        gain = float(-1.0e30)
        gainer = int(0)
        for b in range(kinetic.shape[1]):
            before += kinetic_before[w, b]
            if kinetic[w, b] - kinetic_before[w, b] > gain:
                gain = kinetic[w, b] - kinetic_before[w, b]
                gainer = b
        h = timestep[w % timestep.shape[0]]
        power = wp.max(
            _power(w, force0, force1, force2, force3, force4, force5, xfrc, qvel_before, speed_before),
            _power(w, force0, force1, force2, force3, force4, force5, xfrc, qvel, speed),
        )
        more = float(energy[w] - energy_before[w]) - h * power
        lost = memory.lost[w] * (1.0 - wp.min(1.0, h / ELASTIC)) - more
        keeps = 1.0 - wp.min(1.0, h / FORGETS)
        excess = memory.excess[w] * keeps
        peak = wp.max(before, memory.peak[w] * keeps)
        if not wp.isfinite(more):
            lost = 0.0
            excess = 0.0
        if lost < 0.0:
            excess -= lost
            lost = 0.0
        limit = bounds.energy + 0.5 * peak
        if excess > limit:
            now = now | (1 << ENERGY)
            if (was & (1 << ENERGY)) == 0:
                _record(events, memory, ENERGY, w, gainer, step, 0, excess, limit)
            excess = wp.min(excess, 2.0 * limit)  # so that it ends
        memory.lost[w] = lost
        memory.excess[w] = excess
        memory.peak[w] = peak

    # penetration
    if bounds.depth > 0.0 and deepest[w] > bounds.depth:
        now = now | (1 << PENETRATION)
        if (was & (1 << PENETRATION)) == 0:
            pair = geom[contact[w]]
            thin = pair[0]
            if bounds.gap[pair[1]] <= bounds.gap[pair[0]]:
                thin = pair[1]
            _record(
                events, memory, PENETRATION, w, bounds.geom_bodyid[thin], step, 0, -dist[contact[w]],
                bounds.depth * bounds.gap[thin],
            )  # fmt: skip

    # joints
    if bounds.joint > 0.0:
        worst = float(0.0)
        which = int(-1)
        allowed = float(0.0)
        for j in range(bounds.jnt_limited.shape[0]):
            if bounds.jnt_limited[j] != 0:
                limits = jnt_range[w % jnt_range.shape[0], j]
                a = bounds.jnt_qposadr[j]
                beyond = float(0.0)
                if bounds.jnt_type[j] >= 2:
                    beyond = wp.max(limits[0] - qpos[w, a], qpos[w, a] - limits[1])
                elif bounds.jnt_type[j] == 1:
                    sine = wp.length(wp.vec3(qpos[w, a + 1], qpos[w, a + 2], qpos[w, a + 3]))
                    beyond = 2.0 * wp.atan2(sine, wp.abs(qpos[w, a])) - limits[1]
                width = bounds.joint * (limits[1] - limits[0])
                if beyond - width > worst:
                    worst = beyond - width
                    which = j
                    allowed = width
        if which >= 0:
            now = now | (1 << JOINT)
            if (was & (1 << JOINT)) == 0:
                _record(events, memory, JOINT, w, bounds.jnt_bodyid[which], step, which, worst + allowed, allowed)

    # contacts dropped: new bits
    if overflow.shape[0] > 0:
        fresh = overflow[w] & ~memory.bits[w] & ~ignored[0]
        if fresh != 0:
            _record(events, memory, DROPPED, w, 0, step, fresh, 0.0, 0.0)
        memory.bits[w] = overflow[w]

    # twins
    if bounds.twins >= 0.0 and w % 2 == 1:
        differs = int(-1)
        most = float(0.0)
        for i in range(qvel.shape[1]):
            difference = wp.abs(qvel[w, i] - qvel[w - 1, i])
            both = not wp.isfinite(qvel[w, i]) and not wp.isfinite(qvel[w - 1, i])
            if not both and not (difference <= bounds.twins) and differs < 0:
                differs = bounds.dof_bodyid[i]
                most = difference
        for i in range(qpos.shape[1]):
            difference = wp.abs(qpos[w, i] - qpos[w - 1, i])
            both = not wp.isfinite(qpos[w, i]) and not wp.isfinite(qpos[w - 1, i])
            if not both and not (difference <= bounds.twins) and differs < 0:
                differs = bounds.qpos_bodyid[i]
                most = difference
        if differs >= 0:
            now = now | (1 << TWINS)
            if (was & (1 << TWINS)) == 0:
                _record(events, memory, TWINS, w, differs, step, 0, most, bounds.twins)

    memory.active[w] = now
    memory.time[w] = time[w]
    for i in range(qvel.shape[1]):
        qvel_before[w, i] = qvel[w, i]
    for b in range(kinetic.shape[1]):
        kinetic_before[w, b] = kinetic[w, b]
        speed_before[w, b] = speed[w, b]
    energy_before[w] = energy[w]
