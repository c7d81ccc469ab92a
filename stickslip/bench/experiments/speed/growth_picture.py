"""The picture of `growth`: time of a step and throughput against worlds, dofs and contacts."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from stickslip.bench.experiments.speed.growth_cases import AXES, Axis, Case
from stickslip.bench.report import style
from stickslip.bench.result import Result

ROWS = {"ms_per_step": "time of a step of all worlds [ms]", "world_steps_per_s": "steps of single worlds [1/s]"}
COLUMNS: dict[Axis, tuple[str, str]] = {
    "worlds": ("worlds", "worlds"),
    "dofs": ("dofs", "dofs of a world"),
    "contacts": ("contacts_per_world", "contacts of a world"),
}
"""Metric along x, and what it is called."""
DASHES = ("-", "--", ":")
"""Of the first, second and third curve in one place."""
STOPPED = "larger cases left out"


def draw(result: Result, cases: Mapping[str, Case]) -> Any:
    """A column for what grows, a colour a method, a dash a curve; a cross where larger cases were left out."""
    fig, axes = style.figure(f"growth: cost of a step on {result.machine['device']}", 2, 3, width=14.0, height=3.9)
    for column, (axis, (metric, name)) in enumerate(COLUMNS.items()):
        curves = [curve for curve, what in AXES.items() if what == axis]
        worlds = {case.worlds for case in cases.values() if case.curve in curves}
        many = f", {_count(worlds)}" if axis != "worlds" and len(worlds) == 1 else ""
        for row, (y, what) in enumerate(ROWS.items()):
            ax = axes[row][column]
            for curve, dash in zip(curves, DASHES, strict=False):
                points = [label for label, case in cases.items() if case.curve == curve]
                _draw_curve(ax, result, points, metric, y, dash)
            _scales(ax, axis)
            title = f"{curves[0] if len(curves) == 1 else axis}{many}" if row == 0 else ""
            style.label(ax, title, name if row == 1 else "", what if column == 0 else "")
    style.legend(fig, axes)
    for column, axis in enumerate(COLUMNS):
        _name_curves(axes[0][column], [curve for curve, what in AXES.items() if what == axis])
    return fig


def _name_curves(ax: Any, curves: list[str]) -> None:
    """Which dash is which curve, where there are several; a legend of its own, inside."""
    import matplotlib.lines

    if len(curves) > 1:
        shown = zip(curves, DASHES, strict=False)
        lines = [matplotlib.lines.Line2D([], [], ls=dash, color=style.INK, lw=1.4, label=name) for name, dash in shown]
        ax.legend(handles=lines, loc="upper left", fontsize=8.5, frameon=False)


def _count(worlds: set[int]) -> str:
    (number,) = worlds
    return f"{number:,} world{'s' if number > 1 else ''}"


def _draw_curve(ax: Any, result: Result, points: list[str], x: str, y: str, dash: str) -> None:
    among = list(result.methods)
    for label in among:
        ran = [case for case in points if result.has(label, case)]
        at = np.array([result.metric(label, case, x) for case in ran])
        values = np.array([result.metric(label, case, y) for case in ran])
        if not np.isfinite(values).any():
            continue
        ax.plot(at, values, dash, color=style.colour(label, among), lw=1.6, marker="o", ms=3.2)
        ax.plot([], [], color=style.colour(label, among), lw=1.8, label=style.short(label))
        if len(ran) < len(points) and any(result.unsupported(label).get(case) for case in points):
            ax.plot(at[-1:], values[-1:], "x", color=style.colour(label, among), ms=8, mew=1.8)
            ax.plot([], [], "x", color=style.INK, ms=7, mew=1.6, label=STOPPED)


def _scales(ax: Any, axis: Axis) -> None:
    if axis == "contacts":
        style.plain_logs(ax, "y")
        ax.set_xscale("symlog", linthresh=1.0, linscale=0.4)
        most = np.nanmax([1.0, *(np.nanmax(line.get_xdata()) for line in ax.lines if len(line.get_xdata()))])
        ticks = [0, *(10**power for power in range(math.ceil(math.log10(most)) + 1) if 10**power < 2 * most)]
        ax.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        ax.set_xlim(left=-0.2)
    else:
        style.plain_logs(ax, "x", "y")
