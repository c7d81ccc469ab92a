"""Pressure fields of geoms, float64.

The extent ``e(x)`` of a geom is 1 at its innermost place, 0 on its surface and negative outside. Its pressure is
``p = E e``, with the hydroelastic modulus E in Pa. Every extent is the minimum of smooth concave pieces, so it is
concave:

* plane ``-z/H``; sphere ``(R - |x|)/H``; capsule ``(R - distance from its segment)/H``;
* ellipsoid ``(1 - |S^-1 x|) s/H``, S the half sizes and s the smallest of them;
* box, hull ``(b_i - a_i . x)/H`` for each face; cylinder the two caps and ``(R - distance from its axis)/H``.

H is the depth of the foundation. Its default is the inradius, which makes the extent 1 at the innermost place. Outside
a box or a hull the extent goes by the farthest plane, not by the distance.

A rigid geom has an infinite modulus. Its extent only tells inside from outside.
"""

import dataclasses

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.spatial import ConvexHull

Array = NDArray[np.float64]

FLAT = ("plane", "box", "hull")
"""Shapes whose pieces are all linear."""
TINY = 1e-12
"""Distance from an apex below which a direction is not defined, in units of the size."""


@dataclasses.dataclass(frozen=True)
class Geom:
    """A convex geom in its own frame.

    Attributes:
        shape: plane, sphere, capsule, ellipsoid, cylinder, box or hull.
        size: MuJoCo's: radius and half length, or half sizes, m.
        depth: H, m.
        modulus: E, Pa; infinite if rigid.
        dissipation: d of Hunt and Crossley, s/m.
        normals, offsets: faces ``normals . x <= offsets`` of a flat shape, (nface, 3), (nface,) in m.
        radius: of a sphere about the origin that holds the geom, m; infinite for a plane.
    """

    shape: str
    size: tuple[float, ...]
    depth: float
    modulus: float = np.inf
    dissipation: float = 0.0
    normals: Array = dataclasses.field(default_factory=lambda: np.zeros((0, 3)))
    offsets: Array = dataclasses.field(default_factory=lambda: np.zeros(0))
    radius: float = np.inf

    @property
    def rigid(self) -> bool:
        return not np.isfinite(self.modulus)

    @property
    def flat(self) -> bool:
        return self.shape in FLAT


@dataclasses.dataclass(frozen=True)
class Pose:
    """Of a geom: a place x of it is at ``rot @ x + pos``."""

    rot: Array = dataclasses.field(default_factory=lambda: np.eye(3))
    pos: Array = dataclasses.field(default_factory=lambda: np.zeros(3))

    def inverse(self) -> "Pose":
        return Pose(self.rot.T, -self.rot.T @ self.pos)

    def __matmul__(self, other: "Pose") -> "Pose":
        return Pose(self.rot @ other.rot, self.rot @ other.pos + self.pos)


@dataclasses.dataclass(frozen=True)
class Material:
    """What a geom is made of, for the functions that make one.

    Attributes:
        modulus: E, Pa.
        depth: H, m; none for the inradius.
        dissipation: d, s/m.
    """

    modulus: float = np.inf
    depth: float | None = None
    dissipation: float = 0.0


RIGID = Material()


def _geom(
    shape: str, size: tuple[float, ...], inradius: float | None, radius: float, m: Material, **faces: Array
) -> Geom:
    depth = m.depth if m.depth is not None else inradius
    if depth is None:
        depth = 1.0
        if np.isfinite(m.modulus):
            raise ValueError(f"a {shape} with a modulus has no inradius: name its depth")
    return Geom(shape, size, depth, m.modulus, m.dissipation, radius=radius, **faces)


def plane(m: Material = RIGID) -> Geom:
    """All below z = 0."""
    faces = {"normals": np.array([[0.0, 0.0, 1.0]]), "offsets": np.zeros(1)}
    return _geom("plane", (), None, np.inf, m, **faces)


def sphere(r: float, m: Material = RIGID) -> Geom:
    return _geom("sphere", (r,), r, r, m)


def capsule(r: float, half: float, m: Material = RIGID) -> Geom:
    """Along z, as in MuJoCo; `half` is half the length of its segment."""
    return _geom("capsule", (r, half), r, r + half, m)


def ellipsoid(a: float, b: float, c: float, m: Material = RIGID) -> Geom:
    return _geom("ellipsoid", (a, b, c), min(a, b, c), max(a, b, c), m)


def cylinder(r: float, half: float, m: Material = RIGID) -> Geom:
    """Along z."""
    return _geom("cylinder", (r, half), min(r, half), float(np.hypot(r, half)), m)


def box(a: float, b: float, c: float, m: Material = RIGID) -> Geom:
    """Of half sizes a, b, c."""
    faces = {"normals": np.concatenate([np.eye(3), -np.eye(3)]), "offsets": np.array([a, b, c, a, b, c])}
    return _geom("box", (a, b, c), min(a, b, c), float(np.sqrt(a * a + b * b + c * c)), m, **faces)


def hull(vert: Array, m: Material = RIGID) -> Geom:
    """Of points. Faces in one plane are one piece: a cell would be counted twice otherwise."""
    equations = ConvexHull(vert).equations
    size = float(np.abs(vert).max())
    kept: list[Array] = []
    for row in equations:
        scaled = row / np.array([1.0, 1.0, 1.0, size])
        if all(np.abs(scaled - other / np.array([1.0, 1.0, 1.0, size])).max() > 1e-9 for other in kept):
            kept.append(row)
    faces = np.array(kept)
    normals, offsets = faces[:, :3], -faces[:, 3]
    inradius = float(chebyshev(normals, offsets)[1])
    return _geom("hull", (), inradius, float(np.linalg.norm(vert, axis=1).max()), m, normals=normals, offsets=offsets)


def chebyshev(normals: Array, offsets: Array) -> tuple[Array, float]:
    """Centre and radius of the largest sphere inside faces: largest r with ``a_i . x + r <= b_i``, an LP."""
    rows = np.concatenate([normals, np.ones((len(normals), 1))], axis=1)
    found = linprog([0.0, 0.0, 0.0, -1.0], rows, offsets, bounds=[(None, None)] * 3 + [(0.0, None)])
    return found.x[:3], found.x[3]


# pieces: values, slopes and curvatures of what an extent is the minimum of


def pieces(geom: Geom, x: Array) -> tuple[Array, Array]:
    """Values (..., n) and gradients (..., n, 3) of the pieces at places x (..., 3) of the geom's frame."""
    if geom.flat:
        values = (geom.offsets - x @ geom.normals.T) / geom.depth
        return values, np.broadcast_to(-geom.normals / geom.depth, (*values.shape, 3))
    if geom.shape == "ellipsoid":
        s = np.array(geom.size)
        y = x / s
        q = np.maximum(np.linalg.norm(y, axis=-1), TINY)[..., None]
        scale = s.min() / geom.depth
        return scale * (1.0 - q), (-scale * y / s / q)[..., None, :]
    out = _outward(geom, x)
    distance = np.maximum(np.linalg.norm(out, axis=-1), TINY * geom.size[0])[..., None]
    values, gradients = (geom.size[0] - distance) / geom.depth, (-out / distance / geom.depth)[..., None, :]
    if geom.shape != "cylinder":
        return values, gradients
    up = np.zeros((*x.shape[:-1], 2, 3))
    up[..., 0, 2], up[..., 1, 2] = -1.0 / geom.depth, 1.0 / geom.depth
    caps = (geom.size[1] + np.stack([-x[..., 2], x[..., 2]], axis=-1)) / geom.depth
    return np.concatenate([values, caps], axis=-1), np.concatenate([gradients, up], axis=-2)


def _outward(geom: Geom, x: Array) -> Array:
    """From the centre, the segment or the axis of a round shape to x."""
    out = x.copy()
    if geom.shape == "capsule":
        out[..., 2] -= np.clip(x[..., 2], -geom.size[1], geom.size[1])
    elif geom.shape == "cylinder":
        out[..., 2] = 0.0
    return out


def curvatures(geom: Geom, x: Array) -> Array:
    """Second derivatives (n, 3, 3) of the pieces at one place x (3,)."""
    if geom.flat:
        return np.zeros((len(geom.offsets), 3, 3))
    if geom.shape == "ellipsoid":
        s = np.array(geom.size)
        q = max(float(np.linalg.norm(x / s)), 1e-6)
        y = x / s**2
        return -(s.min() / geom.depth) * (np.diag(s**-2.0) / q - np.outer(y, y) / q**3)[None]
    out = _outward(geom, x)
    distance = max(float(np.linalg.norm(out)), 1e-6 * geom.size[0])
    across = np.eye(3)
    if geom.shape == "cylinder" or (geom.shape == "capsule" and abs(x[2]) < geom.size[1]):
        across[2, 2] = 0.0
    round_piece = -(across - np.outer(out, out) / distance**2) / distance / geom.depth
    return np.concatenate([round_piece[None], np.zeros((2 if geom.shape == "cylinder" else 0, 3, 3))])


def extent(geom: Geom, x: Array) -> tuple[Array, Array]:
    """e (...) and its gradient (..., 3), of the smallest piece."""
    values, gradients = pieces(geom, x)
    least = values.argmin(axis=-1)[..., None]
    return (
        np.take_along_axis(values, least, axis=-1)[..., 0],
        np.take_along_axis(gradients, least[..., None], axis=-2)[..., 0, :],
    )


def at(geom: Geom, pose: Pose, x: Array) -> tuple[Array, Array]:
    """`extent` of a geom that stands at a pose."""
    value, gradient = extent(geom, (x - pose.pos) @ pose.rot)
    return value, gradient @ pose.rot.T


def scale(geom: Geom) -> float:
    """What turns an extent into a pressure. A rigid geom's stays an extent."""
    return 1.0 if geom.rigid else geom.modulus


def pressure(geom: Geom, pose: Pose, x: Array) -> tuple[Array, Array]:
    """p (...) in Pa and its gradient (..., 3) in Pa/m."""
    value, gradient = at(geom, pose, x)
    return scale(geom) * value, scale(geom) * gradient


def steepest(a: Geom, b: Geom) -> float:
    """Largest pressure gradient of a pair, of two fields in series, Pa/m: ``1/g = H_A/E_A + H_B/E_B``."""
    return 1.0 / (a.depth / a.modulus + b.depth / b.modulus)
