"""Fields of a model per world: which there are, their checks, and writing them in place."""

import dataclasses
import difflib
import math
from collections.abc import Mapping
from typing import Any

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp
from numpy.typing import ArrayLike, NDArray

from stickslip import arrays
from stickslip.errors import InputError
from stickslip.state import MIN_TIMESTEP, as_numbers, check_finite

wp.set_module_options({"enable_backward": False})

_NOT_NEGATIVE = frozenset(
    "body_mass body_inertia geom_friction pair_friction dof_damping dof_armature dof_frictionloss "
    "tendon_frictionloss tendon_damping density viscosity stiffness damping".split()
)


def _per_world_fields(cls: type) -> frozenset[str]:
    return frozenset(
        f.name
        for f in dataclasses.fields(cls)
        if not isinstance(f.type, (str, type)) and tuple(getattr(f.type, "shape", ()) or ())[:1] == ("*",)
    )


MODEL_FIELDS = _per_world_fields(mjw.Model)
OPTION_FIELDS = _per_world_fields(mjw.Option)
WORLD_FIELDS = MODEL_FIELDS | OPTION_FIELDS
"""What can differ between worlds."""
TINY = float(np.finfo(np.float32).tiny)
"""The least of what must be above 0."""


class Limits:
    """What the entries of a parameter of a physics may be; on the current device.

    Args:
        least, most: bounds of each entry, included                        (n,)
        besides: one more value that is allowed; None: none is
        note: ends the error message: what to do
    """

    def __init__(self, least: ArrayLike, most: ArrayLike, *, besides: float | None = None, note: str = "") -> None:
        bounds = np.broadcast_arrays(*np.atleast_1d(least, most))
        self._least, self._most = (np.array(bound, dtype=np.float32) for bound in bounds)
        self.besides = math.nan if besides is None else besides
        self.least, self.most = (wp.array(bound, dtype=float) for bound in (self._least, self._most))
        self._note = f"; {note}" if note else ""

    def check(self, name: str, array: NDArray[Any], shape: tuple[int, ...]) -> None:
        """Raise InputError naming the first entry of an array, (..., *shape), that is beyond."""
        value = array.astype(np.float32)
        least, most = (bound.reshape(shape) for bound in (self._least, self._most))
        bad = np.argwhere(~((value >= least) & (value <= most) | (value == self.besides)))
        if not len(bad):
            return
        index = tuple(int(i) for i in bad[0])
        entry = index[len(index) - len(shape) :]
        low, high = float(least[entry]), float(most[entry])
        where = f"{name}[{', '.join(map(str, index))}]" if index else name
        limit = f"{low:g}" if low == high else f"above 0 up to {high:g}" if low == TINY else f"from {low:g} to {high:g}"
        raise InputError(f"{where} is {array[index]:g}: it must be {limit}{self._note}")


def owner_of(m: mjw.Model, name: str, own: Mapping[str, Any]) -> Any:
    """The object that has a field: the model, its options, or parameters of the physics."""
    if name in own:
        return own[name]
    if name in OPTION_FIELDS:
        return m.opt
    if name in MODEL_FIELDS:
        return m
    close = difflib.get_close_matches(name, sorted({*WORLD_FIELDS, *own}), n=4, cutoff=0.5)
    raise InputError(
        f"{name!r} is not a field that can differ between worlds; close ones: {', '.join(close) or 'none'}"
    )


def widen(owner: Any, name: str, nworld: int) -> wp.array:
    """Give a field one value per world, once; afterwards it is written in place."""
    old = getattr(owner, name)
    if old.shape[0] == nworld and getattr(old, "_is_batched", False):
        return old
    new = wp.array(np.repeat(old.numpy()[:1], nworld, axis=0), dtype=old.dtype, device=old.device)
    new._is_batched = True
    setattr(owner, name, new)
    return new


def smallest(name: str) -> float | None:
    """The smallest value that a field may have; None: any."""
    if name == "timestep":
        return float(np.nextafter(np.float32(MIN_TIMESTEP), np.float32(1.0)))
    return 0.0 if name in _NOT_NEGATIVE else None


def check(name: str, value: Any, old: wp.array, nworld: int, m: mjw.Model, limits: Limits | None = None) -> wp.array:
    """A value of a field as scalars on the device, (1 or nworld, n); raises InputError if it is unfit.

    Values that are on the device already are not looked at.
    """
    shape = arrays.shape_of(old)[1:]
    given = arrays.device_array(name, value, old.device)
    kind = bool if old.dtype is wp.bool else float
    array = np.zeros(0) if given is not None else as_numbers(name, arrays.host_array(value), (nworld, *shape), kind)
    found = arrays.shape_of(given) if given is not None else array.shape
    if found not in (shape, (1, *shape), (nworld, *shape)):
        raise InputError(f"{name} has shape {found}, expected {(nworld, *shape)} (per world) or {shape} (for all)")
    if given is not None:
        return arrays.scalars(given, nworld if found == (nworld, *shape) else 1)
    check_finite(name, array)
    if name == "timestep" and (array <= MIN_TIMESTEP).any():
        raise InputError(f"timestep is {array.min()}: it must be positive, above {MIN_TIMESTEP:g} s")
    if name in _NOT_NEGATIVE and (array < 0).any():
        raise InputError(f"{name} is {array.min()} somewhere: it must not be negative")
    if name in ("body_mass", "body_inertia"):
        _check_inertial(name, array, m)
    if limits is not None:
        limits.check(name, array, shape)
    rows = array.reshape(nworld if found == (nworld, *shape) else 1, -1)
    return wp.array(rows, dtype=wp.bool if old.dtype is wp.bool else wp.float32, device=old.device)


def _check_inertial(name: str, value: NDArray[Any], m: mjw.Model) -> None:
    """Raise InputError unless every moving body, or a body that is welded to it, has mass or inertia, as in MuJoCo."""
    enough = value >= mujoco.mjMINVAL
    enough = enough.all(axis=-1) if name == "body_inertia" else enough
    enough = enough.reshape(-1, m.nbody)
    weldid = m.body_weldid.numpy()
    for body in np.flatnonzero(m.body_dofnum.numpy()):
        if not enough[:, weldid == body].any(axis=1).all():
            least = value[..., body, :].min() if name == "body_inertia" else value[..., body].min()
            raise InputError(
                f"{name} of body {body} is {least:g}: a moving body needs at least {mujoco.mjMINVAL:g}; "
                "scale the model's own value, or make the body static in the model"
            )


@wp.kernel
def _find_moving_mass(
    # Model:
    body_weldid: wp.array[int],
    body_dofnum: wp.array[int],
    # In:
    size: int,
    least: float,
    value: wp.array2d[Any],
    # Out:
    fine_out: wp.array[bool],
):
    """Whether every moving body of a world has mass or inertia, itself or in a body that is welded to it."""
    worldid = wp.tid()
    nbody = body_weldid.shape[0]
    for bodyid in range(nbody):
        if body_dofnum[bodyid] > 0:
            found = bool(False)
            for other in range(bodyid, nbody):
                if body_weldid[other] == bodyid:
                    enough = bool(True)
                    for i in range(size):
                        enough = enough and float(value[worldid % value.shape[0], size * other + i]) >= least
                    found = found or enough
            if not found:
                fine_out[worldid] = False


@wp.kernel
def _find_within(
    # In:
    least: wp.array[float],
    most: wp.array[float],
    besides: float,
    value: wp.array2d[Any],
    # Out:
    fine_out: wp.array[bool],
):
    """Whether every entry of a world is within its limits."""
    worldid = wp.tid()
    for i in range(value.shape[1]):
        number = float(value[worldid % value.shape[0], i])
        if (number < least[i] or number > most[i]) and number != besides:
            fine_out[worldid] = False


for _scalar in (wp.float32, wp.float64):
    wp.overload(
        _find_moving_mass,
        [wp.array[wp.int32], wp.array[wp.int32], int, float, wp.array2d[_scalar], wp.array[wp.bool]],
    )
    wp.overload(
        _find_within, [wp.array[wp.float32], wp.array[wp.float32], float, wp.array2d[_scalar], wp.array[wp.bool]]
    )


def find_fit(
    m: mjw.Model,
    given: Mapping[str, wp.array],
    mask: wp.array | None,
    nworld: int,
    refused: wp.array,
    limits: Mapping[str, Limits],
) -> wp.array:
    """The mask without worlds that were given a value that is not finite or too small, which are counted."""
    fine = wp.full(nworld, True, dtype=bool, device=refused.device)
    for name, value in given.items():
        arrays.find_fit(value, nworld, smallest(name), fine)
        if name in ("body_mass", "body_inertia"):
            size = 3 if name == "body_inertia" else 1
            inputs = [m.body_weldid, m.body_dofnum, size, float(mujoco.mjMINVAL), value]
            wp.launch(_find_moving_mass, nworld, inputs=inputs, outputs=[fine], device=refused.device)
        if name in limits:
            own = limits[name]
            inputs = [own.least, own.most, own.besides, value]
            wp.launch(_find_within, nworld, inputs=inputs, outputs=[fine], device=refused.device)
    arrays.refuse(mask, fine, refused)
    return fine
