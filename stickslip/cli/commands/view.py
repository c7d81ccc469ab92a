"""`stickslip view` and `stickslip gallery`: their options."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.markup import escape

from stickslip import spec
from stickslip.cli.status import OK
from stickslip.errors import InputError
from stickslip.physics import registry

_RECORDINGS = (".npz", ".zarr")


@dataclass(frozen=True)
class View:
    """Show a scene under one or more contact physics, or a recording, in the browser; Ctrl-C ends it.

    The page is on this machine only, unless --host says otherwise; there is no password.
    """

    scene: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SCENE")]
    """A built-in scene (see `stickslip scenes`), an MJCF file, menagerie:NAME, or a recording: a file .npz or .zarr."""
    physics: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME[:PARAMETER=VALUE,...] ...")] = (registry.DEFAULT,)
    """Contact physics; several stand side by side and start from one state."""
    nworld: int = 1
    """Number of worlds."""
    device: str | None = None
    """Device, such as cpu or cuda:0; default: the first GPU, or the CPU if there is none."""
    of: Annotated[str | None, tyro.conf.arg(name="scene", metavar="SCENE")] = None
    """Of a recording: its scene; default: as the summary.json beside it says."""
    paused: bool = False
    """Do not start the clock."""
    port: int | None = None
    """Port of the page; default: the first free one from 8080 on."""
    host: str = "127.0.0.1"
    """Address to listen on. Anybody who can reach another one can watch and control the simulation."""

    def __call__(self, console: Console) -> int:
        for name in self.physics:
            registry.find(spec.split(name)[0])
        if not self.physics:
            raise InputError("--physics names nothing; name at least one, or leave it out")
        if self.nworld < 1:
            raise InputError(f"nworld is {self.nworld}: it must be at least 1")
        recorded = self.scene.endswith(_RECORDINGS)
        if self.of is not None and not recorded:
            raise InputError(f"--scene {self.of} is for a recording, and {self.scene} is none")
        from stickslip import mjcf

        if not recorded:
            mjcf.check(self.scene)
        from stickslip.cli import output

        output.quiet()
        from stickslip.viewer import view

        viewer = view(
            self.scene,
            None if recorded else self.physics,
            scene=self.of,
            nworld=self.nworld,
            device=self.device,
            port=self.port,
            host=self.host,
            paused=self.paused,
            block=False,
        )
        note = "" if recorded else "\nKernels compile first: a few minutes the first time, then cached."
        viewer.wait(lambda text: console.print(escape(text) + note, soft_wrap=True))
        if viewer.works:  # it compiles, which nothing can interrupt
            sys.stdout.flush()
            os._exit(OK)
        return OK


@dataclass(frozen=True)
class Gallery:
    """Write a page with recorded clips of scenes under several physics, which can be turned with the mouse.

    The page is one file that needs no server.
    """

    scenes: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="SCENE ...")]
    """Scenes, as for `view`."""
    physics: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME[:PARAMETER=VALUE,...] ...")] = (
        "cone-sweep",
        "mujoco",
        "comfree",
    )
    """Contact physics; one that cannot run a scene is left out there, with the reason on the page."""
    seconds: float = 3.0
    """Length of a clip in simulated seconds."""
    device: str | None = None
    """Device, such as cpu or cuda:0; default: the first GPU, or the CPU if there is none."""
    out: Path = Path("out/gallery.html")
    """The page."""

    def __call__(self, console: Console) -> int:
        for name in self.physics:
            registry.find(spec.split(name)[0])
        if not self.scenes or not self.physics:
            raise InputError("name at least one scene and one physics")
        if not 0.0 < self.seconds <= 60.0:
            raise InputError(f"seconds is {self.seconds}: it must be above 0 and at most 60")
        from stickslip import mjcf

        for scene in self.scenes:
            mjcf.check(scene)
        from stickslip.cli import output

        output.quiet()
        from stickslip.viewer import gallery

        size = gallery.write(self.out, self.scenes, self.physics, self.seconds, self.device, console.print)
        console.print(f"Wrote {escape(str(self.out))}, {size / 1e6:.1f} MB", soft_wrap=True)
        return OK
