"""`stickslip run`: step a scene, print a summary, write trajectory, picture and summary."""

import dataclasses
import math
import time
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import warp as wp
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import stickslip as ss
from stickslip import files, interrupts, parameters, render
from stickslip.cli import patches, recording
from stickslip.cli.output import COMPILING, make_folder
from stickslip.errors import InputError, Unsupported
from stickslip.physics.base import CountingPhysics, Health, Physics
from stickslip.progress import progress_bar, showing_log
from stickslip.provenance import versions

MAX_TRACE = 100_000
"""Step sizes that a physics with its own step size records for the plot."""
PATIENCE = 0.5
"""Time between two looks at whether Ctrl-C was pressed [s]."""


@dataclasses.dataclass(frozen=True)
class Order:
    """What to run.

    Attributes:
        scene: name or path of the scene
        mjm: its model
        physics: the contact physics
        nworld: number of worlds
        steps: number of steps
        device: Warp's name of the device, or None for the default
        nconmax, njmax: buffer sizes per world, or None for the default
        out: folder for the files, or None to write nothing
        patches: whether to draw the contact patches of the first world at the end
    """

    scene: str
    mjm: mujoco.MjModel
    physics: Physics[Any, Any]
    nworld: int
    steps: int
    device: str | None
    nconmax: int | None
    njmax: int | None
    out: Path | None
    patches: bool = False


@dataclasses.dataclass(frozen=True)
class Stepped:
    """How far a run got: steps per world, wall time of stepping [s], whether Ctrl-C ended it."""

    steps: int
    seconds: float
    interrupted: bool


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a run ended: whether no buffer overflowed and every world is finite; whether Ctrl-C ended it."""

    healthy: bool
    interrupted: bool


def run(order: Order, console: Console) -> Ended:
    """Step the scene, print the summary and write the files. Ctrl-C ends the stepping, and the rest follows."""
    if order.patches and order.out is None:
        raise InputError("--patches draws a picture: name a folder for it with --out")
    if order.patches and not patches.can_show(order.physics):
        raise Unsupported(f"--patches: {order.physics.name} has no contact patches; icf and cenic have")
    if order.out is not None:
        make_folder(order.out)
    traced = order.out is not None and {"trace", "accuracy"} <= parameters.fields(order.physics).keys()
    physics: Any = order.physics
    if traced:
        physics = dataclasses.replace(physics, trace=MAX_TRACE)
    trajectory = recording.Trajectory() if order.out is not None else None
    sim = ss.Simulation(
        order.mjm, physics, nworld=order.nworld, device=order.device, nconmax=order.nconmax, njmax=order.njmax
    )
    stepped = _step(sim, order, trajectory, console)
    with showing_log(console):
        health, state = sim.health(), sim.state
        stats = sim.stats() if isinstance(sim.physics, CountingPhysics) else None
    metrics = _measure(sim, stepped, health, state, stats)
    console.print(_table(sim, order, stepped, metrics))
    for message in health.messages:
        console.print(f"[yellow]warning:[/] {escape(message)}", soft_wrap=True)
    if stepped.interrupted:
        console.print(f"[yellow]interrupted[/] after {stepped.steps} of {order.steps} steps")
    if order.out is not None and trajectory is not None:
        found = sim.patches() if order.patches else None
        pressed = patches.rows(sim.mjm, found) if found else []
        with console.status("drawing and writing"):
            picture = render.image(sim.mjm, state.qpos[0])
        summary = {
            "settings": _settings(sim, order),
            "versions": versions(),
            "steps": stepped.steps,
            "interrupted": stepped.interrupted,
            "metrics": metrics,
            "health": {"ok": health.ok, "messages": health.messages},
            "picture": {"backend": picture.backend, "note": picture.note},
        }
        if order.patches:
            summary["patches"] = pressed
        content = {"trajectory.npz": trajectory.npz(), "final.png": recording.png(picture.pixels)}
        if traced and stats:
            content["steps.png"] = recording.steps_png(stats, order.scene, physics)
        if found is not None and pressed:
            content["patches.png"] = patches.png(found, pressed, f"{order.scene}, {sim.physics.name}")
        for name in files.tidy(order.out):
            console.print(f"{escape(name)}: a run was killed while it wrote this file; what was there before is whole")
        written = files.write_together(order.out, content | {"summary.json": files.json_bytes(summary)})
        if not pressed and order.patches:
            console.print("No patch is under load at the end; geoms with a hydroelastic modulus touch in patches.")
        if picture.note:
            console.print(escape(picture.note))
        console.print(f"Wrote {escape(', '.join(str(path) for path in written))}", soft_wrap=True)
    return Ended(health.ok, stepped.interrupted)


def _step(sim: ss.Simulation, order: Order, trajectory: recording.Trajectory | None, console: Console) -> Stepped:
    """Compile and step, in pieces short enough to look for Ctrl-C in between."""
    console.print(COMPILING.format(device=sim.device))
    stride = math.ceil(order.steps / recording.MAX_FRAMES)
    done, seconds = 0, 0.0
    with showing_log(console), progress_bar(console) as progress:
        task = progress.add_task("compiling", total=None)
        sim.compile()
        progress.update(task, description="stepping", total=order.steps)
        console.print("Stepping; Ctrl-C ends the run early and keeps the result.")
        with interrupts.deferred() as request:
            if trajectory:
                trajectory.add(sim.state)
            while done < order.steps and not request.made:
                piece = max(1, int(PATIENCE * done / seconds)) if seconds else 1
                n = min(piece, stride - done % stride, order.steps - done)
                seconds += timed_steps(sim, n)
                done += n
                progress.advance(task, n)
                if trajectory and (done % stride == 0 or done == order.steps):
                    trajectory.add(sim.state)
            if trajectory and done < order.steps and done % stride:  # interrupted between two frames
                trajectory.add(sim.state)
    return Stepped(done, seconds, done < order.steps)


def timed_steps(sim: ss.Simulation, n: int) -> float:
    """Wall time of `n` steps [s]."""
    wp.synchronize_device(sim.device)
    start = time.perf_counter()
    sim.step(n)
    wp.synchronize_device(sim.device)
    return time.perf_counter() - start


def _measure(
    sim: ss.Simulation, stepped: Stepped, health: Health, state: ss.State, stats: ss.Stats | None
) -> dict[str, float | None]:
    """The metrics of a run. Depth is that of the worlds that are finite; None if none is."""
    contacts = sim.contacts()
    finite = ~np.isin(contacts.world, health.nan_worlds)
    some_finite = len(health.nan_worlds) < sim.nworld
    metrics: dict[str, float | None] = {
        "steps_per_second": stepped.steps * sim.nworld / stepped.seconds if stepped.steps else 0.0,
        "wall_s": stepped.seconds,
        "simulated_s": float(np.nanmax(state.time)),
        "contacts_per_world": len(contacts.dist) / sim.nworld,
        "deepest_penetration_m": max(0.0, *_depths(sim, contacts, finite)) if some_finite else None,
    }
    if stats:
        for name in ("steps", "rejections", "iterations", "factorizations"):
            metrics[f"{name}_per_world"] = float(getattr(stats, name).mean())
        metrics["smallest_step_s"] = float(stats.smallest_dt.min())
    return metrics


def _depths(sim: ss.Simulation, contacts: ss.Contacts, counts: np.ndarray) -> list[float]:
    """Of the deepest contact that counts; of patches, the deepest as a whole, since points may be where g is small."""
    if patches.can_show(sim.physics) and len(found := sim.patches()):
        worlds = np.unique(contacts.world[counts])
        in_patch = {(w, *g) for w, g in zip(found.world, found.geom.tolist(), strict=True)}
        is_point = [(w, *g) not in in_patch for w, g in zip(contacts.world, contacts.geom.tolist(), strict=True)]
        counts = counts & np.array(is_point, dtype=bool)
        deepest = float(found.depth[np.isin(found.world, worlds)].max(initial=0.0))
        return [deepest, float(-contacts.dist[counts].min(initial=0.0))]
    return [float(-contacts.dist[counts].min(initial=0.0))]


def _settings(sim: ss.Simulation, order: Order) -> dict[str, Any]:
    """What a run was asked to do, for the record."""
    physics: Any = sim.physics
    return {
        "scene": order.scene,
        "physics": physics.name,
        "parameters": dataclasses.asdict(physics),
        "nworld": order.nworld,
        "steps": order.steps,
        "recorded_every": math.ceil(order.steps / recording.MAX_FRAMES),
        "recorded_worlds": min(order.nworld, recording.MAX_WORLDS),
        "timestep_s": float(sim.mjm.opt.timestep),
        "device": str(sim.device),
    }


def _table(sim: ss.Simulation, order: Order, stepped: Stepped, metrics: dict[str, float | None]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    worlds = f"{order.nworld} world{'s' if order.nworld > 1 else ''}"
    table.add_row("physics", f"{sim.physics.name}, {worlds} on {sim.device}")
    table.add_row(
        "simulated", f"{metrics['simulated_s']:.3f} s in {stepped.steps} steps, {stepped.seconds:.2f} s wall time"
    )
    table.add_row("speed", f"{metrics['steps_per_second']:,.0f} steps/s, all worlds together")
    table.add_row("contacts", f"{metrics['contacts_per_world']:.1f} per world at the end")
    depth = metrics["deepest_penetration_m"]
    table.add_row("deepest penetration", "no world is finite" if depth is None else f"{1e3 * depth:.3f} mm at the end")
    if "rejections_per_world" in metrics:
        table.add_row(
            "own steps",
            f"{metrics['steps_per_world']:,.0f} per world, {metrics['rejections_per_world']:,.0f} rejected, "
            f"{metrics['iterations_per_world']:,.0f} iterations; shortest {metrics['smallest_step_s']:.3g} s",
        )
    return table
