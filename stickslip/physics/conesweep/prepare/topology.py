"""What follows from the model alone: trees and their bodies, rows that can act, connects and welds."""

import itertools
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
import warp as wp

from stickslip.physics.conesweep.layout import FIXED, JOINTED, LONE, Tree
from stickslip.physics.conesweep.pack import RESPONSE
from stickslip.physics.conesweep.prepare.inverse import SMALL_TREE
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


def widest(mjm: mujoco.MjModel, jointed: Sequence[int]) -> int:
    """Most dofs of a jointed tree."""
    return max((int(mjm.tree_dofnum[mjm.body_treeid[b]]) for b in jointed), default=1)


def lone_bodies(mjm: mujoco.MjModel, row_dofs: Sequence[int]) -> list[int]:
    """For each tree the one body that all its dofs move; -1 if there are several, or a row acts on a dof."""
    with_rows = {int(mjm.dof_treeid[i]) for i in row_dofs}
    moved: dict[int, set[int]] = {}
    for i in range(mjm.nv):
        moved.setdefault(int(mjm.dof_treeid[i]), set()).add(int(mjm.body_weldid[mjm.dof_bodyid[i]]))
    return [moved[t].pop() if len(moved[t]) == 1 and t not in with_rows else -1 for t in range(mjm.ntree)]


def jointed_bodies(mjm: mujoco.MjModel, lone: Sequence[int]) -> list[int]:
    """Moving bodies of trees that are not lone."""
    moving = [b for b in range(mjm.nbody) if mjm.body_treeid[b] >= 0 and mjm.body_weldid[b] == b]
    return [b for b in moving if lone[mjm.body_treeid[b]] < 0]


def widths(mjm: mujoco.MjModel, lone: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """Numbers of a row of each tree's inverse; where trees begin in all inverses, and in a row of all; last, the ends.

    Rows of jointed trees and all beginnings are whole records of four numbers.
    """
    widths = [_fours(n) if lone[t] < 0 else int(n) for t, n in enumerate(mjm.tree_dofnum)]
    sizes = [_fours(int(n) * width) for n, width in zip(mjm.tree_dofnum, widths, strict=True)]
    return (
        widths,
        list(itertools.accumulate(sizes, initial=0)),
        list(itertools.accumulate(map(_fours, widths), initial=0)),
    )


def _fours(n: int) -> int:
    """The next multiple of four."""
    return -(-int(n) // 4) * 4


def responses(mjm: mujoco.MjModel, jointed: Sequence[int]) -> int:
    """Rows of the responses of all jointed bodies."""
    return int(RESPONSE) * sum(int(mjm.tree_dofnum[mjm.body_treeid[b]]) for b in jointed)


def _chain(mjm: mujoco.MjModel, body: int) -> list[int]:
    """Dofs that move a body."""
    dofs: list[int] = []
    while body > 0:
        dofs += range(mjm.body_dofadr[body], mjm.body_dofadr[body] + mjm.body_dofnum[body])
        body = int(mjm.body_parentid[body])
    return dofs


def make_tree(mjm: mujoco.MjModel, m: rowfree.Model, row_dofs: Sequence[int]) -> Tree:
    """Bodies, dofs and trees of a model; `row_dofs` are the dofs that rows can act on."""
    lone = lone_bodies(mjm, row_dofs)
    jointed = jointed_bodies(mjm, lone)
    tree = Tree()
    tree.nbody, tree.nv, tree.ntree = mjm.nbody, mjm.nv, mjm.ntree
    tree.body_rootid, tree.body_weldid, tree.body_treeid = m.body_rootid, m.body_weldid, m.body_treeid
    tree.body_subtreenum = m.structure.body_subtreenum
    tree.dof_bodyid, tree.dof_treeid = m.dof_bodyid, m.dof_treeid
    tree.tree_dofadr, tree.tree_dofnum = m.tree_dofadr, m.tree_dofnum
    of_trees, inverse_adr, row_adr = widths(mjm, lone)
    tree.tree_width, tree.tree_inverse, tree.tree_row = ints(of_trees), ints(inverse_adr[:-1]), ints(row_adr[:-1])
    tree.dof_row = ints([row_adr[t] + i - mjm.tree_dofadr[t] for i, t in enumerate(mjm.dof_treeid)])
    tree.tree_lone = ints(lone)
    large = np.flatnonzero(mjm.tree_dofnum > int(SMALL_TREE))
    tree.large, tree.nlarge = ints(large), len(large)
    tree.jointed, tree.njointed = ints(jointed), len(jointed)
    tree.widest = widest(mjm, jointed)
    response = np.zeros(mjm.nbody, dtype=np.int64)
    response[jointed] = np.cumsum([0, *(mjm.tree_dofnum[mjm.body_treeid[b]] for b in jointed)])[: len(jointed)]
    tree.body_response, tree.nresponse = ints(int(RESPONSE) * response), responses(mjm, jointed)
    kind = np.full(mjm.nbody, int(FIXED))
    kind[jointed] = int(JOINTED)
    kind[[body for body in lone if body >= 0]] = int(LONE)
    tree.body_kind = ints(kind)
    chains = [_chain(mjm, b) for b in range(mjm.nbody)]
    tree.chain, tree.chain_adr = ints(flat(chains)), ints(np.cumsum([0, *(len(c) for c in chains)]))
    jointed_dof = [i for i in range(mjm.nv) if lone[mjm.dof_treeid[i]] < 0]
    tree.jointed_dof, tree.njointed_dof = ints(jointed_dof), len(jointed_dof)
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
    return -1 in lone_bodies(mjm, flat(acting))


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
