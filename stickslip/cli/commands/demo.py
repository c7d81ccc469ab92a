"""`stickslip demo`: its options."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from stickslip.cli.status import OK


@dataclass(frozen=True)
class Demo:
    """Drop a pile of 125 primitives with MuJoCo's contact, with ComFree and with the cone sweep, and compare."""

    scene: str = "drop-test"
    """Scene to drop."""
    steps: int = 1000
    """Number of steps."""
    device: str | None = None
    """Device, such as cpu or cuda:0; default: the first GPU, or the CPU if there is none."""
    out: Path = Path("out")
    """Folder for demo.png and demo.json."""

    def __call__(self, console: Console) -> int:
        from stickslip.cli import output

        output.quiet()
        from stickslip.cli import demo

        demo.run(scene=self.scene, steps=self.steps, device=self.device, out=self.out, console=console)
        return OK
