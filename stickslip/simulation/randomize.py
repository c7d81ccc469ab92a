"""Random fields of the model, drawn on the device for the worlds in a mask."""

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp
from numpy.typing import ArrayLike, NDArray

from stickslip import arrays
from stickslip.arrays import is_taken
from stickslip.errors import InputError

if TYPE_CHECKING:
    from stickslip.simulation.simulation import Simulation

wp.set_module_options({"enable_backward": False})


@dataclasses.dataclass(frozen=True, eq=False)
class Distribution:
    """Numbers between two bounds, all equally likely.

    Attributes:
        low, high: bounds, one number or one for each entry of the field
        shared: whether all entries of a world get the same draw
    """

    low: ArrayLike
    high: ArrayLike
    shared: bool = False


class Uniform(Distribution):
    """The field itself is between the bounds."""


class Scale(Distribution):
    """The field is the model's own value times a number between the bounds."""


class Offset(Distribution):
    """The field is the model's own value plus a number between the bounds."""


_KINDS = {Uniform: 0, Scale: 1, Offset: 2}


@wp.kernel
def _draw(
    # In:
    mask: wp.array[bool],
    seed: int,
    draws: wp.array[int],
    kind: int,
    group: int,
    shared: bool,
    low: wp.array[float],
    high: wp.array[float],
    nominal: wp.array[float],
    # Out:
    out: wp.array2d[float],
):
    """A number for each entry, or for each group of entries; the same for a seed, world, draw and entry."""
    worldid, i = wp.tid()
    if not is_taken(mask, worldid):
        return
    entry = i / group
    if shared:
        entry = 0
    of_world = wp.rand_init(seed, worldid)
    of_draw = wp.rand_init(wp.randi(of_world), draws[worldid])
    of_entry = wp.rand_init(wp.randi(of_draw), entry)
    number = low[i] + (high[i] - low[i]) * wp.randf(of_entry)
    if kind == 1:
        number = nominal[i] * number
    elif kind == 2:
        number = nominal[i] + number
    out[worldid, i] = number


@wp.kernel
def _count_draws(
    # In:
    mask: wp.array[bool],
    # Out:
    draws_out: wp.array[int],
):
    worldid = wp.tid()
    if is_taken(mask, worldid):
        draws_out[worldid] = draws_out[worldid] + 1


class Randomizer:
    """Draws fields of the model of one simulation.

    Args:
        nworld: number of worlds
        device: where they are
    """

    def __init__(self, nworld: int, device: wp.Device) -> None:
        self._nworld, self._device = nworld, device
        self._draws = wp.zeros(nworld, dtype=int, device=device)
        self._bounds: dict[tuple[Any, ...], tuple[wp.array, wp.array, wp.array]] = {}
        self._drawn: dict[str, wp.array] = {}

    def run(self, sim: "Simulation", mask: wp.array | None, seed: int, fields: Mapping[str, Any]) -> None:
        """See `Simulation.randomize`."""
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
            raise InputError(f"seed is {seed!r}: it must be a whole number")
        wanted = dict(fields)
        mass = wanted.get("body_mass")
        if isinstance(mass, Scale) and "body_inertia" not in wanted:
            wanted["body_inertia"] = mass
        prepared = {
            name: self._prepare(sim, name, value, of_mass=value is mass and name == "body_inertia")
            for name, value in wanted.items()
            if isinstance(value, Distribution)
        }
        for name, (own, low, high, nominal) in prepared.items():
            of_mass = wanted[name] is mass and name == "body_inertia"
            value, key = wanted[name], "body_mass" if of_mass else name
            if name not in self._drawn:
                self._drawn[name] = wp.zeros((self._nworld, *own.shape[1:]), dtype=own.dtype, device=self._device)
            out = arrays.scalars(self._drawn[name], self._nworld)
            inputs = [
                mask,
                int.from_bytes(hashlib.sha256(f"{seed} {key}".encode()).digest()[:4], "little", signed=True),
                self._draws,
                _KINDS[type(value)],
                3 if of_mass else 1,
                value.shared,
                low,
                high,
                nominal,
            ]
            wp.launch(_draw, out.shape, inputs=inputs, outputs=[out], device=self._device)
            wanted[name] = self._drawn[name]
        sim._write_fields(wanted, mask)
        wp.launch(_count_draws, self._nworld, inputs=[mask], outputs=[self._draws], device=self._device)

    def _prepare(
        self, sim: "Simulation", name: str, value: Distribution, of_mass: bool
    ) -> tuple[wp.array, wp.array, wp.array, wp.array]:
        """The field, bounds and the model's own value on the device; uploaded once."""
        if type(value) not in _KINDS:
            raise InputError(f"{name}: give Uniform, Scale or Offset, or an array")
        own = sim.physics.model_field(sim.m, name)
        shape = arrays.shape_of(own)[1:]
        low, high = (
            _bound(name, what, bound, shape, of_mass) for what, bound in (("low", value.low), ("high", value.high))
        )
        if (low > high).any():
            raise InputError(f"{name}: low is {low[low > high][0]:g}, above high, {high[low > high][0]:g}")
        if own.dtype is wp.bool or getattr(own.dtype, "_wp_scalar_type_", own.dtype) is not wp.float32:
            raise InputError(f"{name} is not made of floats: give an array")
        key = (name, low.tobytes(), high.tobytes())
        if key not in self._bounds:
            nominal = _nominal(sim, name, own)
            self._bounds[key] = tuple(
                wp.array(np.ravel(x), dtype=float, device=self._device) for x in (low, high, nominal)
            )  # type: ignore[assignment]
        return own, *self._bounds[key]


def _bound(name: str, what: str, bound: ArrayLike, shape: tuple[int, ...], of_mass: bool) -> NDArray[np.float32]:
    """A bound for each entry of a field."""
    try:
        array = np.asarray(bound, dtype=np.float32)
        if of_mass and array.ndim:
            array = array[..., None]  # of a body, for its three moments
        array = np.broadcast_to(array, shape)
    except (TypeError, ValueError):
        raise InputError(f"{name}: {what} is {bound!r}; give a number, or an array that fits shape {shape}") from None
    if not np.isfinite(array).all():
        raise InputError(f"{name}: {what} is {bound!r}: it must be finite")
    return array


def _nominal(sim: "Simulation", name: str, own: wp.array) -> NDArray[Any]:
    """The model's own value; of a parameter of the physics, that of the first world."""
    for owner in (sim.mjm, sim.mjm.opt):
        if hasattr(owner, name):
            return np.asarray(getattr(owner, name), dtype=float)
    return own.numpy()[:1]
