"""Simulation: one model, one physics, any number of worlds; captured once, replayed on CPU and CUDA."""

import contextlib
import dataclasses
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, overload

import mujoco
import numpy as np
import warp as wp
from numpy.typing import ArrayLike, NDArray

from stickslip import arrays, capacity, compilation, mjcf
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
from stickslip.physics.contacts import DeviceContacts
from stickslip.physics.registry import DEFAULT, PHYSICS
from stickslip.readout import Patches, patches_of, readout
from stickslip.simulation import worlds as worlds_module
from stickslip.simulation.growth import Growth, put_back
from stickslip.simulation.inputs import Inputs
from stickslip.simulation.observation import Observation
from stickslip.simulation.randomize import Randomizer
from stickslip.simulation.record import Recording
from stickslip.simulation.rollout import marked
from stickslip.simulation.shards import Threaded
from stickslip.state import INTEGRATION, State


class Simulation(Recording):
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
        threads: on a CPU, threads that share the worlds; results do not depend on it
    """

    __slots__ = (
        "__weakref__",
        "_keyframes",
        "_m",
        "_randomizer",
        "_warned",
        "d",
        "device",
        "mjm",
        "nworld",
        "physics",
    )

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
        threads: int = 1,
    ) -> None:
        if isinstance(nworld, bool) or not isinstance(nworld, (int, np.integer)) or nworld < 1:
            raise InputError(f"nworld is {nworld!r}: it must be a whole number, at least 1")
        capacity.check_sizes(nworld, nconmax=nconmax, njmax=njmax)
        if physics is None:
            physics = PHYSICS[DEFAULT]()
        if not isinstance(physics, Physics):
            raise InputError(f"physics is {physics!r}: give an instance such as stickslip.ConeSweep()")
        self.device = resolve_device(device)
        self.mjm = mjcf.load(scene, timestep=timestep)
        self.physics: Physics[Any, Any] = physics
        self.nworld = int(nworld)
        if isinstance(threads, bool) or not isinstance(threads, (int, np.integer)) or threads < 1:
            raise InputError(f"threads is {threads!r}: it must be a whole number, at least 1")
        if threads > 1:
            if self.device.is_cuda:
                raise InputError(
                    f"threads is {threads}: threads share worlds on a CPU; on {self.device.alias} leave it at 1"
                )
            if not physics.shardable:
                raise Unsupported(f"{physics.name} uses all cores by itself: leave threads at 1")
            self.physics = physics = Threaded(physics, min(int(threads), self.nworld), (nconmax is None, njmax is None))
        sizes = {
            "nconmax": _hint(self.mjm, "nconmax") if nconmax is None else nconmax,
            "njmax": _hint(self.mjm, "njmax") if njmax is None else njmax,
        }
        with self._on_device():
            self._m = self.physics.put_model(self.mjm)
            self.d = capacity.allocate(
                lambda nworld: physics.make_data(self.mjm, nworld, **sizes),
                self.nworld,
                self.device,
                least=4 * (self.mjm.nq + 2 * self.mjm.nv + self.mjm.nu + 6 * self.mjm.nbody),  # what `arrays` must have
            )
        Recording.__init__(self)
        self._warned = False
        self._keyframes: dict[int, State] = {}
        self._randomizer = Randomizer(self.nworld, self.device)
        if isinstance(physics, GrowingPhysics) and None in (nconmax, njmax):
            self._growth = Growth(physics, contacts=nconmax is None, rows=njmax is None)

    def __setattr__(self, name: str, value: Any) -> None:
        if not hasattr(type(self), name):  # slots and properties are attributes of the class
            raise AttributeError(str(unknown("attribute of Simulation", name, _ASSIGNABLE)))
        super().__setattr__(name, value)

    @contextlib.contextmanager
    def _on_device(self) -> Iterator[None]:
        """Work on the simulation's device; Warp does not print which modules it loads there."""
        with capacity.told(self.nworld, self.device), wp.ScopedDevice(self.device), compilation.quiet():
            yield

    @property
    def m(self) -> Any:
        """The physics' model on the device; fields that MuJoCo derives, and that no step reads, are found by this."""
        with self._on_device():
            self.physics.complete(self._m, self.d)
        return self._m

    @m.setter
    def m(self, m: Any) -> None:
        self._m = m

    @property
    def state(self) -> State:
        """A copy of the whole state on the host, see `get_state`; assign one to put every world into it."""
        return self.get_state()

    @state.setter
    def state(self, state: State) -> None:
        self.set_state(state)

    def get_state(
        self,
        signature: int = INTEGRATION,
        worlds: int | slice | ArrayLike | None = None,
        *,
        device: bool = False,
    ) -> State:
        """A copy of the state.

        Args:
            signature: the parts, of `mujoco.mjtState`; those of the default continue bit for bit, with the memory of
                the physics; `mjSTATE_FULLPHYSICS` has no warm start, inputs or memory
            worlds: numbers of some worlds; None: all
            device: leave it on the device
        """
        return worlds_module.get_state(self, signature, worlds, device)

    def set_state(self, state: State, worlds: ArrayLike | None = None) -> None:
        """Put every world, or some by their numbers, into a state.

        Parts that it does not have stay as they are. Without a memory, worlds start as in a fresh simulation.

        Args:
            state: of as many worlds, or of one that stands for all
            worlds: numbers of worlds; None: all
        """
        worlds_module.set_state(self, state, worlds)

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
                physics.compile(self._m, self.d)
                return
            with compilation.unchanged({**physics.results(self._m, self.d), **physics.arrays(self._m, self.d)}):
                compilation.load_kernels(lambda: physics.step(self._m, self.d), self.device)
                # a first run loads what that missed: nothing can be loaded while capturing
                self.d = physics.step(self._m, self.d)
                self._graph = compilation.capture(lambda: physics.step(self._m, self.d), self.device)

    def step(self, n: int = 1, *, check: bool = False, progress: bool = False) -> None:
        """Advance every world by n timesteps; with `progress`, a bar shows how far it is.

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
        if not self.device.is_capturing:  # a graph of the caller's records the step itself
            self.compile()
        with capacity.told(self.nworld, self.device), wp.ScopedDevice(self.device):
            if not check:
                self._advance(n, progress)
                return
            forget = marked(self, n)
            before = {name: wp.clone(array) for name, array in self.physics.arrays(self._m, self.d).items()}
            counts = [name for name in before if name.split()[0] == "overflow"]  # with threads, one for each
            for name in counts:
                self.physics.arrays(self._m, self.d)[name].zero_()
            try:
                self._advance(n, progress)
            except BufferOverflow:  # it could not grow
                put_back(self.physics.arrays(self._m, self.d), before)
                forget()
                raise
            health, own = self.health(), self.physics.arrays(self._m, self.d)
            if not health.ok:
                put_back(own, before)
                forget()
                self._refused.zero_()  # they are told now
                error = BufferOverflow if health.overflow else Diverged
                raise error("; ".join(health.messages) + f". The state is as it was before these {n} steps.")
            for name in counts:  # earlier steps, if they were not checked, may have overflowed
                own[name].assign(own[name].numpy() | before[name].numpy())

    def reset(self, mask: Any = None, state: State | None = None, keyframe: int | str | None = None) -> None:
        """Bring all worlds, or those in a mask, back to the start, to a state, or to a key frame.

        Worlds that are not in the mask keep every bit. With a mask on the device, nothing goes through the host, and a
        reset can be captured.

        Args:
            mask: bool (nworld,) of any array library, on the host or on the device; None: all
            state: what to put worlds into, after a reset: of all worlds, or of one that stands for all
            keyframe: name or number of a key frame of the model; without it, the first one is the start
        """
        worlds_module.reset(self, mask, state, keyframe)

    def set_model(self, mask: Any = None, **fields: Any) -> None:
        """Set fields of the model, per world, (nworld, ...), or to one value for all.

        `sim.set_model(geom_friction=..., body_mass=..., timestep=...)`. Fields that MuJoCo derives from them (inverse
        weights, subtree masses) follow. The first time that a field is set, it becomes one per world and the step is
        captured again. After that it is written in place, on the device if the values are there.

        Args:
            mask: bool (nworld,), the worlds to set; None: all
            fields: values by name, of any array library
        """
        with self._on_device():
            self._write_fields(fields, arrays.mask_of(mask, self.nworld, self.device))

    def _write_fields(self, fields: Mapping[str, Any], mask: wp.array | None) -> None:
        before = self.physics.captured(self._m)
        self._m = self.physics.set_model(self._m, self.d, fields, mask, self._refused)
        self._given.update(fields)
        if self.physics.captured(self._m) != before:
            self._graph = None

    def randomize(self, mask: Any = None, *, seed: int = 0, **fields: Any) -> None:
        """Draw fields of the model at random, on the device; see `set_model`.

        `sim.randomize(mask, body_mass=ss.Scale(0.8, 1.2), geom_friction=ss.Scale([0.5, 1, 1], [1.5, 1, 1]))`. Each
        call draws new numbers. They depend on the seed, the field, the world, and how often it was drawn before, and on
        nothing else. Where masses are scaled, inertias are scaled alike, unless they are given themselves.

        Args:
            mask: bool (nworld,), the worlds to draw for; None: all
            seed: of the numbers
            fields: `Uniform`, `Scale` (of the model's own value) or `Offset` (from it) by name; or arrays
        """
        with self._on_device():
            self._randomizer.run(self, arrays.mask_of(mask, self.nworld, self.device), seed, fields)

    @overload
    def contacts(self, device: Literal[False] = False) -> Contacts: ...

    @overload
    def contacts(self, device: Literal[True]) -> DeviceContacts: ...

    def contacts(self, device: bool = False) -> Contacts | DeviceContacts:
        """The contacts of the last step, or of `forward`, with their forces; copies to the host.

        With `device`, they stay on the device, in buffers that every such call fills again and that keep their memory:
        only launches, no copy and no wait, so that a graph of your own can record the call.
        """
        if device:
            return self._device_contacts()
        self._warn_if_unhealthy()
        with self._on_device():
            return self.physics.contacts(self._m, self.d)

    @readout
    def patches(self) -> Patches:
        """The contact patches of the last step, or of `forward`: force, centre of pressure, area; copies to the host.

        Of geoms with a hydroelastic modulus, with a physics that has them: `icf` and `cenic`.
        """
        self._warn_if_unhealthy()
        with self._on_device():
            return patches_of(self.physics, self._m, self.d)

    def contact_count(self) -> int:
        """How many contacts the last step had, over all worlds; cheap enough to ask after every step."""
        return self.physics.contact_count(self._m, self.d)

    def health(self) -> Health:
        """Overflow (and the knob to raise), worlds that are no longer finite, events of a watch, most contacts seen."""
        with self._on_device():
            health = self.physics.health(self._m, self.d)
            events = tuple(message for watch in self._watches for message in watch.messages)
        if events:
            health = dataclasses.replace(health, failures=(*health.failures, *events))
        refused = int(self._refused.numpy()[0])
        if not refused:
            return health
        message = (
            f"values that were not finite or not allowed were given {refused} times for a world, on the device, and "
            "not written: check what computes them; reset() clears this count"
        )
        return dataclasses.replace(health, failures=(*health.failures, message))

    def stats(self) -> Stats:
        """Steps, rejections, iterations and step sizes of every world, of a physics that counts them."""
        if not isinstance(self.physics, CountingPhysics):
            raise Unsupported(f"{self.physics.name} has no stats: it has neither a solver nor step-size control")
        return self.physics.stats(self._m, self.d)

    def jacobian(self, wrt: Sequence[str] = ("state", "ctrl")) -> dict[str, NDArray[np.floating]]:
        """Derivatives of the state after a step, by name, (nworld, 2 nv + na, ...), of a physics that has them (`Scm`).

        States are in MuJoCo's tangent space: motion, velocities, activations; see `DifferentiablePhysics`.
        """
        physics = self._differentiable()
        with self._on_device():
            return physics.jacobian(self._m, self.d, wrt)

    def hessian(self, cost: Callable[..., Any], wrt: Sequence[str] = ("state", "ctrl")) -> NDArray[np.floating]:
        """Second derivatives of a cost of the state after a step, (nworld, n, n), of a physics that has them."""
        physics = self._differentiable()
        with self._on_device():
            return physics.hessian(self._m, self.d, cost, wrt)

    def gradient(self, ctrl: ArrayLike, cost: Callable[..., Any]) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Cost of a rollout, (nworld,), and its derivatives by all controls, (nworld, T, nu); does not advance.

        `cost` is a function of the states of one world, (T + 1, ...), in the physics' own arrays. It is compiled once
        for each function object.
        """
        physics = self._differentiable()
        with self._on_device():
            return physics.gradient(self._m, self.d, ctrl, cost)

    def _differentiable(self) -> DifferentiablePhysics[Any, Any]:
        if not isinstance(self.physics, DifferentiablePhysics):
            raise Unsupported(f"{self.physics.name} has no derivatives; use stickslip.Scm()")
        return self.physics

    def _warn_if_unhealthy(self) -> None:
        if not self._warned:
            messages = self.health().messages
            if messages:
                self._warned = True
                warnings.warn("; ".join(messages), HealthWarning, stacklevel=4)


_ASSIGNABLE = tuple(
    name
    for owner in (Simulation, Observation, Inputs)
    for name, value in vars(owner).items()
    if getattr(value, "fset", None) and not name.startswith("_")
) + ("d",)


def resolve_device(name: str | None) -> wp.Device:
    """The device of that name, or the first GPU if there is one, else the CPU."""
    with compilation.quiet():
        wp.init()
    if name is None:
        return wp.get_device("cuda:0" if wp.is_cuda_available() else "cpu")
    try:
        return wp.get_device(name)
    except (ValueError, RuntimeError, TypeError):
        devices = ", ".join(d.alias for d in wp.get_devices())
        raise DeviceError(f"no device {name!r} on this machine; there are: {devices}") from None


def _hint(mjm: mujoco.MjModel, name: str) -> int | None:
    """A size that the scene gives as <custom><numeric name=.../>, or None."""
    index = mujoco.mj_name2id(mjm, mujoco.mjtObj.mjOBJ_NUMERIC, name)
    return None if index < 0 else int(mjm.numeric_data[mjm.numeric_adr[index]])
