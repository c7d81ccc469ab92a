"""`stickslip replay`: its options."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from stickslip.cli.status import FAILED, OK


@dataclass(frozen=True)
class Replay:
    """Step an event again that `sim.watch(folder)` has written, and say whether it comes again.

    The exit status is 0 if it does, at the same step in the same body, and 1 if it does not.
    """

    event: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="EVENT")]
    """The file, such as cone-sweep-energy-world-3-step-120.npz."""
    physics: str | None = None
    """Another physics, as in `stickslip run`; default: that of the event."""
    device: str | None = None
    """Device, such as cpu or cuda:0; default: that of the event, or the CPU if it is not here."""

    def __call__(self, console: Console) -> int:
        from stickslip.cli import output

        output.quiet()
        from stickslip.cli import replay

        return OK if replay.run(self.event, self.physics, self.device, console) else FAILED
