"""ComFree's model: the model of a row-free physics with ComFree's parameters."""

import dataclasses
from collections.abc import Iterable
from typing import ClassVar

import mujoco
import numpy as np
import warp as wp

from stickslip.errors import InputError
from stickslip.physics.mjwarp import data as warp_data
from stickslip.physics.mjwarp import model as rowfree
from stickslip.physics.mjwarp.data import extended

DEFAULT_STIFFNESS = 0.2
DEFAULT_DAMPING = 0.001


@dataclasses.dataclass
class Parameters:
    """What ComFree adds to a model; the arrays may be written to at any time.

    Attributes:
        stiffness: k_user, one value or one per world          (*,)
        damping: d_user, one value or one per world            (*,)
        smoothing: sharpness of the softplus, 1/N; 0 for the hard max(0, .)
        exact: whether contacts use the exact diagonal (10)
        tangential: gain of a contact along the surface over that along its normal; None: facets, (8)
    """

    stiffness: wp.array
    damping: wp.array
    smoothing: float
    exact: bool
    tangential: float | None


@dataclasses.dataclass
class Model(rowfree.Model):
    """MuJoCo Warp's model with ComFree's parameters; every MuJoCo Warp function takes it.

    Attributes:
        comfree: ComFree's parameters
    """

    comfree: Parameters


@dataclasses.dataclass
class Data(warp_data.Data):
    """MuJoCo Warp's data; rows are made for those who read them."""

    rows_are_reported_only: ClassVar[bool] = True


def impedance_values(name: str, value: float | Iterable[float]) -> tuple[float, ...]:
    """A stiffness or damping, one or one per world, as floats; raises InputError unless finite and not negative."""
    try:
        array = np.atleast_1d(np.asarray(value, dtype=float))
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a number or one number per world, got {value!r}") from None
    if array.ndim != 1 or array.size == 0:
        raise InputError(f"{name} has shape {array.shape}: give one number, or one per world as shape (nworld,)")
    bad = np.flatnonzero(~(np.isfinite(array) & (array >= 0.0)))
    if bad.size:
        where = f"{name}[{bad[0]}]" if array.size > 1 else name
        default = {"stiffness": DEFAULT_STIFFNESS, "damping": DEFAULT_DAMPING}[name]
        raise InputError(f"{where} is {array[bad[0]]}: it must be finite and at least 0; the default is {default}")
    return tuple(float(v) for v in array)


def put_model(
    mjm: mujoco.MjModel,
    batch_sizes: dict[str, int] | None = None,
    *,
    stiffness: float | Iterable[float] = DEFAULT_STIFFNESS,
    damping: float | Iterable[float] = DEFAULT_DAMPING,
    exact: bool = False,
    smoothing: float = 0.0,
    tangential: float | None = None,
) -> Model:
    """MuJoCo Warp's model on the current device, with ComFree's parameters."""
    k = impedance_values("stiffness", stiffness)
    d = impedance_values("damping", damping)
    parameters = Parameters(
        stiffness=wp.array(k, dtype=float),
        damping=wp.array(d, dtype=float),
        smoothing=smoothing,
        exact=exact,
        tangential=tangential,
    )
    base = rowfree.put_model(rowfree.with_all_points(mjm), batch_sizes)
    return extended(Model, base, comfree=parameters)
