"""A film of a policy, and the picture of a training."""

import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stickslip import files, films
from stickslip.envs.env import Env
from stickslip.learning.train import Evaluation, Point
from stickslip.render import Renderer

SIZE = (480, 360)
"""Width and height of a film [pixels]."""
MOST = 25.0
"""Frames per second, at most."""


class Filming:
    """Takes a picture of a world after each control step.

    Args:
        env: the environment
        world: the world
        seconds: of simulated time, at most
    """

    def __init__(self, env: Env, *, world: int = 0, seconds: float = 30.0) -> None:
        self._world = world
        self._every = max(1, round(1.0 / (MOST * env.dt)))
        self._left = round(seconds / env.dt)
        self.rate = 1.0 / (self._every * env.dt)
        width, height = SIZE
        self._renderer = Renderer(env.sim.mjm, camera=env.task.camera or "overview", width=width, height=height)
        self._count = 0
        self.pictures: list[NDArray[np.uint8]] = []
        self.note = ""

    def take(self, env: Env) -> None:
        """A picture of the present state, if one is due."""
        if self._left > 0 and self._count % self._every == 0:
            picture = self._renderer.draw(*env.poses(self._world))
            self.pictures.append(picture.pixels)
            self.note = picture.note
        self._count += 1
        self._left -= 1

    def save(self, path: Path) -> Path:
        """Write an MP4 where ffmpeg is installed, else a GIF; `path` is without a suffix."""
        self._renderer.close()
        kind = "mp4" if films.has_ffmpeg() else "gif"
        data = (films.mp4 if kind == "mp4" else films.gif)(self.pictures, self.rate)
        return files.write_bytes_atomic(path.with_suffix(f".{kind}"), data)


def draw_curve(points: list[Point], evaluations: list[Evaluation], title: str, score: str, threshold: float) -> bytes:
    """Score, return and standard deviation of actions over time and steps, as a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 3.4), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    minutes = [point.seconds / 60.0 for point in points]
    left, middle, right = figure.subplots(1, 3)
    told = [(m, p.score) for m, p in zip(minutes, points, strict=True) if p.score is not None]
    left.plot([m for m, _ in told], [s for _, s in told], color="tab:blue", alpha=0.5, label="training, with noise")
    judged = [found.seconds / 60.0 for found in evaluations], [found.score for found in evaluations]
    left.plot(*judged, color="tab:blue", marker="o", markersize=4, label="evaluation, without noise")
    left.legend(fontsize=8)
    left.axhline(threshold, color="0.5", linestyle="--", linewidth=1.0)
    left.set(title=f"{score} (dashed: learned)", xlabel="wall time [min]")
    if score == "success":
        left.set_ylim(-0.02, 1.02)
    returns = [(p.steps / 1e6, p.values["return"]) for p in points if "return" in p.values]
    middle.plot([s for s, _ in returns], [r for _, r in returns], color="tab:orange")
    middle.set(title="return", xlabel="control steps [million]")
    right.plot(minutes, [p.values["std"] for p in points], color="tab:green")
    right.set(title="standard deviation of actions", xlabel="wall time [min]")
    right.set_ylim(bottom=0.0)
    for ax in (left, middle, right):
        ax.grid(alpha=0.3)
    figure.suptitle(title)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()
