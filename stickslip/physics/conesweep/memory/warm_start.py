"""The warm start: which contacts continue those of the previous step, which ones are restored, and their forces."""

import warp as wp
from mujoco_warp import OverflowType

from stickslip.physics.conesweep.layout import (
    LONE,
    ROUGH,
    SPINNING,
    Bodies,
    Contacts,
    Equalities,
    PreviousContacts,
    RowSet,
    Settings,
    Tree,
    Work,
)
from stickslip.physics.conesweep.pack import (
    ROWS,
    TOUCH,
    load,
    load_force,
    load_position,
    load_six,
    load_two,
    store,
    store_force,
    turned,
    xyz,
)
from stickslip.physics.conesweep.prepare.rows import Welds, equality_bodies, own_of
from stickslip.physics.conesweep.prepare.sorting import FEATURE_BITS, MAX_FEATURE
from stickslip.physics.conesweep.sweep.cone import project
from stickslip.physics.mjwarp.private import vec5
from stickslip.physics.mjwarp.touches import TOUCHING

wp.set_module_options({"enable_backward": False})

BOUNCE = wp.constant(0.05)
"""Slowest approach that bounces [m/s]."""
REACH = wp.constant(0.25)
"""Farthest that a contact may move in a step and still be the same, in radii of the smaller geom."""
ENOUGH = wp.constant(4)
"""Number of contacts of two geoms from which none is restored."""
MOST = wp.constant(8)
"""Most contacts of two geoms, restored ones included."""
PATIENCE = wp.constant(4)
"""Most steps for which contacts are restored where collision detection finds none of two geoms."""
DRIFT = wp.constant(0.02)
"""Farthest that the two points of a contact may slide apart before it is lost, in radii of the smaller geom."""
LIFT = wp.constant(0.01)
"""Farthest that they may separate along the normal, in the same radii."""
NEARBY = wp.constant(0.2)
"""A contact nearer than this to one that was found is that one, in the same radii."""


@wp.func
def smaller(radius1: float, radius2: float) -> float:
    """Radius of the smaller of two geoms; planes have none."""
    if radius1 <= 0.0 or (radius2 > 0.0 and radius2 < radius1):
        return radius2
    return radius1


@wp.func
def append_contact(
    contacts: Contacts,
    previous: PreviousContacts,
    old: int,
    worldid: int,
    pos: wp.vec3,
    dist: float,
    normal: wp.vec3,
    feature: int,
) -> int:
    """A contact of the last step where it is now, among MuJoCo Warp's; -1, and an overflow, if the buffer is full."""
    conid = wp.atomic_add(contacts.count, 0, 1)
    if conid >= contacts.nmax:
        wp.atomic_or(contacts.overflow, worldid, int(OverflowType.NARROWPHASE))
        return -1
    axis = wp.vec3(0.0, 1.0, 0.0)
    if wp.abs(normal[1]) > 0.5:
        axis = wp.vec3(0.0, 0.0, 1.0)
    tangent = wp.normalize(axis - wp.dot(axis, normal) * normal)
    contacts.frame[conid] = wp.matrix_from_rows(normal, tangent, wp.cross(normal, tangent))
    contacts.pos[conid] = pos
    contacts.dist[conid] = dist
    contacts.worldid[conid] = worldid
    contacts.geomcollisionid[conid] = feature
    contacts.type[conid] = TOUCHING
    contacts.geom[conid] = previous.geom[old]
    contacts.dim[conid] = previous.dim[old]
    contacts.friction[conid] = previous.friction[old]
    contacts.includemargin[conid] = previous.margin[old]
    contacts.surfacevel[conid] = wp.vec3()
    contacts.adhesion[conid] = 0.0
    for i in range(contacts.efc_address.shape[1]):
        contacts.efc_address[conid, i] = -1
    return conid


@wp.func
def first_of_pair(key: wp.array[wp.int64], adr: int, num: int, pair: wp.int64) -> int:
    """First of the sorted contacts `adr + [0, num)` whose pair of geoms is not before this one."""
    low = int(adr)
    high = int(adr + num)
    while low < high:
        mid = (low + high) / 2
        if (key[mid] >> FEATURE_BITS) < pair:
            low = mid + 1
        else:
            high = mid
    return int(low)


@wp.func
def keep_contacts(
    tree: Tree,
    contacts: Contacts,
    bodies: Bodies,
    previous: PreviousContacts,
    work: Work,
    found: int,
    worldid: int,
    lane: int,
    nlane: int,
):
    """Restore contacts that collision detection lost although their points still touch.

    MuJoCo Warp finds one to four points of two faces that touch, not always the same, and sometimes none: a body that
    stands on the others tips over. A contact of the previous step is restored if its two points are still together and
    collision detection finds fewer than ENOUGH contacts of the two geoms, none of them nearby. Where it finds none at
    all, contacts are restored for PATIENCE steps. One lane looks at all old contacts of two geoms. `found` is the
    number of contacts of the world that collision detection found; they are sorted, the restored ones are appended.
    """
    place = work.start[worldid]
    old_adr = previous.adr[worldid]
    old_num = previous.num[worldid]
    for i in range(lane, old_num, nlane):
        pair = previous.key[old_adr + i] >> FEATURE_BITS
        is_first = bool(True)
        if i > 0:
            is_first = (previous.key[old_adr + i - 1] >> FEATURE_BITS) != pair
        if is_first:
            start = first_of_pair(work.sorted_key, place, found, pair)
            end = first_of_pair(work.sorted_key, place, found, pair + wp.int64(1))
            have = end - start
            lost = have == 0
            geom = previous.geom[old_adr + i]
            body1 = tree.geom_bodyid[geom[0]]
            body2 = tree.geom_bodyid[geom[1]]
            world0 = own_of(worldid, bodies.geom_rbound.shape[0])
            radius = smaller(bodies.geom_rbound[world0, geom[0]], bodies.geom_rbound[world0, geom[1]])
            k = int(i)
            if have >= ENOUGH:
                k = old_num
            while k < old_num and have < MOST:
                old = old_adr + k
                if (previous.key[old] >> FEATURE_BITS) != pair:
                    break
                point1 = bodies.xpos[worldid, body1] + bodies.xmat[worldid, body1] @ previous.local1[old]
                point2 = bodies.xpos[worldid, body2] + bodies.xmat[worldid, body2] @ previous.local2[old]
                normal = bodies.xmat[worldid, body1] @ previous.normal[old]
                apart = point2 - point1
                dist = wp.dot(normal, apart)
                drift = wp.length(apart - dist * normal)
                pos = 0.5 * (point1 + point2)
                near = drift < DRIFT * radius and dist - previous.margin[old] < LIFT * radius
                if near and (not lost or previous.age[old] < PATIENCE):
                    is_new = bool(True)
                    for j in range(start, end):
                        away = wp.length(contacts.pos[work.sorted_con[j]] - pos)
                        is_new = is_new and away >= NEARBY * radius
                    if is_new:
                        key = previous.key[old]
                        feature = int(key & (MAX_FEATURE - wp.int64(1)))
                        conid = append_contact(contacts, previous, old, worldid, pos, dist, normal, feature)
                        if conid >= 0:
                            work.age[conid] = wp.where(lost, previous.age[old] + 1, 0)
                            slot = wp.atomic_add(work.num, worldid, 1)
                            work.unsorted_key[place + slot] = key
                            work.unsorted_con[place + slot] = conid
                            have += 1
                k += 1


@wp.func
def to_body(xpos: wp.vec3, xmat: wp.mat33, pos: wp.vec3) -> wp.vec3:
    """A position in the frame of a body."""
    return wp.transpose(xmat) @ (pos - xpos)


@wp.func
def match_contacts(
    tree: Tree,
    contacts: Contacts,
    bodies: Bodies,
    previous: PreviousContacts,
    work: Work,
    worldid: int,
    lane: int,
    nlane: int,
):
    """Find the contact of the last step that each one continues: the same two geoms, the nearest in a body's frame."""
    adr = work.adr[worldid]
    num = work.num[worldid]
    old_adr = previous.adr[worldid]
    old_num = previous.num[worldid]
    for i in range(lane, num, nlane):
        best = int(-1)
        if old_num > 0:
            con = work.con[adr + i]
            geom = contacts.geom[con]
            body1 = tree.geom_bodyid[geom[0]]
            body2 = tree.geom_bodyid[geom[1]]
            shift = 0.5 * contacts.dist[con] * contacts.frame[con][0]
            local1 = to_body(bodies.xpos[worldid, body1], bodies.xmat[worldid, body1], contacts.pos[con] - shift)
            local2 = to_body(bodies.xpos[worldid, body2], bodies.xmat[worldid, body2], contacts.pos[con] + shift)
            world0 = own_of(worldid, bodies.geom_rbound.shape[0])
            radius = smaller(bodies.geom_rbound[world0, geom[0]], bodies.geom_rbound[world0, geom[1]])
            nearest = REACH * radius
            pair = work.key[adr + i] >> FEATURE_BITS
            old = first_of_pair(previous.key, old_adr, old_num, pair)
            while old < old_adr + old_num:
                if (previous.key[old] >> FEATURE_BITS) != pair:
                    break
                away1 = wp.length(previous.local1[old] - local1)
                away2 = wp.length(previous.local2[old] - local2)
                away = wp.min(away1, away2)
                if away < nearest:
                    nearest = away
                    best = old
                old += 1
        work.matched[adr + i] = best


@wp.func
def restore_forces(
    tree: Tree,
    contacts: Contacts,
    bodies: Bodies,
    previous: PreviousContacts,
    work: Work,
    worldid: int,
    lane: int,
    nlane: int,
):
    """Geometry of each contact about its pair's point, and the force it starts with, turned with its bodies."""
    adr = work.adr[worldid]
    for n in range(lane, work.num[worldid], nlane):
        i = adr + n
        p = adr + work.of_pair[i]
        first = work.first[p]
        pair = work.bodies[p]
        point = xyz(load(work.point, p))
        con = work.con[i]
        geom = contacts.geom[con]
        body1 = tree.geom_bodyid[geom[0]]
        body2 = tree.geom_bodyid[geom[1]]
        frame = contacts.frame[con]
        pos = contacts.pos[con]
        dim = contacts.dim[con]
        mu = contacts.friction[con]
        f = wp.spatial_vector()
        old = work.matched[i]
        if old >= 0:
            share = int(0)  # contacts that continue the same one share its force
            for j in range(first, first + work.ncon[p]):
                if work.matched[j] == old:
                    share += 1
            xmat1 = bodies.xmat[worldid, body1]
            xmat2 = bodies.xmat[worldid, body2]
            force1 = load_six(previous.force1, old)
            force2 = load_six(previous.force2, old)
            scale = 0.5 / float(share)
            force = scale * (xmat1 @ wp.spatial_bottom(force1) + xmat2 @ wp.spatial_bottom(force2))
            torque = scale * (xmat1 @ wp.spatial_top(force1) + xmat2 @ wp.spatial_top(force2))
            force = frame @ force
            torque = frame @ torque
            normal = wp.max(force[0], 0.0)
            friction = vec5(force[1], force[2], torque[0], torque[1], torque[2])
            friction = project(friction, normal, dim, mu, wp.vec3(1.0, 1.0, 1.0))
            f = wp.spatial_vector(normal, friction[0], friction[1], friction[2], friction[3], friction[4])
        hand = wp.where(tree.body_weldid[body1] != pair[0], -1.0, 1.0)
        frame = hand * frame
        work.hand[i] = hand
        store_force(work.f, i * work.f_step, turned(f, hand))
        friction_kind = float(0.0)
        if dim > 4 or (dim >= 3 and (mu[0] != mu[1] or wp.length_sq(contacts.surfacevel[con]) > 0.0)):
            friction_kind = ROUGH
        elif dim == 4:
            friction_kind = SPINNING
        elif dim == 3:
            friction_kind = mu[0]
        distance = contacts.dist[con] - contacts.includemargin[con]
        arm = pos - point
        at = i * work.touch_rows
        store(work.touch, at, wp.vec4(frame[0, 0], frame[0, 1], frame[0, 2], distance))
        store(work.touch, at + 1, wp.vec4(frame[1, 0], frame[1, 1], frame[1, 2], friction_kind))
        store(work.touch, at + 2, wp.vec4(arm[0], arm[1], arm[2], 0.0))


@wp.func
def find_approaches(tree: Tree, work: Work, worldid: int, lane: int, nlane: int):
    """The speed of contacts of free bodies that were not loaded and close fast enough to bounce."""
    adr = work.adr[worldid]
    for i in range(adr + lane, adr + work.num[worldid], nlane):
        if load_force(work.f, i)[0] <= 0.0:
            p = adr + work.of_pair[i]
            pair = work.bodies[p]
            arm = xyz(load(work.touch, i * TOUCH + 2))
            u = wp.vec3()
            for side in range(2):
                at = (worldid * tree.nbody + pair[side]) * ROWS
                if tree.body_kind[pair[side]] == LONE:
                    V, _P = load_two(work.motion, at)
                    reach = xyz(load(work.point, p)) + arm - load_position(work.Lam, at)
                    u += float(2 * side - 1) * (wp.spatial_bottom(V) + wp.cross(wp.spatial_top(V), reach))
            speed = -wp.dot(xyz(load(work.touch, i * TOUCH)), u)
            if speed > BOUNCE:
                store(work.touch, i * TOUCH + 2, wp.vec4(arm[0], arm[1], arm[2], speed))


@wp.func
def remember_contacts(
    tree: Tree,
    contacts: Contacts,
    bodies: Bodies,
    settings: Settings,
    work: Work,
    previous: PreviousContacts,
    worldid: int,
    lane: int,
    nlane: int,
):
    """Keep for the next step where contacts are, and their forces in the frames of their bodies."""
    adr = work.adr[worldid]
    num = work.num[worldid]
    if lane == 0:
        previous.adr[worldid] = adr
        previous.num[worldid] = num
    for i in range(adr + lane, adr + num, nlane):
        con = work.con[i]
        f = turned(load_force(work.f, i * work.f_step), work.hand[i])
        f = wp.where(settings.warm_start, f, wp.spatial_vector())
        geom = contacts.geom[con]
        body1 = tree.geom_bodyid[geom[0]]
        body2 = tree.geom_bodyid[geom[1]]
        frame = contacts.frame[con]
        force = wp.transpose(frame) @ wp.vec3(f[0], f[1], f[2])
        torque = wp.transpose(frame) @ wp.vec3(f[3], f[4], f[5])
        back1 = wp.transpose(bodies.xmat[worldid, body1])
        back2 = wp.transpose(bodies.xmat[worldid, body2])
        shift = 0.5 * contacts.dist[con] * frame[0]
        previous.key[i] = work.key[i]
        previous.local1[i] = to_body(
            bodies.xpos[worldid, body1], bodies.xmat[worldid, body1], contacts.pos[con] - shift
        )
        previous.local2[i] = to_body(
            bodies.xpos[worldid, body2], bodies.xmat[worldid, body2], contacts.pos[con] + shift
        )
        previous.normal[i] = back1 @ frame[0]
        previous.geom[i] = geom
        previous.dim[i] = contacts.dim[con]
        previous.friction[i] = contacts.friction[con]
        previous.margin[i] = contacts.includemargin[con]
        previous.age[i] = work.age[con]
        previous.force1[i] = wp.spatial_vector(back1 @ torque, back1 @ force)
        previous.force2[i] = wp.spatial_vector(back2 @ torque, back2 @ force)


@wp.func
def remember_rows(
    bodies: Bodies,
    settings: Settings,
    rows: RowSet,
    equalities: Equalities,
    welds: Welds,
    worldid: int,
    lane: int,
    nlane: int,
):
    """Forces of rows and equalities for the next step."""
    for r in range(lane, rows.n, nlane):
        kept = settings.warm_start and rows.kind[worldid, r] > 0
        rows.warm_start[worldid, r] = wp.where(kept, rows.f[worldid, r], 0.0)
    for k in range(lane, equalities.n, nlane):
        back = wp.transpose(bodies.xmat[worldid, equality_bodies(welds, k)[0]])
        f = wp.where(settings.warm_start, equalities.f[worldid, k], wp.spatial_vector())
        equalities.warm_start[worldid, k] = wp.spatial_vector(back @ wp.spatial_top(f), back @ wp.spatial_bottom(f))
