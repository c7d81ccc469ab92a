"""ComFree's data back into an mujoco.MjData: forms the contact rows, on the host and for one world only."""

import copy
import dataclasses

import mujoco
import mujoco_warp as mjw
import numpy as np
from numpy.typing import NDArray


@dataclasses.dataclass(frozen=True)
class _HostArray:
    """A NumPy array where MuJoCo Warp expects a device array that it will only call `numpy` on."""

    array: NDArray

    def numpy(self) -> NDArray:
        return self.array


def get_data_into(result: mujoco.MjData, mjm: mujoco.MjModel, d: mjw.Data, world_id: int = 0) -> None:
    """Copy one world into `result`, as `mujoco_warp.get_data_into`, contact rows and their Jacobian included."""
    nefc = min(int(d.nefc.numpy()[world_id]), d.njmax)
    J = np.zeros((nefc, mjm.nv))
    _fill_rows(J, mjm, d, world_id)
    contact_rows = _fill_contacts(J, mjm, d, world_id)

    view = copy.copy(d)
    view.efc = copy.copy(d.efc)

    def of_world(array: NDArray) -> _HostArray:
        return _HostArray(np.broadcast_to(array, (world_id + 1, *array.shape)))

    if d.efc.J_rownnz.shape[1]:  # sparse
        view.efc.J = of_world(J.reshape(1, -1))
        view.efc.J_rownnz = of_world(np.full(nefc, mjm.nv, dtype=np.int32))
        view.efc.J_rowadr = of_world(np.arange(nefc, dtype=np.int32) * mjm.nv)
        view.efc.J_colind = of_world(np.tile(np.arange(mjm.nv, dtype=np.int32), max(nefc, 1))[None])
    else:
        view.efc.J = of_world(J)
    qvel = d.qvel.numpy()[world_id]
    for name, contact_value in (("vel", J[contact_rows] @ qvel), ("aref", 0.0), ("frictionloss", 0.0)):
        values = np.array(getattr(d.efc, name).numpy()[world_id])
        values[contact_rows] = contact_value
        setattr(view.efc, name, of_world(values))
    mjw.get_data_into(result, mjm, view, world_id)


def _fill_rows(J: NDArray, mjm: mujoco.MjModel, d: mjw.Data, world: int) -> None:
    """Rows of equalities, dry friction and limits, which the device has."""
    nrow = min(sum(int(count.numpy()[world]) for count in (d.ne, d.nf, d.nl)), len(J))
    if not d.efc.J_rownnz.shape[1]:
        J[:nrow] = d.efc.J.numpy()[world, :nrow, : mjm.nv]
        return
    nnz, adr = d.efc.J_rownnz.numpy()[world], d.efc.J_rowadr.numpy()[world]
    values, columns = d.efc.J.numpy()[world, 0], d.efc.J_colind.numpy()[world, 0]
    for row in range(nrow):
        entries = slice(adr[row], adr[row] + nnz[row])
        J[row, columns[entries]] = values[entries]


def _fill_contacts(J: NDArray, mjm: mujoco.MjModel, d: mjw.Data, world: int) -> NDArray[np.integer]:
    """Facet rows of the contacts, equation (7); returns their indices."""
    ncon = min(int(d.nacon.numpy()[0]), d.naconmax)
    contact = {
        name: getattr(d.contact, name).numpy()[:ncon]
        for name in ("worldid", "efc_address", "dim", "geom", "pos", "frame", "friction")
    }
    cdof, com = d.cdof.numpy()[world], d.subtree_com.numpy()[world]
    filled = []
    for i in np.flatnonzero((contact["worldid"] == world) & (contact["efc_address"][:, 0] >= 0)):
        body1, body2 = mjm.geom_bodyid[contact["geom"][i]]
        pos, frame, dim = contact["pos"][i], contact["frame"][i], int(contact["dim"][i])
        jac = _body_jacobian(mjm, cdof, com, body2, pos) - _body_jacobian(mjm, cdof, com, body1, pos)
        directions = np.vstack([frame @ jac[:3], frame @ jac[3:]])  # n, t1, t2, spin, roll 1, roll 2
        address = contact["efc_address"][i]
        if dim == 1 or mjm.opt.cone == mujoco.mjtCone.mjCONE_ELLIPTIC:
            rows = address[:dim]
            J[rows] = directions[:dim]
        else:
            rows = address[: 2 * (dim - 1)]
            friction = contact["friction"][i][: dim - 1, None] * directions[1:dim]
            J[rows[0::2]] = directions[0] + friction
            J[rows[1::2]] = directions[0] - friction
        filled.append(rows)
    return np.concatenate(filled) if filled else np.zeros(0, dtype=int)


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
