"""The dofs of jointed trees: rows on them, what bodies and rows do to them, and how they move their bodies.

The innermost sums are written in CUDA C++: they run over plain numbers at a fixed stride, and a Warp array recomputes
the address of each.
"""

import functools

import warp as wp

from stickslip.physics.conesweep.layout import (
    COLORS,
    FRICTION,
    JOINTED,
    LIMIT,
    Bodies,
    Equalities,
    RowSet,
    Settings,
    Traits,
    Tree,
    Work,
)
from stickslip.physics.conesweep.pack import ROWS, load, load_given, load_plan, load_position, unpack_plan, xyz
from stickslip.physics.conesweep.prepare.inertia import TINY, from_point
from stickslip.physics.conesweep.sweep.settle import PUSH_OUT, vec12

wp.set_module_options({"enable_backward": False})

SHARE = wp.constant(6)
"""Dofs that a lane moves at once, so that it reads what acts on them only once, and does not wait for one number after
the other."""

Each = wp.types.vector(length=int(SHARE), dtype=int)
Moved = wp.types.vector(length=2 * int(SHARE), dtype=float)


@wp.func
def start_rows(rows: RowSet, worldid: int, lane: int, nlane: int):
    """The first change of each row's force is its warm start."""
    for r in range(lane, rows.n, nlane):
        rows.df[worldid, r] = rows.f[worldid, r]
        rows.dp[worldid, r] = 0.0


@wp.func
def resolve_row(
    settings: Settings,
    rows: RowSet,
    u: float,
    moved: float,
    dt: float,
    h: float,
    share: float,
    is_last: bool,
    worldid: int,
    r: int,
) -> wp.vec2:
    """A row on dofs, within its bounds, given its velocity and displacement: the changes of its force and push."""
    terms = load(rows.terms, worldid * rows.n + r)
    weight = terms[3]
    if weight <= TINY:
        return wp.vec2()
    kind = rows.kind[worldid, r]
    phi = terms[0] + moved
    target = float(0.0)
    if kind == LIMIT and phi > 0.0:
        target = -phi / h
    old = rows.f[worldid, r]
    f = wp.clamp(old - (u - target) / (weight * dt), terms[1], terms[2])
    rows.f[worldid, r] = f
    push = float(0.0)
    if is_last:
        error = phi + h * (u + weight * dt * (f - old))
        if kind == LIMIT:
            error = wp.min(error + settings.slop, 0.0)
        if kind == FRICTION:
            error = 0.0
        push = wp.clamp(-share * error, -PUSH_OUT * h, PUSH_OUT * h) / weight
    return wp.vec2(f - old, push)


@wp.func
def resolve_rows(
    tree: Tree,
    settings: Settings,
    work: Work,
    rows: RowSet,
    dt: float,
    h: float,
    share: float,
    is_last: bool,
    worldid: int,
    lane: int,
    nlane: int,
):
    """Rows on dofs: those on one alone dof by dof, so that what they do to it is known at once, then the others."""
    for k in range(lane, tree.njointed_dof, nlane):
        i = tree.jointed_dof[k]
        vx = work.vx[worldid, i]
        force = wp.vec2()
        adr = rows.dof_adr[i]
        for e in range(adr, adr + rows.dof_single[i]):
            entry = rows.dof_entry[e]
            val = rows.val[worldid, entry[1]]
            force += val * resolve_row(
                settings, rows, val * vx[0], val * vx[1], dt, h, share, is_last, worldid, entry[0]
            )
        work.row_force[worldid, tree.dof_row[i]] = force
    for k in range(lane, rows.nwide, nlane):
        r = rows.wide[k]
        if rows.kind[worldid, r] > 0:
            u = wp.vec2()
            for e in range(rows.adr[r], rows.adr[r] + rows.nnz[r]):
                u += rows.val[worldid, e] * work.vx[worldid, rows.col[e]]
            change = resolve_row(settings, rows, u[0], u[1], dt, h, share, is_last, worldid, r)
            rows.df[worldid, r] = change[0]
            rows.dp[worldid, r] = change[1]


@wp.func
def rows_on(rows: RowSet, worldid: int, start: int, end: int) -> wp.vec2:
    """What some entries of a dof do to it."""
    force = wp.vec2()
    for e in range(start, end):
        entry = rows.dof_entry[e]
        if rows.kind[worldid, entry[0]] > 0:
            val = rows.val[worldid, entry[1]]
            force += val * wp.vec2(rows.df[worldid, entry[0]], rows.dp[worldid, entry[0]])
    return force


@wp.func
def gather_rows(tree: Tree, work: Work, rows: RowSet, worldid: int, lane: int, nlane: int):
    """What rows do to the dofs of jointed trees."""
    for k in range(lane, tree.njointed_dof, nlane):
        i = tree.jointed_dof[k]
        adr = rows.dof_adr[i]
        work.row_force[worldid, tree.dof_row[i]] = rows_on(rows, worldid, adr, adr + rows.dof_num[i])


@wp.func
def gather_wide_rows(tree: Tree, work: Work, rows: RowSet, worldid: int, lane: int, nlane: int):
    """What rows on several dofs add to what those on one alone do."""
    for k in range(lane, rows.nmixed, nlane):
        i = rows.mixed[k]
        adr = rows.dof_adr[i]
        at = tree.dof_row[i]
        more = rows_on(rows, worldid, adr + rows.dof_single[i], adr + rows.dof_num[i])
        work.row_force[worldid, at] = work.row_force[worldid, at] + more


@wp.func_native(
    """
struct alignas(16) Four { float x, y, z, w; };
wp::vec_t<SIZE2, wp::float32> out = moved;
#pragma unroll
for (int k = 0; k < SIZE; ++k) {
    if (treeid[k] != t) continue;
    const Four* const record = reinterpret_cast<const Four*>(response.data) + at + 2 * place[k];
    const Four a = record[0], b = record[1];
    out[k] += a.x * w[0] + a.y * w[1] + a.z * w[2] + a.w * w[3] + b.x * w[4] + b.y * w[5];
    out[SIZE + k] += a.x * p[0] + a.y * p[1] + a.z * p[2] + a.w * p[3] + b.x * p[4] + b.y * p[5];
}
return out;
""".replace("SIZE2", str(2 * int(SHARE))).replace("SIZE", str(int(SHARE)))
)
def moved_by_body(
    moved: Moved,
    response: wp.array[wp.vec4],
    at: int,
    t: int,
    treeid: Each,
    place: Each,
    w: wp.spatial_vector,
    p: wp.spatial_vector,
) -> Moved:
    """Add what the wrench w and the push p on a body of tree t do to the velocity and displacement of dofs."""
    ...


@wp.func_native(
    """
struct alignas(16) Four { float x, y, z, w; };
const float* const numbers = inverse.data + (size_t)worldid * (inverse.strides[0] / sizeof(float));
const float* const forces = reinterpret_cast<const float*>(force.data)
    + (size_t)worldid * (force.strides[0] / sizeof(float));
wp::vec_t<SIZE2, wp::float32> out = moved;
int blocks = 0;
for (int k = 0; k < SIZE; ++k) blocks = wp::max(blocks, width[k] / 4);
for (int j = 0; j < blocks; ++j) {
    #pragma unroll
    for (int k = 0; k < SIZE; ++k) {
        if (4 * j >= width[k]) continue;
        const Four a = reinterpret_cast<const Four*>(numbers + row[k])[j];
        const Four f = reinterpret_cast<const Four*>(forces + 2 * adr[k])[2 * j];
        const Four g = reinterpret_cast<const Four*>(forces + 2 * adr[k])[2 * j + 1];
        out[k] += a.x * f.x + a.y * f.z + a.z * g.x + a.w * g.z;
        out[SIZE + k] += a.x * f.y + a.y * f.w + a.z * g.y + a.w * g.w;
    }
}
return out;
""".replace("SIZE2", str(2 * int(SHARE))).replace("SIZE", str(int(SHARE)))
)
def moved_by_rows(
    moved: Moved,
    inverse: wp.array2d[float],
    force: wp.array2d[wp.vec2],
    worldid: int,
    row: Each,
    adr: Each,
    width: Each,
) -> Moved:
    """Add what rows on all dofs of their trees do to the velocity and displacement of dofs.

    Args:
        moved: what it is added to: velocities, then displacements
        inverse: H^-1 tree by tree
        force: what rows do to dofs
        worldid: world
        row: where the row of each dof begins in the inverse
        adr: where its tree begins in `force`
        width: numbers of a row, a multiple of four; 0: there is no such dof

    Returns:
        the sum
    """
    ...


@wp.func_native("""
struct alignas(8) Two { float x, y; };
const Two* const axes = reinterpret_cast<const Two*>(reinterpret_cast<const char*>(cdof.data)
    + (size_t)worldid * cdof.strides[0]);
const Two* const moves = reinterpret_cast<const Two*>(reinterpret_cast<const char*>(vx.data)
    + (size_t)worldid * vx.strides[0]);
wp::vec_t<12, wp::float32> out;
#pragma unroll 2
for (int j = start; j < end; ++j) {
    const int i = chain.data[j];
    const Two a = axes[3 * i], b = axes[3 * i + 1], c = axes[3 * i + 2], m = moves[i];
    out[0] += m.x * a.x; out[1] += m.x * a.y; out[2] += m.x * b.x;
    out[3] += m.x * b.y; out[4] += m.x * c.x; out[5] += m.x * c.y;
    out[6] += m.y * a.x; out[7] += m.y * a.y; out[8] += m.y * b.x;
    out[9] += m.y * b.y; out[10] += m.y * c.x; out[11] += m.y * c.y;
}
return out;
""")
def along_chain(
    cdof: wp.array2d[wp.spatial_vector],
    vx: wp.array2d[wp.vec2],
    chain: wp.array[int],
    start: int,
    end: int,
    worldid: int,
) -> vec12:
    """Twist of a body and its displacement since the start of the step, from the dofs that move it."""
    ...


@wp.func
def motion_of(
    tree: Tree, bodies: Bodies, work: Work, worldid: int, b: int
) -> tuple[wp.spatial_vector, wp.spatial_vector]:
    """Twist of a jointed body, and its displacement since the start of the step."""
    both = along_chain(bodies.cdof, work.vx, tree.chain, tree.chain_adr[b], tree.chain_adr[b + 1], worldid)
    return (
        wp.spatial_vector(both[0], both[1], both[2], both[3], both[4], both[5]),
        wp.spatial_vector(both[6], both[7], both[8], both[9], both[10], both[11]),
    )


@functools.cache
def mover(traits: Traits) -> wp.Function:
    """The function that moves dofs, for models with these traits."""

    @wp.func
    def move_dofs(
        tree: Tree,
        work: Work,
        equalities: Equalities,
        rows_act: bool,
        dt: float,
        is_last: bool,
        color: int,
        worldid: int,
        lane: int,
        nlane: int,
    ):
        """Dofs of jointed trees, by the pairs and equalities of a colour (-1: all), and by rows with the first."""
        adr = work.adr[worldid]
        start = int(0)
        end = work.npair[worldid]
        equality_start = int(0)
        equality_end = int(0)
        if wp.static(traits.equalities):
            equality_end = equalities.color_adr[worldid, COLORS]
        if color >= 0:
            start = work.color_adr[worldid, color]
            end = work.color_adr[worldid, color + 1]
            if wp.static(traits.equalities):
                equality_start = equalities.color_adr[worldid, color]
                equality_end = equalities.color_adr[worldid, color + 1]
        npair = end - start
        for first in range(lane, tree.njointed_dof, SHARE * nlane):
            dof = Each()
            treeid = Each()
            place = Each()
            for k in range(SHARE):
                treeid[k] = -1
                if first + k * nlane < tree.njointed_dof:
                    i = tree.jointed_dof[first + k * nlane]
                    t = tree.dof_treeid[i]
                    dof[k] = i
                    treeid[k] = t
                    place[k] = i - tree.tree_dofadr[t]
            moved = Moved()
            for n in range(npair + equality_end - equality_start):
                pair = wp.vec2i()
                kind = wp.vec2i()
                point = wp.vec3()
                wrench = wp.spatial_vector()
                push = wp.spatial_vector()
                if n < npair:
                    index, _first, pair, kind, _form, _count = unpack_plan(load_plan(work.plan, adr + start + n))
                    point = xyz(load(work.point, index))
                    wrench, push = load_given(work.given, index)
                elif wp.static(traits.equalities):
                    equality = equalities.order[worldid, equality_start + n - npair]
                    pair = equalities.bodies[equality]
                    kind = wp.vec2i(tree.body_kind[pair[0]], tree.body_kind[pair[1]])
                    point = equalities.point[worldid, equality]
                    wrench = equalities.wrench[worldid, equality]
                    push = equalities.push[worldid, equality]
                for side in range(2):
                    if kind[side] == JOINTED:
                        b = pair[side]
                        at = worldid * tree.nresponse + tree.body_response[b]
                        arm = point - load_position(work.Lam, (worldid * tree.nbody + b) * ROWS)
                        sign = float(2 * side - 1)
                        w = sign * from_point(wrench, arm)
                        p = sign * from_point(push, arm)
                        moved = moved_by_body(moved, work.response, at, tree.body_treeid[b], treeid, place, w, p)
            if wp.static(traits.rows) and color <= 0 and rows_act:
                row = Each()
                force_adr = Each()
                width = Each()
                for k in range(SHARE):
                    t = treeid[k]
                    if t >= 0:
                        width[k] = tree.tree_width[t]
                        row[k] = tree.tree_inverse[t] + place[k] * width[k]
                        force_adr[k] = tree.tree_row[t]
                moved = moved_by_rows(moved, work.inverse, work.row_force, worldid, row, force_adr, width)
            for k in range(SHARE):
                if treeid[k] >= 0:
                    i = dof[k]
                    x = wp.where(is_last, moved[SHARE + k], 0.0)
                    work.vx[worldid, i] = work.vx[worldid, i] + wp.vec2(dt * moved[k], x)

    return move_dofs
