"""`stickslip dataset`: what recorded episodes hold, and from one format to another."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from stickslip.cli.status import OK


@dataclass(frozen=True)
class DatasetInfo:
    """Print what a dataset holds: format, episodes, frames, features, physics, share of successes."""

    path: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="PATH")]
    """An HDF5 file in robomimic's layout, or a folder in the format LeRobot v3.0."""

    def __call__(self, console: Console) -> int:
        from stickslip.cli import dataset

        dataset.info(self.path, console)
        return OK


@dataclass(frozen=True)
class DatasetConvert:
    """Write the episodes of HDF5 files to a LeRobot dataset, or to one HDF5 file."""

    sources: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="SOURCE ... TARGET")]
    """HDF5 files, such as shards, and last the target: a folder for LeRobot v3.0, or a file that ends in .hdf5."""
    fps: float | None = None
    """Control steps in a second of simulated time; default: what the first file tells."""
    robot: str = "unknown"
    """Type of the robot, for LeRobot."""
    state: tuple[str, ...] = ()
    """Observations that become `observation.state`, in this order; default: the one named state, or all vectors."""
    no_video: bool = False
    """Store pictures as PNG, without loss and without ffmpeg."""
    overwrite: bool = False
    """Replace a target that exists."""

    def __call__(self, console: Console) -> int:
        from stickslip.cli import dataset

        dataset.convert(
            self.sources,
            fps=self.fps,
            robot=self.robot,
            state=self.state,
            video=not self.no_video,
            overwrite=self.overwrite,
            console=console,
        )
        return OK


Dataset = (
    Annotated[DatasetInfo, tyro.conf.subcommand(name="info")]
    | Annotated[DatasetConvert, tyro.conf.subcommand(name="convert")]
)


@dataclass(frozen=True)
class DatasetGroup:
    """Recorded episodes for imitation learning."""

    command: tyro.conf.OmitSubcommandPrefixes[Dataset]

    def __call__(self, console: Console) -> int:
        return self.command(console)
