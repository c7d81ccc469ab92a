"""The picture of `patch-cost`: time against the error of the force in every scene, and ratios."""

from typing import Any

import numpy as np

from stickslip.bench.experiments.speed.patch_cost_cases import Case, Settings
from stickslip.bench.report import series, style
from stickslip.bench.result import Result

COLUMNS = 4
COST = "wall time of a simulated second [ms]"
LEAST, MOST = 0.05, 200.0
"""Ends of the axis of errors [%]; smaller ones are drawn at its beginning."""


def draw(result: Result, settings: Settings) -> Any:
    worlds = f"{settings.worlds} world{'s' if settings.worlds > 1 else ''}"
    title = f"patch-cost on {result.machine['device']}, {worlds}, accuracy {settings.accuracy:g}"
    rows = -(-len(settings.scenes) // COLUMNS)
    fig, axes = style.figure(title, rows + 1, 1, width=17.0)
    drawn = []
    for row, ax in enumerate(axes[:-1, 0]):
        panels = style.split(ax, COLUMNS)
        scenes = settings.scenes[row * COLUMNS : (row + 1) * COLUMNS]
        for panel, scene in zip(panels, scenes, strict=False):
            _draw_scene(panel, result, scene)
        for panel in panels[len(scenes) :]:
            panel.set_visible(False)
        drawn += panels
    cases, ticks = [Case(scene, "patches").label for scene in settings.scenes], list(settings.scenes)
    last = style.split(axes[-1, 0], 3)
    over = "rate_over_drake" if settings.worlds > 1 else "second_over_drake"
    what = "steps of worlds in a second, over Drake's" if settings.worlds > 1 else "simulated second, over Drake's"
    for panel, name, told, unit in (
        (last[0], "patches_over_points", "step with patches over one with points", "ratio of times"),
        (last[1], over, f"{what} of a force as good", "ratio"),
        (last[2], "geometry_percent", "finding the geometry once, of a step with patches", "of the step [%]"),
    ):
        values = series.metrics(result, cases, name)
        values = {label: found for label, found in values.items() if np.isfinite(found).any()}
        style.bars(panel, result, cases, values, log=True, ticks=ticks)
        style.label(panel, told, "", unit)
    for panel in last[:2]:
        panel.axhline(1.0, color=style.INK, lw=0.8, zorder=0)
    style.legend(fig, [*drawn, *last])
    return fig


def _draw_scene(ax: Any, result: Result, scene: str) -> None:
    """Time against error, of patches: a line through Drake's resolutions, a mark for each of the others."""
    case = Case(scene, "patches").label
    groups: dict[str, list[str]] = {}
    for label in result.ran(case):
        groups.setdefault(label.partition(":")[0], []).append(label)
    for name, labels in groups.items():
        error = np.array([abs(result.metric(label, case, "force_percent")) for label in labels])
        time = np.array([1e3 / result.metric(label, case, "world_seconds_per_s") for label in labels])
        mark = {"marker": "o", "markersize": 4.0} if len(labels) > 1 else {"marker": "D", "markersize": 6.0, "lw": 0}
        style.line(ax, result, name, np.clip(error, LEAST, MOST), time, clip_on=False, **mark)
    style.plain_logs(ax, "x", "y")
    ax.set_xlim(LEAST, MOST)
    ax.margins(y=0.15)
    style.label(ax, scene, f"error of the force at rest [%], {LEAST:g} or less at the left", COST)
