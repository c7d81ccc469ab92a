"""`stickslip replay`: steps an event again and prints what came of it."""

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

import stickslip as ss
from stickslip import spec
from stickslip.cli.output import COMPILING
from stickslip.simulation import watching


def run(path: Path, physics: str | None, device: str | None, console: Console) -> bool:
    """Print a table of the event as it was and as it came again; whether it did."""
    chosen = None if physics is None else spec.resolve(physics, ss.PHYSICS, "physics")
    console.print(COMPILING.format(device=device or "the device of the event"))
    told = watching.replay(path, device=device, physics=chosen)
    table = Table("", "event", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_row("stored", escape(str(told.event)))
    again = escape(str(told.found)) if told.found is not None else "did not come again"
    table.add_row(f"{told.physics} on {told.device}", again)
    for other in told.others:
        table.add_row("besides", escape(str(other)))
    console.print(table)
    steps = f"{told.steps} step{'s' if told.steps > 1 else ''}"
    if told.same:
        console.print(f"After {steps} it came again, with the same figure bit for bit.")
    elif told.found is not None:
        console.print(f"After {steps} it came again; its figure is {told.found.figure:g}, {told.event.figure:g} then.")
    else:
        console.print(f"After {steps} it did not come again.")
    for name, (then, now) in told.versions.items():
        console.print(f"[yellow]{escape(name)}[/] was {escape(then)} then, and is {escape(now)} now.")
    return told.found is not None
