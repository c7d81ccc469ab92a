"""Triangle meshes of MuJoCo's geoms, as parts of unit shapes: many geoms of any size are instances of a few meshes."""

import dataclasses
import functools
import math

import mujoco
import numpy as np
from numpy.typing import NDArray

Key = tuple[str, int]
"""A shape: "box", "plane", "sphere", "cylinder" with 0, and "tube" and "cap" of capsules; "mesh" or "hfield" with its
number in the model."""

_UP, _DOWN = (1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0)


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
        quat: orientation in the frame of the geom                     (4,)
    """

    shape: Key
    scale: tuple[float, float, float]
    pos: tuple[float, float, float] = (0.0, 0.0, 0.0)
    quat: tuple[float, float, float, float] = _UP


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
            ends = [Part(("cap", 0), (x, x, x), (0.0, 0.0, z), quat) for z, quat in ((y, _UP), (-y, _DOWN))]
            return [Part(("tube", 0), (x, x, y)), *ends]
        case mujoco.mjtGeom.mjGEOM_MESH | mujoco.mjtGeom.mjGEOM_SDF:
            return [Part(("mesh", int(mjm.geom_dataid[geom])), (1.0, 1.0, 1.0))]
        case mujoco.mjtGeom.mjGEOM_HFIELD:
            return [Part(("hfield", int(mjm.geom_dataid[geom])), (1.0, 1.0, 1.0))]
    return []  # flexes and skins are no geoms with a shape of their own


def segments(number: int) -> int:
    """Segments around round shapes when so many of them are drawn: fewer for many, which look small."""
    return 24 if number <= 200 else 16 if number <= 4000 else 8


def mesh(mjm: mujoco.MjModel, shape: Key, around: int = 24) -> Mesh:
    """The triangles of a shape; round ones have `around` segments, a multiple of 4."""
    name, index = shape
    if name == "mesh":
        first, count = int(mjm.mesh_vertadr[index]), int(mjm.mesh_vertnum[index])
        face, faces = int(mjm.mesh_faceadr[index]), int(mjm.mesh_facenum[index])
        return Mesh(mjm.mesh_vert[first : first + count].copy(), mjm.mesh_face[face : face + faces].copy())
    if name == "hfield":
        return _height_field(mjm, index)
    match name:
        case "sphere":
            return _sphere(around, around // 2)
        case "cap":
            return _sphere(around, around // 4)
        case "tube":
            return cylinder(around=around, closed=False)
        case "cylinder":
            return cylinder(around=around)
    return _box() if name == "box" else plane()


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
def _sphere(around: int, rings: int) -> Mesh:
    """Of a sphere, as many rings from the top as asked for: half as many as segments make a whole one."""
    circle = _circle(around)
    points = [np.array([[0.0, 0.0, 1.0]])]
    for polar in 2.0 * math.pi / around * np.arange(1, rings + 1):
        points.append(np.column_stack([math.sin(polar) * circle, np.full(around, math.cos(polar))]))
    faces = []
    for j in range(around):
        k = (j + 1) % around
        faces.append((0, 1 + j, 1 + k))
        for i in range(rings - 1):
            a, b = 1 + i * around + j, 1 + i * around + k
            faces += [(a, a + around, b), (b, a + around, b + around)]
    return Mesh(np.concatenate(points), np.array(faces))


@functools.cache
def cylinder(top: float = 1.0, bottom: float = 1.0, around: int = 24, closed: bool = True) -> Mesh:
    """Along z from -1 to 1, with these radii, and with ends if closed; a cone if one radius is 0."""
    circle = _circle(around)
    ends = [np.column_stack([radius * circle, np.full(around, z)]) for radius, z in ((bottom, -1.0), (top, 1.0))]
    # the ends repeat the rims, so that edges stay sharp
    points = [*ends, *ends, np.array([[0.0, 0.0, -1.0], [0.0, 0.0, 1.0]])] if closed else ends
    faces = []
    for j in range(around):
        k = (j + 1) % around
        faces += [(j, k, around + j), (k, around + k, around + j)]
        if closed:
            faces += [(4 * around, 2 * around + k, 2 * around + j), (4 * around + 1, 3 * around + j, 3 * around + k)]
    return Mesh(np.concatenate(points), np.array(faces))


def _circle(around: int) -> NDArray[np.floating]:
    angles = 2.0 * math.pi * np.arange(around) / around
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


@functools.cache
def plane() -> Mesh:
    """A square from -1 to 1 at z = 0, facing up."""
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
