"""Data without a Jacobian back into an mujoco.MjData: forms the rows, on the host and for one world only."""

import copy
import dataclasses

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp
from numpy.typing import NDArray

from stickslip.physics.mjwarp.private import ConstraintType


@dataclasses.dataclass(frozen=True)
class _HostArray:
    """A NumPy array where MuJoCo Warp expects a device array that it will only call `numpy` on."""

    array: NDArray

    def numpy(self) -> NDArray:
        return self.array


def get_data_into(
    result: mujoco.MjData, mjm: mujoco.MjModel, d: mjw.Data, world_id: int = 0, velocity: wp.array | None = None
) -> None:
    """Copy one world into `result`, as `mujoco_warp.get_data_into`, the constraint Jacobian included."""
    nefc = min(int(d.nefc.numpy()[world_id]), d.njmax)
    J = np.zeros((nefc, mjm.nv))
    nrow = _fill_rows(J, mjm, d, world_id, d.qvel if velocity is None else velocity)
    pos, margin = (np.array(getattr(d.efc, name).numpy()[world_id]) for name in ("pos", "margin"))
    _fill_contacts(J, pos, margin, mjm, d, world_id)

    view = copy.copy(d)
    view.efc = copy.copy(d.efc)

    def of_world(array: NDArray) -> _HostArray:
        return _HostArray(np.broadcast_to(array, (world_id + 1, *array.shape)))

    if d.efc.J_colind.shape[1]:  # sparse
        view.efc.J = of_world(J.reshape(1, -1))
        view.efc.J_rownnz = of_world(np.full(nefc, mjm.nv, dtype=np.int32))
        view.efc.J_rowadr = of_world(np.arange(nefc, dtype=np.int32) * mjm.nv)
        view.efc.J_colind = of_world(np.tile(np.arange(mjm.nv, dtype=np.int32), max(nefc, 1))[None])
    else:
        view.efc.J = of_world(J)
    frictionloss = np.array(d.efc.frictionloss.numpy()[world_id])
    frictionloss[nrow:] = 0.0
    vel = np.zeros(d.njmax)
    vel[:nefc] = J @ d.qvel.numpy()[world_id]
    view.efc.vel, view.efc.frictionloss = of_world(vel), of_world(frictionloss)
    view.efc.pos, view.efc.margin = of_world(pos), of_world(margin)
    view.efc.aref = of_world(np.zeros(d.njmax))  # without rows there is no reference acceleration
    view.efc.state = of_world(np.zeros(d.njmax, dtype=np.int32))  # and no solver that has states
    mjw.get_data_into(result, mjm, view, world_id)


def _fill_rows(J: NDArray, mjm: mujoco.MjModel, d: mjw.Data, world: int, velocity: wp.array) -> int:
    """Rows of equalities, dry friction and limits from their kind and id; returns their number."""
    nrow = min(sum(int(count.numpy()[world]) for count in (d.ne, d.nf, d.nl)), len(J))
    kinds, ids = d.efc.type.numpy()[world], d.efc.id.numpy()[world]
    qpos, length = _row_qpos(mjm, d, world, velocity), d.ten_length.numpy()[world]
    tendons = np.zeros((mjm.ntendon, mjm.nv))
    for tendon in range(mjm.ntendon):
        entries = slice(mjm.ten_J_rowadr[tendon], mjm.ten_J_rowadr[tendon] + mjm.ten_J_rownnz[tendon])
        tendons[tendon, mjm.ten_J_colind[entries]] = d.ten_J.numpy()[world, entries]
    row = 0
    while row < nrow:
        kind, index = ConstraintType(kinds[row]), ids[row]
        if kind == ConstraintType.EQUALITY:
            block = _equality_rows(mjm, d, world, index, qpos, tendons)
        elif kind == ConstraintType.FRICTION_DOF:
            block = np.eye(1, mjm.nv, index)
        elif kind == ConstraintType.FRICTION_TENDON:
            block = tendons[index : index + 1]
        elif kind == ConstraintType.LIMIT_TENDON:
            block = _towards(length[index], mjm.tendon_range[index]) * tendons[index : index + 1]
        elif mujoco.mjtJoint(mjm.jnt_type[index]) == mujoco.mjtJoint.mjJNT_BALL:
            axis_angle = np.zeros(3)
            quat = qpos[mjm.jnt_qposadr[index] : mjm.jnt_qposadr[index] + 4].astype(float)
            mujoco.mju_quat2Vel(axis_angle, quat / np.linalg.norm(quat), 1.0)
            block = np.zeros((1, mjm.nv))
            dof = mjm.jnt_dofadr[index]
            block[0, dof : dof + 3] = -axis_angle / np.linalg.norm(axis_angle)
        else:
            sign = _towards(float(qpos[mjm.jnt_qposadr[index]]), mjm.jnt_range[index])
            block = sign * np.eye(1, mjm.nv, mjm.jnt_dofadr[index])
        count = min(len(block), nrow - row)
        J[row : row + count] = block[:count]
        row += len(block)
    return nrow


def _row_qpos(mjm: mujoco.MjModel, d: mjw.Data, world: int, velocity: wp.array) -> NDArray:
    """The positions that the rows belong to: after a step, those before it, found by the kinematics that it left."""
    now = d.qpos.numpy()[world].astype(float)
    before = now.copy()
    mujoco.mj_integratePos(mjm, before, velocity.numpy()[world].astype(float), -mjm.opt.timestep)
    xpos, xmat = d.xpos.numpy()[world], d.xmat.numpy()[world].reshape(-1, 9)
    scratch = mujoco.MjData(mjm)
    scratch.mocap_pos[:], scratch.mocap_quat[:] = d.mocap_pos.numpy()[world], d.mocap_quat.numpy()[world]
    errors = []
    for qpos in (now, before):
        scratch.qpos[:] = qpos
        mujoco.mj_kinematics(mjm, scratch)
        errors.append(np.abs(scratch.xpos - xpos).max() + np.abs(scratch.xmat - xmat).max())
    return now if errors[0] <= errors[1] else before


def _towards(value: float, bounds: NDArray) -> float:
    """+1 at the lower bound, -1 at the upper one: the direction in which a limit pushes."""
    return 1.0 if value - bounds[0] < bounds[1] - value else -1.0


def _equality_rows(mjm: mujoco.MjModel, d: mjw.Data, world: int, eq: int, qpos: NDArray, tendons: NDArray) -> NDArray:
    """Jacobian of one equality constraint: 3 rows (connect), 6 (weld) or 1."""
    kind, data = mujoco.mjtEq(mjm.eq_type[eq]), mjm.eq_data[eq]
    obj1, obj2 = mjm.eq_obj1id[eq], mjm.eq_obj2id[eq]
    if kind in (mujoco.mjtEq.mjEQ_JOINT, mujoco.mjtEq.mjEQ_TENDON):
        if kind == mujoco.mjtEq.mjEQ_JOINT:
            value, rest = qpos[mjm.jnt_qposadr], mjm.qpos0[mjm.jnt_qposadr]
            jac = np.eye(mjm.nv)[mjm.jnt_dofadr]
        else:
            value, rest, jac = d.ten_length.numpy()[world], mjm.tendon_length0, tendons
        if obj2 < 0:
            return jac[obj1 : obj1 + 1]
        slope = np.polynomial.Polynomial(data[:5]).deriv()(value[obj2] - rest[obj2])
        return (jac[obj1] - slope * jac[obj2])[None]

    xpos, xquat, xmat = (getattr(d, name).numpy()[world] for name in ("xpos", "xquat", "xmat"))
    cdof, com = d.cdof.numpy()[world], d.subtree_com.numpy()[world]
    is_weld = kind == mujoco.mjtEq.mjEQ_WELD
    if mujoco.mjtObj(mjm.eq_objtype[eq]) == mujoco.mjtObj.mjOBJ_SITE:
        bodies, points = mjm.site_bodyid[[obj1, obj2]], d.site_xpos.numpy()[world, [obj1, obj2]]
        local = mjm.site_quat[[obj1, obj2]]
    else:
        bodies, anchors = (obj1, obj2), (data[3:6], data[:3]) if is_weld else (data[:3], data[3:6])
        points = [xpos[b] + xmat[b] @ a for b, a in zip(bodies, anchors, strict=True)]
        local = (data[6:10], np.array([1.0, 0.0, 0.0, 0.0]))
    jac = _body_jacobian(mjm, cdof, com, bodies[0], points[0]) - _body_jacobian(mjm, cdof, com, bodies[1], points[1])
    if not is_weld:
        return jac[:3]
    quat1, quat2 = (_mul_quat(xquat[b], q) for b, q in zip(bodies, local, strict=True))
    conj2 = quat2 * (1.0, -1.0, -1.0, -1.0)
    turn = [_mul_quat(_mul_quat(conj2, np.concatenate([[0.0], axis])), quat1)[1:] for axis in np.eye(3)]
    return np.vstack([jac[:3], 0.5 * data[10] * np.stack(turn, axis=1) @ jac[3:]])


def _mul_quat(a: NDArray, b: NDArray) -> NDArray:
    out = np.zeros(4)
    mujoco.mju_mulQuat(out, np.asarray(a, dtype=float), np.asarray(b, dtype=float))
    return out


def _fill_contacts(
    J: NDArray, efc_pos: NDArray, efc_margin: NDArray, mjm: mujoco.MjModel, d: mjw.Data, world: int
) -> None:
    """Rows of the contacts in the layout of the cone, with their distance and margin."""
    ncon = min(int(d.nacon.numpy()[0]), d.naconmax)
    contact = {
        name: getattr(d.contact, name).numpy()[:ncon]
        for name in ("worldid", "efc_address", "dim", "geom", "pos", "frame", "friction", "dist", "includemargin")
    }
    cdof, com = d.cdof.numpy()[world], d.subtree_com.numpy()[world]
    for i in np.flatnonzero((contact["worldid"] == world) & (contact["efc_address"][:, 0] >= 0)):
        body1, body2 = mjm.geom_bodyid[contact["geom"][i]]
        pos, frame, dim = contact["pos"][i], contact["frame"][i], int(contact["dim"][i])
        jac = _body_jacobian(mjm, cdof, com, body2, pos) - _body_jacobian(mjm, cdof, com, body1, pos)
        directions = np.vstack([frame @ jac[:3], frame @ jac[3:]])  # n, t1, t2, spin, roll 1, roll 2
        address = contact["efc_address"][i]
        if dim == 1 or mujoco.mjtCone(mjm.opt.cone) == mujoco.mjtCone.mjCONE_ELLIPTIC:
            rows = address[:dim]
            J[rows] = directions[:dim]
        else:
            rows = address[: 2 * (dim - 1)]
            friction = contact["friction"][i][: dim - 1, None] * directions[1:dim]
            J[rows[0::2]] = directions[0] + friction
            J[rows[1::2]] = directions[0] - friction
        efc_pos[rows], efc_margin[rows] = contact["dist"][i], contact["includemargin"][i]


def _body_jacobian(mjm: mujoco.MjModel, cdof: NDArray, com: NDArray, body: int, pos: NDArray) -> NDArray:
    """Velocity of a point of a body: linear in the first three rows, angular in the last three (6, nv)."""
    jac = np.zeros((6, mjm.nv))
    weld = mjm.body_weldid[body]
    arm = pos - com[mjm.body_rootid[body]]
    dof = mjm.body_dofadr[weld] + mjm.body_dofnum[weld] - 1 if mjm.body_dofnum[weld] else -1
    while dof >= 0:
        angular, linear = cdof[dof, :3], cdof[dof, 3:]
        jac[:3, dof], jac[3:, dof] = linear + np.cross(angular, arm), angular
        dof = mjm.dof_parentid[dof]
    return jac
