"""`stickslip bench`: list, run and report experiments."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stickslip.cli.status import OK
from stickslip.errors import InputError, unknown


@dataclass(frozen=True)
class BenchList:
    """List the experiments."""

    names: bool = False
    """Print only the names, one per line."""
    settings: bool = False
    """Also print the settings of each, with their defaults."""

    def __call__(self, console: Console) -> int:
        from stickslip import bench, parameters

        if self.names:
            for name in bench.EXPERIMENTS:
                print(name)
            return OK
        table = Table("experiment", "what it measures", "from", box=None, pad_edge=False)
        for experiment in bench.EXPERIMENTS.values():
            table.add_row(f"[bold]{experiment.name}[/]", escape(experiment.summary), escape(experiment.source))
            if self.settings:
                for field in parameters.fields(experiment.settings).values():
                    table.add_row("", f"[dim]{escape(parameters.describe(field))}[/]", "")
        console.print(table)
        return OK


@dataclass(frozen=True)
class BenchRun:
    """Run experiments and write NAME.json and NAME.png to a folder. Stored results are not measured again.

    Ctrl-C keeps every finished measurement; the same command continues from there.
    """

    names: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="NAME ...")]
    """Experiments, as `stickslip bench list` prints them, or `all`."""
    physics: tuple[str, ...] = ()
    """Methods to compare: names of physics, mujoco-anti-creep, or with parameters as in comfree:stiffness=0.1. Default:
    the methods of the experiment, with its variants."""
    device: str | None = None
    """Device, such as cpu or cuda:0; default: the first GPU, or the CPU if there is none."""
    out: Path = Path("out")
    """Folder for the results."""
    quick: bool = False
    """Smoke test: tiny problem sizes, results are not meaningful."""
    again: bool = False
    """Run again and overwrite stored results."""
    seed: int = 0
    """Seed of all random numbers."""
    set: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A setting of the experiment as name=value; may be repeated. `stickslip bench list --settings` lists them."""

    def __call__(self, console: Console) -> int:
        from stickslip.cli import output

        output.quiet()
        from stickslip import bench
        from stickslip.bench import methods, runner
        from stickslip.simulation import resolve_device

        names = list(bench.EXPERIMENTS) if "all" in self.names else list(dict.fromkeys(self.names))
        if not names:
            raise InputError(f"no experiment given; use `all` or some of: {', '.join(bench.EXPERIMENTS)}")
        for name in names:
            if name not in bench.EXPERIMENTS:
                raise unknown("experiment", name, bench.EXPERIMENTS)
        settings = {}
        for pair in self.set:
            key, equals, value = pair.partition("=")
            if not equals:
                raise InputError(f"--set {pair}: write it as name=value")
            settings[key] = value
        where = resolve_device(self.device).alias
        for name in names:  # before the first of them runs for minutes
            experiment = bench.EXPERIMENTS[name]
            experiment.cases(experiment.make_settings(settings, quick=self.quick, device=where))
        methods.resolve(self.physics)
        output.make_folder(self.out)
        console.print(output.COMPILING.format(device=where))
        for place, name in enumerate(names, 1):
            path = runner.run(
                bench.EXPERIMENTS[name],
                self.out,
                methods=list(self.physics) or None,
                device=where,
                settings=settings,
                quick=self.quick,
                again=self.again,
                seed=self.seed,
                console=console,
                prefix=f"{place} of {len(names)}, " if len(names) > 1 else "",
            )
            console.print(f"  picture: {escape(str(path.with_suffix('.png')))}")
        console.print(f"`stickslip bench report {escape(str(self.out))}` makes one page of all results there.")
        return OK


@dataclass(frozen=True)
class BenchReport:
    """Make one page of all results in a folder and its subfolders."""

    directory: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """Folder with results of `stickslip bench run`."""
    out: Path | None = None
    """The page: HTML, or Markdown if it ends in .md; default: DIR/report.html."""

    def __call__(self, console: Console) -> int:
        from stickslip import bench
        from stickslip.bench.report import page as report

        out = self.out or self.directory / "report.html"
        with console.status("drawing") as status:
            path = report.write(self.directory, out, bench.EXPERIMENTS, lambda line: status.update(f"drawing {line}"))
        console.print(f"Wrote {escape(str(path))}")
        return OK


Bench = (
    Annotated[BenchList, tyro.conf.subcommand(name="list")]
    | Annotated[BenchRun, tyro.conf.subcommand(name="run")]
    | Annotated[BenchReport, tyro.conf.subcommand(name="report")]
)


@dataclass(frozen=True)
class BenchGroup:
    """Experiments that compare the physics."""

    command: tyro.conf.OmitSubcommandPrefixes[Bench]

    def __call__(self, console: Console) -> int:
        return self.command(console)
