"""The order of trees in the Hessian: neighbours close together, so that rows are short (Cuthill-McKee, reversed)."""

import warp as wp

from stickslip.physics.convex.layout import Inertia, Tree

wp.set_module_options({"enable_backward": False})


@wp.kernel
def order_trees(tree: Tree, inertia: Inertia):
    """Order the trees of a world, give each dof its place, and lay out the rows of the Hessian."""
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
    while placed < n:
        seed = int(-1)
        for t in range(n):
            if inertia.mark[worldid, t] >= 0 and (seed < 0 or inertia.mark[worldid, t] < inertia.mark[worldid, seed]):
                seed = t
        inertia.order[worldid, placed] = seed
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
                    inertia.mark[worldid, u] = -1 - degree
                    placed += 1

    # places, from the last of the order to the first; mark becomes where a tree starts
    start = int(0)
    for k in range(n):
        t = inertia.order[worldid, n - 1 - k]
        inertia.mark[worldid, t] = start
        start += tree.tree_dofnum[t]
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
