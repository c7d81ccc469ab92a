"""A simple picture without OpenGL: the outline of every geom, from above and from the side."""

import mujoco
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

_Geom = mujoco.mjtGeom
_FAR_M = 1e3  # geoms that extend farther than this are scenery
_VIEWS = (("top", 0, 1, 2), ("side", 0, 2, 1))  # title, horizontal axis, vertical axis, axis along the view


def draw(mjm: mujoco.MjModel, qpos: np.ndarray, *, width: int, height: int) -> np.ndarray:
    """Pixels (height, width, 3) of the state `qpos` (nq,)."""
    mjd = mujoco.MjData(mjm)
    mjd.qpos[:] = qpos
    mujoco.mj_kinematics(mjm, mjd)
    shapes, colours = [], []
    for g in range(mjm.ngeom):
        local = _surface_points(mjm, g)
        if local is None:
            continue
        points = local @ mjd.geom_xmat[g].reshape(3, 3).T + mjd.geom_xpos[g]
        if np.abs(points).max() < _FAR_M:  # also false for NaN
            shapes.append(points)
            colours.append(_colour(mjm, g))
    figure = Figure(figsize=(width / 100, height / 100), dpi=100, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    for axes, (title, x, y, depth) in zip(figure.subplots(1, 2), _VIEWS, strict=True):
        # far ones first; from above +z is near, from the side -y
        sign = 1.0 if title == "top" else -1.0
        order = sorted(range(len(shapes)), key=lambda i: sign * shapes[i][:, depth].mean())
        outlines = [convex_hull(shapes[i][:, [x, y]]) for i in order]
        axes.add_collection(
            PolyCollection(outlines, facecolors=[colours[i] for i in order], edgecolors="black", linewidths=0.5)
        )
        if title == "side":
            axes.axhline(0.0, color="grey", linewidth=0.8)
        axes.set(title=title, xlabel="xyz"[x] + " [m]", ylabel="xyz"[y] + " [m]", aspect="equal")
        axes.autoscale_view()
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def convex_hull(points: np.ndarray) -> np.ndarray:
    """Corners (m, 2) of the convex hull of `points` (n, 2), counter-clockwise (Andrew's monotone chain)."""
    ordered = np.unique(np.round(points, 9), axis=0)
    if len(ordered) < 3:
        return ordered

    def half(sequence: np.ndarray) -> list[np.ndarray]:
        chain: list[np.ndarray] = []
        for p in sequence:
            while len(chain) > 1:
                a, b = chain[-1] - chain[-2], p - chain[-1]
                if a[0] * b[1] - a[1] * b[0] > 0.0:
                    break
                chain.pop()
            chain.append(p)
        return chain[:-1]

    return np.array(half(ordered) + half(ordered[::-1]))


def _surface_points(mjm: mujoco.MjModel, g: int) -> np.ndarray | None:
    """Points (n, 3) in the geom's frame whose hull is the geom; None for an unbounded geom."""
    kind, size = mjm.geom_type[g], mjm.geom_size[g]
    if kind == _Geom.mjGEOM_BOX:
        return size * np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    if kind == _Geom.mjGEOM_SPHERE:
        return size[0] * _ball()
    if kind == _Geom.mjGEOM_ELLIPSOID:
        return size * _ball()
    if kind == _Geom.mjGEOM_CAPSULE:
        ball, axis = size[0] * _ball(), np.array([0.0, 0.0, size[1]])
        return np.concatenate([ball + axis, ball - axis])
    if kind == _Geom.mjGEOM_CYLINDER:
        angle = np.linspace(0.0, 2.0 * np.pi, 24, endpoint=False)
        ring = np.stack([size[0] * np.cos(angle), size[0] * np.sin(angle), np.full(24, size[1])], axis=1)
        return np.concatenate([ring, ring * [1, 1, -1]])
    if kind == _Geom.mjGEOM_MESH:
        mesh = mjm.geom_dataid[g]
        start, count = mjm.mesh_vertadr[mesh], mjm.mesh_vertnum[mesh]
        return np.array(mjm.mesh_vert[start : start + count], dtype=np.float64)
    return None


def _ball() -> np.ndarray:
    """Points (n, 3) on the unit sphere."""
    polar, azimuth = np.meshgrid(np.linspace(0.0, np.pi, 13), np.linspace(0.0, 2.0 * np.pi, 24, endpoint=False))
    return np.stack([np.sin(polar) * np.cos(azimuth), np.sin(polar) * np.sin(azimuth), np.cos(polar)], axis=-1).reshape(
        -1, 3
    )


def _colour(mjm: mujoco.MjModel, g: int) -> tuple[float, ...]:
    """RGB of the geom, from its material if it has one."""
    material = mjm.geom_matid[g]
    rgba = mjm.mat_rgba[material] if material >= 0 else mjm.geom_rgba[g]
    return tuple(float(c) for c in rgba[:3])
