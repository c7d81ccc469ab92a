"""The picture of `seven-tests`: final errors, their course in time, and the sweep over friction and force."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from stickslip.bench import style
from stickslip.bench.result import Result

if TYPE_CHECKING:
    from stickslip.bench.seven_tests import Settings

CALM = ", no noise"
"""How the label of the run without noise ends."""
ACROSS = 4
"""Panels in a row."""
LOWEST = {"position_error_m": 1e-6, "rotation_error_deg": 1e-4}
"""Where logarithmic axes of errors begin at the lowest."""
AXIS = {"position_error_m": "error of position [m]", "rotation_error_deg": "error of orientation [deg]"}


def draw(result: Result, settings: "Settings") -> Any:
    tests = sorted(case for case in result.cases if not case.startswith("sweep"))
    sweeps = [case for case in result.cases if case.startswith("sweep")]
    entrants = [c for c in result.contenders if any(result.has(c, case) for case in sweeps)]
    courses, groups = _rows([case for case in tests if not case.endswith(CALM)]), _rows(entrants)
    pushes = [case for case in tests if case.startswith("7") and case.endswith("off")][:1]
    count = 2 + len(courses) + len(pushes) + 2 * len(groups)
    title = "seven tests: motions of one rigid body, held against their exact course"
    fig, axes = style.figure(title, count, height=3.2)
    rows = iter(axes[:, 0])
    for figure, spread in (
        ("position_error_m", "position_error_std_m"),
        ("rotation_error_deg", "rotation_error_std_deg"),
    ):
        _final(next(rows), result, tests, figure, spread, settings)
    for chosen in courses:
        for ax, case in zip(style.split(next(rows), ACROSS), [*chosen, *[""] * (ACROSS - len(chosen))], strict=True):
            _course(ax, result, case)
    for case in pushes:
        _push(style.split(next(rows), 2), result, case)
    for chosen in groups:
        for figure in AXIS:
            panels = style.split(next(rows), max(len(chosen), 2))
            _maps(fig, panels, result, chosen, sweeps, figure)
    style.legend(fig, fig.axes)
    return fig


def _rows(items: Sequence[str]) -> list[Sequence[str]]:
    return [items[start : start + ACROSS] for start in range(0, len(items), ACROSS)]


def _final(ax: Any, result: Result, cases: Sequence[str], figure: str, spread: str, settings: "Settings") -> None:
    """Bars of the final errors of all tests."""
    entrants = [c for c in result.contenders if any(result.has(c, case) for case in cases)]
    values = {c: [result.figure(c, case, figure) for case in cases] for c in entrants}
    errors = {c: [result.figure(c, case, spread) for case in cases] for c in entrants}
    style.bars(ax, result, cases, values, errors=errors, log=True)
    ax.minorticks_off()
    runs = f"mean of {settings.runs} runs, whiskers one standard deviation" if settings.runs > 1 else "one run"
    what = AXIS[figure].partition(" [")[0]
    style.label(ax, f"{what} after {settings.duration:g} s; test 7 before the rod slips off; {runs}", "", AXIS[figure])


def _course(ax: Any, result: Result, case: str) -> None:
    """The error of one test in time; of the orientation where a torque acts."""
    if not case:
        ax.set_axis_off()
        return
    name = "rotation_error_deg" if "torque" in case else "position_error_m"
    highest, dotted = LOWEST[name], ""
    for contender in result.ran(case):
        time, error = (result.series(contender, case, what) for what in ("time", name))
        style.line(ax, result, contender, time[1:], np.maximum(error[1:], LOWEST[name]))
        highest = max([highest, *error[np.isfinite(error)]])
        calm = result.series(contender, case + CALM, name)
        if calm.size:
            style.line(ax, result, contender, time[1:], np.maximum(calm[1:], LOWEST[name]), ls=":", label=None)
            dotted = "no noise"
        until = result.figure(contender, case, "scored_at_s")
        if np.isfinite(until) and until < time[-1]:
            ax.axvline(until, color=style.REFERENCE, ls=":", lw=1.0)
            dotted = "scored here"
    ax.set_yscale("log")
    ax.set_ylim(LOWEST[name], 3.0 * highest)
    ax.minorticks_off()
    style.label(ax, case + ("; dotted: " + dotted if dotted else ""), "time [s]", AXIS[name])


def _push(panels: Sequence[Any], result: Result, case: str) -> None:
    """Seen from above: the way of the box's middle, and its yaw, beside both references."""
    above, turn = panels
    for contender in result.ran(case):
        time, x, y, yaw = (result.series(contender, case, name) for name in ("time", "seen_x", "seen_y", "seen_deg"))
        style.line(above, result, contender, x, y)
        style.line(turn, result, contender, time, yaw)
    for contender in result.ran(case)[:1]:
        time = result.series(contender, case, "time")
        for name, what in (("even", "exact, even pressure"), ("corner", "exact, on the corners")):
            x, y, yaw = (result.series(contender, case, f"{name}_{part}") for part in ("x", "y", "deg"))
            style.reference(above, x, y, what)
            style.reference(turn, time, yaw, what)
            for ax in (above, turn):
                ax.lines[-1].set_linestyle("--" if name == "even" else ":")
    style.label(above, f"{case}: way of the box's middle, from above", "x [m]", "y [m]")
    style.label(turn, f"{case}: yaw of the box", "time [s]", "yaw [deg]")


def _maps(fig: Any, panels: Sequence[Any], result: Result, entrants: Sequence[str], cases: Sequence[str], figure: str):
    """A map of friction and force for each contender, all with the same colours."""
    import matplotlib.colors

    maps = {c: np.array([result.series(c, case, figure) for case in cases if result.has(c, case)]) for c in entrants}
    known = np.concatenate([m[np.isfinite(m) & (m > 0)] for m in maps.values()] or [np.array([1.0])])
    low, high = (known.min(), known.max()) if known.size else (LOWEST[figure], 1.0)
    norm = matplotlib.colors.LogNorm(max(low, LOWEST[figure]), max(high, 10.0 * LOWEST[figure]))
    drawn = None
    for ax, contender in zip(panels, entrants, strict=False):
        there = [case for case in cases if result.has(contender, case)]
        values = np.maximum(maps[contender], LOWEST[figure])
        drawn = ax.imshow(values, norm=norm, cmap="YlOrRd", aspect="auto", origin="lower")
        for row, column in np.ndindex(values.shape):
            bright = norm(values[row, column]) > 0.6
            text = style.number(float(maps[contender][row, column]))
            ax.text(column, row, text, ha="center", va="center", fontsize=6.5, color="white" if bright else style.INK)
        forces = result.series(contender, there[0], "force")
        ax.set_xticks(range(len(forces)), [f"{force:g}" for force in forces])
        ax.set_yticks(range(len(there)), [case.rpartition(" ")[2] for case in there])
        ax.grid(False)
        what = "position" if figure == "position_error_m" else "orientation"
        style.label(ax, f"{style.short(contender)}: {what}", "force [N]", "friction")
    for ax in panels[len(entrants) :]:
        ax.set_axis_off()
    if drawn is not None:
        bar = fig.colorbar(drawn, ax=list(panels), pad=0.01, aspect=25)
        bar.set_label(f"test 1: {AXIS[figure]}", fontsize=9, color=style.INK)
        bar.ax.tick_params(labelsize=8, colors=style.INK)
