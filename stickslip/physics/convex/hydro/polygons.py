"""Convex polygons in a plane: the cells of a contact surface between two flat geoms.

Where face i of A and face j of B are the smallest pieces, the surface is the plane ``p_Ai = p_Bj``. A square of it is
clipped by ``p_Ai <= p_Ak``, ``p_Bj <= p_Bl`` and ``p >= level``. If A is rigid, the plane is its face i, and the clips
are ``e_Ak >= 0``; likewise for B.
"""

import warp as wp

from stickslip.physics.convex.hydro.fields import ONE, ZERO, Side, real, slope, vec4

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

MOST_CORNERS = wp.constant(32)
"""Most corners of a cell; beyond, the shortest edge is merged."""
BUFFER = 2 * 33
"""Room for a polygon and for what a clip leaves of it."""
_ON = wp.constant(wp.float64(1.0e-12))
"""Distance within which a corner is on the line of a clip, m: no corner twice."""
_BACK = wp.constant(wp.float64(-0.3826834323650898))
"""Cosine of 5 pi/8: faces that look farther away from the normal are left out, as in Drake."""
_PARALLEL = wp.constant(wp.float64(1.0e-9))


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
