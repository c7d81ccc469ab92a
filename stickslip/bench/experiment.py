"""What an experiment is: settings, cases, a measurement for one physics and one case, scores and a picture.

An experiment never names the physics it compares, so that a new physics joins all of them by existing.
"""

import abc
import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip import parameters
from stickslip.errors import InputError
from stickslip.physics.base import Physics
from stickslip.simulation import Simulation

if TYPE_CHECKING:
    import matplotlib.figure

    from stickslip.bench.result import Result

S = TypeVar("S")

GRAVITY = 9.81
"""m/s^2, MuJoCo's default, in every analytic reference."""
MIN_STEPS = 4
"""Fewest steps of a run: with less, nothing moves and every error is small."""
SAMPLES = 200
"""Samples a stored series has, about; more is not seen in a picture."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What one physics gave in one case.

    Attributes:
        metrics: the numbers that count; NaN where there is none (it becomes null in JSON)
        series: raw numbers to draw, each a list
        problems: what makes the metrics doubtful, in sentences: overflow, a state that is no longer finite
    """

    metrics: Mapping[str, float]
    series: Mapping[str, Sequence[float] | NDArray[Any]] = dataclasses.field(default_factory=dict)
    problems: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class Score:
    """A row of the summary table.

    Attributes:
        title: what it measures, for a reader who has not seen the experiment
        case: the case it comes from
        metric: its name among the metrics
        unit: "" if it has none
        best: whether the smallest magnitude or the largest value wins
        absent: what to print of a run that has no such metric although it stayed finite, such as "dropped"
    """

    title: str
    case: str
    metric: str
    unit: str
    best: Literal["low", "high"] = "low"
    absent: str = "no value"


@dataclasses.dataclass(frozen=True)
class Reported:
    """A metric of a paper, beside ours; both ready to print."""

    quantity: str
    paper: str
    measured: str


@dataclasses.dataclass(frozen=True)
class Trial:
    """What a measurement is given besides its physics, case and settings.

    Attributes:
        device: "cpu", "cuda:0", ...
        seed: of every random number
        quick: whether the run only shows that it works
        clock: seconds, for step times
        progress: called with the share done, 0 to 1
        earlier: what is stored of the same method in the cases before, by their labels; see `Result.outcomes`
    """

    device: str
    seed: int = 0
    quick: bool = False
    clock: Callable[[], float] = time.perf_counter
    progress: Callable[[float], None] = lambda share: None
    earlier: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)

    def random(self) -> np.random.Generator:
        """Random numbers, the same for every physics, case and run."""
        return np.random.default_rng(self.seed)

    def simulation(
        self,
        scene: str | mujoco.MjModel,
        physics: Physics[Any, Any],
        *,
        nworld: int = 1,
        timestep: float | None = None,
        nconmax: int | None = None,
        njmax: int | None = None,
    ) -> Simulation:
        """A compiled simulation on the trial's device; arguments as in Simulation."""
        sim = Simulation(
            scene, physics, nworld=nworld, device=self.device, timestep=timestep, nconmax=nconmax, njmax=njmax
        )
        sim.compile()
        return sim

    def record(
        self,
        sim: Simulation,
        steps: int,
        sample: Callable[[Simulation], Mapping[str, Any]],
        *,
        samples: int = SAMPLES,
        before: Callable[[int], None] | None = None,
    ) -> dict[str, NDArray[np.float64]]:
        """Step `steps` times and sample at the start, at even distances and at the end.

        Args:
            sim: the simulation
            steps: number of steps
            sample: gives named numbers or arrays, the same names each time
            samples: at most about this many after the start; all steps if there are fewer
            before: called before each step with its number, to command or to push; steps one by one if given

        Returns what `sample` gave, stacked along a first axis, and "time" in seconds.
        """
        if steps < MIN_STEPS:
            raise InputError(
                f"the run has {steps} steps of {sim.mjm.opt.timestep:g} s, at least {MIN_STEPS} are needed: "
                "raise the duration or lower the time step"
            )
        stride = max(1, math.ceil(steps / samples))
        timestep = float(sim.mjm.opt.timestep)
        rows = [_copied(sample(sim), 0.0)]
        for start in range(0, steps, stride):
            stop = min(start + stride, steps)
            if before is None:
                sim.step(stop - start)
            else:
                for index in range(start, stop):
                    before(index)
                    sim.step()
            rows.append(_copied(sample(sim), stop * timestep))
            self.progress(stop / steps)
        return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def _copied(sample: Mapping[str, Any], time: float) -> dict[str, NDArray[np.float64]]:
    """A sample with its time; copies, since on a CPU an array's `numpy()` goes on showing what the array becomes."""
    return {name: np.array(value, dtype=float) for name, value in {**sample, "time": time}.items()}


def unless_lost(metrics: Mapping[str, float], *arrays: NDArray[Any]) -> dict[str, float]:
    """The metrics, or NaN for each of them if anything in the arrays is not finite: what is lost has no value."""
    lost = not all(np.isfinite(array).all() for array in arrays)
    return dict.fromkeys(metrics, math.nan) if lost else dict(metrics)


def problems(sim: Simulation) -> list[str]:
    """What makes the metrics of a simulation doubtful."""
    return sim.health().messages


def state_of(sim: Simulation) -> dict[str, NDArray[np.float64]]:
    """A sample for `Trial.record`: qpos (nworld, nq) and qvel (nworld, nv)."""
    return {"qpos": sim.qpos.numpy().astype(float), "qvel": sim.qvel.numpy().astype(float)}


class Experiment(abc.ABC, Generic[S]):
    """One experiment. `S` is its settings, a frozen dataclass whose fields are made by `parameter`."""

    name: ClassVar[str]
    """On the command line and of its files."""
    summary: ClassVar[str]
    """One line: what is measured on what."""
    source: ClassVar[str]
    """The paper (with section or figure) it comes from, or "stickslip"."""
    settings: ClassVar[type]
    """The class `S`; its defaults are the paper's."""
    quick: ClassVar[Mapping[str, Any]]
    """Settings of the small form, which shows that the experiment works and measures nothing."""
    cpu: ClassVar[Mapping[str, Any]] = {}
    """Settings that differ on a CPU, where thousands of worlds take too long."""
    extra: ClassVar[tuple[str, ...]] = ()
    """Further methods beside every physics, such as `comfree:stiffness=0.1`, run by default."""
    only: ClassVar[tuple[str, ...]] = ()
    """Who runs by default instead of every physics, in an experiment on what few methods have, such as spheres."""
    kind: ClassVar[Literal["physics", "planner"]] = "physics"
    """What it compares; `measure` is given one of them."""
    timing: ClassVar[bool] = False
    """Whether wall time is among the metrics: then all methods are measured in one run or not at all."""

    @abc.abstractmethod
    def cases(self, settings: S) -> Mapping[str, Any]:
        """Every case by its label, the labels as they are printed; the value is what `measure` gets."""

    @abc.abstractmethod
    def measure(self, case: Any, physics: Any, settings: S, trial: Trial) -> Outcome:
        """Run one case with one physics, or planner; see `kind`.

        Raises Unsupported if it cannot run the case, MissingExtra if a package is missing.
        """

    @abc.abstractmethod
    def scores(self, settings: S) -> Sequence[Score]:
        """The rows for the summary table, the most telling first."""

    def relate(self, result: "Result") -> None:
        """Add metrics that need several methods, such as ratios, to what was measured; called after each run."""

    def reported(self, result: "Result") -> Sequence[Reported]:
        """What the paper reports beside what was measured; nothing if it reports no metric."""
        return ()

    @abc.abstractmethod
    def draw(self, result: "Result") -> "matplotlib.figure.Figure":
        """The picture, made with `stickslip.bench.report.style`."""

    def make_settings(
        self, given: Mapping[str, Any] | None = None, *, quick: bool = False, device: str | None = None
    ) -> S:
        """The settings: defaults, those of a CPU if `device` is one, of the small form if `quick`, the given, checked.

        A given value may be text, as it comes from a command line: "0.5", "1,2,5", "true".
        """
        chosen: dict[str, Any] = {**(self.cpu if device == "cpu" else {}), **(self.quick if quick else {})}
        return self.settings(**chosen | parameters.values(self.settings, given or {}, self.name))
