"""A fit as a picture: the profile of each parameter, and what was measured against what the model predicts."""

import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stickslip.errors import InputError
from stickslip.identification.profiles import RISE
from stickslip.physics import registry

if TYPE_CHECKING:
    from stickslip.identification.fit import Estimate, Fit
    from stickslip.identification.trial import Trial

FORMATS = (".png", ".pdf", ".svg")
MOST_TRIALS, MOST_CHANNELS = 4, 4
"""Trials and channels that are drawn: those that are off by most, and those that move most, over their noise."""
_COLUMNS = 4
_INK, _FAINT, _MEASURED = "#22303c", "#c9d1d8", "#6b7680"
_TOP = 6.0 * RISE
"""Upper end of the axis of a profile."""
_WIDTH = re.compile(r".*\[(\d+)(?::(\d+))?\]")


def draw(fit: "Fit", suffix: str) -> bytes:
    """A fit as a file of this suffix."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    colour = _colour(fit.physics)
    estimates, shown, left = list(fit.estimates.values()), *_trials(fit)
    columns = _channels(shown)
    rows = -(-len(estimates) // _COLUMNS)
    across = max(min(len(estimates), _COLUMNS), len(columns), 2)
    figure = Figure(figsize=(3.4 * across, 2.9 * rows + 2.1 * len(shown) + 0.9), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(_title(fit, left), fontsize=11, color=_INK, x=0.01, ha="left")
    parts: Any = figure.subfigures(2, 1, height_ratios=[2.9 * rows, 2.1 * len(shown) + 0.3])
    top, bottom = parts
    profiles = top.subplots(rows, min(max(len(estimates), 2), _COLUMNS), squeeze=False)
    for k, ax in enumerate(profiles.flat):
        if k < len(estimates):
            _profile(ax, estimates[k], colour)
        else:
            ax.set_visible(False)
    profiles[0, 0].legend(fontsize=8, frameon=False, loc="upper right")
    axes = bottom.subplots(len(shown), across, squeeze=False)
    for row, (trial, predicted, what) in zip(axes, shown, strict=True):
        for ax in row[len(columns) :]:
            ax.set_visible(False)
        for ax, (column, label) in zip(row, columns, strict=False):
            _compare(ax, trial, predicted, column, colour)
            ax.set_title(f"{trial.name}{what}: {label}", fontsize=9, loc="left", color=_INK)
    for ax in axes[-1]:
        ax.set_xlabel("time [s]", fontsize=9, color=_INK)
    axes[0, 0].legend(fontsize=8, frameon=False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=suffix.removeprefix("."))
    return buffer.getvalue()


def check(path: Path) -> str:
    """The suffix of a path for a picture; raises InputError if it is none."""
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path}: a picture is {', '.join(FORMATS)}; choose one of these suffixes")
    return path.suffix.lower()


def _colour(physics: str) -> str:
    entry = registry.entries().get(physics.partition(":")[0])
    return "#2a6f97" if entry is None else entry.colour


def _title(fit: "Fit", left: int) -> str:
    text = f"{fit.physics}: residual over noise {fit.residual:.3g}"
    if fit.floor > 1.1:
        text += f", {fit.floor:.3g} if the model is right"
    text += ", no trial held out" if fit.held_out is None else f"; held-out trials {fit.held_out:.3g}"
    if fit.held_out_floor is not None and fit.held_out_floor > 1.1:
        text += f", {fit.held_out_floor:.3g} if the model is right"
    return text + (f"\nthe trials that fit worst; {left} others are not shown" if left else "")


def _trials(fit: "Fit") -> tuple[list[tuple["Trial", NDArray[np.floating], str]], int]:
    """The trials to draw with their predictions and what they are, and how many are left out."""
    groups = []
    for trials, predicted, what in (
        (fit.trials, fit.predicted, ""),
        (fit.held_out_trials, fit.held_out_predicted, " (held out)"),
    ):
        group = [(trial, found, what) for trial, found in zip(trials, predicted, strict=True)]
        groups.append(sorted(group, key=lambda one: -_off(one[0], one[1])))
    fitted, held = groups
    room = MOST_TRIALS - min(len(held), MOST_TRIALS // 2)
    shown = fitted[:room]
    shown += held[: MOST_TRIALS - len(shown)]
    return shown, len(fitted) + len(held) - len(shown)


def _off(trial: "Trial", predicted: NDArray[np.floating]) -> float:
    """Root mean square of what a trial is off by, over its noise; infinite if the model was not finite."""
    off = np.where(np.isfinite(trial.noise), (predicted - trial.measured) / trial.noise, 0.0)
    found = float(np.sqrt((off**2).mean()))
    return found if np.isfinite(found) else np.inf


def _channels(shown: list[tuple["Trial", NDArray[np.floating], str]]) -> list[tuple[int, str]]:
    """The columns to draw, in their order, with names: those that move most over their noise."""
    moves = np.zeros(shown[0][0].measured.shape[1])
    for trial, _, _ in shown:
        for column in range(len(moves)):
            used = np.isfinite(trial.noise[:, column])
            if used.any():
                move = np.ptp(trial.measured[used, column]) / trial.noise[used, column].min()
                moves[column] = max(moves[column], move)
    names = labels(shown[0][0].channels, len(moves))
    return [(int(column), names[column]) for column in np.sort(np.argsort(-moves, kind="stable")[:MOST_CHANNELS])]


def labels(channels: tuple[str, ...], ny: int) -> list[str]:
    """A name for each measured column: its channel, with a number where the channel has several."""
    found = [_WIDTH.fullmatch(channel) for channel in channels]
    width = [0 if one is None else int(one[2]) - int(one[1]) if one[2] else 1 for one in found]
    if width.count(0) == 1:  # the only one that does not say how many it has
        width[width.index(0)] = ny - sum(width)
    elif ny == len(channels):
        width = [1] * ny
    if 0 in width or sum(width) != ny or min(width) < 0:
        return [f"column {k}" for k in range(ny)]
    names = []
    for channel, one, many in zip(channels, found, width, strict=True):
        first = int(one[1]) if one else 0
        stem = channel.partition("[")[0]
        names += [channel] if many == 1 else [f"{stem}[{first + k}]" for k in range(many)]
    return names


def _profile(ax: Any, estimate: "Estimate", colour: str) -> None:
    parameter = estimate.parameter
    values, rise = estimate.profile.T
    to, back = (np.log, np.exp) if parameter.ratio else (np.asarray, np.asarray)
    ends = to(np.array([parameter.low, parameter.high]))
    low, high = to(np.array([estimate.low, estimate.high]))
    reach = max(1.5 * (high - low), 0.01 * (ends[1] - ends[0]))
    view = np.clip([low - reach, high + reach], *ends) + 0.02 * reach * np.array([-1.0, 1.0])
    order = np.argsort(values)
    at, root = to(values[order]), np.sqrt(np.maximum(rise[order], 0.0))
    root = np.where(values[order] < estimate.value, -root, root)  # nearly straight, unlike the rise
    fine = np.linspace(at[0], at[-1], 400)
    ax.axvspan(estimate.low, estimate.high, color=colour, alpha=0.18, lw=0.0, label="interval, 95 %")
    ax.plot(back(fine), np.interp(fine, at, root) ** 2, color=colour, lw=1.5)
    ax.plot(values, rise, "o", ms=3.0, color=colour)
    ax.axhline(RISE, color=_INK, lw=0.8, ls="--", label=f"a rise of {RISE:g}")
    ax.axvline(estimate.value, color=colour, lw=1.0)
    for bound in (parameter.low, parameter.high):
        ax.axvline(bound, color=_INK, lw=1.5)  # seen only if the interval is near
    if parameter.ratio:
        ax.set_xscale("log")
    ax.set_xlim(*back(view))
    ax.set_ylim(0.0, _TOP)
    _ticks(ax, view, back, log=parameter.ratio)
    unit = f" {parameter.unit}" if parameter.unit else ""
    told = f"{estimate.value:.4g}{unit}" if estimate.identified else "not identified"
    ax.set_title(f"{parameter.name}: {told}", fontsize=10, loc="left", color=_INK if estimate.identified else "#b3261e")
    where = f"[{parameter.unit}], " if parameter.unit else ""
    ax.set_xlabel(f"{where}bounds {parameter.low:g} to {parameter.high:g}", fontsize=9, color=_INK)
    ax.set_ylabel("rise of the cost", fontsize=9, color=_INK)
    _quiet(ax)


def _ticks(ax: Any, view: NDArray[np.floating], back: Any, *, log: bool) -> None:
    """On a logarithmic axis of less than two decades, a few round numbers."""
    if not log:
        ax.locator_params(axis="x", nbins=5)
        return
    if view[1] - view[0] > np.log(100.0):
        return
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    margin = 0.08 * np.ptp(view)
    at = back(np.linspace(view[0] + margin, view[1] - margin, 4))
    digits = next(d for d in range(2, 9) if len({f"{value:.{d}g}" for value in at}) == len(at) or d == 8)
    ax.xaxis.set_major_locator(FixedLocator([float(f"{value:.{digits}g}") for value in at]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_locator(NullLocator())


def _compare(ax: Any, trial: "Trial", predicted: NDArray[np.floating], column: int, colour: str) -> None:
    used = np.isfinite(trial.noise[:, column])
    time, measured, noise = trial.time[used], trial.measured[used, column], trial.noise[used, column]
    ax.errorbar(time, measured, noise, fmt=".", ms=4.0, lw=0.8, color=_MEASURED, label="measured")
    ax.plot(trial.time, predicted[:, column], color=colour, lw=1.5, label="predicted", zorder=3)
    _quiet(ax)


def _quiet(ax: Any) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(_FAINT)
    ax.tick_params(colors=_INK, labelsize=8.5, length=3, color=_FAINT)
    ax.grid(True, color=_FAINT, lw=0.5, alpha=0.6)
    ax.set_axisbelow(True)
