"""Parameters of the sampling planners, and what they make of the costs of their samples."""

import abc
import dataclasses
import math
from collections.abc import Sequence

from stickslip.mpc.task import SPLINES
from stickslip.parameters import checked, parameter

RISKS = ("mean", "worst")
"""How the costs of a sample in several models are put together."""


@dataclasses.dataclass(frozen=True)
class Rule:
    """How a round of samples becomes a plan.

    Attributes:
        noise: factor of the noise, by round and by place in the horizon, 0 at its beginning and 1 at its end
        top: number of samples that count, the best; 0: all, whose costs are then not standardised
        uniform: whether those that count have the same weight
        temperature: of the weights, in units of the cost, or of its standard deviation where costs are standardised
        least: if above 0, the noise of the next round is the spread of the samples that count, and at least this
            fraction of the first
    """

    noise: Sequence["Growth"]
    top: int = 0
    uniform: bool = False
    temperature: float = 1.0
    least: float = 0.0


@dataclasses.dataclass(frozen=True)
class Growth:
    """Factor of the noise over the horizon: `first` at its beginning, `last` at its end, geometric in between."""

    first: float = 1.0
    last: float = 1.0

    def at(self, place: float) -> float:
        return self.first * (self.last / self.first) ** place


@checked
@dataclasses.dataclass(frozen=True)
class Settings(abc.ABC):
    """Parameters that all sampling planners have. Those that are none are the task's (`Task.sampling`)."""

    samples: int = parameter(256, "rollouts of a plan", 2)
    horizon: int | None = parameter(None, "time steps of a rollout; none: the task's", 1, kind=int)
    dt: float | None = parameter(None, "time step [s]; none: the task's", 0.0, above=True, kind=float)
    knot_steps: int | None = parameter(None, "time steps between knots; none: the task's", 1, kind=int)
    std: float | None = parameter(
        None, "standard deviation of the noise, in the task's units; none: the task's", 0.0, above=True, kind=float
    )
    spline: str | None = parameter(
        None, "interpolation of ctrl between knots; none: the task's", kind=str, choices=SPLINES
    )
    models: int = parameter(1, "models in which each sample is rolled out, the first as given, others varied", 1)
    spread: float = parameter(0.3, "largest relative change of friction and mass of the others", 0.0, 0.9)
    size_spread: float = parameter(0.05, "largest relative change of size of the others", 0.0, 0.9)
    risk: str = parameter("mean", "how the costs of a sample in these models are put together", choices=RISKS)
    nconmax: int | None = parameter(None, "capacity for contacts per world; none: an estimate", 1, kind=int)
    njmax: int | None = parameter(None, "capacity for constraint rows per world; none: an estimate", 1, kind=int)

    @abc.abstractmethod
    def rule(self, temperature: float) -> Rule:
        """How samples become a plan, given the task's temperature."""


@checked
@dataclasses.dataclass(frozen=True)
class Mppi(Settings):
    """Parameters of the planner `mppi`: the mean of the samples, weighted by their cost."""

    temperature: float | None = parameter(
        None,
        "temperature of the weights exp(-(S - min S) / temperature), in units of the cost, or of its standard "
        "deviation with a top_fraction below 1; none: the task's",
        0.0,
        above=True,
        kind=float,
    )
    iterations: int = parameter(1, "rounds of sampling and averaging", 1)
    shrink: float = parameter(0.5, "factor of the noise from one round to the next", 0.0, 1.0, above=True)
    top_fraction: float = parameter(
        1.0, "fraction of the samples, the best, that count; below 1 their costs are standardised", 0.0, 1.0, above=True
    )

    def rule(self, temperature: float) -> Rule:
        noise = [Growth(self.shrink**i, self.shrink**i) for i in range(self.iterations)]
        top = 0 if self.top_fraction == 1.0 else max(2, math.ceil(self.top_fraction * self.samples))
        return Rule(noise, top, temperature=self.temperature or temperature)


@checked
@dataclasses.dataclass(frozen=True)
class Predictive(Settings):
    """Parameters of the planner `predictive`: the best sample, which is never worse than the last plan."""

    def rule(self, temperature: float) -> Rule:
        return Rule([Growth()], top=1, uniform=True)


@checked
@dataclasses.dataclass(frozen=True)
class Cem(Settings):
    """Parameters of the planner `cem`, the cross-entropy method: mean and spread of the best samples, in rounds."""

    elites: float = parameter(0.1, "fraction of the samples that count, the best", 0.0, 1.0, above=True)
    iterations: int = parameter(3, "rounds", 1)
    least: float = parameter(0.2, "smallest noise, as a fraction of the first", 0.0, 1.0, above=True)

    def rule(self, temperature: float) -> Rule:
        top = max(2, math.ceil(self.elites * self.samples))
        return Rule([Growth()] * self.iterations, top, uniform=True, least=self.least)


@checked
@dataclasses.dataclass(frozen=True)
class Dial(Settings):
    """Parameters of the planner `dial`: rounds with noise that is annealed, and smaller at the horizon's beginning."""

    temperature: float = parameter(
        0.1, "temperature of the weights, in standard deviations of the cost", 0.0, above=True
    )
    iterations: int = parameter(4, "rounds", 1)
    shrink: float = parameter(0.6, "factor of the noise from one round to the next", 0.0, 1.0, above=True)
    early: float = parameter(0.4, "noise at the beginning of the horizon, as a fraction of that at its end", 0.01, 1.0)

    def rule(self, temperature: float) -> Rule:
        noise = [Growth(self.early * self.shrink**i, self.shrink**i) for i in range(self.iterations)]
        return Rule(noise, self.samples, temperature=self.temperature)
