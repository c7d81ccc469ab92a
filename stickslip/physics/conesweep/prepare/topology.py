"""What follows from the model alone: trees and their bodies, rows that can act, connects and welds."""

from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
import warp as wp

from stickslip.physics.conesweep.layout import FIXED, LINKED, LONE, Tree
from stickslip.physics.conesweep.prepare.rows import (
    BALL_LIMIT,
    JOINT_COUPLING,
    JOINT_FRICTION,
    JOINT_LIMIT,
    TENDON_COUPLING,
    TENDON_FRICTION,
    TENDON_LIMIT,
)
from stickslip.physics.mjwarp import model as rowfree
from stickslip.physics.mjwarp.friction import friction_dofs


def ints(values: object) -> wp.array:
    return wp.array(np.asarray(values, dtype=np.int32), dtype=int)


def vec2i(values: object) -> wp.array:
    return wp.array(np.asarray(values, dtype=np.int32).reshape(-1, 2), dtype=wp.vec2i)


def flat(lists: Sequence[Sequence[int]]) -> list[int]:
    return [value for values in lists for value in values]


def is_coupled(mjm: mujoco.MjModel, row_dofs: Sequence[int]) -> bool:
    """Whether there is more than free bodies: trees of several bodies, rows on dofs, connects or welds."""
    moved: dict[int, set[int]] = {}
    for i in range(mjm.nv):
        moved.setdefault(int(mjm.dof_treeid[i]), set()).add(int(mjm.body_weldid[mjm.dof_bodyid[i]]))
    return bool(len(row_dofs) or equalities_of_model(mjm)[0] or any(len(bodies) > 1 for bodies in moved.values()))


def _chain(mjm: mujoco.MjModel, body: int) -> list[int]:
    """Dofs that move a body."""
    dofs: list[int] = []
    while body > 0:
        dofs += range(mjm.body_dofadr[body], mjm.body_dofadr[body] + mjm.body_dofnum[body])
        body = int(mjm.body_parentid[body])
    return dofs


def chains_of(mjm: mujoco.MjModel) -> list[list[int]]:
    """Dofs that move each body."""
    return [_chain(mjm, body) for body in range(mjm.nbody)]


def make_tree(mjm: mujoco.MjModel, m: rowfree.Model) -> Tree:
    """Bodies, dofs and trees of a model."""
    tree = Tree()
    tree.nbody, tree.nv, tree.ntree = mjm.nbody, mjm.nv, mjm.ntree
    tree.body_rootid, tree.body_weldid, tree.body_treeid = m.body_rootid, m.body_weldid, m.body_treeid
    tree.dof_treeid, tree.tree_dofadr = m.dof_treeid, m.tree_dofadr
    moved = np.unique(mjm.body_weldid[mjm.dof_bodyid])
    bodies_of_tree = np.bincount(mjm.body_treeid[moved], minlength=mjm.ntree)
    kind = np.full(mjm.nbody, int(FIXED))
    kind[moved] = np.where(bodies_of_tree[mjm.body_treeid[moved]] > 1, int(LINKED), int(LONE))
    tree.body_kind = ints(kind)
    tree.tree_lone = ints(mjm.body_weldid[mjm.dof_bodyid[mjm.tree_dofadr]])
    chains = chains_of(mjm)
    tree.chain, tree.chain_adr = ints(flat(chains)), ints(np.cumsum([0, *(len(c) for c in chains)]))
    local: list[int] = []
    seen: dict[int, int] = {}
    for body in mjm.body_weldid[mjm.geom_bodyid]:
        local.append(seen.get(int(body), 0))
        seen[int(body)] = local[-1] + 1
    tree.geom_bodyid, tree.geom_local, tree.maxgeom = m.geom_bodyid, ints(local), max(seen.values(), default=1)
    return tree


def rows_of_model(mjm: mujoco.MjModel) -> tuple[list[tuple[int, int]], list[list[int]]]:
    """Every row that can ever act, in MuJoCo's order: its kind and id, and the dofs it acts on.

    Dry friction can be given to dofs and tendons that have none in the model: see `friction_dofs`.
    """
    tendon_dofs = [
        mjm.ten_J_colind[mjm.ten_J_rowadr[t] : mjm.ten_J_rowadr[t] + mjm.ten_J_rownnz[t]].tolist()
        for t in range(mjm.ntendon)
    ]
    joint_dofs = [[int(dof)] for dof in mjm.jnt_dofadr]
    rows: list[tuple[Any, Any, list[int]]] = []
    for kind, source, dofs in (
        (mujoco.mjtEq.mjEQ_JOINT, JOINT_COUPLING, joint_dofs),
        (mujoco.mjtEq.mjEQ_TENDON, TENDON_COUPLING, tendon_dofs),
    ):
        for eq in np.flatnonzero(mjm.eq_type == int(kind)):
            second = mjm.eq_obj2id[eq]
            rows.append((source, eq, dofs[mjm.eq_obj1id[eq]] + (dofs[second] if second >= 0 else [])))
    rows += [(JOINT_FRICTION, i, [int(i)]) for i in friction_dofs(mjm)]
    rows += [(TENDON_FRICTION, t, dofs) for t, dofs in enumerate(tendon_dofs) if dofs]
    for j in np.flatnonzero(mjm.jnt_limited):
        if mjm.jnt_type[j] == int(mujoco.mjtJoint.mjJNT_BALL):
            rows.append((BALL_LIMIT, j, [int(mjm.jnt_dofadr[j]) + k for k in range(3)]))
        elif mjm.jnt_type[j] != int(mujoco.mjtJoint.mjJNT_FREE):
            rows.append((JOINT_LIMIT, j, joint_dofs[j]))
    rows += [(TENDON_LIMIT, t, tendon_dofs[t]) for t in np.flatnonzero(mjm.tendon_limited)]
    return [(int(kind), int(id)) for kind, id, _ in rows], [dofs for _, _, dofs in rows]


def is_linked(mjm: mujoco.MjModel, sources: Sequence[tuple[int, int]], columns: Sequence[Sequence[int]]) -> bool:
    """Whether the model has trees of several bodies, or rows on dofs other than those of friction that is 0."""
    loss = {int(JOINT_FRICTION): mjm.dof_frictionloss, int(TENDON_FRICTION): mjm.tendon_frictionloss}
    acting = [
        dofs
        for (kind, index), dofs in zip(sources, columns, strict=True)
        if kind not in loss or loss[kind][index] > 0.0
    ]
    return is_coupled(mjm, flat(acting))


def equalities_of_model(mjm: mujoco.MjModel) -> tuple[list[int], list[tuple[int, int]]]:
    """Connects and then welds, each with the two bodies it holds together."""
    eqid, pairs = [], []
    for kind in (mujoco.mjtEq.mjEQ_CONNECT, mujoco.mjtEq.mjEQ_WELD):
        for eq in np.flatnonzero(mjm.eq_type == int(kind)):
            first, second = int(mjm.eq_obj1id[eq]), int(mjm.eq_obj2id[eq])
            if mjm.eq_objtype[eq] == int(mujoco.mjtObj.mjOBJ_SITE):
                first, second = int(mjm.site_bodyid[first]), int(mjm.site_bodyid[second])
            eqid.append(int(eq))
            pairs.append((int(mjm.body_weldid[first]), int(mjm.body_weldid[second])))
    return eqid, pairs
