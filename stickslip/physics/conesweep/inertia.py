"""How bodies give way: the inverse of the integrator's matrix tree by tree, and what a wrench does to two bodies."""

import warp as wp

from stickslip.physics.conesweep.block import sync
from stickslip.physics.conesweep.layout import Bodies, Contacts, Links, Tree, Work

wp.set_module_options({"enable_backward": False})

SMALL_TREE = wp.constant(8)
"""Most dofs of a tree whose matrix one lane inverts; larger ones are inverted by all lanes together."""

vec6 = wp.types.vector(length=6, dtype=float)

LOCKED = wp.constant(1.0e-4)
"""Share of the inverse mass that two bodies of a tree would have apart, below which they hold each other."""

TINY = wp.constant(1.0e-12)
"""Inverse mass below which a direction cannot give way."""


@wp.struct
class Matrix:
    """The integrator's matrix in MuJoCo Warp's sparse layout."""

    M_rownnz: wp.array[int]
    M_rowadr: wp.array[int]
    M_colind: wp.array[int]
    H: wp.array2d[float]


@wp.func
def expand_row(matrix: Matrix, inverse: wp.array2d[float], worldid: int, dofadr: int, n: int, base: int, row: int):
    """One row of a tree's matrix up to its diagonal, and the column that mirrors it, into dense form."""
    dofid = dofadr + row
    for j in range(row):
        inverse[worldid, base + row * n + j] = 0.0
        inverse[worldid, base + j * n + row] = 0.0
    for k in range(matrix.M_rownnz[dofid]):
        col = matrix.M_colind[matrix.M_rowadr[dofid] + k] - dofadr
        value = matrix.H[worldid, matrix.M_rowadr[dofid] + k]
        inverse[worldid, base + row * n + col] = value
        inverse[worldid, base + col * n + row] = value


@wp.func
def eliminate(inverse: wp.array2d[float], worldid: int, base: int, n: int, k: int, lane: int, nlane: int):
    """Gauss and Jordan's step k on all entries outside of row and column k."""
    pivot = 1.0 / inverse[worldid, base + k * n + k]
    for i in range(lane, n, nlane):
        if i != k:
            row = base + i * n
            factor = inverse[worldid, row + k] * pivot
            for j in range(n):
                if j != k:
                    inverse[worldid, row + j] = inverse[worldid, row + j] - factor * inverse[worldid, base + k * n + j]


@wp.func
def scale_cross(inverse: wp.array2d[float], worldid: int, base: int, n: int, k: int, lane: int, nlane: int):
    """Gauss and Jordan's step k on row and column k, all but the pivot."""
    pivot = 1.0 / inverse[worldid, base + k * n + k]
    for i in range(lane, n, nlane):
        if i != k:
            inverse[worldid, base + k * n + i] = inverse[worldid, base + k * n + i] * pivot
            inverse[worldid, base + i * n + k] = inverse[worldid, base + i * n + k] * -pivot


@wp.func
def invert_six(matrix: Matrix, inverse: wp.array2d[float], worldid: int, dofadr: int, base: int):
    """Six dofs, a free body in most cases: by blocks of three."""
    full = wp.spatial_matrix()
    for row in range(6):
        adr = matrix.M_rowadr[dofadr + row]
        for k in range(matrix.M_rownnz[dofadr + row]):
            col = matrix.M_colind[adr + k] - dofadr
            value = matrix.H[worldid, adr + k]
            for c in range(6):  # constant indices keep the matrix in registers
                if c == col:
                    full[row, c] = value
                    full[c, row] = value
    A = wp.mat33()
    B = wp.mat33()
    C = wp.mat33()
    for r in range(3):
        for c in range(3):
            A[r, c] = full[r, c]
            B[r, c] = full[r, c + 3]
            C[r, c] = full[r + 3, c + 3]
    invA = wp.inverse(A)
    AB = invA @ B
    invS = wp.inverse(C - wp.transpose(B) @ AB)
    off = -1.0 * (AB @ invS)
    top = invA - off @ wp.transpose(AB)
    for r in range(3):
        for c in range(3):
            inverse[worldid, base + r * 6 + c] = top[r, c]
            inverse[worldid, base + r * 6 + c + 3] = off[r, c]
            inverse[worldid, base + (r + 3) * 6 + c] = off[c, r]
            inverse[worldid, base + (r + 3) * 6 + c + 3] = invS[r, c]


@wp.func
def invert_trees(tree: Tree, matrix: Matrix, work: Work, worldid: int, lane: int, nlane: int):
    """Invert H tree by tree, in place. It is positive definite, so there is no pivoting."""
    for t in range(lane, tree.ntree, nlane):
        n = tree.tree_dofnum[t]
        if n == 6:
            invert_six(matrix, work.inverse, worldid, tree.tree_dofadr[t], tree.tree_inverse[t])
        elif n <= SMALL_TREE:
            base = tree.tree_inverse[t]
            for row in range(n):
                expand_row(matrix, work.inverse, worldid, tree.tree_dofadr[t], n, base, row)
            for k in range(n):
                eliminate(work.inverse, worldid, base, n, k, 0, 1)
                scale_cross(work.inverse, worldid, base, n, k, 0, 1)
                work.inverse[worldid, base + k * n + k] = 1.0 / work.inverse[worldid, base + k * n + k]
    for t in range(tree.ntree):
        n = tree.tree_dofnum[t]
        if n > SMALL_TREE:
            base = tree.tree_inverse[t]
            for row in range(lane, n, nlane):
                expand_row(matrix, work.inverse, worldid, tree.tree_dofadr[t], n, base, row)
            sync(nlane)
            for k in range(n):
                eliminate(work.inverse, worldid, base, n, k, lane, nlane)
                sync(nlane)
                scale_cross(work.inverse, worldid, base, n, k, lane, nlane)
                sync(nlane)
                if lane == 0:
                    work.inverse[worldid, base + k * n + k] = 1.0 / work.inverse[worldid, base + k * n + k]
                sync(nlane)


@wp.func
def last_dof(body_weldid: wp.array[int], body_dofnum: wp.array[int], body_dofadr: wp.array[int], bodyid: int) -> int:
    """Last dof of the chain that moves a body; -1 if nothing does."""
    weld = body_weldid[bodyid]
    if body_dofnum[weld] == 0:
        return -1
    return body_dofadr[weld] + body_dofnum[weld] - 1


@wp.func
def at_point(twist: wp.spatial_vector, arm: wp.vec3) -> wp.spatial_vector:
    """A twist seen at `arm` from the point it refers to."""
    angular = wp.spatial_top(twist)
    return wp.spatial_vector(angular, wp.spatial_bottom(twist) + wp.cross(angular, arm))


@wp.func
def from_point(wrench: wp.spatial_vector, arm: wp.vec3) -> wp.spatial_vector:
    """A wrench about the tip of `arm`, seen at where the arm starts."""
    force = wp.spatial_bottom(wrench)
    return wp.spatial_vector(wp.spatial_top(wrench) + wp.cross(arm, force), force)


@wp.func
def is_lone(body_treeid: wp.array[int], tree_lone: wp.array[int], bodyid: int) -> bool:
    """Whether a body moves and is alone in its tree."""
    t = body_treeid[bodyid]
    if t < 0:
        return False
    return tree_lone[t] >= 0


@wp.func
def weigh_bodies(tree: Tree, bodies: Bodies, work: Work, worldid: int, lane: int, nlane: int):
    """Twist of lone bodies per wrench on them, and velocity of dofs per wrench on those jointed bodies that need it."""
    for t in range(lane, tree.ntree, nlane):
        b = tree.tree_lone[t]
        if b >= 0:
            dofadr = tree.tree_dofadr[t]
            n = tree.tree_dofnum[t]
            Lam = wp.spatial_matrix()
            for i in range(n):
                y = wp.spatial_vector()
                for j in range(n):
                    y += work.inverse[worldid, tree.tree_inverse[t] + i * n + j] * bodies.cdof[worldid, dofadr + j]
                Lam += wp.outer(bodies.cdof[worldid, dofadr + i], y)
            work.Lam[worldid, b] = Lam
    for k in range(work.nactive[worldid]):
        b = work.active[worldid, k]
        t = tree.body_treeid[b]
        dofadr = tree.tree_dofadr[t]
        n = tree.tree_dofnum[t]
        for i in range(lane, n, nlane):
            y = wp.spatial_vector()
            j = last_dof(tree.body_weldid, tree.body_dofnum, tree.body_dofadr, b)
            while j >= 0:
                y += work.inverse[worldid, tree.tree_inverse[t] + i * n + j - dofadr] * bodies.cdof[worldid, j]
                j = tree.dof_parentid[j]
            work.response[worldid, tree.body_response[b] + i] = y


@wp.func
def part(
    tree: Tree,
    bodies: Bodies,
    work: Work,
    worldid: int,
    pair: wp.vec2i,
    color: int,
    wrench: wp.spatial_vector,
    point: wp.vec3,
    is_apart: bool,
) -> wp.spatial_vector:
    """Relative twist of two bodies for a wrench between them; a tree's mass is split among what acts on it at once.

    `is_apart` treats two bodies of one tree as if they were not: what is much less than that cannot give way.
    """
    out = wp.spatial_vector()
    for side in range(2):
        moved = pair[side]
        t = tree.body_treeid[moved]
        if t >= 0:
            arm = point - bodies.subtree_com[worldid, tree.body_rootid[moved]]
            acting = from_point(wrench, arm)
            twist = wp.spatial_vector()
            if tree.tree_lone[t] >= 0:
                twist = work.Lam[worldid, moved] @ acting
            else:
                pushed = tree.body_response[moved] - tree.tree_dofadr[t]
                other = tree.body_response[pair[1 - side]] - tree.tree_dofadr[t]
                both = tree.body_treeid[pair[1 - side]] == t and not is_apart  # what acts on the one moves the other
                i = last_dof(tree.body_weldid, tree.body_dofnum, tree.body_dofadr, moved)
                while i >= 0:
                    response = work.response[worldid, pushed + i]
                    if both:
                        response -= work.response[worldid, other + i]
                    twist += wp.dot(response, acting) * bodies.cdof[worldid, i]
                    i = tree.dof_parentid[i]
            out += float(work.count[worldid, t, color]) * at_point(twist, arm)
    return out


@wp.func
def inverse_of(weight: float, timestep: float) -> float:
    if weight <= TINY:
        return 0.0
    return 1.0 / (weight * timestep)


@wp.func
def weigh_contacts(tree: Tree, contacts: Contacts, bodies: Bodies, work: Work, worldid: int, lane: int, nlane: int):
    """Directions of each contact, what they lead to, and the forces that stop them."""
    timestep = bodies.timestep[worldid % bodies.timestep.shape[0]]
    adr = work.adr[worldid]
    for k in range(lane, work.num[worldid], nlane):
        i = adr + k
        p = adr + work.of_pair[i]
        pair = work.bodies[p]
        color = work.color[p]
        point = work.point[p]
        frame = work.frame[i]
        arm = work.arm[i]
        dim = contacts.dim[work.con[i]]
        groups = float(1.0)  # directions that are corrected at once may add up
        if dim > 3:
            groups = wp.where(dim == 4, 2.0, 3.0)
        weight = vec6()
        across = float(0.0)
        ndirection = dim
        if tree.body_treeid[pair[0]] == tree.body_treeid[pair[1]]:
            ndirection = 2 * dim
        n = int(0)
        while n < ndirection:
            d = n
            if n >= dim:
                d = n - dim
            J = wp.spatial_vector()
            if d < 3:
                J = wp.spatial_vector(wp.cross(arm, frame[d]), frame[d])
            else:
                J = wp.spatial_vector(frame[d - 3], wp.vec3())
            twist = part(tree, bodies, work, worldid, pair, color, J, point, n >= dim)
            if n < dim:
                if d == 2:
                    across = wp.dot(work.J[i, 1], twist)
                weight[d] = wp.dot(J, twist)
                work.J[i, d] = J
                work.KJ[i, d] = twist
            elif weight[d] < LOCKED * wp.dot(J, twist):
                weight[d] = 0.0
                across = 0.0
            n += 1
        tangent = 0.5 * (weight[1] + weight[2])
        tangent += wp.sqrt(0.25 * (weight[1] - weight[2]) * (weight[1] - weight[2]) + across * across)
        work.gain[i] = wp.vec4(
            inverse_of(weight[0], timestep),
            inverse_of(groups * tangent, timestep),
            inverse_of(groups * weight[3], timestep),
            inverse_of(groups * (weight[4] + weight[5]), timestep),
        )


@wp.func
def weigh_links(tree: Tree, bodies: Bodies, work: Work, links: Links, worldid: int, lane: int, nlane: int):
    """What a wrench between the two bodies of each link does to them."""
    for k in range(lane, links.n, nlane):
        if links.active[worldid, k] > 0:
            K = wp.spatial_matrix()
            apart = vec6()
            n = int(0)
            while n < 12:
                d = n % 6
                unit = wp.spatial_vector()
                unit[d] = 1.0
                twist = part(
                    tree,
                    bodies,
                    work,
                    worldid,
                    links.bodies[k],
                    links.color[worldid, k],
                    unit,
                    links.point[worldid, k],
                    n >= 6,
                )
                if n >= 6:
                    apart[d] = twist[d]
                else:
                    for r in range(6):
                        K[r, d] = twist[r]
                n += 1
            for d in range(6):
                if K[d, d] < LOCKED * apart[d]:
                    for r in range(6):
                        K[r, d] = 0.0
                        K[d, r] = 0.0
            links.K[worldid, k] = K
