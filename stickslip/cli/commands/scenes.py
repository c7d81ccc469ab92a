"""`stickslip scenes` and `stickslip physics`: lists of what there is."""

from dataclasses import dataclass
from typing import Annotated

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stickslip.cli.status import OK
from stickslip.physics import registry


@dataclass(frozen=True)
class Scenes:
    """List the built-in scenes and their parameters."""

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
class Physics:
    """List the contact physics, or describe one with its parameters."""

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")] = ""
    """A physics; default: list them all."""

    def __call__(self, console: Console) -> int:
        if self.name:
            return self._describe(console)
        table = Table("physics", "what it does", box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for entry in registry.entries().values():
            extra = f"; needs 'stickslip[{entry.extra}]'" if entry.extra else ""
            table.add_row(f"[bold]{entry.name}[/]", escape(entry.summary + extra))
        console.print(table)
        console.print("\n[bold]stickslip physics NAME[/] prints what it is good and weak at, and its parameters.")
        return OK

    def _describe(self, console: Console) -> int:
        from stickslip import parameters

        entry = registry.find(self.name)
        console.print(f"[bold]{entry.name}[/]: {escape(entry.summary)}")
        console.print(f"Good at: {escape(entry.good_at)}")
        console.print(f"Weak at: {escape(entry.weak_at)}\n")
        table = Table("parameter", "default", "value", "meaning", box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for name, *cells in parameters.rows(registry.PHYSICS[entry.name]):
            table.add_row(f"[bold]{name}[/]", *(escape(cell) for cell in cells))
        console.print(table)
        console.print(f"\nWrite them as in [bold]--physics {entry.name}:PARAMETER=VALUE,...[/].")
        return OK
