"""Images of a trial: a filmstrip, and a looping film."""

import copy
import io
import math

import numpy as np

from stickslip import render
from stickslip.mpc.task import GOAL, Problem, angle
from stickslip.mpc.trial.trial import Trial

STILLS = 8
"""Images in a filmstrip."""
FRAMES = 48
"""Frames of a film."""
SIZE = (400, 320)
"""Width and height of an image in pixels."""
LAST = 1000
"""Duration of the last frame of a film [ms]."""


def pictures(problem: Problem, trial: Trial, n: int = FRAMES) -> tuple[list[render.Picture], list[int]]:
    """At most n images of a trial, evenly spaced from start to end, and the control steps they show."""
    mjm = copy.copy(problem.mjm)
    goal = mjm.body(GOAL).id
    mjm.body_pos[goal], mjm.body_quat[goal] = trial.goal.pos, trial.goal.quat
    steps = sorted(set(np.linspace(0, len(trial.frames) - 1, n).round().astype(int).tolist()))
    width, height = SIZE
    return render.images(mjm, [trial.frames[step] for step in steps], width=width, height=height), steps


def strip(problem: Problem, trial: Trial, shown: list[render.Picture], steps: list[int]) -> bytes:
    """A filmstrip as a PNG file: images with time and errors, and both errors over time."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    chosen = sorted(set(np.linspace(0, len(shown) - 1, STILLS).round().astype(int).tolist()))
    columns = max(2, math.ceil(len(chosen) / 2))
    figure = Figure(figsize=(3.1 * columns, 8.2), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(3, columns, height_ratios=(1.0, 1.0, 0.75))
    period = problem.task.substeps * problem.mjm.opt.timestep
    errors = np.array([trial.goal.errors(qpos) for qpos in trial.frames])
    degrees = np.degrees([angle(rotation) for rotation in errors[:, 1]])
    for place, index in enumerate(chosen):
        ax = figure.add_subplot(grid[place // columns, place % columns])
        ax.imshow(shown[index].pixels, interpolation="none")
        ax.set_axis_off()
        step = steps[index]
        ax.set_title(f"{step * period:.2f} s: {1e3 * errors[step, 0]:.0f} mm, {degrees[step]:.0f}°", fontsize=10)
    time = period * np.arange(len(errors))
    ax = figure.add_subplot(grid[2, :])
    success = problem.task.success
    ax.plot(time, 1e3 * errors[:, 0], color="tab:blue", label="position")
    if math.isfinite(success.position):
        ax.axhline(1e3 * success.position, color="tab:blue", lw=0.8, ls=":")
    ax.set_xlabel("time [s]")
    ax.set_ylabel("position error [mm]", color="tab:blue")
    ax.set_ylim(bottom=0.0)
    other = ax.twinx()
    other.plot(time, degrees, color="tab:orange", label="rotation")
    other.axhline(math.degrees(angle(success.rotation)), color="tab:orange", lw=0.8, ls=":")
    other.set_ylabel("rotation error [°]", color="tab:orange")
    other.set_ylim(bottom=0.0)
    figure.suptitle(f"{problem.task.name}, {problem.object}, seed {trial.seed}: {trial.reason}")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def film(shown: list[render.Picture], seconds: float) -> bytes:
    """A looping film as a GIF file, as long as the trial but at least 3 s and at most 12 s."""
    from PIL import Image

    images = [Image.fromarray(picture.pixels).convert("P", palette=Image.Palette.ADAPTIVE) for picture in shown]
    each = int(1000.0 * min(12.0, max(3.0, seconds)) / len(images))
    buffer = io.BytesIO()
    durations = [each] * (len(images) - 1) + [LAST]
    images[0].save(buffer, format="GIF", save_all=True, append_images=images[1:], duration=durations, loop=0)
    return buffer.getvalue()
