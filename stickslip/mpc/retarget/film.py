"""Images of a retargeted motion over the ghost of its reference: a filmstrip with errors, and a looping film."""

import io
import shutil
import subprocess

import mujoco
import numpy as np

from stickslip import render
from stickslip.errors import StickslipError
from stickslip.mpc.retarget import score
from stickslip.mpc.retarget.problem import Problem
from stickslip.mpc.retarget.rollout import Retargeted

STILLS = 8
"""Images in a filmstrip."""
FRAMES = 60
"""Frames of a film, at most."""
SIZE = (400, 400)
"""Width and height of an image in pixels."""
GHOST = (0.35, 0.75, 0.40, 0.30)
"""Colour of the reference."""
_CAMERA = "follow"
_PREFIX = "ghost-"


def model(problem: Problem) -> mujoco.MjModel:
    """The robot and the ghost of the reference, whose positions come last; a camera follows the robot."""
    spec, ghost = (problem.robot.build(problem.options) for _ in range(2))
    moving = [body for body in ghost.bodies if body.name != "world"]
    own = {geom.name for body in moving for geom in body.geoms if geom.name}
    for element in (
        *ghost.cameras,
        *ghost.lights,
        *ghost.actuators,
        *ghost.sensors,
        *ghost.keys,
        *ghost.pairs,
        *ghost.excludes,
    ):
        ghost.delete(element)
    for geom in list(ghost.worldbody.geoms):
        if geom.name not in own:
            ghost.delete(geom)
    for body in moving:
        for geom in body.geoms:
            geom.contype, geom.conaffinity, geom.material, geom.rgba = 0, 0, "", GHOST
        for site in body.sites:
            site.rgba = (0.0, 0.0, 0.0, 0.0)
    for key in list(spec.keys):
        spec.delete(key)
    _follow(spec, problem)
    spec.attach(ghost, prefix=_PREFIX, frame=spec.worldbody.add_frame())
    return spec.compile()


def _follow(spec: mujoco.MjSpec, problem: Problem) -> None:
    """Add a camera that looks at a base that moves, from far enough to see all of its way."""
    joint = problem.free_joints().get("base")
    if joint is None:
        return
    adr = int(problem.mjm.jnt_qposadr[joint])
    way = problem.reference.qpos[:, adr : adr + 3]
    middle = 0.5 * (way.min(axis=0) + way.max(axis=0))
    far = 2.3 + 0.6 * float(np.linalg.norm(np.ptp(way[:, :2], axis=0)))
    spec.worldbody.add_camera(
        name=_CAMERA,
        mode=mujoco.mjtCamLight.mjCAMLIGHT_TARGETBODY,
        targetbody=problem.mjm.body(int(problem.mjm.jnt_bodyid[joint])).name,
        pos=middle + far * np.array([0.66, -0.7, 0.25]),
    )


def pictures(ran: Retargeted, n: int = FRAMES) -> tuple[list[render.Picture], list[int]]:
    """At most n images, evenly spaced from start to end, and the time steps they show."""
    steps = sorted(set(np.linspace(0, len(ran.qpos) - 1, n).round().astype(int).tolist()))
    states = [np.concatenate([ran.qpos[step], ran.problem.reference.qpos[step]]) for step in steps]
    width, height = SIZE
    camera = _CAMERA if "base" in ran.problem.free_joints() else "overview"
    return render.images(model(ran.problem), states, camera=camera, width=width, height=height), steps


def strip(ran: Retargeted, shown: list[render.Picture], steps: list[int]) -> bytes:
    """A filmstrip as a PNG file: images with their times, and below them the errors and the contacts over time."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    problem, errors = ran.problem, score.series(ran)
    chosen = sorted(set(np.linspace(0, len(shown) - 1, STILLS).round().astype(int).tolist()))
    columns = max(2, -(-len(chosen) // 2))
    touching = problem.reference.contact
    heights = (1.0, 1.0, 0.7, 0.3) if touching.size else (1.0, 1.0, 0.7)
    figure = Figure(figsize=(3.1 * columns, 3.3 * sum(heights)), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(len(heights), columns, height_ratios=heights)
    for place, index in enumerate(chosen):
        ax = figure.add_subplot(grid[place // columns, place % columns])
        ax.imshow(shown[index].pixels, interpolation="none")
        ax.set_axis_off()
        ax.set_title(f"{steps[index] * problem.dt:.2f} s", fontsize=10)
    left = figure.add_subplot(grid[2, :])
    right = left.twinx()
    for number, (name, values) in enumerate(errors.items()):
        ax, style = (left, "-") if name.endswith("_pos") else (right, "--")
        ax.plot(ran.time[1:], values, style, color=f"C{number}", label=name.replace("_", " "))
    left.set_ylabel("position error [m]")
    right.set_ylabel("angle error [rad] (dashed)")
    left.set_xlim(0.0, problem.steps * problem.dt)
    lines = [*left.get_lines(), *right.get_lines()]
    left.legend(lines, [str(line.get_label()) for line in lines], loc="upper left", fontsize=8)
    last = left
    if touching.size:
        last = figure.add_subplot(grid[3, :], sharex=left)
        last.imshow(
            touching.T, aspect="auto", cmap="Greys", vmin=0.0, vmax=1.6, interpolation="none",
            extent=(0.0, problem.steps * problem.dt, len(touching.T) - 0.5, -0.5),
        )  # fmt: skip
        last.set_yticks(
            range(len(problem.sites)), [problem.mjm.site(int(site)).name for site in problem.sites], fontsize=8
        )
        last.set_title("contacts of the reference", fontsize=9)
    last.set_xlabel("time [s]")
    figure.suptitle(f"{problem.motion.name} on {problem.robot.name}, seed {ran.seed}: {ran.reason}")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def gif(ran: Retargeted, shown: list[render.Picture]) -> bytes:
    """A looping film as a GIF file, as long as the motion."""
    from PIL import Image

    images = [Image.fromarray(picture.pixels).convert("P", palette=Image.Palette.ADAPTIVE) for picture in shown]
    each = max(20, round(1000.0 * float(ran.time[-1]) / len(images)))
    buffer = io.BytesIO()
    images[0].save(buffer, format="GIF", save_all=True, append_images=images[1:], duration=each, loop=0)
    return buffer.getvalue()


def mp4(ran: Retargeted, shown: list[render.Picture]) -> bytes | None:
    """The film as an MP4 file, made by ffmpeg; None if there is no ffmpeg."""
    program = shutil.which("ffmpeg")
    if program is None:
        return None
    rate = max(1.0, (len(shown) - 1) / max(float(ran.time[-1]), 1e-3))
    height, width, _ = shown[0].pixels.shape
    command = [program, "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}"]
    command += ["-r", f"{rate:g}", "-i", "-", "-pix_fmt", "yuv420p", "-movflags", "frag_keyframe+empty_moov"]
    data = b"".join(picture.pixels.tobytes() for picture in shown)
    done = subprocess.run([*command, "-f", "mp4", "-"], input=data, capture_output=True, timeout=120)
    if done.returncode:
        raise StickslipError(
            f"ffmpeg made no film: {done.stderr.decode(errors='replace').strip()[-300:]}; take a gif instead"
        )
    return done.stdout
