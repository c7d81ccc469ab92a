"""What runs along the tree: twists of bodies, wrenches on bodies into forces on dofs, and the factor of a matrix."""

import mujoco_warp as mjw
import warp as wp

from stickslip.physics.mjwarp.contact import body_twist
from stickslip.physics.mjwarp.model import Model

wp.set_module_options({"enable_backward": False})


@wp.kernel
def _predict_body_twist(
    # Model:
    opt_timestep: wp.array[float],
    body_weldid: wp.array[int],
    body_dofnum: wp.array[int],
    body_dofadr: wp.array[int],
    dof_parentid: wp.array[int],
    # Data in:
    qvel_in: wp.array2d[float],
    cdof_in: wp.array2d[wp.spatial_vector],
    # In:
    qacc_free_in: wp.array2d[float],
    # Data out:
    ne_out: wp.array[int],
    nf_out: wp.array[int],
    nl_out: wp.array[int],
    nefc_out: wp.array[int],
    # Out:
    twist_out: wp.array2d[wp.spatial_vector],
    wrench_out: wp.array2d[wp.spatial_vector],
):
    """Twist of every body for v + dt qacc; clears the wrenches and all rows."""
    worldid, bodyid = wp.tid()
    if bodyid == 0:
        ne_out[worldid] = 0
        nf_out[worldid] = 0
        nl_out[worldid] = 0
        nefc_out[worldid] = 0
    timestep = opt_timestep[worldid % opt_timestep.shape[0]]
    twist_out[worldid, bodyid] = body_twist(
        body_weldid, body_dofnum, body_dofadr, dof_parentid, cdof_in, qvel_in, qacc_free_in, timestep, worldid, bodyid
    )
    wrench_out[worldid, bodyid] = wp.spatial_vector()


@wp.kernel
def _gather_wrench(
    # Model:
    dof_bodyid: wp.array[int],
    body_subtreenum: wp.array[int],
    # Data in:
    cdof_in: wp.array2d[wp.spatial_vector],
    qfrc_smooth_in: wp.array2d[float],
    # In:
    wrench_in: wp.array2d[wp.spatial_vector],
    qfrc_row_in: wp.array2d[float],
    # Data out:
    qfrc_constraint_out: wp.array2d[float],
    efc_Ma_out: wp.array2d[float],
):
    """Constraint force of a dof: its motion times the wrenches on all bodies it moves, and what acts on it alone."""
    worldid, dofid = wp.tid()
    bodyid = dof_bodyid[dofid]
    wrench = wp.spatial_vector()
    for i in range(body_subtreenum[bodyid]):
        wrench += wrench_in[worldid, bodyid + i]
    qfrc = wp.dot(cdof_in[worldid, dofid], wrench) + qfrc_row_in[worldid, dofid]
    qfrc_constraint_out[worldid, dofid] = qfrc
    efc_Ma_out[worldid, dofid] = qfrc_smooth_in[worldid, dofid] + qfrc


@wp.kernel
def _factor_tree(
    # Model:
    nv: int,
    M_rownnz: wp.array[int],
    M_rowadr: wp.array[int],
    M_colind: wp.array[int],
    # In and out:
    L: wp.array2d[float],
):
    """H = L' D L in place: D on the diagonal, unit L below it."""
    worldid = wp.tid()
    for n in range(nv):
        k = nv - 1 - n
        adr = M_rowadr[k]
        nnz = M_rownnz[k] - 1
        pivot = L[worldid, adr + nnz]
        for a in range(nnz):
            i = nnz - 1 - a
            col = M_colind[adr + i]
            scaled = L[worldid, adr + i] / pivot
            # the row of an ancestor starts with the same columns as this row
            for j in range(i + 1):
                L[worldid, M_rowadr[col] + j] -= scaled * L[worldid, adr + j]
            L[worldid, adr + i] = scaled


def predict_twists(m: Model, d: mjw.Data, qacc_free: wp.array, twist: wp.array, wrench: wp.array) -> None:
    """Fill the twists of all bodies, about their tree's subtree_com; clear their wrenches and the rows."""
    wp.launch(
        _predict_body_twist,
        dim=(d.nworld, m.nbody),
        inputs=[
            m.opt.timestep,
            m.body_weldid,
            m.body_dofnum,
            m.body_dofadr,
            m.dof_parentid,
            d.qvel,
            d.cdof,
            qacc_free,
        ],
        outputs=[d.ne, d.nf, d.nl, d.nefc, twist, wrench],
    )


def gather_forces(m: Model, d: mjw.Data, wrench: wp.array, qfrc_row: wp.array) -> None:
    """qfrc_constraint and efc.Ma from the wrenches on bodies and the forces on dofs."""
    wp.launch(
        _gather_wrench,
        dim=(d.nworld, m.nv),
        inputs=[m.dof_bodyid, m.structure.body_subtreenum, d.cdof, d.qfrc_smooth, wrench, qfrc_row],
        outputs=[d.qfrc_constraint, d.efc.Ma],
    )


def factor_tree(m: Model, d: mjw.Data, H: wp.array) -> wp.array:
    """H = L' D L in the sparse structure of M: row i of L holds the ancestors of dof i, its last entry D."""
    L = wp.clone(H)
    wp.launch(_factor_tree, dim=d.nworld, inputs=[m.nv, m.M_rownnz, m.M_rowadr, m.M_colind], outputs=[L])
    return L
