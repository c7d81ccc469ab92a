"""Geoms to be packed with spheres, and measures of what is found: gaps, depths, coverage."""

import itertools
import math

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.physics.pbd.packing import Packing, pack
from stickslip.scenes.mesh import Mesh

R = 0.1
BALL = f'type="sphere" size="{R}"'
EGG = 'type="ellipsoid" size="0.12 0.1 0.2"'
SPINDLE = 'type="ellipsoid" size="0.05 0.06 0.2"'  # more pointed than its spheres
COIN = 'type="cylinder" size="0.1 0.03"'
DRUM = 'type="cylinder" size="0.1 0.1"'


SIDES = np.concatenate([-np.eye(3), np.eye(3)])


def model(geom: str, asset: str = "", body: str = "<freejoint/>") -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(
        f"<mujoco><asset>{asset}</asset><worldbody><body>{body}<geom name='it' {geom}/></body></worldbody></mujoco>"
    )


def packed(geom: str, resolution: int = 4, *, seated: bool = False) -> Packing:
    return pack(model(geom), 0, resolution, 2, seated=seated)


def turned(half: tuple[float, float, float], angle: float = 0.0) -> Mesh:
    """A box as a mesh, turned about its diagonal, away from the origin, with corners that no faces share."""
    corners = np.array(list(itertools.product((-1.0, 1.0), repeat=3))) * half
    quads = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
    faces = np.array([[q[0], q[i], q[i + 1]] for q in quads for i in (1, 2)])
    quat, matrix = np.zeros(4), np.zeros(9)
    mujoco.mju_axisAngle2Quat(quat, np.ones(3) / math.sqrt(3.0), angle)
    mujoco.mju_quat2Mat(matrix, quat)
    vertices = corners[faces].reshape(-1, 3) @ matrix.reshape(3, 3).T + [0.3, 0.2, -0.1]
    return Mesh(vertices, np.arange(len(vertices)).reshape(-1, 3))


def mesh_model(mesh: Mesh, inertia: str = "exact") -> mujoco.MjModel:
    return model('type="mesh" mesh="m"', mesh.asset("m").replace("exact", inertia))


def octahedron(half: tuple[float, float, float]) -> Mesh:
    """With corners on the axes, this far out."""
    corners = np.concatenate([np.diag(half), -np.diag(half)])
    faces = [[x, y, z] if (x + y + z) // 3 % 2 else [x, z, y] for x in (0, 3) for y in (1, 4) for z in (2, 5)]
    return Mesh(corners, np.array(faces))


def least_gap(found: Packing) -> float:
    """Between the surfaces of any two spheres [m]."""
    gap = math.inf
    for i in range(len(found.radius) - 1):
        apart = np.linalg.norm(found.centre[i + 1 :] - found.centre[i], axis=1)
        gap = min(gap, float((apart - found.radius[i + 1 :] - found.radius[i]).min()))
    return gap


def directions(count: int) -> NDArray[np.float64]:
    """Unit vectors spread over the sphere (count, 3)."""
    z = 1.0 - (2.0 * np.arange(count) + 1.0) / count
    turn = np.arange(count) * math.pi * (3.0 - math.sqrt(5.0))
    across = np.sqrt(1.0 - z**2)
    return np.stack([across * np.cos(turn), across * np.sin(turn), z], axis=1)


def surface(found: Packing) -> NDArray[np.float64]:
    """Points on the spheres (k, 3) [m]."""
    return (found.centre[:, None] + found.radius[:, None, None] * directions(1000)).reshape(-1, 3)


def size_of(geom: str) -> NDArray[np.float64]:
    return np.array(geom.split('"')[3].split(), dtype=float)


def levels(geom: str, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of a primitive at points: at most 1 inside."""
    size = size_of(geom)
    if "cylinder" in geom:
        return np.maximum(np.hypot(points[:, 0], points[:, 1]) / size[0], np.abs(points[:, 2]) / size[1])
    return np.linalg.norm(points / size, axis=1)


def excess(geom: str, points: NDArray[np.float64]) -> float:
    """The level of a primitive above its surface, at the outermost of points: at most 0 if all are inside."""
    return float(levels(geom, points).max()) - 1.0


def depth_in_ellipsoid(axes: NDArray[np.float64], point: NDArray[np.float64]) -> float:
    """Distance of a point inside from the surface: to points on it, around the nearest so far ever more closely."""
    away = directions(4000)
    near, spread = away[np.argmin(np.linalg.norm(away * axes - point, axis=1))], 0.1
    while spread > 1e-9:
        tried = np.concatenate([near[None], near + spread * directions(200)])
        tried /= np.linalg.norm(tried, axis=1)[:, None]
        near, spread = tried[np.argmin(np.linalg.norm(tried * axes - point, axis=1))], 0.7 * spread
    return float(np.linalg.norm(near * axes - point))


def to_segments(p: NDArray, a: NDArray, b: NDArray) -> NDArray:
    along = np.clip(np.sum((p - a) * (b - a), axis=1) / np.sum((b - a) ** 2, axis=1), 0.0, 1.0)
    return np.linalg.norm(p - a - along[:, None] * (b - a), axis=1)


def depth_in_triangles(p: NDArray, corners: NDArray) -> float:
    """Distance of a point from a closed surface, negative outside; the sign from the solid angles of its triangles."""
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    distance = np.min([to_segments(p, *edge) for edge in ((a, b), (b, c), (c, a))])
    normal = np.cross(b - a, c - a)
    normal /= np.linalg.norm(normal, axis=1)[:, None]
    ahead = [np.sum(np.cross(normal, v - u) * (p - u), axis=1) >= 0.0 for u, v in ((a, b), (b, c), (c, a))]
    distance = min(distance, np.abs(np.sum(normal * (p - a), axis=1))[np.all(ahead, axis=0)].min(initial=math.inf))
    a, b, c = a - p, b - p, c - p
    x, y, z = (np.linalg.norm(v, axis=1) for v in (a, b, c))
    below = x * y * z + np.sum(a * b, axis=1) * z + np.sum(b * c, axis=1) * x + np.sum(c * a, axis=1) * y
    winding = np.sum(np.arctan2(np.sum(a * np.cross(b, c), axis=1), below)) / (2.0 * math.pi)
    return float(distance if winding > 0.5 else -distance)


def sampled_coverage(geom: str, found: Packing, half: tuple[float, float, float]) -> float:
    """Share of a primitive's volume inside any sphere, by 40,000 random points in the box around it."""
    points = np.random.default_rng(0).uniform(-1.0, 1.0, (40_000, 3)) * half
    if "box" not in geom:
        points = points[levels(geom, points) <= 1.0]
    within = np.zeros(len(points), dtype=bool)
    for centre, radius in zip(found.centre, found.radius, strict=True):
        within |= np.sum((points - centre) ** 2, axis=1) <= radius**2
    return float(within.mean())
