"""A picture of clouds: faces in light and shade, points, and normals as short lines.

Faces are drawn from the far ones to the near ones; points and normals that something hides are left out. Normals that
look inwards are drawn through the surface, and edges that lack a face on one side as thick lines.
"""

import dataclasses
import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stickslip.physics.scm.grids import Quads, frames
from stickslip.physics.scm.survey import Shape

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

MOST_PANELS = 12
"""Shapes in a picture; those with problems come first."""
MOST_NORMALS = 2500
"""Points of a shape that are drawn with their normals; of more, every k-th."""
COLUMNS = 4
INK, FAINT, LINE = "#22303c", "#8d99a3", "#2878b0"
WRONG, OPEN = "#d3262f", "#f08a00"
"""Colours of normals that look inwards, and of open edges."""
_FACE, _INSIDE, _WRONG_FACE = (np.array(c) / 255.0 for c in ((236, 239, 242), (150, 160, 170), (250, 205, 203)))
_AZIMUTH, _ELEVATION = math.radians(-55.0), math.radians(24.0)
_CORNERS = 8
"""Of the disk that stands for a point without a face."""


def _view() -> tuple[Array, Array]:
    """Rightwards and upwards in the picture, (2, 3), and towards who looks, (3,)."""
    a, e = _AZIMUTH, _ELEVATION
    towards = np.array([math.cos(e) * math.cos(a), math.cos(e) * math.sin(a), math.sin(e)])
    right = np.array([-math.sin(a), math.cos(a), 0.0])
    return np.stack([right, np.cross(towards, right)]), towards


_SCREEN, _TOWARDS = _view()
_LIGHT = (_TOWARDS + 0.7 * _SCREEN[1] - 0.6 * _SCREEN[0]) / math.sqrt(1.0 + 0.7**2 + 0.6**2)  # over a shoulder


def draw(shapes: Sequence[Shape], title: str = "") -> "Figure":
    """A panel for each shape that has points and is no plane."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    solid = [s for s in shapes if s.cloud is not None and not s.cloud.open and len(s.cloud.quads.point)]
    shown = sorted(solid, key=lambda s: not s.problems)[:MOST_PANELS]
    rows = max(math.ceil(len(shown) / COLUMNS), 1)
    columns = max(math.ceil(len(shown) / rows), 1)
    side = {1: 5.0, 2: 4.2}.get(columns, 3.4)
    figure = Figure(figsize=(side * columns, side * rows + 0.8), dpi=110, layout="constrained", facecolor="white")
    figure.suptitle(title, fontsize=12, color=INK, x=0.01, ha="left")
    for ax in figure.subplots(rows, columns, squeeze=False).flat:
        ax.set_axis_off()
    for ax, shape in zip(figure.axes, shown, strict=False):
        _panel(ax, shape, side)
    marks: dict[str, Any] = {
        "point": Line2D([], [], ls="", marker="o", ms=4, color=INK),
        "normal": Line2D([], [], lw=1.2, color=LINE),
    }
    if any(s.flipped.any() for s in shown):
        marks["normal that looks inwards"] = Line2D([], [], lw=1.8, color=WRONG, marker="o", ms=4)
    if any(len(s.loose) for s in shown):
        marks["edge that lacks a face on one side"] = Line2D([], [], lw=2.2, color=OPEN)
    note = _note(shapes, len(solid), len(shown))
    if note:
        marks[note] = Line2D([], [], ls="")
    across = max(int(side * columns / 1.7), 1)
    figure.legend(
        list(marks.values()),
        list(marks),
        loc="outside lower left",
        ncols=min(across, len(marks)),
        fontsize=8.5,
        frameon=False,
        labelcolor=INK,
    )
    return figure


def _note(shapes: Sequence[Shape], solid: int, shown: int) -> str:
    """What is not in the picture."""
    parts = [f"{shown} of {solid} shapes"] if shown < solid else []
    planes = [s.label for s in shapes if s.cloud is not None and s.cloud.open]
    if planes:
        some = ", ".join(planes[:3]) + (", ..." if len(planes) > 3 else "")
        parts.append(f"not drawn: plane{'s' if len(planes) > 1 else ''} {some}")
    return "; ".join(parts)


def _panel(ax: Any, shape: Shape, side: float) -> None:
    from matplotlib.collections import LineCollection, PolyCollection

    cloud = shape.cloud
    assert cloud is not None
    q = cloud.quads
    q = dataclasses.replace(q, **{name: getattr(q, name) @ shape.turn.T for name in ("point", "normal", "vertices")})
    polygons = _polygons(q)
    outward = np.where(shape.flipped[:, None], -q.normal, q.normal)
    fine = np.isfinite(polygons).all(axis=(1, 2)) & np.isfinite(q.point).all(axis=1) & np.isfinite(q.normal).all(axis=1)
    order = np.flatnonzero(fine)
    order = order[np.argsort((polygons[order] @ _TOWARDS).mean(axis=1))]
    fill = _fill(outward, shape.flipped)
    flat = polygons @ _SCREEN.T
    edge = 0.82 * fill
    ax.add_collection(PolyCollection(list(flat[order]), facecolors=fill[order], edgecolors=edge[order], linewidths=0.5))

    outline = flat[fine].reshape(-1, 2) if fine.any() else np.zeros((1, 2))
    low, high = outline.min(axis=0), outline.max(axis=0)
    extent = max(float(max(high - low)), 1e-9)
    pitch = 72.0 * (side - 0.5) * cloud.spacing / extent  # of points, in points of print
    dot, width = np.clip(0.2 * pitch, 0.8, 4.0), np.clip(0.07 * pitch, 0.5, 1.3)
    some = np.flatnonzero(fine)[:: math.ceil(len(q.point) / MOST_NORMALS)]
    good = some[~shape.flipped[some]]
    good = good[_seen(q.point[good] + 0.15 * cloud.spacing * q.normal[good], polygons[fine], cloud.spacing)]
    for chosen, colour, wide, above in (
        (good, LINE, width, 3),
        (np.flatnonzero(shape.flipped & fine), WRONG, 1.5 * width, 5),
    ):
        at, tip = q.point[chosen] @ _SCREEN.T, (q.point[chosen] + 0.85 * cloud.spacing * q.normal[chosen]) @ _SCREEN.T
        ax.add_collection(
            LineCollection(list(np.stack([at, tip], axis=1)), colors=colour, linewidths=wide, zorder=above)
        )
        marker = INK if colour is LINE else WRONG
        ax.plot(*at.T, ls="", marker="o", ms=dot, mew=0, color=marker, zorder=above + 1)
    ax.add_collection(
        LineCollection(list(shape.loose @ shape.turn.T @ _SCREEN.T), colors=OPEN, linewidths=2.2, zorder=7)
    )

    half = 0.5 * extent + 1.1 * cloud.spacing  # the same square of every panel, with space for ruler and axes below
    middle = 0.5 * (low + high)
    ax.set(
        xlim=(middle[0] - half, middle[0] + half),
        ylim=(middle[1] - 1.2 * half, middle[1] + half),
        aspect="equal",
    )
    _ruler(ax, middle + [-half, -1.12 * half], half)
    _triad(ax, middle + [0.8 * half, -1.12 * half], 0.13 * half)
    words = f"{shape.kind}, {len(q.point)} points, {length(cloud.spacing)} apart"
    if shape.problems:
        words = textwrap.fill("; ".join(shape.problems), int(14 * side), max_lines=3, placeholder=" ...")
    colour = WRONG if shape.problems else INK
    heading = shape.label if shape.name.startswith("number") else shape.label.replace("'", "")
    ax.set_title(heading, fontsize=10.5, color=colour, loc="left", pad=6 + 11 * len(words.splitlines()))
    ax.annotate(
        words,
        (0.0, 1.0),
        (0, 3),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=8,
        color=colour if shape.problems else FAINT,
        va="bottom",
    )


def _polygons(q: Quads) -> Array:
    """Corners of each face, (n, k, 3); where there are no faces a disk, large enough to meet others."""
    if len(q.faces):
        return q.vertices[q.faces]
    _, first, second = np.moveaxis(frames(q.normal), 1, 0)
    turn = 2.0 * np.pi * np.arange(_CORNERS) / _CORNERS
    radius = 1.15 * np.sqrt(2.0 * q.area / (_CORNERS * math.sin(2.0 * np.pi / _CORNERS)))
    round_ = np.cos(turn)[None, :, None] * first[:, None] + np.sin(turn)[None, :, None] * second[:, None]
    return q.point[:, None] + radius[:, None, None] * round_


def _fill(outward: Array, flipped: NDArray[np.bool_]) -> Array:
    """Colours of faces, (n, 3): lit from above, darker where their inside is seen, reddish where they are flipped."""
    inside = outward @ _TOWARDS < 0.0
    light = 0.75 + 0.25 * np.clip(np.where(inside, -1.0, 1.0) * (outward @ _LIGHT), 0.0, 1.0)
    base = np.where(inside[:, None], _INSIDE, np.where(flipped[:, None], _WRONG_FACE, _FACE))
    return np.clip(light[:, None] * base, 0.0, 1.0)


def _seen(query: Array, polygons: Array, spacing: float) -> NDArray[np.bool_]:
    """Points, (n, 3), that no polygon hides."""
    fans = [polygons[:, [0, k, k + 1]] for k in range(1, polygons.shape[1] - 1)]
    corners = np.concatenate(fans)
    flat, depth = corners @ _SCREEN.T, corners @ _TOWARDS
    a, ab, ac = flat[:, 0], flat[:, 1] - flat[:, 0], flat[:, 2] - flat[:, 0]
    twice = ab[:, 0] * ac[:, 1] - ab[:, 1] * ac[:, 0]
    wide = np.abs(twice) > 1e-9 * spacing**2  # the others are seen from their edge
    a, ab, ac, twice, depth = a[wide], ab[wide], ac[wide], twice[wide], depth[wide]
    at, far = query @ _SCREEN.T, query @ _TOWARDS
    out = np.ones(len(query), dtype=bool)
    block = max(1, 2_000_000 // max(len(a), 1))
    for start in range(0, len(query), block):
        some = slice(start, start + block)
        x, y = (at[some, None, k] - a[None, :, k] for k in range(2))
        s, t = (x * ac[:, 1] - y * ac[:, 0]) / twice, (y * ab[:, 0] - x * ab[:, 1]) / twice
        inside = (s >= 0.0) & (t >= 0.0) & (s + t <= 1.0)
        over = depth[:, 0] + s * (depth[:, 1] - depth[:, 0]) + t * (depth[:, 2] - depth[:, 0])
        out[some] = ~np.any(inside & (over > far[some, None] + 0.02 * spacing), axis=1)
    return out


def length(value: float) -> str:
    """A length in the unit that suits it."""
    for unit, size in (("m", 1.0), ("cm", 1e-2), ("mm", 1e-3), ("µm", 1e-6)):
        if value >= 0.9995 * size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} m"


def _ruler(ax: Any, corner: Array, half: float) -> None:
    """A bar of a round length."""
    most = 0.6 * half
    power = 10.0 ** math.floor(math.log10(most))
    long = max(f * power for f in (1.0, 2.0, 5.0) if f * power <= most)
    ax.plot([corner[0], corner[0] + long], [corner[1]] * 2, color=FAINT, lw=2.0, solid_capstyle="butt")
    ax.text(corner[0] + long + 0.04 * half, corner[1], length(long), fontsize=7.5, color=FAINT, va="center")


def _triad(ax: Any, corner: Array, size: float) -> None:
    """Directions of the world."""
    for name, tip in zip("xyz", size * _SCREEN.T, strict=True):
        end = corner + tip
        ax.plot(*zip(corner, end, strict=True), color=FAINT, lw=1.0)
        ax.text(*(corner + 1.35 * tip), name, fontsize=7.5, color=FAINT, ha="center", va="center")
