"""What `stickslip run` keeps of a run: a bounded trajectory, and pictures."""

import io
from typing import Any

import numpy as np

import stickslip as ss
from stickslip import npz

MAX_FRAMES = 500
"""Most frames of a trajectory, besides the first; a longer run keeps every k-th step."""
MAX_WORLDS = 16
"""Most worlds of a trajectory: the first ones."""
TRACED_WORLDS = 4
"""Worlds in the plot of step sizes."""


class Trajectory:
    """The recorded states of the first worlds."""

    def __init__(self) -> None:
        self.frames: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def add(self, state: ss.State) -> None:
        """Keep a state."""
        first = slice(MAX_WORLDS)
        self.frames.append((state.time[first].copy(), state.qpos[first].copy(), state.qvel[first].copy()))

    def npz(self) -> bytes:
        """time (frames, worlds), qpos (frames, worlds, nq) and qvel (frames, worlds, nv) as an .npz file."""
        time, qpos, qvel = (np.stack(x) for x in zip(*self.frames, strict=True))
        return npz.packed({"time": time, "qpos": qpos, "qvel": qvel})


def png(pixels: np.ndarray) -> bytes:
    """`pixels` (height, width, 3) uint8 as a PNG file."""
    from matplotlib import image

    buffer = io.BytesIO()
    image.imsave(buffer, np.ascontiguousarray(pixels), format="png")
    return buffer.getvalue()


def steps_png(stats: ss.Stats, scene: str, physics: Any) -> bytes:
    """Step sizes of the first worlds over time, as a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 4.0), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    ax = figure.subplots()
    for world, (ends, dt) in enumerate(stats.trace[:TRACED_WORLDS]):
        ax.step(ends, 1e3 * dt, where="pre", lw=0.9, label=f"world {world}")
    ax.set_yscale("log")
    ax.set_xlabel("time [s]")
    ax.set_ylabel("step size [ms]")
    ax.set_title(f"{scene}: step sizes of {physics.name}, accuracy {physics.accuracy:g}")
    ax.grid(True, alpha=0.3)
    if len(stats.trace) > 1:
        ax.legend(loc="upper right", fontsize=8)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()
