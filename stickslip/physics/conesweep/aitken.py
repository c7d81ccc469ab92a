"""Aitken's extrapolation: where two sweeps change a world in the same way, go to where all further ones would lead."""

import warp as wp

from stickslip.physics.conesweep.layout import Links, RowSet, Tree, Work

wp.set_module_options({"enable_backward": False})

ALIKE = wp.constant(0.8)
"""Least squared cosine between the changes of two sweeps for a jump."""

ASTRAY = wp.constant(0.5)
"""Most of the squared sine between them that a jump may multiply."""


@wp.func
def mark(tree: Tree, work: Work, rows: RowSet, links: Links, is_second: bool, worldid: int, lane: int, nlane: int):
    """Remember where a sweep starts, the first or the second of two."""
    for t in range(lane, tree.ntree, nlane):
        b = tree.tree_lone[t]
        if b >= 0:
            if is_second:
                work.P_mark[worldid, b] = work.P[worldid, b]
                work.V_mark[worldid, b] = work.V[worldid, b]
            else:
                work.P_start[worldid, b] = work.P[worldid, b]
                work.V_start[worldid, b] = work.V[worldid, b]
    for k in range(lane, tree.njointed_dof, nlane):
        i = tree.jointed_dof[k]
        if is_second:
            work.v_mark[worldid, i] = work.v[worldid, i]
        else:
            work.v_start[worldid, i] = work.v[worldid, i]
    if is_second:
        adr = work.adr[worldid]
        for i in range(adr + lane, adr + work.num[worldid], nlane):
            work.f_mark[i] = work.f[i]
        for r in range(lane, rows.n, nlane):
            rows.f_mark[worldid, r] = rows.f[worldid, r]
        for k in range(lane, links.n, nlane):
            links.f_mark[worldid, k] = links.f[worldid, k]


@wp.func
def compare(tree: Tree, work: Work, worldid: int, lane: int, nlane: int) -> wp.vec3:
    """Products of the changes of two sweeps: the first with itself, with the second, the second with itself.

    They are of impulse and velocity for lone bodies; for dofs, the diagonal of H^-1 stands for all of it.
    """
    out = wp.vec3()
    for t in range(lane, tree.ntree, nlane):
        b = tree.tree_lone[t]
        if b >= 0:
            impulse = work.P_mark[worldid, b] - work.P_start[worldid, b]
            before = work.V_mark[worldid, b] - work.V_start[worldid, b]
            after = work.V[worldid, b] - work.V_mark[worldid, b]
            now = work.P[worldid, b] - work.P_mark[worldid, b]
            out += wp.vec3(wp.dot(impulse, before), wp.dot(impulse, after), wp.dot(now, after))
    for k in range(lane, tree.njointed_dof, nlane):
        i = tree.jointed_dof[k]
        t = tree.dof_treeid[i]
        row = i - tree.tree_dofadr[t]
        mass = 1.0 / work.inverse[worldid, tree.tree_inverse[t] + row * (tree.tree_dofnum[t] + 1)]
        first = work.v_mark[worldid, i] - work.v_start[worldid, i]
        second = work.v[worldid, i] - work.v_mark[worldid, i]
        out += mass * wp.vec3(first * first, first * second, second * second)
    return out


@wp.func
def jump(tree: Tree, work: Work, rows: RowSet, links: Links, most: float, worldid: int, lane: int, nlane: int):
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
        for t in range(lane, tree.ntree, nlane):
            b = tree.tree_lone[t]
            if b >= 0:
                work.V[worldid, b] = work.V[worldid, b] + gain * (work.V[worldid, b] - work.V_mark[worldid, b])
                work.P[worldid, b] = work.P[worldid, b] + gain * (work.P[worldid, b] - work.P_mark[worldid, b])
        for k in range(lane, tree.njointed_dof, nlane):
            i = tree.jointed_dof[k]
            work.v[worldid, i] = work.v[worldid, i] + gain * (work.v[worldid, i] - work.v_mark[worldid, i])
        adr = work.adr[worldid]
        for i in range(adr + lane, adr + work.num[worldid], nlane):
            work.f[i] = work.f[i] + gain * (work.f[i] - work.f_mark[i])
        for r in range(lane, rows.n, nlane):
            rows.f[worldid, r] = rows.f[worldid, r] + gain * (rows.f[worldid, r] - rows.f_mark[worldid, r])
        for k in range(lane, links.n, nlane):
            links.f[worldid, k] = links.f[worldid, k] + gain * (links.f[worldid, k] - links.f_mark[worldid, k])
