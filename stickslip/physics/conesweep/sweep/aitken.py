"""Aitken's extrapolation: where two sweeps change a world in the same direction, jump to the estimated limit."""

import warp as wp

from stickslip.physics.conesweep.layout import Equalities, RowSet, Tree, Work
from stickslip.physics.conesweep.pack import FORCE, ROWS, load, load_two, store
from stickslip.physics.conesweep.sweep.sweep import lone_record

wp.set_module_options({"enable_backward": False})

ALIKE = wp.constant(0.8)
"""Least squared cosine between the changes of two sweeps for a jump."""

ASTRAY = wp.constant(0.5)
"""Most of the squared sine between them that a jump may multiply."""


@wp.func
def mark(
    tree: Tree, work: Work, rows: RowSet, equalities: Equalities, is_second: bool, worldid: int, lane: int, nlane: int
):
    """Remember where a sweep starts, the first or the second of two."""
    offset = wp.where(is_second, 3, 0)
    for k in range(lane, 3 * tree.ntree, nlane):
        at = lone_record(tree, worldid, k / 3)
        if at >= 0:
            store(work.mark, at + offset + k % 3, load(work.motion, at + k % 3))
    for k in range(lane, tree.njointed_dof, nlane):
        i = tree.jointed_dof[k]
        if is_second:
            work.v_mark[worldid, i] = work.vx[worldid, i][0]
        else:
            work.v_start[worldid, i] = work.vx[worldid, i][0]
    if is_second:
        adr = work.adr[worldid]
        for i in range(FORCE * adr + lane, FORCE * (adr + work.num[worldid]), nlane):
            store(work.f_mark, i, load(work.f, i))
        for r in range(lane, rows.n, nlane):
            rows.f_mark[worldid, r] = rows.f[worldid, r]
        for k in range(lane, equalities.n, nlane):
            equalities.f_mark[worldid, k] = equalities.f[worldid, k]


@wp.func
def compare(tree: Tree, work: Work, worldid: int, lane: int, nlane: int) -> wp.vec3:
    """Products of the changes of two sweeps: the first with itself, with the second, the second with itself.

    They are of impulse and velocity for lone bodies; for dofs, the diagonal of H^-1 stands for all of it.
    """
    out = wp.vec3()
    for t in range(lane, tree.ntree, nlane):
        b = tree.tree_lone[t]
        if b >= 0:
            at = (worldid * tree.nbody + b) * ROWS
            V0, P0 = load_two(work.mark, at)
            V1, P1 = load_two(work.mark, at + 3)
            V2, P2 = load_two(work.motion, at)
            out += wp.vec3(wp.dot(P1 - P0, V1 - V0), wp.dot(P1 - P0, V2 - V1), wp.dot(P2 - P1, V2 - V1))
    for k in range(lane, tree.njointed_dof, nlane):
        i = tree.jointed_dof[k]
        t = tree.dof_treeid[i]
        row = i - tree.tree_dofadr[t]
        mass = 1.0 / work.inverse[worldid, tree.tree_inverse[t] + row * (tree.tree_width[t] + 1)]
        first = work.v_mark[worldid, i] - work.v_start[worldid, i]
        second = work.vx[worldid, i][0] - work.v_mark[worldid, i]
        out += mass * wp.vec3(first * first, first * second, second * second)
    return out


@wp.func
def jump(
    tree: Tree, work: Work, rows: RowSet, equalities: Equalities, most: float, worldid: int, lane: int, nlane: int
):
    """Where two sweeps change things in the same direction, go to where all further ones would lead (Aitken)."""
    total = wp.vec3()
    for k in range(nlane):
        total += work.partial[worldid, k]
    gain = float(0.0)
    alike = total[1] * total[1] / wp.max(total[0] * total[2], 1.0e-30)
    if total[1] > 0.0 and alike > ALIKE:
        ratio = total[1] / total[0]
        if ratio < 1.0:
            gain = wp.min(ratio / (1.0 - ratio), most)
            gain = wp.min(gain, ASTRAY / wp.max(1.0 - alike, 1.0e-6))  # what is not alike is extrapolated with it
    if gain > 0.0:
        for k in range(lane, 3 * tree.ntree, nlane):
            at = lone_record(tree, worldid, k / 3)
            if at >= 0:
                now = load(work.motion, at + k % 3)
                store(work.motion, at + k % 3, now + gain * (now - load(work.mark, at + 3 + k % 3)))
        for k in range(lane, tree.njointed_dof, nlane):
            i = tree.jointed_dof[k]
            vx = work.vx[worldid, i]
            work.vx[worldid, i] = wp.vec2(vx[0] + gain * (vx[0] - work.v_mark[worldid, i]), vx[1])
        adr = work.adr[worldid]
        for i in range(FORCE * adr + lane, FORCE * (adr + work.num[worldid]), nlane):
            force = load(work.f, i)
            store(work.f, i, force + gain * (force - load(work.f_mark, i)))
        for r in range(lane, rows.n, nlane):
            rows.f[worldid, r] = rows.f[worldid, r] + gain * (rows.f[worldid, r] - rows.f_mark[worldid, r])
        for k in range(lane, equalities.n, nlane):
            equalities.f[worldid, k] = equalities.f[worldid, k] + gain * (
                equalities.f[worldid, k] - equalities.f_mark[worldid, k]
            )
