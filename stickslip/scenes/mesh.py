"""Closed triangle meshes: volume, mass properties, resting pose, and the two meshes that scenes use.

`bunny` is the Stanford bunny that comes with Warp's examples; reading it needs usd-core. `stand_in` is an asymmetric
shape of our own with the same volume, used if the bunny cannot be read.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import math
import pathlib

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.errors import MissingExtra

VOLUME = 2.176e-3
"""Volume of both meshes [m^3]: 2.176 kg at the density of water."""
_RINGS, _SPOKES = 14, 24
"""Circles of latitude between the poles of the stand-in, and vertices on each."""
_BUMPS = (
    ((0.75, 0.15, 0.65), 0.45, 0.60),
    ((-0.35, 0.45, 0.85), 0.70, 0.28),
    ((-0.55, -0.25, 0.75), 0.55, 0.34),
    ((-0.85, 0.40, -0.05), 0.25, 0.70),
)
"""Bumps of the stand-in: direction, height in radii and width in radians."""
_FLAT = -0.6
"""Height at which the stand-in's base is cut, in radii."""


_SLACK = 1e-9
"""Distance beside a face at which the center of mass still counts as above it [m]: it may be above an edge."""


@dataclasses.dataclass(frozen=True)
class Mesh:
    """A closed surface.

    Attributes:
        vertices: positions [m]                                                    (n, 3)
        faces: indices of each triangle's corners, counter-clockwise from outside  (m, 3)
    """

    vertices: NDArray[np.float64]
    faces: NDArray[np.int64]

    def moments(self) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
        """Volume and integrals of x and x x^T over it, summed over tetrahedra with one corner at the origin."""
        corners = self.vertices[self.faces]
        volumes = np.linalg.det(corners) / 6.0
        total = corners.sum(axis=1)
        first = 0.25 * volumes @ total
        # over a tetrahedron with the corners 0, a, b, c: V / 20 (a a^T + b b^T + c c^T + s s^T), s = a + b + c
        second = np.einsum("n,nki,nkj->ij", volumes, corners, corners) + np.einsum("n,ni,nj->ij", volumes, total, total)
        return float(volumes.sum()), first, second / 20.0

    def centre(self) -> NDArray[np.float64]:
        """Center of mass [m]."""
        volume, first, _ = self.moments()
        return first / volume

    def inertia(self, mass: float) -> NDArray[np.float64]:
        """Inertia about the center of mass [kg m^2], (3, 3)."""
        volume, first, second = self.moments()
        spread = second / volume - np.outer(first, first) / volume**2
        return mass * (np.trace(spread) * np.eye(3) - spread)

    def of_volume(self, volume: float) -> Mesh:
        """The mesh scaled to a volume [m^3]."""
        return Mesh(self.vertices * (volume / self.moments()[0]) ** (1.0 / 3.0), self.faces)

    def watertight(self) -> bool:
        """Whether every edge belongs to two faces, one in each direction."""
        edges = np.concatenate([self.faces[:, pair] for pair in ([0, 1], [1, 2], [2, 0])])
        there = {tuple(edge) for edge in edges.tolist()}
        return len(there) == len(edges) and all((b, a) in there for a, b in there)

    def add_to(self, spec: mujoco.MjSpec, name: str) -> None:
        """Add the mesh to a spec as an asset, with the mass properties of the shape itself (not of its hull)."""
        vertices = [float(f"{x:.9g}") for x in self.vertices.ravel()]
        kind = mujoco.mjtMeshInertia.mjMESH_INERTIA_EXACT
        spec.add_mesh(name=name, inertia=kind, uservert=vertices, userface=self.faces.ravel().tolist())

    def asset(self, name: str) -> str:
        """The same as MJCF text."""
        vertex = " ".join(f"{x:.9g}" for x in self.vertices.ravel())
        face = " ".join(map(str, self.faces.ravel()))
        return f'    <mesh name="{name}" inertia="exact" vertex="{vertex}" face="{face}"/>\n'

    def hull(self) -> NDArray[np.int64]:
        """Faces of the convex hull as MuJoCo computes it, as vertex indices (k, 3)."""
        spec = mujoco.MjSpec()
        self.add_to(spec, "m")
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname="m")
        graph = spec.compile().mesh_graph
        count = int(graph[1])
        return np.array(graph[-3 * count :], dtype=np.int64).reshape(count, 3)

    def at_rest(self) -> Mesh:
        """The mesh rotated as little as needed to rest on a plane below it, with its center of mass at the origin.

        It rests on a face of its hull: of those below the center of mass, the one nearest to horizontal.
        """
        vertices = self.vertices - self.centre()
        a, b, c = (vertices[corner] for corner in self.hull().T)
        normal = np.cross(b - a, c - a)
        normal /= np.linalg.norm(normal, axis=1)[:, None]
        normal *= np.sign(np.einsum("ij,ij->i", normal, a))[:, None]  # outward: the origin is inside
        turn = np.cross(b - a, c - b)  # orientation of the corners, which MuJoCo does not guarantee
        sense = np.sign(np.einsum("ij,ij->i", turn, normal))
        above = []
        for start, end in ((a, b), (b, c), (c, a)):
            inward = np.cross(normal, end - start) / np.linalg.norm(end - start, axis=1)[:, None]
            above.append(sense * np.einsum("ij,ij->i", inward, -start) >= -_SLACK)
        stable = np.flatnonzero(np.all(above, axis=0))
        down = normal[stable[np.argmin(normal[stable, 2])]]
        return Mesh(vertices @ _rotation(down, np.array([0.0, 0.0, -1.0])).T, self.faces)


def _rotation(start: NDArray[np.float64], end: NDArray[np.float64]) -> NDArray[np.float64]:
    """The smallest rotation that maps one unit vector to another, which is not its opposite."""
    x, y, z = np.cross(start, end)
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + cross + cross @ cross / (1.0 + start @ end)


def _bunny_file() -> pathlib.Path | None:
    """Warp's example asset, found without importing Warp; None if it is missing."""
    found = importlib.util.find_spec("warp")
    if found is None or found.origin is None:
        return None
    path = pathlib.Path(found.origin).parent / "examples" / "assets" / "bunny.usd"
    return path if path.is_file() else None


def missing_bunny() -> str | None:
    """Why the bunny cannot be read, or None if it can."""
    if _bunny_file() is None:
        return "the installed Warp has no examples/assets/bunny.usd"
    if importlib.util.find_spec("pxr") is None:
        return "it needs usd-core: pip install 'stickslip[bench]'"
    return None


@functools.lru_cache
def bunny() -> Mesh:
    """The Stanford bunny at rest, z up, center of mass at the origin; raises MissingExtra if it cannot be read."""
    reason, path = missing_bunny(), _bunny_file()
    if reason is not None or path is None:
        raise MissingExtra(f"the bunny cannot be read: {reason}; use stand_in")
    from pxr import Usd, UsdGeom  # pyright: ignore[reportMissingImports]

    stage = Usd.Stage.Open(str(path))  # pyright: ignore[reportAttributeAccessIssue]
    kind = UsdGeom.Mesh  # pyright: ignore[reportAttributeAccessIssue]
    shape = next(kind(prim) for prim in stage.Traverse() if prim.IsA(kind))
    x, y, z = np.array(shape.GetPointsAttr().Get(), dtype=float).T
    faces = np.array(shape.GetFaceVertexIndicesAttr().Get(), dtype=np.int64).reshape(-1, 3)
    return Mesh(np.stack([x, -z, y], axis=1), faces).of_volume(VOLUME).at_rest()  # the file has y up


@functools.lru_cache
def stand_in() -> Mesh:
    """A ball with bumps of different sizes on a flat base, in its resting pose."""
    polar = np.repeat(np.arange(1, _RINGS + 1) * math.pi / (_RINGS + 1), _SPOKES)
    around = np.tile(np.arange(_SPOKES) * 2.0 * math.pi / _SPOKES, _RINGS)
    ball = np.stack([np.sin(polar) * np.cos(around), np.sin(polar) * np.sin(around), np.cos(polar)], axis=1)
    ball = np.concatenate([ball, [[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]]])
    radius = np.ones(len(ball))
    for direction, height, width in _BUMPS:
        angle = np.arccos(np.clip(ball @ direction / np.linalg.norm(direction), -1.0, 1.0))
        radius += height * np.exp(-0.5 * (angle / width) ** 2)
    vertices = ball * radius[:, None]
    vertices[:, 2] = np.maximum(vertices[:, 2], _FLAT)
    ring = np.arange(_SPOKES)
    after = np.roll(ring, -1)
    faces = [np.stack([np.full(_SPOKES, len(ball) - 2), ring, after], axis=1)]
    for start in range(0, (_RINGS - 1) * _SPOKES, _SPOKES):
        upper, lower = start + ring, start + _SPOKES + ring
        faces += [
            np.stack([upper, lower, start + _SPOKES + after], axis=1),
            np.stack([upper, start + _SPOKES + after, start + after], axis=1),
        ]
    last = (_RINGS - 1) * _SPOKES
    faces.append(np.stack([last + after, last + ring, np.full(_SPOKES, len(ball) - 1)], axis=1))
    return Mesh(vertices, np.concatenate(faces)).of_volume(VOLUME).at_rest()
