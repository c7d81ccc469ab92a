"""What the experiments on step time share: timing, a line through step times, and ratios to MuJoCo.

A step is timed from an idle device to an idle device. Nothing else happens meanwhile: no copies, no collection of
garbage. Kernels have been loaded and launched before.
"""

import contextlib
import dataclasses
import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import warp as wp
from numpy.typing import ArrayLike, NDArray

from stickslip.bench import methods
from stickslip.bench.experiment import Trial
from stickslip.bench.report import style
from stickslip.bench.result import Result
from stickslip.simulation import Simulation

LOOKS = 5
"""Steps that are timed to see how long one takes: the first may be held up, and so may any other."""
BROKEN = 0.01
"""Share of worlds that may be no longer finite; with more of them, a step time says nothing."""


def timed(sim: Simulation, steps: int, trial: Trial) -> float:
    """Seconds that `steps` steps take."""
    return elapsed(sim, lambda: sim.step(steps), 1, trial)


def elapsed(sim: Simulation, run: Callable[[], Any], often: int, trial: Trial) -> float:
    """Seconds that it takes to run something as often on the simulation's device."""
    wp.synchronize_device(sim.device)
    started = trial.clock()
    for _ in range(often):
        run()
    wp.synchronize_device(sim.device)
    return trial.clock() - started


def batches(
    sim: Simulation, repeats: int, steps: int, longest: float, trial: Trial
) -> tuple[NDArray[np.float64], NDArray[np.integer]]:
    """Seconds of a step in each of several batches, and contacts of all worlds at the end of each; both (repeats,).

    A batch has so many steps, or as many as take no longer than `longest` seconds, one at least. How long one takes is
    the least of a few.
    """
    seconds, contacts = np.zeros(repeats), np.zeros(repeats, dtype=int)
    with undisturbed():
        least = min(timed(sim, 1, trial) for _ in range(LOOKS))
        often = max(1, min(steps, int(longest / least))) if least > 0.0 else steps
        for repeat in range(repeats):
            seconds[repeat] = timed(sim, often, trial) / often
            contacts[repeat] = sim.contact_count()
    return seconds, contacts


def warm_up(sim: Simulation, steps: int) -> None:
    """Step, so that nothing is done for the first time when the timing begins, and go back to the start."""
    sim.step(steps)
    sim.reset()


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Keep Python's collector out of the times taken inside."""
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def unless_diverged(sim: Simulation, metrics: Mapping[str, float]) -> dict[str, float]:
    """The metrics, or NaN for all of them if too many worlds are no longer finite: those have no contacts to solve."""
    lost = len(sim.health().nan_worlds) > BROKEN * sim.nworld
    return {name: float("nan") if lost else float(value) for name, value in metrics.items()}


def fastest(seconds: ArrayLike, contacts: ArrayLike) -> tuple[NDArray[np.float64], list[str]]:
    """The shortest time of each part of a run that was repeated, and what makes that doubtful; both (repeats, parts).

    On a CPU a run repeats exactly, and the shortest time is the one when nothing else had the processor. A GPU adds up
    in another order each time, so that no two runs are the same: that shows in the contacts. A time that the clock did
    not see pass is unknown, not zero.
    """
    seconds, contacts = np.asarray(seconds, dtype=float), np.asarray(contacts)
    shortest = seconds.min(axis=0)
    doubts = {
        "the repeated runs differ in their contacts: the fastest parts of them are not of one motion": (
            contacts != contacts[0]
        ).any(),
        "there was no contact in what was timed: there was nothing to solve": not contacts.any(),
        "the clock is too coarse for some of the times": (shortest <= 0.0).any(),
    }
    return np.where(shortest > 0.0, shortest, np.nan), [doubt for doubt, holds in doubts.items() if holds]


@dataclasses.dataclass(frozen=True)
class Line:
    """A least-squares line, and how far the points are from it.

    Attributes:
        offset: its value at zero
        slope: its rise for each unit of x
        scatter: root mean square of the distances in y, as share of the mean of y
    """

    offset: float
    slope: float
    scatter: float

    def __call__(self, x: ArrayLike) -> NDArray[np.float64]:
        return self.offset + self.slope * np.asarray(x, dtype=float)


def fit(x: ArrayLike, y: ArrayLike) -> Line:
    """The line through points; all NaN if that says nothing: fewer than three, all at one x, or not finite."""
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if x.size < 3 or not np.isfinite([x, y]).all() or np.ptp(x) == 0:
        return Line(float("nan"), float("nan"), float("nan"))
    middle = x.mean()
    slope = float((x - middle) @ (y - y.mean()) / ((x - middle) @ (x - middle)))
    line = Line(float(y.mean() - slope * middle), slope, float("nan"))
    with np.errstate(divide="ignore", invalid="ignore"):
        return dataclasses.replace(line, scatter=float(np.sqrt(np.mean((y - line(x)) ** 2)) / y.mean()))


def add_ratios(
    result: Result,
    metric: str,
    name: str,
    *,
    best: Literal["low", "high"] = "low",
    alike: Callable[[str], Sequence[str]] = lambda case: [case],
) -> None:
    """Tell of every method how many times better it is than MuJoCo in a metric, case by case.

    Adds the metrics `NAME`, which is over the better of the two MuJoCo methods that ran, and
    `NAME_over_mujoco`, `NAME_over_mujoco_anti_creep`. Adds nothing where MuJoCo did not run.

    Args:
        result: what was measured; changed in place
        metric: name of the metric
        name: of the ratio
        best: whether less or more of the metric is better
        alike: cases that are the same to MuJoCo as a given one, itself included; the median of its metrics counts
    """
    for case in result.cases:
        values = {label: result.metric(label, case, metric) for label in result.ran(case)}
        rivals = {label: _median(result, label, alike(case), metric) for label in methods.REFERENCES}
        rivals = {label: value for label, value in rivals.items() if np.isfinite(value)}
        for label, value in values.items():
            metrics = result.outcomes[label][case]["metrics"]
            ratios = {rival: _ratio(value, theirs, best) for rival, theirs in rivals.items()}
            metrics.update({f"{name}_over_{rival.replace('-', '_')}": ratio for rival, ratio in ratios.items()})
            if ratios:
                metrics[name] = min(ratios.values())


def _median(result: Result, label: str, cases: Sequence[str], metric: str) -> float:
    """Of a method's finite metric values over cases; NaN if none is finite."""
    values = np.array([result.metric(label, case, metric) for case in cases])
    known = values[np.isfinite(values)]
    return float(np.median(known)) if known.size else float("nan")


def _ratio(value: float, other: float, best: Literal["low", "high"]) -> float:
    above, below = (other, value) if best == "low" else (value, other)
    return above / below if np.isfinite(value) and below else float("nan")


def times(ratio: float) -> str:
    """A ratio to print: `3.1 x`."""
    return f"{style.number(ratio)} x" if np.isfinite(ratio) else "unknown"


def beside_mujoco(result: Result, label: str, case: str, name: str) -> str:
    """The ratios of `add_ratios` to print: `3.1 x mujoco, 12 x mujoco-anti-creep`; "" if there is none."""
    keys = {rival: f"{name}_over_{rival.replace('-', '_')}" for rival in methods.REFERENCES if rival != label}
    ratios = {rival: result.metric(label, case, key) for rival, key in keys.items()}
    return ", ".join(f"{times(ratio)} {rival}" for rival, ratio in ratios.items() if np.isfinite(ratio))
