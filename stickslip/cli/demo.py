"""`stickslip demo`: drop a pile with three contact physics, side by side.

Only stepping is timed; contacts are read every `SAMPLE_EVERY` steps in between.
"""

import io
from dataclasses import asdict, dataclass
from pathlib import Path

import mujoco
import numpy as np
import warp as wp
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, TaskID
from rich.table import Table

import stickslip as ss
from stickslip import files, render
from stickslip.cli.output import COMPILING, make_folder
from stickslip.cli.run import timed_steps
from stickslip.errors import InputError
from stickslip.progress import progress_bar
from stickslip.provenance import versions

LABELS = {"mujoco": "MuJoCo", "comfree": "ComFree", "cone-sweep": "Cone sweep"}
SAMPLE_EVERY = 10
NWORLD_CPU, NWORLD_CUDA = 1, 64


@dataclass(frozen=True)
class Result:
    """Results of one physics. Penetration is over all touching contacts of all sampled steps."""

    physics: str
    steps_per_second: float  # all worlds together
    contacts: float  # per world, at the end
    penetration_mean_m: float
    penetration_std_m: float
    penetration_max_m: float
    kinetic_energy_J: float  # per world, at the end
    health: list[str]  # messages about what went wrong


def run(*, scene: str, steps: int, device: str | None, out: Path, console: Console) -> Path:
    """Drop the pile, print the comparison, write out/demo.png and out/demo.json; returns the path of the picture."""
    if steps < 1:
        raise InputError(f"steps is {steps}: it must be at least 1")
    make_folder(out)
    wp.init()
    device = device or ("cuda:0" if wp.is_cuda_available() else "cpu")
    nworld = NWORLD_CUDA if device.startswith("cuda") else NWORLD_CPU
    sims = {name: ss.Simulation(scene, ss.PHYSICS[name](), nworld=nworld, device=device) for name in LABELS}
    worlds = f"{nworld} world{'s' if nworld > 1 else ''}"
    console.print(f"Dropping [bold]{escape(scene)}[/] on {device}: {worlds}, {steps} steps with each physics.")
    console.print(COMPILING.format(device=device))

    results = []
    with progress_bar(console) as progress:
        task = progress.add_task("compiling", total=None)
        for name, sim in sims.items():
            progress.update(task, description=f"compiling {LABELS[name]}")
            sim.compile()
        for name, sim in sims.items():
            progress.reset(task, total=steps, description=f"stepping {LABELS[name]}")
            results.append(_drop(name, sim, steps, progress, task))
        progress.reset(task, total=None, description="drawing")
        mjm = next(iter(sims.values())).mjm
        pictures = render.images(mjm, [sim.state.qpos[0] for sim in sims.values()])

    console.print(_table(results))
    for result in results:
        for message in result.health:
            console.print(f"[yellow]warning:[/] {LABELS[result.physics]}: {escape(message)}", soft_wrap=True)
    png = files.write_bytes_atomic(out / "demo.png", _side_by_side(results, pictures))
    settings = {"scene": scene, "steps": steps, "nworld": nworld, "device": device, "sample_every": SAMPLE_EVERY}
    report = {"settings": settings, "versions": versions(), "results": [asdict(result) for result in results]}
    files.write_json(out / "demo.json", report)
    if pictures[0].note:
        console.print(escape(pictures[0].note), soft_wrap=True)
    console.print(f"Picture: [bold]{escape(str(png))}[/]; results: {escape(str(out / 'demo.json'))}")
    return png


def _drop(name: str, sim: ss.Simulation, steps: int, progress: Progress, task: TaskID) -> Result:
    """Step `sim` and measure."""
    seconds, depths = 0.0, []
    for start in range(0, steps, SAMPLE_EVERY):
        n = min(SAMPLE_EVERY, steps - start)
        seconds += timed_steps(sim, n)
        dist = sim.contacts().dist
        depths.append(-dist[dist < 0.0])
        progress.advance(task, n)
    depth = np.concatenate(depths)
    depth = depth if depth.size else np.zeros(1)
    return Result(
        physics=name,
        steps_per_second=steps * sim.nworld / seconds,
        contacts=len(sim.contacts()) / sim.nworld,
        penetration_mean_m=float(depth.mean()),
        penetration_std_m=float(depth.std()),
        penetration_max_m=float(depth.max()),
        kinetic_energy_J=kinetic_energy(sim.mjm, sim.state),
        health=sim.health().messages,
    )


def kinetic_energy(mjm: mujoco.MjModel, state: ss.State) -> float:
    """Kinetic energy v' M(q) v / 2 in J, the mean over the worlds."""
    mjd, momentum, total = mujoco.MjData(mjm), np.zeros(mjm.nv), 0.0
    for qpos, qvel in zip(state.qpos, state.qvel, strict=True):
        mjd.qpos[:] = qpos
        mujoco.mj_kinematics(mjm, mjd)
        mujoco.mj_comPos(mjm, mjd)
        mujoco.mj_makeM(mjm, mjd)
        velocity = qvel.astype(np.float64)
        mujoco.mj_mulM(mjm, mjd, momentum, velocity)
        total += 0.5 * float(velocity @ momentum)
    return total / len(state.qpos)


def _table(results: list[Result]) -> Table:
    table = Table("physics", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("steps/s", "contacts", "penetration, mm", "max, mm", "kinetic energy left, mJ"):
        table.add_column(heading, justify="right")
    for r in results:
        table.add_row(
            f"[bold]{LABELS[r.physics]}[/]",
            f"{r.steps_per_second:,.0f}",
            f"{r.contacts:.0f}",
            f"{1e3 * r.penetration_mean_m:.2f} ± {1e3 * r.penetration_std_m:.2f}",
            f"{1e3 * r.penetration_max_m:.2f}",
            f"{1e3 * r.kinetic_energy_J:.3g}",
        )
    return table


def _side_by_side(results: list[Result], pictures: list[render.Picture]) -> bytes:
    """One PNG of the final scenes, each under the name and results of its physics."""
    height, width, _ = pictures[0].pixels.shape
    figure = Figure(figsize=(len(pictures) * width / 100, 1.12 * height / 100), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(pictures), squeeze=False)[0]
    for ax, result, picture in zip(axes, results, pictures, strict=True):
        ax.imshow(picture.pixels, interpolation="none")
        ax.set_axis_off()
        penetration = f"{1e3 * result.penetration_mean_m:.2f} ± {1e3 * result.penetration_std_m:.2f} mm penetration"
        ax.set_title(f"{LABELS[result.physics]}: {result.steps_per_second:,.0f} steps/s, {penetration}", fontsize=16)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()
