"""Physics whose data is MuJoCo Warp's: state, reset, model fields, contacts and health in one place."""

import abc
import contextlib
import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, ClassVar, TypeVar

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp
from numpy.typing import NDArray

from stickslip import arrays, compilation
from stickslip.errors import InputError, StickslipError, Unsupported
from stickslip.physics.base import Contacts, GrowingPhysics, Health, StagedPhysics
from stickslip.physics.contacts import DeviceContacts
from stickslip.physics.mjwarp import device_contacts, enlarge, sizes, stages
from stickslip.physics.mjwarp.constants import Constants
from stickslip.physics.mjwarp.data import Data, find_not_finite, record_peak
from stickslip.physics.mjwarp.derive import DERIVED, GROUPS, UNPREPARED
from stickslip.physics.mjwarp.fields import MODEL_FIELDS, OPTION_FIELDS, Limits, check, find_fit, owner_of, widen
from stickslip.physics.mjwarp.friction import check_frictionloss
from stickslip.physics.mjwarp.health import health_of
from stickslip.physics.mjwarp.touches import count_touches
from stickslip.readout import readout
from stickslip.state import ENTRIES, INTEGRATION, SHARED, State, parts_of

ModelT = TypeVar("ModelT", bound=mjw.Model)
DataT = TypeVar("DataT", bound=Data)

# what a step reads from before, besides the model; connects and welds of MuJoCo Warp use the last cvel and cdof_dot
_REMEMBERED = (
    "time qpos qvel act ctrl qfrc_applied xfrc_applied mocap_pos mocap_quat eq_active history plastic userdata "
    "qacc_warmstart cvel cdof_dot overflow peak"
).split()

# results of a step that are too large to be worth keeping: nobody reads the constraint Jacobian afterwards
_NOT_KEPT = ("efc.J", "efc.J_colind")

_ALWAYS = ("time", "qpos", "qvel", "act")
_FORGET = "take state.without_memory()"
# what a physics that finds poses only does not compute
_NOT_POSES = frozenset("cvel qacc sensordata actuator_force actuator_length actuator_velocity".split())


class WarpPhysics(GrowingPhysics[ModelT, DataT]):
    """A physics that steps MuJoCo Warp's data; subclasses give the model, the data and the step.

    What a physics remembers from step to step is in `d.memory` (see `memory`): it is reset, copied and restored here.
    """

    capturable = True
    reads_weights: ClassVar[bool] = True
    """Whether a step reads inverse weights; if not, they are found only when somebody reads the model."""
    rows_are_reported_only: ClassVar[bool] = False
    """Whether constraint rows serve `contacts` and sensors only, so that the motion does not depend on `njmax`."""
    records_peak: ClassVar[bool] = False
    """Whether `advance` records the largest numbers of contacts, geom pairs and rows itself."""

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
        if nconmax is None or njmax is None:
            usual = self.default_sizes(mjm)
            nconmax, njmax = (usual[0] if nconmax is None else nconmax), (usual[1] if njmax is None else njmax)
        d = self.allocate(mjm, nworld, nconmax, njmax)
        d.forget()
        d.reset()
        return d

    def default_sizes(self, mjm: mujoco.MjModel) -> tuple[int | None, int | None]:
        """The sizes of buffers, (nconmax, njmax), where none are given; None: `allocate` has one of its own."""
        return sizes.default_sizes(mjm)

    def growable(self, *, contacts: bool, rows: bool) -> int:
        return (sizes.CONTACT_BITS if contacts else 0) | (sizes.ROW_BITS if rows else 0)

    def buffer_sizes(self, m: ModelT, d: DataT) -> tuple[int, int]:
        return d.naconmax // d.nworld, d.njmax

    def needed_sizes(self, m: ModelT, d: DataT, bits: int) -> tuple[int, int]:
        ncon, npair, nefc = (int(v) for v in d.peak.numpy())
        nconmax, njmax = self.buffer_sizes(m, d)
        if bits & sizes.CONTACT_BITS:
            nconmax = sizes.enlarged(nconmax, max(ncon, npair) / d.nworld)
        if bits & sizes.ROW_BITS:
            njmax = sizes.enlarged(njmax, nefc)
        return nconmax, njmax

    def adopt(self, m: ModelT, d: DataT, larger: DataT) -> DataT:
        larger.constants = d.constants
        enlarge.adopt(d, larger, self.arrays(m, d), self.arrays(m, larger))
        return d

    def step(self, m: ModelT, d: DataT) -> DataT:
        self.advance(m, d)
        if not self.records_peak:
            record_peak(d)
        return d

    def get_state(self, m: ModelT, d: DataT, signature: int = INTEGRATION) -> State:
        own = d.parts()
        parts = {name: wp.clone(own[name]) for name in parts_of(signature)}
        with_memory = "qacc_warmstart" in parts
        memory = {name: wp.clone(array) for name, array in d.remembered().items()} if with_memory else {}
        return State(**{**dict.fromkeys(_ALWAYS), **parts}, memory=memory, physics=self.name if with_memory else "")

    def set_state(self, m: ModelT, d: DataT, state: State, mask: wp.array | None = None) -> DataT:
        parts = {name: arrays.like(f"state.{name}", part, d.parts()[name]) for name, part in state.parts.items()}
        memory = self._memory(d, state)
        d.set_parts(parts, mask)
        if memory:
            d.set_memory(memory, mask)
        return d

    def _memory(self, d: DataT, state: State) -> dict[str, wp.array]:
        """The memory of a state on the device; none if it is of another physics."""
        if not state.memory or state.physics != self.name:
            return {}
        own, memory = d.remembered(), {}
        if own.keys() != state.memory.keys():
            names = ", ".join(sorted(own.keys() ^ state.memory.keys()))
            raise InputError(f"the memory of the state is of another version of {self.name}: {names}; {_FORGET}")
        for name, array in own.items():
            rows = None if name.startswith(ENTRIES) else (array.shape[0],) if name.startswith(SHARED) else (1, d.nworld)
            if name in (f"{ENTRIES}adr", f"{ENTRIES}num"):
                rows = (1, d.nworld)
            memory[name] = arrays.rows_like(f"state.memory[{name!r}]", state.memory[name], array, rows)
        return memory

    def reset(self, m: ModelT, d: DataT, mask: wp.array | None = None) -> DataT:
        d.reset(mask)
        return d

    def parameters_per_world(self, m: ModelT) -> Mapping[str, Any]:
        """Parameters of the physics that can differ between worlds: names, and the objects that have the arrays."""
        return {}

    def limits(self, m: ModelT) -> Mapping[str, Limits]:
        """Limits of such parameters by name; without them, any finite number will do."""
        return {}

    def friction_dofs(self, m: ModelT) -> NDArray[np.integer] | None:
        """The only dofs that can have dry friction, of a physics that lays out its rows once; None: all can."""
        return None

    def check_fields(self, m: ModelT, fields: Mapping[str, Any], nworld: int) -> Mapping[str, wp.array]:
        limits = self.limits(m)
        given = {
            name: check(name, value, self.model_field(m, name), nworld, m, limits.get(name))
            for name, value in fields.items()
        }
        dofs = self.friction_dofs(m)
        if dofs is not None and "dof_frictionloss" in fields:
            check_frictionloss(m, fields["dof_frictionloss"], dofs)
        return given

    def set_model(
        self,
        m: ModelT,
        d: DataT,
        fields: Mapping[str, Any],
        mask: wp.array | None = None,
        refused: wp.array | None = None,
    ) -> ModelT:
        refused = wp.zeros(1, dtype=int) if refused is None else refused
        given = self.check_fields(m, fields, d.nworld)
        if DERIVED.keys() & fields.keys():
            self.complete(m, d)  # not later, over what is written now
        seen = [name for name, value in fields.items() if arrays.device_array(name, value, d.qpos.device) is not None]
        if seen:
            mask = find_fit(m, {name: given[name] for name in seen}, mask, d.nworld, refused, self.limits(m))
        own = self.parameters_per_world(m)
        for name, value in given.items():
            arrays.put(name, widen(owner_of(m, name, own), name, d.nworld), value, refused, mask)
        self._derive(m, d, given, mask)
        return m

    def _derive(self, m: ModelT, d: DataT, names: Collection[str], mask: wp.array | None) -> None:
        """Find again what MuJoCo derives from fields."""
        if GROUPS.keys() & names:
            if d.constants is None:
                if d.qpos.device.is_capturing:
                    raise InputError(UNPREPARED)
                d.constants = Constants(d.mjm, d.nworld, self.reads_weights)
            d.constants.update(m, names, mask)

    def in_place(self, m: ModelT, d: DataT, names: Collection[str]) -> Callable[[wp.array | None], None] | None:
        if DERIVED.keys() & names:
            return None
        return lambda mask: self._derive(m, d, names, mask)

    def complete(self, m: ModelT, d: DataT) -> None:
        if d.constants is not None:
            d.constants.complete(m)

    def model_field(self, m: ModelT, name: str) -> wp.array:
        return getattr(owner_of(m, name, self.parameters_per_world(m)), name)

    def captured(self, m: ModelT) -> tuple[Any, ...]:
        own = self.parameters_per_world(m)
        owners = [(m, MODEL_FIELDS), (m.opt, OPTION_FIELDS), *((owner, (name,)) for name, owner in own.items())]
        return tuple(getattr(owner, name).ptr for owner, names in owners for name in names)

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
        found = self.make_contacts(m, d)
        self.fill_contacts(m, d, found)
        return found.numpy()

    def make_contacts(self, m: ModelT, d: DataT) -> DeviceContacts:
        own = type(self)
        if own.contacts is not WarpPhysics.contacts and own.fill_contacts is WarpPhysics.fill_contacts:
            return super().make_contacts(m, d)  # its contacts are not those of MuJoCo Warp's data
        return DeviceContacts.make(d.naconmax, d.nworld)

    def fill_contacts(self, m: ModelT, d: DataT, out: DeviceContacts) -> None:
        device_contacts.fill_contacts(m, d, out)

    def forward(self, m: ModelT, d: DataT) -> DataT:
        with compilation.unchanged(self.arrays(m, d)):
            self.observe(m, d)
        return d

    def observe(self, m: ModelT, d: DataT) -> None:
        """Results of a step from the present state: poses, sensors, contacts. `forward` then restores `arrays`."""
        if self.promises.poses_only:
            stages.find_poses(m, d)
        elif isinstance(self, StagedPhysics):
            for _, stage in self.stages(m, d)[:-1]:
                stage()
        else:
            self.advance(m, d)

    @readout
    def kinematics(self, m: ModelT, d: DataT, worlds: wp.array | None = None) -> None:
        from stickslip.physics.mjwarp.kinematics import find_kinematics

        find_kinematics(m, d, poses_only=self.promises.poses_only, worlds=worlds)  # type: ignore[arg-type]

    def field(self, m: ModelT, d: DataT, name: str) -> wp.array | None:
        found = getattr(d, name, None)
        hidden = self.promises.poses_only and name in _NOT_POSES
        return found if isinstance(found, wp.array) and not hidden else None

    def health(self, m: ModelT, d: DataT) -> Health:
        return health_of(d, find_not_finite(d), self.rows_are_reported_only)


_CURES = {
    "mjSOL": "use the solver Newton or CG",
    "Dense": "use jacobian auto or sparse",
    "Newton solver": "use the solver Newton",
    "mjENBL": "clear that flag",
    "mjDSBL": "clear that flag",
    "noslip": "set noslip_iterations to 0, or use another integrator",
    "plugin": "remove the plugin",
}
"""What to do about what MuJoCo Warp refuses, by a word of its message."""


@contextlib.contextmanager
def naming_unsupported(physics: str, features: list[str]) -> Iterator[None]:
    """Raise Unsupported naming every feature given, or what MuJoCo Warp says inside that it does not implement."""
    if features:
        raise Unsupported(f"{physics} does not support: " + "; ".join(features))
    try:
        yield
    except StickslipError:
        raise
    except (NotImplementedError, ValueError) as error:
        cure = next((cure for word, cure in _CURES.items() if word in str(error)), None)
        if cure is None and isinstance(error, ValueError):  # of an argument, such as batch_sizes
            raise InputError(f"{physics}: {error}") from None
        raise Unsupported(
            f"{physics} does not support: {str(error).rstrip('.')} ({cure or 'change the model'})"
        ) from None
