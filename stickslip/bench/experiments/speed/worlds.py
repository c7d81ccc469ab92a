"""`worlds`: what it costs, beside a step, to reset or to randomize one per cent of many worlds, and to save them all.

Humanoids fall and lie about. Steps alone and steps with a reset, or with new friction and masses, take turns in short
batches, so that both meet worlds that are alike, and each batch with is compared with the one without before it. The
step, with what comes before it, is one captured graph. A mask of other worlds, on the device, is taken for each batch.
The same is done with calls one by one, as in a program that captures nothing.

A checkpoint is the whole state with the memory of the physics: copied to the host, written to a file, read, put back.
"""

import dataclasses
import pathlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import warp as wp

from stickslip.bench import timing
from stickslip.bench.experiment import Experiment, Outcome, Score, Trial, problems
from stickslip.bench.report import style
from stickslip.bench.result import Result
from stickslip.errors import Unsupported
from stickslip.parameters import parameter
from stickslip.physics.base import Physics
from stickslip.simulation import Scale, Simulation
from stickslip.state import State

SCENE = "humanoid"
KINDS = ("reset", "randomize")
BATCH = 20
"""Steps of a batch, at most."""


@dataclasses.dataclass(frozen=True)
class Settings:
    worlds: int = parameter(4096, "number of worlds (fewer on a CPU)", low=1, high=1 << 20)
    share: float = parameter(1.0, "worlds that are reset or randomized before every step [%]", low=0.0, high=100.0)
    batches: int = parameter(20, "batches of steps with, and as many without", low=2, high=10_000)
    longest: float = parameter(0.2, "duration of a batch, about [s]", low=1e-3, high=100.0)
    warm_up: int = parameter(200, "steps before; the humanoids lie on the floor then", low=0, high=100_000)


class Worlds(Experiment[Settings]):
    name = "worlds"
    summary = "cost of resetting and randomizing 1 % of many humanoids at every step, and of a checkpoint of all"
    source = "stickslip"
    settings = Settings
    cpu = {"worlds": 100, "batches": 6, "warm_up": 100, "longest": 0.25}
    quick = {"worlds": 4, "share": 25.0, "batches": 2, "warm_up": 3, "longest": 0.01}
    only = ("mujoco", "mujoco-anti-creep", "comfree", "cone-sweep", "icf")  # whose steps are captured, with joints
    timing = True

    def cases(self, settings: Settings) -> Mapping[str, int]:
        return {_label(settings): settings.worlds}

    def measure(self, case: int, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        if not physics.capturable:
            raise Unsupported(f"{physics.name} is not captured: there is no graph of a step with resets")
        sim = trial.simulation(SCENE, physics, nworld=case)
        random = trial.random()
        count = max(1, round(case * settings.share / 100.0))
        mask = wp.zeros(case, dtype=bool, device=sim.device)

        def choose() -> None:
            chosen = np.zeros(case, dtype=bool)
            chosen[random.choice(case, count, replace=False)] = True
            mask.assign(chosen)

        choose()
        before: dict[str, Callable[[], None]] = {
            "reset": lambda: sim.reset(mask),
            "randomize": lambda: sim.randomize(mask, geom_friction=Scale(0.5, 1.5), body_mass=Scale(0.8, 1.2)),
        }
        for change in before.values():
            change()
        sim.step(settings.warm_up)
        calls: dict[str, Callable[[], None]] = {"step": sim.step}
        calls |= {name: _both(change, sim.step) for name, change in before.items()}
        graphs = {name: _captured(sim, call) for name, call in calls.items()}
        metrics, series = {}, {}
        for done, (way, runs) in enumerate((("graph", graphs), ("calls", calls))):
            for number, kind in enumerate(KINDS):
                alone, beside = _take_turns(sim, runs["step"], runs[kind], choose, settings, trial)
                metrics[f"{kind}_percent_{way}"] = 100.0 * float(np.median(beside / alone - 1.0))
                metrics[f"ms_per_step_{way}"] = 1e3 * float(np.median(alone))
                series |= {f"{kind}_ms_{way}": 1e3 * beside, f"{kind}_step_ms_{way}": 1e3 * alone}
                trial.progress((2 * done + number + 1) / 5)
        metrics |= _checkpoint(sim, trial)
        found = problems(sim)
        return Outcome(timing.unless_diverged(sim, metrics), series, found)

    def scores(self, settings: Settings) -> Sequence[Score]:
        case, share = _label(settings), f"{settings.share:g} % of the worlds"
        return [
            Score(f"reset of {share} at every step, of the step", case, "reset_percent_graph", "%"),
            Score(
                f"new friction and masses of {share} at every step, of the step", case, "randomize_percent_graph", "%"
            ),
            Score("checkpoint of all worlds to the host", case, "checkpoint_ms", "ms"),
        ]

    def draw(self, result: Result) -> Any:
        case = result.cases[0]
        title = f"worlds: {case}, on {result.machine['device']}"
        ran, among = result.ran(case), list(result.methods)
        fig, axes = style.figure(title, 1, 2, height=1.6 + 0.45 * max(len(ran), 2), width=11)
        left, right = axes[0]
        rows = np.arange(len(ran))
        for offset, kind in ((-0.2, "reset"), (0.2, "randomize")):
            values = np.array([result.metric(label, case, f"{kind}_percent_graph") for label in ran])
            shades = [style.colour(label, among) for label in ran]
            left.barh(rows + offset, np.nan_to_num(values), 0.34, color=shades, alpha=1.0 if kind == "reset" else 0.55)
            for row, value in zip(rows, values, strict=True):
                left.text(max(value, 0.0), row + offset, f" {kind} {style.number(value)} %", va="center", fontsize=8)
        left.margins(x=0.25)
        style.label(left, "cost beside a step, one graph", "of the time of a step [%]")
        parts = ("checkpoint_ms", "save_ms", "load_ms", "restore_ms")
        start = np.zeros(len(ran))
        for part, alpha in zip(parts, (1.0, 0.75, 0.5, 0.3), strict=True):
            values = np.nan_to_num([result.metric(label, case, part) for label in ran])
            shades = [style.colour(label, among) for label in ran]
            right.barh(rows, values, 0.5, left=start, color=shades, alpha=alpha)
            start += values
        for row, label in enumerate(ran):
            words = ", ".join(f"{style.number(result.metric(label, case, part))}" for part in parts)
            right.text(0, row + 0.3, f" {words} ms", va="top", fontsize=8, color=style.INK)
        style.label(right, "checkpoint: copy to the host, write, read, put back", "time [ms]")
        for ax in (left, right):
            ax.set_yticks(rows, [style.short(label) for label in ran])
            ax.set_ylim(len(ran) - 0.3, -0.6)
            ax.grid(False, axis="y")
        return fig


def _label(settings: Settings) -> str:
    return f"{settings.worlds} humanoids, {settings.share:g} %"


def _both(first: Callable[[], None], then: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        first()
        then()

    return run


def _captured(sim: Simulation, call: Callable[[], None]) -> Callable[[], None]:
    """The call as one graph."""
    with wp.ScopedDevice(sim.device), wp.ScopedCapture(sim.device) as captured:
        call()
    return lambda: wp.capture_launch(captured.graph)


def _take_turns(
    sim: Simulation,
    alone: Callable[[], None],
    beside: Callable[[], None],
    choose: Callable[[], None],
    settings: Settings,
    trial: Trial,
) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of a step without and with a change, batch by batch in turns; each (batches,)."""
    often = max(1, min(BATCH, int(settings.longest / max(timing.elapsed(sim, alone, 1, trial), 1e-6))))
    rows = []
    with timing.undisturbed():
        for _ in range(settings.batches):
            choose()
            rows.append([timing.elapsed(sim, run, often, trial) / often for run in (alone, beside)])
    without, with_change = np.array(rows).T
    return without, with_change


def _checkpoint(sim: Simulation, trial: Trial) -> dict[str, float]:
    """Milliseconds to copy the whole state to the host, write it, read it and put it back; and its size."""
    times = {}
    sim.get_state()  # buffers of the host are there
    state = sim.state

    def take() -> None:
        nonlocal state
        state = sim.get_state()

    times["checkpoint_ms"] = timing.elapsed(sim, take, 1, trial)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "state.npz"
        times["save_ms"] = timing.elapsed(sim, lambda: state.save(path), 1, trial)
        size = path.stat().st_size
        times["load_ms"] = timing.elapsed(sim, lambda: State.load(path), 1, trial)
    sim.set_state(state)
    times["restore_ms"] = timing.elapsed(sim, lambda: sim.set_state(state), 1, trial)
    return {**{name: 1e3 * seconds for name, seconds in times.items()}, "checkpoint_MB": 1e-6 * size}
