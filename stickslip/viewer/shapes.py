"""Triangle meshes of MuJoCo's geoms, as parts of unit shapes: many geoms of any size are instances of a few meshes."""

import dataclasses
import functools
import math

import mujoco
import numpy as np
from numpy.typing import NDArray

Key = tuple[str, int]
"""A shape: "box", "sphere", "cylinder", "plane" with 0; "mesh" or "hfield" with its number in the model."""

_IDENTITY = (1.0, 0.0, 0.0, 0.0)
_AROUND = 24
"""Segments around a sphere or cylinder."""


@dataclasses.dataclass(frozen=True)
class Mesh:
    """Triangles: vertices (n, 3) in m, faces (m, 3)."""

    vertices: NDArray[np.floating]
    faces: NDArray[np.integer]


@dataclasses.dataclass(frozen=True)
class Part:
    """A shape in the frame of a geom.

    Attributes:
        shape: which mesh
        scale: along the axes of the mesh                              (3,)
        pos: position in the frame of the geom, m                      (3,)
    """

    shape: Key
    scale: tuple[float, float, float]
    pos: tuple[float, float, float] = (0.0, 0.0, 0.0)


def parts(mjm: mujoco.MjModel, geom: int, far: float) -> list[Part]:
    """What a geom is drawn of; a plane without a size is drawn `far` m wide to each side."""
    kind = mujoco.mjtGeom(mjm.geom_type[geom])
    x, y, z = (float(size) for size in mjm.geom_size[geom])
    match kind:
        case mujoco.mjtGeom.mjGEOM_PLANE:
            return [Part(("plane", 0), (x or far, y or far, 1.0))]
        case mujoco.mjtGeom.mjGEOM_SPHERE:
            return [Part(("sphere", 0), (x, x, x))]
        case mujoco.mjtGeom.mjGEOM_ELLIPSOID:
            return [Part(("sphere", 0), (x, y, z))]
        case mujoco.mjtGeom.mjGEOM_CYLINDER:
            return [Part(("cylinder", 0), (x, x, y))]
        case mujoco.mjtGeom.mjGEOM_BOX:
            return [Part(("box", 0), (x, y, z))]
        case mujoco.mjtGeom.mjGEOM_CAPSULE:
            ends = [Part(("sphere", 0), (x, x, x), (0.0, 0.0, sign * y)) for sign in (-1.0, 1.0)]
            return [Part(("cylinder", 0), (x, x, y)), *ends]
        case mujoco.mjtGeom.mjGEOM_MESH | mujoco.mjtGeom.mjGEOM_SDF:
            return [Part(("mesh", int(mjm.geom_dataid[geom])), (1.0, 1.0, 1.0))]
        case mujoco.mjtGeom.mjGEOM_HFIELD:
            return [Part(("hfield", int(mjm.geom_dataid[geom])), (1.0, 1.0, 1.0))]
    return []  # flexes and skins are no geoms with a shape of their own


def mesh(mjm: mujoco.MjModel, shape: Key) -> Mesh:
    """The triangles of a shape."""
    name, index = shape
    if name == "mesh":
        first, count = int(mjm.mesh_vertadr[index]), int(mjm.mesh_vertnum[index])
        face, faces = int(mjm.mesh_faceadr[index]), int(mjm.mesh_facenum[index])
        return Mesh(mjm.mesh_vert[first : first + count].copy(), mjm.mesh_face[face : face + faces].copy())
    if name == "hfield":
        return _height_field(mjm, index)
    return {"box": _box, "sphere": _sphere, "cylinder": cylinder, "plane": _plane}[name]()


@functools.cache
def _box() -> Mesh:
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], dtype=float)
    faces = []
    for axis in range(3):
        for sign in (-1, 1):
            quad = [i for i in range(8) if corners[i, axis] == sign]
            a, b, c, d = (quad[i] for i in (0, 1, 3, 2))
            outward = np.cross(corners[b] - corners[a], corners[c] - corners[a])[axis] * sign > 0
            faces += [(a, b, c), (a, c, d)] if outward else [(a, c, b), (a, d, c)]
    # each face has corners of its own, so that edges stay sharp when normals are averaged
    triangles = np.array(faces)
    return Mesh(corners[triangles].reshape(-1, 3), np.arange(3 * len(triangles)).reshape(-1, 3))


@functools.cache
def _sphere() -> Mesh:
    rings = _AROUND // 2
    points = [(0.0, 0.0, 1.0)]
    for i in range(1, rings):
        polar = math.pi * i / rings
        for j in range(_AROUND):
            angle = 2.0 * math.pi * j / _AROUND
            points.append((math.sin(polar) * math.cos(angle), math.sin(polar) * math.sin(angle), math.cos(polar)))
    points.append((0.0, 0.0, -1.0))
    last = len(points) - 1
    faces = []
    for j in range(_AROUND):
        k = (j + 1) % _AROUND
        faces.append((0, 1 + j, 1 + k))
        faces.append((last, last - _AROUND + k, last - _AROUND + j))
        for i in range(rings - 2):
            a, b = 1 + i * _AROUND + j, 1 + i * _AROUND + k
            faces += [(a, a + _AROUND, b), (b, a + _AROUND, b + _AROUND)]
    return Mesh(np.array(points), np.array(faces))


@functools.cache
def cylinder(top: float = 1.0, bottom: float = 1.0) -> Mesh:
    """Along z from -1 to 1, with these radii; a cone if one is 0."""
    angles = 2.0 * math.pi * np.arange(_AROUND) / _AROUND
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    ends = [np.column_stack([radius * circle, np.full(_AROUND, z)]) for radius, z in ((bottom, -1.0), (top, 1.0))]
    # the caps repeat the rims, so that edges stay sharp
    points = [*ends, *ends, np.array([[0.0, 0.0, -1.0], [0.0, 0.0, 1.0]])]
    faces = []
    for j in range(_AROUND):
        k = (j + 1) % _AROUND
        faces += [(j, k, _AROUND + j), (k, _AROUND + k, _AROUND + j)]
        faces += [(4 * _AROUND, 2 * _AROUND + k, 2 * _AROUND + j), (4 * _AROUND + 1, 3 * _AROUND + j, 3 * _AROUND + k)]
    return Mesh(np.concatenate(points), np.array(faces))


@functools.cache
def _plane() -> Mesh:
    return Mesh(
        np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]], dtype=float), np.array([[0, 1, 2], [0, 2, 3]])
    )


def _height_field(mjm: mujoco.MjModel, index: int) -> Mesh:
    rows, columns = int(mjm.hfield_nrow[index]), int(mjm.hfield_ncol[index])
    first = int(mjm.hfield_adr[index])
    x, y, z, _ = mjm.hfield_size[index]
    heights = mjm.hfield_data[first : first + rows * columns] * z
    grid_x, grid_y = np.meshgrid(np.linspace(-x, x, columns), np.linspace(-y, y, rows))
    corner = (np.arange(rows - 1)[:, None] * columns + np.arange(columns - 1)[None]).ravel()
    below, above = corner + columns, corner + columns + 1
    faces = np.concatenate([np.stack([corner, corner + 1, above], 1), np.stack([corner, above, below], 1)])
    return Mesh(np.stack([grid_x.ravel(), grid_y.ravel(), heights], axis=1), faces)


def colour(mjm: mujoco.MjModel, geom: int) -> tuple[float, float, float, float]:
    """Red, green, blue and opacity of a geom, from 0 to 1; of a texture, its mean."""
    rgba = mjm.geom_rgba[geom].astype(float)
    material = int(mjm.geom_matid[geom])
    if material >= 0:
        unset = np.allclose(rgba, 0.5, atol=1e-6) or np.allclose(rgba, [0.5, 0.5, 0.5, 1.0])
        rgba = mjm.mat_rgba[material].astype(float) if unset else rgba
        rgba[:3] = rgba[:3] * _mean_texture(mjm, material)
    red, green, blue, opacity = np.clip(rgba, 0.0, 1.0)
    return float(red), float(green), float(blue), float(opacity)


def _mean_texture(mjm: mujoco.MjModel, material: int) -> NDArray[np.floating]:
    texture = int(mjm.mat_texid[material][mujoco.mjtTextureRole.mjTEXROLE_RGB])
    if texture < 0:
        return np.ones(3)
    channels = int(mjm.tex_nchannel[texture])
    size = int(mjm.tex_width[texture]) * int(mjm.tex_height[texture])
    first = int(mjm.tex_adr[texture])
    pixels = mjm.tex_data[first : first + size * channels].reshape(size, channels)
    mean = pixels.mean(axis=0) / 255.0
    return mean[:3] if channels >= 3 else np.full(3, mean[0])
