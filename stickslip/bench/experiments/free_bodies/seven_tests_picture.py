"""The picture of `seven-tests`: errors, their course in time, and the sweep over friction and force."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from stickslip.bench.report import style
from stickslip.bench.result import Result

if TYPE_CHECKING:
    from stickslip.bench.experiments.free_bodies.body_tests import Settings

CALM = ", no noise"
"""How the label of the run without noise ends."""
OTHER = ", dt "
"""In the label of a run at another step length."""
ACROSS = 4
"""Panels in a row."""
LOWEST = {"position_error_m": 1e-6, "rotation_error_deg": 1e-4}
"""Where logarithmic axes of errors begin at the lowest."""
AXIS = {"position_error_m": "position error [m]", "rotation_error_deg": "rotation error [deg]"}
REFERENCES = {"": "--", "corner_": ":"}
"""Of the rod: how the names of metrics begin, and the line in which each is drawn."""
EXACT = {"": "exact, even pressure", "corner_": "exact, on the corners"}


def draw(result: Result, settings: "Settings") -> Any:
    others = sorted(case for case in result.cases if OTHER in case and not case.startswith("7"))
    tests = sorted(case for case in result.cases if not case.startswith("sweep") and OTHER not in case)
    bodies, rods = ([c for c in tests if c.startswith("7") == rod] for rod in (False, True))
    sweeps = [case for case in result.cases if case.startswith("sweep")]
    labels = [c for c in result.methods if any(result.has(c, case) for case in sweeps)]
    courses, groups = _rows([case for case in tests if not case.endswith(CALM)]), _rows(labels)
    pushes = [case for case in rods if case.endswith("off")][:1]
    tumblers = [case for case in bodies if case[0] in "46"]
    finals = [(chosen, metric) for chosen in (bodies, others) if chosen for metric in AXIS]
    panels = [*(lambda ax, metric=metric: _rod(ax, result, pushes[0], metric) for metric in AXIS if pushes)]
    panels += [lambda ax: _kept(ax, result, rods)] if rods else []
    panels += [lambda ax: _tumbled(ax, result, tumblers)] if tumblers else []

    count = len(finals) + bool(panels) + 2 * len(courses) + len(pushes) + 2 * len(groups)
    title = "seven tests: motions of one rigid body, compared with their exact course"
    fig, axes = style.figure(title, count, height=2.8)
    rows = iter(axes[:, 0])
    for chosen, metric in finals:
        _final(next(rows), result, chosen, metric, settings)
    if panels:
        for ax, fill in zip(style.split(next(rows), len(panels)), panels, strict=True):
            fill(ax)
    for chosen in courses:
        for metric in AXIS:
            row = style.split(next(rows), ACROSS)
            for ax, case in zip(row, [*chosen, *[""] * (ACROSS - len(chosen))], strict=True):
                _course(ax, result, case, metric)
    for case in pushes:
        _push(style.split(next(rows), 2), result, case)
    for chosen in groups:
        for metric in AXIS:
            _maps(fig, style.split(next(rows), max(len(chosen), 2)), result, chosen, sweeps, metric)
    style.legend(fig, fig.axes)
    return fig


def _rows(items: Sequence[str]) -> list[Sequence[str]]:
    return [items[start : start + ACROSS] for start in range(0, len(items), ACROSS)]


def _of(result: Result, cases: Sequence[str], *metrics: str) -> dict[str, list[float]]:
    """Metrics of every method that ran one of the cases: all of a case, then those of the next."""
    labels = [c for c in result.methods if any(result.has(c, case) for case in cases)]
    return {c: [result.metric(c, case, metric) for case in cases for metric in metrics] for c in labels}


def _spread(metric: str) -> str:
    """The name of a metric's standard deviation over runs."""
    return metric.replace("error", "error_std")


def _final(ax: Any, result: Result, cases: Sequence[str], metric: str, settings: "Settings") -> None:
    """Bars of the final errors of tests 1 to 6."""
    errors = _of(result, cases, _spread(metric))
    ticks = [f"{case[0]}, dt {case.partition(OTHER)[2]}" if OTHER in case else case for case in cases]
    style.bars(ax, result, ticks, _of(result, cases, metric), errors=errors, log=True)
    ax.minorticks_off()
    runs = (
        f"mean of {settings.runs} runs (one without noise), whiskers one standard deviation"
        if settings.runs > 1
        else "one run"
    )
    limit = "" if metric == "position_error_m" else " (180 deg at most, but for torques)"
    style.label(ax, f"{_name(metric)} after {settings.duration:g} s{limit}; {runs}", "", AXIS[metric])


def _name(metric: str) -> str:
    return AXIS[metric].partition(" [")[0]


def _rod(ax: Any, result: Result, case: str, metric: str) -> None:
    """Bars of the errors of a box pushed off its middle, against both references; distances in mm."""
    unit, scale = ("mm", 1e3) if metric == "position_error_m" else ("deg", 1.0)
    values, errors = (
        {c: [scale * v for v in found] for c, found in _of(result, [case], *names).items()}
        for names in ([begin + metric for begin in REFERENCES], [begin + _spread(metric) for begin in REFERENCES])
    )
    style.bars(ax, result, list(EXACT.values()), values, errors=errors, log=True)
    ax.minorticks_off()
    style.label(ax, f"{case}: first half (×: lost)", "", f"rms {_name(metric)} [{unit}]")


def _kept(ax: Any, result: Result, cases: Sequence[str]) -> None:
    """Bars of how long the rod keeps the box, with the exact answers."""
    style.bars(ax, result, cases, _of(result, cases, "lost_s"))
    for place, case in enumerate(cases):
        for begin, look in REFERENCES.items():
            for method in result.ran(case)[:1]:
                exact = result.metric(method, case, f"{begin}reference_lost_s")
                style.reference(ax, [place - 0.45, place + 0.45], [exact, exact], EXACT[begin])
                ax.lines[-1].set(linestyle=look, zorder=2.5)
    for text in ax.texts:
        text.set_bbox({"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5})
    style.label(ax, "7: when the rod loses the box", "", "time [s]")


def _tumbled(ax: Any, result: Result, cases: Sequence[str]) -> None:
    """Bars of how many runs tumbled."""
    style.bars(ax, result, cases, _of(result, cases, "tumbled"))
    ax.set_ylim(0.0, 118.0)
    style.label(ax, "4, 6: tumbled (tilt over 45 deg)", "", "share of runs [%]")


def _course(ax: Any, result: Result, case: str, name: str) -> None:
    """An error of one test in time; dotted without noise, or of a rod off the middle against the other reference."""
    if not case:
        ax.set_axis_off()
        return
    highest, dotted = LOWEST[name], ""
    for method in result.ran(case):
        time, error = (result.series(method, case, what) for what in ("time", name))
        style.line(ax, result, method, time[1:], np.maximum(error[1:], LOWEST[name]))
        highest = max([highest, *error[np.isfinite(error)]])
        other = result.series(method, case + CALM, name)
        if other.size:
            dotted = "no noise"
        elif case.startswith("7") and case.endswith("off"):
            other, dotted = result.series(method, case, f"corner_{name}"), "on corners"
        if other.size:
            style.line(ax, result, method, time[1:], np.maximum(other[1:], LOWEST[name]), ls=":", label=None)
            highest = max([highest, *other[np.isfinite(other)]])
    for method in result.ran(case)[:1] if dotted == "on corners" else ():
        since, until = (result.metric(method, case, f"scored_{end}_s") for end in ("from", "until"))
        ax.axvspan(since, until, color=style.FAINT, alpha=0.35, lw=0.0, label="first half of the push, scored")
    ax.set_yscale("log")
    ax.set_ylim(LOWEST[name], 3.0 * highest)
    ax.minorticks_off()
    style.label(ax, case + ("; dotted: " + dotted if dotted else ""), "time [s]", AXIS[name])


def _push(panels: Sequence[Any], result: Result, case: str) -> None:
    """Seen from above: the path of the box's centre, and its yaw, beside both references."""
    above, turn = panels
    for method in result.ran(case):
        time, x, y, yaw = (result.series(method, case, name) for name in ("time", "seen_x", "seen_y", "seen_deg"))
        style.line(above, result, method, x, y)
        style.line(turn, result, method, time, yaw)
    for method in result.ran(case)[:1]:
        time = result.series(method, case, "time")
        for begin, look in REFERENCES.items():
            x, y, yaw = (result.series(method, case, f"{begin or 'even_'}{part}") for part in ("x", "y", "deg"))
            style.reference(above, x, y, EXACT[begin])
            style.reference(turn, time, yaw, EXACT[begin])
            for ax in (above, turn):
                ax.lines[-1].set_linestyle(look)
    style.label(above, f"{case}: path of the box's centre, from above", "x [m]", "y [m]")
    style.label(turn, f"{case}: yaw of the box", "time [s]", "yaw [deg]")


def _maps(fig: Any, panels: Sequence[Any], result: Result, labels: Sequence[str], cases: Sequence[str], metric: str):
    """A map of friction and force for each method, all with the same colours."""
    import matplotlib.colors

    maps = {c: np.array([result.series(c, case, metric) for case in cases if result.has(c, case)]) for c in labels}
    known = np.concatenate([m[np.isfinite(m) & (m > 0)] for m in maps.values()] or [np.array([1.0])])
    low, high = (known.min(), known.max()) if known.size else (LOWEST[metric], 1.0)
    norm = matplotlib.colors.LogNorm(max(low, LOWEST[metric]), max(high, 10.0 * LOWEST[metric]))
    drawn = None
    for ax, method in zip(panels, labels, strict=False):
        there = [case for case in cases if result.has(method, case)]
        values = np.maximum(maps[method], LOWEST[metric])
        drawn = ax.imshow(values, norm=norm, cmap="YlOrRd", aspect="auto", origin="lower")
        for row, column in np.ndindex(values.shape):
            bright = norm(values[row, column]) > 0.6
            text = style.number(float(maps[method][row, column]))
            ax.text(column, row, text, ha="center", va="center", fontsize=6.5, color="white" if bright else style.INK)
        forces = result.series(method, there[0], "force")
        ax.set_xticks(range(len(forces)), [f"{force:g}" for force in forces])
        ax.set_yticks(range(len(there)), [case.rpartition(" ")[2] for case in there])
        ax.grid(False)
        style.label(ax, f"{style.short(method)}: {_name(metric)}", "force [N]", "friction")
    for ax in panels[len(labels) :]:
        ax.set_axis_off()
    if drawn is not None:
        bar = fig.colorbar(drawn, ax=list(panels), pad=0.01, aspect=25)
        bar.set_label(f"test 1: {AXIS[metric]}", fontsize=9, color=style.INK)
        bar.ax.tick_params(labelsize=8, colors=style.INK)
