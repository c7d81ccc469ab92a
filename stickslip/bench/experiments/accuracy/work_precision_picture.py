"""The picture of `work-precision`: a row a scene, and the steps that error control takes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from stickslip.bench.experiments.accuracy.work_precision_cases import Case, Settings, level, parse, power
from stickslip.bench.report import series, style
from stickslip.bench.result import Result

COST = "wall time of a simulated second [s]"
ERROR = "farthest body from the reference [mm]"
RING = {"marker": "o", "markersize": 9, "markerfacecolor": "none", "lw": 0, "label": None}
"""Around the level in the middle."""


def draw(result: Result, settings: Settings, cases_of: Callable[[Settings], Mapping[str, Case]]) -> Any:
    cases = cases_of(settings)
    ((label, case),) = [(label, case) for label, case in cases.items() if case.traced]
    worlds = f"{settings.worlds} world{'s' if settings.worlds > 1 else ''}"
    middle = level(case.timestep, case.accuracy)
    levels = [level(*each) for each in zip(settings.timesteps, settings.accuracies, strict=True)]
    ends = " to ".join(dict.fromkeys((levels[0], levels[-1])))
    title = f"work and precision on {result.machine['device']}, {worlds}; lines: {ends}; ring: {middle}"
    scenes = [parse(text) for text in settings.scenes]
    fig, rows = style.figure(title, len(scenes) + 1, width=17.0)
    axes = []
    for row, scene in zip(rows[:-1, 0], scenes, strict=True):
        panels = style.split(row, 3)
        _draw_scene(panels, result, {name: each for name, each in cases.items() if each.scene == scene})
        axes += panels
    _draw_steps(rows[-1, 0], result, label, case, settings)
    style.legend(fig, [*axes, rows[-1, 0]])
    return fig


def _draw_scene(axes: Sequence[Any], result: Result, cases: Mapping[str, Case]) -> None:
    """Wall time against error and against depth, or iterations against error, and iterations at every level."""
    by_error, beside, work = axes
    names = ("wall_s_per_sim_s", "error_mm", "deepest_mm", "iterations")
    wall, error, depth, iterations = (_positive(result, list(cases), name) for name in names)
    deep = any(np.isfinite(values).any() for values in depth.values())
    place = len(cases) // 2
    for label in wall:
        for ax, x, y in (
            (by_error, error[label], wall[label]),
            (beside, depth[label], wall[label]) if deep else (beside, error[label], iterations[label]),
            (work, np.arange(len(cases)), iterations[label]),
        ):
            if np.isfinite(y).any():
                style.line(ax, result, label, x, y, marker="o", markersize=3.5)
                style.line(ax, result, label, x[place : place + 1], y[place : place + 1], **RING)
    scene = next(iter(cases.values())).scene
    for ax in (by_error, beside):
        style.plain_logs(ax, "x", "y")
    style.plain_logs(work, "y")
    ticks = [f"{1e3 * case.timestep:g} ms\n{power(case.accuracy)}" for case in cases.values()]
    work.set_xticks(range(len(cases)), ticks)
    style.label(by_error, f"{scene.name}: error after {scene.early:g} s", ERROR, COST)
    if deep:
        style.label(beside, f"{scene.name}: deepest penetration in {scene.duration:g} s", "depth [mm]", COST)
    else:
        style.label(beside, f"{scene.name}: iterations against error", ERROR, f"iterations in {scene.duration:g} s")
    style.label(work, f"{scene.name}: iterations in {scene.duration:g} s", "", "iterations")


def _positive(result: Result, cases: Sequence[str], name: str) -> dict[str, Any]:
    """A metric of every method, as far as a logarithmic axis has a place for it."""
    found = {label: np.array(values) for label, values in series.metrics(result, cases, name).items()}
    return {label: np.where(values > 0.0, values, np.nan) for label, values in found.items()}


def _draw_steps(ax: Any, result: Result, label: str, case: Case, settings: Settings) -> None:
    """How long steps are, over time, of every physics that remembers them."""
    for method in result.ran(label):
        time, dt = (result.series(method, label, name) for name in ("trace_s", "trace_dt_s"))
        if np.isfinite(dt).any():
            start, first = time[0] - dt[0], dt[0]
            style.line(ax, result, method, [start, *time], 1e3 * np.r_[first, dt], drawstyle="steps-pre", lw=1.0)
    end, fixed = min(settings.trace, case.scene.duration), 1e3 * case.timestep
    style.reference(ax, [0.0, end], [fixed, fixed], f"a fixed step of {fixed:g} ms")
    ax.set_xlim(0.0, end)
    style.plain_logs(ax, "y")
    title = f"{case.scene.name}: steps that error control takes, accuracy {power(case.accuracy)}"
    style.label(ax, title, "time [s]", "step [ms]")
