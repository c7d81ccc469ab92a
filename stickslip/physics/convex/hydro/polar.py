"""Contact surface of two convex geoms of which one is round: polar quadrature about a point inside.

1. `start`: a place inside the patch, and the normal n there.
2. Directions across n find the rim; centroid, second moment and resultant of the patch give a new centre, stretch and
   n. Up to six times, as a patch with corners or one of 1:300, that of a thin rod, needs.
3. M directions from there, each with G Gauss points in the squared radius. Radii, weights and normals are those of
   sectors as more directions with more points on each see them: a patch keeps its area, second moment and force.

Ahead of touch the rim is at ``level = min(0, p_max - margin g)``, g the steepest gradient of the pair.
"""

import numpy as np
import warp as wp

from stickslip.physics.convex.hydro.fields import (
    CAPSULE,
    CYLINDER,
    ONE,
    ZERO,
    Fields,
    Side,
    clearance,
    compliance_of,
    real,
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
from stickslip.physics.convex.hydro.start import start
from stickslip.physics.convex.hydro.surface import Place, rim, surface
from stickslip.physics.convex.step.lanes import lane_max, lane_sum
from stickslip.physics.mjwarp.lanes import sync

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

LANES = 8
"""Lanes of a patch on CUDA."""
RAYS, SMOOTH_RAYS, SCOUTS = 32, 8, 32
"""Directions that measure a patch, at least; one without edges or flat parts; and one that is not centred yet."""
FINE, SMOOTH_FINE, SCOUT_FINE = 8, 4, 2
"""Gauss points on each of them."""

_STEEP = wp.constant(wp.float64(0.1))
"""Least cosine between the normal of a place and that of the patch: a wall is not seen from above."""
_INSIDE = wp.constant(wp.float64(0.97))
_TAU = wp.constant(wp.float64(2.0 * np.pi))
_LEAST = wp.constant(wp.float64(1.0e-300))
_HALF = wp.constant(wp.float64(0.5))
_PASSES = wp.constant(6)
"""Most times that a patch is centred."""
_CENTRED = wp.constant(wp.float64(1.0e-3))
"""What a patch may be off its centre, in units of its radius, for its rays to be taken as they are."""


@wp.struct
class Measure:
    """Directions that measure a patch, and where the Gauss points on each are in the lists of the rule."""

    rays: int
    first: int
    num: int


@wp.struct
class Rule:
    """Quadrature of a patch.

    Attributes:
        m, g: directions, and points on each
        whole, smooth, scout: how a patch is measured: any, one of smooth fields, and one that is not centred yet; of
            the first two, rays are multiples of m
        node, weight: of Gauss points in the squared radius from 0 to 1: g points, then those of the three measures
    """

    m: int
    g: int
    whole: Measure
    smooth: Measure
    scout: Measure
    node: wp.array[wp.float64]
    weight: wp.array[wp.float64]


def rays_of(m: int, least: int = RAYS) -> int:
    """Directions that measure a patch of m directions: the next multiple of m from the least on."""
    return m * -(-least // m)


def make_rule(m: int, g: int) -> Rule:
    """M directions with G points on each."""
    rule = Rule()
    rule.m, rule.g = m, g
    nodes, weights = [], []
    measures = {"whole": (rays_of(m), FINE), "smooth": (rays_of(m, SMOOTH_RAYS), SMOOTH_FINE)}
    for name, (rays, num) in {"": (m, g), **measures, "scout": (SCOUTS, SCOUT_FINE)}.items():
        if name:
            measure = Measure()
            measure.rays, measure.first, measure.num = rays, len(nodes), num
            setattr(rule, name, measure)
        x, w = np.polynomial.legendre.leggauss(num)
        nodes.extend(0.5 * (x + 1.0))
        weights.extend(0.5 * w)
    rule.node, rule.weight = wp.array(nodes, dtype=wp.float64), wp.array(weights, dtype=wp.float64)
    return rule


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
    return (at.p - level) * flat / wp.max(wp.dot(at.normal, n), _STEEP) * at.normal


@wp.func
def is_smooth(face: wp.array[vec4], a: Side, b: Side, x: wp.vec3d, radius: wp.float64) -> bool:
    """Whether neither field has an edge within a radius of x."""
    if clearance(face, b, x) < radius:
        return False
    return clearance(face, a, wp.transpose(a.rot) * (x - a.pos)) >= radius


@wp.func
def ray_load(
    face: wp.array[vec4],
    a: Side,
    b: Side,
    reach: wp.float64,
    rule: Rule,
    measure: Measure,
    x: wp.vec3d,
    n: wp.vec3d,
    way: wp.vec3d,
    r: wp.float64,
    level: wp.float64,
) -> wp.vec3d:
    """Load of a ray."""
    total = wp.vec3d()
    s = real(0.0)
    for k in range(measure.first, measure.first + measure.num):
        at = surface(face, a, b, reach, x + r * wp.sqrt(rule.node[k]) * way, n, s)
        s = at.s
        total += load(at, _HALF * r * r * rule.weight[k], n, level)
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
    n = begun.n
    ahead = patch.margin * steepest(a, b)
    top = surface(fields.face, a, b, reach, begun.x, n, ZERO)
    if top.p <= -ahead:
        return
    level = wp.min(ZERO, top.p - ahead)
    x = begun.middle
    u = wp.vec3d()
    v = wp.vec3d()
    stretch = real(0.1) * reach * wp.identity(n=2, dtype=wp.float64)
    round_off = wp.sqrt(real(2.0) * begun.radius * (top.p - level) / steepest(a, b))
    if begun.across + round_off > ZERO and begun.along + round_off > ZERO:
        stretch = wp.diag(wp.vec2d(begun.along + round_off, begun.across + round_off))
    smooth = is_smooth(fields.face, a, b, x, reach)
    measure = rule.scout
    if smooth:
        measure = rule.smooth
    passes = int(0)
    is_last = bool(False)
    is_done = bool(False)
    while not is_done:
        top = surface(fields.face, a, b, reach, x, n, ZERO)
        x = top.pos
        u = first_axis(a, b, n)
        v = wp.cross(n, u)
        sum_r = wp.vec3d()  # of r^2, and of r^3 times the direction
        sum_rr = wp.vec3d()  # of r^4 times its square
        turned = wp.vec3d()
        radius = real(0.0)
        for k in range(lane, measure.rays, nlane):
            angle = _TAU * real(k) / real(measure.rays)
            c = wp.cos(angle)
            d = wp.sin(angle)
            e = stretch * wp.vec2d(c, d)
            way = e[0] * u + e[1] * v
            r = rim(fields.face, a, b, reach, x, n, way, level)
            carried = ray_load(fields.face, a, b, reach, rule, measure, x, n, way, r, level)
            patches.ray[block, k] = wp.vec4d(r, carried[0], carried[1], carried[2])
            rr = r * r
            sum_r += wp.vec3d(rr, rr * r * c, rr * r * d)
            sum_rr += rr * rr * wp.vec3d(c * c, c * d, d * d)
            turned += carried
            radius = wp.max(radius, r * wp.length(way))
        if is_last:
            is_done = True
        else:
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
            passes += 1
            if off < _CENTRED and smooth:
                is_done = True
            else:
                move = stretch * mean
                x += move[0] * u + move[1] * v
                n = turned
                # the second moment in the old frame, seen in the new one
                second = stretch * wp.mat22d(xx, xy, xy, yy) * wp.transpose(stretch)
                new_u = first_axis(a, b, n)
                new_v = wp.cross(n, new_u)
                turn = wp.mat22d(wp.dot(new_u, u), wp.dot(new_u, v), wp.dot(new_v, u), wp.dot(new_v, v))
                stretch = real(2.0) * root(turn * second * wp.transpose(turn))
                if not smooth:
                    smooth = is_smooth(fields.face, a, b, top.pos, lane_max(wp.vec3d(radius), nlane)[0])
                    if smooth:
                        measure = rule.smooth
                is_last = passes == _PASSES or (off < _CENTRED and not smooth)
                if is_last and not smooth:
                    measure = rule.whole
    sync(nlane)

    room = reserve(patches, sink, rule.m * rule.g, lane, nlane)
    patch.adr = room[0]
    patch.fits = room[1] > 0
    sums = Sums()
    every = measure.rays // rule.m
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
            ray = patches.ray[block, (k * every + o + measure.rays) % measure.rays]
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
                weight = jacobian * flat / wp.max(wp.dot(at.normal, n), _STEEP) * length * ratio
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
                    compliance_of(a, at.a, normal),
                    compliance_of(b, -at.b, normal),
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
