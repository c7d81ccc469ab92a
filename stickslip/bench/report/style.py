"""One look for every picture: the same colour for the same method, quiet axes, units on every label."""

import colorsys
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from stickslip.bench.result import Result
from stickslip.physics import registry

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

FEW = 100.0
"""An axis that goes from one value to less than so many times as much has few decades."""
INK, FAINT = "#22303c", "#c9d1d8"
TICK = 8.5
"""Size of tick labels [points]."""
REFERENCE = "#111111"
"""Colour of an analytic answer, drawn dashed."""
OF_STEPS = "what steps of this length are off by, with exact forces"
"""Name of a dotted line; see `motion.step_error`."""
COLOURS = {name: entry.colour for name, entry in registry.entries().items()} | {
    "mujoco-anti-creep": "#1f3f66",
    "mujoco-c": "#4a4e57",
    "pbd": "#b59a2a",
    "pbd-r-ablated": "#7d6608",
    "pbd-r-paper": "#2f8f9d",
    "qp": "#7a7a7a",
    "drake": "#c0392b",
    "mjx": "#8593a3",
    "newton": "#2a6f97",
    "ipopt": "#e07b39",
    "implicit": "#7a7a7a",
}
"""Colour of each method; variants of one take other shades of its colour."""
_SPARE = ("#3aa6a6", "#a65c3a", "#6f7f3a", "#93395f")


def figure(title: str, rows: int = 1, columns: int = 1, *, width: float = 12.0, height: float = 3.6) -> tuple[Any, Any]:
    """A figure and its axes (rows, columns); `height` is that of a row, in inches like `width`."""
    import matplotlib.figure

    fig = matplotlib.figure.Figure(figsize=(width, height * rows + 0.9), layout="constrained", facecolor="white")
    fig.suptitle(title, fontsize=13, color=INK, x=0.01, ha="left")
    axes = fig.subplots(rows, columns, squeeze=False)
    for ax in axes.flat:
        _quiet(ax)
    return fig, axes


def split(ax: "matplotlib.axes.Axes", columns: int) -> list[Any]:
    """A row of axes in the place of one, for pictures whose rows are divided differently."""
    spec = ax.get_subplotspec()
    fig = ax.figure
    if spec is None or fig is None:
        raise ValueError("only axes made by `figure` can be split")
    ax.remove()
    grid = spec.subgridspec(1, columns)
    axes = [fig.add_subplot(grid[0, column]) for column in range(columns)]
    for each in axes:
        _quiet(each)
    return axes


def _quiet(ax: "matplotlib.axes.Axes") -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(FAINT)
    ax.tick_params(colors=INK, labelsize=TICK, length=3, color=FAINT)
    ax.grid(True, color=FAINT, lw=0.5, alpha=0.6)
    ax.set_axisbelow(True)


def label(ax: "matplotlib.axes.Axes", title: str, x: str = "", y: str = "") -> None:
    """Title, and names of the axes with their units."""
    ax.set_title(title, fontsize=10, loc="left", color=INK)
    ax.set_xlabel(x, fontsize=9, color=INK)
    ax.set_ylabel(y, fontsize=9, color=INK)


def short(method: str) -> str:
    """A label for a legend: `comfree:stiffness=0.1,damping=0.001` becomes `comfree 0.1, 0.001`.

    A choice has its name with it, and a switch is its name: `pbd-r inertia packed`, `pbd-r-paper without velocity`.
    """
    return _told(method, " ", names=False)


def in_full(method: str) -> str:
    """The same with a name before every value: `pbd-r: iterations 10`, `pbd-r-paper: without velocity`."""
    return _told(method, ": ", names=True)


def _told(method: str, link: str, *, names: bool) -> str:
    name, _, text = method.partition(":")
    values = [_value(*part.split("=", 1), named=names) for part in text.split(",") if "=" in part]
    return f"{name}{link}{', '.join(values)}" if values else name


def _value(name: str, value: str, *, named: bool) -> str:
    if value.lower() in ("true", "false"):
        return f"{'with' if value.lower() == 'true' else 'without'} {name}"
    return f"{name} {value}" if named or value.isalpha() else value


def number(value: float) -> str:
    """Three significant digits, without an exponent where that is readable; a cross for what is not finite."""
    if not np.isfinite(value):
        return "×"
    value, size = value + 0.0, abs(value)  # no minus before a zero
    if size >= 1e9 or 0 < size < 1e-5:
        return f"{value:.2e}"
    if size >= 999.5e3:
        return f"{value / 1e6:,.3g} M"
    return f"{value:,.0f}" if size >= 999.5 else f"{value:.3g}" if size >= 1e-4 or size == 0 else f"{value:.7f}"


def colour(method: str, among: Sequence[str] = ()) -> str:
    """The colour of a method; the variants of one physics `among` the methods get shades of its colour."""
    name, _, variant = method.partition(":")
    base = COLOURS.get(name) or _SPARE[sum(map(ord, name)) % len(_SPARE)]
    variants = [c for c in among if c.partition(":")[0] == name and ":" in c]
    if not variant or method not in variants:
        return base
    red, green, blue = (int(base[i : i + 2], 16) / 255 for i in (1, 3, 5))
    hue, light, saturation = colorsys.rgb_to_hls(red, green, blue)
    place = variants.index(method) / max(len(variants) - 1, 1)  # the first is darker than the physics itself
    shade = colorsys.hls_to_rgb(hue, 0.28 + 0.5 * place, saturation * 0.85)
    return "#" + "".join(f"{round(255 * c):02x}" for c in shade)


def line(ax: "matplotlib.axes.Axes", result: Result, method: str, x: Any, y: Any, **options: Any) -> None:
    """A line of a method, in its colour and under its name; variants are thinner."""
    style = {"lw": 1.2 if ":" in method else 1.8, "label": short(method), **options}
    ax.plot(x, y, color=colour(method, list(result.methods)), **style)


def reference(ax: "matplotlib.axes.Axes", x: Any, y: Any, name: str = "exact") -> None:
    """An analytic answer."""
    ax.plot(x, y, "--", color=REFERENCE, lw=1.2, label=name, zorder=5)


def bars(
    ax: "matplotlib.axes.Axes",
    result: Result,
    groups: Sequence[str],
    values: Mapping[str, Sequence[float]],
    *,
    errors: Mapping[str, Sequence[float]] | None = None,
    log: bool = False,
    ticks: Sequence[str] | None = None,
) -> None:
    """A group of bars, one bar per method, with the value above each; `values[method]` has one entry per group.

    A value that is not finite gets a cross. Negative values are drawn as they are, unless `log`.
    """
    labels = [c for c in result.methods if c in values]
    width = 0.8 / max(len(labels), 1)
    drawn = np.array([np.asarray(values[c], dtype=float) for c in labels])
    finite = np.abs(drawn[np.isfinite(drawn) & (drawn != 0)])
    floor = finite.min() / 3 if log and finite.size else 0.0
    crowded = _crowded(ax, [[number(value) for value in row] for row in drawn])
    for place, method in enumerate(labels):
        heights = drawn[place]
        x = np.arange(len(groups)) + (place - (len(labels) - 1) / 2) * width
        tall = np.where(np.isfinite(heights), np.abs(heights) if log else heights, 0.0)
        tall = np.maximum(tall, floor) if log else tall
        error = None if errors is None else np.nan_to_num(np.asarray(errors[method], dtype=float))
        fill = colour(method, list(result.methods))
        seen = np.where(np.isfinite(heights), tall, np.nan)  # a bar without a value would look like a low one
        ax.bar(x, seen, width * 0.92, color=fill, label=short(method), yerr=error, ecolor=INK, error_kw={"lw": 0.8})
        above = np.zeros(len(tall)) if error is None else error
        for at, height, value, whisker in zip(x, tall, heights, above, strict=True):
            text = number(value)
            size = 8 if len(groups) * len(labels) <= 16 else 6.5
            turn = 90 if crowded else 0
            up = max(height + whisker, 0.0)
            ax.annotate(
                text,
                (at, up),
                (0, 2),
                textcoords="offset points",
                ha="center",
                va="bottom",
                rotation=turn,
                fontsize=size,
                color=INK,
            )
    if log and finite.size:
        _decades(ax, floor, finite.max(), headroom=0.25 if crowded else 0.1)
    else:
        ax.margins(y=0.4 if crowded else 0.18)
    ax.grid(False, axis="x")
    ax.set_xlim(-0.5, len(groups) - 0.5)
    names = [textwrap.fill(g, 16) for g in ticks or groups]
    longest = max((len(line) for name in names for line in name.splitlines()), default=0)
    slanted = {"rotation": 20, "ha": "right"} if longest * 0.56 * TICK > _width(ax) / len(groups) else {}
    ax.set_xticks(range(len(groups)), names, **slanted)


def _width(ax: "matplotlib.axes.Axes") -> float:
    """Of axes, in points."""
    return np.inf if ax.figure is None else ax.bbox.width / ax.figure.dpi * 72.0


def _crowded(ax: "matplotlib.axes.Axes", texts: Sequence[Sequence[str]]) -> bool:
    """Whether values, by method and group, are too wide to stand side by side above their bars."""
    if not texts:
        return False
    count, groups = len(texts), len(texts[0])
    room = _width(ax) * 0.8 / max(count * groups, 1)  # points per bar
    size = 8 if groups * count <= 16 else 6.5
    return any(0.56 * size * len(text) > room for row in texts for text in row)


def _decades(ax: "matplotlib.axes.Axes", low: float, high: float, headroom: float) -> None:
    """A logarithmic axis that holds `low` to `high`, two decades at least, and names whole decades only.

    `headroom` is the part of the axis that is left free above `high`, for the values of bars.
    """
    import matplotlib.ticker

    ax.set_yscale("log")
    middle = np.sqrt(low * high)
    reach = max(np.sqrt(high / low) * 1.6, 10.0)
    bottom, top = middle / reach * 1.5, middle * reach / 1.2
    ax.set_ylim(bottom, bottom * (top / bottom) ** (1.0 / (1.0 - headroom)))
    ax.yaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())


def plain_logs(ax: "matplotlib.axes.Axes", *names: str) -> None:
    """Logarithmic axes whose marks are plain numbers: 1, 2 and 5 of each decade where there are few decades.

    An axis without a positive number stays as it is.
    """
    import matplotlib.ticker

    for name in names:
        drawn = np.array([value for line in ax.lines for value in getattr(line, f"get_{name}data")()], dtype=float)
        drawn = drawn[np.isfinite(drawn) & (drawn > 0.0)]
        if not drawn.size:
            continue
        ax.set(**{f"{name}scale": "log"})
        axis = getattr(ax, f"{name}axis")
        subs = (1.0, 2.0, 5.0) if drawn.max() < FEW * drawn.min() else (1.0,)
        axis.set_major_locator(matplotlib.ticker.LogLocator(subs=subs))
        axis.set_major_formatter(lambda value, place: number(value))
        axis.set_minor_formatter(matplotlib.ticker.NullFormatter())


def legend(fig: "matplotlib.figure.Figure", axes: Any) -> None:
    """One legend below all axes, each name once."""
    found: dict[str, Any] = {}
    for ax in np.asarray(axes).flat:
        for handle, name in zip(*ax.get_legend_handles_labels(), strict=True):
            found.setdefault(name, handle)
    fig.legend(
        list(found.values()),
        list(found),
        loc="outside lower left",
        ncols=min(6, len(found)),
        fontsize=8.5,
        frameon=False,
    )
