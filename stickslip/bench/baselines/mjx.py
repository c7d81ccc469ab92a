"""MJX as a method: MuJoCo's own dynamics in JAX, all worlds under one `vmap`, n steps in one call.

It is here to be compared with, and is not one of our physics. It comes with the extra `jax`, in float32 as JAX has it
by default.
"""

# pyright: reportMissingImports=false

import copy
import dataclasses
import functools
import importlib
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, ClassVar, final

import mujoco
import numpy as np
import warp as wp
from numpy.typing import NDArray

from stickslip.bench.baselines.states import arrays_state, put_state
from stickslip.errors import DeviceError, MissingExtra, Unsupported
from stickslip.parameters import checked, parameter
from stickslip.physics.base import Contacts, Health, Physics
from stickslip.state import INTEGRATION, State

INTEGRATORS = {
    "euler": mujoco.mjtIntegrator.mjINT_EULER,
    "rk4": mujoco.mjtIntegrator.mjINT_RK4,
    "implicitfast": mujoco.mjtIntegrator.mjINT_IMPLICITFAST,
}
_STATE = ("time", "qpos", "qvel", "act")
_INPUTS = ("ctrl", "qfrc_applied", "xfrc_applied", "mocap_pos", "mocap_quat")


@dataclasses.dataclass
class Model:
    """MuJoCo's model and MJX's, MJX's data of one world, and what advances all worlds by n steps."""

    host: mujoco.MjModel
    model: Any
    data: Any
    advance: Callable[..., Any]


@dataclasses.dataclass
class Data:
    """Worlds of MJX, and the arrays that are seen from outside.

    Attributes:
        arrays: state and inputs, float32, (nworld, ...)
        start: the same of one world at the start, on the host
        worlds: MJX's data of all worlds after the last step; None before
        ready: whether a step has been compiled
        ncon, ncon_peak: contacts of all worlds after the last step, and the most there ever were after a call
    """

    arrays: dict[str, wp.array]
    start: dict[str, NDArray[np.float64]]
    worlds: Any = None
    ready: bool = False
    ncon: int = 0
    ncon_peak: int = 0


@final
@checked
@dataclasses.dataclass(frozen=True)
class Mjx(Physics[Model, Data]):
    """MuJoCo in JAX.

    Attributes:
        integrator: "euler", "rk4" or "implicitfast"
        iterations: of its solver; None: as the model has it
    """

    name: ClassVar[str] = "mjx"
    capturable: ClassVar[bool] = False
    shardable: ClassVar[bool] = False
    integrator: str = parameter("euler", "integrator of MJX", choices=tuple(INTEGRATORS))
    iterations: int | None = parameter(None, "iterations of its solver; None: the model's", 1, 10_000, kind=int)

    def check(self, mjm: mujoco.MjModel) -> None:
        self.put_model(mjm)

    def put_model(self, mjm: mujoco.MjModel) -> Model:
        own = copy.copy(mjm)
        own.opt.integrator = INTEGRATORS[self.integrator]
        if self.iterations is not None:
            own.opt.iterations = self.iterations
        mjx = _packages().mjx
        try:
            return Model(own, mjx.put_model(own), mjx.make_data(own), _advance())
        except NotImplementedError as error:
            raise Unsupported(f"{self.name} does not support: {error}") from None

    def make_data(
        self, mjm: mujoco.MjModel, nworld: int, *, nconmax: int | None = None, njmax: int | None = None
    ) -> Data:
        mjd = mujoco.MjData(mjm)
        if mjm.nkey:
            mujoco.mj_resetDataKeyframe(mjm, mjd, 0)
        start = {name: np.array(getattr(mjd, name), dtype=float) for name in (*_STATE, *_INPUTS)}
        arrays = {name: wp.zeros((nworld, *value.shape), dtype=float) for name, value in start.items()}
        d = Data(arrays, start)
        return self._reset(d, np.ones(nworld, dtype=bool))

    def compile(self, m: Model, d: Data) -> None:
        if not d.ready:  # asked before every step
            self._run(m, d, 0)
            d.ready = True

    def step(self, m: Model, d: Data) -> Data:
        return self.run(m, d, 1)

    def run(self, m: Model, d: Data, n: int) -> Data:
        if n:
            self._run(m, d, n)
        return d

    def _run(self, m: Model, d: Data, n: int) -> None:
        given = {name: _put(array) for name, array in d.arrays.items()}
        worlds, touching = _packages().jax.block_until_ready(m.advance(m.model, self._worlds(m, d), given, n))
        if n == 0:
            return
        d.worlds, d.ncon = worlds, int(touching.sum())
        d.ncon_peak = max(d.ncon_peak, d.ncon)
        for name in _STATE:
            if d.arrays[name].size:
                wp.copy(d.arrays[name], wp.from_jax(getattr(worlds, name)))

    def _worlds(self, m: Model, d: Data) -> Any:
        """MJX's data of all worlds; fresh if there is none."""
        jax = _packages().jax
        nworld = d.arrays["qpos"].shape[0]
        return jax.vmap(lambda _: m.data)(jax.numpy.arange(nworld)) if d.worlds is None else d.worlds

    def get_state(self, m: Model, d: Data, signature: int = INTEGRATION) -> State:
        return arrays_state(d.arrays, signature)

    def set_state(self, m: Model, d: Data, state: State, mask: wp.array | None = None) -> Data:
        put_state(d.arrays, state, mask)
        d.worlds = None
        return d

    def reset(self, m: Model, d: Data, mask: wp.array | None = None) -> Data:
        return self._reset(d, np.ones(d.arrays["qpos"].shape[0], dtype=bool) if mask is None else mask.numpy())

    def _reset(self, d: Data, mask: NDArray[np.bool_]) -> Data:
        for name, value in d.start.items():
            rows = d.arrays[name].numpy().copy()
            rows[mask] = value
            d.arrays[name].assign(rows)
        d.worlds = None  # what the solver begins with
        return d

    def set_model(
        self,
        m: Model,
        d: Data,
        fields: Mapping[str, Any],
        mask: wp.array | None = None,
        refused: wp.array | None = None,
    ) -> Model:
        raise Unsupported(f"{self.name} cannot change {', '.join(fields)} of a model: build another simulation")

    def arrays(self, m: Model, d: Data) -> Mapping[str, wp.array]:
        return d.arrays

    def checkpoint(self, m: Model, d: Data) -> Callable[[], Data]:
        restore = super().checkpoint(m, d)
        worlds, ncon, peak = d.worlds, d.ncon, d.ncon_peak  # JAX replaces arrays and never writes into them

        def restore_all() -> Data:
            d.worlds, d.ncon, d.ncon_peak = worlds, ncon, peak
            return restore()

        return restore_all

    def memory(self, m: Model, d: Data) -> int:
        """Bytes that a step of all worlds takes, as the compiler reports them."""
        given = {name: _put(array) for name, array in d.arrays.items()}
        memory = m.advance.lower(m.model, self._worlds(m, d), given, 1).compile().memory_analysis()  # type: ignore[attr-defined]
        return memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes

    def contact_count(self, m: Model, d: Data) -> int:
        return d.ncon

    def contacts(self, m: Model, d: Data) -> Contacts:
        raise Unsupported(f"{self.name} does not tell its contacts, only their number: see contact_count()")

    def health(self, m: Model, d: Data) -> Health:
        rows = np.hstack([d.arrays[name].numpy() for name in ("qpos", "qvel")])
        broken = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        return Health((), (), tuple(int(i) for i in broken), d.ncon_peak, 0)


@functools.cache
def _packages() -> SimpleNamespace:
    """JAX and MJX; raises MissingExtra if they are not installed."""
    found = {}
    for name in ("jax", "mujoco.mjx"):
        try:
            found[name.rpartition(".")[2]] = importlib.import_module(name)
        except ImportError:
            raise MissingExtra(f"mjx needs {name}: install the extra with pip install 'stickslip[jax]'") from None
    return SimpleNamespace(**found)


@functools.cache
def _advance() -> Callable[..., Any]:
    """n steps of all worlds, compiled once for every shape of model and data."""
    jax, mjx = _packages().jax, _packages().mjx

    def advance(model: Any, worlds: Any, given: dict[str, Any], n: Any) -> tuple[Any, Any]:
        def one(d: Any, given: dict[str, Any]) -> tuple[Any, Any]:
            d = jax.lax.fori_loop(0, n, lambda _, d: mjx.step(model, d), d.replace(**given))
            return d, jax.numpy.sum(d._impl.contact.dist <= 0.0)

        return jax.vmap(one)(worlds, given)

    return jax.jit(advance)


def _put(array: wp.array) -> Any:
    """An array of JAX on the same device."""
    jax = _packages().jax
    kind = "cpu" if array.device.is_cpu else "cuda"
    try:
        device = jax.devices(kind)[0 if kind == "cpu" else array.device.ordinal]
    except (RuntimeError, IndexError):
        raise DeviceError(
            f"mjx on {array.device.alias} needs JAX with CUDA, and this JAX has {jax.default_backend()}: "
            "pip install 'jax[cuda13]', or take the device cpu"
        ) from None
    if array.size == 0:
        return jax.device_put(jax.numpy.zeros(tuple(array.shape)), device)
    return wp.to_jax(array)
