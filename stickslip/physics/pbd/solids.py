"""Closed shapes to put spheres into: which lie inside, where the surface is, and where spheres should touch it."""

import abc
import itertools
import math

import numpy as np
import warp as wp
from numpy.typing import NDArray

from stickslip.errors import InputError
from stickslip.physics.pbd.surfaces import nearest_ellipsoid, nearest_mesh

wp.set_module_options({"enable_backward": False})

_ROUNDING = 1e-9
"""Of the distances in a primitive, against its size."""
_MESH_ROUNDING = 5e-7
"""Of the distances in a mesh against its longest side: they are found in single precision."""
_TINY = 1e-12
"""Volume of a mesh, against the cube of its longest side, that counts as none."""
_ALL = wp.constant(10.0)
"""Distance that is longer than any in a mesh, in its longest side."""
_NODES = 30_000
"""Of the grid in a mesh from whose depths those of other points are known roughly."""
_STARTS = 16
"""Places from which the one for a sphere nearest to each side of the bounding box is looked for."""
_NEARLY = 0.7
"""Depth, in radii, of as many others, near which a sphere may fit."""
_CLIMBS = 20
"""Steps from each start."""
_PUSHES = 4
"""Away from the surface after each step."""
_GAIN = 0.02
"""By how much nearer, in radii, that must be for a sphere to be added."""

Array = NDArray[np.float64]
_SIDES = np.concatenate([-np.eye(3), np.eye(3)])


def ball(radius: float) -> float:
    """Volume of a sphere [m^3]."""
    return 4.0 / 3.0 * math.pi * radius**3


class Solid(abc.ABC):
    """A closed shape.

    Attributes:
        name: the geom, for messages
        low, high: corners of its bounding box [m]  (3,)
        volume: [m^3]
        slack: how far a sphere may stick out [m]
    """

    def __init__(self, name: str, low: Array, high: Array, volume: float, rounding: float):
        self.name, self.low, self.high, self.volume = name, low, high, volume
        self.slack = rounding * float((high - low).max())

    @abc.abstractmethod
    def fits(self, centre: Array, radius: float) -> NDArray[np.bool_]:
        """Whether spheres lie inside (n,), by centre (n, 3) [m] and radius [m]."""

    @abc.abstractmethod
    def nearest(self, point: Array) -> tuple[Array, Array]:
        """How deep points (n, 3) inside are below the surface (n,) [m], and its normal where it is nearest (n, 3)."""

    @abc.abstractmethod
    def anchors(self, centre: Array, radius: float) -> Array:
        """Centres of the spheres inside without which the solid would rest too low or tip too early (k, 3) [m].

        Args:
            centre: of the spheres that there are (n, 3) [m]
            radius: of these and those [m]
        """


class Cylinder(Solid):
    """A cylinder about z, by its radius and half its length [m]."""

    def __init__(self, name: str, radius: float, half: float):
        corner = np.array([radius, radius, half])
        super().__init__(name, -corner, corner, 2.0 * math.pi * radius**2 * half, 0.5 * _ROUNDING)
        self.radius, self.half = radius, half

    def fits(self, centre: Array, radius: float) -> NDArray[np.bool_]:
        across = np.hypot(centre[:, 0], centre[:, 1])
        return (across <= self.radius - radius) & (np.abs(centre[:, 2]) <= self.half - radius)

    def nearest(self, point: Array) -> tuple[Array, Array]:
        across = np.hypot(point[:, 0], point[:, 1])
        mantle, cap = self.radius - across, self.half - np.abs(point[:, 2])
        normal = np.zeros_like(point)
        at_cap = cap <= mantle
        normal[at_cap, 2] = np.sign(point[at_cap, 2]) + (point[at_cap, 2] == 0.0)
        axis = across == 0.0
        normal[~at_cap, :2] = (point[:, :2] / np.where(axis, 1.0, across)[:, None])[~at_cap]
        normal[~at_cap & axis, 0] = 1.0
        return np.minimum(mantle, cap), normal

    def anchors(self, centre: Array, radius: float) -> Array:
        """A ring inside each rim: at most a diameter from one to the next, the same to all four sides."""
        ring = self.radius - radius
        turn = np.arange(count := 4 * max(1, math.ceil(0.25 * math.pi * ring / radius))) * (2.0 * math.pi / count)
        height = np.repeat([radius - self.half, self.half - radius], count)
        places = np.column_stack([np.tile(ring * np.cos(turn), 2), np.tile(ring * np.sin(turn), 2), height])
        return np.unique(places + 0.0, axis=0)  # both are one in a flat one; + 0.0: -0.0 is 0.0


class Ellipsoid(Solid):
    """An ellipsoid by its semi-axes (3,) [m]."""

    def __init__(self, name: str, axes: Array):
        super().__init__(name, -axes, axes, ball(1.0) * float(np.prod(axes)), 0.5 * _ROUNDING)
        self.axes = axes

    def fits(self, centre: Array, radius: float) -> NDArray[np.bool_]:
        # an ellipsoid with axes shorter by the radius holds all centres that fit, and some others
        fits = np.sum((centre / (self.axes - radius)) ** 2, axis=1) <= 1.0
        if np.ptp(self.axes) > 0.0:
            fits[fits] = self.nearest(centre[fits])[0] >= radius
        return fits

    def nearest(self, point: Array) -> tuple[Array, Array]:
        depth, normal = _nearest_out(len(point))
        at = wp.array(point, dtype=wp.vec3d, device="cpu")
        inputs = [wp.vec3d(*self.axes), at]
        wp.launch(_depth_in_ellipsoid, dim=len(point), inputs=inputs, outputs=[depth, normal], device="cpu")
        return depth.numpy(), normal.numpy()

    def anchors(self, centre: Array, radius: float) -> Array:
        """As far out along each axis as they fit.

        One of radius r touches the end of axis i, unless for another axis j the radius of curvature there, a_j^2 / a_i,
        is less. Then it stays where it touches beside: at the t with r^2 = a_j^2 (1 - t^2 / (a_i^2 - a_j^2)).
        """
        reach = self.axes - radius
        for i, j in itertools.permutations(range(3), 2):
            a, b = self.axes[i], self.axes[j]
            if radius * a > b**2:
                reach[i] = min(reach[i], math.sqrt(max((1.0 - (radius / b) ** 2) * (a**2 - b**2), 0.0)))
        return np.unique(_SIDES * reach + 0.0, axis=0)


class Polyhedron(Solid):
    """A closed mesh of triangles, by vertices (n, 3) [m] and faces (m, 3).

    Raises:
        InputError: it encloses nothing
    """

    def __init__(self, name: str, vertices: Array, faces: NDArray[np.intp]):
        corners = vertices[faces]
        low, high = corners.min(axis=(0, 1)), corners.max(axis=(0, 1))
        size, middle = float((high - low).max()), 0.5 * (low + high)
        volume = float(np.linalg.det(corners - middle).sum()) / 6.0
        if volume < _TINY * size**3:
            raise InputError(
                f"{name} encloses {volume:.3g} m^3, which must be above {_TINY:g} of its "
                "longest side cubed: give it thickness, or if it is negative turn its faces around"
            )
        super().__init__(name, low, high, volume, _MESH_ROUNDING)
        self.vertices, self.size, self.middle = vertices, size, middle
        points = wp.array((vertices - middle) / size, dtype=wp.vec3, device="cpu")
        indices = wp.array(faces.ravel(), dtype=int, device="cpu")
        self.mesh = wp.Mesh(points, indices, support_winding_number=True)
        sides = np.sort(high - low)[::-1]
        width = max((math.prod(sides[:n]) / _NODES) ** (1.0 / n) for n in (1, 2, 3))  # less than 3 along what is thin
        cells = np.ceil((high - low) / width)
        self.cell = (high - low) / cells
        self.shape = cells.astype(int) + 1
        nodes = np.stack(np.meshgrid(*map(np.arange, self.shape), indexing="ij"), axis=-1)
        self.nodes = low + nodes.reshape(-1, 3) * self.cell
        self.depth = self.nearest(self.nodes)[0]

    def fits(self, centre: Array, radius: float) -> NDArray[np.bool_]:
        # depth is 1-Lipschitz: it changes by at most the distance, and keeps its sign where the distance is less
        index = np.clip(np.rint((centre - self.low) / self.cell).astype(int), 0, self.shape - 1)
        node = np.ravel_multi_index(tuple(index.T), tuple(self.shape))
        away, depth = np.linalg.norm(self.nodes[node] - centre, axis=1), self.depth[node]
        fits = depth - away > radius + self.slack
        unsure = ~fits & (depth + away > radius - self.slack)
        at = wp.array((centre[unsure] - self.middle) / self.size, dtype=wp.vec3, device="cpu")
        inside = wp.array((depth - away)[unsure] > self.slack, dtype=bool, device="cpu")
        out = wp.empty(len(at), dtype=bool, device="cpu")
        inputs = [self.mesh.id, at, inside, radius / self.size]
        wp.launch(_fits_mesh, dim=len(at), inputs=inputs, outputs=[out], device="cpu")
        fits[unsure] = out.numpy()
        return fits

    def nearest(self, point: Array) -> tuple[Array, Array]:
        depth, normal = _nearest_out(len(point))
        at = wp.array((point - self.middle) / self.size, dtype=wp.vec3d, device="cpu")
        half = wp.vec3d(*((self.high - self.low) * (0.5 / self.size)))
        inputs = [self.mesh.id, half, at]
        wp.launch(_depth_in_mesh, dim=len(point), inputs=inputs, outputs=[depth, normal], device="cpu")
        return depth.numpy() * self.size, normal.numpy()

    def anchors(self, centre: Array, radius: float) -> Array:
        """Those that come closer to a side of the bounding box than all before, as close as they fit."""
        nearly = self.nodes[(self.depth >= _NEARLY * radius) & (self.depth < radius)]
        starts = [
            places[np.argsort(-(_SIDES @ places.T), axis=1, kind="stable")[:, :_STARTS]]
            for places in (np.concatenate([centre, self.nodes[self.depth >= radius]]), nearly)
        ]
        tips = self.vertices[np.argmax(self.vertices @ _SIDES.T, axis=0)]
        starts.append((tips - radius * _SIDES)[:, None])
        added = np.zeros((0, 3))
        for side, place in zip(_SIDES, self._highest(np.concatenate(starts, axis=1), radius), strict=True):
            if place @ side > np.concatenate([centre, added]).dot(side).max() + _GAIN * radius:
                added = np.concatenate([added, place[None]])
        return added

    def _highest(self, start: Array, radius: float) -> Array:
        """Where a sphere is nearest to each side (6, 3) [m], after steps towards it from places (6, k, 3) [m].

        Each step is followed by pushes away from the surface. The first place must fit.
        """
        at, up = start.reshape(-1, 3), np.repeat(_SIDES, start.shape[1], axis=0)
        height = np.where(self.nearest(at)[0] >= radius - self.slack, np.sum(at * up, axis=1), -math.inf)
        step = np.full(len(at), 0.5 * radius)
        for _ in range(_CLIMBS):
            to = at + step[:, None] * up
            for _ in range(_PUSHES):
                depth, normal = self.nearest(to)
                to = to - np.maximum(radius - depth, 0.0)[:, None] * normal
            above = np.sum(to * up, axis=1)
            better = (self.nearest(to)[0] >= radius - self.slack) & (above > height)
            at, height = np.where(better[:, None], to, at), np.where(better, above, height)
            step = np.where(better, step, 0.5 * step)
        return at.reshape(start.shape)[np.arange(6), height.reshape(6, -1).argmax(axis=1)]


def closed(name: str, vertices: Array, faces: NDArray[np.int32]) -> tuple[Array, NDArray[np.intp]]:
    """Vertices and faces, with vertices at one place made one; raises InputError if they leave an edge open."""
    vertices, same = np.unique(vertices + 0.0, axis=0, return_inverse=True)  # + 0.0: -0.0 is 0.0
    corners = same.reshape(-1)[faces]
    corners = corners[(corners != np.roll(corners, 1, axis=1)).all(axis=1)]
    edges = np.concatenate([corners[:, pair] for pair in ([0, 1], [1, 2], [2, 0])])
    direction = np.sign(edges[:, 1] - edges[:, 0])
    _, edge = np.unique(np.sort(edges, axis=1), axis=0, return_inverse=True)
    there, back = (np.bincount(edge.reshape(-1), weights=direction == sign) for sign in (1, -1))
    wrong = int(np.sum((there != 1.0) | (back != 1.0)))
    if wrong:
        raise InputError(
            f"{name} is not watertight: {wrong} of its {len(there)} edges do not belong to two faces, once in each "
            "direction: close the mesh, or use a primitive"
        )
    return vertices, corners


def _nearest_out(n: int) -> tuple[wp.array, wp.array]:
    return wp.empty(n, dtype=wp.float64, device="cpu"), wp.empty(n, dtype=wp.vec3d, device="cpu")


@wp.kernel
def _depth_in_ellipsoid(
    axes: wp.vec3d,
    point_in: wp.array[wp.vec3d],
    # Out:
    depth_out: wp.array[wp.float64],
    normal_out: wp.array[wp.vec3d],
):
    i = wp.tid()
    near = nearest_ellipsoid(axes, point_in[i])
    depth_out[i] = -near.dist
    normal_out[i] = near.normal


@wp.kernel
def _depth_in_mesh(
    mesh: wp.uint64,
    half: wp.vec3d,
    point_in: wp.array[wp.vec3d],
    # Out:
    depth_out: wp.array[wp.float64],
    normal_out: wp.array[wp.vec3d],
):
    i = wp.tid()
    near = nearest_mesh(mesh, -half, half, point_in[i], wp.float64(_ALL))
    depth_out[i] = -near.dist
    normal_out[i] = near.normal


@wp.kernel
def _fits_mesh(
    mesh: wp.uint64,
    centre_in: wp.array[wp.vec3],
    inside_in: wp.array[bool],
    radius: float,
    # Out:
    fits_out: wp.array[bool],
):
    """Whether the surface is as far from each centre as the radius, and goes around it, if that is not known."""
    i = wp.tid()
    fits = bool(False)
    if not wp.mesh_query_point_no_sign(mesh, centre_in[i], radius).result:
        fits = inside_in[i]
        if not fits:
            around = wp.mesh_query_point_sign_winding_number(mesh, centre_in[i], _ALL)
            fits = around.result and around.sign < 0.0
    fits_out[i] = fits
