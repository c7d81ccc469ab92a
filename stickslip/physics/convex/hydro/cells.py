"""Contact surface of two flat geoms (plane, box, hull): convex polygons with a linear pressure, exact.

Where face i of A and face j of B are the smallest pieces, the surface is the plane ``p_Ai = p_Bj``. A square of it is
clipped by ``p_Ai <= p_Ak``, ``p_Bj <= p_Bl`` and ``p >= level``. If A is rigid, the plane is its face i, and the clips
are ``e_Ak >= 0``; likewise for B. Ahead of touch ``level = min(0, p_max - margin g)``, g being the steepest gradient;
a cell that holds both signs is cut at p = 0.

Quadrature: a cell of half of the force or more gets a fan about its centroid with 3 points on each triangle; one of
more than a hundredth three points with its second moment; a smaller one its centroid. Cells of less than 1e-4 of the
force go to the largest.
"""

import warp as wp

from stickslip.physics.convex.hydro.fields import (
    ONE,
    ZERO,
    Fields,
    Side,
    compliance_of,
    real,
    slope,
    steepest,
    vec4,
)
from stickslip.physics.convex.hydro.points import (
    CELLS,
    CORNERS,
    Blend,
    Pairs,
    Patch,
    Patches,
    Sink,
    Sums,
    add_point,
    begin_patch,
    end_patch,
    reserve,
)
from stickslip.physics.convex.step.lanes import lane_max
from stickslip.physics.mjwarp.lanes import sum_all, sum_before, sync

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

MOST_CORNERS = wp.constant(32)
"""Most corners of a cell; beyond, the shortest edge is merged."""
MOST_CELLS = wp.constant(128)
"""Most cells of a patch that are not empty."""
_BOTH = 2 * 33
_ON = wp.constant(wp.float64(1.0e-12))
"""Distance within which a corner is on the line of a clip, m: no corner twice."""
_SMALL = wp.constant(wp.float64(1.0e-4))
_FEW = wp.constant(wp.float64(0.01))
_MANY = wp.constant(wp.float64(0.5))
_BACK = wp.constant(wp.float64(-0.3826834323650898))
"""Cosine of 5 pi/8: faces that look farther away from the normal are left out, as in Drake."""
_PARALLEL = wp.constant(wp.float64(1.0e-9))
_NONE = wp.constant(wp.float64(-1.0e300))


@wp.struct
class Cell:
    """The plane of a cell, with coordinates.

    Attributes:
        exists: whether it does
        a, b: gradients and bases of the two pressures (of a rigid geom: of its extent)
        p: the pressure in the cell
        normal: into A
        o, u, v: origin and axes of the plane
    """

    exists: bool
    a: vec4
    b: vec4
    p: vec4
    normal: wp.vec3d
    o: wp.vec3d
    u: wp.vec3d
    v: wp.vec3d


@wp.struct
class Shape:
    """A polygon: where it is in the buffer, its corners, and whether some were merged."""

    at: int
    n: int
    merged: int


@wp.func
def linear(face: wp.array[vec4], s: Side, k: int) -> vec4:
    """Piece k of the pressure of a flat geom, ``gradient . x + base``."""
    f = face[s.adr + k]
    g = -(s.scale / s.depth) * (s.rot * slope(f))
    return vec4(g[0], g[1], g[2], s.scale / s.depth * f[3] - wp.dot(g, s.pos))


@wp.func
def make_cell(face: wp.array[vec4], a: Side, b: Side, i: int, j: int, centre: wp.vec3d, reach: wp.float64) -> Cell:
    """The plane of faces i and j, about the foot of the centre; none where it is farther than the reach."""
    cell = Cell()
    cell.exists = False
    cell.a = linear(face, a, i)
    cell.b = linear(face, b, j)
    w = vec4()
    if not b.rigid:
        w += cell.a
    if not a.rigid:
        w -= cell.b
    norm = wp.length(slope(w))
    if norm <= _PARALLEL * (wp.length(slope(cell.a)) + wp.length(slope(cell.b))) and not (a.rigid or b.rigid):
        return cell
    n = slope(w) / norm
    away = (wp.dot(slope(w), centre) + w[3]) / norm
    if wp.abs(away) > reach:
        return cell
    if not a.rigid and wp.dot(slope(cell.a), n) <= _BACK * wp.length(slope(cell.a)):
        return cell
    if not b.rigid and -wp.dot(slope(cell.b), n) <= _BACK * wp.length(slope(cell.b)):
        return cell
    cell.exists = True
    cell.normal = n
    cell.o = centre - away * n
    first = wp.vec3d(ONE, ZERO, ZERO)
    if wp.abs(n[1]) < wp.abs(n[0]):
        first = wp.vec3d(ZERO, ONE, ZERO)
    if wp.abs(n[2]) < wp.min(wp.abs(n[0]), wp.abs(n[1])):
        first = wp.vec3d(ZERO, ZERO, ONE)
    cell.u = wp.normalize(wp.cross(n, first))
    cell.v = wp.cross(n, cell.u)
    cell.p = cell.b
    if b.rigid:
        cell.p = cell.a
    return cell


@wp.func
def in_plane(cell: Cell, f: vec4) -> wp.vec3d:
    """A linear function in the coordinates of the plane: two slopes and a base."""
    g = slope(f)
    return wp.vec3d(wp.dot(g, cell.u), wp.dot(g, cell.v), wp.dot(g, cell.o) + f[3])


@wp.func
def value_at(line: wp.vec3d, x: wp.vec2d) -> wp.float64:
    return line[0] * x[0] + line[1] * x[1] + line[2]


@wp.func
def clip(poly: wp.array[wp.vec2d], shape: Shape, line: wp.vec3d) -> Shape:
    """The part of a polygon where a linear function is not negative, in the other half of the buffer if it changed."""
    out = shape
    on = _ON * wp.sqrt(line[0] * line[0] + line[1] * line[1])
    inside = int(0)
    for i in range(shape.n):
        if value_at(line, poly[shape.at + i]) >= -on:
            inside += 1
    if inside == shape.n:
        return out
    if inside == 0:
        out.n = 0
        return out
    if shape.n == MOST_CORNERS:
        merge_edge(poly, shape)
        out.n = shape.n - 1
        out.merged = 1
    to = (MOST_CORNERS + 1) - shape.at
    n = int(0)
    x = poly[out.at + out.n - 1]
    vx = value_at(line, x)
    for i in range(out.n):
        y = poly[out.at + i]
        vy = value_at(line, y)
        if (vx > on and vy < -on) or (vx < -on and vy > on):
            poly[to + n] = x + vx / (vx - vy) * (y - x)
            n += 1
        if vy >= -on:
            poly[to + n] = y
            n += 1
        x = y
        vx = vy
    out.at = to
    out.n = n
    return out


@wp.func
def merge_edge(poly: wp.array[wp.vec2d], shape: Shape):
    """Replace the shortest edge by its middle."""
    best = int(0)
    least = real(1.0e300)
    for i in range(shape.n):
        j = wp.where(i + 1 == shape.n, 0, i + 1)
        length = wp.length_sq(poly[shape.at + j] - poly[shape.at + i])
        if length < least:
            least = length
            best = i
    after = wp.where(best + 1 == shape.n, 0, best + 1)
    poly[shape.at + best] = real(0.5) * (poly[shape.at + best] + poly[shape.at + after])
    if after == 0:
        poly[shape.at] = poly[shape.at + best]
    else:
        for i in range(after, shape.n - 1):
            poly[shape.at + i] = poly[shape.at + i + 1]


@wp.func
def whole(
    face: wp.array[vec4],
    a: Side,
    b: Side,
    cell: Cell,
    i: int,
    j: int,
    reach: wp.float64,
    floor: wp.float64,
    poly: wp.array[wp.vec2d],
) -> Shape:
    """The cell where its pressure is at least `floor`."""
    shape = Shape()
    shape.at = 0
    shape.merged = 0
    shape.n = 4
    poly[0] = wp.vec2d(reach, reach)
    poly[1] = wp.vec2d(-reach, reach)
    poly[2] = wp.vec2d(-reach, -reach)
    poly[3] = wp.vec2d(reach, -reach)
    shape = clip(poly, shape, in_plane(cell, cell.p) - wp.vec3d(ZERO, ZERO, floor))
    for k in range(a.num):
        if k != i and shape.n > 0:
            f = linear(face, a, k)
            if not a.rigid:
                f -= cell.a
            shape = clip(poly, shape, in_plane(cell, f))
    for k in range(b.num):
        if k != j and shape.n > 0:
            f = linear(face, b, k)
            if not b.rigid:
                f -= cell.b
            shape = clip(poly, shape, in_plane(cell, f))
    return shape


@wp.func
def part_of(poly: wp.array[wp.vec2d], shape: Shape, line: wp.vec3d, level: wp.float64, is_open: bool) -> Shape:
    """The pressed part of a polygon, p >= 0, or the open one, level <= p <= 0."""
    if is_open:
        return clip(poly, clip(poly, shape, line - wp.vec3d(ZERO, ZERO, level)), -line)
    return clip(poly, shape, line)


@wp.func
def measure(poly: wp.array[wp.vec2d], shape: Shape) -> wp.vec3d:
    """Area and centroid, by a fan about the mean of the corners: no cancellation far from the origin."""
    middle = wp.vec2d()
    for i in range(shape.n):
        middle += poly[shape.at + i]
    middle = middle / real(shape.n)
    area = real(0.0)
    moment = wp.vec2d()
    for i in range(shape.n):
        x = poly[shape.at + i] - middle
        y = poly[shape.at + wp.where(i + 1 == shape.n, 0, i + 1)] - middle
        one = real(0.5) * (x[0] * y[1] - x[1] * y[0])
        area += one
        moment += one / real(3.0) * (x + y)
    if wp.abs(area) < real(1.0e-300):
        return wp.vec3d(ZERO, middle[0], middle[1])
    return wp.vec3d(wp.abs(area), middle[0] + moment[0] / area, middle[1] + moment[1] / area)


@wp.func
def cell_point(
    patches: Patches,
    sink: Sink,
    patch: Patch,
    sums: Sums,
    cell: Cell,
    line: wp.vec3d,
    slot: int,
    weight: wp.float64,
    x: wp.vec2d,
) -> Sums:
    return add_point(
        patches,
        sink,
        patch,
        sums,
        slot,
        weight,
        cell.o + x[0] * cell.u + x[1] * cell.v,
        cell.normal,
        value_at(line, x),
        compliance_of(patch.a, slope(cell.a), cell.normal),
        compliance_of(patch.b, -slope(cell.b), cell.normal),
    )


@wp.func
def points_of(force: wp.float64, total: wp.float64, corners: wp.float64) -> int:
    """Number of points of a cell, by its share of the force."""
    share = wp.abs(force) / wp.max(total, real(1.0e-300))
    if share < _FEW:
        return 1
    if share < _MANY:
        return 3
    return 3 * int(corners)


@wp.func
def add_cell(
    patches: Patches,
    sink: Sink,
    patch: Patch,
    sums: Sums,
    cell: Cell,
    poly: wp.array[wp.vec2d],
    shape: Shape,
    npoint: int,
    slot: int,
    grown: wp.float64,
) -> Sums:
    """The points of a part of a cell, whose weights are `grown` times their areas."""
    line = in_plane(cell, cell.p)
    found = measure(poly, shape)
    area = found[0]
    c = wp.vec2d(found[1], found[2])
    out = sums
    if npoint == 1:
        return cell_point(patches, sink, patch, out, cell, line, slot, grown * area, c)
    xx = real(0.0)
    xy = real(0.0)
    yy = real(0.0)
    sixth = real(1.0 / 6.0)
    for i in range(shape.n):
        x = poly[shape.at + i] - c
        y = poly[shape.at + wp.where(i + 1 == shape.n, 0, i + 1)] - c
        one = real(0.5) * wp.abs(x[0] * y[1] - x[1] * y[0])
        if npoint > 3:
            w = grown * one / real(3.0)
            at = slot + 3 * i
            out = cell_point(patches, sink, patch, out, cell, line, at, w, c + sixth * (x + y) + real(0.5) * x)
            out = cell_point(patches, sink, patch, out, cell, line, at + 1, w, c + sixth * (x + y) + real(0.5) * y)
            out = cell_point(patches, sink, patch, out, cell, line, at + 2, w, c + sixth * (x + y))
        else:
            s = x + y
            xx += one / real(12.0) * (x[0] * x[0] + y[0] * y[0] + s[0] * s[0])
            xy += one / real(12.0) * (x[0] * x[1] + y[0] * y[1] + s[0] * s[1])
            yy += one / real(12.0) * (x[1] * x[1] + y[1] * y[1] + s[1] * s[1])
    if npoint == 3:
        # root of the second moment over the area
        xx /= area
        xy /= area
        yy /= area
        det = wp.sqrt(wp.max(xx * yy - xy * xy, ZERO))
        trace = wp.sqrt(wp.max(xx + yy + real(2.0) * det, real(1.0e-300)))
        for k in range(npoint):
            angle = real(2.0943951023931953) * real(k)
            e = wp.sqrt(real(2.0)) * wp.vec2d(wp.cos(angle), wp.sin(angle))
            x = wp.vec2d((xx + det) * e[0] + xy * e[1], xy * e[0] + (yy + det) * e[1]) / trace
            out = cell_point(patches, sink, patch, out, cell, line, slot + k, grown * area / real(3.0), c + x)
    return out


@wp.func
def measure_part(patch: Patch, cell: Cell, poly: wp.array[wp.vec2d], shape: Shape, line: wp.vec3d) -> wp.vec3d:
    """Force, area and corners of a part of a cell; zeros if it is empty, or farther away than the margin."""
    if shape.n < 3:
        return wp.vec3d()
    size = measure(poly, shape)
    p = value_at(line, wp.vec2d(size[1], size[2]))
    inverse = compliance_of(patch.a, slope(cell.a), cell.normal)
    inverse += compliance_of(patch.b, -slope(cell.b), cell.normal)
    if size[0] <= ZERO or -p * inverse > patch.margin:
        return wp.vec3d()
    return wp.vec3d(size[0] * p, size[0], real(shape.n))


@wp.func
def make_patch(
    fields: Fields,
    sink: Sink,
    patches: Patches,
    given: Patch,
    poly: wp.array[wp.vec2d],
    block: int,
    lane: int,
    nlane: int,
):
    """The points of one patch; its cells go to the scratch of the block."""
    patch = given
    a = patch.a
    b = patch.b
    centre = wp.vec3d()
    if a.radius < b.radius:
        centre = a.pos
    reach = real(2.0) * (wp.min(a.radius, b.radius) + patch.margin)
    ahead = patch.margin * steepest(a, b)
    floor = real(-2.0) * ahead

    most = real(_NONE)
    level = real(0.0)
    pressed = real(0.0)
    opened = real(0.0)
    more = real(1.0)
    more_open = real(1.0)
    total = real(0.0)
    best = int(-1)
    best_open = int(-1)
    ncell = int(0)
    number = a.num * b.num
    sums = Sums()
    # find the cells that are not empty; measure their parts; write their points
    for stage in range(3):
        for first in range(0, number, nlane):
            q = first + lane
            is_found = int(0)
            c = q
            if stage > 0 and q < number:
                c = patches.cell[block, q]
            cell = Cell()
            cell.exists = False
            if q < number:
                cell = make_cell(fields.face, a, b, c // b.num, c % b.num, centre, reach)
            if cell.exists:
                shape = whole(fields.face, a, b, cell, c // b.num, c % b.num, reach, floor, poly)
                line = in_plane(cell, cell.p)
                if stage == 0:
                    if shape.n >= 3:
                        is_found = 1
                        for i in range(shape.n):
                            most = wp.max(most, value_at(line, poly[shape.at + i]))
                    if shape.merged > 0:
                        wp.atomic_or(patches.notes, patch.worldid, CORNERS)
                else:
                    for side in range(2):
                        cut = Shape()
                        if side == 0 or level < ZERO:
                            cut = part_of(poly, shape, line, level, side == 1)
                        if stage == 1:
                            patches.part[block, 2 * q + side] = measure_part(patch, cell, poly, cut, line)
                        elif patches.slot[block, 2 * q + side] >= 0:
                            part = patches.part[block, 2 * q + side]
                            grown = real(1.0)
                            if 2 * q + side == best:
                                grown = more
                            if 2 * q + side == best_open:
                                grown = more_open
                            n = points_of(part[0], total, part[2])
                            slot = patches.slot[block, 2 * q + side]
                            sums = add_cell(patches, sink, patch, sums, cell, poly, cut, n, slot, grown)
            if stage == 0:
                place = ncell + sum_before(is_found)
                if is_found > 0 and place < MOST_CELLS:
                    patches.cell[block, place] = q
                ncell += sum_all(is_found)
        if stage == 0:
            most = lane_max(wp.vec3d(most, _NONE, _NONE), nlane)[0]
            if ncell > MOST_CELLS:
                ncell = MOST_CELLS
                if lane == 0:
                    wp.atomic_or(patches.notes, patch.worldid, CELLS)
            if ncell == 0 or most < -ahead or (most <= ZERO and ahead == ZERO):
                return
            level = wp.min(ZERO, most - ahead)
            number = ncell
        sync(nlane)
        if stage == 1:
            # what small parts give to the largest, and the points of the others
            for q in range(2 * ncell):
                part = patches.part[block, q]
                if q % 2 == 0:
                    pressed += part[0]
                    if part[0] > ZERO and (best < 0 or part[0] > patches.part[block, best][0]):
                        best = q
                else:
                    opened += part[1]
                    if part[1] > ZERO and (best_open < 0 or part[1] > patches.part[block, best_open][1]):
                        best_open = q
            if best < 0 and best_open < 0:
                return
            kept = real(0.0)
            kept_open = real(0.0)
            for q in range(2 * ncell):
                part = patches.part[block, q]
                if q % 2 == 0 and part[0] >= _SMALL * pressed:
                    kept += part[0]
                if q % 2 == 1 and part[1] >= _SMALL * opened:
                    kept_open += part[1]
                    total += wp.abs(part[0])
            total += pressed
            if best >= 0:
                more += (pressed - kept) / patches.part[block, best][0]
            if best_open >= 0:
                more_open += (opened - kept_open) / patches.part[block, best_open][1]
            npoint = int(0)
            for q in range(2 * ncell):
                part = patches.part[block, q]
                slot = int(-1)
                if (q % 2 == 0 and part[0] > ZERO and part[0] >= _SMALL * pressed) or (
                    q % 2 == 1 and part[1] > ZERO and part[1] >= _SMALL * opened
                ):
                    slot = npoint
                    npoint += points_of(part[0], total, part[2])
                if lane == 0:
                    patches.slot[block, q] = slot
            sync(nlane)
            room = reserve(patches, sink, npoint, lane, nlane)
            patch.adr = room[0]
            patch.fits = room[1] > 0
    end_patch(patches, sink, patch, sums, lane, nlane)


@wp.kernel
def make_cells(
    # Model:
    fields: Fields,
    blend: Blend,
    pairs: Pairs,
    # In:
    nblock: int,
    nlane: int,
    # Out:
    sink: Sink,
    patches: Patches,
):
    """The patches of flat geoms: one pair for each block of lanes, one cell for each lane."""
    block, lane = wp.tid()
    poly = wp.zeros(shape=(_BOTH,), dtype=wp.vec2d)
    for s in range(block, wp.min(patches.count[0], patches.ncellmax), nblock):
        patch = begin_patch(fields, blend, pairs, sink, patches.cells[s], s)
        make_patch(fields, sink, patches, patch, poly, block, lane, nlane)
        sync(nlane)
