"""The exact diagonal of equation (10): J H^-1 J' of every contact direction, without Jacobian rows.

H is factored as L' D L along the tree, as Featherstone does for M: row i of L holds the ancestors of
dof i, so the factor has the sparsity of M. A contact walks the two chains of dofs of its bodies and
carries y = L'^-1 J' for its six directions in a scratch slot per dof; then J H^-1 J' = sum y^2 / D.
"""

import mujoco_warp as mjw
import warp as wp

from stickslip.physics.comfree.model import Model
from stickslip.physics.mjwarp.private import vec11
from stickslip.physics.mjwarp.tree import factor_tree

wp.set_module_options({"enable_backward": False})

EXACT_FLOOR = wp.constant(1.0e-2)
"""Least share of the heuristic inverse mass that the exact one may have: it is 0 without compliance."""


@wp.func
def _direction(frame: wp.mat33, arm: wp.vec3, cdof: wp.spatial_vector, sign: float, index: int) -> float:
    """Entry of the Jacobian of contact direction `index` (n, t1, t2, spin, roll 1, roll 2) for one dof."""
    angular = wp.spatial_top(cdof)
    if index < 3:
        linear = wp.spatial_bottom(cdof) + wp.cross(angular, arm)
        return sign * wp.dot(frame[index], linear)
    return sign * wp.dot(frame[index - 3], angular)


@wp.kernel
def _contact_gram(
    # Model:
    body_rootid: wp.array[int],
    body_weldid: wp.array[int],
    body_dofnum: wp.array[int],
    body_dofadr: wp.array[int],
    dof_parentid: wp.array[int],
    geom_bodyid: wp.array[int],
    M_rownnz: wp.array[int],
    M_rowadr: wp.array[int],
    M_colind: wp.array[int],
    dof_depth: wp.array[int],
    maxdepth: int,
    # Data in:
    naconmax_in: int,
    nacon_in: wp.array[int],
    subtree_com_in: wp.array2d[wp.vec3],
    cdof_in: wp.array2d[wp.spatial_vector],
    contact_pos_in: wp.array[wp.vec3],
    contact_frame_in: wp.array[wp.mat33],
    contact_dim_in: wp.array[int],
    contact_geom_in: wp.array[wp.vec2i],
    contact_worldid_in: wp.array[int],
    # In:
    L_in: wp.array2d[float],
    # Out:
    scratch: wp.array3d[float],
    gram_out: wp.array[vec11],
):
    """G_nn, then G_ni and G_ii of the five friction directions, with G = J H^-1 J'."""
    conid = wp.tid()
    if conid >= wp.min(nacon_in[0], naconmax_in):
        return
    worldid = contact_worldid_in[conid]
    geom = contact_geom_in[conid]
    body1 = geom_bodyid[geom[0]]
    body2 = geom_bodyid[geom[1]]
    frame = contact_frame_in[conid]
    arm1 = contact_pos_in[conid] - subtree_com_in[worldid, body_rootid[body1]]
    arm2 = contact_pos_in[conid] - subtree_com_in[worldid, body_rootid[body2]]
    ndir = contact_dim_in[conid]
    weld1 = body_weldid[body1]
    weld2 = body_weldid[body2]
    dof1 = int(-1)
    dof2 = int(-1)
    if body_dofnum[weld1] > 0:
        dof1 = body_dofadr[weld1] + body_dofnum[weld1] - 1
    if body_dofnum[weld2] > 0:
        dof2 = body_dofadr[weld2] + body_dofnum[weld2] - 1

    # slots [0, maxdepth) belong to the second body's chain, [maxdepth, 2 maxdepth) to the first's
    for s in range(2 * maxdepth):
        for c in range(ndir):
            scratch[conid, c, s] = 0.0

    gram = vec11()
    merged = bool(False)
    while dof1 >= 0 or dof2 >= 0:
        dofid = wp.max(dof1, dof2)
        depth = dof_depth[dofid]
        slot = depth
        sign = float(1.0)
        arm = arm2
        if dof1 == dofid and dof2 == dofid:
            sign = 0.0  # a common dof does not change the relative velocity
            if not merged:
                merged = True
                for s in range(depth + 1):
                    for c in range(ndir):
                        scratch[conid, c, s] += scratch[conid, c, maxdepth + s]
        elif dof1 == dofid:
            slot = maxdepth + depth
            sign = -1.0
            arm = arm1

        adr = M_rowadr[dofid]
        nnz = M_rownnz[dofid] - 1
        pivot = L_in[worldid, adr + nnz]
        cdof = cdof_in[worldid, dofid]
        y_n = float(0.0)
        for c in range(ndir):
            y = scratch[conid, c, slot]
            if sign != 0.0:
                y += _direction(frame, arm, cdof, sign, c)
            for i in range(nnz):
                ancestor = slot - depth + dof_depth[M_colind[adr + i]]
                scratch[conid, c, ancestor] -= L_in[worldid, adr + i] * y
            if c == 0:
                y_n = y
                gram[0] += y * y / pivot
            else:
                gram[c] += y_n * y / pivot
                gram[5 + c] += y * y / pivot
        if dof1 == dofid:
            dof1 = dof_parentid[dof1]
        if dof2 == dofid:
            dof2 = dof_parentid[dof2]
    gram_out[conid] = gram


def contact_gram(m: Model, d: mjw.Data, H: wp.array) -> wp.array:
    """G_nn, G_ni, G_ii of every contact for the matrix H (sparse structure of M)."""
    L = factor_tree(m, d, H)
    scratch = wp.empty((d.naconmax, 6, 2 * m.structure.maxdepth), dtype=float)
    gram = wp.empty(d.naconmax, dtype=vec11)
    wp.launch(
        _contact_gram,
        dim=d.naconmax,
        inputs=[
            m.body_rootid,
            m.body_weldid,
            m.body_dofnum,
            m.body_dofadr,
            m.dof_parentid,
            m.geom_bodyid,
            m.M_rownnz,
            m.M_rowadr,
            m.M_colind,
            m.structure.dof_depth,
            m.structure.maxdepth,
            d.naconmax,
            d.nacon,
            d.subtree_com,
            d.cdof,
            d.contact.pos,
            d.contact.frame,
            d.contact.dim,
            d.contact.geom,
            d.contact.worldid,
            L,
        ],
        outputs=[scratch, gram],
    )
    return gram
