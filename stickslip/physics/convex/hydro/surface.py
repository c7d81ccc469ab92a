"""The contact surface over the plane across an axis n: its height along n, and its rim.

At each place of the plane, the height is where ``min(p_A, p_B)`` is largest along n. That pressure is concave over the
plane, so ``p >= level`` is convex and has one rim in each direction.
"""

import warp as wp

from stickslip.physics.convex.hydro.fields import ZERO, Side, pressure, real, slope, vec4

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

_ROOTS = wp.constant(60)
_JOINT = wp.constant(16)
"""Most steps of Newton's method for a height, and for a rim and its height together."""
_GUESS = wp.constant(wp.float64(1.5))
"""First guess of a rim, in units of its way."""
_TIE = wp.constant(wp.float64(1.0e-9))
_SEEN = wp.constant(wp.float64(1.0e-9))
_NONE = wp.constant(wp.float64(-1.0e300))
_HALF = wp.constant(wp.float64(0.5))
_NEAR = wp.constant(wp.float64(1.0e-7))
"""Last step of Newton's method: its square is below what double precision sees."""


@wp.struct
class Place:
    """The contact surface at a place.

    Attributes:
        p: pressure, Pa; far below any level where the line misses a rigid geom
        pos, normal: place, and normal into A
        a, b: gradients of the two pressures, Pa/m
        s: height along the axis, m
        is_seen: whether the line meets the surface
    """

    p: wp.float64
    pos: wp.vec3d
    normal: wp.vec3d
    a: wp.vec3d
    b: wp.vec3d
    s: wp.float64
    is_seen: bool


@wp.func
def surface(
    face: wp.array[vec4], a: Side, b: Side, reach: wp.float64, x: wp.vec3d, n: wp.vec3d, guess: wp.float64
) -> Place:
    """The surface above x: where ``min(p_A, p_B)`` is largest along n, starting from a guess of the height.

    The slope of the smaller field tells the side, so the bracket holds always; Newton's method for ``p_A - p_B = 0``
    gives the next guess. A rigid geom's field is zero on its surface: the root is that of its extent.
    """
    turn = wp.transpose(a.rot)
    xa = turn * (x - a.pos)
    na = turn * n
    low = -reach
    high = reach
    s = wp.clamp(guess, low, high)
    va = vec4()
    vb = vec4()
    is_done = bool(False)
    count = int(0)
    while not is_done:
        va = pressure(face, a, xa + s * na)
        vb = pressure(face, b, x + s * n)
        da = wp.dot(slope(va), na)
        db = wp.dot(slope(vb), n)
        is_of_a = va[3] < vb[3]
        gap = va[3] - vb[3]
        rate = da - db
        if a.rigid:
            is_of_a = va[3] < ZERO
            gap = va[3]
            rate = da
        elif b.rigid:
            is_of_a = vb[3] >= ZERO
            gap = -vb[3]
            rate = -db
        up = db - _TIE * wp.length(slope(vb))
        if is_of_a:
            up = da + _TIE * wp.length(slope(va))
        if up > ZERO:
            low = s
        else:
            high = s
        to = _HALF * (low + high)
        near = real(1.0e-12) * reach
        if rate > ZERO:
            newton = s - gap / rate
            if newton >= low and newton <= high:
                to = newton
                near = _NEAR * reach
        count += 1
        move = to - s
        if wp.abs(move) <= near or count >= _ROOTS:
            is_done = True
            va[3] += da * move
            vb[3] += db * move
        s = to
    out = Place()
    out.s = s
    out.pos = x + s * n
    out.a = a.rot * slope(va)
    out.b = slope(vb)
    out.is_seen = True
    out.p = wp.min(va[3], vb[3])
    w = out.a - out.b
    if a.rigid:
        out.is_seen = va[3] >= -_SEEN
        out.p = vb[3]
        w = out.a
    elif b.rigid:
        out.is_seen = vb[3] >= -_SEEN
        out.p = va[3]
        w = -out.b
    if not out.is_seen:
        out.p = _NONE
    out.normal = w / wp.max(wp.length(w), real(1.0e-300))
    return out


@wp.func
def rim(
    face: wp.array[vec4],
    a: Side,
    b: Side,
    reach: wp.float64,
    x: wp.vec3d,
    n: wp.vec3d,
    way: wp.vec3d,
    level: wp.float64,
) -> wp.float64:
    """How far along a way from x the pressure falls to the level, in units of the way.

    Over the way and n, both fields are at the level in one place only: Newton's method for the two together. Where it
    does not arrive, as on edges, `search_rim` does.
    """
    turn = wp.transpose(a.rot)
    xa = turn * (x - a.pos)
    na = turn * n
    wa = turn * way
    length = wp.length(way)
    far = real(2.0) * reach / length
    level_a = wp.where(a.rigid, ZERO, level)
    level_b = wp.where(b.rigid, ZERO, level)
    r = wp.min(far, _GUESS)
    s = real(0.0)
    count = int(0)
    while count < _JOINT:
        va = pressure(face, a, xa + r * wa + s * na)
        vb = pressure(face, b, x + r * way + s * n)
        fa = va[3] - level_a
        fb = vb[3] - level_b
        a_r = wp.dot(slope(va), wa)
        a_s = wp.dot(slope(va), na)
        b_r = wp.dot(slope(vb), way)
        b_s = wp.dot(slope(vb), n)
        det = a_r * b_s - a_s * b_r
        count += 1
        to = real(-1.0)
        if wp.abs(det) > _TIE * length * wp.length(slope(va)) * wp.length(slope(vb)):
            to = r + (a_s * fb - fa * b_s) / det
        if to > ZERO and to <= far:
            ds = (fa * b_r - a_r * fb) / det
            if wp.abs(to - r) <= real(1.0e-6) * r and wp.abs(ds) <= real(1.0e-6) * r * length:
                return to
            r = to
            s += ds
        elif r < far and wp.min(fa, fb) >= -_TIE * reach * wp.length(slope(vb)):
            r = wp.min(far, real(2.0) * r)  # a pressure that is level or rises, as on a cap: beyond it
        else:
            count = _JOINT
        if wp.abs(s) > reach:
            count = _JOINT
    return search_rim(face, a, b, reach, x, n, way, level)


@wp.func
def search_rim(
    face: wp.array[vec4],
    a: Side,
    b: Side,
    reach: wp.float64,
    x: wp.vec3d,
    n: wp.vec3d,
    way: wp.vec3d,
    level: wp.float64,
) -> wp.float64:
    """The same along the surface, with a bracket that always holds.

    A tangent of a concave function is above it, so Newton's method goes outside in one step and comes down from there;
    the bracket is for the ends of a rigid geom, where the pressure jumps.
    """
    far = real(2.0) * reach / wp.length(way)
    low = real(0.0)
    high = far
    r = wp.min(far, _GUESS)
    s = real(0.0)
    count = int(0)
    while count < _ROOTS:
        at = surface(face, a, b, reach, x + r * way, n, s)
        s = at.s
        over = at.p - level
        if over >= ZERO:
            low = r
        else:
            high = r
        to = _HALF * (low + high)
        if at.is_seen:
            along_a = wp.dot(at.a, way)
            along_b = wp.dot(at.b, way)
            up_a = wp.dot(at.a, n)
            up_b = wp.dot(at.b, n)
            rate = real(0.0)
            if a.rigid:
                if up_a != ZERO:
                    rate = along_b - up_b * along_a / up_a
            elif b.rigid:
                if up_b != ZERO:
                    rate = along_a - up_a * along_b / up_b
            elif up_a != up_b:
                rate = along_a - up_a * (along_a - along_b) / (up_a - up_b)
            if rate < ZERO:
                newton = r - over / rate
                if newton >= low and newton <= high:
                    to = newton
        count += 1
        if wp.abs(to - r) <= real(1.0e-9) * far:
            count = _ROOTS
        r = to
    return r
