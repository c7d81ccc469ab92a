"""`stickslip decompose`: its options."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from stickslip.cli.status import OK


@dataclass(frozen=True)
class Decompose:
    """Write a model in which convex pieces touch in the place of meshes that are not convex."""

    scene: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SCENE")]
    """A built-in scene (see `stickslip scenes`), an MJCF or URDF file, or menagerie:NAME."""
    geom: tuple[str, ...] = ()
    """Mesh geoms, by name or number; default: those that can touch another and are not convex."""
    threshold: float = 0.05
    """Largest concavity of a piece, from 0.01 (many pieces, close to the mesh) to 1."""
    vertices: int = 32
    """Most vertices of a piece."""
    seed: int = 0
    """Seed of the search for cuts."""
    out: Path = Path("out/decomposed.xml")
    """The model: an MJCF file that contains the pieces. Other files stay where they are."""

    def __call__(self, console: Console) -> int:
        from stickslip.cli import output

        output.quiet()
        from stickslip.cli import decompose

        decompose.run(
            self.scene,
            geoms=self.geom,
            threshold=self.threshold,
            vertices=self.vertices,
            seed=self.seed,
            out=self.out,
            console=console,
        )
        return OK
