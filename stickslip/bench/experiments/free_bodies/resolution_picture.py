"""The picture of `resolution`: what bodies are made of, and errors against the number of spheres."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stickslip.bench.experiments.free_bodies.resolution_cases import (
    BOX,
    GEOMS,
    USUAL,
    Settings,
    done_label,
    shape_label,
)
from stickslip.bench.references import motion
from stickslip.bench.report import style
from stickslip.bench.result import Result

Array = NDArray[np.float64]
Ends = tuple[float, float, float, float]

TURN, RISE = np.radians(-35.0), np.radians(22.0)
"""From where bodies are seen: about the vertical, and above the plane."""
LIGHT = np.array([-0.45, 0.55, 0.70])
"""Where light comes from: how far right, above and in front of what is seen."""
DARK = 0.25
"""Brightness of what the light does not reach."""
PIXELS = 420
"""Of a picture of spheres, along its longer side."""
BAR = 0.1
"""Length that is shown beside a body [m]."""
LEAST = 1e-4
"""What errors are shown of at the least."""


@dataclasses.dataclass(frozen=True)
class Figure:
    """What is drawn against spheres: its name, that of the reference it is an error of, and what stands at its axis."""

    name: str
    reference: str
    axis: str


WAY = Figure("position_error_m", "expected_m", "position error [m]")
ROTATION = Figure("rotation_error_deg", "expected_deg", "rotation error [deg]")


def draw(result: Result, settings: Settings) -> Any:
    title = f"resolution: bodies made of more and more spheres, steps of {1e3 * settings.timestep:g} ms"
    fig, axes = style.figure(title, 3, width=16.0, height=3.7)
    packings = _packings(result, settings)
    above = style.split(axes[0, 0], max(len(packings), 1))
    drawn = [(title, *render(body[:, :3], body[:, 3], colour)) for title, colour, body in packings]
    widest = max((max(right - left, top - bottom) for _, _, (left, right, bottom, top) in drawn), default=1.0)
    for ax, (title, image, ends) in zip(above, drawn, strict=False):
        _draw_image(ax, image, ends, widest)
        style.label(ax, title)
    for ax in above[len(packings) :]:
        ax.set_axis_off()
    boxes, meshes = style.split(axes[1, 0], 3), style.split(axes[2, 0], 3)
    edges, across = sorted(set(settings.resolutions)), sorted(set(settings.mesh_resolutions))
    mesh, long, brief = settings.mesh, settings.duration, settings.mesh_duration
    rod = f"pushed by a rod {1e3 * settings.offset:g} mm off, first half of the push"
    for ax, cases, metric, duration, title in (
        (boxes[0], _cases("push", BOX, edges), WAY, long, f"pushed box after {long:g} s"),
        (boxes[1], _cases("torque", BOX, edges), ROTATION, long, f"box with torque after {long:g} s"),
        (boxes[2], _cases("rod", BOX, edges), WAY, long, f"box {rod}"),
        (meshes[0], _cases("push", mesh, across), WAY, brief, f"pushed {mesh} after {brief:g} s"),
        (meshes[1], _cases("torque", mesh, across), ROTATION, brief, f"{mesh} with torque after {brief:g} s"),
    ):
        _draw_errors(ax, result, cases, metric, settings.timestep / duration)
        style.label(ax, title, "spheres along an edge, and altogether", metric.axis)
    _draw_shares(meshes[2], result, settings)
    style.legend(fig, [*boxes, *meshes])
    return fig


def _cases(kind: str, shape: str, resolutions: Sequence[int]) -> dict[int, str]:
    return {n: done_label(kind, shape, n) for n in resolutions}


# errors


def _draw_errors(ax: Any, result: Result, cases: Mapping[int, str], metric: Figure, step: float) -> None:
    """A metric against the number of spheres; a level line of who has none, and of what steps are off by.

    `step` is the length of a step over that of the run.
    """
    count, expected = _counts(result, cases), 0.0
    for method in result.methods:
        values, references, made = (
            np.array([result.metric(method, case, name) for case in cases.values()])
            for name in (metric.name, metric.reference, "spheres")
        )
        expected = max(expected, *np.nan_to_num(references))
        if np.isfinite(values).any():
            look = {"marker": "o", "ms": 4} if np.isfinite(made).any() else {"ls": "--"}
            style.line(ax, result, method, count, np.maximum(np.abs(values), LEAST), **look)
    off = motion.step_error(expected, step, 1.0)
    if off > LEAST:
        ax.plot(count, [off] * len(count), ":", color=style.REFERENCE, lw=1.2, label=style.OF_STEPS, zorder=5)
    style.plain_logs(ax, "y")
    ax.set_xscale("log")
    ax.set_xticks(count, [f"{n}\n{style.number(number)}" for n, number in zip(cases, count, strict=True)])
    ax.set_xticks([], minor=True)


def _counts(result: Result, cases: Mapping[int, str]) -> list[float]:
    """Spheres that a body has at each resolution: of the first method that reports them, else of a grid."""

    def counts(case: str) -> list[float]:
        found = [result.metric(method, case, "spheres") for method in result.methods]
        return [value for value in found if np.isfinite(value)]

    return [next(iter(counts(case)), float(n**3)) for n, case in cases.items()]


def _draw_shares(ax: Any, result: Result, settings: Settings) -> None:
    """How much of the volume and of the inertia the spheres have, of the box and of the mesh."""
    looks = {"coverage_percent": ("volume", "-"), "inertia_percent": ("inertia about the vertical, as points", "--")}
    shapes = {BOX: ("push", settings.resolutions, "o"), settings.mesh: ("push", settings.mesh_resolutions, "s")}
    for shape, (kind, resolutions, marker) in shapes.items():
        cases = _cases(kind, shape, sorted(set(resolutions)))
        known = [c for c in result.methods if np.isfinite(result.metric(c, [*cases.values()][0], "spheres"))]
        for method in known[:1]:
            for metric, (what, look) in looks.items():
                values = [result.metric(method, case, metric) for case in cases.values()]
                shade = style.INK if shape == BOX else "#8a97a3"
                label = f"{shape}: {what}"
                ax.plot(_counts(result, cases), values, ls=look, marker=marker, ms=4, color=shade, label=label)
    style.plain_logs(ax, "x")
    ax.set_ylim(0.0, 105.0)
    style.label(ax, "what the spheres have of the body", "spheres altogether", "share [%]")


# spheres


def _packings(result: Result, settings: Settings) -> list[tuple[str, str, Array]]:
    """Title, colour and spheres (n, 4) of every shape, and once more of a method that makes something else of it."""
    wanted = [(shape, USUAL) for shape in GEOMS if shape == BOX]
    wanted += [(settings.mesh, n) for n in sorted(set(settings.drawn))]
    wanted += [(shape, USUAL) for shape in GEOMS if shape != BOX]
    found = []
    for shape, n in wanted:
        drawn: list[Array] = []
        for method in result.ran(shape_label(shape, n)):
            names = ("centre_x", "centre_y", "centre_z", "radius")
            parts = [result.series(method, shape_label(shape, n), name) for name in names]
            body = np.stack(parts, axis=1)
            if not len(body) or not np.isfinite(body).all() or any(np.array_equal(body, other) for other in drawn):
                continue
            drawn.append(body)
            coverage = result.metric(method, shape_label(shape, n), "coverage_percent")
            title = f"{style.short(method)}: {shape}\n{len(body):,} spheres, {coverage:.0f} % of it"
            found.append((title, style.colour(method), body))
    return found


def _draw_image(ax: Any, image: Array, ends: Ends, widest: float) -> None:
    """An image in the middle of a square in which the widest has room, so that all have one scale."""
    left, right, bottom, top = ends
    ax.imshow(image, extent=ends, interpolation="bilinear")
    middle, low = 0.5 * (left + right), 0.5 * (bottom + top) - 0.55 * widest
    ax.plot([middle - 0.5 * BAR, middle + 0.5 * BAR], [low, low], color=style.INK, lw=2.0, solid_capstyle="butt")
    ax.text(middle + 0.6 * BAR, low, f"{BAR:g} m", va="center", fontsize=8, color=style.INK)
    ax.set_xlim(middle - 0.55 * widest, middle + 0.55 * widest)
    ax.set_ylim(low - 0.05 * widest, low + 1.05 * widest)
    ax.set_axis_off()


def render(centre: Array, radius: Array, colour: str, pixels: int = PIXELS) -> tuple[Array, Ends]:
    """Spheres as they are seen from afar, obliquely from above, (h, w, 4) with nothing behind them.

    Returns the image, its first row on top, and where it ends left, right, below and above [m].
    """
    import matplotlib.colors

    right = np.array([np.cos(TURN), np.sin(TURN), 0.0])
    toward = np.array([np.sin(TURN) * np.cos(RISE), -np.cos(TURN) * np.cos(RISE), np.sin(RISE)])
    seen = np.asarray(centre) @ np.stack([right, np.cross(toward, right), toward], axis=1)
    low, high = (seen[:, :2] - radius[:, None]).min(axis=0), (seen[:, :2] + radius[:, None]).max(axis=0)
    side = float((high - low).max()) / pixels
    width, height = np.ceil((high - low) / side).astype(int)
    bright, nearest = np.zeros((height, width)), np.full((height, width), -np.inf)
    light = LIGHT / np.linalg.norm(LIGHT)
    for (u, v, depth), r in zip((seen - [*low, 0.0]) / side, radius / side, strict=True):
        columns = slice(max(int(u - r), 0), min(int(u + r) + 1, width))
        rows = slice(max(int(v - r), 0), min(int(v + r) + 1, height))
        x, y = (np.arange(columns.start, columns.stop) + 0.5 - u) / r, (np.arange(rows.start, rows.stop) + 0.5 - v) / r
        rest = 1.0 - x**2 - y[:, None] ** 2
        z = np.sqrt(np.maximum(rest, 0.0))
        near = (rest >= 0.0) & (depth + r * z > nearest[rows, columns])
        lit = np.maximum(light[0] * x + light[1] * y[:, None] + light[2] * z, 0.0)
        bright[rows, columns] = np.where(near, DARK + (1.0 - DARK) * lit, bright[rows, columns])
        nearest[rows, columns] = np.where(near, depth + r * z, nearest[rows, columns])
    shade = np.array(matplotlib.colors.to_rgb(colour)) ** 0.6  # paler than a line: most of a sphere is in the dark
    image = np.concatenate([bright[..., None] * shade, np.isfinite(nearest)[..., None]], axis=2)
    ends = (float(low[0]), float(low[0] + width * side), float(low[1]), float(low[1] + height * side))
    return np.clip(image[::-1], 0.0, 1.0), ends
