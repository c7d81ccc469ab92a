"""Contact surface of two flat geoms (plane, box, hull), exact.

Both fields are minima of planes. Where face i of A and face j of B are the smallest, the surface is the plane
``p_Ai = p_Bj``. A square of it is clipped by ``p_Ai <= p_Ak``, ``p_Bj <= p_Bl`` and ``p >= level``. What is left is a
cell: a convex polygon with a linear pressure. If A is rigid, the plane is ``e_Ai = 0`` and the clips are ``e_Ak >= 0``;
likewise for B.

Ahead of touch: ``level = min(0, p_max - margin g)``, g being the steepest gradient of the pair. So a patch is never
smaller than that of a depth of `margin`, and a deeper one has no points ahead. A cell that holds both signs is cut at
p = 0: its pressed part stays exact, and the other part has points with p0 < 0. Walls, along which a field does not
change, have none ahead.
"""

import dataclasses

import numpy as np

from tests.reference.hydro_fields import Array, Geom, Pose, scale, steepest
from tests.reference.hydro_points import Points, faces_on, make, together

SMALL = 1e-4
"""Share of the force (or of the area, ahead of touch) below which a cell is merged into the largest."""
PARALLEL = 1e-9
"""Difference of two gradients, as a share of their size, below which two faces have no plane in common."""
CORNERS = 16
"""Most corners of a cell that a kernel has room for."""


@dataclasses.dataclass(frozen=True)
class Cell:
    """A polygon of the contact surface.

    Attributes:
        polygon: corners in order, m, (ncorner, 3).
        normal: into A, (3,).
        slope, base: pressure ``slope . x + base``, Pa/m (3,) and Pa.
        grad_a, grad_b: gradients of the two pressures (of a rigid geom: of its extent), (3,).
        faces: i and j.
        area: m^2.
        centroid: m, (3,).
        share: what weight the points carry over the area: more than 1 after a merge.
        push: direction of its force; None: the normal.
    """

    polygon: Array
    normal: Array
    slope: Array
    base: float
    grad_a: Array
    grad_b: Array
    faces: tuple[int, int]
    area: float
    centroid: Array
    share: float = 1.0
    push: Array | None = None

    def pressure(self, x: Array) -> Array:
        return x @ self.slope + self.base

    @property
    def force(self) -> float:
        """N; negative ahead of touch."""
        return float(self.share * self.area * self.pressure(self.centroid))


def clip(polygon: Array, values: Array) -> Array:
    """The part of a convex polygon (n, 3) where a linear function, with `values` (n,) at the corners, is >= 0."""
    inside = values >= 0.0
    if inside.all() or not inside.any():
        return polygon[inside]
    kept: list[Array] = []
    for i in range(len(polygon)):
        j = (i + 1) % len(polygon)
        if inside[i]:
            kept.append(polygon[i])
        if inside[i] != inside[j]:
            kept.append(polygon[i] + values[i] / (values[i] - values[j]) * (polygon[j] - polygon[i]))
    return np.array(kept).reshape(-1, 3)


def measure(polygon: Array, normal: Array) -> tuple[float, Array]:
    """Area and centroid, by a fan about the mean of the corners: no cancellation far from the origin."""
    middle = polygon.mean(axis=0)
    a, b = polygon - middle, np.roll(polygon, -1, axis=0) - middle
    areas = 0.5 * np.cross(a, b) @ normal
    area = float(areas.sum())
    if abs(area) < 1e-300:
        return 0.0, middle
    return abs(area), middle + areas @ (a + b) / (3.0 * area)


def _linear(geom: Geom, pose: Pose) -> tuple[Array, Array]:
    """Pieces of a pressure in the common frame, ``gradients . x + bases``."""
    gradients = -(scale(geom) / geom.depth) * geom.normals @ pose.rot.T
    bases = scale(geom) / geom.depth * geom.offsets - gradients @ pose.pos
    return gradients, bases


def _square(point: Array, normal: Array, centre: Array, size: float) -> Array:
    """In a plane through a point, about the foot of `centre`, turning to the left about the normal."""
    foot = centre - normal * (normal @ (centre - point))
    first = np.eye(3)[np.abs(normal).argmin()]
    u = np.asarray(np.cross(normal, first), dtype=np.float64)
    u = u / np.linalg.norm(u)
    v = np.asarray(np.cross(normal, u), dtype=np.float64)
    around = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])
    return foot + size * around @ np.stack([u, v])


def _clipped(a: Geom, pose_a: Pose, b: Geom, pose_b: Pose, size: float) -> list[Cell]:
    """Cells at all levels: only the clips between faces of one geom."""
    (ga, ba), (gb, bb) = _linear(a, pose_a), _linear(b, pose_b)
    centre = pose_a.pos if a.radius < b.radius else pose_b.pos
    cells = []
    for i in range(len(ga)):
        for j in range(len(gb)):
            # the plane w . x + c = 0, w into A
            w = ga[i] * (not b.rigid) - gb[j] * (not a.rigid)
            c = ba[i] * (not b.rigid) - bb[j] * (not a.rigid)
            norm = float(np.linalg.norm(w))
            both = not (a.rigid or b.rigid)  # The extent of a rigid geom is no pressure: the two do not compare.
            if both and norm < PARALLEL * (np.linalg.norm(ga[i]) + np.linalg.norm(gb[j])):
                continue
            n = w / norm
            if not (a.rigid or faces_on(a, ga[i], n)) or not (b.rigid or faces_on(b, -gb[j], n)):
                continue
            polygon = _square(-c / norm * n, n, centre, size)
            for k in range(len(ga)):
                if k != i and len(polygon):
                    others = polygon @ ga[k] + ba[k]
                    polygon = clip(polygon, others if a.rigid else others - polygon @ ga[i] - ba[i])
            for k in range(len(gb)):
                if k != j and len(polygon):
                    others = polygon @ gb[k] + bb[k]
                    polygon = clip(polygon, others if b.rigid else others - polygon @ gb[j] - bb[j])
            if len(polygon) >= 3:
                slope, base = (ga[i], ba[i]) if b.rigid else (gb[j], bb[j])
                cells.append(Cell(polygon, n, slope, float(base), ga[i], gb[j], (i, j), *measure(polygon, n)))
    return cells


def _part(cell: Cell, values: Array) -> list[Cell]:
    polygon = clip(cell.polygon, values)
    if len(polygon) < 3:
        return []
    area, centroid = measure(polygon, cell.normal)
    return [dataclasses.replace(cell, polygon=polygon, area=area, centroid=centroid)] if area > 0.0 else []


def cells(a: Geom, pose_a: Pose, b: Geom, pose_b: Pose, margin: float = 0.0, merge: bool = True) -> list[Cell]:
    """Of the patch between A and B, in the frame of the poses."""
    if not (a.flat and b.flat) or (a.rigid and b.rigid):
        raise ValueError(f"no cells between {a.shape} and {b.shape}: both must be flat, and one compliant")
    whole = _clipped(a, pose_a, b, pose_b, 2.0 * (min(a.radius, b.radius) + margin))
    if not whole:
        return []
    ahead = margin * steepest(a, b)
    most = max(cell.pressure(cell.polygon).max() for cell in whole)
    if most < -ahead:
        return []
    level = min(0.0, most - ahead)
    parts: list[Cell] = []
    for cell in whole:
        for kept in _part(cell, cell.pressure(cell.polygon) - level):
            p = kept.pressure(kept.polygon)
            if level < 0.0 and p.min() < 0.0 < p.max():
                parts += _part(kept, p) + _part(kept, -p)
            else:
                parts.append(kept)
    return merged(parts) if merge else parts


def merged(parts: list[Cell]) -> list[Cell]:
    """Small cells go to the largest: its force becomes that of all of them, in size and direction.

    The part ahead of touch is merged by area, and no pressed cell gets any of it.
    """
    done: list[Cell] = []
    for group, size in (
        ([cell for cell in parts if cell.force > 0.0], lambda cell: cell.force),
        ([cell for cell in parts if cell.force <= 0.0], lambda cell: cell.area),
    ):
        total = sum(size(cell) for cell in group)
        large = [cell for cell in group if size(cell) >= SMALL * total]
        if large:
            kept = sum(size(cell) for cell in large)
            best = max(large, key=size)
            grown = dataclasses.replace(best, share=1.0 + (total - kept) / size(best))
            if best.force > 0.0:
                force = best.force * best.normal
                force = force + sum(cell.force * cell.normal for cell in group if cell.force < SMALL * total)
                length = float(np.linalg.norm(force))
                grown = dataclasses.replace(best, share=length / best.force, push=force / length)
            done += [grown if cell is best else cell for cell in large]
    return done


# quadrature


def fan(cell: Cell) -> tuple[Array, Array]:
    """Triangles about the centroid, three points on each: exact up to degree 2. Weights and places."""
    a, b, c = cell.polygon, np.roll(cell.polygon, -1, axis=0), cell.centroid
    areas = 0.5 * np.cross(a - c, b - c) @ cell.normal
    corners = np.stack([a, b, np.broadcast_to(c, a.shape)], axis=1)
    mix = np.full((3, 3), 1.0 / 6.0) + 0.5 * np.eye(3)
    return np.repeat(np.abs(areas) / 3.0, 3), (mix @ corners).reshape(-1, 3)


def centroids(cell: Cell) -> tuple[Array, Array]:
    """Triangles about the centroid, one point on each, for comparison: exact for the force only."""
    weights, places = fan(cell)
    return 3.0 * weights[::3], places.reshape(-1, 3, 3).mean(axis=1)


def three(cell: Cell) -> tuple[Array, Array]:
    """Three points of equal weight for any polygon, exact up to degree 2.

    They are ``c + sqrt(2) L u_k`` with the second moment ``L L'`` over the area and u_k unit vectors 120 degrees apart.
    They may lie outside of the polygon, where the pressure can be negative: a triangle with p = 0 along a side is the
    limit, its points are on the sides.
    """
    weights, places = fan(cell)
    u = cell.polygon[0] - cell.centroid
    u = u / np.linalg.norm(u)
    v = np.cross(cell.normal, u)
    flat = (places - cell.centroid) @ np.stack([u, v], axis=1)
    second = (flat * weights[:, None]).T @ flat / weights.sum()
    angles = 2.0 * np.pi * np.arange(3) / 3.0
    turned = np.sqrt(2.0) * root(second) @ np.stack([np.cos(angles), np.sin(angles)])
    return np.full(3, cell.area / 3.0), cell.centroid + turned.T @ np.stack([u, v])


def one(cell: Cell) -> tuple[Array, Array]:
    """The centroid: exact for the force, not for what goes by second moments."""
    return np.array([cell.area]), cell.centroid[None]


def root(second: Array) -> Array:
    """Symmetric square root of a symmetric 2x2 matrix, without eigenvectors: it is smooth where they turn."""
    det = np.sqrt(max(float(second[0, 0] * second[1, 1] - second[0, 1] * second[1, 0]), 0.0))
    trace = float(second[0, 0] + second[1, 1]) + 2.0 * det
    return (second + det * np.eye(2)) / np.sqrt(trace)


RULES = {"fan": fan, "centroids": centroids, "three": three, "one": one}
FEW, MANY = 0.01, 0.5
"""Shares of the force below which the rule `mixed` takes one point and from which on it takes the fan; else three.

Force, moment and rocking stiffness lose less than FEW; three points only cost torsion, +7 % of what the cell has alone.
"""


def points(a: Geom, pose_a: Pose, b: Geom, pose_b: Pose, margin: float = 0.0, rule: str = "fan") -> Points:
    """Of the patch between two flat geoms; `rule` is one of RULES, or mixed: by the share of the force."""
    found = cells(a, pose_a, b, pose_b, margin)
    total = max(sum(abs(cell.force) for cell in found), 1e-300)
    parts = []
    for cell in found:
        chosen = rule
        if rule == "mixed":
            share = abs(cell.force) / total
            chosen = "one" if share < FEW else "three" if share < MANY else "fan"
        weight, pos = RULES[chosen](cell)
        push = cell.normal if cell.push is None else cell.push
        normal, grad_a, grad_b = (np.tile(v, (len(weight), 1)) for v in (push, cell.grad_a, cell.grad_b))
        found_here = make(a, b, cell.share * weight, pos, normal, cell.pressure(pos), grad_a, grad_b)
        if cell.force > 0.0 or found_here.dist.min() <= margin:
            parts.append(found_here)
    return together(parts)
