"""Worlds on the host in MuJoCo's own data, float64, and a comparison model that steps them one by one in NumPy."""

import abc
import copy
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import mujoco
import numpy as np
import warp as wp
from numpy.typing import NDArray

from stickslip.bench.baselines.states import arrays_state, put_state
from stickslip.errors import Unsupported
from stickslip.physics.base import Contacts, Health, Physics
from stickslip.state import INTEGRATION, State

STATE = ("time", "qpos", "qvel", "act")
_INPUTS = ("ctrl", "qfrc_applied", "mocap_pos", "mocap_quat")


@dataclasses.dataclass
class HostData:
    """Worlds on the host, and the arrays that are seen from outside.

    Attributes:
        worlds: MuJoCo's data of each world, float64
        force: force and torque of each contact in its frame, for each world; empty if `HostWorlds.forces` works them
            out when they are asked for  [(ncon, 6)]
        arrays: copies of state and inputs on the device, float32, (nworld, ...)
        ncon_peak: most contacts seen in any step, over all worlds
        views: the same memory as `arrays`, on a CPU; empty if the physics does not use it
        seen: bytes of each of `views` when they were last read or written
    """

    worlds: list[mujoco.MjData]
    force: list[NDArray[np.float64]]
    arrays: dict[str, wp.array]
    ncon_peak: int = 0
    views: dict[str, NDArray[np.float32]] = dataclasses.field(default_factory=dict)
    seen: dict[str, bytes] = dataclasses.field(default_factory=dict)


class HostWorlds(Physics[mujoco.MjModel, HostData], abc.ABC):
    """A physics whose worlds are MuJoCo's own data on the host: everything but the step."""

    capturable: ClassVar[bool] = False
    shardable: ClassVar[bool] = False

    @abc.abstractmethod
    def forces(self, m: mujoco.MjModel, d: HostData) -> list[NDArray[np.float64]]:
        """Force and torque of each contact of the last step in its frame, for each world, (ncon, 6)."""

    def put_model(self, mjm: mujoco.MjModel) -> mujoco.MjModel:
        self.check(mjm)
        return copy.copy(mjm)

    def make_data(
        self, mjm: mujoco.MjModel, nworld: int, *, nconmax: int | None = None, njmax: int | None = None
    ) -> HostData:
        worlds = [_fresh(mjm) for _ in range(nworld)]
        arrays = {name: wp.array(_stacked(worlds, name), dtype=float) for name in (*STATE, *_INPUTS)}
        arrays["xfrc_applied"] = wp.array(_stacked(worlds, "xfrc_applied"), dtype=wp.spatial_vector)
        return HostData(worlds, [np.zeros((0, 6))] * nworld, arrays)

    def show(self, d: HostData, names: tuple[str, ...], mask: NDArray[np.bool_] | None = None) -> None:
        """Put what the worlds hold, or those in the mask, into the arrays."""
        for name in names:
            rows = _stacked(d.worlds, name).astype(np.float32)
            if mask is not None:  # what was written into the others, and not yet read, stays
                rows[~mask] = d.arrays[name].numpy()[~mask]
            d.arrays[name].assign(rows)

    def get_state(self, m: mujoco.MjModel, d: HostData, signature: int = INTEGRATION) -> State:
        return arrays_state(d.arrays, signature)

    def set_state(self, m: mujoco.MjModel, d: HostData, state: State, mask: wp.array | None = None) -> HostData:
        chosen = put_state(d.arrays, state, mask)
        for name, part in state.numpy().parts.items():
            for index in np.flatnonzero(chosen):  # in double precision
                write(d.worlds[index], name, part[index % len(part)])
        return d

    def reset(self, m: mujoco.MjModel, d: HostData, mask: wp.array | None = None) -> HostData:
        chosen = np.ones(len(d.worlds), dtype=bool) if mask is None else mask.numpy()
        for index in np.flatnonzero(chosen):
            d.worlds[index] = _fresh(m)
            d.force[index] = np.zeros((0, 6))
        self.show(d, tuple(d.arrays), chosen)
        return d

    def set_model(
        self,
        m: mujoco.MjModel,
        d: HostData,
        fields: Mapping[str, Any],
        mask: wp.array | None = None,
        refused: wp.array | None = None,
    ) -> mujoco.MjModel:
        raise Unsupported(f"{self.name} cannot change {', '.join(fields)} of a model: build another simulation")

    def arrays(self, m: mujoco.MjModel, d: HostData) -> Mapping[str, wp.array]:
        return d.arrays

    def checkpoint(self, m: mujoco.MjModel, d: HostData) -> Callable[[], HostData]:
        restore = super().checkpoint(m, d)
        worlds, force, peak = [copy.copy(mjd) for mjd in d.worlds], list(d.force), d.ncon_peak

        def restore_all() -> HostData:
            d.worlds[:], d.force[:], d.ncon_peak = map(copy.copy, worlds), force, peak
            return restore()

        return restore_all

    def contacts(self, m: mujoco.MjModel, d: HostData) -> Contacts:
        forces = self.forces(m, d)
        counts = [len(force) for force in forces]
        parts = [mjd.contact for mjd in d.worlds]
        return Contacts(
            world=np.repeat(np.arange(len(counts)), counts),
            geom=np.concatenate([c.geom[:n] for c, n in zip(parts, counts, strict=True)]),
            dist=np.concatenate([c.dist[:n] for c, n in zip(parts, counts, strict=True)]),
            pos=np.concatenate([c.pos[:n] for c, n in zip(parts, counts, strict=True)]),
            frame=np.concatenate([c.frame[:n] for c, n in zip(parts, counts, strict=True)]).reshape(-1, 3, 3),
            force=np.concatenate(forces),
        )

    def health(self, m: mujoco.MjModel, d: HostData) -> Health:
        rows = np.hstack([d.arrays[name].numpy() for name in ("qpos", "qvel")])
        broken = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        return Health((), (), tuple(int(i) for i in broken), d.ncon_peak, 0)


class HostPhysics(HostWorlds, abc.ABC):
    """A physics written in NumPy on MuJoCo's own data. It reads what was written into the arrays from outside.

    A world that is no longer finite stays as it is, without contacts.
    """

    @abc.abstractmethod
    def advance(self, mjm: mujoco.MjModel, mjd: mujoco.MjData) -> NDArray[np.float64]:
        """Advance one world by `mjm.opt.timestep`; gives force and torque of each of `mjd.contact`, (ncon, 6)."""

    def step(self, m: mujoco.MjModel, d: HostData) -> HostData:
        given = {name: array.numpy() for name, array in d.arrays.items()}
        for index, mjd in enumerate(d.worlds):
            for name in STATE:
                seen, own = given[name][index], np.asarray(getattr(mjd, name))
                if not np.array_equal(seen, own.astype(np.float32), equal_nan=True):  # written from outside
                    write(mjd, name, seen)
            for name in given.keys() - STATE:
                write(mjd, name, given[name][index])
            finite = np.isfinite(np.r_[mjd.qpos, mjd.qvel]).all()
            d.force[index] = self.advance(m, mjd) if finite else np.zeros((0, 6))
        d.ncon_peak = max(d.ncon_peak, self.contact_count(m, d))
        self.show(d, STATE)
        return d

    def forces(self, m: mujoco.MjModel, d: HostData) -> list[NDArray[np.float64]]:
        return d.force

    def contact_count(self, m: mujoco.MjModel, d: HostData) -> int:
        return sum(len(force) for force in d.force)


def _fresh(mjm: mujoco.MjModel) -> mujoco.MjData:
    """Data at the model's start: key frame 0 if there is one."""
    mjd = mujoco.MjData(mjm)
    if mjm.nkey:
        mujoco.mj_resetDataKeyframe(mjm, mjd, 0)
    return mjd


def _stacked(worlds: list[mujoco.MjData], name: str) -> NDArray[np.float64]:
    return np.stack([np.asarray(getattr(mjd, name)) for mjd in worlds])


def write(mjd: mujoco.MjData, name: str, value: Any) -> None:
    """Set a part of the state, or an input, of a world."""
    if name == "time":
        mjd.time = float(value)
    else:
        getattr(mjd, name)[:] = value
