"""`stickslip points`: its options."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from stickslip.cli.status import FAILED, OK


@dataclass(frozen=True)
class Points:
    """Draw the points and normals with which scm samples the geoms of a scene, and report what is wrong with them.

    The exit status is 1 if the points of a geom are unusable; the picture is drawn anyway.
    """

    scene: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SCENE")]
    """A built-in scene (see `stickslip scenes`), an MJCF file, or menagerie:NAME."""
    points: int = 150
    """Approximate number of points per geom."""
    mesh_points: int = 500
    """Approximate number of points per mesh."""
    geom: tuple[str, ...] = ()
    """Geoms to draw, by name or number; default: those that can touch another."""
    out: Path = Path("out/points.png")
    """The picture: a file that ends in .png, .pdf or .svg."""

    def __call__(self, console: Console) -> int:
        from stickslip.cli import output

        output.quiet()
        from stickslip.cli import points

        usable = points.run(
            self.scene,
            points=self.points,
            mesh_points=self.mesh_points,
            geoms=self.geom,
            out=self.out,
            console=console,
        )
        return OK if usable else FAILED
