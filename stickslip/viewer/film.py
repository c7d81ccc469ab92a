"""What the page can be taken along as: a .viser recording, a film by the offscreen renderer, a screenshot."""

import threading
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip import render
from stickslip.errors import StickslipError
from stickslip.films import gif, mp4
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
