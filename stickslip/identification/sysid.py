"""The physics of stickslip in MuJoCo's own toolbox for identification, `mujoco.sysid`.

    residual = mujoco.sysid.build_residual_fn(models_sequences=..., custom_rollout=sysid.rollout("cone-sweep"))

Candidates come as models. Fields in which they differ become fields of worlds; all of them are simulated at once.
Worlds have numbers of 32 bits: give the optimizer larger differences than its own, `sysid.optimize(..., eps=1e-3)`.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip import spec
from stickslip.errors import InputError, MissingExtra, Unsupported
from stickslip.physics import registry
from stickslip.physics.base import Physics
from stickslip.simulation import Simulation

_FOLLOWS = frozenset(
    "actuator_acc0 actuator_length0 body_invweight0 body_subtreemass bvh_aabb cam_mat0 cam_pos0 cam_poscom0 dof_M0 "
    "dof_invweight0 dof_length geom_aabb geom_rbound light_dir0 light_pos0 light_poscom0 tendon_invweight0 "
    "tendon_length0".split()
)
"""What the compiler derives from other fields: `set_model` does so too, or a step of Warp does not read it."""
_SHORTCUTS = frozenset("body_sameframe body_simple dof_simplenum geom_sameframe site_sameframe".split())
"""What MuJoCo in C saves work with."""
_SIZES = ("nq", "nv", "nu", "na", "nbody", "ngeom", "npair", "neq", "ntendon", "nsensordata")


def rollout(
    physics: str | Physics[Any, Any] | None = None, *, device: str | None = None, nworld: int | None = None
) -> Callable[..., Sequence[Any]]:
    """A `custom_rollout` for the residuals of `mujoco.sysid`, with any physics.

    It gives what `mujoco.sysid.sysid_rollout` gives: the state after each step, and sensors as they are at its
    beginning. Raises Unsupported for candidates that differ in what cannot differ between worlds.

    Args:
        physics: the contact physics, or its name; None: the default
        device: such as cpu or cuda:0; None: the first GPU, or the CPU
        nworld: worlds at a time; None: as many as there are candidates and trajectories
    """
    if not hasattr(mujoco_sysid(), "SystemTrajectory"):
        raise MissingExtra("mujoco.sysid lacks packages: pip install 'mujoco[sysid]'")
    named = registry.DEFAULT if physics is None else physics
    chosen = spec.resolve(named, registry.PHYSICS, "physics") if isinstance(named, str) else named
    if nworld is not None and (isinstance(nworld, bool) or not isinstance(nworld, int) or nworld < 1):
        raise InputError(f"nworld is {nworld!r}: it must be a whole number, at least 1")
    return _Rollout(chosen, device, nworld)


def mujoco_sysid() -> Any:
    """The module; empty if packages that it needs are missing."""
    import mujoco.sysid

    return mujoco.sysid


class _Rollout:
    """Keeps a simulation for each model structure it has met."""

    def __init__(self, physics: Physics[Any, Any], device: str | None, nworld: int | None) -> None:
        self._physics, self._device, self._nworld = physics, device, nworld
        self._batches: dict[Any, _Batch] = {}

    def __call__(
        self,
        *,
        models: Sequence[mujoco.MjModel],
        control_signal: Sequence[Any],
        initial_states: Sequence[NDArray[np.floating]],
        rollout_signal_mapping: Any,
        rollout_state_mapping: Any,
        ctrl_mapping: Any,
        datas: Any = None,
        param_dicts: Any = None,
    ) -> Sequence[Any]:
        """As `mujoco.sysid` calls it; scratch data and parameters are not needed."""
        sysid = mujoco_sysid()
        batch = self._batch(models)
        states, sensors = batch.run(models, np.stack([signal.data[:-1] for signal in control_signal]), initial_states)
        found = []
        for k, model in enumerate(models):
            given, time = control_signal[k], states[k][:, 0]
            found.append(
                sysid.SystemTrajectory(
                    model=model,
                    control=sysid.TimeSeries(given.times[:-1], given.data[:-1], ctrl_mapping),
                    sensordata=sysid.TimeSeries(time, sensors[k], rollout_signal_mapping),
                    initial_state=initial_states[k],
                    state=sysid.TimeSeries(time, states[k], rollout_state_mapping),
                )
            )
        return found

    def _batch(self, models: Sequence[mujoco.MjModel]) -> "_Batch":
        first = _structure(models[0])
        for model in models:
            if _structure(model) != first:
                raise Unsupported("candidates of one rollout have other names or sizes: they must be of one model")
        count = len(models) if self._nworld is None else self._nworld
        found = self._batches.get(first)
        if found is None or (self._nworld is None and found.sim.nworld < count):
            found = self._batches[first] = _Batch(models[0], self._physics, count, self._device)
        return found


class _Batch:
    """Worlds for candidates of one model."""

    def __init__(self, mjm: mujoco.MjModel, physics: Physics[Any, Any], nworld: int, device: str | None) -> None:
        if mujoco.mj_stateSize(mjm, mujoco.mjtState.mjSTATE_FULLPHYSICS) != 1 + mjm.nq + mjm.nv + mjm.na:
            raise Unsupported(
                "the state of this model has more than time, qpos, qvel and act (a history or a plugin): leave delays "
                "of sensors and actuators, and plugins, out of the model"
            )
        self.sim = Simulation(mjm, physics, nworld=nworld, device=device)
        self._touched: set[str] = set()
        self._blank = self.sim.get_state().without_memory()

    def run(
        self, models: Sequence[mujoco.MjModel], ctrl: NDArray[np.floating], starts: Sequence[NDArray[np.floating]]
    ) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """States (n, T, nstate) and sensors (n, T, nsensordata) of n models with controls (n, T, nu)."""
        known = {id(model): model for model in models}
        for model in known.values():
            self._touched |= self._differences(model)
        states, sensors = [], []
        for first in range(0, len(models), self.sim.nworld):
            rows = np.minimum(first + np.arange(self.sim.nworld), len(models) - 1)
            count = min(self.sim.nworld, len(models) - first)
            state, sensed = self._simulate([models[k] for k in rows], ctrl[rows], np.stack([starts[k] for k in rows]))
            states.append(state[:count])
            sensors.append(sensed[:count])
        return np.concatenate(states), np.concatenate(sensors)

    def _simulate(
        self, models: Sequence[mujoco.MjModel], ctrl: NDArray[np.floating], starts: NDArray[np.floating]
    ) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        sim, nq, nv = self.sim, self.sim.mjm.nq, self.sim.mjm.nv
        if self._touched:
            fields = {name: np.stack([_field(model, name) for model in models]) for name in sorted(self._touched)}
            sim.set_model(**fields)
        sim.reset()
        parts = {"time": starts[:, 0], "qpos": starts[:, 1 : 1 + nq], "qvel": starts[:, 1 + nq : 1 + nq + nv]}
        if sim.mjm.na:
            parts["act"] = starts[:, 1 + nq + nv :]
        sim.set_state(dataclasses.replace(self._blank, **parts))
        names = ["qpos", "qvel", *(["act"] if sim.mjm.na else []), *(["sensordata"] if sim.mjm.nsensordata else [])]
        given = ctrl.astype(np.float32) if sim.mjm.nu else ctrl.shape[1]
        found = sim.rollout(given, outputs=names, advance=True).outputs
        timestep = np.array([model.opt.timestep for model in models])
        time = starts[:, :1] + timestep[:, None] * np.arange(1, ctrl.shape[1] + 1)  # float64, unlike that of worlds
        state = np.concatenate([time[..., None], *(found[name] for name in names if name != "sensordata")], axis=2)
        sensed = found["sensordata"] if sim.mjm.nsensordata else np.zeros((*state.shape[:2], 0))
        return state.astype(float), np.asarray(sensed, dtype=float)

    def _differences(self, model: mujoco.MjModel) -> set[str]:
        """Fields in which a model differs; raises Unsupported for those that worlds share."""
        own, found, shared = self.sim.mjm, set(), []
        for name in _names():
            if name in _FOLLOWS or name in _SHORTCUTS or np.array_equal(_field(own, name), _field(model, name)):
                continue
            if self._can_differ(name):
                found.add(name)
            else:
                shared.append(name)
        if shared:
            raise Unsupported(
                f"candidates differ in {', '.join(shared)}, which cannot differ between worlds: leave out parameters "
                "that change it"
            )
        return found

    def _can_differ(self, name: str) -> bool:
        try:
            self.sim.physics.model_field(self.sim.m, name)
        except InputError:
            return False
        return np.issubdtype(np.asarray(_field(self.sim.mjm, name)).dtype, np.floating)


@functools.cache
def _names() -> tuple[str, ...]:
    """Names of what a model holds: its arrays, and its options."""
    mjm = mujoco.MjSpec().compile()
    numbers = (np.ndarray, int, float)
    own = [name for name in dir(mjm) if not name.startswith("_") and isinstance(getattr(mjm, name), np.ndarray)]
    options = [
        name for name in dir(mjm.opt) if not name.startswith("_") and isinstance(getattr(mjm.opt, name), numbers)
    ]
    return *own, *options


def _field(mjm: mujoco.MjModel, name: str) -> Any:
    return getattr(mjm, name) if hasattr(mjm, name) else getattr(mjm.opt, name)


def _structure(mjm: mujoco.MjModel) -> tuple[Any, ...]:
    return bytes(mjm.names), *(getattr(mjm, name) for name in _SIZES)
