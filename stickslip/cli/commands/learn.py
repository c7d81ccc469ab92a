"""`stickslip envs`, `train`, `play` and `score`: their options."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stickslip.cli.status import FAILED, OK
from stickslip.physics import registry

_SPEC = tyro.conf.arg(metavar="NAME[:PARAMETER=VALUE,...]")
_SPECS = tyro.conf.arg(metavar="NAME[:PARAMETER=VALUE,...] ...")


@dataclass(frozen=True)
class Envs:
    """List the tasks for reinforcement learning."""

    def __call__(self, console: Console) -> int:
        from stickslip.envs import needs

        needs.torch()
        from stickslip.envs.registration import id_of
        from stickslip.envs.tasks import folder_of, load_task
        from stickslip.envs.tasks.catalogue import NAMES

        table = Table(box=None, pad_edge=False)
        for heading in ("task", "what is to be done", "Gymnasium", "trained"):
            table.add_column(heading, no_wrap=heading != "what is to be done")
        for name in NAMES:
            trained = "yes" if (folder_of(name) / "policy.npz").is_file() else ""
            table.add_row(f"[bold]{name}[/]", escape(load_task(name).summary), id_of(name), trained)
        console.print(table)
        console.print(
            "\nTrain a policy with [bold]stickslip train TASK[/], watch one with [bold]stickslip play TASK[/]."
        )
        return OK


@dataclass(frozen=True)
class Train:
    """Train a policy with PPO (rsl_rl); it goes on where it stopped.

    Writes the policy, a checkpoint, the curve, logs for TensorBoard and, at the end, a picture and a film. The exit
    status is 1 if the task's threshold was not reached.
    """

    task: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TASK")]
    """A task, as `stickslip envs` lists them, or a Python file that defines one."""
    physics: Annotated[tuple[str, ...], _SPECS] = (registry.DEFAULT,)
    """Contact physics to train with; of several, each has a share of the worlds."""
    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE ...")] = field(default_factory=tuple)
    """Settings of PPO, such as iterations=500 nworld=1024; `--help-settings` lists them."""
    minutes: float | None = None
    """Wall time at most, in this call."""
    until_learned: bool = False
    """Stop when the task's threshold is reached."""
    seed: int = 0
    """Of weights, actions and worlds."""
    device: str | None = None
    """Device, such as cpu or cuda:0; default: the first GPU, or the CPU if there is none."""
    threads: int | None = None
    """Threads of a CPU that share the worlds; default: one per core."""
    again: bool = False
    """Start over where the folder has a training already."""
    no_video: bool = False
    """Write no film."""
    help_settings: bool = False
    """List the settings of PPO with those of this task, and end."""
    out: Path | None = None
    """Folder; default: out/train/TASK-PHYSICS."""

    def __call__(self, console: Console) -> int:
        from stickslip.envs import needs

        needs.rsl_rl()
        from stickslip.cli import learn, output

        output.quiet()
        if self.help_settings:
            return learn.list_settings(self, console)
        return OK if learn.train(self, console) else FAILED


@dataclass(frozen=True)
class Play:
    """Play a trained policy; write a film, or show it in the browser."""

    policy: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="POLICY")]
    """A task, for the policy that comes with it; a folder of `stickslip train`; or a policy's file."""
    physics: Annotated[str | None, _SPEC] = None
    """Contact physics; default: the one it was trained with."""
    task: str | None = None
    """The task; default: the one it was trained for."""
    episodes: int = 16
    """Number of worlds, each of which plays one episode."""
    seed: int = 0
    """Of starts and noise."""
    device: str | None = None
    """Device, such as cpu or cuda:0; default: the first GPU, or the CPU if there is none."""
    view: bool = False
    """Show it in the browser, episode after episode, until Ctrl-C."""
    record: Path | None = None
    """Write the episodes as a dataset: a file .hdf5, or a folder in the format LeRobot v3.0. Plays until there are
    --episodes of them."""
    randomized: bool = False
    """Draw masses, friction and so on as in the training; else the model is as it is."""
    no_video: bool = False
    """Write no film."""
    out: Path = Path("out/play")
    """Folder for the film."""

    def __call__(self, console: Console) -> int:
        from stickslip.envs import needs

        needs.torch()
        from stickslip.cli import learn, output

        output.quiet()
        return OK if learn.play(self, console) else FAILED


@dataclass(frozen=True)
class ScorePolicy:
    """Score a policy under every physics, and in MuJoCo in C, from the same starts."""

    policy: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="POLICY ...")]
    """Tasks, for the policies that come with them; folders of `stickslip train`; or files of policies."""
    physics: Annotated[tuple[str, ...], _SPECS] = ("cone-sweep", "mujoco", "comfree", "icf", "cenic", "mujoco-c")
    """Contact physics to score under."""
    task: str | None = None
    """The task; default: the one it was trained for."""
    episodes: int = 256
    """Starts, one world each."""
    seed: int = 0
    """Of starts and noise."""
    device: str | None = None
    """Device, such as cpu or cuda:0; default: the first GPU, or the CPU if there is none."""
    threads: int | None = None
    """Threads of a CPU that share the worlds; default: one per core."""
    out: Path = Path("out/score")
    """Folder for the table, as score.json and score.png."""

    def __call__(self, console: Console) -> int:
        from stickslip.envs import needs

        needs.torch()
        from stickslip.cli import learn, output

        output.quiet()
        return OK if learn.score(self, console) else FAILED
