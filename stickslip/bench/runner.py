"""Runs experiments: every contender in every case, stored as soon as it is known, resumed where it stopped."""

import dataclasses
import datetime
import gc
import io
import pathlib
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape

from stickslip import files
from stickslip.bench import contenders
from stickslip.bench.experiment import Experiment, Outcome, Trial
from stickslip.bench.result import Result, load, machine, source, versions
from stickslip.errors import HealthWarning, InputError, MissingExtra, Unsupported
from stickslip.physics.base import Physics
from stickslip.progress import progress_bar
from stickslip.simulation import resolve_device

CONDITIONS = ("quick", "seed", "device", "settings", "cases", "machine", "versions")
"""What two runs must have in common, besides the code, for their figures to stand in one file."""
DIGITS = 6
"""Significant digits a stored series keeps."""


def run(
    experiment: Experiment[Any],
    out: pathlib.Path,
    *,
    physics: Sequence[str] | Mapping[str, Physics[Any, Any]] | None = None,
    device: str | None = None,
    settings: Mapping[str, Any] | None = None,
    quick: bool = False,
    again: bool = False,
    add: bool = False,
    seed: int = 0,
    picture: bool = True,
    console: Console | None = None,
    prefix: str = "",
    clock: Callable[[], float] = time.perf_counter,
) -> pathlib.Path:
    """Run an experiment; writes out/NAME.json after every measurement and out/NAME.png at the end.

    Args:
        experiment: what to run
        out: folder of the results
        physics: contenders as specs (see `contenders.resolve`) or by label; those of `entrants_of` if None
        device: "cpu", "cuda:0", ...; the first GPU if there is one
        settings: those that differ from the experiment's defaults, as values or text
        quick: the small form, which shows that the experiment works and measures nothing
        again: measure what is already there once more
        add: add contenders to what an earlier run stored, although the code may have changed since; what they were
            measured with is stored with them
        seed: of every random number
        picture: whether to draw
        console: where to show progress; None shows nothing
        prefix: shown before the experiment's name while it runs, such as "3 of 16, "
        clock: seconds, for step times

    Returns the path of the JSON file.
    """
    if add and physics is None:
        raise InputError("no physics given to add: name one or more (--physics)")
    if physics is None:
        physics = entrants_of(experiment)
    entrants = dict(physics) if isinstance(physics, Mapping) else contenders.resolve(physics)
    if not entrants:
        raise InputError("no physics given: name one or more, or none of them for all")
    if seed < 0:
        raise InputError(f"seed is {seed}: it must be 0 or more")
    where = resolve_device(device).alias
    chosen = experiment.make_settings(settings, quick=quick, device=where)
    cases = experiment.cases(chosen)
    path = pathlib.Path(out) / f"{experiment.name}.json"
    result = Result(
        experiment=experiment.name,
        quick=quick,
        seed=seed,
        device=where,
        settings=_listed(dataclasses.asdict(chosen)),
        contenders={label: _listed(contenders.describe(entrant)) for label, entrant in entrants.items()},
        cases=list(cases),
        machine=machine(where),
        versions=versions(),
        source=source(type(experiment)),
        time=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )
    console = console or Console(quiet=True)
    if add:
        _take_in(result, path, again=again, timing=experiment.timing)
    fresh = not add and not _resume(result, path, again=again, timing=experiment.timing, console=console)
    todo = [(case, label) for case in cases for label in entrants if case not in result.outcomes.get(label, {})]
    if not todo:
        message = f"{experiment.name}: all of it is in {escape(str(path))}; --again measures anew"
        console.print(message, soft_wrap=True)
    started = time.perf_counter()
    with progress_bar(console) as bar:
        task = bar.add_task(experiment.name, total=len(todo))
        for index, (case, label) in enumerate(todo):
            bar.update(task, description=f"{prefix}{experiment.name}: {label}, {case}", completed=index)
            trial = Trial(
                where, seed, quick, clock, lambda share, index=index: bar.update(task, completed=index + share)
            )
            outcome = _attempt(experiment, cases[case], entrants[label], chosen, trial)
            result.outcomes.setdefault(label, {})[case] = outcome
            experiment.relate(result)
            spent, started = time.perf_counter() - started, time.perf_counter()
            if label in result.added:
                result.added[label]["seconds"] += spent
            else:
                result.seconds += spent
            if fresh and index == 0:
                path.with_suffix(".png").unlink(missing_ok=True)  # it shows what is now replaced
            result.save(path)
    if todo:
        message = f"{experiment.name}: {len(todo)} runs, {result.seconds:.0f} s -> {escape(str(path))}"
        console.print(message, soft_wrap=True)
        for label in entrants:
            for reason in dict.fromkeys(result.unsupported(label).values()):
                console.print(f"  [yellow]{escape(label)} cannot run it:[/] {escape(reason)}", soft_wrap=True)
    if picture and (todo or not path.with_suffix(".png").exists()):
        draw(experiment, path)
    return path


def entrants_of(experiment: Experiment[Any]) -> list[str]:
    """The contenders that run unless others are named."""
    return [*(experiment.only or contenders.names()), *experiment.extra]


def draw(experiment: Experiment[Any], path: pathlib.Path) -> pathlib.Path:
    """Draw the result stored at `path` into the PNG beside it."""
    image = io.BytesIO()
    experiment.draw(load(path)).savefig(image, format="png", dpi=130)
    return files.write_bytes_atomic(path.with_suffix(".png"), image.getvalue())


def _attempt(
    experiment: Experiment[Any], case: Any, physics: Physics[Any, Any], settings: Any, trial: Trial
) -> dict[str, Any]:
    """The outcome, ready for JSON; a physics that cannot run the case leaves its reason."""
    if trial.device != "cpu":
        gc.collect()  # the arrays of the simulation before: a GPU has room for few of them
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HealthWarning)  # kept in `problems`
            outcome: Outcome = experiment.measure(case, physics, settings, trial)
    except (Unsupported, MissingExtra) as error:
        return {"unsupported": str(error)}
    return {
        "figures": {name: float(value) for name, value in outcome.figures.items()},
        "series": {name: _rounded(values) for name, values in outcome.series.items()},
        "problems": list(outcome.problems),
    }


def _resume(result: Result, path: pathlib.Path, *, again: bool, timing: bool, console: Console) -> bool:
    """Take over from an earlier run what it measured under the same conditions, of other contenders too.

    Returns whether there was anything to take over. What is not stays in its file until there is something new; what
    was measured is not given up for a small form unless `again` says so.
    """

    def start_over(why: str) -> bool:
        console.print(f"{result.experiment}: starting over; {escape(why)}", soft_wrap=True)
        return False

    if not path.exists():
        return False
    try:
        old = load(path)
    except InputError as error:
        return start_over(str(error))
    if result.quick and not old.quick and not again:
        raise InputError(
            f"{path} holds measured figures, which the small form would replace: "
            "name another folder (--out), or say --again"
        )
    for name in (*CONDITIONS, "source"):
        if getattr(old, name) != getattr(result, name):
            what = "the code of the physics or of the experiment" if name == "source" else name
            return start_over(f"{what} differs from that of {path}")
    asked = set(result.contenders)
    others = set(old.contenders) - asked
    keep = others | (set() if again else _same(old, result))
    kept = {label: dict(cases) for label, cases in old.outcomes.items() if label in keep}
    whole = all(case in kept.get(label, {}) for label in asked for case in old.cases)
    if timing and not whole:
        dropped = f"; dropped: {', '.join(sorted(others))}" if others else ""
        return start_over(f"step times are compared within one run only{dropped}")
    result.contenders = {
        **{label: what for label, what in old.contenders.items() if label in keep or label in asked},
        **result.contenders,
    }
    result.outcomes = kept
    result.added = {label: how for label, how in old.added.items() if label in kept}
    if kept:
        result.time, result.seconds = old.time, old.seconds
    return bool(kept)


def _take_in(result: Result, path: pathlib.Path, *, again: bool, timing: bool) -> None:
    """Make `result` the one that is stored, less what is asked for; that is to be added to it, with its provenance.

    Of what is asked for, what was measured with the code there is now is kept, unless `again`. Raises InputError if
    there is nothing to add to, or if it was measured under other conditions.
    """
    if not path.exists():
        raise InputError(f"{path} is not there: there is nothing to add to; run it without --add")
    if timing:
        raise InputError(f"{result.experiment}: step times are compared within one run only; run it without --add")
    old = load(path)
    differ = [name for name in CONDITIONS if getattr(old, name) != getattr(result, name)]
    if differ:
        raise InputError(
            f"{path} was measured under other conditions, and what is added would not compare; "
            f"these differ: {'; '.join(_difference(old, result, name) for name in differ)}"
        )
    now, asked = result.source, set(result.contenders)
    keep = set(old.contenders) - asked | (set() if again else _same(old, result))
    result.added = {label: how for label, how in old.added.items() if label in keep}
    for label in asked - keep:
        result.added[label] = {"source": now, "time": result.time, "seconds": 0.0}
    result.outcomes = {label: dict(cases) for label, cases in old.outcomes.items() if label in keep}
    result.contenders = {**old.contenders, **result.contenders}
    result.source, result.time, result.seconds = old.source, old.time, old.seconds


def _same(old: Result, new: Result) -> set[str]:
    """Contenders of the new result that the old one has too, with the same parameters and of the same code."""
    there = [label for label, what in new.contenders.items() if old.contenders.get(label) == what]
    return {label for label in there if old.source_of(label) == new.source}


def _difference(old: Result, new: Result, name: str) -> str:
    """`versions (numpy: 2.0 there, 2.1 now)`."""
    there, now = getattr(old, name), getattr(new, name)
    if not isinstance(there, dict):
        return f"{name} ({there} there, {now} now)"
    keys = [key for key in {**there, **now} if there.get(key) != now.get(key)]
    return f"{name} ({', '.join(f'{key}: {there.get(key)} there, {now.get(key)} now' for key in keys)})"


def _listed(obj: Any) -> Any:
    """`obj` as JSON gives it back: lists in the place of tuples."""
    if isinstance(obj, dict):
        return {key: _listed(value) for key, value in obj.items()}
    return [_listed(value) for value in obj] if isinstance(obj, (list, tuple)) else obj


def _rounded(values: Any) -> list[Any]:
    """A series with as many digits as are worth storing."""
    array = np.asarray(values, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 10.0 ** (DIGITS - 1 - np.floor(np.log10(np.abs(array))))
        rounded = np.round(array * scale) / scale
    return np.where(np.isfinite(rounded), rounded, array).tolist()
