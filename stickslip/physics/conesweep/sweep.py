"""The sweeps: colour by colour, every pair of bodies resolves its contacts, as if nothing else acted on them."""

import functools

import warp as wp

from stickslip.physics.conesweep.cone import project
from stickslip.physics.conesweep.inertia import TINY, at_point, from_point, is_lone, last_dof
from stickslip.physics.conesweep.layout import COLORS, Bodies, Contacts, Links, RowSet, Settings, Traits, Tree, Work
from stickslip.physics.mjwarp_private import vec5

wp.set_module_options({"enable_backward": False})

LIMIT = wp.constant(1)
EQUALITY = wp.constant(2)
FRICTION = wp.constant(3)

PUSH_OUT = wp.constant(1.0)
"""Fastest that depth is taken out [m/s or rad/s]."""


@wp.func
def contact_wrench(frame: wp.mat33, arm: wp.vec3, f: wp.spatial_vector) -> wp.spatial_vector:
    """Wrench about the pair's point of a contact's normal, tangential, spin and rolling forces."""
    turned = wp.transpose(frame)
    force = turned @ wp.vec3(f[0], f[1], f[2])
    torque = turned @ wp.vec3(f[3], f[4], f[5])
    return wp.spatial_vector(torque + wp.cross(arm, force), force)


@wp.func
def start_pairs(work: Work, worldid: int, lane: int, nlane: int):
    """The wrench of all forces of each pair."""
    adr = work.adr[worldid]
    for p in range(lane, work.npair[worldid], nlane):
        wrench = wp.spatial_vector()
        first = work.first[adr + p]
        for i in range(first, first + work.ncon[adr + p]):
            wrench += contact_wrench(work.frame[i], work.arm[i], work.f[i])
        work.wrench[adr + p] = wrench


@wp.func
def start_rows(rows: RowSet, worldid: int, lane: int, nlane: int):
    """The carried forces of rows are what they do first."""
    for r in range(lane, rows.n, nlane):
        rows.df[worldid, r] = rows.f[worldid, r]


@wp.func
def start_links(links: Links, worldid: int, lane: int, nlane: int):
    """Likewise of links."""
    for k in range(lane, links.n, nlane):
        links.wrench[worldid, k] = links.f[worldid, k]


@wp.func
def cancel(K: wp.spatial_matrix, u: wp.spatial_vector, active: int, passes: int) -> wp.spatial_vector:
    """x with K x = -u in the last `active` directions, one after the other, but for those that cannot give way."""
    x = wp.spatial_vector()
    left = u
    for _run in range(passes):
        for i in range(6):
            if i >= 6 - active and K[i, i] > TINY:
                change = -left[i] / K[i, i]
                x[i] = x[i] + change
                for j in range(6):
                    left[j] = left[j] + K[j, i] * change
    return x


@functools.cache
def resolver(traits: Traits) -> wp.Function:
    """The function that resolves the pairs and links of a colour, for models with these traits."""

    @wp.func
    def resolve_pairs(
        tree: Tree,
        contacts: Contacts,
        bodies: Bodies,
        settings: Settings,
        work: Work,
        links: Links,
        dt: float,
        h: float,
        share: float,
        is_last: bool,
        color: int,
        worldid: int,
        lane: int,
        nlane: int,
    ):
        """Each pair of a colour resolves its contacts, one after the other, there and back; links follow the pairs."""
        adr = work.adr[worldid]
        start = work.color_adr[worldid, color]
        npair = work.color_adr[worldid, color + 1] - start
        link_start = int(0)
        nlink = int(0)
        if wp.static(traits.links):
            link_start = links.color_adr[worldid, color]
            nlink = links.color_adr[worldid, color + 1] - link_start
        for n in range(lane, npair + nlink, nlane):
            p = int(0)
            link = int(-1)
            pair = wp.vec2i()
            point = wp.vec3()
            if n < npair:
                p = work.order[adr + start + n]
                pair = work.bodies[adr + p]
                point = work.point[adr + p]
            elif wp.static(traits.links):
                link = links.order[worldid, link_start + n - npair]
                pair = links.bodies[link]
                point = links.point[worldid, link]
            # relative velocity, and displacement since the start of the step
            U = wp.spatial_vector()
            X = wp.spatial_vector()
            for side in range(2):
                b = pair[side]
                t = tree.body_treeid[b]
                if t >= 0:
                    twist = wp.spatial_vector()
                    shift = wp.spatial_vector()
                    if tree.tree_lone[t] >= 0:
                        twist = work.V[worldid, b]
                        shift = work.X[worldid, b]
                    elif wp.static(traits.jointed):
                        i = last_dof(tree.body_weldid, tree.body_dofnum, tree.body_dofadr, b)
                        while i >= 0:
                            twist += work.v[worldid, i] * bodies.cdof[worldid, i]
                            shift += work.x[worldid, i] * bodies.cdof[worldid, i]
                            i = tree.dof_parentid[i]
                    arm = point - bodies.subtree_com[worldid, tree.body_rootid[b]]
                    sign = float(2 * side - 1)
                    U += sign * at_point(twist, arm)
                    X += sign * at_point(shift, arm)
            wrench = wp.spatial_vector()
            push = wp.spatial_vector()
            if link < 0:
                first = work.first[adr + p]
                count = work.ncon[adr + p]
                for run in range(settings.passes):
                    for k in range(count):
                        i = first + k
                        if run % 2 == 1:
                            i = first + count - 1 - k
                        f = work.f[i]
                        gain = work.gain[i]
                        mu = work.friction[i]
                        # normal: may not close faster than the gap allows
                        J = work.J[i, 0]
                        phi = work.phi[i] + wp.dot(J, X)
                        target = wp.min(-phi / h, 0.0)
                        approach = work.approach[i]
                        if approach != 0.0 and (approach < 0.0 or phi <= h * approach):
                            target = settings.restitution * wp.abs(approach)
                            work.approach[i] = -wp.abs(approach)  # it bounces for the rest of the step
                        normal = wp.max(0.0, f[0] - (wp.dot(J, U) - target) * gain[0])
                        change = normal - f[0]
                        f[0] = normal
                        U += dt * change * work.KJ[i, 0]
                        wrench += change * J
                        # friction: against the slip, within the cone
                        if mu > 0.0:
                            J1 = work.J[i, 1]
                            J2 = work.J[i, 2]
                            f1 = f[1] - wp.dot(J1, U) * gain[1]
                            f2 = f[2] - wp.dot(J2, U) * gain[1]
                            size = f1 * f1 + f2 * f2
                            limit = mu * normal
                            if size > limit * limit:
                                scale = limit / wp.sqrt(size)
                                f1 *= scale
                                f2 *= scale
                            change1 = f1 - f[1]
                            change2 = f2 - f[2]
                            f[1] = f1
                            f[2] = f2
                            U += dt * (change1 * work.KJ[i, 1] + change2 * work.KJ[i, 2])
                            wrench += change1 * J1 + change2 * J2
                        elif wp.static(traits.rough) and mu < 0.0:
                            con = work.con[i]
                            dim = contacts.dim[con]
                            frame = work.frame[i]
                            spin = frame @ wp.spatial_top(U)
                            surface = contacts.surfacevel[con]
                            slip = vec5(
                                wp.dot(work.J[i, 1], U) + surface[0],
                                wp.dot(work.J[i, 2], U) + surface[1],
                                spin[0] + surface[2],
                                spin[1],
                                spin[2],
                            )
                            friction = vec5()
                            for j in range(5):
                                if j < dim - 1:
                                    friction[j] = f[j + 1] - slip[j] * gain[wp.max(1, wp.min(j, 3))]
                            friction = project(
                                friction, normal, dim, contacts.friction[con], wp.vec3(gain[1], gain[2], gain[3])
                            )
                            delta = wp.spatial_vector()
                            for j in range(5):
                                delta[j + 1] = friction[j] - f[j + 1]
                            f += delta
                            for j in range(1, 6):
                                if j < dim:
                                    U += dt * delta[j] * work.KJ[i, j]
                                    wrench += delta[j] * work.J[i, j]
                        work.f[i] = f
                if is_last:
                    # depth is taken out by a displacement of its own, which leaves no velocity behind
                    at = X + h * U
                    moved = wp.spatial_vector()
                    for i in range(first, first + count):
                        J = work.J[i, 0]
                        depth = -(work.phi[i] + wp.dot(J, at) + settings.slop)
                        wanted = wp.min(share * depth, PUSH_OUT * h) - wp.dot(J, moved)
                        if depth > 0.0 and wanted > 0.0:
                            out = wanted * work.gain[i][0] * dt
                            moved += out * work.KJ[i, 0]
                            push += out * J
                work.wrench[adr + p] = wrench
                work.push[adr + p] = push
            elif wp.static(traits.links):
                K = links.K[worldid, link]
                active = links.active[worldid, link]
                impulse = cancel(K, U, active, settings.passes)
                wrench = impulse / dt
                links.f[worldid, link] = links.f[worldid, link] + wrench
                if is_last:
                    error = links.error[worldid, link] + X + h * (U + K @ impulse)
                    for i in range(6):
                        error[i] = wp.clamp(share * error[i], -PUSH_OUT * h, PUSH_OUT * h)
                    push = cancel(K, error, active, settings.passes)
                links.wrench[worldid, link] = wrench
                links.push[worldid, link] = push
            # lone bodies are the pair's own while its colour runs
            if color < COLORS - 1:
                for side in range(2):
                    b = pair[side]
                    if is_lone(tree.body_treeid, tree.tree_lone, b):
                        sign = float(2 * side - 1)
                        arm = point - bodies.subtree_com[worldid, tree.body_rootid[b]]
                        Lam = work.Lam[worldid, b]
                        given = sign * dt * from_point(wrench, arm)
                        work.P[worldid, b] = work.P[worldid, b] + given
                        work.V[worldid, b] = work.V[worldid, b] + Lam @ given
                        if is_last:
                            pushed = sign * from_point(push, arm)
                            work.Px[worldid, b] = work.Px[worldid, b] + pushed
                            work.X[worldid, b] = work.X[worldid, b] + Lam @ pushed

    return resolve_pairs


@wp.func
def resolve_rows(
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
    """Rows on dofs, each within its bounds."""
    for r in range(lane, rows.n, nlane):
        kind = rows.kind[worldid, r]
        df = float(0.0)
        dp = float(0.0)
        weight = rows.weight[worldid, r]
        if kind > 0 and weight > TINY:
            u = float(0.0)
            moved = float(0.0)
            for k in range(rows.adr[r], rows.adr[r] + rows.nnz[r]):
                u += rows.val[worldid, k] * work.v[worldid, rows.col[k]]
                moved += rows.val[worldid, k] * work.x[worldid, rows.col[k]]
            phi = rows.phi[worldid, r] + moved
            target = float(0.0)
            if kind == LIMIT and phi > 0.0:
                target = -phi / h
            old = float(rows.f[worldid, r])
            f = wp.clamp(old - (u - target) / (weight * dt), rows.low[worldid, r], rows.high[worldid, r])
            df = f - old
            rows.f[worldid, r] = f
            if is_last:
                error = phi + h * (u + weight * dt * df)
                if kind == LIMIT:
                    error = wp.min(error + settings.slop, 0.0)
                if kind == FRICTION:
                    error = 0.0
                dp = wp.clamp(-share * error, -PUSH_OUT * h, PUSH_OUT * h) / weight
        rows.df[worldid, r] = df
        rows.dp[worldid, r] = dp


@wp.func
def on_body(
    work: Work,
    links: Links,
    com: wp.vec3,
    link_wrench: wp.array2d[wp.spatial_vector],
    link_push: wp.array2d[wp.spatial_vector],
    is_last: bool,
    color: int,
    worldid: int,
    bodyid: int,
) -> tuple[wp.spatial_vector, wp.spatial_vector]:
    """Wrench and push of the pairs and links of a colour (-1: all) on a body, always added in the same order."""
    adr = work.adr[worldid]
    wrench = wp.spatial_vector()
    push = wp.spatial_vector()
    p = work.head[worldid, bodyid]
    while p >= 0:
        is_second = work.bodies[adr + p][1] == bodyid
        if color < 0 or work.color[adr + p] == color:
            arm = work.point[adr + p] - com
            sign = wp.where(is_second, 1.0, -1.0)
            wrench += sign * from_point(work.wrench[adr + p], arm)
            if is_last:
                push += sign * from_point(work.push[adr + p], arm)
        if is_second:  # noqa: SIM108 - a ternary would read both
            p = work.next2[adr + p]
        else:
            p = work.next1[adr + p]
    for k in range(links.body_num[bodyid]):
        link = links.body_link[links.body_adr[bodyid] + k]
        if links.active[worldid, link] > 0 and (color < 0 or links.color[worldid, link] == color):
            arm = links.point[worldid, link] - com
            sign = wp.where(links.bodies[link][1] == bodyid, 1.0, -1.0)
            wrench += sign * from_point(link_wrench[worldid, link], arm)
            if is_last:
                push += sign * from_point(link_push[worldid, link], arm)
    return wrench, push


@wp.func
def gather(
    tree: Tree,
    bodies: Bodies,
    work: Work,
    links: Links,
    dt: float,
    is_last: bool,
    color: int,
    worldid: int,
    lane: int,
    nlane: int,
):
    """What a colour (-1: all) did to jointed bodies, and to lone bodies that several of its pairs share."""
    nlone = int(0)
    if color < 0 or color == COLORS - 1:
        nlone = tree.ntree
    for k in range(lane, nlone + work.nactive[worldid], nlane):
        b = int(-1)
        if k < nlone:
            b = tree.tree_lone[k]
            if b >= 0:  # noqa: SIM102 - `and` would read with b = -1
                if work.used[worldid, b] == 0:
                    b = -1
        else:
            b = work.active[worldid, k - nlone]
        if b >= 0:
            com = bodies.subtree_com[worldid, tree.body_rootid[b]]
            wrench, push = on_body(work, links, com, links.wrench, links.push, is_last, color, worldid, b)
            if k < nlone:
                Lam = work.Lam[worldid, b]
                work.P[worldid, b] = work.P[worldid, b] + dt * wrench
                work.V[worldid, b] = work.V[worldid, b] + dt * (Lam @ wrench)
                if is_last:
                    work.Px[worldid, b] = work.Px[worldid, b] + push
                    work.X[worldid, b] = work.X[worldid, b] + Lam @ push
            else:
                work.total[worldid, b] = wrench
                work.total_push[worldid, b] = push


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
    for k in range(lane, tree.njointed_dof, nlane):
        i = tree.jointed_dof[k]
        t = tree.dof_treeid[i]
        dofadr = tree.tree_dofadr[t]
        v = float(0.0)
        x = float(0.0)
        for j in range(work.nactive[worldid]):
            b = work.active[worldid, j]
            if tree.body_treeid[b] == t:
                response = work.response[worldid, tree.body_response[b] + i - dofadr]
                v += wp.dot(response, work.total[worldid, b])
                if is_last:
                    x += wp.dot(response, work.total_push[worldid, b])
        if color <= 0:
            row = tree.tree_inverse[t] + (i - dofadr) * tree.tree_dofnum[t]
            for j in range(tree.tree_dofnum[t]):
                v += work.inverse[worldid, row + j] * work.row_force[worldid, dofadr + j]
                if is_last:
                    x += work.inverse[worldid, row + j] * work.row_push[worldid, dofadr + j]
        work.v[worldid, i] = work.v[worldid, i] + dt * v
        if is_last:
            work.x[worldid, i] = work.x[worldid, i] + x


@wp.func
def drift(tree: Tree, work: Work, h: float, worldid: int, lane: int, nlane: int):
    """All that moves goes on for a substep."""
    for t in range(lane, tree.ntree, nlane):
        b = tree.tree_lone[t]
        if b >= 0:
            work.Px[worldid, b] = work.Px[worldid, b] + h * work.P[worldid, b]
            work.X[worldid, b] = work.X[worldid, b] + h * work.V[worldid, b]
    for k in range(lane, tree.njointed_dof, nlane):
        i = tree.jointed_dof[k]
        work.x[worldid, i] = work.x[worldid, i] + h * work.v[worldid, i]
