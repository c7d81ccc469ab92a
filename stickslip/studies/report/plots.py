"""Metrics over parameters: medians with bands, or points."""

import base64
import io
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stickslip.bench.report import style
from stickslip.studies.report.columns import Axis, Columns

METRICS, AXES, LINES = 9, 6, 8
"""Metrics in a picture, parameters with a picture, lines in a plot, at most."""
POINTS = 1500
"""Points drawn of each line, at most."""
BINS = 16
BAND = (10.0, 90.0)
"""Percentiles between which a band is drawn."""
_SPREAD = 1000.0
"""Largest over smallest value from which an axis is logarithmic."""


def pictures(found: Columns) -> list[tuple[str, str]]:
    """Name of a parameter, and the picture of the metrics over it, as the source of an <img>."""
    metrics = dict(list(found.varied.items())[:METRICS])
    if not metrics:
        return []
    lines = next((axis for axis in found.axes if axis.numbers is None and len(axis.values) <= LINES), None)
    shown = [axis for axis in found.axes if axis is not lines or len(found.axes) == 1][:AXES]
    return [(axis.name, _picture(axis, lines if axis is not lines else None, metrics)) for axis in shown]


def _picture(axis: Axis, lines: Axis | None, metrics: dict[str, NDArray[np.float64]]) -> str:
    """A picture with a plot for each metric."""
    columns = min(3, len(metrics))
    count = math.ceil(len(metrics) / columns)
    fig, axes = style.figure("", count, columns, width=4.2 * columns + 0.6, height=2.9)
    for ax, (name, values) in zip(axes.flat, metrics.items(), strict=False):
        style.label(ax, name, axis.name, "")
        for place, (label, rows) in enumerate(_lines(lines, len(values))):
            colour = style.colour(label) if label in style.COLOURS else f"C{place}"
            if axis.numbers is None or (lines is None and axis.few and len(axis.values) <= 3):
                _boxes(ax, axis, values, rows, place, 1 if lines is None else len(lines.values), colour, label)
            else:
                _line(ax, axis, values, rows, colour, label)
        ax.margins(y=0.08)
        _scales(ax, axis, values)
    for ax in list(axes.flat)[len(metrics) :]:
        ax.set_visible(False)
    if lines is not None:
        style.legend(fig, axes)
    out = io.BytesIO()
    fig.savefig(out, format="png", dpi=100)
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()


def _lines(lines: Axis | None, count: int) -> list[tuple[str, NDArray[np.intp]]]:
    """Label and cells of each line."""
    if lines is None:
        return [("", np.arange(count))]
    return [(str(value), np.flatnonzero(lines.index == place)) for place, value in enumerate(lines.values)]


def _line(
    ax: Any, axis: Axis, values: NDArray[np.float64], rows: NDArray[np.intp], colour: str, label: str
) -> None:  # fmt: skip
    """Medians over a number, with a band; points where each cell has a value of its own."""
    assert axis.numbers is not None
    x, y = axis.numbers[rows], values[rows]
    good = np.isfinite(x) & np.isfinite(y)
    x, y = x[good], y[good]
    if not len(x):
        return
    if axis.few:
        places = np.unique(x)
        groups = [y[x == place] for place in places]
    else:
        step = max(1, len(x) // POINTS)
        ax.plot(x[::step], y[::step], ".", ms=2.5, color=colour, alpha=0.35)
        ends = np.unique(np.quantile(x, np.linspace(0.0, 1.0, min(BINS, max(2, len(x) // 8)) + 1)))
        bins = np.clip(np.searchsorted(ends, x, side="right") - 1, 0, len(ends) - 2)
        groups = [y[bins == one] for one in range(len(ends) - 1)]
        places = np.array(
            [np.median(x[bins == one]) if (bins == one).any() else np.nan for one in range(len(ends) - 1)]
        )
    kept = [place for place, group in enumerate(groups) if len(group)]
    places, groups = places[kept], [groups[place] for place in kept]
    low, high = (np.array([np.percentile(group, end) for group in groups]) for end in BAND)
    if any(len(group) > 2 for group in groups):
        ax.fill_between(places, low, high, color=colour, alpha=0.15, lw=0)
    middle = [np.median(group) for group in groups]
    ax.plot(places, middle, "-o" if axis.few else "-", ms=3.5, lw=1.5, color=colour, label=style.short(label))


def _boxes(
    ax: Any,
    axis: Axis,
    values: NDArray[np.float64],
    rows: NDArray[np.intp],
    place: int,
    count: int,
    colour: str,
    label: str,
) -> None:
    """Median, quartiles and a band for each value of a parameter that is no number."""
    width = 0.7 / count
    for at in range(len(axis.values)):
        group = values[rows[axis.index[rows] == at]]
        group = group[np.isfinite(group)]
        if not len(group):
            continue
        x = at + (place - 0.5 * (count - 1)) * width
        low, first, middle, third, high = np.percentile(group, [BAND[0], 25.0, 50.0, 75.0, BAND[1]])
        ax.plot([x, x], [low, high], color=colour, lw=1.0, alpha=0.7)
        ax.bar(x, third - first, 0.8 * width, bottom=first, color=colour, alpha=0.35)
        named = style.short(label) if at == 0 else None
        ax.plot([x - 0.4 * width, x + 0.4 * width], [middle] * 2, color=colour, lw=2.2, label=named)
    names = [str(value) for value in axis.values]
    slanted = {"rotation": 20, "ha": "right"} if max(map(len, names)) > 8 or len(names) > 6 else {}
    ax.set_xticks(range(len(names)), [style.short(name)[:24] for name in names], **slanted)
    ax.grid(False, axis="x")


def _scales(ax: Any, axis: Axis, values: NDArray[np.float64]) -> None:
    """Logarithmic axes for what is positive and goes over several decades."""
    for which, numbers in (("x", axis.numbers), ("y", values)):
        if numbers is None:
            continue
        finite = numbers[np.isfinite(numbers)]
        if finite.size and finite.min() > 0.0 and finite.max() > _SPREAD * finite.min():
            ax.set(**{f"{which}scale": "log"})
