"""Where a polar patch starts: a place inside, and the normal there.

Closed forms for a round geom on a plane, for a sphere with most geoms, and for two capsules; a climb for all others.
The patch is centred afterwards, so a place inside it is enough.
"""

import warp as wp

from stickslip.physics.convex.hydro.fields import (
    BOX,
    CAPSULE,
    CYLINDER,
    ELLIPSOID,
    HULL,
    ONE,
    PLANE,
    SPHERE,
    ZERO,
    Side,
    curvature,
    piece,
    real,
    slope,
    vec4,
)

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

_COOLING = wp.constant(wp.float64(0.3))
_HOTTEST = wp.constant(wp.float64(0.3))
_COLDEST = wp.constant(wp.float64(1.0e-8))
_BALANCED = wp.constant(wp.float64(1.0e-3))
_NEWTON = wp.constant(8)
_HALF = wp.constant(wp.float64(0.5))
_APART = wp.constant(wp.float64(1.0e-6))
"""Least distance that has a direction, in units of the size."""


@wp.struct
class Start:
    """Where to start.

    Attributes:
        x: where the smaller depth is largest; its height along the normal does not matter
        middle: a place nearer to the middle of the patch; likewise
        n: normal into A
        radius: of curvature of the two geoms together, m; 0: not known
        along, across: half sizes of the patch, along the axis of B and across, m; 0: not known, or as of a sphere
        is_found: whether there is a closed form
    """

    x: wp.vec3d
    middle: wp.vec3d
    n: wp.vec3d
    radius: wp.float64
    along: wp.float64
    across: wp.float64
    is_found: bool


@wp.struct
class Soft:
    """The soft minimum of all depths: value, slope, curvature, and the weighted slopes of A less those of B."""

    value: wp.float64
    slope: wp.vec3d
    curve: wp.mat33d
    normal: wp.vec3d


@wp.func
def start(face: wp.array[vec4], a: Side, b: Side, reach: wp.float64) -> Start:
    """Where to start, by the kinds of the two geoms; A has the lower type of MuJoCo."""
    out = Start()
    out.is_found = False
    if a.kind == PLANE:
        out = start_on_plane(a, b)
    elif a.kind == SPHERE:
        out = start_at_sphere(a, b)
    elif a.kind == CAPSULE and b.kind == CAPSULE:
        out = start_of_capsules(a, b)
    if not out.is_found:
        out = climb(face, a, b, reach)
    return out


@wp.func
def part_of(half: wp.float64, slope: wp.float64, base: wp.float64) -> wp.vec2d:
    """Middle and half length of the part of -half to half where ``slope t + base >= 0``, slope not negative."""
    low = -half
    if slope > ZERO:
        low = wp.clamp(-base / slope, -half, half)
    return wp.vec2d(_HALF * (low + half), _HALF * (half - low))


@wp.func
def start_on_plane(a: Side, b: Side) -> Start:
    """Below a round geom on a plane: the deepest place, and the middle of where it is in the plane."""
    up = wp.vec3d(a.rot[0, 2], a.rot[1, 2], a.rot[2, 2])
    height = -wp.dot(up, a.pos)  # of the centre of B
    out = Start()
    out.is_found = True
    out.n = -up
    out.x = wp.vec3d()
    if b.kind == SPHERE:
        out.radius = b.size[0]
    if b.kind == ELLIPSOID:
        scaled = wp.cw_mul(b.size, up)
        out.x = -wp.cw_mul(b.size, scaled) / wp.length(scaled)
    out.middle = out.x
    along = wp.vec3d(ZERO, ZERO, wp.where(up[2] < ZERO, ONE, -ONE))  # the axis of B, downwards
    axial = wp.abs(up[2])
    radial = wp.sqrt(up[0] * up[0] + up[1] * up[1])
    if b.kind == CAPSULE:
        # its depth along the axis is linear
        out.radius = b.size[0]
        out.x = b.size[1] * along
        out.middle = out.x
        base = b.size[0] - height
        if base + axial * b.size[1] > ZERO:
            part = part_of(b.size[1], axial, base)
            out.middle = part[0] * along
            out.along = radial * part[1]
    elif b.kind == CYLINDER:
        # in the section through its axis and across the plane: a rectangle, cut by the line of the plane
        down = wp.vec3d()
        if radial > ZERO:
            down = wp.vec3d(-up[0] / radial, -up[1] / radial, ZERO)
        least = wp.min(b.size[0], b.size[1])
        deepest = wp.min((b.size[0] * radial + b.size[1] * axial - height) / (radial + axial), least)
        q = b.size[0] - deepest
        z = b.size[1] - deepest
        out.x = q * down + z * along
        # radial q + axial z = height
        if deepest > ZERO:
            if radial >= axial:
                part = part_of(b.size[1], axial, radial * b.size[0] - height)
                z = part[0]
                q = (height - axial * z) / radial
                out.along = part[1] / radial
            else:
                part = part_of(b.size[0], radial, axial * b.size[1] - height)
                q = part[0]
                z = (height - radial * q) / axial
                out.along = part[1] / axial
            out.across = wp.sqrt(wp.max(b.size[0] * b.size[0] - q * q, ZERO))
        out.middle = q * down + z * along
    return out


@wp.func
def start_at_sphere(a: Side, b: Side) -> Start:
    """The place of B that is nearest to the centre of a sphere, if that is outside."""
    c = a.pos
    nearest = c
    grown = real(0.0)  # beyond the nearest place of a centre or a segment
    out = Start()
    out.is_found = True
    if b.kind == SPHERE:
        nearest = wp.vec3d()
        grown = b.size[0]
        out.radius = a.size[0] * b.size[0] / (a.size[0] + b.size[0])
    elif b.kind == CAPSULE:
        nearest = wp.vec3d(ZERO, ZERO, wp.clamp(c[2], -b.size[1], b.size[1]))
        grown = b.size[0]
    elif b.kind == CYLINDER:
        distance = wp.sqrt(c[0] * c[0] + c[1] * c[1])
        share = wp.min(ONE, b.size[0] / wp.max(distance, real(1.0e-300)))
        nearest = wp.vec3d(share * c[0], share * c[1], wp.clamp(c[2], -b.size[1], b.size[1]))
    elif b.kind == BOX:
        out.radius = a.size[0]
        for i in range(3):
            nearest[i] = wp.clamp(c[i], -b.size[i], b.size[i])
    else:
        out.is_found = False
    away = c - nearest
    length = wp.length(away)
    if length <= _APART * a.size[0]:
        out.is_found = False
    else:
        out.n = away / length
        out.x = nearest + grown * out.n
        out.middle = out.x
    return out


@wp.func
def start_of_capsules(a: Side, b: Side) -> Start:
    """Between the nearest places of two segments; of parallel ones, in the middle of where they are side by side."""
    d = wp.vec3d(a.rot[0, 2], a.rot[1, 2], a.rot[2, 2])
    la = a.size[1]
    lb = b.size[1]
    out = Start()
    out.is_found = True
    # a.pos + s d and t z
    cosine = d[2]
    sine = ONE - cosine * cosine
    along = wp.dot(d, a.pos)
    s = real(0.0)
    if sine > real(1.0e-9):
        s = wp.clamp((cosine * a.pos[2] - along) / sine, -la, la)
    else:
        # the part of A beside B
        one = wp.clamp(cosine * (-lb - a.pos[2]), -la, la)
        two = wp.clamp(cosine * (lb - a.pos[2]), -la, la)
        s = _HALF * (one + two)
    t = wp.clamp(a.pos[2] + s * cosine, -lb, lb)
    s = wp.clamp(t * cosine - along, -la, la)
    nearest = wp.vec3d(ZERO, ZERO, t)
    away = a.pos + s * d - nearest
    length = wp.length(away)
    if length <= _APART * a.size[0]:
        out.is_found = False
    else:
        out.n = away / length
        out.x = nearest + b.size[0] * out.n
        out.middle = out.x
    return out


@wp.func
def depth_of(face: wp.array[vec4], a: Side, b: Side, k: int, ya: wp.vec3d, yb: wp.vec3d) -> vec4:
    """Gradient and value of ``H e`` of piece k, those of A first; places and gradients in the frames of the geoms."""
    if k < a.num:
        return a.depth * piece(face, a, k, ya)
    return b.depth * piece(face, b, k - a.num, yb)


@wp.func
def soft_depth(face: wp.array[vec4], a: Side, b: Side, x: wp.vec3d, t: wp.float64, is_whole: bool) -> Soft:
    """``-t log sum exp(-d_i/t)`` over all pieces of both; slopes only if asked for."""
    ya = wp.transpose(a.rot) * (x - a.pos)
    yb = wp.transpose(b.rot) * (x - b.pos)
    low = real(1.0e300)
    for k in range(a.num + b.num):
        low = wp.min(low, depth_of(face, a, b, k, ya, yb)[3])
    total = real(0.0)
    mean_a = wp.vec3d()
    mean_b = wp.vec3d()
    spread = wp.mat33d()
    for k in range(a.num + b.num):
        d = depth_of(face, a, b, k, ya, yb)
        g = wp.vec3d()
        w = wp.exp(-(d[3] - low) / t)
        total += w
        if is_whole and w > real(1.0e-30):
            if k < a.num:
                g = a.rot * slope(d)
                mean_a += w * g
                if k == 0 and a.kind > HULL:
                    spread -= (w * a.depth) * (a.rot * curvature(a, ya) * wp.transpose(a.rot))
            else:
                g = b.rot * slope(d)
                mean_b += w * g
                if k == a.num and b.kind > HULL:
                    spread -= (w * b.depth) * (b.rot * curvature(b, yb) * wp.transpose(b.rot))
            spread += (w / t) * wp.outer(g, g)
    out = Soft()
    out.value = low - t * wp.log(total)
    if is_whole:
        out.slope = (mean_a + mean_b) / total
        out.curve = spread / total - wp.outer(out.slope, out.slope) / t
        out.normal = mean_a - mean_b
    return out


@wp.func
def climb(face: wp.array[vec4], a: Side, b: Side, reach: wp.float64) -> Start:
    """Where the smaller depth is largest: inside both geoms, or in the gap between them.

    The weights of the pieces tend to the multipliers of the maximum; with them the gradients of A and B balance, and
    that common direction is the normal, also on edges and corners.
    """
    x = wp.vec3d()
    if a.radius < b.radius:
        x = a.pos
    # the centre of a round geom has no direction
    x += real(1.0e-2) * reach * wp.vec3d(real(0.3), real(0.5), real(0.8))
    t = _HOTTEST * reach
    n = wp.vec3d()
    count = int(0)
    while t > _COLDEST * reach:
        soft = soft_depth(face, a, b, x, t, True)
        n = soft.normal
        is_better = bool(False)
        if count < _NEWTON and wp.length(soft.slope) >= _BALANCED:
            damp = real(1.0e-6) / reach
            curve = soft.curve + wp.diag(wp.vec3d(damp, damp, damp))
            move = wp.inverse(curve) * soft.slope
            move *= wp.min(ONE, reach / wp.length(move))
            step = real(1.0)
            gain = real(1.0e-4) * wp.dot(soft.slope, move)
            while step > real(1.0e-4) and not is_better:
                trial = soft_depth(face, a, b, x + step * move, t, False)
                is_better = trial.value >= soft.value + step * gain
                if is_better:
                    x += step * move
                else:
                    step *= _HALF
        count += 1
        if not is_better:  # arrived at this temperature
            t *= _COOLING
            count = 0
    out = Start()
    out.x = x
    out.middle = x
    out.n = wp.normalize(n)
    out.is_found = True
    return out
