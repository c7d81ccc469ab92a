"""Simulation: one model, one physics, any number of worlds; captured once, replayed on CPU and CUDA."""

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import mujoco
import numpy as np
import warp as wp
from numpy.typing import ArrayLike, NDArray

from stickslip import capacity, compilation, mjcf
from stickslip.errors import BufferOverflow, DeviceError, Diverged, HealthWarning, InputError, Unsupported, unknown
from stickslip.physics.base import (
    Contacts,
    CountingPhysics,
    DifferentiablePhysics,
    GrowingPhysics,
    Health,
    Physics,
    Stats,
)
from stickslip.physics.registry import DEFAULT, PHYSICS
from stickslip.simulation.growth import Growth, put_back
from stickslip.state import State, check_array


class Simulation:
    """Many worlds of one model under one physics.

    Args:
        scene: a built-in name, a path, an XML string, "menagerie:NAME" or an mujoco.MjModel
        physics: the contact physics; ConeSweep() if None
        nworld: number of worlds
        device: "cpu", "cuda:0", ...; the first CUDA device if there is one, else the CPU
        timestep: overrides the model's, s
        nconmax: contacts to allow for in each world, on average; None: the scene's hint, or an estimate from the
            model, and more when a step needs more
        njmax: constraint rows to allow for in each world; None: as for nconmax
    """

    __slots__ = ("__weakref__", "_graph", "_growth", "_warned", "d", "device", "m", "mjm", "nworld", "physics")

    def __init__(
        self,
        scene: str | os.PathLike[str] | mujoco.MjModel,
        physics: Physics[Any, Any] | None = None,
        *,
        nworld: int = 1,
        device: str | None = None,
        timestep: float | None = None,
        nconmax: int | None = None,
        njmax: int | None = None,
    ) -> None:
        if isinstance(nworld, bool) or not isinstance(nworld, (int, np.integer)) or nworld < 1:
            raise InputError(f"nworld is {nworld!r}: it must be a whole number, at least 1")
        if physics is None:
            physics = PHYSICS[DEFAULT]()
        if not isinstance(physics, Physics):
            raise InputError(f"physics is {physics!r}: give an instance such as stickslip.ConeSweep()")
        self.device = resolve_device(device)
        self.mjm = mjcf.load(scene, timestep=timestep)
        self.physics: Physics[Any, Any] = physics
        self.nworld = int(nworld)
        sizes = {
            "nconmax": _hint(self.mjm, "nconmax") if nconmax is None else nconmax,
            "njmax": _hint(self.mjm, "njmax") if njmax is None else njmax,
        }
        with self._on_device():
            self.m = self.physics.put_model(self.mjm)
            self.d = capacity.allocate(
                lambda nworld: physics.make_data(self.mjm, nworld, **sizes),
                self.nworld,
                self.device,
                least=4 * (self.mjm.nq + 2 * self.mjm.nv + self.mjm.nu + 6 * self.mjm.nbody),  # what `arrays` must have
            )
        self._graph: wp.Graph | None = None
        self._warned = False
        self._growth: Growth | None = None
        if isinstance(physics, GrowingPhysics) and None in (nconmax, njmax):
            self._growth = Growth(physics, contacts=nconmax is None, rows=njmax is None)

    def __setattr__(self, name: str, value: Any) -> None:
        if not hasattr(type(self), name):  # slots and properties are attributes of the class
            raise AttributeError(str(unknown("attribute of Simulation", name, _ASSIGNABLE)))
        super().__setattr__(name, value)

    @contextlib.contextmanager
    def _on_device(self) -> Iterator[None]:
        """Work on the simulation's device; Warp does not print which modules it loads there."""
        with wp.ScopedDevice(self.device), compilation.quiet():
            yield

    def _array(self, name: str) -> wp.array:
        arrays = self.physics.arrays(self.m, self.d)
        if name not in arrays:
            raise Unsupported(f"{self.physics.name} has no {name}")
        return arrays[name]

    def _assign(self, name: str, value: ArrayLike) -> None:
        array = self._array(name)
        shape = tuple(array.shape) + tuple(getattr(array.dtype, "_shape_", ()))
        one_world = np.shape(value) == shape[1:] if _is_regular(value) else False
        given = check_array(name, value, shape[1:] if one_world else shape)
        array.assign(np.broadcast_to(given, shape).astype(np.float32))

    @property
    def qpos(self) -> wp.array:
        """Positions, (nworld, nq), on the device."""
        return self._array("qpos")

    @qpos.setter
    def qpos(self, value: ArrayLike) -> None:
        self._assign("qpos", value)

    @property
    def qvel(self) -> wp.array:
        """Velocities, (nworld, nv), on the device."""
        return self._array("qvel")

    @qvel.setter
    def qvel(self, value: ArrayLike) -> None:
        self._assign("qvel", value)

    @property
    def ctrl(self) -> wp.array:
        """Controls, (nworld, nu), on the device; assigning checks shape and finiteness."""
        return self._array("ctrl")

    @ctrl.setter
    def ctrl(self, value: ArrayLike) -> None:
        self._assign("ctrl", value)

    @property
    def qfrc_applied(self) -> wp.array:
        """Applied generalized force, (nworld, nv), on the device."""
        return self._array("qfrc_applied")

    @qfrc_applied.setter
    def qfrc_applied(self, value: ArrayLike) -> None:
        self._assign("qfrc_applied", value)

    @property
    def xfrc_applied(self) -> wp.array:
        """Applied force and torque on each body, (nworld, nbody, 6), on the device."""
        return self._array("xfrc_applied")

    @xfrc_applied.setter
    def xfrc_applied(self, value: ArrayLike) -> None:
        self._assign("xfrc_applied", value)

    @property
    def mocap_pos(self) -> wp.array:
        """Positions of the mocap bodies, (nworld, nmocap, 3), on the device."""
        return self._array("mocap_pos")

    @mocap_pos.setter
    def mocap_pos(self, value: ArrayLike) -> None:
        self._assign("mocap_pos", value)

    @property
    def mocap_quat(self) -> wp.array:
        """Orientations of the mocap bodies as quaternions, (nworld, nmocap, 4), on the device."""
        return self._array("mocap_quat")

    @mocap_quat.setter
    def mocap_quat(self, value: ArrayLike) -> None:
        self._assign("mocap_quat", value)

    @property
    def state(self) -> State:
        """A copy of the state on the host; assign one to put every world into it."""
        self._warn_if_unhealthy()
        return self.physics.get_state(self.m, self.d)

    @state.setter
    def state(self, state: State) -> None:
        if not isinstance(state, State):
            raise InputError(f"state must be a stickslip.State, got {type(state).__name__}")
        with self._on_device():
            self.d = self.physics.set_state(self.m, self.d, state)
        self._warned = False

    def compile(self) -> None:
        """Compile all kernels and capture the step, without advancing; the first time takes a few minutes.

        State, inputs, contacts and sensors stay as they are.
        """
        if self._graph is not None:
            return
        physics = self.physics
        with self._on_device():
            if self._growth is not None:
                self._growth.prepare(self)
            if not physics.capturable:
                physics.compile(self.m, self.d)
                return
            with compilation.unchanged({**physics.results(self.m, self.d), **physics.arrays(self.m, self.d)}):
                compilation.load_kernels(lambda: physics.step(self.m, self.d), self.device)
                # a first run loads what that missed: nothing can be loaded while capturing
                self.d = physics.step(self.m, self.d)
                self._graph = compilation.capture(lambda: physics.step(self.m, self.d), self.device)

    def step(self, n: int = 1, *, check: bool = False) -> None:
        """Advance every world by n timesteps.

        With `cenic` and many worlds, n timesteps in one call take less time than one at a time: worlds need
        not wait for each other in between.

        If contacts or constraint rows do not fit into a buffer whose size was not given, the steps of this call are
        undone and repeated with a larger one; a HealthWarning says so once. `qpos` and all other arrays whose shape
        does not depend on buffers stay the same objects, and so does `d`. Contacts and rows in `d` get new arrays.
        Nothing is enlarged while a graph of the caller's is captured.

        With `check`, contacts that were dropped or a state that is no longer finite raise
        BufferOverflow or Diverged, and every world is back where it was before the call.
        """
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 0:
            raise InputError(f"n is {n!r}: it must be a whole number of steps, at least 0")
        n = int(n)
        self.compile()
        with wp.ScopedDevice(self.device):
            if not check:
                self._advance(n)
                return
            arrays = self.physics.arrays(self.m, self.d)
            before = {name: wp.clone(array) for name, array in arrays.items()}
            if "overflow" in arrays:
                arrays["overflow"].zero_()
            try:
                self._advance(n)
            except BufferOverflow:  # it could not grow
                put_back(self.physics.arrays(self.m, self.d), before)
                raise
            health, arrays = self.health(), self.physics.arrays(self.m, self.d)
            if not health.ok:
                put_back(arrays, before)
                error = BufferOverflow if health.overflow else Diverged
                raise error("; ".join(health.messages) + f". The state is as it was before these {n} steps.")
            if "overflow" in arrays:  # earlier steps, if they were not checked, may have overflowed
                arrays["overflow"].assign(arrays["overflow"].numpy() | before["overflow"].numpy())

    def _advance(self, n: int) -> None:
        if self._growth is None or n == 0 or self.device.is_capturing:
            self._run(n)
        else:
            self._growth.advance(self, n)

    def _run(self, n: int) -> None:
        if self._graph is None:
            with compilation.quiet():
                self.d = self.physics.run(self.m, self.d, n)
        else:
            for _ in range(n):
                wp.capture_launch(self._graph)

    def reset(self, mask: ArrayLike | None = None) -> None:
        """Bring all worlds, or those in the boolean mask (nworld,), back to the start."""
        chosen = np.ones(self.nworld, dtype=bool) if mask is None else np.asarray(mask)
        with self._on_device():
            self.d = self.physics.reset(self.m, self.d, chosen)
        self._warned = False

    def set_model(self, **fields: ArrayLike) -> None:
        """Set fields of the model, per world, (nworld, ...), or to one value for all.

        `sim.set_model(geom_friction=..., body_mass=..., timestep=...)`. Fields that MuJoCo derives from them (inverse
        weights, subtree masses) are updated. The step is captured again.
        """
        with self._on_device():
            self.m = self.physics.set_model(self.m, self.d, fields)
        self._graph = None

    def contacts(self) -> Contacts:
        """The contacts of the last step, with their forces; copies to the host."""
        self._warn_if_unhealthy()
        with self._on_device():
            return self.physics.contacts(self.m, self.d)

    def contact_count(self) -> int:
        """How many contacts the last step had, over all worlds; cheap enough to ask after every step."""
        return self.physics.contact_count(self.m, self.d)

    def health(self) -> Health:
        """Overflow (and the knob to raise), worlds that are no longer finite, most contacts seen."""
        with self._on_device():
            return self.physics.health(self.m, self.d)

    def stats(self) -> Stats:
        """Steps, rejections, iterations and step sizes of every world, of a physics that counts them."""
        if not isinstance(self.physics, CountingPhysics):
            raise Unsupported(f"{self.physics.name} has no stats: it has neither a solver nor step-size control")
        return self.physics.stats(self.m, self.d)

    def jacobian(self, wrt: Sequence[str] = ("state", "ctrl")) -> dict[str, NDArray[np.floating]]:
        """Derivatives of the state after a step, by name, (nworld, 2 nv + na, ...), of a physics that has them (`Scm`).

        States are in MuJoCo's tangent space: motion, velocities, activations; see `DifferentiablePhysics`.
        """
        physics = self._differentiable()
        with self._on_device():
            return physics.jacobian(self.m, self.d, wrt)

    def hessian(self, cost: Callable[..., Any], wrt: Sequence[str] = ("state", "ctrl")) -> NDArray[np.floating]:
        """Second derivatives of a cost of the state after a step, (nworld, n, n), of a physics that has them."""
        physics = self._differentiable()
        with self._on_device():
            return physics.hessian(self.m, self.d, cost, wrt)

    def rollout(self, ctrl: ArrayLike) -> State:
        """States over the controls of T steps, (nworld, T, nu), of a physics that has derivatives; does not advance."""
        physics = self._differentiable()
        with self._on_device():
            return physics.rollout(self.m, self.d, ctrl)

    def gradient(self, ctrl: ArrayLike, cost: Callable[..., Any]) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Cost of such a rollout, (nworld,), and its derivatives by all controls, (nworld, T, nu); does not advance.

        `cost` is a function of the states of one world, (T + 1, ...), in the physics' own arrays. It is compiled once
        for each function object.
        """
        physics = self._differentiable()
        with self._on_device():
            return physics.gradient(self.m, self.d, ctrl, cost)

    def _differentiable(self) -> DifferentiablePhysics[Any, Any]:
        if not isinstance(self.physics, DifferentiablePhysics):
            raise Unsupported(f"{self.physics.name} has no derivatives; use stickslip.Scm()")
        return self.physics

    def _warn_if_unhealthy(self) -> None:
        if not self._warned:
            messages = self.health().messages
            if messages:
                self._warned = True
                warnings.warn("; ".join(messages), HealthWarning, stacklevel=3)


_ASSIGNABLE = tuple(name for name, value in vars(Simulation).items() if getattr(value, "fset", None)) + ("d", "m")


def _is_regular(value: ArrayLike) -> bool:
    """Whether a value has a shape; lists of different lengths have none."""
    try:
        np.shape(value)
    except (TypeError, ValueError):
        return False
    return True


def resolve_device(name: str | None) -> wp.Device:
    """The device of that name, or the first GPU if there is one, else the CPU."""
    with compilation.quiet():
        wp.init()
    if name is None:
        return wp.get_device("cuda:0" if wp.is_cuda_available() else "cpu")
    try:
        return wp.get_device(name)
    except (ValueError, RuntimeError):
        devices = ", ".join(d.alias for d in wp.get_devices())
        raise DeviceError(f"no device {name!r} on this machine; there are: {devices}") from None


def _hint(mjm: mujoco.MjModel, name: str) -> int | None:
    """A size that the scene gives as <custom><numeric name=.../>, or None."""
    index = mujoco.mj_name2id(mjm, mujoco.mjtObj.mjOBJ_NUMERIC, name)
    return None if index < 0 else int(mjm.numeric_data[mjm.numeric_adr[index]])
