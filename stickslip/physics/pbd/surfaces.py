"""Signed distance to surfaces without a closed form: ellipsoids, meshes of triangles, height fields."""

import warp as wp

wp.set_module_options({"enable_backward": False})

_TINY = wp.constant(wp.float64(1.0e-12))  # below this a length [m], or a share of one, has no direction
_FAR = wp.constant(wp.float64(1.0e10))  # distance to nothing [m]
_NEWTON = wp.constant(40)  # most iterations for the multiplier of an ellipsoid; mostly 3 to 6 are taken
_ROUNDING = wp.constant(wp.float64(1.0e-15))


@wp.struct
class Nearest:
    """What a surface is to a point.

    Attributes:
        dist: signed distance of the point to the surface, negative inside [m]
        normal: of the surface where it is nearest, unit, outward, in the geom's frame
    """

    dist: wp.float64
    normal: wp.vec3d


@wp.func
def signed(magnitude: wp.float64, like: wp.float64) -> wp.float64:
    """The magnitude with a sign; that of zero is plus."""
    if like < wp.float64(0.0):
        return -magnitude
    return magnitude


@wp.func(inline=False)
def nearest_ellipsoid(size: wp.vec3d, point: wp.vec3d) -> Nearest:
    """Of an ellipsoid with semi-axes a = size, seen from y = point.

    The nearest point is x_i = a_i^2 y_i / (s + e_i), with e_i = a_i^2 - a_k^2 and k the shortest axis, for the s > 0 at
    which r = |x_i / a_i| is 1. Newton's method on 1/r - 1 climbs to that s from below, inside and outside alike, and
    starts where no axis alone gives more than r = 1 (that of Moré and Sorensen for trust regions).
    A point of the plane that the shortest axis stands on is moved by a trace to its plus side.
    """
    k = int(wp.argmin(size))
    e = wp.cw_mul(size, size) - wp.vec3d(size[k] * size[k])
    at = wp.vec3d(wp.abs(point[0]), wp.abs(point[1]), wp.abs(point[2]))
    y = wp.vec3d(at[0], at[1], at[2])
    y[k] = wp.max(y[k], _TINY * size[k])

    s = wp.max(wp.cw_mul(size, y) - e)
    r = wp.float64(1.0)
    for _ in range(_NEWTON):
        w = wp.cw_div(wp.cw_mul(size, y), wp.vec3d(s) + e)
        r = wp.length(w)
        if r - wp.float64(1.0) < _ROUNDING:
            break
        slope = wp.dot(w, wp.cw_div(w, wp.vec3d(s) + e))
        s += (r - wp.float64(1.0)) * r * r / slope

    along = wp.cw_div(y, wp.vec3d(s) + e)
    x = wp.cw_mul(wp.cw_mul(size, size), along) / r
    along = wp.normalize(along)
    out = Nearest()
    out.dist = wp.dot(at - x, along)
    out.normal = wp.vec3d(signed(along[0], point[0]), signed(along[1], point[1]), signed(along[2], point[2]))
    return out


@wp.func
def closest_to_origin(a: wp.vec3d, b: wp.vec3d, c: wp.vec3d) -> wp.vec3d:
    """Point of the triangle a, b, c closest to the origin (Ericson, Real-Time Collision Detection, 5.1.5)."""
    zero = wp.float64(0.0)
    ab = b - a
    ac = c - a
    d1 = -wp.dot(ab, a)
    d2 = -wp.dot(ac, a)
    if d1 <= zero and d2 <= zero:
        return a
    d3 = -wp.dot(ab, b)
    d4 = -wp.dot(ac, b)
    if d3 >= zero and d4 <= d3:
        return b
    vc = d1 * d4 - d3 * d2
    if vc <= zero and d1 >= zero and d3 <= zero:
        return a + d1 / (d1 - d3) * ab
    d5 = -wp.dot(ab, c)
    d6 = -wp.dot(ac, c)
    if d6 >= zero and d5 <= d6:
        return c
    vb = d5 * d2 - d1 * d6
    if vb <= zero and d2 >= zero and d6 <= zero:
        return a + d2 / (d2 - d6) * ac
    va = d3 * d6 - d5 * d4
    if va <= zero and d4 >= d3 and d5 >= d6:
        return b + (d4 - d3) / ((d4 - d3) + (d5 - d6)) * (c - b)
    # the inside: the foot of the normal, which keeps its digits near the surface
    n = wp.cross(ab, ac)
    return wp.dot(n, a) / wp.dot(n, n) * n


@wp.func(inline=False)
def nearest_mesh(mesh: wp.uint64, low: wp.vec3d, high: wp.vec3d, point: wp.vec3d, reach: wp.float64) -> Nearest:
    """Of a mesh of triangles, which is closed and has corners between low and high.

    The search for the triangle and the winding number are in single precision; the distance to it is not.
    In the mesh's box a point may be inside at any depth, so there the search has no limit.
    """
    out = Nearest()
    out.normal = wp.vec3d(wp.float64(0.0), wp.float64(0.0), wp.float64(1.0))
    at = wp.vec3(point)
    boxed = True
    for i in range(3):
        boxed = boxed and low[i] <= point[i] and point[i] <= high[i]
    # beyond reach by more than the rounding of the search
    out.dist = reach + wp.float64(1.0e-6) * (wp.float64(1.0) + reach + wp.length(point))
    found = bool(False)
    face = int(0)
    side = float(1.0)
    if boxed:
        query = wp.mesh_query_point_sign_winding_number(mesh, at, float(wp.length(high - low)))
        found = query.result
        face = query.face
        side = query.sign
    else:
        plain = wp.mesh_query_point_no_sign(mesh, at, float(wp.min(out.dist, _FAR)))
        found = plain.result
        face = plain.face
    if not found:
        return out

    a = wp.vec3d(wp.mesh_get_point(mesh, face * 3)) - point
    b = wp.vec3d(wp.mesh_get_point(mesh, face * 3 + 1)) - point
    c = wp.vec3d(wp.mesh_get_point(mesh, face * 3 + 2)) - point
    away = -closest_to_origin(a, b, c)
    dist = wp.length(away)
    # where the winding number is rounding, and the direction too, the side of the face decides
    face_normal = wp.normalize(wp.cross(b - a, c - a))
    if dist < wp.float64(1.0e-7) + wp.float64(5.0e-7) * wp.length(point):
        out.dist = signed(dist, wp.dot(away, face_normal))
        out.normal = face_normal
    elif side < 0.0:
        out.dist = -dist
        out.normal = -away / dist
    else:
        out.dist = dist
        out.normal = away / dist
    return out


@wp.func(inline=False)
def nearest_hfield(
    heights: wp.array[float],
    adr: int,
    nrow: int,
    ncol: int,
    size: wp.vec4d,
    point: wp.vec3d,
    reach: wp.float64,
) -> Nearest:
    """Of a height field: nrow x ncol heights from `adr` on, and MuJoCo's hfield_size.

    Each cell is two triangles, which meet on the diagonal from the corner of least x and y. Only their upper side is a
    surface: a point beside the rectangle or below the base is far from it. The height above a point bounds its
    distance, so that only cells within that height, or within reach, are looked at.
    """
    out = Nearest()
    out.dist = _FAR
    out.normal = wp.vec3d(wp.float64(0.0), wp.float64(0.0), wp.float64(1.0))
    if wp.abs(point[0]) > size[0] or wp.abs(point[1]) > size[1] or point[2] < -size[3]:
        return out
    if point[2] > size[2] + reach:
        out.dist = point[2] - size[2]
        return out

    cell = wp.vec2d(
        wp.float64(2.0) * size[0] / wp.float64(ncol - 1),
        wp.float64(2.0) * size[1] / wp.float64(nrow - 1),
    )
    col = _cell(point[0] + size[0], cell[0], ncol)
    row = _cell(point[1] + size[1], cell[1], nrow)
    v00 = _corner(heights, adr, ncol, cell, size, row, col) - point
    v01 = _corner(heights, adr, ncol, cell, size, row, col + 1) - point
    v10 = _corner(heights, adr, ncol, cell, size, row + 1, col) - point
    v11 = _corner(heights, adr, ncol, cell, size, row + 1, col + 1) - point
    face_normal = wp.cross(v01 - v00, v11 - v00)
    if v00[0] * cell[1] > v00[1] * cell[0]:  # nearer to the side of least x than to that of least y
        face_normal = wp.cross(v11 - v00, v10 - v00)
    above = wp.dot(face_normal, v00) / face_normal[2]  # height of the surface above the point
    face_normal = wp.normalize(face_normal)

    near = wp.vec3d(wp.float64(0.0), wp.float64(0.0), above)
    best = wp.abs(above)
    span = wp.float64(best)
    if above < wp.float64(0.0):
        span = wp.min(span, reach)
    last_row = _cell(point[1] + size[1] + span, cell[1], nrow)
    last_col = _cell(point[0] + size[0] + span, cell[0], ncol)
    for r in range(_cell(point[1] + size[1] - span, cell[1], nrow), last_row + 1):
        for c in range(_cell(point[0] + size[0] - span, cell[0], ncol), last_col + 1):
            v00 = _corner(heights, adr, ncol, cell, size, r, c) - point
            v01 = _corner(heights, adr, ncol, cell, size, r, c + 1) - point
            v10 = _corner(heights, adr, ncol, cell, size, r + 1, c) - point
            v11 = _corner(heights, adr, ncol, cell, size, r + 1, c + 1) - point
            gap = wp.vec3d(
                _gap(v00[0], v01[0]),
                _gap(v00[1], v10[1]),
                _gap(
                    wp.min(wp.min(v00[2], v01[2]), wp.min(v10[2], v11[2])),
                    wp.max(wp.max(v00[2], v01[2]), wp.max(v10[2], v11[2])),
                ),
            )
            if wp.length(gap) < best:
                candidate = closest_to_origin(v00, v01, v11)
                if wp.length(candidate) < best:
                    best = wp.length(candidate)
                    near = candidate
                candidate = closest_to_origin(v00, v11, v10)
                if wp.length(candidate) < best:
                    best = wp.length(candidate)
                    near = candidate

    out.dist = signed(best, -above)
    if best > wp.float64(1.0e-9):
        out.normal = -near / out.dist
    else:
        out.normal = face_normal
    return out


@wp.func
def _cell(x: wp.float64, width: wp.float64, n: int) -> int:
    """Which of the n - 1 cells between n lines a coordinate is in; the first or last if it is beside them."""
    return int(wp.clamp(wp.floor(x / width), wp.float64(0.0), wp.float64(n - 2)))


@wp.func
def _corner(
    heights: wp.array[float],
    adr: int,
    ncol: int,
    cell: wp.vec2d,
    size: wp.vec4d,
    row: int,
    col: int,
) -> wp.vec3d:
    return wp.vec3d(
        wp.float64(col) * cell[0] - size[0],
        wp.float64(row) * cell[1] - size[1],
        wp.float64(heights[adr + row * ncol + col]) * size[2],
    )


@wp.func
def _gap(low: wp.float64, high: wp.float64) -> wp.float64:
    """How far zero is from an interval."""
    return wp.max(wp.max(low, -high), wp.float64(0.0))
