"""A picture of contact patches: the pressure at their points, in the plane of each patch."""

import io
from typing import Any

import mujoco
import numpy as np

from stickslip.physics.base import Physics
from stickslip.readout import Patches

MOST = 9
"""Patches in a picture, those with the largest forces."""
COLUMNS = 3


def can_show(physics: Physics[Any, Any]) -> bool:
    """Whether a physics has patches."""
    return hasattr(physics, "patches")


def rows(mjm: mujoco.MjModel, patches: Patches, world: int = 0) -> list[dict[str, Any]]:
    """The patches of a world under load, by force: geoms, force [N], centre [m], area [m^2], largest pressure [Pa]."""
    found = []
    for i in np.flatnonzero((patches.world == world) & (patches.area > 0.0)):
        found.append(
            {
                "patch": int(i),
                "geoms": [mjm.geom(int(geom)).name or f"geom {geom}" for geom in patches.geom[i]],
                "force_n": patches.force[i].tolist(),
                "centre_m": patches.centre[i].tolist(),
                "area_m2": float(patches.area[i]),
                "largest_pressure_pa": float(patches.pressure[patches.patch == i].max()),
            }
        )
    return sorted(found, key=lambda row: -np.linalg.norm(row["force_n"]))


def png(patches: Patches, shown: list[dict[str, Any]], title: str) -> bytes:
    """The patches of `rows` as a picture: a disc of its area for each point; one scale of pressures for all."""
    import matplotlib.collections
    import matplotlib.figure
    import matplotlib.patches

    shown = shown[:MOST]
    columns = min(COLUMNS, len(shown))
    lines = -(-len(shown) // columns)
    figure = matplotlib.figure.Figure(figsize=(4.0 * columns + 1.2, 4.4 * lines + 0.6), dpi=110, layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False).ravel()
    top = max(row["largest_pressure_pa"] for row in shown)
    scale, unit = next((s, u) for s, u in ((1e6, "MPa"), (1e3, "kPa"), (1.0, "Pa")) if top >= s or s == 1.0)
    for ax, row in zip(axes, shown, strict=False):
        own = patches.patch == row["patch"]
        centre = np.asarray(row["centre_m"])
        across = _plane(patches.normal[own], patches.weight[own] * patches.pressure[own])
        place = 1e3 * (patches.pos[own] - centre) @ across.T
        pressure = patches.pressure[own] / scale
        radius = 1e3 * np.sqrt(patches.weight[own] / np.pi)
        discs = [matplotlib.patches.Circle((x, y), r) for (x, y), r in zip(place, radius, strict=True)]
        points = matplotlib.collections.PatchCollection(discs, edgecolors="white", linewidths=0.8)
        points.set(array=pressure, cmap="inferno", clim=(0.0, top / scale))
        ax.add_collection(points)
        ax.autoscale_view()
        ax.plot(0.0, 0.0, "+", color="#2a9d8f", markersize=13, markeredgewidth=2.5)
        names = " on ".join(row["geoms"][::-1])
        force = float(np.linalg.norm(row["force_n"]))
        ax.set_title(f"{names}\n{force:.3g} N on {1e6 * row['area_m2']:.3g} mm²", fontsize=9)
        ax.set(xlabel=f"{_name(across[0])} [mm]", ylabel=f"{_name(across[1])} [mm]", aspect="equal")
        ax.margins(0.08)
        ax.tick_params(labelsize=8)
    for ax in axes[len(shown) :]:
        ax.set_visible(False)
    figure.colorbar(axes[0].collections[0], ax=list(axes), label=f"pressure [{unit}]", shrink=0.8)
    figure.suptitle(f"{title}: pressure on contact patches, + centre of pressure", fontsize=10)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def _plane(normals: np.ndarray, forces: np.ndarray) -> np.ndarray:
    """Two directions across the mean normal, along the axes of the world as nearly as can be, (2, 3)."""
    normal = (forces[:, None] * normals).sum(axis=0)
    length = np.linalg.norm(normal)
    normal = normal / length if length > 0.0 else normals[0]
    first = np.eye(3)[np.argmin(np.abs(normal))] if abs(normal[0]) > 0.7 else np.eye(3)[0]
    first = first - normal * (normal @ first)
    first /= np.linalg.norm(first)
    second = np.cross(normal, first)
    return np.array([first, second if second[np.argmax(np.abs(second))] > 0.0 else -second])


def _name(direction: np.ndarray) -> str:
    """x, y or z where a direction is nearly that axis; else "across"."""
    axis = int(np.argmax(np.abs(direction)))
    return "xyz"[axis] if abs(direction[axis]) > 0.999 else "across"
