"""`stickslip run`: its options."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from stickslip import spec
from stickslip.cli.status import FAILED, INTERRUPTED, OK
from stickslip.errors import InputError
from stickslip.physics import registry

FORMER = ("accuracy", "stiffness", "damping", "substeps", "sweeps", "restitution")
"""Options that are parameters of a physics now."""


@dataclass(frozen=True)
class Run:
    """Step a scene and print a summary; with --out, also write the trajectory, a picture and the summary.

    Ctrl-C ends the run early and keeps what was computed; the exit status is then 130. It is 1 if contacts were dropped
    or a world is no longer finite.
    """

    scene: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SCENE")]
    """A built-in scene (see `stickslip scenes`), an MJCF file, or menagerie:NAME."""
    physics: Annotated[
        str,
        tyro.conf.arg(
            metavar="NAME[:PARAMETER=VALUE,...]",
            help="Contact physics, with parameters as in cone-sweep:substeps=10. "
            f"Names: {', '.join(registry.names())}. "
            "`stickslip physics NAME` lists the parameters.",
        ),
    ] = registry.DEFAULT
    nworld: int = 1
    """Number of worlds that are stepped together."""
    steps: int = 1000
    """Number of steps."""
    device: str | None = None
    """Device, such as cpu or cuda:0; default: the first GPU, or the CPU if there is none."""
    timestep: float | None = None
    """Length of a step in seconds; default: the scene's own."""
    nconmax: int | None = None
    """Buffer size: contacts per world; default: the scene's own, or an estimate, and more where needed."""
    njmax: int | None = None
    """Buffer size: constraint rows per world; default: as for contacts."""
    out: Path | None = None
    """Folder for trajectory.npz, final.png and summary.json; and steps.png for a physics with its own step size."""
    patches: bool = False
    """Draw the pressure on the contact patches of the first world at the end, patches.png in --out; icf and cenic."""

    def __call__(self, console: Console) -> int:
        registry.find(spec.split(self.physics)[0])  # wrong names fail before anything slow is imported
        for name in ("nworld", "steps"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}: it must be at least 1")
        from stickslip import mjcf

        mjm = mjcf.load(self.scene, timestep=self.timestep)
        from stickslip.cli import output

        output.quiet()
        import stickslip as ss
        from stickslip.cli import run

        physics = spec.resolve(self.physics, ss.PHYSICS, "physics")
        order = run.Order(
            scene=self.scene,
            mjm=mjm,
            physics=physics,
            nworld=self.nworld,
            steps=self.steps,
            device=self.device,
            nconmax=self.nconmax,
            njmax=self.njmax,
            out=self.out,
            patches=self.patches,
        )
        ended = run.run(order, console)
        if ended.interrupted:
            return INTERRUPTED
        return OK if ended.healthy else FAILED


def refuse_former(args: list[str]) -> None:
    """Raise InputError for an option that is a parameter of the physics now, with the new form."""
    given = dict(zip(args, [*args[1:], ""], strict=True))
    for arg in args:
        option, equals, value = arg.partition("=")
        name = option.removeprefix("--")
        if option.startswith("--") and name in FORMER:
            physics = given.get("--physics") or registry.DEFAULT
            value = value if equals else given[arg]
            joined = "," if ":" in physics else ":"
            raise InputError(
                f"{option} is a parameter of the physics now: "
                f"write --physics {physics}{joined}{name}={value or 'VALUE'}"
            )
