"""Patches between two flat geoms (plane, box, hull): convex polygons with a linear pressure, exact.

Each pair of faces has a polygon, a cell, if their plane is within both geoms. Ahead of touch the level of the patch is
``min(0, p_max - margin g)``, g being the steepest gradient; a cell that holds both signs is cut at p = 0.

Quadrature: a part of half of the force or more gets a fan about its centroid with 3 points on each triangle; one of
more than a hundredth three points with its second moment; a smaller one its centroid. Parts of less than 1e-4 of the
force go to the largest, whose force becomes that of all of them, in size and direction.
"""

import warp as wp

from stickslip.physics.convex.hydro.fields import ZERO, Fields, compliance_of, real, slope, steepest
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
from stickslip.physics.convex.hydro.polygons import (
    BUFFER,
    Cell,
    Shape,
    clip,
    in_plane,
    make_cell,
    measure,
    value_at,
    whole,
)
from stickslip.physics.convex.step.lanes import count_before, lane_max
from stickslip.physics.mjwarp.lanes import sync

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

LANES = 4
"""Lanes of a patch on CUDA."""
MOST_CELLS = wp.constant(128)
"""Most cells of a patch that are not empty."""
_SMALL = wp.constant(wp.float64(1.0e-4))
_FEW = wp.constant(wp.float64(0.01))
_MANY = wp.constant(wp.float64(0.5))
_NONE = wp.constant(wp.float64(-1.0e300))
_LEAST = wp.constant(wp.float64(1.0e-300))


@wp.struct
class Part:
    """The pressed or the open part of a cell, for its points.

    Attributes:
        cell, shape: plane and polygon
        normal: direction of its force
        line: pressure in the coordinates of the plane
        centre, area: of the polygon
        root: of its second moment over its area
        first, num: points
        grown: weights of the points over their areas
    """

    cell: Cell
    shape: Shape
    normal: wp.vec3d
    line: wp.vec3d
    centre: wp.vec2d
    area: wp.float64
    root: wp.mat22d
    first: int
    num: int
    grown: wp.float64


@wp.struct
class Parts:
    """What the parts of a patch give in all.

    Attributes:
        pressed, opened: force of all pressed parts, and area of all open ones
        more_open: what the largest open part grows by, for those that are too small
        small: force of the pressed parts that are too small
        best, best_open: the largest; -1: none
        total: force that the number of points goes by
        npoint: points of all parts
    """

    pressed: wp.float64
    opened: wp.float64
    more_open: wp.float64
    small: wp.vec3d
    best: int
    best_open: int
    total: wp.float64
    npoint: int


@wp.func
def part_of(poly: wp.array[wp.vec2d], shape: Shape, line: wp.vec3d, level: wp.float64, is_open: bool) -> Shape:
    """The pressed part of a polygon, p >= 0, or the open one, level <= p <= 0."""
    if is_open:
        return clip(poly, clip(poly, shape, line - wp.vec3d(ZERO, ZERO, level)), -line)
    return clip(poly, shape, line)


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
def points_of(force: wp.float64, total: wp.float64, corners: wp.float64) -> int:
    """Number of points of a part, by its share of the force."""
    share = wp.abs(force) / wp.max(total, _LEAST)
    if share < _FEW:
        return 1
    if share < _MANY:
        return 3
    return 3 * int(corners)


@wp.func
def is_kept(part: wp.vec3d, is_open: bool, parts: Parts) -> bool:
    """Whether a part has points of its own."""
    if is_open:
        return part[1] > ZERO and part[1] >= _SMALL * parts.opened
    return part[0] > ZERO and part[0] >= _SMALL * parts.pressed


@wp.func
def sum_parts(
    fields: Fields, patches: Patches, patch: Patch, block: int, ncell: int, centre: wp.vec3d, reach: wp.float64
) -> Parts:
    """What small parts give to the largest, and how many points the others have."""
    out = Parts()
    out.best = -1
    out.best_open = -1
    most = real(0.0)
    most_open = real(0.0)
    for q in range(2 * ncell):
        part = patches.part[block, q]
        if q % 2 == 0:
            out.pressed += part[0]
            if part[0] > most:
                out.best = q
                most = part[0]
        else:
            out.opened += part[1]
            if part[1] > most_open:
                out.best_open = q
                most_open = part[1]
    kept_open = real(0.0)
    for q in range(2 * ncell):
        part = patches.part[block, q]
        if q % 2 == 1:
            if is_kept(part, True, out):
                kept_open += part[1]
                out.total += wp.abs(part[0])
        elif part[0] > ZERO and not is_kept(part, False, out):
            c = patches.cell[block, q // 2]
            cell = make_cell(fields.face, patch.a, patch.b, c // patch.b.num, c % patch.b.num, centre, reach)
            out.small += part[0] * cell.normal
    out.total += out.pressed
    out.more_open = real(1.0)
    if out.best_open >= 0:
        out.more_open += (out.opened - kept_open) / most_open
    for q in range(2 * ncell):
        part = patches.part[block, q]
        if is_kept(part, q % 2 == 1, out):
            out.npoint += points_of(part[0], out.total, part[2])
    return out


@wp.func
def make_part(cell: Cell, shape: Shape, poly: wp.array[wp.vec2d], first: int, num: int) -> Part:
    """A part whose points can be made."""
    out = Part()
    out.cell = cell
    out.normal = cell.normal
    out.shape = shape
    out.line = in_plane(cell, cell.p)
    found = measure(poly, shape)
    out.area = found[0]
    out.centre = wp.vec2d(found[1], found[2])
    out.first = first
    out.num = num
    out.grown = real(1.0)
    if num == 3:
        xx = real(0.0)
        xy = real(0.0)
        yy = real(0.0)
        for i in range(shape.n):
            x = poly[shape.at + i] - out.centre
            y = poly[shape.at + wp.where(i + 1 == shape.n, 0, i + 1)] - out.centre
            s = x + y
            share = wp.abs(x[0] * y[1] - x[1] * y[0]) / (real(24.0) * out.area)
            xx += share * (x[0] * x[0] + y[0] * y[0] + s[0] * s[0])
            xy += share * (x[0] * x[1] + y[0] * y[1] + s[0] * s[1])
            yy += share * (x[1] * x[1] + y[1] * y[1] + s[1] * s[1])
        det = wp.sqrt(wp.max(xx * yy - xy * xy, ZERO))
        trace = wp.sqrt(wp.max(xx + yy + real(2.0) * det, _LEAST))
        out.root = wp.mat22d(xx + det, xy, xy, yy + det) / trace
    return out


@wp.func
def add_of(
    patches: Patches, sink: Sink, patch: Patch, sums: Sums, poly: wp.array[wp.vec2d], part: Part, point: int
) -> Sums:
    """A point of a part, by its number in the patch."""
    k = point - part.first
    x = part.centre
    weight = part.grown * part.area / real(part.num)
    if part.num == 3:
        angle = real(2.0943951023931953) * real(k)
        x += wp.sqrt(real(2.0)) * (part.root * wp.vec2d(wp.cos(angle), wp.sin(angle)))
    elif part.num > 3:
        i = k // 3
        one = poly[part.shape.at + i] - part.centre
        two = poly[part.shape.at + wp.where(i + 1 == part.shape.n, 0, i + 1)] - part.centre
        x += (one + two) / real(6.0)
        if k % 3 == 0:
            x += real(0.5) * one
        if k % 3 == 1:
            x += real(0.5) * two
        weight = part.grown * wp.abs(one[0] * two[1] - one[1] * two[0]) / real(6.0)
    return add_point(
        patches,
        sink,
        patch,
        sums,
        point,
        weight,
        part.cell.o + x[0] * part.cell.u + x[1] * part.cell.v,
        part.normal,
        value_at(part.line, x),
        compliance_of(patch.a, slope(part.cell.a), part.normal),
        compliance_of(patch.b, -slope(part.cell.b), part.normal),
    )


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

    # cells that are not empty, a lane for each
    most = real(_NONE)
    ncell = int(0)
    number = a.num * b.num
    cell = Cell()
    shape = Shape()
    for first in range(0, number, nlane):
        c = first + lane
        is_found = int(0)
        if c < number:
            cell = make_cell(fields.face, a, b, c // b.num, c % b.num, centre, reach)
            if cell.exists:
                shape = whole(fields.face, a, b, cell, c // b.num, c % b.num, reach, floor, poly)
                if shape.merged > 0:
                    wp.atomic_or(patches.notes, patch.worldid, CORNERS)
                if shape.n >= 3:
                    is_found = 1
                    line = in_plane(cell, cell.p)
                    for i in range(shape.n):
                        most = wp.max(most, value_at(line, poly[shape.at + i]))
        counted = count_before(is_found, lane, nlane)
        if is_found > 0 and ncell + counted[0] < MOST_CELLS:
            patches.cell[block, ncell + counted[0]] = c
        ncell += counted[1]
    most = lane_max(wp.vec3d(most), nlane)[0]
    if ncell > MOST_CELLS:
        ncell = MOST_CELLS
        if lane == 0:
            wp.atomic_or(patches.notes, patch.worldid, CELLS)
    if ncell == 0 or most < -ahead or (most <= ZERO and ahead == ZERO):
        return
    level = wp.min(ZERO, most - ahead)
    sync(nlane)

    # their parts, a lane for each cell
    for q in range(lane, ncell, nlane):
        c = patches.cell[block, q]
        cell = make_cell(fields.face, a, b, c // b.num, c % b.num, centre, reach)
        shape = whole(fields.face, a, b, cell, c // b.num, c % b.num, reach, floor, poly)
        line = in_plane(cell, cell.p)
        for side in range(2):
            found = wp.vec3d()
            if side == 0 or level < ZERO:
                found = measure_part(patch, cell, poly, part_of(poly, shape, line, level, side == 1), line)
            patches.part[block, 2 * q + side] = found
    sync(nlane)
    parts = sum_parts(fields, patches, patch, block, ncell, centre, reach)
    if parts.best < 0 and parts.best_open < 0:
        return
    room = reserve(patches, sink, parts.npoint, lane, nlane)
    patch.adr = room[0]
    patch.fits = room[1] > 0

    # points, a lane for each
    sums = Sums()
    part = Part()
    q = int(-1)
    end = int(0)
    for point in range(lane, parts.npoint, nlane):
        is_new = bool(False)
        first = int(0)
        num = int(0)
        while end <= point:
            q += 1
            is_new = True
            first = end
            size = patches.part[block, q]
            if is_kept(size, q % 2 == 1, parts):
                num = points_of(size[0], parts.total, size[2])
                end += num
        if is_new:
            c = patches.cell[block, q // 2]
            cell = make_cell(fields.face, a, b, c // b.num, c % b.num, centre, reach)
            shape = whole(fields.face, a, b, cell, c // b.num, c % b.num, reach, floor, poly)
            shape = part_of(poly, shape, in_plane(cell, cell.p), level, q % 2 == 1)
            part = make_part(cell, shape, poly, first, num)
            if q == parts.best:
                force = patches.part[block, q][0]
                push = force * cell.normal + parts.small
                part.grown = wp.length(push) / force
                part.normal = wp.normalize(push)
            if q == parts.best_open:
                part.grown = parts.more_open
        sums = add_of(patches, sink, patch, sums, poly, part, point)
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
    poly = wp.zeros(shape=(BUFFER,), dtype=wp.vec2d)
    for s in range(block, wp.min(patches.count[0], patches.ncellmax), nblock):
        patch = begin_patch(fields, blend, pairs, sink, patches.cells[s], s)
        make_patch(fields, sink, patches, patch, poly, block, lane, nlane)
        sync(nlane)
