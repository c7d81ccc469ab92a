"""What an identification gives: values with intervals, whether they can be believed, and their files."""

import copy
import dataclasses
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.errors import InputError
from stickslip.files import write_bytes_atomic, write_json
from stickslip.identification import picture
from stickslip.identification.parameter import Fields, Parameter
from stickslip.identification.trial import Trial
from stickslip.simulation import Simulation

WIDEST = 2.0
"""Upper over lower end of an interval, at most, of a parameter that counts as identified."""
WRONG = 1.5
"""Residual over its floor from which on the model is wrong."""
WORSE = 2.0
"""Residual of held-out trials, over their floor or that of trials that were fitted, from which on parameters do not
carry over."""


def field_of(sim: Simulation) -> Callable[[str], NDArray[Any]]:
    """Gives a field of the model of a simulation, (1 or nworld, ...), by name."""
    return lambda name: sim.physics.model_field(sim.m, name).numpy()


@dataclasses.dataclass(frozen=True, eq=False)
class Estimate:
    """One parameter.

    Attributes:
        parameter: what was asked for
        value: the best value
        low, high: ends of the interval that holds the truth in 95 of 100 cases, if the model is right
        reason: why it is not identified; empty if it is
        profile: values of the parameter, and by how much the cost is higher there, others fitted; 3.84 at the ends of
            the interval, if the model is wrong after division by the square of residual over floor: (n, 2)
    """

    parameter: Parameter
    value: float
    low: float
    high: float
    reason: str
    profile: NDArray[np.floating]

    @property
    def identified(self) -> bool:
        """Whether the data tell the value."""
        return not self.reason

    def __str__(self) -> str:
        unit = f" {self.parameter.unit}" if self.parameter.unit else ""
        interval = f"{self.low:.4g} to {self.high:.4g}{unit}"
        if self.identified:
            return f"{self.parameter.name}: {self.value:.4g}{unit} ({interval})"
        return f"{self.parameter.name}: not identified ({interval}): {self.reason}"


def judge(parameter: Parameter, low: float, high: float) -> str:
    """Why a parameter with this interval is not identified; empty if it is."""
    width = parameter.high - parameter.low
    near = 0.005
    if parameter.ratio:
        reach = math.log(parameter.high / parameter.low)
        ends = math.log(low / parameter.low) / reach, math.log(parameter.high / high) / reach
        wide = high > WIDEST * low
        how = f"a factor {high / low:.3g} wide, more than {WIDEST:g}"
    else:
        ends = (low - parameter.low) / width, (parameter.high - high) / width
        wide = high - low > 0.5 * width
        how = "wider than half of the bounds"
    below, above = (end < near for end in ends)
    if below and above:
        return f"anything from {parameter.low:g} to {parameter.high:g} fits as well: the data do not tell"
    if below or above:
        which, bound, end = ("lower", parameter.low, high) if below else ("upper", parameter.high, low)
        if below and not parameter.ratio and parameter.low == 0.0 and not wide:
            return ""
        if wide:
            return f"anything {'below' if below else 'above'} {end:.4g} fits as well, to the {which} bound, {bound:g}"
        return f"it is at the {which} bound, {bound:g}: widen it, or the model is wrong"
    return f"the interval is {how}: take trials that depend more on it" if wide else ""


@dataclasses.dataclass(frozen=True, eq=False)
class Fit:
    """The result of `stickslip.identify`.

    Attributes:
        estimates: by name of the parameter
        residual: root mean square of what the measurements are off by, over their noise
        floor: what this is for a model that is right: 1, or more where rollouts jump with their parameters
        held_out: residual over noise of the trials that were held out; None: there were none
        held_out_floor: what this is, about, for a model that is right, whose parameters are known as well as the
            intervals say
        physics: the physics, as "name:key=value,..."
        trials, held_out_trials: what was fitted, and what was held out
        predicted, held_out_predicted: what the model measures with the best values, (n, ny) for each trial
        rollouts: number of simulated trials
        lost: how many of them were not finite
        seconds: wall time
        history: the lowest cost after each generation of the search
        mjm: the model
    """

    estimates: Mapping[str, Estimate]
    residual: float
    floor: float
    held_out: float | None
    held_out_floor: float | None
    physics: str
    trials: tuple[Trial, ...]
    held_out_trials: tuple[Trial, ...]
    predicted: tuple[NDArray[np.floating], ...]
    held_out_predicted: tuple[NDArray[np.floating], ...]
    rollouts: int
    lost: int
    seconds: float
    history: tuple[float, ...]
    mjm: mujoco.MjModel = dataclasses.field(repr=False)

    @property
    def values(self) -> dict[str, float]:
        """The best values, by name; see `identified` before you use one."""
        return {name: estimate.value for name, estimate in self.estimates.items()}

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """The intervals, by name."""
        return {name: (estimate.low, estimate.high) for name, estimate in self.estimates.items()}

    @property
    def identified(self) -> dict[str, bool]:
        """Whether the data tell a parameter, by name."""
        return {name: estimate.identified for name, estimate in self.estimates.items()}

    @property
    def explains(self) -> bool:
        """Whether the model explains the measurements."""
        return self.residual <= WRONG * self.floor

    @property
    def carries(self) -> bool:
        """Whether the parameters carry over to the held-out trials; True if there were none."""
        if self.held_out is None or self.held_out_floor is None:
            return True
        return self.held_out <= WORSE * max(self.held_out_floor, self.residual)

    @property
    def verdict(self) -> str:
        """What the residual says of the model."""
        said = f"Residual over noise: {self.residual:.3g}"
        if self.floor > 1.1:
            said += f" (rollouts are rough: a model that is right has {self.floor:.3g})"
        if not self.explains:
            said += (
                f", above {WRONG * self.floor:.3g}: the model is wrong. These parameters make up for a model that does "
                "not fit; do not carry them to another task."
            )
        else:
            said += ": the model explains the measurements."
        if self.held_out is None:
            return said + " There was no test: no trial was held out."
        said += f" Held-out trials: {self.held_out:.3g}"
        if self.held_out_floor is not None and self.held_out_floor > 1.1:
            said += f" (a model that is right has about {self.held_out_floor:.3g})"
        if not self.carries:
            return said + ", much worse than those that were fitted: do not carry the parameters to another task."
        return said + "."

    def __str__(self) -> str:
        return "\n".join([self.verdict, *map(str, self.estimates.values())])

    def model(self) -> mujoco.MjModel:
        """A copy of the model with the best values; raises InputError for what only a physics has."""
        mjm = copy.copy(self.mjm)

        def own(name: str) -> NDArray[Any]:
            if not hasattr(mjm, name):
                raise InputError(f"{name} is no field of a MuJoCo model: use Fit.apply with a simulation")
            return np.array(getattr(mjm, name))[None]

        for name, array in self._written(own).items():
            getattr(mjm, name)[:] = array[0]
        mujoco.mj_setConst(mjm, mujoco.MjData(mjm))
        return mjm

    def apply(self, sim: Simulation) -> None:
        """Give all worlds of a simulation of this model the best values."""
        sim.set_model(**{name: array[0] for name, array in self._written(field_of(sim)).items()})

    def _written(self, own: Callable[[str], NDArray[Any]]) -> dict[str, NDArray[np.floating]]:
        fields = Fields(self.mjm, own, 1)
        for estimate in self.estimates.values():
            estimate.parameter.write(fields, np.array([estimate.value]))
        return fields.arrays

    def plot(self, path: str | os.PathLike[str]) -> Path:
        """Write a picture: profiles of the parameters, and measurements beside predictions; png, pdf or svg."""
        path = Path(path)
        return write_bytes_atomic(path, picture.draw(self, picture.check(path)))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write values, intervals, profiles and residuals as JSON."""
        rows = {
            name: {
                "value": estimate.value,
                "interval": [estimate.low, estimate.high],
                "identified": estimate.identified,
                "reason": estimate.reason,
                "unit": estimate.parameter.unit,
                "bounds": [estimate.parameter.low, estimate.parameter.high],
                "profile": estimate.profile,
            }
            for name, estimate in self.estimates.items()
        }
        told = {
            "physics": self.physics,
            "residual over noise": self.residual,
            "its floor": self.floor,
            "held-out residual over noise": self.held_out,
            "its floor in held-out trials": self.held_out_floor,
            "verdict": self.verdict,
            "parameters": rows,
            "trials": [trial.name for trial in self.trials],
            "held-out trials": [trial.name for trial in self.held_out_trials],
            "rollouts": self.rollouts,
            "rollouts that were not finite": self.lost,
            "seconds": self.seconds,
            "lowest cost": list(self.history),
        }
        return write_json(path, told, flat_lists=True)
