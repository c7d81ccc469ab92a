"""`stickslip study`: many runs that survive machines."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.markup import escape

from stickslip.cli.status import FAILED, INTERRUPTED, OK

_DIR = tyro.conf.arg(metavar="DIR")


@dataclass(frozen=True)
class StudyRun:
    """Run the cells of a study that are not done yet; each is stored when it ends.

    Ctrl-C lets the cells that run come to their end, a second one ends them; the same command goes on. The exit status
    is 0 if every cell is done, 1 if one failed as often as it may, and 130 after Ctrl-C.
    """

    file: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE.toml")]
    """The study."""
    out: Path | None = None
    """Folder for the results; default: out/study/NAME."""
    executor: Literal["local", "ray"] = "local"
    """Processes of this machine, or Ray."""
    ray: str | None = None
    """Address of a Ray cluster, or auto; default: a local one."""
    workers: int | None = None
    """Processes; default: one a core, or one a GPU."""
    gpus: float = 1.0
    """GPUs of a process of Ray, such as 0.25; on CUDA only."""
    dry: bool = False
    """Check the study, tell how many cells it has, and run nothing."""

    def __call__(self, console: Console) -> int:
        from stickslip.cli import output

        output.quiet()
        from stickslip.cli import study

        if self.dry:
            study.check(self, console)
            return OK
        from stickslip.studies import DiskFull

        try:
            progress = study.run(self, console)
        except DiskFull as error:
            Console(stderr=True, highlight=False, soft_wrap=True).print(f"[red]error:[/] {escape(str(error))}")
            return FAILED
        if progress.interrupted:
            return INTERRUPTED
        return OK if progress.complete else FAILED


@dataclass(frozen=True)
class StudyStatus:
    """Print how many cells are done, and who runs the others; the exit status is 1 if there are failures."""

    directory: Annotated[tyro.conf.Positional[Path], _DIR]
    """Folder of a study."""

    def __call__(self, console: Console) -> int:
        from stickslip.cli import study

        return OK if study.status(self.directory, console) else FAILED


@dataclass(frozen=True)
class StudyReport:
    """Make a page of tables, plots by parameter and failures by cause; or a table for other programs."""

    directory: Annotated[tyro.conf.Positional[Path], _DIR]
    """Folder of a study."""
    out: Path | None = None
    """The page; default: DIR/report.html."""
    table: Path | None = None
    """Write all cells as a table too: a file that ends in .parquet or .csv."""

    def __call__(self, console: Console) -> int:
        from stickslip.cli import output

        output.quiet()
        from stickslip.cli import study

        study.report(self.directory, self.out, self.table, console)
        return OK


@dataclass(frozen=True)
class StudyRetry:
    """Forget the failures of a study, and files that are damaged; the next `study run` tries these cells again."""

    directory: Annotated[tyro.conf.Positional[Path], _DIR]
    """Folder of a study."""

    def __call__(self, console: Console) -> int:
        from stickslip.cli import study

        study.retry(self.directory, console)
        return OK


Study = (
    Annotated[StudyRun, tyro.conf.subcommand(name="run")]
    | Annotated[StudyStatus, tyro.conf.subcommand(name="status")]
    | Annotated[StudyReport, tyro.conf.subcommand(name="report")]
    | Annotated[StudyRetry, tyro.conf.subcommand(name="retry")]
)


@dataclass(frozen=True)
class StudyGroup:
    """Studies: many runs over parameters, resumable, on local processes or Ray."""

    command: tyro.conf.OmitSubcommandPrefixes[Study]

    def __call__(self, console: Console) -> int:
        return self.command(console)
