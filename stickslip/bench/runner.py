"""Runs experiments: every method in every case, stored after each measurement, resumed where it stopped."""

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
from stickslip.bench.experiment import Experiment, Outcome, Trial
from stickslip.bench.methods import Method, names, of, resolve
from stickslip.bench.result import Record, Result, Store, load
from stickslip.bench.sources import source
from stickslip.errors import DamagedFile, HealthWarning, InputError, MissingExtra, Unsupported
from stickslip.progress import progress_bar
from stickslip.provenance import machine, versions
from stickslip.simulation import resolve_device

DIGITS = 6
"""Significant digits a stored series keeps."""


def run(
    experiment: Experiment[Any],
    out: pathlib.Path,
    *,
    methods: Sequence[str] | Mapping[str, Any] | None = None,
    device: str | None = None,
    settings: Mapping[str, Any] | None = None,
    quick: bool = False,
    again: bool = False,
    seed: int = 0,
    picture: bool = True,
    console: Console | None = None,
    prefix: str = "",
    clock: Callable[[], float] = time.perf_counter,
) -> pathlib.Path:
    """Run an experiment; writes out/NAME.json after every measurement and out/NAME.png at the end.

    What is stored there under the same conditions is kept: of other methods, always; of those asked for, if it was
    measured by the same code with the same parameters. Several processes may write to one folder.

    Args:
        experiment: what to run
        out: folder of the results
        methods: specs (see `methods.resolve`), or physics by label; those of `methods_of` if None
        device: "cpu", "cuda:0", ...; the first GPU if there is one
        settings: those that differ from the experiment's defaults, as values or text
        quick: smoke test with tiny problem sizes; its metrics mean nothing
        again: measure what is stored once more
        seed: of every random number
        picture: whether to draw
        console: where to show progress; None shows nothing
        prefix: shown before the experiment's name while it runs, such as "3 of 16, "
        clock: seconds, for step times

    Returns the path of the JSON file.
    """
    given = methods_of(experiment, quick=quick) if methods is None else methods
    asked = {k: of(k, v) for k, v in given.items()} if isinstance(given, Mapping) else resolve(given)
    if not asked:
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
        methods={label: _record(experiment, method) for label, method in asked.items()},
        cases=list(cases),
        machine=machine(where),
        versions=versions(),
    )
    console = console or Console(quiet=True)
    store = Store(path, alone=experiment.timing)
    resumed = _resume(result, store, again=again, timing=experiment.timing, console=console)
    todo = [(case, label) for case in cases for label in asked if case not in result.outcomes.get(label, {})]
    if not todo:
        console.print(f"{experiment.name}: {escape(str(path))} is complete; --again measures it again", soft_wrap=True)
    started = begun = time.perf_counter()
    with progress_bar(console) as bar:
        task = bar.add_task(experiment.name, total=len(todo))
        for index, (case, label) in enumerate(todo):
            bar.update(task, description=f"{prefix}{experiment.name}: {label}, {case}", completed=index)
            trial = Trial(
                where,
                seed,
                quick,
                clock,
                lambda share, index=index: bar.update(task, completed=index + share),
                dict(result.outcomes.get(label, {})),
            )
            outcome = _attempt(experiment, cases[case], asked[label], chosen, trial)
            result.outcomes.setdefault(label, {})[case] = outcome
            spent, started = time.perf_counter() - started, time.perf_counter()
            record = result.methods[label]
            record.seconds = (record.seconds or 0.0) + spent
            if not resumed and index == 0:
                path.with_suffix(".png").unlink(missing_ok=True)  # it shows what is now replaced
            store.write(result, set(asked), experiment.relate)
    if todo:
        seconds = time.perf_counter() - begun
        console.print(f"{experiment.name}: {len(todo)} runs, {seconds:.0f} s -> {escape(str(path))}", soft_wrap=True)
        for label in asked:
            for reason in dict.fromkeys(result.unsupported(label).values()):
                console.print(f"  [yellow]{escape(label)} cannot run it:[/] {escape(reason)}", soft_wrap=True)
    if picture and (todo or not path.with_suffix(".png").exists()):
        draw(experiment, path)
    return path


def _record(experiment: Experiment[Any], method: Method) -> Record:
    """What is stored of a method before its measurement."""
    return Record(
        name=method.name,
        parameters=_listed(method.parameters),
        packages=method.versions,
        modules=list(method.modules),
        source=source(experiment, method.modules),
        time=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def _resume(result: Result, store: Store, *, again: bool, timing: bool, console: Console) -> bool:
    """Take over what is stored under the same conditions; returns whether there was anything.

    What is not taken over stays in its file until there is something new. Metrics of a full run are not given up for a
    smoke test unless `again` says so.
    """

    def start_over(why: str) -> bool:
        console.print(f"{result.experiment}: starting over; {escape(why)}", soft_wrap=True)
        return False

    for name in files.tidy(store.path.parent):
        console.print(f"{name}: a run was killed while it wrote this file; what was stored before is whole")
    try:
        old = store.read()
    except DamagedFile as error:
        kept = files.keep_aside(store.path)
        return start_over(f"{error}. It is kept as {kept.name}")
    except InputError as error:
        return start_over(str(error))
    if old is None:
        return False
    if result.quick and not old.quick and not again:
        raise InputError(
            f"{store.path} holds metrics of a full run, which a smoke test would replace: "
            "name another folder (--out), or say --again"
        )
    differ = result.differences(old)
    if differ:
        return start_over(f"{store.path} was measured under other conditions: {'; '.join(differ)}")
    asked = set(result.methods)
    others = set(old.methods) - asked
    same = {label for label in asked if label in old.methods and old.methods[label].same(result.methods[label])}
    keep = others | (set() if again else same)
    kept = {label: dict(cases) for label, cases in old.outcomes.items() if label in keep}
    whole = all(case in kept.get(label, {}) for label in asked for case in old.cases)
    if timing and not whole:
        dropped = f"; dropped: {', '.join(sorted(others))}" if others else ""
        return start_over(f"step times are compared within one run only{dropped}")
    order = [*old.methods, *(label for label in result.methods if label not in old.methods)]
    result.methods = {label: (old if label in keep else result).methods[label] for label in order}
    result.outcomes = kept
    return bool(kept)


def methods_of(experiment: Experiment[Any], *, quick: bool = False) -> list[str]:
    """The methods that run unless others are named; in the small form the first variant of each."""
    found = [*(experiment.only or names()), *experiment.extra]
    if not quick:
        return found
    first: dict[str, str] = {}
    for spec in found:
        first.setdefault(spec.partition(":")[0], spec)
    return list(first.values())


def draw(experiment: Experiment[Any], path: pathlib.Path) -> pathlib.Path:
    """Draw the result stored at `path` into the PNG beside it."""
    image = io.BytesIO()
    experiment.draw(load(path)).savefig(image, format="png", dpi=130)
    return files.write_bytes_atomic(path.with_suffix(".png"), image.getvalue())


def _attempt(experiment: Experiment[Any], case: Any, method: Method, settings: Any, trial: Trial) -> dict[str, Any]:
    """The outcome, ready for JSON; a method that cannot run the case leaves its reason."""
    if method.kind != experiment.kind:
        return {"unsupported": f"{method.name} is a {method.kind}, and {experiment.name} takes a {experiment.kind}"}
    if trial.device != "cpu":
        gc.collect()  # the arrays of the previous simulation: GPU memory holds few of them
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HealthWarning)  # kept in `problems`
            outcome: Outcome = experiment.measure(case, method.subject, settings, trial)
    except (Unsupported, MissingExtra) as error:
        return {"unsupported": str(error)}
    return {
        "metrics": {name: float(value) for name, value in outcome.metrics.items()},
        "series": {name: _rounded(values) for name, values in outcome.series.items()},
        "problems": list(outcome.problems),
    }


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
