"""What a parameter is: bounds, and how it is written into worlds. Objects of a model by name."""

import abc
import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.errors import InputError, unknown

_OBJECTS = {
    "geom": (mujoco.mjtObj.mjOBJ_GEOM, "ngeom"),
    "body": (mujoco.mjtObj.mjOBJ_BODY, "nbody"),
    "joint": (mujoco.mjtObj.mjOBJ_JOINT, "njnt"),
    "actuator": (mujoco.mjtObj.mjOBJ_ACTUATOR, "nu"),
    "pair": (mujoco.mjtObj.mjOBJ_UNKNOWN, "npair"),
}


class Fields:
    """Fields of the model for some worlds, written in place.

    Args:
        mjm: the model
        base: gives a field of the simulation's model, (1 or nworld, ...), by name
        count: number of rows
    """

    def __init__(self, mjm: mujoco.MjModel, base: Callable[[str], NDArray[Any]], count: int) -> None:
        self.mjm, self.count, self._base = mjm, count, base
        self.arrays: dict[str, NDArray[np.floating]] = {}

    def __getitem__(self, name: str) -> NDArray[np.floating]:
        """A field to write to, (count, ...), at first with the model's own values."""
        if name not in self.arrays:
            own = self._base(name)[:1].astype(float)
            self.arrays[name] = np.repeat(own, self.count, axis=0)
        return self.arrays[name]


@dataclasses.dataclass(frozen=True)
class Parameter(abc.ABC):
    """A number to identify, between two bounds.

    Attributes:
        low, high: bounds, in the unit of the parameter
        unit: SI unit; empty if it has none
    """

    low: float
    high: float
    unit: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float, np.floating, np.integer)):
                raise InputError(f"{name} of {self.name} is {value!r}: it must be a number")
            if not math.isfinite(value):
                raise InputError(f"{name} of {self.name} is {value}: a bound must be finite")
        if not self.low < self.high:
            raise InputError(f"bounds of {self.name} are {self.low:g} to {self.high:g}: the first must be the smaller")
        if self.ratio and self.low <= 0.0:
            raise InputError(
                f"{self.name} is searched by its logarithm, from {self.low:g} on: the lower bound must be above 0, "
                "such as a thousandth of the upper one"
            )

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """What it is and of what, as in messages and results."""

    @property
    def ratio(self) -> bool:
        """Whether ratios count, not differences: it is searched by its logarithm."""
        return True

    @abc.abstractmethod
    def check(self, mjm: mujoco.MjModel) -> None:
        """Raise InputError unless the model has it."""

    @abc.abstractmethod
    def write(self, fields: Fields, values: NDArray[np.floating]) -> None:
        """Write one value for each row of the fields."""


def find(mjm: mujoco.MjModel, kind: str, name: str) -> int:
    """Number of an object of the model; raises InputError, with close names, if there is none."""
    objects, count = _OBJECTS[kind]
    found = mujoco.mj_name2id(mjm, objects, name)
    if found < 0:
        names = [mujoco.mj_id2name(mjm, objects, i) for i in range(getattr(mjm, count))]
        raise unknown(kind, name, [other for other in names if other])
    return found


def geoms(mjm: mujoco.MjModel, of: str | Iterable[str] | None) -> list[int]:
    """Numbers of geoms: those named, all of the bodies named, or all there are."""
    if of is None:
        return list(range(mjm.ngeom))
    found: list[int] = []
    for name in (of,) if isinstance(of, str) else tuple(of):
        body = mujoco.mj_name2id(mjm, mujoco.mjtObj.mjOBJ_BODY, name)
        if body >= 0:
            first, count = int(mjm.body_geomadr[body]), int(mjm.body_geomnum[body])
            if not count:
                raise InputError(f"body {name!r} has no geom; name another body, or a geom")
            found += range(first, first + count)
        else:
            try:
                found.append(find(mjm, "geom", name))
            except InputError as error:
                raise InputError(
                    f"neither a body nor a geom is named {name!r}: {error}; name one of the model"
                ) from None
    return list(dict.fromkeys(found))


def put(parameter: Parameter, low: float, high: float, **values: Any) -> None:
    """Give a frozen parameter its values, and check them."""
    for name, value in {"low": low, "high": high, **values}.items():
        object.__setattr__(parameter, name, value)
    parameter.__post_init__()
