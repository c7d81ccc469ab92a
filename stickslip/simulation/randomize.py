"""Random fields of the model, drawn on the device for the worlds in a mask."""

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
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
WARP = 32
"""Threads that share a field of a world on CUDA."""
WARPS = 4
"""Warps that share the fields of a world on CUDA."""


@wp.struct
class Field:
    """What is drawn for a field: bounds and the model's own value, (3, size), and the array, (nworld, size)."""

    kind: int
    seed: int
    shared: int
    group: int  # entries that get the same number
    size: int
    bounds: wp.uint64
    out: wp.uint64


@wp.kernel
def _draw_fields(
    # In:
    nworld: int,
    nwarp: int,
    nlane: int,
    mask: wp.array[bool],
    fields: wp.array[Field],
    # Out:
    draws_out: wp.array3d[int],
):
    """A number for each entry, or for each group of entries; the same for a seed, world, draw and entry."""
    worldid, first, lane = wp.tid()
    if not is_taken(mask, worldid):
        return
    draw = draws_out[worldid, first, lane]  # each thread counts for itself
    draws_out[worldid, first, lane] = draw + 1
    for k in range(first, fields.shape[0], nwarp):
        field = fields[k]
        bounds = wp.array(ptr=field.bounds, shape=(3, field.size), dtype=float)
        out = wp.array(ptr=field.out, shape=(nworld, field.size), dtype=float)
        of_world = wp.rand_init(field.seed, worldid)
        of_draw = wp.rand_init(wp.randi(of_world), draw)
        seed = wp.randi(of_draw)
        for i in range(lane, field.size, nlane):
            entry = i / field.group
            if field.shared != 0:
                entry = 0
            of_entry = wp.rand_init(seed, entry)
            number = bounds[0, i] + (bounds[1, i] - bounds[0, i]) * wp.randf(of_entry)
            if field.kind == 1:
                number = bounds[2, i] * number
            elif field.kind == 2:
                number = bounds[2, i] + number
            out[worldid, i] = number


@dataclasses.dataclass(frozen=True, eq=False)
class _Plan:
    """Fields that are drawn together, prepared on the device.

    Attributes:
        m, d: the model and the data for which it is prepared
        out: arrays that are written, by name: the model's, or others whose values `set_model` takes
        bounds: bounds and the model's own values, which the table points to
        table: what the kernel reads
        changed: what to call after a draw into the model's arrays; None: they are others
    """

    m: Any
    d: Any
    out: dict[str, wp.array]
    bounds: list[wp.array]
    table: wp.array
    changed: Callable[[wp.array | None], None] | None

    def fits(self, sim: "Simulation") -> bool:
        """Whether the simulation still has the model, the data and the arrays."""
        if self.m is not sim._m or self.d is not sim.d:
            return False
        return self.changed is None or all(
            sim.physics.model_field(self.m, name) is array for name, array in self.out.items()
        )


class Randomizer:
    """Draws fields of the model of one simulation.

    Args:
        nworld: number of worlds
        device: where they are
    """

    def __init__(self, nworld: int, device: wp.Device) -> None:
        self._nworld, self._device = nworld, device
        self._nwarp, self._nlane = (WARPS, WARP) if device.is_cuda else (1, 1)
        self._draws = wp.zeros((nworld, self._nwarp, self._nlane), dtype=int, device=device)
        self._nominal: dict[str, NDArray[np.float32]] = {}
        self._plans: dict[Any, _Plan] = {}

    def run(self, sim: "Simulation", mask: wp.array | None, seed: int, fields: Mapping[str, Any]) -> None:
        """See `Simulation.randomize`."""
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
            raise InputError(f"seed is {seed!r}: it must be a whole number")
        drawn = {name: value for name, value in fields.items() if isinstance(value, Distribution)}
        given = {name: value for name, value in fields.items() if name not in drawn}
        mass = drawn.get("body_mass")
        if isinstance(mass, Scale) and "body_inertia" not in fields:
            drawn["body_inertia"] = mass
        asked = tuple(
            (name, type(value), value.shared, _hashable(value.low), _hashable(value.high), value is mass)
            for name, value in drawn.items()
        )
        key = (int(seed), not given, asked)
        plan = self._plans.get(key)
        if plan is None or not plan.fits(sim):
            if self._device.is_capturing:
                raise InputError("randomize these fields once like this before you capture it: arrays are made then")
            plan = self._plans[key] = self._prepare(sim, int(seed), drawn, in_place=not given)
        inputs = [self._nworld, self._nwarp, self._nlane, mask, plan.table]
        wp.launch(_draw_fields, self._draws.shape, inputs=inputs, outputs=[self._draws], device=self._device)
        if plan.changed is not None:
            plan.changed(mask)
        else:
            sim._write_fields({**plan.out, **given}, mask)

    def _prepare(self, sim: "Simulation", seed: int, drawn: Mapping[str, Distribution], in_place: bool) -> _Plan:
        """Check what may be drawn, and put it on the device."""
        physics, m, mass = sim.physics, sim._m, drawn.get("body_mass")
        fields, ends = {}, {}
        for name, value in drawn.items():
            own = physics.model_field(m, name)
            of_mass = value is mass and name == "body_inertia"
            bounds = self._bounds(sim, name, value, own, of_mass)
            ends[name] = _ends(value, bounds).reshape(2, *arrays.shape_of(own)[1:])
            field = Field()
            field.kind, field.shared, field.group = _KINDS[type(value)], int(value.shared), 3 if of_mass else 1
            words = f"{seed} {'body_mass' if of_mass else name}"
            field.seed = int.from_bytes(hashlib.sha256(words.encode()).digest()[:4], "little", signed=True)
            field.size = bounds.shape[1]
            fields[name] = (field, wp.array(bounds, dtype=float, device=self._device))
        try:
            for end in (0, 1):
                physics.check_fields(m, {name: values[end] for name, values in ends.items()}, self._nworld)
        except InputError as error:
            raise InputError(f"{error}. The bounds allow this value: change low or high") from None
        changed = physics.in_place(m, sim.d, tuple(drawn)) if in_place else None
        if changed is not None:  # for no world: they become one per world, and what follows from them is prepared
            nobody = wp.zeros(self._nworld, dtype=bool, device=self._device)
            sim._write_fields({name: values[0] for name, values in ends.items()}, nobody)
            out = {name: physics.model_field(sim._m, name) for name in drawn}
        else:
            like = {name: physics.model_field(m, name) for name in drawn}
            out = {name: wp.zeros((self._nworld, *a.shape[1:]), a.dtype, self._device) for name, a in like.items()}
        for name, (field, bounds) in fields.items():
            field.bounds, field.out = wp.uint64(bounds.ptr or 0), wp.uint64(out[name].ptr or 0)
        rows = [field for field, _ in fields.values()]
        table = wp.array(rows, dtype=Field, device=self._device) if rows else wp.zeros(0, Field, self._device)
        return _Plan(sim._m, sim.d, out, [bounds for _, bounds in fields.values()], table, changed)

    def _bounds(
        self, sim: "Simulation", name: str, value: Distribution, own: wp.array, of_mass: bool
    ) -> NDArray[np.float32]:
        """Low, high and the model's own value of each entry, (3, n)."""
        if type(value) not in _KINDS:
            raise InputError(f"{name}: give Uniform, Scale or Offset, or an array")
        shape = arrays.shape_of(own)[1:]
        low, high = (
            _bound(name, what, bound, shape, of_mass) for what, bound in (("low", value.low), ("high", value.high))
        )
        if (low > high).any():
            raise InputError(
                f"{name}: low is {low[low > high][0]:g}, above high, {high[low > high][0]:g}; swap them, or raise high"
            )
        if own.dtype is wp.bool or getattr(own.dtype, "_wp_scalar_type_", own.dtype) is not wp.float32:
            raise InputError(f"{name} is not made of floats: give an array")
        if name not in self._nominal:
            self._nominal[name] = np.asarray(_nominal(sim, name, own), dtype=np.float32)
        return np.stack([np.ravel(x) for x in (low, high, self._nominal[name])])


def _hashable(bound: ArrayLike) -> Any:
    """A bound as part of a key."""
    if isinstance(bound, (int, float)):
        return bound
    try:
        array = np.asarray(bound, dtype=np.float32)
    except (TypeError, ValueError):
        return repr(bound)  # which `_bound` refuses
    return array.shape, array.tobytes()


def _ends(value: Distribution, bounds: NDArray[np.float32]) -> NDArray[np.float32]:
    """The smallest and the largest value that each entry can get, (2, n)."""
    ends, own = bounds[:2], bounds[2]
    with np.errstate(over="ignore"):  # infinite ones are refused
        if isinstance(value, Scale):
            ends = ends * own
        elif isinstance(value, Offset):
            ends = ends + own
    return np.stack([ends.min(axis=0), ends.max(axis=0)])


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
