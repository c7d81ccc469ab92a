"""The picture of `ablation`: the paper's own in time, then every part of the method beside what it is there for."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stickslip.bench.experiments.free_bodies import ablation_cases as cases
from stickslip.bench.references import motion
from stickslip.bench.report import style
from stickslip.bench.result import Result

COURSES = {"position_error_m": ("position", "m", 1e-6), "rotation_error_deg": ("rotation", "deg", 1e-4)}
"""What each error is of, its unit, and where its axis begins."""
LOOKS = {"velocity": "--", "linear": ":", "angular": "-."}
PANELS = (
    (cases.SLIPPERY, "position_error_m", "pushed, no friction:\nposition error", "m", 1e-4),
    (cases.SLIPPERY, "rotation_error_deg", "pushed, no friction:\nrotation error", "deg", 1e-6),
    (cases.PUSHED, "position_error_m", "pushed, friction:\nposition error", "m", 1e-4),
    (cases.TURNED, "rotation_error_deg", "with torque:\nrotation error", "deg", 1e-3),
    (cases.COLLIDING, "momentum_change", "two boxes collide: change\nof their momentum", "kg m/s", 1e-6),
    (cases.COLLIDING, "spin_change", "two boxes collide: change\nof their angular momentum", "kg m$^2$/s", 1e-6),
)
"""Case, metric, title and unit of each panel, and the least that its axis shows."""
EXPECTED = {"position_error_m": "expected_m", "rotation_error_deg": "expected_deg"}
ROOM = 30.0
"""How much farther than the largest value an axis goes, for its number."""


def draw(result: Result, settings: cases.Settings) -> Any:
    title = f"ablation: PBD-R without one of its parts, steps of {1e3 * settings.timestep:g} ms"
    fig, axes = style.figure(title, 2, width=18.0, height=4.9)
    courses, panels = style.split(axes[0, 0], 2), style.split(axes[1, 0], len(PANELS))
    for ax, (metric, (what, unit, least)) in zip(courses, COURSES.items(), strict=True):
        cut = False
        for label in (each for each in (*cases.PUBLISHED, "pbd-r") if each in result.methods):
            time, error = (result.series(label, cases.SLIPPERY, name) for name in ("time", metric))
            if np.isfinite(error).any():
                look = {"ls": LOOKS.get(label.partition(":")[2].partition("=")[0], "-"), "lw": 1.8}
                style.line(ax, result, label, time[1:], np.maximum(error[1:], least), **look)
                cut = cut or bool((error[1:] < least).any())
        style.plain_logs(ax, "y")
        title = f"pushed with {settings.force:g} N without friction, as the paper's Table III: {what} error"
        shown = f", shown from {style.number(least)} on" if cut else ""
        style.label(ax, title, "time [s]", f"{what} error{shown} [{unit}]")
    for ax, (case, metric, title, unit, least) in zip(panels, PANELS, strict=True):
        values = {label: result.metric(label, case, metric) for label in result.methods}
        _draw_panel(ax, result, values, least, _of_steps(result, case, metric, settings))
        style.label(ax, title, f"[{unit}]")
    for ax in panels[1:]:
        ax.set_yticklabels([])
    style.legend(fig, [*courses, *panels])
    return fig


def _of_steps(result: Result, case: str, metric: str, settings: cases.Settings) -> float:
    """What steps are off by under the constant force of a case; NaN if there is none."""
    for label in result.ran(case):
        expected = result.metric(label, case, EXPECTED.get(metric, ""))
        if expected > 0.0:
            return motion.step_error(expected, settings.timestep, settings.duration)
    return float("nan")


def _draw_panel(ax: Any, result: Result, values: Mapping[str, float], least: float, steps: float) -> None:
    """A row a method: a point where its metric is, and its number; a cross for what is not finite."""
    rows = _order(list(values))
    known = np.array([abs(values[label]) for label in rows if np.isfinite(values[label])])
    low = max(least, min(known, default=least)) / 3.0
    high = max(3.0 * low, *known) if known.size else 10.0 * low
    for row, label in enumerate(rows):
        value, shade = values[label], style.colour(label.partition(":")[0])
        place = max(abs(value), low) if np.isfinite(value) else low
        if np.isfinite(value):
            ax.plot([low, place], [row, row], color=shade, lw=1.0, alpha=0.5)
            ax.plot(place, row, "o" if abs(value) > low else "<", color=shade, ms=5, clip_on=False)
        at = {"textcoords": "offset points", "va": "center", "fontsize": 8, "color": style.INK}
        ax.annotate(style.number(value), (place, row), (6, 0), **at)
    if np.isfinite(steps) and low < steps < ROOM * high:
        ax.axvline(steps, ls=":", color=style.REFERENCE, lw=1.0, label=style.OF_STEPS, zorder=0.5)
    ax.set_xscale("log")
    ax.set_xlim(low, ROOM * high)
    ax.minorticks_off()
    ax.set_yticks(range(len(rows)), [style.in_full(label) for label in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.grid(False, axis="y")


def _order(labels: Sequence[str]) -> list[str]:
    """Ours first, then the paper's and what it takes out, PBD, and whoever else takes part."""
    pbd, *paper = cases.PUBLISHED
    known = [*cases.OWN, *paper, pbd]
    return [label for label in known if label in labels] + [label for label in labels if label not in known]
