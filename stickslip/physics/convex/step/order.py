"""Islands of trees, and the order of trees in the Hessian.

Trees that touch, or that rows hold together, make an island. Within one, neighbours stand close together, so that rows
are short (Cuthill-McKee, reversed).
"""

import warp as wp

from stickslip.physics.convex.step.layout import Inertia, Islands, Law, RowSet, Touch, Tree
from stickslip.physics.mjwarp.lanes import sync

wp.set_module_options({"enable_backward": False})

_OFF = wp.constant(int(Law.OFF))


@wp.kernel
def order_trees(tree: Tree, inertia: Inertia, islands: Islands):
    """Find the islands of a world, order its trees, give each dof its place, and lay out the rows of the Hessian."""
    worldid = wp.tid()
    n = tree.ntree
    # mark: number of neighbours while a tree waits, minus one when it has its place
    for t in range(n):
        degree = int(0)
        for u in range(n):
            if inertia.near[worldid, t, u] != wp.uint8(0):
                degree += 1
        inertia.mark[worldid, t] = degree
    placed = int(0)
    done = int(0)
    num = int(0)
    while placed < n:
        seed = int(-1)
        for t in range(n):
            if inertia.mark[worldid, t] >= 0 and (seed < 0 or inertia.mark[worldid, t] < inertia.mark[worldid, seed]):
                seed = t
        inertia.order[worldid, placed] = seed
        islands.tree[worldid, seed] = num
        inertia.mark[worldid, seed] = -1 - inertia.mark[worldid, seed]
        placed += 1
        while done < placed:
            t = inertia.order[worldid, done]
            done += 1
            begin = placed
            for u in range(n):
                degree = inertia.mark[worldid, u]
                if degree >= 0 and inertia.near[worldid, t, u] != wp.uint8(0):
                    k = placed
                    while k > begin and -1 - inertia.mark[worldid, inertia.order[worldid, k - 1]] > degree:
                        inertia.order[worldid, k] = inertia.order[worldid, k - 1]
                        k -= 1
                    inertia.order[worldid, k] = u
                    islands.tree[worldid, u] = num
                    inertia.mark[worldid, u] = -1 - degree
                    placed += 1
        num += 1
    islands.num[worldid] = num

    # places, from the last of the order to the first; mark becomes where a tree starts
    start = int(0)
    for k in range(n):
        t = inertia.order[worldid, n - 1 - k]
        # islands are numbered as they stand: from the last that was found
        island = num - 1 - islands.tree[worldid, t]
        islands.tree[worldid, t] = island
        if k == 0 or island != islands.tree[worldid, inertia.order[worldid, n - k]]:
            islands.dof_adr[worldid, island] = start
        inertia.mark[worldid, t] = start
        start += tree.tree_dofnum[t]
    islands.dof_adr[worldid, num] = start
    size = int(0)
    for k in range(n):
        t = inertia.order[worldid, n - 1 - k]
        own = inertia.mark[worldid, t]
        first = own
        for u in range(n):
            if inertia.near[worldid, t, u] != wp.uint8(0):
                first = wp.min(first, inertia.mark[worldid, u])
        for i in range(tree.tree_dofnum[t]):
            place = own + i
            inertia.at[worldid, tree.tree_dofadr[t] + i] = place
            islands.dof[worldid, place] = tree.tree_dofadr[t] + i
            inertia.first[worldid, place] = first
            inertia.adr[worldid, place] = size - first
            size += place - first + 1
    inertia.size[worldid] = size
    for t in range(n):
        own = inertia.mark[worldid, t]
        last = own
        for u in range(n):
            begin = inertia.mark[worldid, u]
            if inertia.first[worldid, begin] <= own:
                last = wp.max(last, begin + tree.tree_dofnum[u] - 1)
        for i in range(tree.tree_dofnum[t]):
            inertia.last[worldid, own + i] = last


@wp.func
def contact_island(tree: Tree, touch: Touch, islands: Islands, slot: int, worldid: int) -> int:
    """The island of a contact; one of its bodies may be part of the world."""
    treeid = tree.body_treeid[touch.body1[slot]]
    if treeid < 0:
        treeid = tree.body_treeid[touch.body2[slot]]
    return islands.tree[worldid, treeid]


@wp.kernel
def sort_islands(tree: Tree, inertia: Inertia, rows: RowSet, nlane: int, touch: Touch, islands: Islands):
    """List contacts and acting rows of each island of a world, and the places of the dofs that move a contact."""
    worldid, lane = wp.tid()
    num = islands.num[worldid]
    for k in range(lane, num + 1, nlane):
        islands.contact_adr[worldid, k] = 0
        islands.row_adr[worldid, k] = 0
    sync(nlane)
    # how many each has, one place further on; then where each begins; filling them moves that to where it ends
    adr = touch.adr[worldid]
    for k in range(lane, touch.num[worldid], nlane):
        wp.atomic_add(islands.contact_adr, worldid, contact_island(tree, touch, islands, adr + k, worldid) + 1, 1)
    for r in range(lane, rows.n, nlane):
        if rows.tree[r] >= 0 and rows.law[worldid, r] != _OFF:
            wp.atomic_add(islands.row_adr, worldid, islands.tree[worldid, rows.tree[r]] + 1, 1)
    sync(nlane)
    if lane == 0:
        islands.contact_adr[worldid, 0] = adr
        for k in range(num):
            islands.contact_adr[worldid, k + 1] += islands.contact_adr[worldid, k]
            islands.row_adr[worldid, k + 1] += islands.row_adr[worldid, k]
    sync(nlane)
    for k in range(lane, touch.num[worldid], nlane):
        island = contact_island(tree, touch, islands, adr + k, worldid)
        islands.contact[wp.atomic_add(islands.contact_adr, worldid, island, 1)] = adr + k
        base = (adr + k) * tree.width
        for e in range(touch.ndof[adr + k]):
            touch.at[base + e] = inertia.at[worldid, touch.dof[base + e]]
    for r in range(lane, rows.n, nlane):
        if rows.tree[r] >= 0 and rows.law[worldid, r] != _OFF:
            island = islands.tree[worldid, rows.tree[r]]
            islands.row[worldid, wp.atomic_add(islands.row_adr, worldid, island, 1)] = r
    sync(nlane)
    if lane == 0:
        for k in range(num):
            i = num - 1 - k
            islands.contact_adr[worldid, i + 1] = islands.contact_adr[worldid, i]
            islands.row_adr[worldid, i + 1] = islands.row_adr[worldid, i]
        islands.contact_adr[worldid, 0] = adr
        islands.row_adr[worldid, 0] = 0
