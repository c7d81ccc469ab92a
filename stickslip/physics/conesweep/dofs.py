"""The dofs of jointed trees: what bodies and rows do to them, and how that moves their bodies.

The innermost sums are written in CUDA C++: they run over plain numbers a fixed way apart, and a Warp array works out
the address of each anew.
"""

import warp as wp

from stickslip.physics.conesweep.layout import Bodies, RowSet, Tree, Work
from stickslip.physics.conesweep.pack import ROWS, set_number, store_two

wp.set_module_options({"enable_backward": False})


@wp.func
def gather_rows(tree: Tree, work: Work, rows: RowSet, is_last: bool, worldid: int, lane: int, nlane: int):
    """What rows do to the dofs of jointed trees."""
    for k in range(lane, tree.njointed_dof, nlane):
        i = tree.jointed_dof[k]
        force = float(0.0)
        push = float(0.0)
        for e in range(rows.dof_adr[i], rows.dof_adr[i] + rows.dof_num[i]):
            entry = rows.dof_entry[e]
            if rows.kind[worldid, entry[0]] > 0:
                force += rows.val[worldid, entry[1]] * rows.df[worldid, entry[0]]
                if is_last:
                    push += rows.val[worldid, entry[1]] * rows.dp[worldid, entry[0]]
        work.row_force[worldid, i] = force
        work.row_push[worldid, i] = push


@wp.func_native("""
const float* a = response.data + (size_t)worldid * (response.strides[0] / sizeof(float)) + adr;
float v = 0.0f, x = 0.0f;
#pragma unroll
for (int c = 0; c < 6; ++c) {
    const float number = a[c * n];
    v += number * wrench[c];
    x += number * push[c];
}
return wp::vec_t<2, wp::float32>(v, x);
""")
def moved_by_body(
    response: wp.array2d[float], worldid: int, adr: int, n: int, wrench: wp.spatial_vector, push: wp.spatial_vector
) -> wp.vec2:
    """Velocity and displacement of a dof by what acts on a body; the numbers of its response are n apart."""
    ...


@wp.func_native("""
const float* a = inverse.data + (size_t)worldid * (inverse.strides[0] / sizeof(float)) + column;
const float* f = force.data + (size_t)worldid * (force.strides[0] / sizeof(float)) + dofadr;
const float* p = push.data + (size_t)worldid * (push.strides[0] / sizeof(float)) + dofadr;
float v = 0.0f, x = 0.0f;
for (int j = 0; j < n; ++j) {
    const float number = a[j * n];
    v += number * f[j];
    x += number * p[j];
}
return wp::vec_t<2, wp::float32>(v, x);
""")
def moved_by_rows(
    inverse: wp.array2d[float],
    force: wp.array2d[float],
    push: wp.array2d[float],
    worldid: int,
    column: int,
    dofadr: int,
    n: int,
) -> wp.vec2:
    """Velocity and displacement of a dof by what rows do to all dofs of its tree.

    The inverse is symmetric: a column is a row, but dofs side by side read it in a line.
    """
    ...


@wp.func_native("""
const float* axis = reinterpret_cast<const float*>(reinterpret_cast<const char*>(cdof.data)
    + (size_t)worldid * cdof.strides[0]) + c;
const float* velocity = v.data + (size_t)worldid * (v.strides[0] / sizeof(float));
const float* displacement = x.data + (size_t)worldid * (x.strides[0] / sizeof(float));
float V = 0.0f, X = 0.0f;
for (int j = start; j < end; ++j) {
    const int i = chain.data[j];
    const float number = axis[6 * i];
    V += number * velocity[i];
    X += number * displacement[i];
}
return wp::vec_t<2, wp::float32>(V, X);
""")
def along_chain(
    cdof: wp.array2d[wp.spatial_vector],
    v: wp.array2d[float],
    x: wp.array2d[float],
    chain: wp.array[int],
    start: int,
    end: int,
    worldid: int,
    c: int,
) -> wp.vec2:
    """Number c of the twist and of the displacement of a body, from the dofs that move it."""
    ...


@wp.func
def move_dofs(
    tree: Tree,
    work: Work,
    dt: float,
    is_last: bool,
    color: int,
    worldid: int,
    lane: int,
    nlane: int,
):
    """Dofs of jointed trees, by what acts on the bodies of their tree, and by their rows with the first colour."""
    nactive = work.nactive[worldid]
    for k in range(lane, tree.njointed_dof, nlane):
        i = tree.jointed_dof[k]
        t = tree.dof_treeid[i]
        dofadr = tree.tree_dofadr[t]
        n = tree.tree_dofnum[t]
        moved = wp.vec2()
        for j in range(nactive):
            b = work.active[worldid, j]
            if tree.body_treeid[b] == t:
                adr = tree.body_response[b] + i - dofadr
                push = wp.spatial_vector()
                if is_last:
                    push = work.total_push[worldid, b]
                moved += moved_by_body(work.response, worldid, adr, n, work.total[worldid, b], push)
        if color <= 0:
            column = tree.tree_inverse[t] + i - dofadr
            moved += moved_by_rows(work.inverse, work.row_force, work.row_push, worldid, column, dofadr, n)
        work.v[worldid, i] = work.v[worldid, i] + dt * moved[0]
        if is_last:
            work.x[worldid, i] = work.x[worldid, i] + moved[1]


@wp.func
def move_bodies(tree: Tree, bodies: Bodies, work: Work, is_last: bool, worldid: int, lane: int, nlane: int):
    """Twists of active jointed bodies from their dofs: a lane for each of the six numbers where there are lanes."""
    if nlane == 1:
        for k in range(work.nactive[worldid]):
            b = work.active[worldid, k]
            V = wp.spatial_vector()
            X = wp.spatial_vector()
            for j in range(tree.chain_adr[b], tree.chain_adr[b + 1]):
                i = tree.chain[j]
                V += work.v[worldid, i] * bodies.cdof[worldid, i]
                X += work.x[worldid, i] * bodies.cdof[worldid, i]
            at = (worldid * tree.nbody + b) * ROWS
            store_two(work.motion, at, V, wp.spatial_vector())
            store_two(work.motion, at + 3, X, wp.spatial_vector())
    else:
        for k in range(lane, 6 * work.nactive[worldid], nlane):
            b = work.active[worldid, k / 6]
            c = k % 6
            start = tree.chain_adr[b]
            end = tree.chain_adr[b + 1]
            moved = along_chain(bodies.cdof, work.v, work.x, tree.chain, start, end, worldid, c)
            at = (worldid * tree.nbody + b) * ROWS + c / 4
            set_number(work.motion, at, c % 4, moved[0])
            if is_last:
                set_number(work.motion, at + 3, c % 4, moved[1])
