"""`stickslip decompose`: convex pieces in the place of meshes that are not convex, as an MJCF file."""

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from rich.console import Console
from rich.markup import escape
from rich.table import Table

import stickslip as ss
from stickslip import decomposition, files, model_files
from stickslip.cli.output import make_folder
from stickslip.errors import InputError, SceneError


def run(
    scene: str, *, geoms: Sequence[str], threshold: float, vertices: int, seed: int, out: Path, console: Console
) -> None:
    """Print a table of what became of the geoms, and write the model.

    Args:
        scene: what `stickslip.load` takes
        geoms: mesh geoms, by name or number; empty: those that can touch another and are not convex
        threshold, vertices, seed: as for `stickslip.decompose`
        out: the MJCF file
        console: where to print
    """
    if out.suffix.lower() != ".xml" or out.is_dir():
        raise InputError(f"--out {out}: give a file that ends in .xml")
    if out.exists() and Path(scene).exists() and out.samefile(scene):
        raise InputError(f"--out {out}: this is the model that is read; name another file")
    make_folder(out.parent)
    with console.status("decomposing"):
        spec, told = decomposition.run(scene, list(geoms) or None, threshold=threshold, vertices=vertices, seed=seed)
    text, folders = _text_for(spec, out.parent)
    files.write_bytes_atomic(out, text.encode())
    ss.load(out, allow=folders)
    console.print(_table(told) if told else "Every mesh that can touch another geom is convex.")
    console.print(f"Model: [bold]{escape(str(out))}[/]", soft_wrap=True)
    try:
        model_files.check(out)
    except SceneError as error:
        console.print(
            f"[yellow]note:[/] {escape(str(error))}. Or write it into the folder of its files.", soft_wrap=True
        )


def _text_for(spec: Any, folder: Path) -> tuple[str, set[Path]]:
    """A model as MJCF text that finds its files from another folder, and the folders of these."""
    folders: set[Path] = set()
    root = ElementTree.fromstring(spec.to_xml())
    here = Path(spec.modelfiledir or ".")
    for kind, directory in (("mesh", "meshdir"), ("hfield", "meshdir"), ("skin", "meshdir"), ("texture", "texturedir")):
        owners = {each.name: each for each in getattr(spec, f"{kind}es" if kind == "mesh" else f"{kind}s")}
        for element in root.iter(kind):
            for name in [name for name in element.attrib if name.startswith("file")]:
                owner = owners.get(element.get("name", Path(element.attrib[name]).stem))
                compiler = owner.compiler if owner is not None else spec.compiler
                found = here / getattr(compiler, directory) / element.attrib[name]
                if not found.is_file():
                    raise InputError(
                        f"no file at {str(found)!r}: files of a model that is attached from another folder cannot be "
                        "referred to; copy it there, or use stickslip.decompose in Python"
                    )
                folders.add(found.parent)
                element.set(name, Path(os.path.relpath(found, folder)).as_posix())
    for compiler in root.iter("compiler"):
        for name in ("meshdir", "texturedir", "assetdir"):
            compiler.attrib.pop(name, None)
    return ElementTree.tostring(root, encoding="unicode") + "\n", folders


def _table(told: Sequence[decomposition.Pieces]) -> Table:
    table = Table("geom", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("pieces", "volume, cm³", "hull, %", "pieces, %"):
        table.add_column(heading, justify="right")
    for one in told:
        known = not math.isnan(one.volume)
        more = [f"{100.0 * (v / one.volume - 1.0):+.1f}" if known else "" for v in (one.hull, one.pieces)]
        size = f"{1e6 * one.volume:.4g}" if known else "not closed"
        table.add_row(f"[bold]{escape(one.geom)}[/]", str(one.count), size, *more)
    return table
