"""Contact surface of two convex geoms of which one is round: polar quadrature about a point inside.

The surface is a graph over the plane across an axis n: its height is where ``min(p_A, p_B)`` is largest along n. That
pressure is concave over the plane, so ``p >= level`` is convex and has one rim in each direction.

1. `start`: where the smaller of the two depths ``H e`` is largest, and n there.
2. RAYS directions find the rim; centroid, second moment and resultant of the patch give a new centre, stretch and n.
   Three times: a patch of 1:300, that of a thin rod, needs the third.
3. M directions from there, each with G Gauss points in the squared radius. Radii, weights and normals are those of
   sectors as RAYS directions with FINE points on each see them: a patch keeps its area, second moment and force.

Ahead of touch the rim is at ``level = min(0, p_max - margin g)``, g the steepest gradient of the pair.
"""

import numpy as np
import warp as wp

from stickslip.physics.convex.hydro.fields import (
    CAPSULE,
    CYLINDER,
    FLAT,
    ONE,
    ZERO,
    Fields,
    Side,
    compliance_of,
    curvature,
    piece,
    pressure,
    real,
    slope,
    steepest,
    vec4,
)
from stickslip.physics.convex.hydro.points import (
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
from stickslip.physics.convex.step.lanes import lane_sum
from stickslip.physics.mjwarp.lanes import sync

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

RAYS = 32
"""Least directions that measure a patch; a multiple of M is taken."""
FINE = 8
"""Gauss points on each of them."""

_COOLING = wp.constant(wp.float64(0.3))
_HOTTEST = wp.constant(wp.float64(0.3))
_COLDEST = wp.constant(wp.float64(1.0e-8))
_BALANCED = wp.constant(wp.float64(1.0e-3))
_NEWTON = wp.constant(8)
_ROOTS = wp.constant(60)
_GUESS = wp.constant(wp.float64(1.5))
_TIE = wp.constant(wp.float64(1.0e-9))
_INSIDE = wp.constant(wp.float64(0.97))
_SEEN = wp.constant(wp.float64(1.0e-9))
_NONE = wp.constant(wp.float64(-1.0e300))
_TAU = wp.constant(wp.float64(2.0 * np.pi))
_LEAST = wp.constant(wp.float64(1.0e-300))
_HALF = wp.constant(wp.float64(0.5))
_PASSES = wp.constant(3)
"""Most times that a patch is centred."""
_CENTRED = wp.constant(wp.float64(1.0e-3))
"""What a patch may be off its centre, in units of its radius, for its rays to be taken as they are."""


@wp.struct
class Rule:
    """Quadrature of a patch.

    Attributes:
        m, g: directions, and points on each
        rays: directions that measure, a multiple of m
        node, weight: of g points in the squared radius from 0 to 1    (g,)
        fine_node, fine_weight: of FINE points                         (FINE,)
    """

    m: int
    g: int
    rays: int
    node: wp.array[wp.float64]
    weight: wp.array[wp.float64]
    fine_node: wp.array[wp.float64]
    fine_weight: wp.array[wp.float64]


def rays_of(m: int) -> int:
    """Directions that measure a patch of m directions: the next multiple of m from RAYS on."""
    return m * -(-RAYS // m)


def make_rule(m: int, g: int) -> Rule:
    """M directions with G points on each."""
    rule = Rule()
    rule.m, rule.g, rule.rays = m, g, rays_of(m)
    for n, node, weight in ((g, "node", "weight"), (FINE, "fine_node", "fine_weight")):
        x, w = np.polynomial.legendre.leggauss(n)
        setattr(rule, node, wp.array(0.5 * (x + 1.0), dtype=wp.float64))
        setattr(rule, weight, wp.array(0.5 * w, dtype=wp.float64))
    return rule


@wp.struct
class Place:
    """The contact surface at a place.

    Attributes:
        p: pressure, Pa; far below any level where the line misses a rigid geom
        pos, normal: place, and normal into A
        a, b: gradients and values of the two pressures
        s: height along the axis, m
        is_seen: whether the line meets the surface
    """

    p: wp.float64
    pos: wp.vec3d
    normal: wp.vec3d
    a: vec4
    b: vec4
    s: wp.float64
    is_seen: bool


@wp.struct
class Start:
    """Where the climb ended, and the normal into A."""

    x: wp.vec3d
    n: wp.vec3d


@wp.struct
class Soft:
    """The soft minimum of all depths: value, slope, curvature, and the weighted slopes of A less those of B."""

    value: wp.float64
    slope: wp.vec3d
    curve: wp.mat33d
    normal: wp.vec3d


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
                if k == 0 and a.kind != FLAT:
                    spread -= (w * a.depth) * (a.rot * curvature(a, ya) * wp.transpose(a.rot))
            else:
                g = b.rot * slope(d)
                mean_b += w * g
                if k == a.num and b.kind != FLAT:
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
def start(face: wp.array[vec4], a: Side, b: Side, reach: wp.float64) -> Start:
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
    out.n = wp.normalize(n)
    return out


@wp.func
def surface(
    face: wp.array[vec4], a: Side, b: Side, reach: wp.float64, x: wp.vec3d, n: wp.vec3d, guess: wp.float64
) -> Place:
    """The surface above x: where ``min(p_A, p_B)`` is largest along n, starting from a guess of the height.

    The slope of the smaller field tells the side, so the bracket holds always; Newton's method for ``p_A - p_B = 0``
    gives the next guess. A rigid geom's field is zero on its surface: the root is that of its extent.
    """
    low = -reach
    high = reach
    s = wp.clamp(guess, low, high)
    out = Place()
    is_done = bool(False)
    count = int(0)
    while not is_done:
        y = x + s * n
        va = pressure(face, a, y)
        vb = pressure(face, b, y)
        da = wp.dot(slope(va), n)
        db = wp.dot(slope(vb), n)
        is_of_a = bool(False)
        gap = real(0.0)
        rate = real(0.0)
        if a.rigid:
            is_of_a = va[3] < ZERO
            gap = va[3]
            rate = da
        elif b.rigid:
            is_of_a = vb[3] >= ZERO
            gap = -vb[3]
            rate = -db
        else:
            is_of_a = va[3] < vb[3]
            gap = va[3] - vb[3]
            rate = da - db
        up = db - _TIE * wp.length(slope(vb))
        if is_of_a:
            up = da + _TIE * wp.length(slope(va))
        if up > ZERO:
            low = s
        else:
            high = s
        to = _HALF * (low + high)
        if rate > ZERO:
            newton = s - gap / rate
            if newton >= low and newton <= high:
                to = newton
        count += 1
        if wp.abs(to - s) <= real(1.0e-12) * reach or count >= _ROOTS:
            is_done = True
            out.s = s
            out.pos = y
            out.a = va
            out.b = vb
        s = to
    w = slope(out.a) - slope(out.b)
    out.is_seen = True
    out.p = wp.min(out.a[3], out.b[3])
    if a.rigid:
        out.is_seen = out.a[3] >= -_SEEN
        out.p = out.b[3]
        w = slope(out.a)
    elif b.rigid:
        out.is_seen = out.b[3] >= -_SEEN
        out.p = out.a[3]
        w = -slope(out.b)
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
            along_a = wp.dot(slope(at.a), way)
            along_b = wp.dot(slope(at.b), way)
            up_a = wp.dot(slope(at.a), n)
            up_b = wp.dot(slope(at.b), n)
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


@wp.func
def first_axis(a: Side, b: Side, n: wp.vec3d) -> wp.vec3d:
    """A unit vector across n, along the longest shadow of an axis of a cylinder or a capsule.

    On a long patch the directions must lie along it. Where no axis helps, the patch is round and any will do.
    """
    first = wp.vec3d(ONE, ZERO, ZERO)
    if wp.abs(n[1]) < wp.abs(n[0]):
        first = wp.vec3d(ZERO, ONE, ZERO)
    if wp.abs(n[2]) < wp.min(wp.abs(n[0]), wp.abs(n[1])):
        first = wp.vec3d(ZERO, ZERO, ONE)
    longest = real(1.0e-6)
    if a.kind == CYLINDER or a.kind == CAPSULE:
        axis = wp.vec3d(a.rot[0, 2], a.rot[1, 2], a.rot[2, 2])
        shadow = wp.length(axis - n * wp.dot(n, axis))
        if shadow > longest:
            first = axis
            longest = shadow
    if b.kind == CYLINDER or b.kind == CAPSULE:
        axis = wp.vec3d(b.rot[0, 2], b.rot[1, 2], b.rot[2, 2])
        if wp.length(axis - n * wp.dot(n, axis)) > longest:
            first = axis
    return wp.normalize(first - n * wp.dot(n, first))


@wp.func
def root(second: wp.mat22d) -> wp.mat22d:
    """Symmetric square root of a symmetric matrix."""
    det = wp.sqrt(wp.max(second[0, 0] * second[1, 1] - second[0, 1] * second[1, 0], ZERO))
    trace = second[0, 0] + second[1, 1] + real(2.0) * det
    return (second + det * wp.identity(n=2, dtype=wp.float64)) / wp.sqrt(wp.max(trace, real(1.0e-300)))


@wp.func
def load(at: Place, flat: wp.float64, n: wp.vec3d, level: wp.float64) -> wp.vec3d:
    """Pressure over the level, times area and normal."""
    if not at.is_seen:
        return wp.vec3d()
    return (at.p - level) * flat / wp.max(wp.dot(at.normal, n), _TIE) * at.normal


@wp.func
def ray_load(
    face: wp.array[vec4],
    a: Side,
    b: Side,
    reach: wp.float64,
    rule: Rule,
    x: wp.vec3d,
    n: wp.vec3d,
    way: wp.vec3d,
    r: wp.float64,
    level: wp.float64,
) -> wp.vec3d:
    """Load of a ray, by FINE points."""
    total = wp.vec3d()
    s = real(0.0)
    for k in range(FINE):
        at = surface(face, a, b, reach, x + r * wp.sqrt(rule.fine_node[k]) * way, n, s)
        s = at.s
        total += load(at, _HALF * r * r * rule.fine_weight[k], n, level)
    return total


@wp.func
def make_polar(
    fields: Fields, rule: Rule, sink: Sink, patches: Patches, given: Patch, block: int, lane: int, nlane: int
):
    """The points of one patch; its rays go to the scratch of the block."""
    patch = given
    a = patch.a
    b = patch.b
    reach = real(2.0) * (wp.min(a.radius, b.radius) + patch.margin)
    begun = start(fields.face, a, b, reach)
    x = begun.x
    n = begun.n
    u = wp.vec3d()
    v = wp.vec3d()
    ahead = patch.margin * steepest(a, b)
    level = real(0.0)
    stretch = real(0.1) * reach * wp.identity(n=2, dtype=wp.float64)
    for count in range(_PASSES + 1):
        top = surface(fields.face, a, b, reach, x, n, ZERO)
        x = top.pos
        if count == 0:
            if top.p <= -ahead:
                return
            level = wp.min(ZERO, top.p - ahead)
        u = first_axis(a, b, n)
        v = wp.cross(n, u)
        sum_r = wp.vec3d()  # of r^2, and of r^3 times the direction
        sum_rr = wp.vec3d()  # of r^4 times its square
        turned = wp.vec3d()
        for k in range(lane, rule.rays, nlane):
            angle = _TAU * real(k) / real(rule.rays)
            c = wp.cos(angle)
            d = wp.sin(angle)
            e = stretch * wp.vec2d(c, d)
            way = e[0] * u + e[1] * v
            r = rim(fields.face, a, b, reach, x, n, way, level)
            carried = ray_load(fields.face, a, b, reach, rule, x, n, way, r, level)
            patches.ray[block, k] = wp.vec4d(r, carried[0], carried[1], carried[2])
            rr = r * r
            sum_r += wp.vec3d(rr, rr * r * c, rr * r * d)
            sum_rr += rr * rr * wp.vec3d(c * c, c * d, d * d)
            turned += carried
        if count == _PASSES:
            break
        sum_r = lane_sum(sum_r, nlane)
        sum_rr = lane_sum(sum_rr, nlane)
        turned = wp.normalize(lane_sum(turned, nlane))
        area = _HALF * sum_r[0]
        mean = wp.vec2d(sum_r[1], sum_r[2]) / (real(3.0) * area)
        xx = sum_rr[0] / (real(4.0) * area) - mean[0] * mean[0]
        xy = sum_rr[1] / (real(4.0) * area) - mean[0] * mean[1]
        yy = sum_rr[2] / (real(4.0) * area) - mean[1] * mean[1]
        # a patch that is centred and stretched to the unit circle, about its normal
        off = wp.max(wp.max(wp.abs(mean[0]), wp.abs(mean[1])), wp.length(wp.cross(n, turned)))
        off = wp.max(off, wp.max(wp.abs(xy), wp.max(wp.abs(xx - real(0.25)), wp.abs(yy - real(0.25)))))
        if off < _CENTRED:
            break
        move = stretch * mean
        x += move[0] * u + move[1] * v
        n = turned
        # the second moment in the old frame, seen in the new one
        second = stretch * wp.mat22d(xx, xy, xy, yy) * wp.transpose(stretch)
        new_u = first_axis(a, b, n)
        new_v = wp.cross(n, new_u)
        turn = wp.mat22d(wp.dot(new_u, u), wp.dot(new_u, v), wp.dot(new_v, u), wp.dot(new_v, v))
        stretch = real(2.0) * root(turn * second * wp.transpose(turn))
    sync(nlane)

    room = reserve(patches, sink, rule.m * rule.g, lane, nlane)
    patch.adr = room[0]
    patch.fits = room[1] > 0
    sums = Sums()
    every = rule.rays // rule.m
    half = every // 2
    jacobian = _TAU / real(rule.m) * wp.determinant(stretch)
    outermost = wp.sqrt(rule.node[rule.g - 1])
    for k in range(lane, rule.m, nlane):
        # means over the sector; rays on a border belong to two
        square = real(0.0)
        fourth = real(0.0)
        sector = wp.vec3d()
        for o in range(-half, half + 1):
            share = real(1.0) / real(every)
            if every % 2 == 0 and wp.abs(o) == half:
                share *= _HALF
            ray = patches.ray[block, (k * every + o + rule.rays) % rule.rays]
            rr = ray[0] * ray[0]
            square += share * rr
            fourth += share * rr * rr
            sector += share * wp.vec3d(ray[1], ray[2], ray[3])
        own = patches.ray[block, k * every][0]
        r = wp.min(wp.sqrt(fourth / wp.max(square, _LEAST)), wp.max(ONE, _INSIDE / outermost) * own)
        angle = _TAU * real(k) / real(rule.m)
        e = stretch * wp.vec2d(wp.cos(angle), wp.sin(angle))
        way = e[0] * u + e[1] * v
        loads = wp.vec3d()
        lengths = real(0.0)
        ratio = real(0.0)
        bend = wp.vec3d()
        s = real(0.0)
        # first the load of the points themselves; then they are written with what brings it to that of the sector
        for i in range(2 * rule.g):
            q = i % rule.g
            if i == rule.g:
                ratio = wp.length(sector) / wp.max(wp.length(loads), _LEAST)
                if ratio > ZERO and lengths > ZERO:
                    bend = (sector / ratio - loads) / lengths
            at = surface(fields.face, a, b, reach, x + r * wp.sqrt(rule.node[q]) * way, n, s)
            s = at.s
            flat = _HALF * square * rule.weight[q]
            if i < rule.g:
                one = load(at, flat, n, level)
                loads += one
                lengths += wp.length(one)
            else:
                normal = at.normal + bend
                length = wp.length(normal)
                normal = normal / length
                weight = jacobian * flat / wp.max(wp.dot(at.normal, n), _TIE) * length * ratio
                p = at.p
                if not at.is_seen:
                    p = level
                    weight = real(0.0)
                sums = add_point(
                    patches,
                    sink,
                    patch,
                    sums,
                    k * rule.g + q,
                    weight,
                    at.pos,
                    normal,
                    p,
                    compliance_of(a, slope(at.a), normal),
                    compliance_of(b, -slope(at.b), normal),
                )
    end_patch(patches, sink, patch, sums, lane, nlane)


@wp.kernel
def make_polars(
    # Model:
    fields: Fields,
    blend: Blend,
    rule: Rule,
    pairs: Pairs,
    # In:
    nblock: int,
    nlane: int,
    # Out:
    sink: Sink,
    patches: Patches,
):
    """The patches of round geoms: one pair for each block of lanes, one direction for each lane."""
    block, lane = wp.tid()
    ncell = wp.min(patches.count[0], patches.ncellmax)
    for s in range(block, wp.min(patches.count[1], patches.npolarmax), nblock):
        patch = begin_patch(fields, blend, pairs, sink, patches.polars[s], ncell + s)
        make_polar(fields, rule, sink, patches, patch, block, lane, nlane)
        sync(nlane)
