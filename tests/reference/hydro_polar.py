"""Contact surface of two convex geoms of which one is round, by polar quadrature.

The surface is a graph over the plane across an axis n: at each place of the plane, its height is where
``min(p_A, p_B)`` is largest along n. That pressure is concave over the plane, so ``p >= level`` is a convex region and
has one rim in each direction. A patch has M directions and G Gauss points in the squared radius on each: always M x G
points. They move smoothly with the pose.

1. `start`: a place inside both geoms, or in the gap between them, and n there.
2. `SCOUTS` directions find the rim; centroid, second moment and resultant of that region give a new centre, stretch
   and n. Up to six times, as a patch with corners or one of 1:300, that of a thin rod, needs.
3. M directions from there, ``u_k`` on the unit circle stretched by twice the square root of the second moment: an
   ellipse becomes a circle.
4. Radii, weights and normals of each direction are adjusted so that its points have the area and the second moment of
   its sector and carry its force, as RAYS directions with FINE points on each see it. Two points do not see a
   pressure that is flat and then falls near the rim (a cap, the ends of a capsule), and 8 directions do not see the
   corners of a rectangle. Planes, spheres and ellipsoids have neither, and SMOOTH_RAYS will do.

Ahead of touch: the rim is at ``level = min(0, p_start - margin g)``, g the steepest gradient of the pair. So the patch
is never smaller than that of a depth of `margin`. A shallower one has points with p0 < 0 near its rim, and its force,
the sum over points with p0 > 0, is coarser.
"""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from tests.reference.hydro_cells import root
from tests.reference.hydro_fields import Array, Geom, Pose, curvatures, pieces, pressure, steepest
from tests.reference.hydro_points import Points, make, none

COOLING = 0.3
"""Factor between two temperatures of the soft minimum."""
HOTTEST = 0.3
COLDEST = 1e-8
"""First and last temperature, in units of the reach."""
NEWTON = 8
"""Most steps of Newton's method at one temperature."""
BALANCED = 1e-3
"""Sum of the weighted slopes, each about 1, at which the next temperature comes."""
ROOTS = 60
"""Most steps of a safeguarded Newton's method in one variable; it stops when all lanes have arrived."""
GUESS = 1.5
"""First guess of the rim, in units of the stretch."""
RAYS, SMOOTH_RAYS, SCOUTS = 32, 8, 32
"""Directions that measure a patch, at least; one without edges or flat parts; and one that is not centred yet."""
FINE, SMOOTH_FINE, SCOUT_FINE = 8, 4, 2
"""Gauss points on each of them."""
CENTRED = 1e-3
"""What a patch may be off its centre, in units of its radius, to be taken as it is."""
TIE = 1e-9
"""Slope, as a share of the gradient, at which a field is level along n, as that of a flank is, and the root decides."""
STEEP = 0.1
"""Least cosine between the normal of a place and that of the patch: a wall is not seen from above."""
INSIDE = 0.97
"""Farthest radius of a point, in units of the rim on its own direction."""
SEEN = 1e-9
"""Extent of a rigid geom that counts as its surface."""
RULE = (8, 2)
"""M and G. More directions do not help, as sectors are measured with RAYS of them; G = 3 helps torsion: 3 to 1 %."""


@dataclasses.dataclass(frozen=True)
class Pair:
    """Two geoms in one frame; `reach` is a length that the patch is within, m."""

    a: Geom
    pose_a: Pose
    b: Geom
    pose_b: Pose
    reach: float


# where to start


def start(pair: Pair) -> tuple[Array, Array]:
    """Where the smaller of the two depths ``H e`` is largest, and the normal into A there.

    If the geoms overlap, that place is inside both, whatever their moduli; the pressures themselves differ in slope by
    orders of magnitude, and a climb on them gets stuck. The minimum over all pieces is softened,
    ``-t log sum exp(-d_i/t)``, which is smooth and concave, and climbed by Newton's method while t falls. The weights
    of the pieces tend to the multipliers of the maximum: with them the gradients of A and of B balance, and that common
    direction is the normal, also on edges and corners.
    """
    sides = ((pair.a, pair.pose_a), (pair.b, pair.pose_b))

    def depths(x: Array) -> tuple[Array, Array, Array, int]:
        v, g, h = [], [], []
        for geom, pose in sides:
            local = (x - pose.pos) @ pose.rot
            values, gradients = pieces(geom, local)
            v.append(geom.depth * values)
            g.append(geom.depth * gradients @ pose.rot.T)
            h.append(geom.depth * pose.rot @ curvatures(geom, local) @ pose.rot.T)
        return np.concatenate(v), np.concatenate(g), np.concatenate(h), len(v[0])

    def soft(v: Array, t: float) -> tuple[float, Array]:
        low = v.min()
        w = np.exp(-(v - low) / t)
        return float(low - t * np.log(w.sum())), w / w.sum()

    x = (pair.pose_a if pair.a.radius < pair.b.radius else pair.pose_b).pos.copy()
    x = x + 1e-2 * pair.reach * np.array([0.3, 0.5, 0.8])  # the centre of a round geom has no direction
    v, g, h, split = depths(x)
    t = HOTTEST * pair.reach
    while t > COLDEST * pair.reach:
        for _ in range(NEWTON):
            value, w = soft(v, t)
            slope = w @ g
            if np.linalg.norm(slope) < BALANCED:
                break
            spread = g - slope
            curve = np.einsum("i,ij,ik->jk", w, spread, spread) / t - np.einsum("i,ijk->jk", w, h)
            move = np.linalg.solve(curve + 1e-6 / pair.reach * np.eye(3), slope)
            move *= min(1.0, pair.reach / float(np.linalg.norm(move)))
            step = 1.0
            while step > 1e-4:
                trial = depths(x + step * move)
                if soft(trial[0], t)[0] >= value + 1e-4 * step * float(slope @ move):
                    x, (v, g, h, split) = x + step * move, trial
                    break
                step *= 0.5
        t *= COOLING
    w = soft(v, t / COOLING)[1]
    n = w[:split] @ g[:split] - w[split:] @ g[split:]
    return x, n / np.linalg.norm(n)


def start_of_cylinder(pair: Pair) -> tuple[Array, Array, Array, Array]:
    """Of a cylinder on a plane, in closed form: deepest place, middle, normal into the plane, and half sizes (2,).

    A patch with corners depends on its centre, which is known to `CENTRED` only: so both start at one place. In the
    section through the axis and across the plane, the cylinder is a rectangle, cut by the line of the plane.
    """
    up, (big, half) = pair.pose_a.rot[:, 2], pair.b.size[:2]
    centre, axis = pair.pose_b.pos, pair.pose_b.rot[:, 2]
    height = float(up @ (centre - pair.pose_a.pos))
    axis = axis if up @ axis < 0.0 else -axis
    axial = float(-up @ axis)
    radial = float(np.sqrt(max(0.0, 1.0 - axial**2)))
    down = (-up - axial * axis) / radial if radial > 0.0 else np.zeros(3)
    deepest = min((big * radial + half * axial - height) / (radial + axial), big, half)
    x = centre + (big - deepest) * down + (half - deepest) * axis
    if deepest <= 0.0:
        return x, x, -up, np.zeros(2)
    if radial >= axial:
        low = np.clip((height - radial * big) / axial, -half, half) if axial > 0.0 else -half
        z = 0.5 * (low + half)
        q, along = (height - axial * z) / radial, 0.5 * (half - low) / radial
    else:
        low = np.clip((height - axial * half) / radial, -big, big) if radial > 0.0 else -big
        q = 0.5 * (low + big)
        z, along = (height - radial * q) / axial, 0.5 * (big - low) / axial
    return x, centre + q * down + z * axis, -up, np.array([along, np.sqrt(max(0.0, big**2 - q**2))])


# one lane: height and rim


def height(pair: Pair, x: Array, n: Array, s: Array) -> Array:
    """Where ``min(p_A, p_B)`` is largest along n from x (m, 3), starting from s (m,).

    The slope of the smaller field tells the side (the minimum is concave), so the bracket holds always. Newton's method
    for ``p_A - p_B = 0`` gives the next guess, the middle where that leaves the bracket. A rigid geom's field is zero
    on its surface and infinitely steep: the root is that of its extent.
    """
    low, high = np.full(len(x), -pair.reach), np.full(len(x), pair.reach)
    s = np.clip(s, low, high)
    for _ in range(ROOTS):
        y = x + s[:, None] * n
        (va, ga), (vb, gb) = pressure(pair.a, pair.pose_a, y), pressure(pair.b, pair.pose_b, y)
        da, db = ga @ n, gb @ n
        if pair.a.rigid:
            of_a, gap, rate = va < 0.0, va, da
        elif pair.b.rigid:
            of_a, gap, rate = vb >= 0.0, -vb, -db
        else:
            of_a, gap, rate = va < vb, va - vb, da - db
        up = np.where(of_a, da + TIE * np.linalg.norm(ga, axis=-1), db - TIE * np.linalg.norm(gb, axis=-1)) > 0.0
        low, high = np.where(up, s, low), np.where(up, high, s)
        guess = s - gap / np.where(rate > 0.0, rate, np.inf)
        good = (rate > 0.0) & (guess >= low) & (guess <= high)
        guess = np.where(good, guess, 0.5 * (low + high))
        arrived = np.abs(guess - s) <= 1e-12 * pair.reach
        s = guess
        if arrived.all():
            break
    return s


@dataclasses.dataclass(frozen=True)
class Surface:
    """The contact surface at some places (m,).

    Attributes:
        p: pressure, Pa.
        pos: m, (m, 3).
        normal: into A, (m, 3).
        grad_a, grad_b: gradients of the two pressures, (m, 3).
        s: heights, m.
        seen: whether the line meets the surface; beside a rigid geom it does not, and p is below any level.
    """

    p: Array
    pos: Array
    normal: Array
    grad_a: Array
    grad_b: Array
    s: Array
    seen: NDArray[np.bool_]


def surface(pair: Pair, x: Array, n: Array, s: Array) -> Surface:
    """At the places of the surface above x (m, 3)."""
    s = height(pair, x, n, s)
    y = x + s[:, None] * n
    (va, ga), (vb, gb) = pressure(pair.a, pair.pose_a, y), pressure(pair.b, pair.pose_b, y)
    if pair.a.rigid:
        seen, p, w = va >= -SEEN, vb, ga
    elif pair.b.rigid:
        seen, p, w = vb >= -SEEN, va, -gb
    else:
        seen, p, w = np.ones(len(s), dtype=bool), np.minimum(va, vb), ga - gb
    w = w / np.maximum(np.linalg.norm(w, axis=-1, keepdims=True), 1e-300)
    return Surface(np.where(seen, p, -np.inf), y, w, ga, gb, s, seen)


def rim(pair: Pair, x: Array, n: Array, ways: Array, level: float, s: float) -> Array:
    """How far along each of `ways` (m, 3) from x (3,) the pressure falls to the level, in units of the way.

    A tangent of a concave function is above it. So Newton's method goes outside in one step and comes down on the root
    from there; the bracket is for the ends of a rigid geom, where the pressure jumps.
    """
    far = 2.0 * pair.reach / np.linalg.norm(ways, axis=-1)
    low, high = np.zeros(len(ways)), far
    r, heights = np.minimum(far, GUESS), np.full(len(ways), s)
    for _ in range(ROOTS):
        at_r = surface(pair, x + r[:, None] * ways, n, heights)
        heights = at_r.s
        over = at_r.p - level
        along = [(g * ways).sum(axis=-1) for g in (at_r.grad_a, at_r.grad_b)]
        up = [at_r.grad_a @ n, at_r.grad_b @ n]
        with np.errstate(divide="ignore", invalid="ignore"):
            if pair.a.rigid:
                rate = along[1] - up[1] * along[0] / up[0]
            elif pair.b.rigid:
                rate = along[0] - up[0] * along[1] / up[1]
            else:
                rate = along[0] - up[0] * (along[0] - along[1]) / (up[0] - up[1])
            low, high = np.where(over >= 0.0, r, low), np.where(over >= 0.0, high, r)
            guess = r - over / rate
        good = at_r.seen & (rate < 0.0) & (guess >= low) & (guess <= high)
        guess = np.where(good, guess, 0.5 * (low + high))
        arrived = np.abs(guess - r) <= 1e-9 * far
        r = guess
        if arrived.all():
            break
    return r


# the patch


def frame(pair: Pair, n: Array) -> Array:
    """Two unit vectors across n, (2, 3), the first along the longest shadow of an axis of a cylinder or a capsule.

    On a long patch the directions must lie along it. Where no axis helps, the patch is round and any frame will do.
    """
    first = np.eye(3)[np.abs(n).argmin()]
    longest = 1e-6
    for geom, pose in ((pair.a, pair.pose_a), (pair.b, pair.pose_b)):
        axis = pose.rot[:, 2]
        shadow = float(np.linalg.norm(axis - n * (n @ axis)))
        if geom.shape in ("cylinder", "capsule") and shadow > longest:
            first, longest = axis, shadow
    t = first - n * (n @ first)
    t /= np.linalg.norm(t)
    return np.stack([t, np.cross(n, t)])


def is_smooth(pair: Pair, x: Array, radius: float) -> bool:
    """Whether neither field has an edge within a radius of x: all depths are 1-Lipschitz."""
    for geom, pose in ((pair.a, pair.pose_a), (pair.b, pair.pose_b)):
        local = (x - pose.pos) @ pose.rot
        if geom.shape == "capsule":
            clear = abs(abs(local[2]) - geom.size[1])
        else:
            depths = np.sort(geom.depth * pieces(geom, local)[0])
            clear = 0.5 * (depths[1] - depths[0]) if len(depths) > 1 else np.inf
        if clear < radius:
            return False
    return True


def circle(m: int) -> Array:
    """Unit vectors (m, 2)."""
    angles = 2.0 * np.pi * np.arange(m) / m
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def patch(pair: Pair, m: int, g: int, margin: float = 0.0, passes: int = 6) -> Points:
    """M x G points, or none if the geoms are farther apart than the margin."""
    size = np.zeros(2)
    if pair.a.shape == "plane" and pair.b.shape == "cylinder":
        x, middle, n, size = start_of_cylinder(pair)
    else:
        x, n = start(pair)
        middle = x
    top = surface(pair, x[None], n, np.zeros(1))
    ahead = margin * steepest(pair.a, pair.b)
    if top.p[0] <= -ahead:
        return none()
    level = min(0.0, float(top.p[0]) - ahead)
    x = surface(pair, middle[None], n, np.zeros(1)).pos[0]
    stretch = np.diag(size) if size.all() else 0.1 * pair.reach * np.eye(2)
    smooth = is_smooth(pair, x, pair.reach)
    for _ in range(passes):
        across = frame(pair, n)
        u = circle(m * -(-SMOOTH_RAYS // m) if smooth else SCOUTS)
        r = rim(pair, x, n, u @ stretch.T @ across, level, 0.0)
        area = (r**2).sum() / 2.0
        mean = (r**3) @ u / 3.0 / area
        second = (u.T * r**4) @ u / 4.0 / area - np.outer(mean, mean)
        inner, flat = _on_ways(pair, x, n, u @ stretch.T @ across, r, SMOOTH_FINE if smooth else SCOUT_FINE)
        turned = _loads(inner, flat, n, level).sum(axis=0)
        turned /= np.linalg.norm(turned)
        off = max(np.abs(mean).max(), np.linalg.norm(np.cross(n, turned)), np.abs(second - 0.25 * np.eye(2)).max())
        if off < CENTRED and smooth:
            break
        radius = float((r * np.linalg.norm(u @ stretch.T @ across, axis=1)).max())
        smooth, was = smooth or is_smooth(pair, x, radius), smooth
        x = x + stretch @ mean @ across
        x = surface(pair, x[None], turned, np.zeros(1)).pos[0]
        # the second moment in the old frame, as a matrix of the space, seen in the new one
        moment = across.T @ stretch @ second @ stretch.T @ across
        n = turned
        new_across = frame(pair, n)
        stretch = 2.0 * root(new_across @ moment @ new_across.T)
        if off < CENTRED and smooth == was:
            break
    every, fine_points = (-(-SMOOTH_RAYS // m), SMOOTH_FINE) if smooth else (-(-RAYS // m), FINE)
    ways = circle(m * every) @ stretch.T @ frame(pair, n)
    r = rim(pair, x, n, ways, level, 0.0)
    fine, flat = _on_ways(pair, x, n, ways, r, fine_points)
    carried = _loads(fine, flat, n, level).reshape(m * every, fine_points, 3).sum(axis=1)
    sector = _sectors(carried, every)

    # radii and areas of the sectors, not of single rays: those through corners are long; but all points stay inside
    square = _sectors(r**2, every)
    outermost = np.sqrt(0.5 * (np.polynomial.legendre.leggauss(g)[0].max() + 1.0))
    r = np.minimum(np.sqrt(_sectors(r**4, every) / square), max(1.0, INSIDE / outermost) * r[::every])
    found, flat = _on_ways(pair, x, n, ways[::every], r, g)
    flat = flat * np.repeat(square / r**2, g)
    loads = _loads(found, flat, n, level).reshape(m, g, 3)
    sums = loads.sum(axis=1)
    ratio = np.linalg.norm(sector, axis=-1) / np.linalg.norm(sums, axis=-1)
    turn = (sector / ratio[:, None] - sums) / np.linalg.norm(loads, axis=-1).sum(axis=1)[:, None]
    normal = found.normal + np.repeat(turn, g, axis=0)
    length = np.linalg.norm(normal, axis=-1)
    weight = (
        (2.0 * np.pi / m)
        * float(np.linalg.det(stretch))
        * flat
        / np.maximum(found.normal @ n, STEEP)
        * length
        * np.repeat(ratio, g)
    )
    return make(pair.a, pair.b, weight, found.pos, normal / length[:, None], found.p, found.grad_a, found.grad_b)


def _on_ways(pair: Pair, x: Array, n: Array, ways: Array, r: Array, g: int) -> tuple[Surface, Array]:
    """The surface at g Gauss points in the squared radius on each way, and their shares of ``r dr``, (m g,)."""
    nodes, shares = np.polynomial.legendre.leggauss(g)
    radii = r[:, None] * np.sqrt(0.5 * (nodes + 1.0))
    found = surface(pair, (x + radii[..., None] * ways[:, None]).reshape(-1, 3), n, np.zeros(radii.size))
    return found, (0.25 * r[:, None] ** 2 * shares).reshape(-1)


def _loads(found: Surface, flat: Array, n: Array, level: float) -> Array:
    """Pressure over the level, times area and normal, (m, 3)."""
    return ((found.p - level) * flat / np.maximum(found.normal @ n, STEEP))[:, None] * found.normal


def _sectors(values: Array, every: int) -> Array:
    """Means over the sectors of every so many directions: those on a border belong to two."""
    half = every // 2
    mean = np.zeros_like(values[::every])
    for o in range(-half, half + 1):
        share = 0.5 if every % 2 == 0 and abs(o) == half else 1.0
        mean += share / every * np.roll(values, -o, axis=0)[::every]
    return mean


def points(a: Geom, pose_a: Pose, b: Geom, pose_b: Pose, margin: float = 0.0, rule: tuple[int, int] = RULE) -> Points:
    """Of the patch between A and B; `rule` is (M, G)."""
    if (a.flat and b.flat) or (a.rigid and b.rigid):
        raise ValueError(f"no polar patch between {a.shape} and {b.shape}: one must be round, and one compliant")
    pair = Pair(a, pose_a, b, pose_b, 2.0 * (min(a.radius, b.radius) + margin))
    return patch(pair, *rule, margin)
