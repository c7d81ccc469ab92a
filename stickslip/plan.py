"""What `stickslip plan` does: trials of a task with a planner, a table of how they went, a filmstrip and a film."""

import dataclasses
import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stickslip import files
from stickslip.bench import contenders
from stickslip.bench.result import machine, package_version, versions
from stickslip.errors import InputError
from stickslip.mpc import film, trial
from stickslip.mpc.planners import PLANNERS, make_planner
from stickslip.mpc.realtime.loop import run_realtime
from stickslip.mpc.task import Planner, Problem, Task, angle, compile_problem
from stickslip.mpc.tasks import TASKS, menagerie
from stickslip.progress import progress_bar, telling
from stickslip.run import known, make_folder
from stickslip.simulation import resolve_device

ALL = "all"
"""Stands for every object of a task."""
MENAGERIE = "mujoco-menagerie"
"""The package that has hands for some of the tasks."""
FORMAT = 1
"""Of the JSON files; raised when their meaning changes."""


@dataclasses.dataclass(frozen=True)
class Order:
    """What is to be done; a stored trial counts as done if all of this is the same.

    Attributes:
        task: its name
        planner: its name
        physics: contact physics of the plan's model as `contenders.resolve` takes it; none for planners that have one
        realtime: whether the plant goes on while the planner thinks
        bus: that connects them then
        device: where the plan's model runs, of a planner that asks
        samples: rollouts of a plan, of a planner that has them; None: its own default
    """

    task: str
    planner: str
    physics: str | None
    realtime: bool
    bus: str
    device: str | None
    samples: int | None

    def make(self, problem: Problem) -> Planner:
        """The planner for a problem."""
        if self.planner != "mppi":
            return make_planner(self.planner, problem)
        from stickslip.mpc.mppi import Settings

        options: dict[str, Any] = {"device": self.device}
        if self.physics is not None:
            options["physics"] = contenders.resolve([self.physics])[self.physics]
        if self.samples is not None:
            options["settings"] = Settings(samples=self.samples)
        return make_planner("mppi", problem, **options)


def order(
    task: str,
    *,
    planner: str | None,
    physics: str | None,
    realtime: bool,
    bus: str,
    device: str | None,
    samples: int | None,
) -> Order:
    """The order of a command line; raises InputError where something does not fit."""
    known("task", task, TASKS)
    planner = planner or TASKS[task].planner
    known("planner", planner, PLANNERS)
    if planner != "mppi":
        for name, value in (("--physics", physics), ("--samples", samples), ("--device", device)):
            if value is not None:
                raise InputError(
                    f"{name} {value}: the planner {planner} has a model of its own; {name} is for --planner mppi"
                )
    if physics is not None:
        contenders.resolve([physics])
    return Order(task, planner, physics, realtime, bus if realtime else "", device, samples)


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
    """Run the trials that are not stored yet, print the table; True if every trial succeeded.

    Args:
        what: task, planner and how they are connected
        objects: names, or "all"; the task's first if empty
        trials: of each object, with seeds from `seed` on
        seed: of the first trial
        again: whether to run also what is stored
        video: whether to draw
        out: folder for plan-NAME.json, the filmstrips and the films
        console: where to show progress and the table
    """
    task = TASKS[what.task]
    if trials < 1:
        raise InputError(f"trials is {trials}; it has to be at least 1")
    if seed < 0:
        raise InputError(f"seed is {seed}; it has to be at least 0")
    names = list(task.objects) if ALL in objects else list(dict.fromkeys(objects)) or [task.objects[0]]
    for name in names:
        known(f"object of {task.name}", name, (*task.objects, *task.optional))
    make_folder(out)
    store = _Store(out / f"plan-{task.name}-{what.planner}{'-realtime' if what.realtime else ''}.json", what, again)
    console.print(f"[bold]{task.name}[/]: {escape(task.summary)}; planner {what.planner}, plant MuJoCo in C.")
    written: list[Path] = []
    with telling(console), progress_bar(console) as progress:
        for name in names:
            wanted = [s for s in range(seed, seed + trials) if (name, s) not in store.done]
            if not wanted:
                continue
            bar = progress.add_task(f"{name}: compiling", total=None)
            problem = compile_problem(task, name)
            planner = what.make(problem)
            drawn = False
            for place, one in enumerate(wanted, 1):
                told = f"{name}, trial {place} of {len(wanted)}, control steps"
                progress.reset(bar, total=task.longest, description=told)
                ran, figures = _one(
                    problem, planner, one, what, lambda steps, bar=bar: progress.update(bar, completed=steps)
                )
                store.add(name, ran, figures)
                if video and not drawn and (ran.success or one == wanted[-1]):
                    progress.reset(bar, total=None, description=f"{name}: drawing")
                    written += _draw(problem, ran, out)
                    drawn = True
            progress.remove_task(bar)
    rows = [store.done[name, s] for name in names for s in range(seed, seed + trials)]
    console.print(_table(names, rows, what))
    for name in names:
        failed = [f"{row['seed']} ({row['reason']})" for row in rows if row["object"] == name and not row["success"]]
        if failed:
            console.print(f"{name}: not done with seed {escape(', '.join(failed))}", soft_wrap=True)
        for note in dict.fromkeys(note for row in rows if row["object"] == name for note in row.get("notes", [])):
            console.print(f"{name}: of some plans: {escape(note)}", soft_wrap=True)
    for path in written:
        console.print(f"Picture: [bold]{escape(str(path))}[/]", soft_wrap=True)
    console.print(f"Figures: {escape(str(store.path))}", soft_wrap=True)
    return all(row["success"] for row in rows)


def _one(problem: Problem, planner: Planner, seed: int, what: Order, progress: Any) -> tuple[trial.Trial, dict]:
    """A trial, and what only real time has figures of."""
    if not what.realtime:
        ran = trial.run(problem, planner, seed, progress=progress)
        mean = float(ran.seconds.mean()) if len(ran.seconds) else math.nan
        return ran, {"plans_per_s": 1.0 / mean if mean > 0.0 else math.nan}
    live = run_realtime(problem, planner, seed, bus=what.bus, progress=progress)
    figures = {
        "plans_per_s": live.plans_per_second,
        "pose_age_ms": 1e3 * live.pose_age,
        "latency_ms": 1e3 * live.latency,
        "worst_latency_ms": 1e3 * live.worst_latency,
        "real_time_factor": live.real_time_factor,
        "dropped": live.dropped,
    }
    return live.trial, figures


def _draw(problem: Problem, ran: trial.Trial, out: Path) -> list[Path]:
    shown, steps = film.pictures(problem, ran)
    stem = f"{problem.task.name}-{problem.object}"
    seconds = ran.steps * problem.task.substeps * problem.mjm.opt.timestep
    return [
        files.write_bytes_atomic(out / f"{stem}.png", film.strip(problem, ran, shown, steps)),
        files.write_bytes_atomic(out / f"{stem}.gif", film.film(shown, seconds)),
    ]


class _Store:
    """The trials that are done, in a file that is written after each of them."""

    def __init__(self, path: Path, what: Order, again: bool) -> None:
        self.path = path
        self.done: dict[tuple[str, int], dict[str, Any]] = {}
        self._head = {
            "format": FORMAT,
            "order": dataclasses.asdict(what),
            "parameters": _parameters(TASKS[what.task]),
            "machine": machine(resolve_device(what.device).alias if what.planner == "mppi" else "cpu"),
            "versions": _versions(TASKS[what.task]),
        }
        if path.exists() and not again:
            self._load()

    def _load(self) -> None:
        try:
            content = json.loads(self.path.read_text())
            rows = {(row["object"], int(row["seed"])): row for row in content["trials"]}
            stored = {name: content[name] for name in self._head}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{self.path} is not a result of `stickslip plan` ({error}): remove it, or give another --out"
            ) from None
        asked = json.loads(json.dumps(files.plain(self._head)))
        for name, value in asked.items():
            if stored[name] != value:
                raise InputError(
                    f"{self.path} holds trials with another {name}; run them anew with --again, or give another --out"
                )
        self.done = rows

    def add(self, name: str, ran: trial.Trial, figures: dict[str, Any]) -> None:
        p50, p95 = np.quantile(ran.seconds, [0.5, 0.95]) if len(ran.seconds) else (math.nan, math.nan)
        self.done[name, ran.seed] = {
            "object": name,
            "seed": ran.seed,
            "success": ran.success,
            "reason": ran.reason,
            "steps": ran.steps,
            "position_mm": 1e3 * ran.position,
            "rotation": ran.rotation,
            "angle_deg": math.degrees(angle(ran.rotation)) if math.isfinite(ran.rotation) else math.nan,
            "plan_p50_ms": 1e3 * float(p50),
            "plan_p95_ms": 1e3 * float(p95),
            "notes": list(ran.notes),
            **figures,
        }
        self.done[name, ran.seed] = files.plain(self.done[name, ran.seed])
        files.write_json(self.path, {**self._head, "trials": list(self.done.values())})


def _versions(task: Task) -> dict[str, str]:
    """Of everything that matters to a trial; of a task that needs an extra also which hand that gives."""
    found = versions()
    if task.extra == menagerie.EXTRA:
        found[MENAGERIE] = package_version(MENAGERIE)
    if task.extra:
        found["model"] = _digest(compile_problem(task).mjm)
    return found


def _digest(mjm: mujoco.MjModel) -> str:
    """Of all arrays of a model but those that tell where its files are: the same hand in another folder is the same."""
    digest = hashlib.sha256()
    for name in dir(mjm):
        value = getattr(mjm, name)
        if isinstance(value, np.ndarray) and not name.endswith("pathadr"):
            digest.update(f"{name} {value.shape} {value.dtype} ".encode() + value.tobytes())
    return digest.hexdigest()[:12]


def _parameters(task: Task) -> dict[str, Any]:
    """What of a task is a number, for the record: cost, success, model, bounds."""
    kept = {}
    for field in dataclasses.fields(task):
        value = getattr(task, field.name)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            kept[field.name] = dataclasses.asdict(value)
        elif isinstance(value, (int, float)):
            kept[field.name] = value
    return kept


def _table(names: Sequence[str], rows: Sequence[dict[str, Any]], what: Order) -> Table:
    """Success, errors of the trials that succeeded, and times of plans, for each object."""
    table = Table("object", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("success", "position, mm", "rotation, °", "plan p50, ms", "p95, ms", "Hz"):
        table.add_column(heading, justify="right")
    if what.realtime:
        table.add_column("latency, ms", justify="right")
    for name in [*names, ALL] if len(names) > 1 else names:
        mine = [row for row in rows if name in (ALL, row["object"])]
        good = [row for row in mine if row["success"]]
        cells = [f"{len(good)} of {len(mine)}"]
        cells += [_mean(good, key, ".1f") for key in ("position_mm", "angle_deg")]
        cells += [_mean(mine, key, ".2f") for key in ("plan_p50_ms", "plan_p95_ms")]
        cells.append(_mean(mine, "plans_per_s", ".0f"))
        if what.realtime:
            cells.append(_mean(mine, "latency_ms", ".1f"))
        table.add_row(f"[bold]{name}[/]", *cells)
    return table


def _mean(rows: Sequence[dict[str, Any]], key: str, form: str) -> str:
    values = [row[key] for row in rows if row.get(key) is not None]
    return format(float(np.mean(values)), form) if values else "-"
