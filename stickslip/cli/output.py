"""What several commands print, and the folder that they write to."""

import warnings
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from stickslip import files
from stickslip.errors import HealthWarning, InputError

COMPILING = "Compiling the kernels for {device}: a few minutes the first time, then cached."


def quiet() -> None:
    """Keep Warp from printing each module it loads; print warnings in one line, except of health, which is reported."""
    import warp as wp

    wp.config.log_level = wp.LOG_WARNING
    warnings.simplefilter("ignore", HealthWarning)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    warnings.showwarning = lambda message, *_args, **_options: console.print(
        f"[yellow]warning:[/] {escape(str(message))}"
    )


def make_folder(out: Path) -> None:
    """Make the folder for results before any work is done; raises InputError if it cannot be written to."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        files.write_bytes_atomic(out / ".stickslip-probe", b"").unlink()
    except OSError as error:
        raise InputError(f"--out {out}: cannot write to this folder ({error.strerror}); name another one") from None
