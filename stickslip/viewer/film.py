"""What the page can be taken along as: a .viser recording, a film by the offscreen renderer, a screenshot."""

import io
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip import render
from stickslip.errors import StickslipError
from stickslip.viewer.session import FPS, Frame

MOST = 1800
"""Frames of a recording; it ends by itself after a minute."""
MOST_PICTURES = 240
"""Frames of a film."""


class Recorder:
    """Records what the page shows, frame by frame. The drawing thread adds frames, clients begin and end."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._serializer: Any = None
        self._frames: list[list[NDArray[np.floating]]] = []
        self._world = 0
        self.clip = b""
        """The last recording as a .viser file."""

    @property
    def is_on(self) -> bool:
        return self._serializer is not None

    @property
    def seconds(self) -> float:
        """Length of the recording."""
        return len(self._frames) / FPS

    def begin(self, world: int) -> None:
        """Start over."""
        with self._lock:
            if self._serializer is None:
                self._frames, self._world = [], world
                self._serializer = self._server.get_scene_serializer()

    def add(self, frame: Frame) -> None:
        """After a frame was drawn."""
        with self._lock:
            if self._serializer is None:
                return
            self._serializer.insert_sleep(1.0 / FPS)
            self._frames.append([shot.qpos[min(self._world, len(shot.qpos) - 1)].copy() for shot in frame.shots])
            full = len(self._frames) >= MOST
        if full:
            self.end()

    def end(self) -> bytes:
        """Stop, and return the recording as a .viser file."""
        with self._lock:
            if self._serializer is not None:
                self.clip = self._serializer.serialize()
                self._serializer = None
            return self.clip

    def film(self, mjm: mujoco.MjModel, kind: str) -> tuple[bytes, str]:
        """The last recording as "gif" or "mp4", lanes side by side, and a note if it was not rendered but outlined."""
        with self._lock:
            frames = list(self._frames)
        if not frames:
            raise StickslipError("nothing is recorded yet: press record first")
        stride = -(-len(frames) // MOST_PICTURES)
        frames = frames[::stride]
        lanes = len(frames[0])
        states = [state for frame in frames if len(frame) == lanes for state in frame]
        pictures = render.images(mjm, states, width=480, height=360)
        rows = [
            np.concatenate([picture.pixels for picture in pictures[i : i + lanes]], axis=1)
            for i in range(0, len(pictures), lanes)
        ]
        rate = FPS / stride
        return (gif if kind == "gif" else mp4)(rows, rate), pictures[0].note


def gif(pictures: list[NDArray[np.uint8]], rate: float) -> bytes:
    """Pictures (height, width, 3) as a looping GIF file, `rate` a second."""
    from PIL import Image

    images = [Image.fromarray(each).convert("P", palette=Image.Palette.ADAPTIVE) for each in pictures]
    buffer = io.BytesIO()
    images[0].save(
        buffer, format="GIF", save_all=True, append_images=images[1:], duration=max(20, round(1e3 / rate)), loop=0
    )
    return buffer.getvalue()


def mp4(pictures: list[NDArray[np.uint8]], rate: float) -> bytes:
    """Pictures (height, width, 3) as an MP4 file, made by ffmpeg."""
    program = shutil.which("ffmpeg")
    if program is None:
        raise StickslipError("an mp4 needs the program ffmpeg, which is not installed; take a gif instead")
    height, width, _ = pictures[0].shape
    with tempfile.TemporaryDirectory(prefix="stickslip-film-") as folder:
        out = Path(folder, "film.mp4")
        command = [program, "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}"]
        command += ["-r", f"{rate:g}", "-i", "-", "-pix_fmt", "yuv420p", str(out)]
        data = b"".join(each.tobytes() for each in pictures)
        done = subprocess.run(command, input=data, capture_output=True, timeout=300)
        if done.returncode:
            raise StickslipError(f"ffmpeg made no film: {done.stderr.decode(errors='replace').strip()[-300:]}")
        return out.read_bytes()


def png(pixels: NDArray[np.uint8]) -> bytes:
    """A picture (height, width, 3 or 4) as a PNG file."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")
    return buffer.getvalue()
