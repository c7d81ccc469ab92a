"""`speed`: time of a step, and where it goes, for every physics in the same run.

Each case steps past its transient, then times replays of the captured step. The stages are then
captured one by one on the state reached and replayed; on a GPU their sum exceeds the step, since
ComFree's step runs collision beside other stages. Memory is that of all arrays in the data; what a
step allocates for itself, MuJoCo's solver most of all, is not in it.
"""

import dataclasses
import gc
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from stickslip.bench.experiment import Experiment, Settings, generator
from stickslip.physics.base import Physics, StagedPhysics
from stickslip.simulation import Simulation

if TYPE_CHECKING:
    import matplotlib.figure


@dataclasses.dataclass(frozen=True)
class Case:
    """One scene at one number of worlds.

    Attributes:
        scene: name of the scene
        nworld: number of worlds
        warmup: steps before the timing starts
        steps: steps that are timed
        command: half-width of the random joint commands given every 50 steps, rad; 0 for none
        trace: whether to record step time against contacts from the start on
    """

    scene: str
    nworld: int
    warmup: int = 300
    steps: int = 300
    command: float = 0.0
    trace: bool = False


def _title(case: dict[str, Any]) -> str:
    """What tells a case from the others: `hand, commanded, 4096 worlds`."""
    commanded = ", commanded" if case["command"] else ""
    return f"{case['scene']}{commanded}, {case['nworld']} world{'s' if case['nworld'] > 1 else ''}"


CUDA_CASES = (
    Case("scaling", 512, trace=True),
    Case("scaling", 4096, trace=True),
    Case("drop-test", 16),
    Case("drop-test", 256, steps=200),
    Case("humanoid", 4096, warmup=1000, command=0.5),
    Case("humanoid", 4096),
    Case("hand", 4096, command=0.5),
    Case("hand", 4096),
)
CPU_CASES = (
    Case("scaling", 1, trace=True),
    Case("drop-test", 1, steps=100),
    Case("humanoid", 1, warmup=1000, command=0.5),
    Case("humanoid", 1),
    Case("hand", 1, command=0.5),
    Case("hand", 1),
)
QUICK_CASES = (Case("scaling", 2, warmup=20, steps=20, trace=True),)
CHUNK = 10
STAGE_REPEATS = 30
VELOCITY_NOISE = 1e-3


def _measure(settings: Settings) -> dict[str, Any]:
    cases = QUICK_CASES if settings.quick else CUDA_CASES if settings.device.startswith("cuda") else CPU_CASES
    results = []
    for case in cases:
        for name, physics in settings.physics.items():
            settings.report(f"speed: {_title(dataclasses.asdict(case))}, {name}")
            figures = _time_case(case, physics, settings)
            results.append({**dataclasses.asdict(case), "physics": name, **figures})
            settings.report(f"  {figures['ms_per_step']:.4f} ms a step, {figures['contacts_per_world']:.1f} contacts")
    return {"cases": results, "ratios": _ratios(results)}


def _time_case(case: Case, physics: Physics[Any, Any], settings: Settings) -> dict[str, Any]:
    device = wp.get_device(settings.device)
    gc.collect()
    sim = Simulation(case.scene, physics, nworld=case.nworld, device=settings.device)
    started = time.perf_counter()
    sim.compile()
    compile_s = time.perf_counter() - started

    random = generator(settings)
    noise = random.normal(0.0, VELOCITY_NOISE, (case.nworld, sim.mjm.nv))
    sim.qvel = sim.qvel.numpy() + noise
    home = sim.ctrl.numpy()

    elapsed, contacts, trace = 0.0, [], []
    for done in range(0, case.warmup + case.steps, CHUNK):
        if case.command and done % 50 == 0:
            sim.ctrl = home + random.uniform(-case.command, case.command, home.shape)
        wp.synchronize_device(device)
        started = time.perf_counter()
        sim.step(CHUNK)
        wp.synchronize_device(device)
        chunk = time.perf_counter() - started
        ncon = int(sim.d.nacon.numpy()[0])
        if case.trace:
            trace.append((ncon, chunk / CHUNK * 1e3))
        if done >= case.warmup:
            elapsed += chunk
            contacts.append(ncon)
    dist = sim.contacts().dist * 1e3
    depth = -dist[dist < 0]
    health = sim.health()
    ms = elapsed / case.steps * 1e3
    figures: dict[str, Any] = {
        "ms_per_step": ms,
        "world_steps_per_s": case.nworld / ms * 1e3,
        "contacts_per_world": float(np.mean(contacts)) / case.nworld,
        "penetration_mm": float(depth.mean()) if depth.size else 0.0,
        "penetration_max_mm": float(depth.max()) if depth.size else 0.0,
        "bytes_per_world": _array_bytes(sim.d) / case.nworld,
        "compile_s": compile_s,
        "problems": health.messages,
    }
    if case.trace:
        figures["fit"] = _fit(trace)
    if isinstance(physics, StagedPhysics):
        figures["stages_ms"] = _time_stages(sim, physics)
        figures["contact_share"] = figures["stages_ms"].get("contact", 0.0) / ms
    return figures


def _time_stages(sim: Simulation, physics: StagedPhysics[Any, Any]) -> dict[str, float]:
    """Milliseconds of each stage, captured alone; the state is put back afterwards."""
    state = sim.state
    times = {}
    with wp.ScopedDevice(sim.device):
        stages = physics.stages(sim.m, sim.d)
        for _, run in stages:
            run()
        sim.state = state
        before = lambda: None  # noqa: E731
        for name, run in stages:
            adds = name == "contact" and "constraints" in times  # to be repeated together, then told apart
            with wp.ScopedCapture(device=sim.device) as capture:
                if adds:
                    before()
                run()
            wp.capture_launch(capture.graph)
            wp.synchronize_device(sim.device)
            started = time.perf_counter()
            for _ in range(STAGE_REPEATS):
                wp.capture_launch(capture.graph)
            wp.synchronize_device(sim.device)
            times[name] = (time.perf_counter() - started) / STAGE_REPEATS * 1e3
            if adds:
                times[name] -= times["constraints"]
            before = run
    sim.state = state
    return times


def _fit(trace: list[tuple[int, float]]) -> dict[str, Any]:
    """Least-squares line of step time against contacts over all worlds, first chunk left out."""
    contacts, ms = np.array(trace[1:], dtype=float).T
    design = np.stack([np.ones_like(contacts), contacts], axis=1)
    (offset, slope), *_ = np.linalg.lstsq(design, ms, rcond=None)
    residual = ms - design @ (offset, slope)
    return {
        "contacts": contacts.astype(int).tolist(),
        "ms": ms.tolist(),
        "offset_ms": float(offset),
        "ns_per_contact": float(slope * 1e6),
        "residual_rms_ms": float(np.sqrt(np.mean(residual**2))),
        "residual_rms_share": float(np.sqrt(np.mean(residual**2)) / ms.mean()),
    }


def _array_bytes(obj: Any) -> int:
    """Bytes of all Warp arrays in a dataclass, nested ones included."""
    total = 0
    for field in dataclasses.fields(obj):
        value: Any = getattr(obj, field.name, None)
        if isinstance(value, wp.array):
            total += value.capacity
        elif dataclasses.is_dataclass(value):
            total += _array_bytes(value)
    return total


def _ratios(results: list[dict[str, Any]]) -> dict[str, Any]:
    """How much faster, and how much smaller, each physics is than stock MuJoCo Warp in the same case."""
    stock = {_title(r): r for r in results if r["physics"] == "mujoco"}
    ratios = {}
    for r in results:
        base = stock.get(_title(r))
        if base and r["physics"] != "mujoco":
            ratios[f"{r['physics']} on {_title(r)}"] = {
                "speed": base["ms_per_step"] / r["ms_per_step"],
                "memory": base["bytes_per_world"] / r["bytes_per_world"],
            }
    return ratios


STAGE_ORDER = (
    "kinematics, centre of mass, inertia, collision, rows, position sensors, velocity, actuation, "
    "smooth acceleration, prediction, constraints, contact, acceleration, force sensors, integration"
).split(", ")
COLUMNS = 2


def _draw(result: dict[str, Any]) -> "matplotlib.figure.Figure":
    """A bar a physics for each case, made of its stages; below, step time against contacts."""
    import matplotlib.figure

    cases = result["figures"]["cases"]
    groups = list(dict.fromkeys(map(_title, cases)))
    traced = list(dict.fromkeys(_title(c) for c in cases if "fit" in c))
    bar_rows, fit_rows = -(-len(groups) // COLUMNS), -(-len(traced) // COLUMNS)
    height = 1.9 * bar_rows + 3.2 * fit_rows + 1.4
    figure = matplotlib.figure.Figure(figsize=(13, height), layout="constrained")
    ratios = [1.9] * bar_rows + [3.2] * fit_rows
    axes = figure.subplots(bar_rows + fit_rows, COLUMNS, squeeze=False, height_ratios=ratios)
    for ax in axes.flat:
        ax.set_visible(False)
    for ax, group in zip(axes[:bar_rows].flat, groups, strict=False):
        _draw_stages(ax, group, [c for c in cases if _title(c) == group])
    for ax, group in zip(axes[bar_rows:].flat, traced, strict=False):
        _draw_contacts(ax, group, [c for c in cases if _title(c) == group])
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=7, fontsize=8, frameon=False)
    figure.suptitle(f"Time of a step on {result['machine']['device']}; black line: the whole step, captured")
    return figure


def _draw_stages(ax: Any, title: str, cases: list[dict[str, Any]]) -> None:
    import matplotlib

    quiet = matplotlib.colormaps["GnBu_r"](np.linspace(0.1, 0.85, len(STAGE_ORDER)))
    widest = max(max(sum(c.get("stages_ms", {}).values()), c["ms_per_step"]) for c in cases)
    for row, c in enumerate(cases):
        left = 0.0
        for stage, colour in zip(STAGE_ORDER, quiet, strict=True):
            width = c.get("stages_ms", {}).get(stage, 0.0)
            shade = "#d9534f" if stage == "contact" else colour
            ax.barh(row, width, left=left, color=shade, label=stage if row == 0 else None)
            left += width
        ax.plot([c["ms_per_step"]] * 2, [row - 0.45, row + 0.45], color="black", lw=2)
        label = f"{c['ms_per_step']:.3g} ms"
        if row and cases[0]["physics"] == "mujoco":
            label += f", {cases[0]['ms_per_step'] / c['ms_per_step']:.1f} x"
        ax.text(max(left, c["ms_per_step"]) + 0.015 * widest, row, label, va="center", fontsize=9)
    ax.set_visible(True)
    ax.set_yticks(range(len(cases)), [c["physics"] for c in cases])
    ax.invert_yaxis()
    ax.set_xlim(0, 1.22 * widest)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_title(f"{title}: stages, ms", fontsize=10, loc="left")


def _draw_contacts(ax: Any, title: str, cases: list[dict[str, Any]]) -> None:
    for c in cases:
        if "fit" in c:
            fit = c["fit"]
            name = f"{c['physics']}: scatter {100 * fit['residual_rms_share']:.0f} % about the line"
            dots = ax.plot(fit["contacts"], fit["ms"], ".", ms=5, label=name)
            ends = np.array([min(fit["contacts"]), max(fit["contacts"])])
            ax.plot(ends, fit["offset_ms"] + fit["ns_per_contact"] * 1e-6 * ends, color=dots[0].get_color(), lw=1)
    ax.set_visible(True)
    ax.set_ylim(bottom=0)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_title(f"{title}: ms a step", fontsize=10, loc="left")
    ax.set_xlabel("contacts of all worlds")
    ax.legend(fontsize=8, frameon=False)


SPEED = Experiment(
    name="speed",
    summary="time of a step and of its stages, memory a world, on piles, a walker and a hand",
    measure=_measure,
    draw=_draw,
)
