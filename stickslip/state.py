"""State: positions, velocities and activations of every world, on the host, in MuJoCo's layout."""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stickslip.errors import InputError

MIN_TIMESTEP = 1e-9
"""Shortest timestep, s: in single precision, time does not advance by much less."""


@dataclasses.dataclass(frozen=True, eq=False)
class State:
    """Positions, velocities and activations of every world; NumPy arrays on the host.

    Attributes:
        time: simulated time, s                          (nworld,)
        qpos: positions, MuJoCo's layout                 (nworld, nq)
        qvel: velocities, MuJoCo's layout                (nworld, nv)
        act: actuator activations                        (nworld, na)
    """

    time: NDArray[np.floating]
    qpos: NDArray[np.floating]
    qvel: NDArray[np.floating]
    act: NDArray[np.floating]

    def check(self, nworld: int, nq: int, nv: int, na: int) -> None:
        """Raise InputError unless every field has its shape and is finite."""
        for name, shape in (("time", (nworld,)), ("qpos", (nworld, nq)), ("qvel", (nworld, nv)), ("act", (nworld, na))):
            check_array(f"state.{name}", getattr(self, name), shape)


def check_array(name: str, value: object, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return `value` as a finite float array of exactly `shape`, or raise InputError."""
    array = as_numbers(name, value, shape)
    if array.shape != shape:
        raise InputError(f"{name} has shape {array.shape}, expected {shape}")
    check_finite(name, array)
    return array


def as_numbers(name: str, value: object, shape: tuple[int, ...], kind: type = float) -> NDArray[Any]:
    """Return `value` as an array of real numbers, of any shape; raise InputError naming the expected one."""
    try:
        array = np.asarray(value)
        if np.iscomplexobj(array):
            raise TypeError("it is complex; give real numbers, such as value.real")
        return array.astype(kind)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers of shape {shape}, got {type(value).__name__}: {error}") from None


def check_finite(name: str, array: NDArray[Any]) -> None:
    """Raise InputError naming the first entry that is NaN, infinite or beyond single precision."""
    bad = np.argwhere(~(np.abs(array) <= np.finfo(np.float32).max))
    if len(bad):
        index = tuple(int(i) for i in bad[0])
        where = f"{name}[{', '.join(map(str, index))}]" if index else name
        raise InputError(f"{where} is {array[index]}: it must be finite, below 3.4e38 ({len(bad)} such entries)")
