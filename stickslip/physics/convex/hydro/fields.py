"""Pressure fields of geoms: concave functions that are positive inside.

The extent ``e(x)`` of a geom is 1 at its innermost place, 0 on its surface and negative outside; its pressure is
``p = E e``. Every extent is the minimum of smooth concave pieces:

* plane ``-z/H``; sphere ``(R - |x|)/H``; capsule ``(R - distance from its segment)/H``;
* ellipsoid ``(1 - |S^-1 x|) s/H``, S the half sizes and s the smallest of them;
* box, hull ``(b_i - a_i . x)/H`` for each face; cylinder ``(R - distance from its axis)/H`` and the two caps.
"""

import warp as wp

wp.set_module_options({"enable_backward": False})

real = wp.float64
vec4 = wp.types.vector(length=4, dtype=wp.float64)

PLANE = wp.constant(0)
BOX = wp.constant(1)
HULL = wp.constant(2)
SPHERE = wp.constant(3)
CAPSULE = wp.constant(4)
ELLIPSOID = wp.constant(5)
CYLINDER = wp.constant(6)
"""Kinds of fields; those up to HULL are flat."""

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
_TINY = wp.constant(wp.float64(1.0e-12))
"""Distance from an apex below which a direction is not defined, in units of the size."""
_APEX = wp.constant(wp.float64(1.0e-6))
"""The same of a curvature."""


@wp.struct
class Fields:
    """Fields of all geoms.

    Attributes:
        kind: as above; -1: none                                                 (ngeom,)
        geom_hydroelastic: the modulus E, Pa; 0: rigid, in all worlds            (*, ngeom)
        depth: H, m                                                              (ngeom,)
        size: MuJoCo's geom_size, m                                              (ngeom,)
        radius: of a sphere about the frame of the geom, m; large for a plane    (ngeom,)
        adr, num: pieces; of flat geoms, their faces                             (ngeom,)
        face: normal and offset, in the frame of the geom                        (nface,)
    """

    kind: wp.array[int]
    geom_hydroelastic: wp.array2d[float]
    depth: wp.array[wp.float64]
    size: wp.array[wp.vec3d]
    radius: wp.array[wp.float64]
    adr: wp.array[int]
    num: wp.array[int]
    face: wp.array[vec4]


@wp.struct
class Side:
    """A geom of a pair, at a pose in the frame of geom 1, which B itself is in.

    Attributes:
        kind, depth, size, radius, adr, num: as in `Fields`
        rigid: whether it has no modulus
        scale: what turns an extent into a pressure: E, Pa; 1 if rigid
        rot, pos: pose
    """

    kind: int
    rigid: bool
    scale: wp.float64
    depth: wp.float64
    size: wp.vec3d
    radius: wp.float64
    adr: int
    num: int
    rot: wp.mat33d
    pos: wp.vec3d


@wp.func
def side_of(fields: Fields, worldid: int, geom: int, rot: wp.mat33d, pos: wp.vec3d) -> Side:
    """A geom of a world at a pose."""
    modulus = real(fields.geom_hydroelastic[worldid % fields.geom_hydroelastic.shape[0], geom])
    s = Side()
    s.kind = fields.kind[geom]
    s.rigid = modulus == ZERO
    s.scale = wp.where(modulus == ZERO, ONE, modulus)
    s.depth = fields.depth[geom]
    s.size = fields.size[geom]
    s.radius = fields.radius[geom]
    s.adr = fields.adr[geom]
    s.num = fields.num[geom]
    s.rot = rot
    s.pos = pos
    return s


@wp.func
def outward(s: Side, y: wp.vec3d) -> wp.vec3d:
    """From the centre, the segment or the axis of a round shape to y."""
    out = y
    if s.kind == CAPSULE:
        out[2] = y[2] - wp.clamp(y[2], -s.size[1], s.size[1])
    elif s.kind == CYLINDER:
        out[2] = ZERO
    return out


@wp.func
def piece(face: wp.array[vec4], s: Side, k: int, y: wp.vec3d) -> vec4:
    """Gradient and value of a piece at y, in the frame of the geom."""
    over = ONE / s.depth
    if s.kind <= HULL:
        f = face[s.adr + k]
        return vec4(-f[0] * over, -f[1] * over, -f[2] * over, (f[3] - f[0] * y[0] - f[1] * y[1] - f[2] * y[2]) * over)
    if s.kind == ELLIPSOID:
        z = wp.cw_div(y, s.size)
        q = wp.max(wp.length(z), _TINY)
        scale = wp.min(s.size) * over
        g = -scale / q * wp.cw_div(z, s.size)
        return vec4(g[0], g[1], g[2], scale * (ONE - q))
    if k > 0:  # caps
        sign = wp.where(k == 1, ONE, -ONE)
        return vec4(ZERO, ZERO, -sign * over, (s.size[1] - sign * y[2]) * over)
    out = outward(s, y)
    distance = wp.max(wp.length(out), _TINY * s.size[0])
    g = -over / distance * out
    return vec4(g[0], g[1], g[2], (s.size[0] - distance) * over)


@wp.func
def curvature(s: Side, y: wp.vec3d) -> wp.mat33d:
    """Second derivative of the first piece, which is the only one that can be curved."""
    over = ONE / s.depth
    if s.kind == ELLIPSOID:
        z = wp.cw_div(y, s.size)
        q = wp.max(wp.length(z), _APEX)
        w = wp.cw_div(z, s.size)
        inverse = wp.vec3d(ONE / (s.size[0] * s.size[0]), ONE / (s.size[1] * s.size[1]), ONE / (s.size[2] * s.size[2]))
        return -wp.min(s.size) * over * (wp.diag(inverse) / q - wp.outer(w, w) / (q * q * q))
    out = outward(s, y)
    distance = wp.max(wp.length(out), _APEX * s.size[0])
    across = wp.vec3d(ONE, ONE, ONE)
    if s.kind == CYLINDER or (s.kind == CAPSULE and wp.abs(y[2]) < s.size[1]):
        across[2] = ZERO
    return -over / distance * (wp.diag(across) - wp.outer(out, out) / (distance * distance))


@wp.func
def pressure(face: wp.array[vec4], s: Side, y: wp.vec3d) -> vec4:
    """Gradient [Pa/m] and value [Pa] of the pressure at y, in the frame of the geom; of a rigid geom, its extent."""
    if s.kind == PLANE:
        return (s.scale / s.depth) * vec4(ZERO, ZERO, -ONE, -y[2])
    if s.kind == BOX:
        # the nearest face
        axis = int(0)
        least = s.size[0] - wp.abs(y[0])
        for i in range(1, 3):
            inside = s.size[i] - wp.abs(y[i])
            if inside < least:
                least = inside
                axis = i
        out = vec4(ZERO, ZERO, ZERO, least)
        out[axis] = wp.where(y[axis] < ZERO, ONE, -ONE)
        return (s.scale / s.depth) * out
    nearest = piece(face, s, 0, y)
    for k in range(1, s.num):
        other = piece(face, s, k, y)
        if other[3] < nearest[3]:
            nearest = other
    return s.scale * nearest


@wp.func
def clearance(face: wp.array[vec4], s: Side, y: wp.vec3d) -> wp.float64:
    """How far around y, in the frame of the geom, its field is one smooth function: away from edges, m."""
    if s.kind == CAPSULE:
        return wp.abs(wp.abs(y[2]) - s.size[1])
    least = real(1.0e300)
    second = real(1.0e300)
    for k in range(s.num):
        value = piece(face, s, k, y)[3]
        second = wp.min(second, wp.max(least, value))
        least = wp.min(least, value)
    return real(0.5) * s.depth * (second - least)


@wp.func
def slope(p: vec4) -> wp.vec3d:
    """The gradient of a pressure or a piece."""
    return wp.vec3d(p[0], p[1], p[2])


@wp.func
def compliance_of(s: Side, gradient: wp.vec3d, n: wp.vec3d) -> wp.float64:
    """1/g of one geom, for the normal n into it; 0 if rigid.

    Walls of the other geom can stand along the gradient: g would be 0 and -p/g without bound, so g has a floor.
    """
    if s.rigid:
        return ZERO
    return ONE / wp.max(wp.dot(gradient, n), real(1.0e-3) * wp.length(gradient))


@wp.func
def steepest(a: Side, b: Side) -> wp.float64:
    """Largest pressure gradient of a pair, two fields in series, Pa/m."""
    inverse = real(0.0)
    if not a.rigid:
        inverse += a.depth / a.scale
    if not b.rigid:
        inverse += b.depth / b.scale
    return ONE / inverse
