"""`stickslip retarget` and `stickslip motions`: their options."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stickslip.cli.status import FAILED, OK


@dataclass(frozen=True)
class Retarget:
    """Find controls with which a robot follows a motion, replay them in MuJoCo C, and tell how well it does.

    Runs that are stored in the folder are not run again, and a run that was interrupted goes on. The exit status is 0
    if every motion was followed to its end, and 1 if not.
    """

    motions: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="MOTION ...")]
    """Motions, as `stickslip motions` lists them, or files of motions."""
    robot: str | None = None
    """A robot, as `stickslip motions` lists them, or an MJCF file with servos; default: the motion's; of a file, g1-box
    if it has an object, else g1."""
    servo: Literal["real", "stiff"] = "real"
    """Servos: of the robot, or stiff and without torque limits."""
    self_collision: Literal["on", "off"] | None = None
    """Bodies of the robot touch each other; default: as its model has it, which for g1 is off."""
    box: tuple[float, float, float] | None = None
    """Lengths of the box of g1-box along x, y and z [m]; default: 0.5 0.5 0.7."""
    physics: str = "cone-sweep"
    """Contact physics of the rollouts, with parameters as in comfree:stiffness=0.55,damping=0.00055."""
    trials: int = 1
    """Runs of each motion, with seeds from `--seed` on."""
    seed: int = 0
    """Seed of the first run."""
    samples: int | None = None
    """Rollouts of a round; default: 2048 on a GPU, 192 on a CPU."""
    iterations: int | None = None
    """Rounds of an optimisation, at most; default: 16 on a GPU, 8 on a CPU."""
    improvement: float = 0.0
    """A round that improves the cost by less is the last; 0: none is."""
    horizon: int = 48
    """Time steps of a rollout."""
    dt: float = 1.0 / 60.0
    """Time step of a rollout [s]."""
    plant_dt: float | None = None
    """Time step of the plant, at most [s]; default: the model's."""
    guidance: float | None = None
    """Share of guidance in the first round, from 0 to 1; default: 1 for motions with objects, 0 for others."""
    fps: float | None = None
    """Frames per second, where a file does not say them."""
    quat: Literal["wxyz", "xyzw"] | None = None
    """Order of quaternions in a file; default: the format's."""
    begin: Annotated[float | None, tyro.conf.arg(name="from")] = None
    """Where to begin in the motion [s]."""
    end: Annotated[float | None, tyro.conf.arg(name="to")] = None
    """Where to end [s]."""
    ground: bool = False
    """Shift the motion vertically, so that the robot stands on the floor."""
    keep_going: bool = False
    """Go on when the robot has lost the motion."""
    device: str | None = None
    """Device of the rollouts, such as cpu or cuda:0; default: the first GPU, or the CPU if there is none."""
    export: Literal["stickslip", "lafan1", "mjlab"] | None = None
    """Write what the robot did in this format too."""
    again: bool = False
    """Run what is already stored again."""
    no_video: bool = False
    """Write no filmstrip and no film."""
    out: Path = Path("out")
    """Folder for the results."""

    def __call__(self, console: Console) -> int:
        from stickslip.cli import output

        output.quiet()
        from stickslip.cli import retarget

        return OK if retarget.run(self, console) else FAILED


@dataclass(frozen=True)
class Motions:
    """List the motions to retarget, and the robots."""

    def __call__(self, console: Console) -> int:
        from stickslip.mpc.retarget.made import MOTIONS
        from stickslip.mpc.retarget.robots import ROBOTS

        table = Table("motion", "what is done", "robot", box=None, pad_edge=False)
        for name, made in MOTIONS.items():
            table.add_row(f"[bold]{name}[/]", escape(made.summary), made.robot)
        console.print(table)
        robots = Table("robot", "what it is", box=None, pad_edge=False)
        for name, robot in ROBOTS.items():
            robots.add_row(f"[bold]{name}[/]", escape(robot.summary))
        console.print()
        console.print(robots)
        console.print("\nRetarget one with [bold]stickslip retarget NAME[/].")
        console.print(
            "Files are read too: csv of LAFAN1, npz of SPIDER, mjlab and holosoma, folders of HDMI, and txt of "
            "DeepMimic, whose human is brought onto the robot by inverse kinematics.",
            soft_wrap=True,
        )
        return OK
