"""`stickslip points`: draw the points with which `scm` samples the geoms of a scene, and report problems."""

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

import stickslip as ss
from stickslip import files
from stickslip.cli.output import make_folder
from stickslip.errors import InputError

FORMATS = (".png", ".pdf", ".svg")


def run(scene: str, *, points: int, mesh_points: int, geoms: Sequence[str], out: Path, console: Console) -> bool:
    """Print a table of the point clouds and write the picture; True if none has a problem or a warning.

    Args:
        scene: what `stickslip.load` takes
        points: approximate number per geom
        mesh_points: approximate number per mesh
        geoms: geoms to draw, by name or number; empty: those that can touch another
        out: the picture
        console: where to print
    """
    physics = ss.Scm(points=points, mesh_points=mesh_points)
    if out.suffix.lower() not in FORMATS or out.is_dir():
        raise InputError(f"--out {out}: give a file that ends in {', '.join(FORMATS)}")
    mjm = ss.load(scene)
    make_folder(out.parent)
    with console.status("making points"):
        survey = physics.survey(mjm, list(geoms) or None)
        if not any(shape.cloud is not None and not shape.cloud.open for shape in survey.shapes):
            names = ", ".join(shape.label for shape in survey.shapes)
            raise InputError(
                f"geom {names}: nothing to draw; planes are exact, and shapes without a surface are ignored; "
                "name a geom with a surface with --geom"
            )
        name = Path(scene).name if scene.lower().endswith((".xml", ".mjb", ".urdf")) else scene
        figure = survey.draw(f"{name}: points and normals of scm")
        buffer = io.BytesIO()
        figure.savefig(buffer, format=out.suffix.lower().removeprefix("."))
    files.write_bytes_atomic(out, buffer.getvalue())
    console.print(_table(survey.shapes))
    for problem in [*survey.problems, *survey.warnings]:
        console.print(f"[yellow]warning:[/] {escape(problem)}", soft_wrap=True)
    if any(shape.kind == "mesh" for shape in survey.shapes if shape.problems):
        console.print("Close such a mesh and orient its faces consistently, or use a primitive for its collisions.")
    console.print(f"Picture: [bold]{escape(str(out))}[/]", soft_wrap=True)
    return not survey.problems and not survey.warnings


def _table(shapes: Sequence[Any]) -> Table:
    table = Table("geom", "shape", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("geoms", "points", "spacing, mm", "area, cm²", "volume, cm³"):
        table.add_column(heading, justify="right")
    table.add_column("found")
    for shape in shapes:
        report = shape.report
        if report is None or shape.cloud.open:
            cells = ("1" if report else "", "", "", "")
        else:
            sizes = (1e3 * report.spacing, 1e4 * report.area, 1e6 * report.volume)
            cells = (str(report.points), *(f"{x:.3g}" if abs(x) < 1000 else f"{x:,.0f}" for x in sizes))
        table.add_row(f"[bold]{escape(shape.name)}[/]", shape.kind, str(len(shape.geoms)), *cells, _found(shape))
    return table


def _found(shape: Any) -> str:
    if shape.problems:
        return f"[yellow]{escape('; '.join(_brief(shape)))}[/]"
    if shape.cloud.open:
        return "exact"
    if shape.warnings:
        return "[yellow]walls thinner than the spacing[/]"
    if len(shape.loose):
        return f"closed except for {len(shape.loose)} edges of the mesh"
    return "closed"


def _brief(shape: Any) -> list[str]:
    """Problems in a few words; sentences follow below the table."""
    report = shape.report
    if report is None or report.points == 0:
        return ["no points"]
    if not math.isfinite(report.area * report.volume):
        return ["not finite"]
    found = []
    if report.is_open:
        found.append(f"open, {len(shape.loose)} edges" if len(shape.loose) else "open")
    if report.flipped == report.points:
        found.append("inside out")
    elif report.flipped:
        found.append(f"{report.flipped} normals flipped")
    return found or ["no volume"]
