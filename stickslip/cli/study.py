"""`stickslip study`: the live table, the status, the report."""

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table

from stickslip import studies
from stickslip.cli import output
from stickslip.errors import InputError
from stickslip.progress import progress_bar
from stickslip.studies import report as reports
from stickslip.studies.driver import Progress
from stickslip.studies.records import DONE, FAILED, package
from stickslip.studies.store import Store

if TYPE_CHECKING:
    from stickslip.cli.commands.study import StudyRun

MOST = 8
"""Causes of failures that are printed."""


def _load(order: "StudyRun") -> studies.Definition:
    """The study of a file; modules of the present folder can be imported, as with `python -m`."""
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    return studies.load(order.file)


def check(order: "StudyRun", console: Console) -> None:
    """Check every cell, and tell how many there are."""
    definition = _load(order)
    with _planning(definition.count, console) as planned:
        cells = studies.plan(definition, planned)
    groups = Counter(cell.group for cell in cells)
    console.print(f"{len(cells):,} cells in {len(groups):,} groups, on {cells[0].device}; nothing was run.")
    twice = definition.count - len(cells)
    if twice:
        console.print(f"{twice:,} sets of parameters stand for a cell that another one names too.")


def run(order: "StudyRun", console: Console) -> Progress:
    """Run the cells that are not done, with a live table."""
    definition = _load(order)
    out = order.out or Path("out/study") / definition.settings.name
    package()
    output.make_folder(out.parent)
    with _planning(definition.count, console) as planned, _live(definition.settings.name, console) as told:
        progress = studies.run(
            definition,
            out,
            executor=order.executor,
            ray=order.ray,
            workers=order.workers,
            gpus=order.gpus,
            told=told,
            planned=planned,
        )
    console.print(
        f"{definition.settings.name}: {progress.done:,} of {progress.cells:,} cells are done, {progress.failed:,} "
        f"failed; {progress.ran:,} of them ran now, in {_duration(progress.seconds)} -> {escape(str(out))}",
        soft_wrap=True,
    )
    if progress.interrupted:
        console.print("[yellow]interrupted[/]; the same command goes on")
    if progress.failed:
        _failures(Store(out), console)
    console.print(f"`stickslip study report {escape(str(out))}` makes a page of it.", soft_wrap=True)
    return progress


@contextlib.contextmanager
def _planning(count: int, console: Console) -> Iterator:
    """A bar over the cells that are checked, which ends with them."""
    bar = progress_bar(console)
    task = bar.add_task("checking cells", total=count)
    with contextlib.ExitStack() as stack:
        if count > 1000:
            stack.enter_context(bar)

        def planned(done: int) -> None:
            if done % 100 == 0 or done == count:
                bar.update(task, completed=done)
            if done == count:
                stack.close()

        yield planned


@contextlib.contextmanager
def _live(name: str, console: Console) -> Iterator:
    """A table of how far the study is, while it runs."""
    live: Live | None = None

    def told(progress: Progress) -> None:
        nonlocal live
        if live is None:
            live = Live(console=console, refresh_per_second=4, transient=True)
            live.start()
        live.update(shown(name, progress))

    try:
        yield told
    finally:
        if live is not None:
            live.stop()


def shown(name: str, progress: Progress) -> Group:
    """The live table."""
    table = Table(name, "done", "failed", "running", "waiting", "rate", "time left", box=None, pad_edge=False)
    waiting = progress.cells - progress.done - progress.failed - progress.running
    failed = f"[red]{progress.failed:,}[/]" if progress.failed else "0"
    table.add_row(
        f"{progress.cells:,} cells",
        f"{progress.done:,}",
        failed,
        f"{progress.running:,}",
        f"{max(waiting, 0):,}",
        _rate(progress.rate),
        "" if progress.left is None else _duration(progress.left),
    )
    bar = ProgressBar(total=progress.cells, completed=progress.done + progress.failed, width=60)
    return Group(table, bar, *([f"[yellow]{escape(progress.note)}[/]"] if progress.note else []))


def _rate(rate: float) -> str:
    """Cells a second, a minute or an hour, whichever can be read."""
    for factor, unit in ((1.0, "s"), (60.0, "min")):
        if rate * factor >= 1.0:
            return f"{rate * factor:.3g} a {unit}"
    return f"{rate * 3600.0:.3g} an hour" if rate else ""


def _duration(seconds: float) -> str:
    """Such as "42 s" or "3 h 12 min"."""
    if seconds < 90.0:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60.0)
    if minutes < 90:
        return f"{minutes} min"
    hours = minutes // 60
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def _failures(store: Store, console: Console) -> None:
    """How many failed of each cause."""
    failed = store.table(store.listed(FAILED) & store.manifest().keys())
    causes = Counter(failed["cause"].to_pylist())
    table = Table("failed", "because", box=None, pad_edge=False)
    for cause, count in causes.most_common(MOST):
        table.add_row(f"[red]{count:,}[/]", escape(cause))
    if len(causes) > MOST:
        table.add_row("", f"and {len(causes) - MOST} other causes")
    console.print(table)
    console.print(f"`stickslip study retry {escape(str(store.folder))}` has them tried again.", soft_wrap=True)


def status(folder: Path, console: Console) -> bool:
    """Print how far a study is; whether nothing has failed."""
    store = Store(folder)
    about, cells = store.about(), store.manifest()
    done = store.listed(DONE)
    failed = (store.listed(FAILED) & cells.keys()) - done
    here = len(done & cells.keys())
    drivers = store.drivers()
    running = sum(int(one["running"]) for one in drivers.values())
    rate = sum(one["ran"] / one["seconds"] for one in drivers.values() if one["seconds"])
    left = len(cells) - here - len(failed)
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row("study", escape(str(about["study"].get("name", "study"))))
    table.add_row("runs", escape(str(about["study"]["run"])))
    table.add_row("cells", f"{len(cells):,}")
    table.add_row("done", f"{here:,}")
    table.add_row("failed", f"[red]{len(failed):,}[/]" if failed else "0")
    table.add_row("running", f"{running:,}" if drivers else "nobody runs it")
    table.add_row("not done", f"{left:,}")
    if drivers and rate and left:
        table.add_row("rate", _rate(rate))
        table.add_row("time left", _duration(left / rate))
    for name in drivers:
        table.add_row("driver", escape(name))
    older = len(done) - here
    if older:
        table.add_row("besides", f"{older:,} cells of other parameters or versions, which are kept")
    console.print(table)
    if failed:
        _failures(store, console)
    return not failed


def report(folder: Path, out: Path | None, table: Path | None, console: Console) -> None:
    """Write the page, and a table if one is asked for."""
    if table is not None and table.suffix not in (".parquet", ".csv"):
        raise InputError(f"--table {table}: give a file that ends in .parquet or .csv")
    with console.status("reading") as shown_status:
        path = reports.write(folder, out, table, lambda line: shown_status.update(line))
    console.print(f"Wrote {escape(str(path))}" + (f" and {escape(str(table))}" if table else ""), soft_wrap=True)


def retry(folder: Path, console: Console) -> None:
    """Have cells that failed, or whose files are damaged, run again."""
    store = Store(folder)
    store.about()
    damaged = store.check()
    count = studies.retry(folder)
    if damaged:
        console.print(f"{len(damaged):,} damaged files were removed; their cells run again.")
    console.print(f"{count:,} cells that failed run again with the next `stickslip study run`.")
