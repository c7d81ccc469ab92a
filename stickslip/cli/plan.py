"""`stickslip plan`: trials of a task with a planner, a table of results, a filmstrip and a film."""

import dataclasses
import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import stickslip as ss
from stickslip import files, spec
from stickslip.cli.output import make_folder
from stickslip.cli.plan_store import Store
from stickslip.errors import InputError, unknown
from stickslip.mpc.planners.catalogue import SAMPLING, make_planner, settings_of
from stickslip.mpc.realtime.loop import run_realtime
from stickslip.mpc.task import DEFAULT, Planner, Problem, Task, compile_problem
from stickslip.mpc.tasks.load import load_task, split
from stickslip.mpc.trial import film, trial
from stickslip.physics.base import Physics
from stickslip.progress import progress_bar, showing_log
from stickslip.provenance import machine, model_digest, package_version, versions
from stickslip.simulation import resolve_device

ALL = "all"
"""Every object of a task."""
MENAGERIE = "mujoco-menagerie"
"""The package with the hands of some tasks."""
FORMAT = 4
"""Version of the JSON files; it is raised when their meaning changes."""


@dataclasses.dataclass(frozen=True)
class Order:
    """What is to be run. A stored trial counts as done if all of this is the same.

    Attributes:
        task: the task
        source: digest of the file that defines the task; empty: it is one of stickslip
        planner: name of the planner, with parameters as in "mppi:samples=128"
        physics: contact physics of the planner's rollouts, as in "comfree:stiffness=0.1"; sampling planners only
        realtime: whether the plant runs while the planner computes
        look_ahead: in real time, whether plans begin from the state predicted for the time at which they act
        device: device of the planner's rollouts; sampling planners only
    """

    task: Task
    source: str
    planner: str
    physics: str | None
    realtime: bool
    look_ahead: bool
    device: str | None

    @property
    def name(self) -> str:
        """Name of the planner."""
        return spec.split(self.planner)[0]

    def make_physics(self) -> Physics[Any, Any] | None:
        """The physics of the planner's rollouts; None for a planner with a model of its own."""
        if self.name not in SAMPLING:
            return None
        from stickslip.mpc.planners.sampling.planner import usual_physics

        return usual_physics() if self.physics is None else spec.resolve(self.physics, ss.PHYSICS, "physics")

    def make(self, problem: Problem) -> Planner:
        """The planner for a problem."""
        options = {"physics": self.make_physics(), "device": self.device} if self.name in SAMPLING else {}
        return make_planner(self.planner, problem, **options)

    def record(self) -> dict[str, Any]:
        """What runs, with every parameter."""
        physics: Any = self.make_physics()
        return {
            "task": self.task.name,
            "source": self.source,
            "planner": self.name,
            "settings": dataclasses.asdict(settings_of(self.planner)),
            "physics": physics and {"name": physics.name, "parameters": dataclasses.asdict(physics)},
            "realtime": self.realtime,
            "look_ahead": self.look_ahead,
            "device": self.device,
        }


def order(
    task: str,
    *,
    planner: str | None,
    physics: str | None,
    realtime: bool,
    device: str | None,
    look_ahead: bool = True,
) -> Order:
    """The order of a command line; raises InputError where something does not fit."""
    if not look_ahead and not realtime:
        raise InputError("--no-look-ahead: a plant that waits is seen as it is, so nothing looks ahead; add --realtime")
    found = load_task(task)
    file, _ = split(task)
    if file is not None and realtime:
        raise InputError(
            f"--realtime: the plant's process cannot import the functions of {task}; put the task into an installed "
            "package and call stickslip.mpc.realtime.loop.run_realtime, or let the plant wait"
        )
    source = "" if file is None else hashlib.sha256(file.read_bytes()).hexdigest()[:12]
    what = Order(found, source, planner or found.planner, physics, realtime, realtime and look_ahead, device)
    if what.name not in SAMPLING:
        for option, value in (("--physics", physics), ("--device", device)):
            if value is not None:
                raise InputError(
                    f"{option} {value}: the planner {what.name} has a model of its own; {option} is for planners that "
                    "sample, such as --planner mppi"
                )
    what.record()  # raises for a planner, a physics or a parameter that does not exist
    return what


def run(
    what: Order,
    *,
    objects: Sequence[str],
    trials: int,
    seed: int,
    again: bool,
    video: bool,
    out: Path,
    console: Console,
) -> bool:
    """Run the trials that are not stored yet and print the table; False if an error aborted a trial.

    Args:
        what: task, planner and how they are connected
        objects: names, or "all"; the task's first if empty
        trials: trials per object, with seeds from `seed` on
        seed: seed of the first trial
        again: whether to run stored trials again
        video: whether to write filmstrips and films
        out: folder for plan-NAME.json, recordings, filmstrips and films
        console: where to show progress and the table
    """
    task = what.task
    if trials < 1:
        raise InputError(f"trials is {trials}; it has to be at least 1")
    if seed < 0:
        raise InputError(f"seed is {seed}; it has to be at least 0")
    names = list(task.objects) if ALL in objects else list(dict.fromkeys(objects)) or [task.objects[0]]
    for name in names:
        if name not in (*task.objects, *task.optional):
            raise unknown(f"object of {task.name}", name, (*task.objects, *task.optional))
    first = compile_problem(task, names[0])
    if what.name not in SAMPLING:
        what.make(first)  # what does not fit shows before anything is written
    make_folder(out)
    store = Store(out / f"plan-{task.name}-{what.name}{'-realtime' if what.realtime else ''}.json", _head(what), again)
    console.print(f"[bold]{task.name}[/]: {escape(task.summary)}; planner {escape(what.planner)}, plant MuJoCo in C.")
    written: list[Path] = []
    recorded: list[Path] = []
    with showing_log(console), progress_bar(console) as progress:
        for name in names:
            wanted = [s for s in range(seed, seed + trials) if (name, s) not in store.done]
            if not wanted:
                continue
            bar = progress.add_task(f"{name}: compiling", total=None)
            problem = compile_problem(task, name)
            planner = what.make(problem)
            drawn = False
            for place, one in enumerate(wanted, 1):
                progress.reset(
                    bar, total=task.longest, description=f"{name}, trial {place} of {len(wanted)}, control steps"
                )
                ran, metrics = _run_trial(
                    problem, planner, one, what, lambda steps, bar=bar: progress.update(bar, completed=steps)
                )
                store.add(_row(task, name, ran, metrics))
                if not drawn and (ran.success or one == wanted[-1]):
                    progress.reset(bar, total=None, description=f"{name}: drawing")
                    recorded.append(_record(problem, ran, out))
                    written += _draw(problem, ran, out) if video else []
                    drawn = True
            progress.remove_task(bar)
    rows = [store.done[name, s] for name in names for s in range(seed, seed + trials)]
    console.print(_table(names, rows, what))
    for name in names:
        failed = [f"{row['seed']} ({row['reason']})" for row in rows if row["object"] == name and not row["success"]]
        if failed:
            console.print(f"{name}: no success with seed {escape(', '.join(failed))}", soft_wrap=True)
        for note in dict.fromkeys(note for row in rows if row["object"] == name for note in row.get("notes", [])):
            console.print(f"{name}: note of some plans: {escape(note)}", soft_wrap=True)
    for path in written:
        console.print(f"Picture: [bold]{escape(str(path))}[/]", soft_wrap=True)
    for path in recorded:
        console.print(
            f"Recording: {escape(str(path))}; `stickslip view {escape(str(path))}` replays it", soft_wrap=True
        )
    console.print(f"Results: {escape(str(store.path))}", soft_wrap=True)
    return not any(row["aborted"] for row in rows)


def _run_trial(problem: Problem, planner: Planner, seed: int, what: Order, progress: Any) -> tuple[trial.Trial, dict]:
    """A trial, and its metrics besides those of `_row`."""
    if not what.realtime:
        ran = trial.run(problem, planner, seed, progress=progress)
        mean = float(ran.seconds.mean()) if len(ran.seconds) else math.nan
        return ran, {"plans_per_s": 1.0 / mean if mean > 0.0 else math.nan}
    live = run_realtime(problem, planner, seed, look_ahead=what.look_ahead, progress=progress)
    metrics = {
        "plans_per_s": live.plans_per_second,
        "pose_age_ms": 1e3 * live.pose_age,
        "latency_ms": 1e3 * live.latency,
        "worst_latency_ms": 1e3 * live.worst_latency,
        "real_time_factor": live.real_time_factor,
        "dropped": live.dropped,
    }
    return live.trial, metrics


def _draw(problem: Problem, ran: trial.Trial, out: Path) -> list[Path]:
    shown, steps = film.pictures(problem, ran)
    stem, seconds = _stem(problem), ran.steps * problem.period
    return [
        files.write_bytes_atomic(out / f"{stem}.png", film.strip(problem, ran, shown, steps)),
        files.write_bytes_atomic(out / f"{stem}.gif", film.film(shown, seconds)),
    ]


def _record(problem: Problem, ran: trial.Trial, out: Path) -> Path:
    return files.write_bytes_atomic(out / f"{_stem(problem)}.npz", film.recording(problem, ran))


def _stem(problem: Problem) -> str:
    return problem.task.name if problem.object == DEFAULT else f"{problem.task.name}-{problem.object}"


def _head(what: Order) -> dict[str, Any]:
    """What was run with what, for the record."""
    task = what.task
    return {
        "format": FORMAT,
        "order": what.record(),
        "parameters": _parameters(task),
        "machine": machine(resolve_device(what.device).alias if what.name in SAMPLING else "cpu"),
        "versions": _versions(what),
    }


def _row(task: Task, name: str, ran: trial.Trial, metrics: dict[str, Any]) -> dict[str, Any]:
    """A trial as it is stored."""
    p50, p95 = np.quantile(ran.seconds, [0.5, 0.95]) if len(ran.seconds) else (math.nan, math.nan)
    return {
        "object": name,
        "seed": ran.seed,
        "success": ran.success,
        "aborted": ran.aborted,
        "reason": ran.reason,
        "steps": ran.steps,
        **{
            measure.key: measure.shown(float(error))
            for measure, error in zip(task.success.measures, ran.errors, strict=True)
        },
        "plan_p50_ms": 1e3 * float(p50),
        "plan_p95_ms": 1e3 * float(p95),
        "notes": list(ran.notes),
        **metrics,
    }


def _versions(what: Order) -> dict[str, str]:
    """Versions of everything that matters to a trial, with a digest of a model that is not stickslip's own."""
    task, found = what.task, versions()
    if task.extra:
        found[MENAGERIE] = package_version(MENAGERIE)
    if task.extra or what.source:
        found["model"] = " ".join(model_digest(compile_problem(task, name).mjm) for name in task.objects)
    return found


def _parameters(task: Task) -> dict[str, Any]:
    """The numbers of a task, for the record: cost, success, model, bounds."""
    kept = {}
    for field in dataclasses.fields(task):
        value = getattr(task, field.name)
        if field.name == "cost":
            kept["cost"] = {term.name: _plain(term) for term in task.cost}
        elif field.name == "success":
            limits = {measure.key: measure.limit for measure in task.success.measures}
            kept["success"] = {"limits": limits, "steps": task.success.steps}
        elif field.name != "failure" and dataclasses.is_dataclass(value) and not isinstance(value, type):
            kept[field.name] = dataclasses.asdict(value)
        elif isinstance(value, (int, float)):
            kept[field.name] = value
    return kept


def _plain(term: Any) -> dict[str, Any]:
    """The numbers and names of a term of a cost."""
    values = {field.name: getattr(term, field.name) for field in dataclasses.fields(term)}
    return {name: value for name, value in values.items() if isinstance(value, (int, float, str, tuple))}


def _table(names: Sequence[str], rows: Sequence[dict[str, Any]], what: Order) -> Table:
    """Success, errors of the trials that succeeded, and plan times, per object."""
    table = Table("object", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    measures = what.task.success.measures
    errors = [f"{measure.name}, {measure.unit}" if measure.unit else measure.name for measure in measures]
    for heading in ("success", *errors, "plan p50, ms", "p95, ms", "Hz"):
        table.add_column(heading, justify="right")
    if what.realtime:
        table.add_column("latency, ms", justify="right")
    for name in [*names, ALL] if len(names) > 1 else names:
        mine = [row for row in rows if name in (ALL, row["object"])]
        good = [row for row in mine if row["success"]]
        cells = [f"{len(good)} of {len(mine)}"]
        cells += [_mean(good, key, ".1f") for key in (measure.key for measure in measures)]
        cells += [_mean(mine, key, ".2f") for key in ("plan_p50_ms", "plan_p95_ms")]
        cells.append(_mean(mine, "plans_per_s", ".0f"))
        if what.realtime:
            cells.append(_mean(mine, "latency_ms", ".1f"))
        table.add_row(f"[bold]{name}[/]", *cells)
    return table


def _mean(rows: Sequence[dict[str, Any]], key: str, form: str) -> str:
    values = [row[key] for row in rows if row.get(key) is not None]
    return format(float(np.mean(values)), form) if values else "-"
