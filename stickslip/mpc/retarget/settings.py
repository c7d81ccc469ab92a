"""Parameters of the optimisation."""

import dataclasses
import math

from stickslip.errors import InputError
from stickslip.parameters import checked, parameter


@checked
@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights of the errors in the cost; see `README.md`."""

    base_pos: float = parameter(3.0, "of the base position [1/m]", 0.0)
    base_rot: float = parameter(1.0, "of the base rotation [1/rad]", 0.0)
    joints: float = parameter(1.0, "of joint positions [1/rad]", 0.0)
    object_pos: float = parameter(1.0, "of object positions [1/m]", 0.0)
    object_rot: float = parameter(0.3, "of object rotations [1/rad]", 0.0)
    velocity: float = parameter(0.0, "of velocities [s/rad]", 0.0)
    contact: float = parameter(1.0, "of sites that are to touch something [1/m]", 0.0)
    control: float = parameter(0.0, "of the squared distance of controls from the reference's, mean over them", 0.0)


@checked
@dataclasses.dataclass(frozen=True)
class Settings:
    """Parameters of annealed MPPI; the defaults are SPIDER's for humanoids, but for `improvement` (0.01)."""

    samples: int = parameter(2048, "rollouts of a round", 2)
    horizon: int = parameter(48, "time steps of a rollout", 2)
    dt: float = parameter(1.0 / 60.0, "time step of a rollout [s]", 0.0, above=True)
    knot_steps: int = parameter(6, "time steps between knots of the noise", 1)
    control_steps: int = parameter(6, "time steps between two optimisations", 1)
    iterations: int = parameter(16, "rounds of an optimisation, at most", 1)
    noise: float = parameter(0.1, "standard deviation of the noise of controls [rad or m]", 0.0, above=True)
    first: float = parameter(0.5, "factor of the noise at the beginning of the horizon", 0.0, above=True)
    last: float = parameter(1.0, "factor of the noise at its end; geometric in between", 0.0, above=True)
    final: float = parameter(0.1, "factor of the noise after the last round; geometric from round to round", 0.0, 1.0)
    exploit: float = parameter(0.01, "fraction of the samples that have little noise", 0.0, 1.0)
    exploit_noise: float = parameter(0.01, "factor of the noise of those", 0.0, 1.0)
    top_fraction: float = parameter(0.1, "fraction of the samples, the best, that count", 0.0, 1.0, above=True)
    temperature: float = parameter(
        0.6, "temperature of the weights, in standard deviations of the cost", 0.0, above=True
    )
    spread_floor: float = parameter(0.01, "added to that standard deviation", 0.0)
    improvement: float = parameter(0.0, "a round that improves the cost by less is the last; 0: none is", 0.0)
    patience: int = parameter(1, "rounds in a row that must improve by less", 1)
    guidance: float = parameter(
        0.0, "share of guidance in the first round: forces that pull objects, or the base, to the reference", 0.0, 1.0
    )
    guidance_decay: float = parameter(0.8, "factor of guidance from round to round; it is 0 in the last two", 0.0, 1.0)
    nconmax: int | None = parameter(None, "capacity for contacts per world; none: an estimate", 1, kind=int)
    njmax: int | None = parameter(None, "capacity for constraint rows per world; none: an estimate", 1, kind=int)

    def __post_init__(self) -> None:
        if self.control_steps > self.horizon:
            raise InputError(
                f"control_steps is {self.control_steps}: it must be at most the horizon, {self.horizon} time steps"
            )
        if self.guidance and self.iterations < 3:
            raise InputError(
                f"guidance is {self.guidance:g} with {self.iterations} iterations: it is 0 in the last two rounds; "
                "use 3 iterations or more"
            )

    @property
    def knots(self) -> int:
        """Knots of the noise, from the first step of the horizon to the last."""
        return max(2, self.horizon // self.knot_steps)

    @property
    def top(self) -> int:
        """Number of samples that count."""
        return max(2, math.ceil(self.top_fraction * self.samples))

    def guided(self) -> list[float]:
        """Share of guidance in each round."""
        free = self.iterations - 2
        return [self.guidance * self.guidance_decay**i if i < free else 0.0 for i in range(self.iterations)]
