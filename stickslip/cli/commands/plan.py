"""`stickslip plan` and `stickslip tasks`: their options."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stickslip.cli.status import FAILED, OK


@dataclass(frozen=True)
class Plan:
    """Run trials of a task with a planner, on MuJoCo in C; write results, a recording, a filmstrip and a film.

    Trials that are stored in the folder are not run again. The exit status is 0 if every trial ran, whether or not it
    succeeded, and 1 if an error of the planner or the plant aborted one.
    """

    task: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TASK")]
    """A task, as `stickslip tasks` lists them, or a Python file that defines one."""
    planner: str | None = None
    """mppi, predictive, cem, dial, newton, ipopt or implicit, with parameters as in mppi:samples=128,std=0.01; default:
    the task's."""
    physics: str | None = None
    """Contact physics of the rollouts of a sampling planner, such as mujoco; default: cone-sweep."""
    object: tuple[str, ...] = ()
    """Names of objects, or `all`; default: the task's first."""
    trials: int = 20
    """Trials per object."""
    realtime: bool = False
    """Run the plant in real time in its own process; it does not wait for the planner."""
    no_look_ahead: bool = False
    """In real time, plan from the last measurements, not from the state predicted for the time a plan acts."""
    seed: int = 0
    """Seed of the first trial; the next trials take the next numbers."""
    device: str | None = None
    """Device of these rollouts, such as cpu or cuda:0; default: the first GPU, or the CPU if there is none."""
    again: bool = False
    """Run trials again that are already stored."""
    no_video: bool = False
    """Write no filmstrip and no film."""
    out: Path = Path("out")
    """Folder for the results."""

    def __call__(self, console: Console) -> int:
        from stickslip.cli import output

        output.quiet()
        from stickslip.cli import plan

        order = plan.order(
            self.task,
            planner=self.planner,
            physics=self.physics,
            realtime=self.realtime,
            device=self.device,
            look_ahead=not self.no_look_ahead,
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

        table = Table(box=None, pad_edge=False)
        table.add_column("task", no_wrap=True)
        for heading in ("what is to be done", "objects", "planner"):
            table.add_column(heading)
        for task in TASKS.values():
            things = ", ".join((*task.objects, *(f"{name}*" for name in task.optional)))
            mark = "**" if task.extra else ""
            table.add_row(f"[bold]{task.name}[/]{mark}", escape(task.summary), things, task.planner.partition(":")[0])
        console.print(table)
        console.print("\nRun one with [bold]stickslip plan NAME --object OBJECT[/].")
        console.print(escape("* needs 'stickslip[bench]', ** needs 'stickslip[menagerie]'."))
        return OK
