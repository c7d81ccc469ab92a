"""Physics whose data is MuJoCo Warp's: state, reset, model fields, contacts and health in one place."""

import abc
import contextlib
import dataclasses
import difflib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, TypeVar

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp
from numpy.typing import NDArray

from stickslip.errors import InputError, Unsupported
from stickslip.physics.base import Contacts, Health, Physics
from stickslip.physics.mjwarp.data import Data, find_not_finite, record_peak
from stickslip.physics.mjwarp.health import health_of
from stickslip.physics.mjwarp.touches import TOUCHING, count_touches
from stickslip.state import MIN_TIMESTEP, State, as_numbers, check_finite

ModelT = TypeVar("ModelT", bound=mjw.Model)
DataT = TypeVar("DataT", bound=Data)

# what a step reads from before, besides the model; connects and welds of MuJoCo Warp use the last cvel and cdof_dot
_REMEMBERED = (
    "time qpos qvel act ctrl qfrc_applied xfrc_applied mocap_pos mocap_quat eq_active history plastic userdata "
    "qacc_warmstart cvel cdof_dot overflow peak"
).split()

# model fields from which MuJoCo derives others: masses, inverse weights, tendon lengths, bounds
_CONSTANTS_FOLLOW = frozenset(
    "qpos0 body_mass body_inertia body_ipos body_iquat body_pos body_quat dof_armature tendon_armature "
    "actuator_armature actuator_gear eq_data geom_size cam_pos cam_quat light_pos light_dir".split()
)

# results of a step that are too large to be worth keeping: nobody reads the constraint Jacobian afterwards
_NOT_KEPT = ("efc.J", "efc.J_colind")

_NOT_NEGATIVE = frozenset(
    "body_mass body_inertia geom_friction pair_friction dof_damping dof_armature dof_frictionloss "
    "tendon_frictionloss tendon_damping density viscosity".split()
)


class WarpPhysics(Physics[ModelT, DataT]):
    """A physics that steps MuJoCo Warp's data; subclasses give the model, the data and the step.

    What a physics remembers from step to step is in `d.memory` (see `memory`): it is reset, copied and restored here.
    """

    capturable = True
    rows_are_reported_only: ClassVar[bool] = False
    """Whether constraint rows serve `contacts` and sensors only, so that the motion does not depend on `njmax`."""

    @abc.abstractmethod
    def advance(self, m: ModelT, d: DataT) -> None:
        """Advance every world by its timestep."""

    @abc.abstractmethod
    def allocate(self, mjm: mujoco.MjModel, nworld: int, nconmax: int | None, njmax: int | None) -> DataT:
        """Data with the buffers, the memory and the workspace of this physics: see `Data.extend`."""

    def make_data(
        self, mjm: mujoco.MjModel, nworld: int, *, nconmax: int | None = None, njmax: int | None = None
    ) -> DataT:
        if nworld < 1:
            raise InputError(f"nworld is {nworld}: it must be at least 1")
        for name, value in (("nconmax", nconmax), ("njmax", njmax)):
            if value is not None and value < 1:
                raise InputError(f"{name} is {value}: it must be at least 1")
        d = self.allocate(mjm, nworld, nconmax, njmax)
        d.reset()
        return d

    def step(self, m: ModelT, d: DataT) -> DataT:
        self.advance(m, d)
        record_peak(d)
        return d

    def get_state(self, m: ModelT, d: DataT) -> State:
        return State(*(getattr(d, name).numpy().copy() for name in ("time", "qpos", "qvel", "act")))

    def set_state(self, m: ModelT, d: DataT, state: State) -> DataT:
        state.check(d.nworld, m.nq, m.nv, m.na)
        for name in ("time", "qpos", "qvel", "act"):
            getattr(d, name).assign(np.asarray(getattr(state, name), dtype=np.float32))
        for array in (d.qacc_warmstart, d.cvel, d.cdof_dot, d.overflow):  # as in fresh data
            array.zero_()
        d.memory.clear()
        return d

    def reset(self, m: ModelT, d: DataT, mask: NDArray[np.bool_]) -> DataT:
        mask = np.asarray(mask)
        if mask.shape != (d.nworld,) or mask.dtype != np.bool_:
            raise InputError(f"mask must be bool of shape ({d.nworld},), got {mask.dtype} of shape {mask.shape}")
        d.reset(wp.array(mask, dtype=bool))
        return d

    def set_model(self, m: ModelT, d: DataT, fields: Mapping[str, Any]) -> ModelT:
        new = {}
        for name, value in fields.items():
            target = m.opt if name in _OPTION_FIELDS else m
            if target is m and name not in _MODEL_FIELDS:
                close = difflib.get_close_matches(name, sorted(WORLD_FIELDS), n=4, cutoff=0.5)
                raise InputError(
                    f"{name!r} is not a field that can differ between worlds; close ones: {', '.join(close) or 'none'}"
                )
            old = getattr(target, name)
            shape = _array_shape(old)[1:]
            array = as_numbers(name, value, (d.nworld, *shape), bool if old.dtype is bool else float)
            if array.shape not in (shape, (1, *shape), (d.nworld, *shape)):
                raise InputError(
                    f"{name} has shape {array.shape}, expected {(d.nworld, *shape)} (per world) or {shape} (for all)"
                )
            check_finite(name, array)
            if name == "timestep" and (array <= MIN_TIMESTEP).any():
                raise InputError(f"timestep is {array.min()}: it must be positive, above {MIN_TIMESTEP:g} s")
            if name in _NOT_NEGATIVE and (array < 0).any():
                raise InputError(f"{name} is {array.min()} somewhere: it must not be negative")
            if name in ("body_mass", "body_inertia"):
                _check_inertial(name, array, m)
            array = array if array.ndim > len(shape) else array[None]
            new[name] = (target, wp.array(array, dtype=old.dtype))
        for name, (target, array) in new.items():
            array._is_batched = True
            setattr(target, name, array)
        if _CONSTANTS_FOLLOW & new.keys():
            _widen_derived(m, d.nworld)
            mjw.set_const(m, d)
        return m

    def arrays(self, m: ModelT, d: DataT) -> Mapping[str, wp.array]:
        return {**{name: getattr(d, name) for name in _REMEMBERED}, **d.memory.arrays()}

    def results(self, m: ModelT, d: DataT) -> Mapping[str, wp.array]:
        found = {}
        for owner, prefix in ((d, ""), (d.contact, "contact."), (d.efc, "efc.")):
            for field in dataclasses.fields(owner):
                value, name = getattr(owner, field.name), prefix + field.name
                if isinstance(value, wp.array) and value.size and name not in (*_REMEMBERED, *_NOT_KEPT):
                    found[name] = value
        return found

    def contact_count(self, m: ModelT, d: DataT) -> int:
        return count_touches(d)

    def contacts(self, m: ModelT, d: DataT) -> Contacts:
        n = min(int(d.nacon.numpy()[0]), d.naconmax)
        force = wp.zeros(n, dtype=wp.spatial_vector)
        mjw.contact_force(m, d, wp.array(np.arange(n), dtype=int), False, force)
        c = d.contact
        kept = (c.type.numpy()[:n] & int(TOUCHING)) != 0  # the others are near, or serve distance sensors
        return Contacts(
            world=c.worldid.numpy()[:n][kept],
            geom=c.geom.numpy()[:n][kept],
            dist=c.dist.numpy()[:n][kept],
            pos=c.pos.numpy()[:n][kept],
            frame=c.frame.numpy()[:n][kept],
            force=force.numpy()[kept],
        )

    def health(self, m: ModelT, d: DataT) -> Health:
        return health_of(d, find_not_finite(d), self.rows_are_reported_only)


def _array_shape(array: wp.array) -> tuple[int, ...]:
    """Shape with the components of vector and matrix types as trailing axes."""
    return tuple(array.shape) + tuple(getattr(array.dtype, "_shape_", ()))


def _per_world_fields(cls: type) -> frozenset[str]:
    return frozenset(
        f.name
        for f in dataclasses.fields(cls)
        if not isinstance(f.type, (str, type)) and tuple(getattr(f.type, "shape", ()) or ())[:1] == ("*",)
    )


_MODEL_FIELDS = _per_world_fields(mjw.Model)
_OPTION_FIELDS = _per_world_fields(mjw.Option)
WORLD_FIELDS = _MODEL_FIELDS | _OPTION_FIELDS
"""What can differ between worlds."""
_DERIVED = (
    "body_subtreemass body_invweight0 dof_invweight0 tendon_invweight0 tendon_length0 actuator_acc0 geom_aabb "
    "geom_rbound eq_data cam_pos0 cam_poscom0 cam_mat0 light_pos0 light_poscom0 light_dir0"
).split()


def _widen_derived(m: mjw.Model, nworld: int) -> None:
    """Expand derived fields to one value per world, so that MuJoCo Warp's set_const can fill them."""
    for name in _DERIVED:
        old = getattr(m, name)
        if old.shape[0] == 1 and nworld > 1:
            setattr(m, name, wp.array(np.repeat(old.numpy(), nworld, axis=0), dtype=old.dtype))
            getattr(m, name)._is_batched = True


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


@contextlib.contextmanager
def naming_unsupported(physics: str, features: list[str]) -> Iterator[None]:
    """Raise Unsupported naming every feature given, or what MuJoCo Warp says inside that it does not implement."""
    if features:
        raise Unsupported(f"{physics} does not support: " + "; ".join(features))
    try:
        yield
    except NotImplementedError as error:
        raise Unsupported(f"{physics} does not support: {error}") from None
