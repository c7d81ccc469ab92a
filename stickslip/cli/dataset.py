"""`stickslip dataset`: prints what a dataset holds, and converts with a progress bar."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stickslip import datasets
from stickslip.errors import InputError
from stickslip.progress import progress_bar


def info(path: Path, console: Console) -> None:
    """Print what a dataset holds."""
    found = datasets.summary(path)
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_row("format", escape(found.format))
    table.add_row("episodes", f"{found.episodes:,}")
    table.add_row("frames", f"{found.frames:,}")
    table.add_row("rate", "not told" if found.fps is None else f"{found.fps:g} per second")
    physics = [f"{name} ({count:,})" for name, count in found.physics.items()]
    table.add_row("physics", escape(", ".join(physics)) or "not told")
    table.add_row("success", "not told" if found.success is None else f"{100.0 * found.success:.3g} %")
    table.add_row("tasks", escape(", ".join(found.tasks)) or "not told")
    console.print(table)
    features = Table("feature", "type", "shape", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name, (kind, shape) in found.features.items():
        features.add_row(f"[bold]{escape(name)}[/]", kind, escape(str(shape)))
    console.print()
    console.print(features)


def convert(
    paths: Sequence[Path],
    *,
    fps: float | None,
    robot: str,
    state: Sequence[str],
    video: bool,
    overwrite: bool,
    console: Console,
) -> None:
    """Write the episodes of all paths but the last to the last one."""
    if len(paths) < 2:
        raise InputError(f"{len(paths)} paths are given: name one HDF5 file or several, and last the target")
    with progress_bar(console) as bar:
        task = bar.add_task("episodes", total=None)
        count = datasets.convert(
            paths[:-1],
            paths[-1],
            fps=fps,
            robot_type=robot,
            state=state or None,
            video=video,
            overwrite=overwrite,
            advance=lambda done, of: bar.update(task, completed=done, total=of),
        )
    if not count:
        raise InputError("the sources have no episodes: nothing was written; name sources with episodes")
    console.print(f"{count:,} episodes: [bold]{escape(str(paths[-1]))}[/]", soft_wrap=True)
