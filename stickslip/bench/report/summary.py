"""Tables of results: what each method scored, the best marked, and why one is missing."""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stickslip import parameters
from stickslip.bench import methods, sources
from stickslip.bench.experiment import Experiment, Score
from stickslip.bench.report import style
from stickslip.bench.result import Result, load
from stickslip.errors import InputError

DIGITS = 3
"""Significant digits that are printed; values that agree in them are equally good."""


@dataclasses.dataclass(frozen=True)
class Cell:
    """One entry of a table.

    Attributes:
        text: what is printed
        value: whether that is a number
        best: whether nothing in its row is better
        note: why there is no value, or what makes it doubtful; "" if all is well, or if it was not run
        stale: whether it was measured by other code than there is now
    """

    text: str
    value: bool = False
    best: bool = False
    note: str = ""
    stale: bool = False


@dataclasses.dataclass(frozen=True)
class Row:
    """A score of one experiment, one cell a method."""

    experiment: str
    score: Score
    cells: dict[str, Cell]


@dataclasses.dataclass(frozen=True)
class Folder:
    """The results of one folder, which is one machine.

    Attributes:
        path: of the folder
        name: of the folder
        results: each with its experiment, in the order of the experiments
        skipped: why a file is not among them, one sentence each
    """

    path: pathlib.Path
    name: str
    results: list[tuple[Experiment[Any], Result]]
    skipped: list[str]


def read(directory: pathlib.Path, experiments: Mapping[str, Experiment[Any]]) -> list[Folder]:
    """The results in a folder and in its folders, one `Folder` each; raises InputError if there is none."""
    directory = pathlib.Path(directory)
    if not directory.is_dir():
        raise InputError(f"{directory} is not a folder; name one with results of `stickslip bench run`")
    folders = []
    for place in [directory, *sorted(p for p in directory.iterdir() if p.is_dir())]:
        found, skipped = {}, []
        for path in sorted(place.glob("*.json")):
            try:
                result = load(path)
            except InputError as error:
                skipped.append(str(error))
                continue
            trouble = _trouble(result, experiments)
            if trouble:
                skipped.append(f"{path.name}: {trouble}")
            else:
                found[result.experiment] = result
        if found or skipped:
            ordered = [(experiments[name], found[name]) for name in experiments if name in found]
            folders.append(Folder(place, place.resolve().name, ordered, skipped))
    if not any(folder.results for folder in folders):
        reasons = "; ".join(reason for folder in folders for reason in folder.skipped)
        raise InputError(f"{directory} holds no results of `stickslip bench run`{': ' if reasons else ''}{reasons}")
    return folders


def _trouble(result: Result, experiments: Mapping[str, Experiment[Any]]) -> str:
    """Why a result cannot be shown, or ""."""
    if result.experiment not in experiments:
        return f"there is no experiment {result.experiment!r}"
    experiment = experiments[result.experiment]
    names = {field.name for field in dataclasses.fields(experiment.settings)}
    if names != result.settings.keys():
        differ = ", ".join(sorted(names ^ result.settings.keys()))
        return f"its settings are those of another version ({differ}); run the experiment again"
    try:
        experiment.cases(experiment.make_settings(result.settings))
    except InputError as error:
        return str(error)
    return ""


def columns(results: Sequence[Result]) -> list[str]:
    """The methods of a summary: physics meant to be used, with their defaults.

    Variants, baselines, outside engines and planners appear in their experiments only.
    """
    present = dict.fromkeys(label for result in results for label in result.methods)
    ordered = [name for name in methods.names() if name in present]
    others = [label for label in present if label not in ordered and ":" not in label and not _is_baseline(label)]
    return ordered + others or list(present)


def _is_baseline(label: str) -> bool:
    entry = methods.entry(label)
    return entry is not None and entry.role == "baseline"


def rows(experiment: Experiment[Any], result: Result, labels: Sequence[str]) -> list[Row]:
    """One row a score of the experiment; none if it has none of these methods."""
    table = []
    if not any(label in result.methods for label in labels):
        return table
    old = sources.stale(experiment, result)
    for score in experiment.scores(experiment.make_settings(result.settings)):
        values = {label: result.metric(label, score.case, score.metric) for label in labels}
        sound = [
            v for label, v in values.items() if result.has(label, score.case) and not _doubts(result, label, score)
        ]
        best = _best(sound, score)
        cells = {label: _cell(result, label, score, value, best, label in old) for label, value in values.items()}
        table.append(Row(experiment.name, score, cells))
    return table


def _best(values: Sequence[float], score: Score) -> float | None:
    """The best value as it is printed, or None if there is nothing to compare: one value, or all the same."""
    finite = [_magnitude(v, score) for v in values if np.isfinite(v)]
    if len(values) < 2 or not finite or (len(finite) == len(values) and len(set(map(_printed, finite))) == 1):
        return None
    return _printed(min(finite) if score.best == "low" else max(finite))


def _magnitude(value: float, score: Score) -> float:
    return abs(value) if score.best == "low" else value


def _printed(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _cell(result: Result, label: str, score: Score, value: float, best: float | None, stale: bool = False) -> Cell:
    outcome = result.outcomes.get(label, {}).get(score.case)
    if label not in result.methods or outcome is None:
        return Cell("–")
    if "unsupported" in outcome:
        return Cell("cannot", note=outcome["unsupported"])
    note = _doubts(result, label, score)
    if not np.isfinite(value):
        return Cell("no value" if note else score.absent, note=note, stale=stale)
    first = not note and best is not None and _printed(_magnitude(value, score)) == best
    return Cell(style.number(value), True, first, note, stale)


def stale_columns(table: Sequence[Row], labels: Sequence[str]) -> set[str]:
    """The methods all of whose values in a table are stale: their heading is marked, not every value."""
    found = set()
    for label in labels:
        cells = [row.cells[label] for row in table if row.cells[label].value]
        if cells and all(cell.stale for cell in cells):
            found.add(label)
    return found


def _doubts(result: Result, label: str, score: Score) -> str:
    return "; ".join(result.problems(label, score.case))


def notes(result: Result) -> list[str]:
    """Everything a reader has to know about the methods of a result, one sentence each."""
    found: dict[str, list[str]] = {}
    for label in result.methods:
        for case in result.cases:
            outcome = result.outcomes.get(label, {}).get(case)
            if outcome is None:
                found.setdefault(f"{label} has not run yet", []).append(case)
            elif "unsupported" in outcome:
                found.setdefault(f"{label} cannot run: {outcome['unsupported']}", []).append(case)
            for problem in result.problems(label, case):
                found.setdefault(f"{label}: {problem}", []).append(case)
    every = len(result.cases)
    return [text if len(cases) == every else f"{text} ({'; '.join(cases)})" for text, cases in found.items()]


def settings_of(experiment: Experiment[Any], result: Result) -> list[tuple[str, str, str]]:
    """Name, value and meaning of every setting."""
    declared = parameters.fields(experiment.settings)
    return [(k, _text(result.settings.get(k)), parameters.declaration(f).meaning) for k, f in declared.items()]


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_text, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def machine_line(result: Result) -> str:
    """Where and with what it was measured, in one line."""
    machine, versions = result.machine, result.versions
    cuda = f", CUDA {machine['cuda']}" if machine.get("cuda") else ""
    used = ", ".join(f"{name} {version}" for name, version in versions.items() if version != "none")
    cores = f"{machine['cores']} cores, " if not machine.get("cuda") else ""
    return f"{machine['device']} ({cores}{machine['arch']}{cuda}); {used}; seed {result.seed}; {result.time}"
