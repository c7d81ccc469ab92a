"""`penetration`: how deep bodies sink into one another while a pile of primitives falls onto a block.

Every contact that touches counts, at every sampled step of every world. A contact with a gap does not: a physics that
looks ahead by a margin would otherwise fill its mean with zeros. MuJoCo, and the paper with it, finds no contact
before geoms touch. The mean is over what touches, so read it with the number of contacts: a physics that throws the
pile apart has few of them, and one in which nothing touches has no depth at all.

The pile falls once more at longer steps, for the same time; without a step length, a metric is of the paper's 2 ms.

The paper gives no positions, sizes or masses; those of the scene "drop-test" are ours. Its text says that penetration
increases with the stiffness k, its table says the opposite; `reported` shows which one we see.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stickslip.bench.experiment import (
    SAMPLES,
    Experiment,
    Outcome,
    Reported,
    Score,
    Trial,
    problems,
    unless_lost,
)
from stickslip.bench.experiments.depth.depths import depths_of
from stickslip.bench.references import timesteps
from stickslip.bench.references.comfree_grid import GRID
from stickslip.bench.report import series, style
from stickslip.bench.result import Result
from stickslip.parameters import parameter
from stickslip.physics.base import Physics

SETTLED = 0.25
"""Share of the run, at its end, over which the pile counts as settled."""
EDGES = np.logspace(-3, 3, 121)
"""Depths at which the distribution is counted [mm]."""
PAPER = {
    "mujoco": "1.7 ± 4.9",
    "comfree:stiffness=0.1,damping=0.001": "3.9 ± 6.9",
    "comfree:stiffness=0.1,damping=0.005": "3.8 ± 5.7",
    "comfree:stiffness=0.3,damping=0.001": "1.6 ± 3.3",
    "comfree:stiffness=0.3,damping=0.005": "1.4 ± 2.5",
    "comfree:stiffness=0.5,damping=0.001": "1.0 ± 2.1",
    "comfree:stiffness=0.5,damping=0.005": "0.9 ± 1.5",
}
"""Mean and standard deviation of the depth [mm], Fig. 2(b)."""
CASE = "drop"
"""The case of the paper; the others have their step length in their label."""


@dataclasses.dataclass(frozen=True)
class Settings:
    n: int = parameter(5, "bodies along each side of a layer", low=1, high=12)
    layers: int = parameter(5, "layers, one kind of primitive each", low=1, high=10)
    steps: int = parameter(1000, "steps of the run", low=4, high=1_000_000)
    timestep: float = parameter(0.002, "length of a step [s]", low=1e-5, high=0.1)
    other_timesteps: tuple[float, ...] = parameter(
        (0.002,), "other lengths of a step at which the pile falls, for as long [s]; 10 ms on a CPU", low=1e-5, high=0.1
    )
    every: int = parameter(1, "steps between samples", low=1, high=1000)
    worlds: int = parameter(1, "worlds; they differ only by the rounding of a parallel machine", low=1, high=65536)


class Tally:
    """Depths [mm], counted as they come: a run of many worlds has more of them than memory."""

    def __init__(self) -> None:
        self.count, self.total, self.square, self.largest = 0, 0.0, 0.0, 0.0
        self.deeper = np.zeros(len(EDGES))

    def add(self, depths: NDArray[np.float64]) -> None:
        self.count += len(depths)
        self.total += float(depths.sum())
        self.square += float((depths**2).sum())
        self.largest = max(self.largest, float(depths.max(initial=0.0)))
        self.deeper += len(depths) - np.searchsorted(np.sort(depths), EDGES, side="right")

    @property
    def mean(self) -> float:
        """NaN if nothing touched: that is no sign of stiff contact."""
        return self.total / self.count if self.count else float("nan")

    @property
    def deviation(self) -> float:
        return max(self.square / self.count - self.mean**2, 0.0) ** 0.5 if self.count else float("nan")

    @property
    def deepest(self) -> float:
        return self.largest if self.count else float("nan")


class Penetration(Experiment[Settings]):
    name = "penetration"
    summary = "depth and number of all contacts while layers of primitives fall onto a block and settle"
    source = "ComFree-Sim (arXiv:2603.12185), Sec. IV-A and Fig. 2"
    settings = Settings
    quick = {"n": 2, "layers": 2, "steps": 60}
    cpu = {"other_timesteps": (0.01,)}
    extra = GRID

    def cases(self, settings: Settings) -> Mapping[str, float]:
        others = [timestep for timestep in settings.other_timesteps if timestep != settings.timestep]
        return {CASE: settings.timestep} | {f"{CASE}, {timesteps.tick(timestep)}": timestep for timestep in others}

    def measure(self, case: float, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        scene = f"drop-test:n={settings.n},layers={settings.layers}"
        sim = trial.simulation(scene, physics, nworld=settings.worlds, timestep=case)
        steps = max(1, round(settings.steps * settings.timestep / case))
        whole, settled = Tally(), Tally()
        rows = []
        for start in range(0, steps, settings.every):
            stop = min(start + settings.every, steps)
            sim.step(stop - start)
            depths = depths_of(sim)
            whole.add(depths)
            if stop > (1.0 - SETTLED) * steps:
                settled.add(depths)
            rows.append((stop * case, depths.sum(), depths.max(initial=0.0), len(depths)))
            trial.progress(stop / steps)
        speed = sim.qvel.numpy().astype(float).reshape(settings.worlds, -1, 6)[:, :, :3]
        metrics = {
            "mean_mm": whole.mean,
            "std_mm": whole.deviation,
            "max_mm": whole.deepest,
            "settled_mean_mm": settled.mean,
            "settled_std_mm": settled.deviation,
            "settled_max_mm": settled.deepest,
            "contacts_a_step": whole.count / len(rows) / settings.worlds,
            "end_speed_mm_per_s": 1e3 * float(np.sqrt((speed**2).sum(axis=2).mean())),
        }
        metrics = unless_lost(metrics, sim.qpos.numpy(), speed)  # what is broken has no contacts, and would look fine
        shown = {**_in_time(np.array(rows)), "deeper_percent": 100.0 * whole.deeper / max(whole.count, 1)}
        return Outcome(metrics, shown, problems(sim))

    def scores(self, settings: Settings) -> Sequence[Score]:
        rows = (
            ("falling pile, mean", "mean_mm"),
            ("falling pile, deepest", "max_mm"),
            ("settled pile, mean", "settled_mean_mm"),
        )
        return [
            Score(f"penetration in a {what}{case.removeprefix(CASE)}", case, metric, "mm", absent="no contact")
            for case in self.cases(settings)
            for what, metric in rows
        ]

    def reported(self, result: Result) -> Sequence[Reported]:
        settings = self.make_settings(result.settings)
        free = {name: getattr(Settings(), name) for name in ("every", "worlds", "other_timesteps")}
        if dataclasses.replace(settings, **free) != Settings():
            return ()  # another scene than the paper's

        def measured(label: str) -> str:
            if not result.has(label, CASE):
                return "not run"
            mean, deviation = (result.metric(label, CASE, name) for name in ("mean_mm", "std_mm"))
            return f"{style.number(mean)} ± {style.number(deviation)}"

        rows = [Reported(f"depth [mm], {style.short(label)}", paper, measured(label)) for label, paper in PAPER.items()]
        soft, stiff = (f"comfree:stiffness={k},damping=0.001" for k in (0.1, 0.5))
        low, high = (result.metric(label, CASE, "mean_mm") for label in (soft, stiff))
        trend = "unknown" if not np.isfinite(low + high) else "increases" if high > low else "decreases"
        text = f"{trend}: {style.number(low)} to {style.number(high)}"
        paper = "text: increases; table: decreases, 3.9 to 1.0"
        return [*rows, Reported("depth [mm] as ComFree's stiffness goes from 0.1 to 0.5", paper, text)]

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        cases = self.cases(settings)
        ticks = [timesteps.tick(timestep) for timestep in cases.values()]
        size = f"{settings.n} x {settings.n} x {settings.layers} bodies"
        fig, rows = style.figure(f"penetration: a pile falls onto a block ({size})", 3, width=17.0)
        (mean, settled), (deepest, touching) = (style.split(row, 2) for row in rows[:2, 0])
        time_axis, spread, contacts = style.split(rows[2, 0], 3)
        bars = (
            (mean, "mean_mm", "all touching contacts: mean (bar, number), standard deviation (line)", "depth [mm]"),
            (settled, "settled_mean_mm", f"mean of the last {SETTLED:.0%} of the run", "depth [mm]"),
            (deepest, "max_mm", "deepest contact of all", "depth [mm]"),
            (touching, "contacts_a_step", "touching contacts: with few, a mean depth says little", "contacts a step"),
        )
        for ax, metric, title, unit in bars:
            errors = series.metrics(result, list(cases), "std_mm") if metric == "mean_mm" else None
            values, log = series.metrics(result, list(cases), metric), metric in ("settled_mean_mm", "max_mm")
            style.bars(ax, result, list(cases), values, errors=errors, log=log, ticks=ticks)
            style.label(ax, title, "", unit)
        mean.set_ylim(bottom=0.0)
        for method in result.ran(CASE):
            time = result.series(method, CASE, "time")
            style.line(time_axis, result, method, time, result.series(method, CASE, "mean_mm"))
            number = result.series(method, CASE, "contacts") / settings.worlds
            style.line(contacts, result, method, time, number)
            deeper = result.series(method, CASE, "deeper_percent")
            style.line(spread, result, method, EDGES[deeper > 0], deeper[deeper > 0])
        style.label(time_axis, f"mean depth over time, {ticks[0]}", "time [s]", "depth [mm]")
        time_axis.set_yscale("log")
        style.label(spread, f"share of contacts deeper than, {ticks[0]}", "depth [mm]", "share [%]")
        spread.set(xscale="log", yscale="log", xlim=(0.01, None), ylim=(1e-3, 150.0))
        style.label(contacts, f"touching contacts over time, {ticks[0]}", "time [s]", "contacts per world")
        contacts.set_ylim(bottom=0.0)
        style.legend(fig, fig.axes)
        return fig


def _in_time(rows: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Mean and largest depth over time, a few steps put together; NaN where nothing touches."""
    parts = np.array_split(rows, min(SAMPLES, len(rows)))
    total, number = (np.array([part[:, column].sum() for part in parts]) for column in (1, 3))
    return {
        "time": np.array([part[-1, 0] for part in parts]),
        "mean_mm": np.where(number > 0, total / np.maximum(number, 1), np.nan),
        "max_mm": np.where(number > 0, np.array([part[:, 2].max() for part in parts]), np.nan),
        "contacts": number / np.array([len(part) for part in parts]),
    }
