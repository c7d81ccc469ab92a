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
from stickslip.bench.result import Result, load, machine, versions
from stickslip.errors import HealthWarning, InputError, MissingExtra, Unsupported
from stickslip.physics.base import Physics
from stickslip.progress import progress_bar
from stickslip.simulation import resolve_device

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
    seed: int = 0,
    picture: bool = True,
    console: Console | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> pathlib.Path:
    """Run an experiment; writes out/NAME.json after every measurement and out/NAME.png at the end.

    Args:
        experiment: what to run
        out: folder of the results
        physics: contenders as specs (see `contenders.resolve`) or by label; all, and those the experiment adds, if None
        device: "cpu", "cuda:0", ...; the first GPU if there is one
        settings: those that differ from the experiment's defaults, as values or text
        quick: the small form, which shows that the experiment works and measures nothing
        again: measure what is already there once more
        seed: of every random number
        picture: whether to draw
        console: where to show progress; None shows nothing
        clock: seconds, for step times

    Returns the path of the JSON file.
    """
    if physics is None:
        physics = [*contenders.names(), *experiment.extra]
    entrants = dict(physics) if isinstance(physics, Mapping) else contenders.resolve(physics)
    if not entrants:
        raise InputError("no physics given: name one or more, or none of them for all")
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
        contenders={
            label: _listed({"physics": entrant.name, "parameters": contenders.parameters(entrant)})
            for label, entrant in entrants.items()
        },
        cases=list(cases),
        machine=machine(where),
        versions=versions(),
        time=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )
    console = console or Console(quiet=True)
    _resume(result, path, again=again, timing=experiment.timing, console=console)
    todo = [(case, label) for case in cases for label in entrants if case not in result.outcomes.get(label, {})]
    if not todo:
        console.print(f"{experiment.name}: all of it is in {escape(str(path))}; --again measures anew")
    elif not result.outcomes:
        path.unlink(missing_ok=True)  # what was there belongs to other settings, or was asked to be replaced
    started = time.perf_counter()
    with progress_bar(console) as bar:
        task = bar.add_task(experiment.name, total=len(todo))
        for index, (case, label) in enumerate(todo):
            bar.update(task, description=f"{experiment.name}: {label}, {case}", completed=index)
            trial = Trial(
                where, seed, quick, clock, lambda share, index=index: bar.update(task, completed=index + share)
            )
            outcome = _attempt(experiment, cases[case], entrants[label], chosen, trial)
            result.outcomes.setdefault(label, {})[case] = outcome
            experiment.relate(result)
            result.seconds += time.perf_counter() - started
            started = time.perf_counter()
            result.save(path)
    if todo:
        console.print(f"{experiment.name}: {len(todo)} runs, {result.seconds:.0f} s -> {escape(str(path))}")
        for label in entrants:
            for reason in dict.fromkeys(result.unsupported(label).values()):
                console.print(f"  [yellow]{escape(label)} cannot run it:[/] {escape(reason)}", soft_wrap=True)
    if picture and (todo or not path.with_suffix(".png").exists()):
        draw(experiment, path)
    return path


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


def _resume(result: Result, path: pathlib.Path, *, again: bool, timing: bool, console: Console) -> None:
    """Take over from an earlier run what it measured under the same conditions, of other contenders too."""
    if not path.exists():
        return
    try:
        old = load(path)
    except InputError as error:
        console.print(f"{result.experiment}: starting over; {escape(str(error))}")
        return
    for name in ("quick", "seed", "device", "settings", "cases", "machine", "versions"):
        if getattr(old, name) != getattr(result, name):
            console.print(f"{result.experiment}: starting over; {name} differs from {escape(str(path))}")
            return
    asked = set(result.contenders)
    same = {label for label in asked if old.contenders.get(label) == result.contenders[label]}
    keep = (set(old.contenders) - asked) | (set() if again else same)
    kept = {label: dict(cases) for label, cases in old.outcomes.items() if label in keep}
    whole = all(case in kept.get(label, {}) for label in asked for case in old.cases)
    if timing and not whole:
        if not again:
            console.print(f"{result.experiment}: starting over; step times are compared within one run only")
        return
    result.contenders = {
        **{label: what for label, what in old.contenders.items() if label in keep or label in asked},
        **result.contenders,
    }
    result.outcomes = kept
    if kept:
        result.time, result.seconds = old.time, old.seconds


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
