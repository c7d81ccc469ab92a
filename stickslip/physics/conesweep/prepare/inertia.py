"""Compliance: the response to a wrench of one body, of two bodies relative to each other, and of their contacts."""

import warp as wp

from stickslip.physics.conesweep.layout import COLORS, FIXED, Bodies, Contacts, Tree, Work
from stickslip.physics.conesweep.pack import (
    PULL,
    ROWS,
    TOUCH,
    TURN,
    load,
    load_blocks,
    load_frame,
    load_position,
    load_six_of_world,
    store_full,
    store_grip,
    store_matrix,
    store_pull,
    store_two,
    xyz,
)
from stickslip.physics.conesweep.prepare.inverse import Matrix, invert_six

wp.set_module_options({"enable_backward": False})

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


@wp.func
def start_bodies(tree: Tree, bodies: Bodies, matrix: Matrix, work: Work, worldid: int, lane: int, nlane: int):
    """Free bodies: their twist per wrench on them. They move without constraints, and nothing has acted yet."""
    for t in range(lane, tree.ntree, nlane):
        b = tree.tree_lone[t]
        dofadr = tree.tree_dofadr[t]
        twist = wp.spatial_vector()
        for j in range(6):
            twist += work.v_free[worldid, dofadr + j] * load_six_of_world(bodies.cdof, worldid, dofadr + j)
        at = (worldid * tree.nbody + b) * ROWS
        store_two(work.motion, at, twist, wp.spatial_vector())
        store_two(work.motion, at + 3, wp.spatial_vector(), wp.spatial_vector())
        inverse = invert_six(matrix, worldid, dofadr)
        store_full(work.inverse, worldid * tree.ntree + t, inverse)
        Lam = wp.spatial_matrix()
        for i in range(6):
            y = wp.spatial_vector()
            for j in range(6):
                y += inverse[i, j] * load_six_of_world(bodies.cdof, worldid, dofadr + j)
            Lam += wp.outer(load_six_of_world(bodies.cdof, worldid, dofadr + i), y)
        store_matrix(work.Lam, at, Lam, bodies.subtree_com[worldid, tree.body_rootid[b]])
        work.head[worldid, b] = -1
        work.used[worldid, b] = 0
        work.crowd[worldid, t] = 0


@wp.func
def give_way(
    tree: Tree, work: Work, worldid: int, pair: wp.vec2i, color: int, point: wp.vec3
) -> tuple[wp.mat33, wp.mat33, wp.mat33]:
    """Relative twist of two bodies per wrench between them at a point, by blocks: upper left, upper right, lower right.

    A body's mass is split among what acts on it at once.
    """
    A = wp.mat33()
    B = wp.mat33()
    D = wp.mat33()
    for side in range(2):
        moved = pair[side]
        if tree.body_kind[moved] != FIXED:
            at = (worldid * tree.nbody + moved) * ROWS
            a, b, d = load_blocks(work.Lam, at)
            cross = wp.skew(point - load_position(work.Lam, at))
            # seen at the point; the lower left is the upper right's transpose
            at_right = b + a @ cross
            share = float(1.0)
            if color == COLORS - 1:
                share = float(work.crowd[worldid, tree.body_treeid[moved]])
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
def pull_of(L: wp.spatial_matrix, J: wp.spatial_vector) -> tuple[wp.spatial_vector, float]:
    """What a force along J changes where both bodies are equally compliant, and its inverse mass."""
    z = wp.transpose(L) @ J
    return z, wp.dot(z, z)


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
        A, B, D = give_way(tree, work, worldid, pair, color, point)
        L = root_of(full_matrix(A, B, D))
        for i in range(work.first[p], work.first[p] + work.ncon[p]):
            frame = load_frame(work.touch, i)
            arm = xyz(load(work.touch, i * TOUCH + 2))
            dim = contacts.dim[work.con[i]]
            groups = float(1.0)  # directions that are corrected at once may add up
            if dim > 3:
                groups = wp.where(dim == 4, 2.0, 3.0)
            z0, w0 = pull_of(L, wp.spatial_vector(wp.cross(arm, frame[0]), frame[0]))
            z1, w1 = pull_of(L, wp.spatial_vector(wp.cross(arm, frame[1]), frame[1]))
            z2, w2 = pull_of(L, wp.spatial_vector(wp.cross(arm, frame[2]), frame[2]))
            across = float(0.0)
            if w1 > 0.0 and w2 > 0.0:
                across = wp.dot(z1, z2)
            tangent = 0.5 * (w1 + w2)
            tangent += wp.sqrt(0.25 * (w1 - w2) * (w1 - w2) + across * across)
            gain = wp.vec2(inverse_of(w0, timestep), inverse_of(groups * tangent, timestep))
            store_pull(work.pull, i * PULL, z0, z1, z2, gain)
            if load(work.touch, i * TOUCH + 1)[3] < 0.0:
                con = work.con[i]
                z0, w3 = pull_of(L, wp.spatial_vector(frame[0], wp.vec3()))
                z1, w4 = pull_of(L, wp.spatial_vector(frame[1], wp.vec3()))
                z2, w5 = pull_of(L, wp.spatial_vector(frame[2], wp.vec3()))
                gain = wp.vec2(inverse_of(groups * w3, timestep), inverse_of(groups * (w4 + w5), timestep))
                store_pull(work.turn, i * TURN, z0, z1, z2, gain)
                surface = contacts.surfacevel[con]
                surface = wp.vec3(surface[0], work.hand[i] * surface[1], surface[2])
                store_grip(work.turn, i, contacts.friction[con], surface, dim)
