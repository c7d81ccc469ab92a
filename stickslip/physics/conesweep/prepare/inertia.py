"""Compliance: the response to a wrench of one body, of two bodies relative to each other, and of their contacts."""

import warp as wp

from stickslip.physics.conesweep.layout import FIXED, LONE, Bodies, Contacts, Equalities, Tree, Work
from stickslip.physics.conesweep.pack import (
    PULL,
    RESPONSE,
    ROWS,
    TOUCH,
    TURN,
    load,
    load_blocks,
    load_frame,
    load_position,
    store,
    store_grip,
    store_matrix,
    store_pull,
    xyz,
)

wp.set_module_options({"enable_backward": False})

LOCKED = wp.constant(1.0e-4)
"""Share of the inverse mass that two bodies of a tree would have apart, below which they hold each other."""

ROUNDING = wp.constant(1.0e-6)
"""Share of a direction's inverse mass that is no more than rounding when the other directions are held."""

TINY = wp.constant(1.0e-12)
"""Inverse mass below which a direction counts as held."""


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


@wp.func_native("""
struct alignas(8) Two { float x, y; };
const Two* const axes = reinterpret_cast<const Two*>(reinterpret_cast<const char*>(cdof.data)
    + (size_t)worldid * cdof.strides[0]);
const float* const numbers = inverse.data + (size_t)worldid * (inverse.strides[0] / sizeof(float)) + column;
wp::vec_t<6, wp::float32> out;
#pragma unroll 2
for (int j = start; j < end; ++j) {
    const int i = chain.data[j];
    const float number = numbers[i * width];
    const Two a = axes[3 * i], b = axes[3 * i + 1], c = axes[3 * i + 2];
    out[0] += number * a.x; out[1] += number * a.y; out[2] += number * b.x;
    out[3] += number * b.y; out[4] += number * c.x; out[5] += number * c.y;
}
return out;
""")
def pulled_by(
    cdof: wp.array2d[wp.spatial_vector],
    inverse: wp.array2d[float],
    chain: wp.array[int],
    start: int,
    end: int,
    worldid: int,
    column: int,
    width: int,
) -> wp.spatial_vector:
    """Velocity of a dof per wrench on a body that a chain of dofs moves; numbers of its column are a width apart."""
    ...


@wp.func
def weigh_bodies(tree: Tree, bodies: Bodies, work: Work, worldid: int, lane: int, nlane: int):
    """Twist of lone bodies per wrench on them, and velocity of dofs per wrench on those jointed bodies that need it."""
    for t in range(lane, tree.ntree, nlane):
        b = tree.tree_lone[t]
        if b >= 0:
            dofadr = tree.tree_dofadr[t]
            n = tree.tree_dofnum[t]
            row = tree.tree_inverse[t]
            Lam = wp.spatial_matrix()
            for i in range(n):
                y = wp.spatial_vector()
                for j in range(n):
                    y += work.inverse[worldid, row + j] * bodies.cdof[worldid, dofadr + j]
                Lam += wp.outer(bodies.cdof[worldid, dofadr + i], y)
                row += tree.tree_width[t]
            com = bodies.subtree_com[worldid, tree.body_rootid[b]]
            store_matrix(work.Lam, (worldid * tree.nbody + b) * ROWS, Lam, com)
    for k in range(lane, work.nactive[worldid] * tree.widest, nlane):
        b = work.active[worldid, k / tree.widest]
        i = k % tree.widest
        t = tree.body_treeid[b]
        if i < tree.tree_dofnum[t]:
            start = tree.chain_adr[b]
            end = tree.chain_adr[b + 1]
            width = tree.tree_width[t]
            column = tree.tree_inverse[t] + i - tree.tree_dofadr[t] * width
            y = pulled_by(bodies.cdof, work.inverse, tree.chain, start, end, worldid, column, width)
            at = worldid * tree.nresponse + tree.body_response[b] + i * RESPONSE
            store(work.response, at, wp.vec4(y[0], y[1], y[2], y[3]))
            store(work.response, at + 1, wp.vec4(y[4], y[5], 0.0, 0.0))
        if i == 0:
            com = bodies.subtree_com[worldid, tree.body_rootid[b]]
            store(work.Lam, (worldid * tree.nbody + b) * ROWS + 5, wp.vec4(0.0, com[0], com[1], com[2]))


@wp.func(inline=True)
def response_of(response: wp.array[wp.vec4], at: int) -> wp.spatial_vector:
    """Velocity of a dof per wrench on a body."""
    a = load(response, at)
    b = load(response, at + 1)
    return wp.spatial_vector(a[0], a[1], a[2], a[3], b[0], b[1])


@wp.func
def give_way(
    tree: Tree, bodies: Bodies, work: Work, worldid: int, pair: wp.vec2i, color: int, point: wp.vec3, is_apart: bool
) -> tuple[wp.mat33, wp.mat33, wp.mat33]:
    """Relative twist of two bodies per wrench between them at a point, by blocks: upper left, upper right, lower right.

    A tree's mass is split among what acts on it at once. `is_apart` treats two bodies of one tree as if they were not:
    a direction much below that counts as held.
    """
    A = wp.mat33()
    B = wp.mat33()
    D = wp.mat33()
    for side in range(2):
        moved = pair[side]
        kind = tree.body_kind[moved]
        if kind != FIXED:
            t = tree.body_treeid[moved]
            at = (worldid * tree.nbody + moved) * ROWS
            a = wp.mat33()
            b = wp.mat33()
            d = wp.mat33()
            if kind == LONE:
                a, b, d = load_blocks(work.Lam, at)
            else:
                start = worldid * tree.nresponse - tree.tree_dofadr[t] * RESPONSE
                pushed = start + tree.body_response[moved]
                other = start + tree.body_response[pair[1 - side]]
                both = tree.body_treeid[pair[1 - side]] == t and not is_apart  # what acts on the one moves the other
                for k in range(tree.chain_adr[moved], tree.chain_adr[moved + 1]):
                    i = tree.chain[k]
                    response = response_of(work.response, pushed + i * RESPONSE)
                    if both:
                        response -= response_of(work.response, other + i * RESPONSE)
                    cdof = bodies.cdof[worldid, i]
                    a += wp.outer(wp.spatial_top(cdof), wp.spatial_top(response))
                    b += wp.outer(wp.spatial_top(cdof), wp.spatial_bottom(response))
                    d += wp.outer(wp.spatial_bottom(cdof), wp.spatial_bottom(response))
            cross = wp.skew(point - load_position(work.Lam, at))
            # seen at the point; the lower left is the upper right's transpose
            at_right = b + a @ cross
            share = float(work.count[worldid, t, color])
            A += share * a
            B += share * at_right
            D += share * (d + wp.transpose(b) @ cross - cross @ at_right)
    return A, B, D


@wp.func
def full_matrix(A: wp.mat33, B: wp.mat33, D: wp.mat33) -> wp.spatial_matrix:
    """A symmetric matrix from its blocks."""
    m = wp.spatial_matrix()
    for r in range(3):
        for c in range(3):
            m[r, c] = 0.5 * (A[r, c] + A[c, r])
            m[r, c + 3] = B[r, c]
            m[c + 3, r] = B[r, c]
            m[r + 3, c + 3] = 0.5 * (D[r, c] + D[c, r])
    return m


@wp.func
def root_of(K: wp.spatial_matrix) -> wp.spatial_matrix:
    """Lower triangular L with L L' = K; columns of directions without compliance are zero."""
    L = wp.spatial_matrix()
    for c in range(6):
        pivot = K[c, c]
        for k in range(6):
            if k < c:
                pivot -= L[c, k] * L[c, k]
        if pivot > wp.max(ROUNDING * K[c, c], TINY):
            diagonal = wp.sqrt(pivot)
            L[c, c] = diagonal
            for r in range(6):
                if r > c:
                    value = K[r, c]
                    for k in range(6):
                        if k < c:
                            value -= L[r, k] * L[c, k]
                    L[r, c] = value / diagonal
    return L


@wp.func
def inverse_of(weight: float, timestep: float) -> float:
    if weight <= TINY:
        return 0.0
    return 1.0 / (weight * timestep)


@wp.func(inline=True)
def pull_of(
    L: wp.spatial_matrix, apart: wp.spatial_matrix, is_one_tree: bool, J: wp.spatial_vector
) -> tuple[wp.spatial_vector, float]:
    """What a force along J changes where both bodies are equally compliant, and its inverse mass; 0 if held."""
    z = wp.transpose(L) @ J
    weight = wp.dot(z, z)
    if is_one_tree and weight < LOCKED * wp.dot(J, apart @ J):
        weight = 0.0
    return z, weight


@wp.func
def weigh_pairs(tree: Tree, contacts: Contacts, bodies: Bodies, work: Work, worldid: int, lane: int, nlane: int):
    """The relative compliance of the two bodies of each pair, and the forces that stop its contacts."""
    timestep = bodies.timestep[worldid % bodies.timestep.shape[0]]
    adr = work.adr[worldid]
    for k in range(lane, work.npair[worldid], nlane):
        p = adr + k
        pair = work.bodies[p]
        color = work.color[p]
        point = xyz(load(work.point, p))
        A, B, D = give_way(tree, bodies, work, worldid, pair, color, point, False)
        L = root_of(full_matrix(A, B, D))
        is_one_tree = tree.body_treeid[pair[0]] == tree.body_treeid[pair[1]]
        apart = wp.spatial_matrix()
        if is_one_tree:
            A, B, D = give_way(tree, bodies, work, worldid, pair, color, point, True)
            apart = full_matrix(A, B, D)
        for i in range(work.first[p], work.first[p] + work.ncon[p]):
            frame = load_frame(work.touch, i)
            arm = xyz(load(work.touch, i * TOUCH + 2))
            dim = contacts.dim[work.con[i]]
            groups = float(1.0)  # directions that are corrected at once may add up
            if dim > 3:
                groups = wp.where(dim == 4, 2.0, 3.0)
            z0, w0 = pull_of(L, apart, is_one_tree, wp.spatial_vector(wp.cross(arm, frame[0]), frame[0]))
            z1, w1 = pull_of(L, apart, is_one_tree, wp.spatial_vector(wp.cross(arm, frame[1]), frame[1]))
            z2, w2 = pull_of(L, apart, is_one_tree, wp.spatial_vector(wp.cross(arm, frame[2]), frame[2]))
            across = float(0.0)
            if w1 > 0.0 and w2 > 0.0:
                across = wp.dot(z1, z2)
            tangent = 0.5 * (w1 + w2)
            tangent += wp.sqrt(0.25 * (w1 - w2) * (w1 - w2) + across * across)
            gain = wp.vec2(inverse_of(w0, timestep), inverse_of(groups * tangent, timestep))
            store_pull(work.pull, i * PULL, z0, z1, z2, gain)
            if load(work.touch, i * TOUCH + 1)[3] < 0.0:
                con = work.con[i]
                z0, w3 = pull_of(L, apart, is_one_tree, wp.spatial_vector(frame[0], wp.vec3()))
                z1, w4 = pull_of(L, apart, is_one_tree, wp.spatial_vector(frame[1], wp.vec3()))
                z2, w5 = pull_of(L, apart, is_one_tree, wp.spatial_vector(frame[2], wp.vec3()))
                gain = wp.vec2(inverse_of(groups * w3, timestep), inverse_of(groups * (w4 + w5), timestep))
                store_pull(work.turn, i * TURN, z0, z1, z2, gain)
                surface = contacts.surfacevel[con]
                surface = wp.vec3(surface[0], work.hand[i] * surface[1], surface[2])
                store_grip(work.turn, i, contacts.friction[con], surface, dim)


@wp.func
def weigh_equalities(
    tree: Tree, bodies: Bodies, work: Work, equalities: Equalities, worldid: int, lane: int, nlane: int
):
    """What a wrench between the two bodies of each equality does to them."""
    for k in range(lane, equalities.n, nlane):
        if equalities.active[worldid, k] > 0:
            pair = equalities.bodies[k]
            color = equalities.color[worldid, k]
            point = equalities.point[worldid, k]
            A, B, D = give_way(tree, bodies, work, worldid, pair, color, point, False)
            K = full_matrix(A, B, D)
            A, B, D = give_way(tree, bodies, work, worldid, pair, color, point, True)
            apart = full_matrix(A, B, D)
            for d in range(6):
                if K[d, d] < LOCKED * apart[d, d]:
                    for r in range(6):
                        K[r, d] = 0.0
                        K[d, r] = 0.0
            equalities.K[worldid, k] = K
