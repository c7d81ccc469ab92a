"""`stickslip identify`: its options."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from stickslip.cli.status import FAILED, OK


@dataclass(frozen=True)
class Identify:
    """Find friction, mass and other parameters of a model from recorded trials, with intervals.

    Without data of your own, begin with `stickslip identify --example DIR`: it writes trials, and prints what to run.
    The exit status is 0 if, under every physics that is named, the model explains the data, held-out trials are no
    worse, and all parameters are identified; it is 1 if not.
    """

    scene: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="SCENE")] = None
    """A built-in scene (see `stickslip scenes`), an MJCF or URDF file, or menagerie:NAME."""
    data: tuple[Path, ...] = ()
    """Trials to fit: .npz or .csv files."""
    held_out: tuple[Path, ...] = ()
    """Trials that are not fitted, but tested."""
    no_held_out: bool = False
    """There are no trials for a test; this must be said, and the result repeats it."""
    parameters: tuple[str, ...] = ()
    """What to identify, with bounds: friction:T=0.05:2, friction=0.05:2 (all geoms), pair-friction:PAIR=0.05:2,
    mass:BODY=0.1:3, stiffness:GEOM=1e3:1e6, dissipation:GEOM=0.01:10, modulus:GEOM=1e4:1e8,
    static-friction:GEOM=0.1:2, damping:JOINT=0.01:10, dry-friction:JOINT=0.01:10, armature:JOINT=1e-3:1,
    gain:ACTUATOR=10:1000, delay:measurements=0:0.1, delay:controls=0:0.1, field:geom_solref[3,0]=0.004:0.1."""
    physics: tuple[str, ...] = ("cone-sweep",)
    """Contact physics, one or several to compare, with parameters as in comfree:stiffness=0.55."""
    noise: tuple[float, ...] = ()
    """Standard deviation of the measurements, in their units: one number, or one for each measured column; default:
    what the files say."""
    measure: tuple[str, ...] = ()
    """What the measured columns are, such as qpos[0:2] sensor:force xpos:T; default: what the files say."""
    timestep: float | None = None
    """Timestep of the rollouts [s]; default: the model's."""
    nworld: int | None = None
    """Worlds at a time; default: 2048 on a GPU, 64 on a CPU."""
    generations: int = 25
    """Generations of the search, at most."""
    seed: int = 0
    """Seed of random numbers."""
    device: str | None = None
    """Device, such as cpu or cuda:0; default: the first GPU, or the CPU if there is none."""
    threads: int = 1
    """Threads that share the worlds, on a CPU."""
    out: Path = Path("out/identify")
    """Folder for fit.json and fit.png; with several physics, each name has that of its physics."""
    example: Path | None = None
    """Write trials to this folder, print the command that identifies them, and do nothing else."""

    def __call__(self, console: Console) -> int:
        from stickslip.cli import output

        output.quiet()
        from stickslip.cli import identify

        if self.example is not None:
            identify.example(self, console)
            return OK
        return OK if identify.run(self, console) else FAILED
