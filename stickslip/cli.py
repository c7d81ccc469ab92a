"""The command `stickslip`: run | scenes | points | plan | tasks | bench | demo.

Each command is a dataclass of its options with a `__call__`; what is slow to import is imported there.
"""

import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stickslip import __version__, interrupts
from stickslip.errors import HealthWarning, InputError, StickslipError

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
"""Exit statuses: all went well; the result cannot be trusted, or used; the input was wrong; Ctrl-C."""


@dataclass(frozen=True)
class Run:
    """Step a scene and say what happened; with --out, also write the trajectory, a picture and a summary."""

    scene: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SCENE")]
    """A built-in scene (see `stickslip scenes`), an MJCF file, or menagerie:NAME."""
    physics: str = "cone-sweep"
    """Contact physics: cone-sweep, comfree, icf, cenic or mujoco."""
    nworld: int = 1
    """Number of worlds that step at once."""
    steps: int = 1000
    """Number of steps."""
    device: str | None = None
    """Where to run, such as cpu or cuda:0; the first GPU if there is one, unless given."""
    timestep: float | None = None
    """Length of a step in seconds; the scene's own unless given."""
    accuracy: float | None = None
    """Error of positions that a step may have, for a physics that chooses its steps (cenic)."""
    stiffness: float | None = None
    """Contact stiffness, for a physics that has one: in N/m (icf, cenic), or without unit (comfree)."""
    damping: float | None = None
    """Contact damping (comfree)."""
    substeps: int | None = None
    """Parts of a step, for a physics that has them (cone-sweep); more are more accurate, and slower."""
    sweeps: int | None = None
    """Sweeps over all contacts in a substep, likewise."""
    restitution: float | None = None
    """Share of its approach that a contact bounces back with, likewise."""
    out: Path | None = None
    """Folder for trajectory.npz, final.png and summary.json; steps.png too, of a physics that chooses its steps."""

    def __call__(self, console: Console) -> int:
        _hush()
        from stickslip import run

        physics = run.make_physics(
            self.physics,
            accuracy=self.accuracy,
            stiffness=self.stiffness,
            damping=self.damping,
            substeps=self.substeps,
            sweeps=self.sweeps,
            restitution=self.restitution,
        )
        healthy = run.run(
            self.scene,
            physics,
            nworld=self.nworld,
            steps=self.steps,
            device=self.device,
            timestep=self.timestep,
            out=self.out,
            console=console,
        )
        return OK if healthy else FAILED


@dataclass(frozen=True)
class Scenes:
    """List the built-in scenes."""

    def __call__(self, console: Console) -> int:
        from stickslip.scenes import CATALOGUE

        table = Table("scene", "what it holds", "parameters", box=None, pad_edge=False)
        for scene in CATALOGUE.values():
            parameters = ", ".join(f"{p.name}={p.default}" for p in scene.parameters)
            table.add_row(f"[bold]{scene.name}[/]", escape(scene.summary), parameters)
        console.print(table)
        console.print("\nRun one with [bold]stickslip run NAME[/]; menagerie:NAME loads a robot of MuJoCo Menagerie.")
        return OK


@dataclass(frozen=True)
class Points:
    """Draw the points and normals that scm makes of a scene's geoms, and say what is wrong with them.

    The exit status is 1 if a geom's points cannot be used; the picture is drawn all the same.
    """

    scene: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SCENE")]
    """A built-in scene (see `stickslip scenes`), an MJCF file, or menagerie:NAME."""
    points: int = 150
    """Points of each geom, about."""
    mesh_points: int = 500
    """Points of each mesh, about."""
    geom: tuple[str, ...] = ()
    """Geoms to draw, by name or number; those that may touch another unless given."""
    out: Path = Path("out/points.png")
    """The picture: a file that ends in .png, .pdf or .svg."""

    def __call__(self, console: Console) -> int:
        _hush()
        from stickslip import points

        fine = points.run(
            self.scene,
            points=self.points,
            mesh_points=self.mesh_points,
            geoms=self.geom,
            out=self.out,
            console=console,
        )
        return OK if fine else FAILED


@dataclass(frozen=True)
class Plan:
    """Manipulate an object: a planner chooses, MuJoCo in C is the plant; writes figures, a filmstrip and a film.

    Trials that are stored in the folder are not run again. The exit status is 1 if a trial did not succeed.
    """

    task: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TASK")]
    """A task, as `stickslip tasks` lists them."""
    planner: str | None = None
    """newton, mppi, ipopt or implicit; the task's own unless given."""
    physics: str | None = None
    """Contact physics that mppi plans with, such as comfree, mujoco or comfree:stiffness=0.1; comfree unless given."""
    object: tuple[str, ...] = ()
    """Objects, or `all`; the task's first unless given."""
    trials: int = 20
    """Trials with each object."""
    realtime: bool = False
    """Let the plant go on in a process of its own while the planner thinks."""
    bus: str = "loopback"
    """What connects planner and plant then: loopback, lcm, or a URL of LCM."""
    seed: int = 0
    """Of the first trial; the others follow."""
    samples: int | None = None
    """Rollouts of a plan (mppi)."""
    device: str | None = None
    """Where mppi plans, such as cpu or cuda:0; the first GPU if there is one, unless given."""
    again: bool = False
    """Run anew what is already there."""
    no_video: bool = False
    """Draw nothing."""
    out: Path = Path("out")
    """Folder for the results."""

    def __call__(self, console: Console) -> int:
        _hush()
        from stickslip import plan

        order = plan.order(
            self.task,
            planner=self.planner,
            physics=self.physics,
            realtime=self.realtime,
            bus=self.bus,
            device=self.device,
            samples=self.samples,
        )
        done = plan.run(
            order,
            objects=self.object,
            trials=self.trials,
            seed=self.seed,
            again=self.again,
            video=not self.no_video,
            out=self.out,
            console=console,
        )
        return OK if done else FAILED


@dataclass(frozen=True)
class Tasks:
    """List the tasks to plan, and their objects."""

    def __call__(self, console: Console) -> int:
        from stickslip.mpc.tasks import TASKS

        table = Table("task", "what is to be done", "objects", "planner", box=None, pad_edge=False)
        for task in TASKS.values():
            things = ", ".join((*task.objects, *(f"{name}*" for name in task.optional)))
            mark = "**" if task.extra else ""
            table.add_row(f"[bold]{task.name}[/]{mark}", escape(task.summary), things, task.planner)
        console.print(table)
        console.print("\nRun one with [bold]stickslip plan NAME --object OBJECT[/].")
        console.print(escape("* needs 'stickslip[bench]', ** needs 'stickslip[menagerie]'."))
        return OK


@dataclass(frozen=True)
class BenchList:
    """List the experiments."""

    names: bool = False
    """Print the bare names, one a line."""
    settings: bool = False
    """Print the settings of each, with their defaults."""

    def __call__(self, console: Console) -> int:
        import dataclasses

        from stickslip import bench
        from stickslip.bench.experiment import describe_setting

        if self.names:
            for name in bench.EXPERIMENTS:
                print(name)
            return OK
        table = Table("experiment", "what it measures", "from", box=None, pad_edge=False)
        for experiment in bench.EXPERIMENTS.values():
            table.add_row(f"[bold]{experiment.name}[/]", escape(experiment.summary), escape(experiment.source))
            if self.settings:
                for field in dataclasses.fields(experiment.settings):
                    table.add_row("", f"[dim]{escape(describe_setting(field))}[/]", "")
        console.print(table)
        return OK


@dataclass(frozen=True)
class BenchRun:
    """Run experiments; writes DIR/NAME.json and DIR/NAME.png. What is already there is not measured again.

    Ctrl-C keeps every measurement that is finished; the same command goes on from there.
    """

    names: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="NAME ...")]
    """Experiments, as `stickslip bench list` prints them, or `all`."""
    physics: tuple[str, ...] = ()
    """Who to compare: physics, mujoco-anti-creep, or one with parameters such as comfree:stiffness=0.1. All, or
    those that the experiment is about, with its variants, unless given."""
    device: str | None = None
    """Where to run, such as cpu or cuda:0; the first GPU if there is one, unless given."""
    out: Path = Path("out")
    """Folder for the results."""
    quick: bool = False
    """A small form that shows that it works; its figures mean nothing."""
    again: bool = False
    """Measure anew what is already there."""
    add: bool = False
    """Add the physics named to what is stored, although the code has changed since. Machine, versions and settings
    must be the same; which code it was, and when, is stored with what is added."""
    seed: int = 0
    """Of every random number."""
    set: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A setting of the experiment, as name=value; may be given often. `stickslip bench list --settings` prints them."""

    def __call__(self, console: Console) -> int:
        _hush()
        from stickslip import bench
        from stickslip.bench import contenders, runner
        from stickslip.run import COMPILING, known, make_folder
        from stickslip.simulation import resolve_device

        names = list(bench.EXPERIMENTS) if "all" in self.names else list(dict.fromkeys(self.names))
        if not names:
            raise InputError(f"no experiment given; use `all` or some of: {', '.join(bench.EXPERIMENTS)}")
        for name in names:
            known("experiment", name, bench.EXPERIMENTS)
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
        contenders.resolve(self.physics)
        make_folder(self.out)
        console.print(COMPILING.format(device=where))
        for place, name in enumerate(names, 1):
            path = runner.run(
                bench.EXPERIMENTS[name],
                self.out,
                physics=list(self.physics) or None,
                device=where,
                settings=settings,
                quick=self.quick,
                again=self.again,
                add=self.add,
                seed=self.seed,
                console=console,
                prefix=f"{place} of {len(names)}, " if len(names) > 1 else "",
            )
            console.print(f"  picture: {escape(str(path.with_suffix('.png')))}")
        console.print(f"`stickslip bench report {escape(str(self.out))}` makes one page of all results there.")
        return OK


@dataclass(frozen=True)
class BenchReport:
    """Make one page of all results in a folder and its folders."""

    directory: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """Folder with results of `stickslip bench run`."""
    out: Path | None = None
    """The page: HTML, or Markdown if it ends in .md; DIR/report.html unless given."""

    def __call__(self, console: Console) -> int:
        from stickslip import bench
        from stickslip.bench import report

        out = self.out or self.directory / "report.html"
        with console.status("drawing") as status:
            path = report.write(self.directory, out, bench.EXPERIMENTS, lambda line: status.update(f"drawing {line}"))
        console.print(f"Wrote {escape(str(path))}")
        return OK


@dataclass(frozen=True)
class Demo:
    """Drop a pile of 125 primitives with MuJoCo's contact, with ComFree and with the cone sweep, and compare."""

    scene: str = "drop-test"
    """Scene to drop."""
    steps: int = 1000
    """Number of steps."""
    device: str | None = None
    """Where to run, such as cpu or cuda:0; the first GPU if there is one, unless given."""
    out: Path = Path("out")
    """Folder for demo.png and demo.json."""

    def __call__(self, console: Console) -> int:
        _hush()
        from stickslip import demo

        demo.run(scene=self.scene, steps=self.steps, device=self.device, out=self.out, console=console)
        return OK


Bench = (
    Annotated[BenchList, tyro.conf.subcommand(name="list")]
    | Annotated[BenchRun, tyro.conf.subcommand(name="run")]
    | Annotated[BenchReport, tyro.conf.subcommand(name="report")]
)


@dataclass(frozen=True)
class BenchGroup:
    """Experiments that compare every physics."""

    command: tyro.conf.OmitSubcommandPrefixes[Bench]

    def __call__(self, console: Console) -> int:
        return self.command(console)


Command = (
    Annotated[Run, tyro.conf.subcommand(name="run")]
    | Annotated[Scenes, tyro.conf.subcommand(name="scenes")]
    | Annotated[Points, tyro.conf.subcommand(name="points")]
    | Annotated[Plan, tyro.conf.subcommand(name="plan")]
    | Annotated[Tasks, tyro.conf.subcommand(name="tasks")]
    | Annotated[BenchGroup, tyro.conf.subcommand(name="bench")]
    | Annotated[Demo, tyro.conf.subcommand(name="demo")]
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (without the program's name) and return the exit status."""
    args = list(sys.argv[1:] if argv is None else argv)
    if args == ["--version"]:
        print(f"stickslip {__version__}")
        return OK
    description = "Contact-rich simulation of MuJoCo models. `stickslip --version` prints the version."
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        _refuse_repeated(args)
        config = (tyro.conf.FlagCreatePairsOff,)
        command = tyro.cli(Command, prog="stickslip", description=description, args=args, config=config)
        with interrupts.heeded():
            return command(Console(highlight=False))
    except StickslipError as error:
        errors.print(f"[red]error:[/] {escape(str(error))}")
        return USAGE
    except OSError as error:
        errors.print(f"[red]error:[/] {escape(str(error))}")
        return USAGE
    except KeyboardInterrupt:
        errors.print("interrupted; every file written so far is whole")
        return INTERRUPTED


def _refuse_repeated(args: Sequence[str]) -> None:
    """Raise InputError if an option is given twice, of which only the last would count."""
    options = [arg.partition("=")[0] for arg in args if arg.startswith("--")]
    for option in dict.fromkeys(options):
        if options.count(option) > 1 and option != "--set":
            raise InputError(f"{option} is given {options.count(option)} times; give it once, with all its values")


def _hush() -> None:
    """Keep Warp from printing each module it loads; say warnings in a line, but not those the closing lines repeat."""
    import warp as wp

    wp.config.log_level = wp.LOG_WARNING
    warnings.simplefilter("ignore", HealthWarning)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    warnings.showwarning = lambda message, *_args, **_options: console.print(
        f"[yellow]warning:[/] {escape(str(message))}"
    )
