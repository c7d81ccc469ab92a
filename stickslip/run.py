"""What `stickslip run` does: step a scene, show progress, keep a bounded trajectory."""

import dataclasses
import difflib
import io
import math
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import stickslip as ss
from stickslip import files, render
from stickslip.bench.result import versions
from stickslip.errors import InputError
from stickslip.physics.base import CountingPhysics
from stickslip.progress import progress_bar, telling

MAX_FRAMES = 500
"""Most frames a trajectory keeps, besides the first; of a longer run every k-th step."""
MAX_WORLDS = 16
"""Most worlds a trajectory keeps: the first ones."""
MAX_TRACE = 100_000
"""Steps of its own that a physics remembers for the picture of them."""
TRACED_WORLDS = 4
"""Worlds in that picture."""
COMPILING = "Compiling the kernels for {device}: about a minute the first time, cached afterwards."


def known(kind: str, name: str, names: Iterable[str]) -> None:
    """Raise InputError, with the close ones, if `name` is not among `names`."""
    names = list(names)
    if name not in names:
        close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(repr(c) for c in close)}? " if close else ""
        raise InputError(f"no {kind} named {name!r}; {hint}there are: {', '.join(names)}")


def make_physics(name: str, **parameters: Any) -> Any:
    """The physics called `name`, with those of its `parameters` that are not None."""
    known("physics", name, ss.PHYSICS)
    given = {key: value for key, value in parameters.items() if value is not None}
    kind: Any = ss.PHYSICS[name]  # a frozen dataclass of its parameters
    fields = [field.name for field in dataclasses.fields(kind)]
    for key in given:
        if key not in fields:
            has = f"it has: {', '.join(fields)}" if fields else "it has no parameters"
            raise InputError(f"physics {name!r} has no parameter {key!r}; {has}")
    return kind(**given)


def run(
    scene: str,
    physics: Any,
    *,
    nworld: int,
    steps: int,
    device: str | None,
    timestep: float | None,
    out: Path | None,
    console: Console,
) -> bool:
    """Step the scene; True if no buffer overflowed and every world stayed finite.

    Args:
        scene: what `Simulation` takes
        physics: the contact physics
        nworld: number of worlds
        steps: number of steps
        device: Warp's name of the device, or None for the default
        timestep: s, or None for the scene's own
        out: folder for trajectory.npz, final.png and summary.json, or None to write nothing
        console: where to show progress and the closing table
    """
    if steps < 1:
        raise InputError(f"steps is {steps}; it has to be at least 1")
    if out is not None:
        make_folder(out)
    traced = out is not None and "trace" in {field.name for field in dataclasses.fields(physics)}
    if traced:
        physics = dataclasses.replace(physics, trace=MAX_TRACE)
    sim = ss.Simulation(scene, physics, nworld=nworld, device=device, timestep=timestep)
    console.print(COMPILING.format(device=sim.device))
    frames = _Frames() if out is not None else None
    stride = math.ceil(steps / MAX_FRAMES)
    with telling(console), progress_bar(console) as progress:
        task = progress.add_task("compiling", total=None)
        sim.compile()
        progress.update(task, description="stepping", total=steps)
        if frames:
            frames.add(sim.state)
        seconds = 0.0
        for start in range(0, steps, stride):
            n = min(stride, steps - start)
            seconds += timed_steps(sim, n)
            if frames:
                frames.add(sim.state)
            progress.advance(task, n)

    with telling(console):
        health, contacts, state = sim.health(), sim.contacts(), sim.state
    figures = {
        "steps_per_second": steps * nworld / seconds,
        "wall_s": seconds,
        "simulated_s": float(np.nanmax(state.time)),
        "contacts_per_world": len(contacts.dist) / nworld,
        "deepest_penetration_m": float(max(0.0, -contacts.dist.min(initial=0.0))),
    }
    stats = sim.stats() if isinstance(sim.physics, CountingPhysics) else None
    if stats:
        for name in ("steps", "rejections", "iterations", "factorizations"):
            figures[f"{name}_per_world"] = float(getattr(stats, name).mean())
        figures["smallest_step_s"] = float(stats.smallest_dt.min())
    written = []
    if out is not None and frames:
        settings = {
            "scene": scene,
            "physics": physics.name,
            "parameters": dataclasses.asdict(physics),
            "nworld": nworld,
            "steps": steps,
            "recorded_every": stride,
            "recorded_worlds": min(nworld, MAX_WORLDS),
            "timestep_s": float(sim.mjm.opt.timestep),
            "device": str(sim.device),
        }
        picture = render.image(sim.mjm, state.qpos[0])
        summary = {
            "settings": settings,
            "versions": versions(),
            "figures": figures,
            "health": {"ok": health.ok, "messages": health.messages},
            "picture": {"backend": picture.backend, "note": picture.note},
        }
        written = [
            files.write_bytes_atomic(out / "trajectory.npz", frames.npz()),
            files.write_bytes_atomic(out / "final.png", png(picture.pixels)),
            files.write_json(out / "summary.json", summary),
        ]
        if traced and stats:
            written.append(files.write_bytes_atomic(out / "steps.png", steps_picture(stats, scene, physics)))
        if picture.note:
            console.print(escape(picture.note))

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row("physics", f"{physics.name}, {nworld} world{'s' if nworld > 1 else ''} on {sim.device}")
    table.add_row("simulated", f"{figures['simulated_s']:.3f} s in {steps} steps, {seconds:.2f} s of wall time")
    table.add_row("speed", f"{figures['steps_per_second']:,.0f} steps/s, all worlds together")
    table.add_row("contacts", f"{figures['contacts_per_world']:.1f} a world at the end")
    table.add_row("deepest penetration", f"{1e3 * figures['deepest_penetration_m']:.3f} mm at the end")
    if stats:
        table.add_row(
            "own steps",
            f"{figures['steps_per_world']:,.0f} a world, {figures['rejections_per_world']:,.0f} rejected, "
            f"{figures['iterations_per_world']:,.0f} iterations; shortest {1e3 * figures['smallest_step_s']:.3g} ms",
        )
    if written:
        table.add_row("wrote", escape(", ".join(str(path) for path in written)))
    console.print(table)
    for message in health.messages:
        console.print(f"[yellow]warning:[/] {escape(message)}", soft_wrap=True)
    return health.ok


def make_folder(out: Path) -> None:
    """Make the folder for results, before any work is done for them."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        files.write_bytes_atomic(out / ".stickslip-probe", b"").unlink()
    except OSError as error:
        raise InputError(f"--out {out}: cannot write to this folder ({error.strerror}); name another one") from None


def timed_steps(sim: ss.Simulation, n: int) -> float:
    """Wall time in seconds of `n` steps."""
    wp.synchronize_device(sim.device)
    start = time.perf_counter()
    sim.step(n)
    wp.synchronize_device(sim.device)
    return time.perf_counter() - start


def png(pixels: np.ndarray) -> bytes:
    """`pixels` (height, width, 3) uint8 as a PNG file."""
    from matplotlib import image

    buffer = io.BytesIO()
    image.imsave(buffer, np.ascontiguousarray(pixels), format="png")
    return buffer.getvalue()


def steps_picture(stats: ss.Stats, scene: str, physics: Any) -> bytes:
    """Length of the steps of the first worlds over time, as a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 4.0), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    ax = figure.subplots()
    for world, (ends, dt) in enumerate(stats.trace[:TRACED_WORLDS]):
        ax.step(ends, 1e3 * dt, where="pre", lw=0.9, label=f"world {world}")
    ax.set_yscale("log")
    ax.set_xlabel("time [s]")
    ax.set_ylabel("length of a step [ms]")
    ax.set_title(f"{scene}: steps of {physics.name} at an accuracy of {physics.accuracy:g}")
    ax.grid(True, alpha=0.3)
    if len(stats.trace) > 1:
        ax.legend(loc="upper right", fontsize=8)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


class _Frames:
    """The recorded states of the first worlds."""

    def __init__(self) -> None:
        self.states: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def add(self, state: ss.State) -> None:
        first = slice(MAX_WORLDS)
        self.states.append((state.time[first].copy(), state.qpos[first].copy(), state.qvel[first].copy()))

    def npz(self) -> bytes:
        """time (frames, worlds), qpos (frames, worlds, nq) and qvel (frames, worlds, nv) as an .npz file."""
        buffer = io.BytesIO()
        time, qpos, qvel = (np.stack(x) for x in zip(*self.states, strict=True))
        np.savez_compressed(buffer, time=time, qpos=qpos, qvel=qvel)
        return buffer.getvalue()
