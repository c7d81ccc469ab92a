"""Images of a trial: a filmstrip with errors and costs, and a looping film."""

import copy
import io
import math

import mujoco
import numpy as np

from stickslip import mjcf, npz, render
from stickslip.mpc.success import Array
from stickslip.mpc.task import DEFAULT, GOAL, Problem
from stickslip.mpc.trial.plant import shown_goal
from stickslip.mpc.trial.trial import Trial

STILLS = 8
"""Images in a filmstrip."""
FRAMES = 48
"""Frames of a film."""
SIZE = (400, 320)
"""Width and height of an image in pixels."""
LAST = 1000
"""Duration of the last frame of a film [ms]."""
COLOURS = ("tab:blue", "tab:orange", "tab:green")
"""Of the errors; further ones are not drawn."""


def pictures(problem: Problem, trial: Trial, n: int = FRAMES) -> tuple[list[render.Picture], list[int]]:
    """At most n images of a trial, evenly spaced from start to end, and the control steps they show."""
    mjm = _with_goal(problem, trial)
    steps = sorted(set(np.linspace(0, len(trial.frames) - 1, n).round().astype(int).tolist()))
    width, height = SIZE
    return render.images(mjm, [trial.frames[step] for step in steps], width=width, height=height), steps


def recording(problem: Problem, trial: Trial) -> bytes:
    """A trial with its model for `stickslip view`: an .npz file with time (steps + 1,) and qpos (steps + 1, nq)."""
    model = np.frombuffer(mjcf.to_bytes(_with_goal(problem, trial)), dtype=np.uint8)
    time = problem.period * np.arange(len(trial.frames))
    return npz.packed({"time": time, "qpos": trial.frames, "model": model})


def _with_goal(problem: Problem, trial: Trial) -> mujoco.MjModel:
    """The model, with the goal where it is shown."""
    mjm = copy.copy(problem.mjm)
    pose = problem.task.goal_pose(trial.goal)
    if shown_goal(mjm) >= 0 and pose is not None:
        goal = mjm.body(GOAL).id
        mjm.body_pos[goal], mjm.body_quat[goal] = pose
    return mjm


def shown_errors(problem: Problem, trial: Trial) -> Array:
    """Errors at the start and after each control step, in the units in which they are shown, (steps + 1, k)."""
    measures = problem.task.success.measures
    start = problem.task.errors(problem.mjm, trial.frames[0], np.zeros(problem.mjm.nv), trial.goal)
    errors = np.vstack([start, trial.history.reshape(-1, len(measures))])
    return np.array([[measure.shown(float(x)) for measure, x in zip(measures, row, strict=True)] for row in errors])


def strip(problem: Problem, trial: Trial, shown: list[render.Picture], steps: list[int]) -> bytes:
    """A filmstrip as a PNG file: images with time and errors, the errors over time, and the terms of the cost."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    chosen = sorted(set(np.linspace(0, len(shown) - 1, STILLS).round().astype(int).tolist()))
    columns = max(2, math.ceil(len(chosen) / 2))
    heights = (1.0, 1.0, 0.75, 0.75) if trial.terms else (1.0, 1.0, 0.75)
    figure = Figure(figsize=(3.1 * columns, 8.2 + 2.4 * bool(trial.terms)), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(len(heights), columns, height_ratios=heights)
    measures, errors = problem.task.success.measures, shown_errors(problem, trial)
    for place, index in enumerate(chosen):
        ax = figure.add_subplot(grid[place // columns, place % columns])
        ax.imshow(shown[index].pixels, interpolation="none")
        ax.set_axis_off()
        step = steps[index]
        words = [f"{error:.3g} {measure.unit}".strip() for measure, error in zip(measures, errors[step], strict=True)]
        ax.set_title(f"{step * problem.period:.2f} s: {', '.join(words)}", fontsize=10)
    time = problem.period * np.arange(len(errors))
    first = figure.add_subplot(grid[2, :])
    first.set_xlabel("time [s]")
    for i, (measure, colour) in enumerate(zip(measures, COLOURS, strict=False)):
        ax = first if i == 0 else first.twinx()
        if i > 1:
            ax.spines["right"].set_position(("outward", 45.0 * (i - 1)))
        ax.plot(time, errors[:, i], color=colour)
        if math.isfinite(measure.limit):
            ax.axhline(measure.shown(measure.limit), color=colour, lw=0.8, ls=":")
        unit = f" [{measure.unit}]" if measure.unit else ""
        ax.set_ylabel(f"{measure.name} error{unit}", color=colour)
        ax.set_ylim(bottom=min(0.0, float(np.nanmin(errors[:, i]))))
    if trial.terms:
        ax = figure.add_subplot(grid[3, :])
        used = {name: np.nan_to_num(values) for name, values in trial.terms.items() if np.nanmax(np.abs(values)) > 0.0}
        at = problem.period * np.arange(len(next(iter(trial.terms.values()))))
        if used:
            ax.stackplot(at, *used.values(), labels=used.keys(), alpha=0.8)
            ax.legend(loc="upper right", fontsize=8)
        ax.set_xlabel("time [s]")
        ax.set_ylabel("cost of the state")
    what = problem.task.name if problem.object == DEFAULT else f"{problem.task.name}, {problem.object}"
    figure.suptitle(f"{what}, seed {trial.seed}: {trial.reason}")
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
