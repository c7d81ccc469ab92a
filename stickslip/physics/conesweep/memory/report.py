"""What a step leaves behind: acceleration and displacement, rows with forces for those who read them, the memory."""

import warp as wp
from mujoco_warp import ConeType

from stickslip.physics.conesweep.block import sum_lanes
from stickslip.physics.conesweep.layout import LIMIT, Bodies, Contacts, Equalities, RowSet, Tree, Work
from stickslip.physics.conesweep.pack import (
    ROWS,
    add_row,
    load_force,
    load_six_of_world,
    load_two,
    turned,
)
from stickslip.physics.conesweep.prepare.inertia import at_point, from_point
from stickslip.physics.conesweep.prepare.rows import (
    BALL_LIMIT,
    JOINT_COUPLING,
    JOINT_FRICTION,
    JOINT_LIMIT,
    TENDON_COUPLING,
    TENDON_FRICTION,
    Joints,
    Welds,
    make_rows,
    own_of,
)
from stickslip.physics.mjwarp.contact import conjugate, mul_quat
from stickslip.physics.mjwarp.private import ConstraintType, vec10
from stickslip.physics.mjwarp.rows import MIN_INVERSE_MASS, Rows, store_row
from stickslip.physics.mjwarp.touches import is_apart, marked

wp.set_module_options({"enable_backward": False})


@wp.struct
class Result:
    """Forces and motion of the step; shapes (nworld, nv) and (nworld,)."""

    qfrc_smooth: wp.array2d[float]
    qfrc_constraint: wp.array2d[float]
    Ma: wp.array2d[float]
    qacc: wp.array2d[float]
    velocity: wp.array2d[float]
    ne: wp.array[int]
    nf: wp.array[int]
    nl: wp.array[int]
    cone: int


@wp.func
def finish_dofs(tree: Tree, bodies: Bodies, work: Work, result: Result, worldid: int, lane: int, nlane: int):
    """Constraint force, acceleration, and the velocity that makes the step's displacement, of free bodies."""
    timestep = bodies.timestep[worldid % bodies.timestep.shape[0]]
    for t in range(lane, tree.ntree, nlane):
        at = (worldid * tree.nbody + tree.tree_lone[t]) * ROWS
        dofadr = tree.tree_dofadr[t]
        _V, P = load_two(work.motion, at)
        _X, Px = load_two(work.motion, at + 3)
        impulse = wp.spatial_vector()
        push = wp.spatial_vector()
        for j in range(6):
            axis = load_six_of_world(bodies.cdof, worldid, dofadr + j)
            impulse[j] = wp.dot(axis, P)
            push[j] = wp.dot(axis, Px)
        for i in range(dofadr, dofadr + 6):
            force = wp.dot(load_six_of_world(bodies.cdof, worldid, i), P) / timestep
            v_free = work.v_free[worldid, i]
            row = (worldid * tree.ntree + t) * 6 + i - dofadr
            v = add_row(work.inverse, row, impulse, v_free)
            x = add_row(work.inverse, row, push, timestep * (v_free + work.lag[worldid, i]))
            result.qfrc_constraint[worldid, i] = force
            result.Ma[worldid, i] = result.qfrc_smooth[worldid, i] + force
            result.qacc[worldid, i] = (v - bodies.qvel[worldid, i]) / timestep
            result.velocity[worldid, i] = x / timestep


@wp.func
def is_reported(rows: RowSet, worldid: int, r: int) -> bool:
    """Limits that are only near have no row, as in MuJoCo."""
    kind = rows.kind[worldid, r]
    return kind > 0 and (kind != LIMIT or rows.phi[worldid, r] < 0.0 or rows.f[worldid, r] > 0.0)


@wp.func
def write_equalities(equalities: Equalities, welds: Welds, out: Rows, worldid: int, lane: int, nlane: int) -> int:
    """Residuals and forces of connects and welds; returns how many rows they have.

    MuJoCo's rows are of the first body against the second. Those of a turn are half the angle times the weld's scale,
    seen from the second body.
    """
    first = int(0)
    for start in range(0, equalities.n, nlane):
        k = start + lane
        active = int(0)
        if k < equalities.n:
            active = equalities.active[worldid, k]
        count = sum_lanes(active, lane, nlane)
        row = first + count[0] - active
        first += count[1]
        if active > 0:
            arm = equalities.point[worldid, k] - equalities.anchor[worldid, k]
            f = from_point(equalities.f[worldid, k], arm)
            error = at_point(equalities.error[worldid, k], -arm)
            scale = 0.5 * welds.eq_data[own_of(worldid, welds.eq_data.shape[0]), welds.eqid[k]][10]
            quat = equalities.quat[worldid, k]
            turn = rotate_back(quat, wp.spatial_top(error))
            moment = rotate_back(quat, wp.spatial_top(f))
            kind = int(ConstraintType.EQUALITY)
            for j in range(3):
                mass = 1.0 / wp.max(equalities.weight[worldid, k][j + 3], MIN_INVERSE_MASS)
                store_row(out, worldid, row + j, kind, welds.eqid[k], -error[j + 3], 0.0, mass, 0.0, -f[j + 3])
                if active > 3:
                    mass = 1.0 / wp.max(scale * scale * equalities.weight[worldid, k][j], MIN_INVERSE_MASS)
                    force = -moment[j] / scale
                    store_row(out, worldid, row + 3 + j, kind, welds.eqid[k], -scale * turn[j], 0.0, mass, 0.0, force)
    return first


@wp.func
def group_of(source: int) -> int:
    """0: a coupling, 1: dry friction, 2: a limit."""
    if source == JOINT_COUPLING or source == TENDON_COUPLING:  # noqa: SIM109 - Warp knows no `in`
        return 0
    if source == JOINT_FRICTION or source == TENDON_FRICTION:  # noqa: SIM109
        return 1
    return 2


@wp.func
def write_rows(
    bodies: Bodies,
    rows: RowSet,
    joints: Joints,
    result: Result,
    out: Rows,
    ne: int,
    worldid: int,
    lane: int,
    nlane: int,
) -> int:
    """Kind, residual and force of couplings, dry friction and limits, after `ne` rows; returns how many there are."""
    equality = int(ne)
    friction = int(0)
    limit = int(0)
    for start in range(0, rows.n, nlane):
        r = start + lane
        group = int(-1)
        source = wp.vec2i()
        if r < rows.n:  # noqa: SIM102 - Warp evaluates both sides of `and`
            if is_reported(rows, worldid, r):
                source = joints.source[r]
                group = group_of(source[0])
        # three counts in one number: a lane has at most one row, and there are fewer than 2^10 lanes
        count = sum_lanes(wp.where(group >= 0, 1 << (10 * wp.max(group, 0)), 0), lane, nlane)
        before = equality + friction + limit - 1
        row = before + (count[0] & 1023) + ((count[0] >> 10) & 1023) + (count[0] >> 20)
        equality += count[1] & 1023
        friction += (count[1] >> 10) & 1023
        limit += count[1] >> 20
        if group >= 0:
            kind = int(ConstraintType.EQUALITY)
            loss = float(0.0)
            margin = float(0.0)
            if group == 1:
                kind = wp.where(
                    source[0] == JOINT_FRICTION, int(ConstraintType.FRICTION_DOF), int(ConstraintType.FRICTION_TENDON)
                )
                loss = rows.high[worldid, r]
            elif source[0] == JOINT_LIMIT or source[0] == BALL_LIMIT:
                kind = int(ConstraintType.LIMIT_JOINT)
                margin = joints.jnt_margin[own_of(worldid, joints.jnt_margin.shape[0]), source[1]]
            elif group == 2:
                kind = int(ConstraintType.LIMIT_TENDON)
                margin = joints.tendon_margin[own_of(worldid, joints.tendon_margin.shape[0]), source[1]]
            mass = 1.0 / wp.max(rows.weight[worldid, r], MIN_INVERSE_MASS)
            pos = rows.phi[worldid, r] + margin
            store_row(out, worldid, row, kind, source[1], pos, margin, mass, loss, rows.f[worldid, r])
            if row < out.njmax:
                vel = float(0.0)
                for e in range(rows.adr[r], rows.adr[r] + rows.nnz[r]):
                    vel += rows.val[worldid, e] * bodies.qvel[worldid, rows.col[e]]
                out.vel[worldid, row] = vel
    if lane == 0:
        result.ne[worldid] = equality
        result.nf[worldid] = friction
        result.nl[worldid] = limit
    return equality + friction + limit


@wp.func
def rotate_back(quat: wp.quat, v: wp.vec3) -> wp.vec3:
    """A vector seen from a frame whose quaternion is stored w, x, y, z."""
    q = mul_quat(mul_quat(conjugate(quat), wp.quat(0.0, v[0], v[1], v[2])), quat)
    return wp.vec3(q[1], q[2], q[3])


@wp.func
def write_contacts(
    contacts: Contacts, work: Work, result: Result, out: Rows, others: int, worldid: int, lane: int, nlane: int
):
    """Rows of contacts with their forces, after the others, in the layout of the model's cone.

    A contact that is open and has no force has none; it may be only near.
    """
    adr = work.adr[worldid]
    num = work.num[worldid]
    is_pyramid = result.cone == int(ConeType.PYRAMIDAL)
    first = int(others)
    for start in range(0, num, nlane):
        i = adr + start + lane
        acts = start + lane < num
        con = int(0)
        dim = int(0)
        nrow = int(0)
        f = wp.spatial_vector()
        if acts:
            con = work.con[i]
            dim = contacts.dim[con]
            f = turned(load_force(work.f, i * work.f_step), work.hand[i])
            if contacts.dist[con] - contacts.includemargin[con] < 0.0 or f[0] > 0.0:
                nrow = wp.where(dim == 1 or not is_pyramid, dim, 2 * (dim - 1))
        count = sum_lanes(nrow, lane, nlane)
        row = first + count[0] - nrow
        first += count[1]
        if acts:
            near = bool(False)
            if nrow == 0:
                near = is_apart(contacts.gaps, contacts.geom[con], contacts.dist[con], contacts.includemargin[con])
            contacts.type[con] = marked(contacts.type[con], near)
            kind = int(ConstraintType.CONTACT_ELLIPTIC)
            value = vec10(f[0], f[1], f[2], f[3], f[4], f[5], 0.0, 0.0, 0.0, 0.0)
            if dim == 1:
                kind = int(ConstraintType.CONTACT_FRICTIONLESS)
            elif is_pyramid:
                # facets whose sums are the normal force and whose differences are friction; they may be negative
                kind = int(ConstraintType.CONTACT_PYRAMIDAL)
                mu = contacts.friction[con]
                for j in range(5):
                    if j < dim - 1:
                        half = 0.5 * f[0] / float(dim - 1)
                        tilt = 0.5 * f[j + 1] / wp.max(mu[j], 1.0e-5)
                        value[2 * j] = half + tilt
                        value[2 * j + 1] = half - tilt
            fits = row + nrow <= out.njmax
            for j in range(10):
                if j < contacts.efc_address.shape[1]:
                    address = int(-1)
                    if j < nrow and fits:
                        address = row + j
                        out.type[worldid, address] = kind
                        out.id[worldid, address] = con
                        out.force[worldid, address] = value[j]
                    contacts.efc_address[con, j] = address
    if lane == 0:
        out.nefc[worldid] = first


@wp.kernel
def limit_rows(bodies: Bodies, work: Work, rows: RowSet, joints: Joints, result: Result, out: Rows):
    """The rows of limits alone, without forces, for sensors that read them before forces are known."""
    worldid = wp.tid()
    for i in range(work.v_free.shape[1]):
        work.v_free[worldid, i] = bodies.qvel[worldid, i]
    make_rows(bodies, work, rows, joints, worldid, 0, 1)
    for r in range(rows.n):
        rows.f[worldid, r] = 0.0
        rows.weight[worldid, r] = 1.0
        if rows.kind[worldid, r] != LIMIT:
            rows.kind[worldid, r] = 0
    out.nefc[worldid] = write_rows(bodies, rows, joints, result, out, 0, worldid, 0, 1)
