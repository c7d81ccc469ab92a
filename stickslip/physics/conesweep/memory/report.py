"""What a step leaves behind: acceleration and displacement, rows with forces for those who read them, the memory."""

import warp as wp
from mujoco_warp import ConeType

from stickslip.physics.conesweep.layout import LIMIT, Bodies, Contacts, Equalities, RowSet, Tree, Work
from stickslip.physics.conesweep.pack import FORCE, ROWS, TOUCH, load, load_force, load_two, turned
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
    """Constraint force, acceleration, and the velocity that makes the step's displacement, for free bodies."""
    timestep = bodies.timestep[worldid % bodies.timestep.shape[0]]
    for i in range(lane, tree.nv, nlane):
        t = tree.dof_treeid[i]
        at = (worldid * tree.nbody + tree.tree_lone[t]) * ROWS
        dofadr = tree.tree_dofadr[t]
        _V, P = load_two(work.motion, at)
        _X, Px = load_two(work.motion, at + 3)
        force = wp.dot(bodies.cdof[worldid, i], P) / timestep
        v = work.v_free[worldid, i]
        x = timestep * v
        for j in range(6):
            response = work.inverse[worldid, t][i - dofadr, j]
            v += response * wp.dot(bodies.cdof[worldid, dofadr + j], P)
            x += response * wp.dot(bodies.cdof[worldid, dofadr + j], Px)
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
def contact_rows(contacts: Contacts, work: Work, result: Result, i: int) -> int:
    """Rows of a contact: none for one that is only near."""
    if load(work.touch, i * TOUCH)[3] >= 0.0 and load(work.f, i * FORCE)[0] <= 0.0:
        return 0
    dim = contacts.dim[work.con[i]]
    if dim == 1 or result.cone != int(ConeType.PYRAMIDAL):
        return dim
    return 2 * (dim - 1)


@wp.func
def number_rows(work: Work, rows: RowSet, equalities: Equalities, joints: Joints, result: Result, worldid: int):
    """Addresses of rows and equalities in MuJoCo's order, by one lane."""
    row = int(0)
    for k in range(equalities.n):
        equalities.address[worldid, k] = row
        row += equalities.active[worldid, k]
    ne = row
    nf = int(0)
    nl = int(0)
    for r in range(rows.n):
        if is_reported(rows, worldid, r):
            rows.address[worldid, r] = row
            row += 1
            source = joints.source[r][0]
            if source == JOINT_COUPLING or source == TENDON_COUPLING:  # noqa: SIM109 - Warp knows no `in`
                ne += 1
            elif source == JOINT_FRICTION or source == TENDON_FRICTION:  # noqa: SIM109
                nf += 1
            else:
                nl += 1
    result.ne[worldid] = ne
    result.nf[worldid] = nf
    result.nl[worldid] = nl


@wp.func
def count_rows(contacts: Contacts, work: Work, result: Result, worldid: int, lane: int, nlane: int) -> int:
    """Rows of a lane's share of the contacts: a run of them."""
    share = (work.num[worldid] + nlane - 1) / nlane
    adr = work.adr[worldid]
    total = int(0)
    for k in range(lane * share, wp.min((lane + 1) * share, work.num[worldid])):
        total += contact_rows(contacts, work, result, adr + k)
    return total


@wp.func
def number_contacts(contacts: Contacts, work: Work, result: Result, out: Rows, worldid: int, lane: int, nlane: int):
    """Addresses of the rows of contacts, after all others: into matched. `partial` has what each lane counted."""
    row = result.ne[worldid] + result.nf[worldid] + result.nl[worldid]
    for k in range(lane):
        row += int(work.partial[worldid, k][0])
    share = (work.num[worldid] + nlane - 1) / nlane
    adr = work.adr[worldid]
    for k in range(lane * share, wp.min((lane + 1) * share, work.num[worldid])):
        work.matched[adr + k] = row
        row += contact_rows(contacts, work, result, adr + k)
    if lane == nlane - 1:
        out.nefc[worldid] = row


@wp.func
def write_rows(bodies: Bodies, rows: RowSet, joints: Joints, out: Rows, worldid: int, lane: int, nlane: int):
    """Kind, residual and force of limits, dry friction and couplings."""
    for r in range(lane, rows.n, nlane):
        if is_reported(rows, worldid, r):
            source = joints.source[r]
            kind = int(ConstraintType.EQUALITY)
            loss = float(0.0)
            margin = float(0.0)
            if source[0] == JOINT_FRICTION or source[0] == TENDON_FRICTION:
                kind = wp.where(
                    source[0] == JOINT_FRICTION, int(ConstraintType.FRICTION_DOF), int(ConstraintType.FRICTION_TENDON)
                )
                loss = rows.high[worldid, r]
            elif source[0] == JOINT_LIMIT or source[0] == BALL_LIMIT:
                kind = int(ConstraintType.LIMIT_JOINT)
                margin = joints.jnt_margin[worldid % joints.jnt_margin.shape[0], source[1]]
            elif source[0] != JOINT_COUPLING and source[0] != TENDON_COUPLING:
                kind = int(ConstraintType.LIMIT_TENDON)
                margin = joints.tendon_margin[worldid % joints.tendon_margin.shape[0], source[1]]
            row = rows.address[worldid, r]
            mass = 1.0 / wp.max(rows.weight[worldid, r], MIN_INVERSE_MASS)
            store_row(
                out,
                worldid,
                row,
                kind,
                source[1],
                rows.phi[worldid, r] + margin,
                margin,
                mass,
                loss,
                rows.f[worldid, r],
            )
            if row < out.njmax:
                vel = float(0.0)
                for e in range(rows.adr[r], rows.adr[r] + rows.nnz[r]):
                    vel += rows.val[worldid, e] * bodies.qvel[worldid, rows.col[e]]
                out.vel[worldid, row] = vel


@wp.func
def write_equalities(equalities: Equalities, welds: Welds, out: Rows, worldid: int, lane: int, nlane: int):
    """Residuals and forces of connects and welds.

    MuJoCo's rows are of the first body against the second. Those of a turn are half the angle times the weld's scale,
    seen from the second body.
    """
    for k in range(lane, equalities.n, nlane):
        arm = equalities.point[worldid, k] - equalities.anchor[worldid, k]
        f = from_point(equalities.f[worldid, k], arm)
        error = at_point(equalities.error[worldid, k], -arm)
        row = equalities.address[worldid, k]
        active = equalities.active[worldid, k]
        scale = 0.5 * welds.eq_data[worldid % welds.eq_data.shape[0], welds.eqid[k]][10]
        quat = equalities.quat[worldid, k]
        turn = rotate_back(quat, wp.spatial_top(error))
        moment = rotate_back(quat, wp.spatial_top(f))
        kind = int(ConstraintType.EQUALITY)
        for j in range(3):
            mass = 1.0 / wp.max(equalities.weight[worldid, k][j + 3], MIN_INVERSE_MASS)
            if active > 0:
                store_row(out, worldid, row + j, kind, welds.eqid[k], -error[j + 3], 0.0, mass, 0.0, -f[j + 3])
            if active > 3:
                mass = 1.0 / wp.max(scale * scale * equalities.weight[worldid, k][j], MIN_INVERSE_MASS)
                force = -moment[j] / scale
                store_row(out, worldid, row + 3 + j, kind, welds.eqid[k], -scale * turn[j], 0.0, mass, 0.0, force)


@wp.func
def rotate_back(quat: wp.quat, v: wp.vec3) -> wp.vec3:
    """A vector seen from a frame whose quaternion is stored w, x, y, z."""
    q = mul_quat(mul_quat(conjugate(quat), wp.quat(0.0, v[0], v[1], v[2])), quat)
    return wp.vec3(q[1], q[2], q[3])


@wp.func
def write_contacts(contacts: Contacts, work: Work, result: Result, out: Rows, worldid: int, lane: int, nlane: int):
    """Rows of contacts with their forces, in the layout of the model's cone; those without rows may be only near."""
    adr = work.adr[worldid]
    for i in range(adr + lane, adr + work.num[worldid], nlane):
        con = work.con[i]
        dim = contacts.dim[con]
        f = turned(load_force(work.f, i), work.hand[i])
        nrow = contact_rows(contacts, work, result, i)
        near = bool(False)
        if nrow == 0:
            near = is_apart(contacts.gaps, contacts.geom[con], contacts.dist[con], contacts.includemargin[con])
        contacts.type[con] = marked(contacts.type[con], near)
        kind = int(ConstraintType.CONTACT_ELLIPTIC)
        value = vec10(f[0], f[1], f[2], f[3], f[4], f[5], 0.0, 0.0, 0.0, 0.0)
        if dim == 1:
            kind = int(ConstraintType.CONTACT_FRICTIONLESS)
        elif result.cone == int(ConeType.PYRAMIDAL):
            # facets whose sums are the normal force and whose differences are friction; they may be negative
            kind = int(ConstraintType.CONTACT_PYRAMIDAL)
            mu = contacts.friction[con]
            for j in range(5):
                if j < dim - 1:
                    half = 0.5 * f[0] / float(dim - 1)
                    tilt = 0.5 * f[j + 1] / wp.max(mu[j], 1.0e-5)
                    value[2 * j] = half + tilt
                    value[2 * j + 1] = half - tilt
        row = work.matched[i]
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


@wp.kernel
def limit_rows(bodies: Bodies, work: Work, rows: RowSet, joints: Joints, result: Result, out: Rows):
    """The rows of limits alone, without forces, for sensors that read them before forces are known."""
    worldid = wp.tid()
    for i in range(work.v_free.shape[1]):
        work.v_free[worldid, i] = bodies.qvel[worldid, i]
    make_rows(bodies, work, rows, joints, worldid, 0, 1)
    row = int(0)
    for r in range(rows.n):
        rows.f[worldid, r] = 0.0
        rows.weight[worldid, r] = 1.0
        if rows.kind[worldid, r] != LIMIT:
            rows.kind[worldid, r] = 0
        if is_reported(rows, worldid, r):
            rows.address[worldid, r] = row
            row += 1
    result.nl[worldid] = row
    out.nefc[worldid] = row
    write_rows(bodies, rows, joints, out, worldid, 0, 1)
