"""The command `stickslip`: reads the command line, runs a command, and turns errors into messages and exit statuses."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import tyro
from rich.console import Console
from rich.markup import escape

from stickslip import __version__, interrupts, model_files
from stickslip.cli.commands.bench import BenchGroup
from stickslip.cli.commands.dataset import DatasetGroup
from stickslip.cli.commands.decompose import Decompose
from stickslip.cli.commands.demo import Demo
from stickslip.cli.commands.identify import Identify
from stickslip.cli.commands.learn import Envs, Play, ScorePolicy, Train
from stickslip.cli.commands.plan import Plan, Tasks
from stickslip.cli.commands.points import Points
from stickslip.cli.commands.replay import Replay
from stickslip.cli.commands.retarget import Motions, Retarget
from stickslip.cli.commands.run import Run, refuse_former
from stickslip.cli.commands.scenes import Physics, Scenes
from stickslip.cli.commands.study import StudyGroup
from stickslip.cli.commands.view import Gallery, View
from stickslip.cli.status import FAILED, INTERRUPTED, OK, USAGE
from stickslip.errors import InputError, StickslipError

Command = (
    Annotated[Run, tyro.conf.subcommand(name="run")]
    | Annotated[Replay, tyro.conf.subcommand(name="replay")]
    | Annotated[Scenes, tyro.conf.subcommand(name="scenes")]
    | Annotated[Physics, tyro.conf.subcommand(name="physics")]
    | Annotated[Points, tyro.conf.subcommand(name="points")]
    | Annotated[Decompose, tyro.conf.subcommand(name="decompose")]
    | Annotated[DatasetGroup, tyro.conf.subcommand(name="dataset")]
    | Annotated[Identify, tyro.conf.subcommand(name="identify")]
    | Annotated[Plan, tyro.conf.subcommand(name="plan")]
    | Annotated[Tasks, tyro.conf.subcommand(name="tasks")]
    | Annotated[Retarget, tyro.conf.subcommand(name="retarget")]
    | Annotated[Motions, tyro.conf.subcommand(name="motions")]
    | Annotated[Envs, tyro.conf.subcommand(name="envs")]
    | Annotated[Train, tyro.conf.subcommand(name="train")]
    | Annotated[Play, tyro.conf.subcommand(name="play")]
    | Annotated[ScorePolicy, tyro.conf.subcommand(name="score")]
    | Annotated[BenchGroup, tyro.conf.subcommand(name="bench")]
    | Annotated[StudyGroup, tyro.conf.subcommand(name="study")]
    | Annotated[Demo, tyro.conf.subcommand(name="demo")]
    | Annotated[View, tyro.conf.subcommand(name="view")]
    | Annotated[Gallery, tyro.conf.subcommand(name="gallery")]
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (without the program's name) and return the exit status."""
    args = list(sys.argv[1:] if argv is None else argv)
    if args == ["--version"]:
        print(f"stickslip {__version__}")
        return OK
    description = (
        "Contact-rich simulation of MuJoCo models. `stickslip --version` prints the version. `stickslip --allow FOLDER "
        "COMMAND ...` lets model files read this folder, too, besides the one that they lie in."
    )
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        _allow(args)
        _refuse_repeated(args)
        if args[:1] == ["run"]:
            refuse_former(args)
        config = (tyro.conf.FlagCreatePairsOff,)
        command = tyro.cli(Command, prog="stickslip", description=description, args=args, config=config)
        with interrupts.reliable():
            return command(Console(highlight=False))
    except StickslipError as error:
        errors.print(f"[red]error:[/] {escape(str(error))}")
        return USAGE
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        errors.print(f"[red]error:[/] {escape(place + (error.strerror or str(error)))}")
        return FAILED
    except KeyboardInterrupt:
        errors.print("interrupted; every file written so far is whole")
        return INTERRUPTED


def _allow(args: list[str]) -> None:
    """Take `--allow FOLDER` from the front of the arguments, for this process and those that it starts."""
    while args[:1] == ["--allow"]:
        folder = args[1] if len(args) > 1 else ""
        if not os.path.isdir(folder):
            raise InputError(f"--allow {folder}: there is no such folder; name one, before the command")
        before = os.environ.get(model_files.VARIABLE)
        os.environ[model_files.VARIABLE] = os.pathsep.join(filter(None, (before, os.path.abspath(folder))))
        del args[:2]


def _refuse_repeated(args: Sequence[str]) -> None:
    """Raise InputError if an option is given twice, of which only the last would count."""
    options = [arg.partition("=")[0] for arg in args if arg.startswith("--")]
    for option in dict.fromkeys(options):
        if options.count(option) > 1 and option != "--set":
            raise InputError(f"{option} is given {options.count(option)} times; give it once, with all its values")
