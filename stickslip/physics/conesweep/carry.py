"""What a step takes over from the last one: which contacts go on, those that were lost on the way, and their forces."""

import warp as wp
from mujoco_warp import OverflowType

from stickslip.physics.conesweep.cone import project
from stickslip.physics.conesweep.dofs import motion_of
from stickslip.physics.conesweep.grouping import FEATURE_BITS, MAX_FEATURE
from stickslip.physics.conesweep.layout import (
    ROUGH,
    SPINNING,
    Bodies,
    Contacts,
    Links,
    Memory,
    RowSet,
    Settings,
    Tree,
    Work,
)
from stickslip.physics.conesweep.pack import TOUCH, load, load_force, store, store_force, turned, xyz
from stickslip.physics.conesweep.rows import Welds, link_bodies
from stickslip.physics.mjwarp_private import ContactType, vec5

wp.set_module_options({"enable_backward": False})

BOUNCE = wp.constant(0.05)
"""Slowest approach that bounces [m/s]."""
REACH = wp.constant(0.25)
"""How far a contact may move in a step and still be the same, in radii of the smaller geom."""
ENOUGH = wp.constant(4)
"""Contacts of two geoms from which none is brought back."""
MOST = wp.constant(8)
"""Contacts of two geoms at most, with those that are brought back."""
PATIENCE = wp.constant(4)
"""Steps for which contacts of two geoms come back that collision detection does not find at all."""
DRIFT = wp.constant(0.02)
"""How far the two points of a contact may slide apart before it is lost, in radii of the smaller geom."""
LIFT = wp.constant(0.01)
"""How far they may come apart along the normal, likewise."""
NEARBY = wp.constant(0.2)
"""A contact nearer than this to one that was found is that one, likewise."""


@wp.func
def smaller(radius1: float, radius2: float) -> float:
    """Radius of the smaller of two geoms; planes have none."""
    if radius1 <= 0.0 or (radius2 > 0.0 and radius2 < radius1):
        return radius2
    return radius1


@wp.func
def append_contact(
    contacts: Contacts, memory: Memory, old: int, worldid: int, pos: wp.vec3, dist: float, normal: wp.vec3, feature: int
) -> int:
    """A contact of the last step where it is now, among MuJoCo Warp's; -1, and an overflow, if there is no room."""
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
    contacts.type[conid] = int(ContactType.CONSTRAINT)
    contacts.geom[conid] = memory.geom[old]
    contacts.dim[conid] = memory.dim[old]
    contacts.friction[conid] = memory.friction[old]
    contacts.includemargin[conid] = memory.margin[old]
    contacts.surfacevel[conid] = wp.vec3()
    contacts.adhesion[conid] = 0.0
    for i in range(contacts.efc_address.shape[1]):
        contacts.efc_address[conid, i] = -1
    return conid


@wp.func
def keep_contacts(
    tree: Tree,
    contacts: Contacts,
    bodies: Bodies,
    memory: Memory,
    work: Work,
    found: int,
    worldid: int,
    lane: int,
    nlane: int,
):
    """Bring back contacts that collision detection lost though their points still touch.

    MuJoCo Warp finds one to four points of two faces that touch, not always the same, and now and then none: a body
    that stands on what is left tips over. A contact of the last step comes back if its two points are still together
    and collision detection finds fewer than ENOUGH contacts of the two geoms, none of them nearby. Where it finds none
    at all, contacts come back for PATIENCE steps. One lane looks at all old contacts of two geoms. `found` is the
    number of contacts of the world that collision detection found.
    """
    adr = work.adr[worldid]
    old_adr = memory.adr[worldid]
    old_num = memory.num[worldid]
    for i in range(lane, old_num, nlane):
        pair = memory.key[old_adr + i] >> FEATURE_BITS
        is_first = bool(True)
        if i > 0:
            is_first = (memory.key[old_adr + i - 1] >> FEATURE_BITS) != pair
        if is_first:
            have = int(0)
            for j in range(found):
                if (work.unsorted_key[adr + j] >> FEATURE_BITS) == pair:
                    have += 1
            lost = have == 0
            geom = memory.geom[old_adr + i]
            body1 = tree.geom_bodyid[geom[0]]
            body2 = tree.geom_bodyid[geom[1]]
            world0 = worldid % bodies.geom_rbound.shape[0]
            radius = smaller(bodies.geom_rbound[world0, geom[0]], bodies.geom_rbound[world0, geom[1]])
            k = int(i)
            if have >= ENOUGH:
                k = old_num
            while k < old_num and have < MOST:
                old = old_adr + k
                if (memory.key[old] >> FEATURE_BITS) != pair:
                    break
                point1 = bodies.xpos[worldid, body1] + bodies.xmat[worldid, body1] @ memory.local1[old]
                point2 = bodies.xpos[worldid, body2] + bodies.xmat[worldid, body2] @ memory.local2[old]
                normal = bodies.xmat[worldid, body1] @ memory.normal[old]
                apart = point2 - point1
                dist = wp.dot(normal, apart)
                drift = wp.length(apart - dist * normal)
                pos = 0.5 * (point1 + point2)
                near = drift < DRIFT * radius and dist - memory.margin[old] < LIFT * radius
                if near and (not lost or memory.age[old] < PATIENCE):
                    is_new = bool(True)
                    for j in range(found):
                        if (work.unsorted_key[adr + j] >> FEATURE_BITS) == pair:
                            away = wp.length(contacts.pos[work.unsorted_con[adr + j]] - pos)
                            is_new = is_new and away >= NEARBY * radius
                    if is_new:
                        key = memory.key[old]
                        feature = int(key & (MAX_FEATURE - wp.int64(1)))
                        conid = append_contact(contacts, memory, old, worldid, pos, dist, normal, feature)
                        if conid >= 0:
                            work.age[conid] = wp.where(lost, memory.age[old] + 1, 0)
                            slot = wp.atomic_add(work.num, worldid, 1)
                            work.unsorted_key[adr + slot] = key
                            work.unsorted_con[adr + slot] = conid
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
    memory: Memory,
    work: Work,
    worldid: int,
    lane: int,
    nlane: int,
):
    """Find the contact of the last step that each one continues: the same two geoms, the nearest in a body's frame."""
    adr = work.adr[worldid]
    num = work.num[worldid]
    old_adr = memory.adr[worldid]
    old_num = memory.num[worldid]
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
            world0 = worldid % bodies.geom_rbound.shape[0]
            radius = smaller(bodies.geom_rbound[world0, geom[0]], bodies.geom_rbound[world0, geom[1]])
            nearest = REACH * radius
            pair = work.key[adr + i] >> FEATURE_BITS
            low = int(0)
            high = int(old_num)
            while low < high:
                mid = (low + high) / 2
                if (memory.key[old_adr + mid] >> FEATURE_BITS) < pair:
                    low = mid + 1
                else:
                    high = mid
            while low < old_num:
                if (memory.key[old_adr + low] >> FEATURE_BITS) != pair:
                    break
                away1 = wp.length(memory.local1[old_adr + low] - local1)
                away2 = wp.length(memory.local2[old_adr + low] - local2)
                away = wp.min(away1, away2)
                if away < nearest:
                    nearest = away
                    best = old_adr + low
                low += 1
        work.matched[adr + i] = best


@wp.func
def carry_forces(
    tree: Tree,
    contacts: Contacts,
    bodies: Bodies,
    settings: Settings,
    memory: Memory,
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
            force1 = memory.force1[old]
            force2 = memory.force2[old]
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
        store_force(work.f, i, turned(f, hand))
        friction_kind = float(0.0)
        if dim > 4 or (dim >= 3 and (mu[0] != mu[1] or wp.length_sq(contacts.surfacevel[con]) > 0.0)):
            friction_kind = ROUGH
        elif dim == 4:
            friction_kind = SPINNING
        elif dim == 3:
            friction_kind = mu[0]
        approach = float(0.0)
        if settings.restitution > 0.0 and f[0] <= 0.0:
            arm1 = pos - bodies.subtree_com[worldid, tree.body_rootid[pair[0]]]
            arm2 = pos - bodies.subtree_com[worldid, tree.body_rootid[pair[1]]]
            V1, _X1 = motion_of(tree, bodies, work, worldid, pair[0])
            V2, _X2 = motion_of(tree, bodies, work, worldid, pair[1])
            u = wp.spatial_bottom(V2) - wp.spatial_bottom(V1)
            u += wp.cross(wp.spatial_top(V2), arm2) - wp.cross(wp.spatial_top(V1), arm1)
            speed = -wp.dot(frame[0], u)
            if speed > BOUNCE:
                approach = speed
        distance = contacts.dist[con] - contacts.includemargin[con]
        arm = pos - point
        store(work.touch, i * TOUCH, wp.vec4(frame[0, 0], frame[0, 1], frame[0, 2], distance))
        store(work.touch, i * TOUCH + 1, wp.vec4(frame[1, 0], frame[1, 1], frame[1, 2], friction_kind))
        store(work.touch, i * TOUCH + 2, wp.vec4(arm[0], arm[1], arm[2], approach))


@wp.func
def remember_contacts(
    tree: Tree,
    contacts: Contacts,
    bodies: Bodies,
    settings: Settings,
    work: Work,
    memory: Memory,
    worldid: int,
    lane: int,
    nlane: int,
):
    """What is carried to the next step: where contacts are, and their forces in the frames of their bodies."""
    adr = work.adr[worldid]
    num = work.num[worldid]
    if lane == 0:
        memory.adr[worldid] = adr
        memory.num[worldid] = num
    for i in range(adr + lane, adr + num, nlane):
        con = work.con[i]
        f = wp.where(settings.carry, turned(load_force(work.f, i), work.hand[i]), wp.spatial_vector())
        geom = contacts.geom[con]
        body1 = tree.geom_bodyid[geom[0]]
        body2 = tree.geom_bodyid[geom[1]]
        frame = contacts.frame[con]
        force = wp.transpose(frame) @ wp.vec3(f[0], f[1], f[2])
        torque = wp.transpose(frame) @ wp.vec3(f[3], f[4], f[5])
        back1 = wp.transpose(bodies.xmat[worldid, body1])
        back2 = wp.transpose(bodies.xmat[worldid, body2])
        shift = 0.5 * contacts.dist[con] * frame[0]
        memory.key[i] = work.key[i]
        memory.local1[i] = to_body(bodies.xpos[worldid, body1], bodies.xmat[worldid, body1], contacts.pos[con] - shift)
        memory.local2[i] = to_body(bodies.xpos[worldid, body2], bodies.xmat[worldid, body2], contacts.pos[con] + shift)
        memory.normal[i] = back1 @ frame[0]
        memory.geom[i] = geom
        memory.dim[i] = contacts.dim[con]
        memory.friction[i] = contacts.friction[con]
        memory.margin[i] = contacts.includemargin[con]
        memory.age[i] = work.age[con]
        memory.force1[i] = wp.spatial_vector(back1 @ torque, back1 @ force)
        memory.force2[i] = wp.spatial_vector(back2 @ torque, back2 @ force)


@wp.func
def remember_rows(
    bodies: Bodies, settings: Settings, rows: RowSet, links: Links, welds: Welds, worldid: int, lane: int, nlane: int
):
    """Forces of rows and links for the next step."""
    for r in range(lane, rows.n, nlane):
        rows.carried[worldid, r] = wp.where(settings.carry and rows.kind[worldid, r] > 0, rows.f[worldid, r], 0.0)
    for k in range(lane, links.n, nlane):
        back = wp.transpose(bodies.xmat[worldid, link_bodies(welds, k)[0]])
        f = wp.where(settings.carry, links.f[worldid, k], wp.spatial_vector())
        links.carried[worldid, k] = wp.spatial_vector(back @ wp.spatial_top(f), back @ wp.spatial_bottom(f))
