"""Physics whose data is MuJoCo Warp's: state, reset, model fields, contacts and health in one place."""

import abc
import contextlib
import dataclasses
import difflib
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp
from numpy.typing import NDArray

from stickslip.errors import InputError, Unsupported
from stickslip.physics.base import Contacts, Health, StagedPhysics
from stickslip.physics.mjwarp_private import ContactType
from stickslip.state import MIN_TIMESTEP, State, check_finite

wp.set_module_options({"enable_backward": False})

ModelT = TypeVar("ModelT", bound=mjw.Model)

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

_NOT_NEGATIVE = frozenset(
    "body_mass body_inertia geom_friction pair_friction dof_damping dof_armature dof_frictionloss "
    "tendon_frictionloss tendon_damping density viscosity".split()
)


@dataclasses.dataclass
class Data(mjw.Data):
    """MuJoCo Warp's data, with where each world starts and the most that buffers ever held.

    Attributes:
        start: state and inputs of a world at the start (host)
        peak: most contacts and geom pairs of all worlds, most rows of a world       (3,)
    """

    start: mujoco.MjData
    peak: wp.array


@wp.kernel
def _record_peak(
    # Data in:
    nacon_in: wp.array[int],
    ncollision_in: wp.array[int],
    nefc_in: wp.array[int],
    # Out:
    peak_out: wp.array[int],
):
    worldid = wp.tid()
    if worldid == 0:
        wp.atomic_max(peak_out, 0, nacon_in[0])
        wp.atomic_max(peak_out, 1, ncollision_in[0])
    if nefc_in[worldid] > peak_out[2]:
        wp.atomic_max(peak_out, 2, nefc_in[worldid])


def record_peak(d: Data) -> None:
    """Remember the most contacts, pairs and rows that there ever were."""
    wp.launch(_record_peak, dim=d.nworld, inputs=[d.nacon, d.ncollision, d.nefc], outputs=[d.peak])


@wp.kernel
def _reset_row(
    # In:
    mask: wp.array[bool],
    start: wp.array[float],
    # Out:
    value_out: wp.array2d[float],
):
    worldid, i = wp.tid()
    if mask[worldid]:
        value_out[worldid, i] = start[i]


@wp.kernel
def _reset_counts(
    # In:
    mask: wp.array[bool],
    eq_active0: wp.array[bool],
    # Data out:
    eq_active_out: wp.array2d[bool],
    ne_out: wp.array[int],
    nf_out: wp.array[int],
    nl_out: wp.array[int],
    nefc_out: wp.array[int],
    overflow_out: wp.array[int],
):
    worldid = wp.tid()
    if mask[worldid]:
        for i in range(eq_active0.shape[0]):
            eq_active_out[worldid, i] = eq_active0[i]
        ne_out[worldid] = 0
        nf_out[worldid] = 0
        nl_out[worldid] = 0
        nefc_out[worldid] = 0
        overflow_out[worldid] = 0


class WarpPhysics(StagedPhysics[ModelT, Data]):
    """A physics that steps MuJoCo Warp's data; subclasses give the model, the data's buffers and the stages."""

    capturable = True

    @abc.abstractmethod
    def advance(self, m: ModelT, d: Data) -> None:
        """Advance every world by its timestep."""

    @abc.abstractmethod
    def allocate(self, mjm: mujoco.MjModel, nworld: int, nconmax: int | None, njmax: int | None) -> mjw.Data:
        """MuJoCo Warp's data with the buffers this physics needs."""

    def make_data(
        self, mjm: mujoco.MjModel, nworld: int, *, nconmax: int | None = None, njmax: int | None = None
    ) -> Data:
        if nworld < 1:
            raise InputError(f"nworld is {nworld}: it must be at least 1")
        for name, value in (("nconmax", nconmax), ("njmax", njmax)):
            if value is not None and value < 1:
                raise InputError(f"{name} is {value}: it must be at least 1")
        start = mujoco.MjData(mjm)
        if mjm.nkey:
            mujoco.mj_resetDataKeyframe(mjm, start, 0)
        base = self.allocate(mjm, nworld, nconmax, njmax)
        d = Data.__new__(Data)
        d.__dict__.update(base.__dict__)
        d.start, d.peak = start, wp.zeros(3, dtype=int)
        return self._reset(d, wp.ones(nworld, dtype=bool))

    def step(self, m: ModelT, d: Data) -> Data:
        self.advance(m, d)
        record_peak(d)
        return d

    def get_state(self, m: ModelT, d: Data) -> State:
        return State(*(getattr(d, name).numpy().copy() for name in ("time", "qpos", "qvel", "act")))

    def set_state(self, m: ModelT, d: Data, state: State) -> Data:
        state.check(d.nworld, m.nq, m.nv, m.na)
        for name in ("time", "qpos", "qvel", "act"):
            getattr(d, name).assign(np.asarray(getattr(state, name), dtype=np.float32))
        for memory in (d.qacc_warmstart, d.cvel, d.cdof_dot, d.overflow):  # as in fresh data
            memory.zero_()
        return d

    def reset(self, m: ModelT, d: Data, mask: NDArray[np.bool_]) -> Data:
        mask = np.asarray(mask)
        if mask.shape != (d.nworld,) or mask.dtype != np.bool_:
            raise InputError(f"mask must be bool of shape ({d.nworld},), got {mask.dtype} of shape {mask.shape}")
        return self._reset(d, wp.array(mask, dtype=bool))

    def _reset(self, d: Data, mask: wp.array) -> Data:
        s = d.start
        rows = {
            "time": np.array([s.time]),
            "qpos": s.qpos,
            "qvel": s.qvel,
            "act": s.act,
            "ctrl": s.ctrl,
            "qacc_warmstart": np.zeros_like(s.qvel),
            "qacc": np.zeros_like(s.qvel),
            "qfrc_applied": np.zeros_like(s.qvel),
            "xfrc_applied": np.zeros(s.xfrc_applied.size),
            "mocap_pos": s.mocap_pos.ravel(),
            "mocap_quat": s.mocap_quat.ravel(),
            "history": s.history,
            "plastic": s.plastic,
            "sensordata": np.zeros_like(s.sensordata),
            "userdata": np.zeros_like(s.userdata),
            "energy": np.zeros(2),
            "cvel": np.zeros(s.cvel.size),
            "cdof_dot": np.zeros(s.cdof_dot.size),
        }
        for name, value in rows.items():
            if value.size:
                flat = wp.array(
                    ptr=getattr(d, name).ptr, shape=(d.nworld, value.size), dtype=float, device=d.qpos.device
                )
                wp.launch(_reset_row, dim=flat.shape, inputs=[mask, wp.array(value, dtype=float)], outputs=[flat])
        eq_active0 = wp.array(s.eq_active.astype(bool), dtype=bool)
        counts = [d.eq_active, d.ne, d.nf, d.nl, d.nefc, d.overflow]
        wp.launch(_reset_counts, dim=d.nworld, inputs=[mask, eq_active0], outputs=counts)
        return d

    def set_model(self, m: ModelT, d: Data, fields: Mapping[str, Any]) -> ModelT:
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
            try:
                array = np.asarray(value, dtype=bool if old.dtype is bool else float)
            except (TypeError, ValueError) as error:
                raise InputError(f"{name} must be numbers of shape {(d.nworld, *shape)}: {error}") from None
            if array.shape not in (shape, (1, *shape), (d.nworld, *shape)):
                raise InputError(
                    f"{name} has shape {array.shape}, expected {(d.nworld, *shape)} (one a world) or {shape} (for all)"
                )
            check_finite(name, array)
            if name == "timestep" and (array <= MIN_TIMESTEP).any():
                raise InputError(f"timestep is {array.min()}: it must be positive, above {MIN_TIMESTEP:g} s")
            if name in _NOT_NEGATIVE and (array < 0).any():
                raise InputError(f"{name} is {array.min()} somewhere: it must not be negative")
            array = array if array.ndim > len(shape) else array[None]
            new[name] = (target, wp.array(array, dtype=old.dtype))
        for name, (target, array) in new.items():
            array._is_batched = True
            setattr(target, name, array)
        if _CONSTANTS_FOLLOW & new.keys():
            _widen_derived(m, d.nworld)
            mjw.set_const(m, d)
        return m

    def arrays(self, m: ModelT, d: Data) -> Mapping[str, wp.array]:
        return {name: getattr(d, name) for name in _REMEMBERED}

    def contact_count(self, m: ModelT, d: Data) -> int:
        return min(int(d.nacon.numpy()[0]), d.naconmax)

    def contacts(self, m: ModelT, d: Data) -> Contacts:
        n = self.contact_count(m, d)
        force = wp.zeros(n, dtype=wp.spatial_vector)
        mjw.contact_force(m, d, wp.array(np.arange(n), dtype=int), False, force)
        c = d.contact
        kept = (c.type.numpy()[:n] & int(ContactType.CONSTRAINT)) != 0  # the others serve distance sensors
        return Contacts(
            world=c.worldid.numpy()[:n][kept],
            geom=c.geom.numpy()[:n][kept],
            dist=c.dist.numpy()[:n][kept],
            pos=c.pos.numpy()[:n][kept],
            frame=c.frame.numpy()[:n][kept],
            force=force.numpy()[kept],
        )

    def forget_overflow(self, m: ModelT, d: Data) -> Data:
        d.overflow.zero_()
        return d

    def health(self, m: ModelT, d: Data) -> Health:
        bits = int(np.bitwise_or.reduce(d.overflow.numpy()))
        ncon_peak, _, nefc_peak = (int(v) for v in d.peak.numpy())
        finite = np.isfinite(d.qpos.numpy()).all(axis=1) & np.isfinite(d.qvel.numpy()).all(axis=1)
        overflow, notes = _explain_overflow(bits, d)
        return Health(overflow, notes, tuple(int(w) for w in np.flatnonzero(~finite)), ncon_peak, nefc_peak)


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
    """Give derived fields room for a value a world, so that MuJoCo Warp's set_const can fill them."""
    for name in _DERIVED:
        old = getattr(m, name)
        if old.shape[0] == 1 and nworld > 1:
            setattr(m, name, wp.array(np.repeat(old.numpy(), nworld, axis=0), dtype=old.dtype))
            getattr(m, name)._is_batched = True


def _explain_overflow(bits: int, d: Data) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Sentences for the overflow bits: those that drop contacts or rows, and those that do not.

    What was dropped was not always counted, so the advice has slack: four contacts for every pair of geoms that came
    close, and twice the rows that were asked for or that the contacts seen would need.
    """
    T = mjw.OverflowType
    ncon, npair, nefc = (int(v) for v in d.peak.numpy())
    nconmax = -(-max(ncon, 4 * npair, d.naconmax + 1) // d.nworld)
    njmax = 2 * max(nefc, d.njmax, -(-ncon // d.nworld) * d.contact.efc_address.shape[1])
    raise_ncon = f"raise nconmax from {d.naconmax // d.nworld} to at least {nconmax}"
    causes = {
        T.NEFC: f"constraint rows were dropped: raise njmax from {d.njmax} to at least {njmax}",
        T.NJMAX_NNZ: f"constraint rows were dropped: raise njmax from {d.njmax} to at least {njmax}",
        T.BROADPHASE: f"geom pairs were dropped before the narrow phase: {raise_ncon}",
        T.NARROWPHASE: f"contacts were dropped: {raise_ncon}",
        T.CCD: f"convex collision pairs were dropped: {raise_ncon}",
        T.HFIELD: "contacts with a height field were dropped: use a coarser height field",
        T.CONTACT_MATCH: "contact sensors matched too many contacts: raise opt.contact_sensor_maxmatch",
        T.EPA_HORIZON: "penetration of two convex geoms was not resolved exactly: use simpler meshes",
        T.TACTILE: "tactile sensors dropped collision pairs",
    }
    overflow = tuple(dict.fromkeys(text for bit, text in causes.items() if bits & bit))
    notes = ("MuJoCo's solver stopped at its iteration limit",) if bits & (T.ITERATIONS | T.LS_ITERATIONS) else ()
    return overflow, notes


@contextlib.contextmanager
def naming_unsupported(physics: str, features: list[str]) -> Iterator[None]:
    """Raise Unsupported naming every feature given, or what MuJoCo Warp says inside that it does not implement."""
    if features:
        raise Unsupported(f"{physics} does not support: " + "; ".join(features))
    try:
        yield
    except NotImplementedError as error:
        raise Unsupported(f"{physics} does not support: {error}") from None
