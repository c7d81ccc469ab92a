"""The one abstraction: a contact physics that advances the worlds of a MuJoCo model.

A physics is a frozen dataclass of its parameters. Everything that changes lives in its data, so
one physics can serve any number of models. Callers write `d = physics.step(m, d)`: Warp mutates
and returns the same object, JAX returns a new one.
"""

import abc
import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import mujoco
import numpy as np
import warp as wp
from numpy.typing import ArrayLike, NDArray

from stickslip.errors import Unsupported
from stickslip.readout import readout
from stickslip.state import INTEGRATION, State

if TYPE_CHECKING:
    from stickslip.physics.contacts import DeviceContacts

M = TypeVar("M")
D = TypeVar("D")

Stage = tuple[str, Callable[[], None]]
"""A part of a step: its name, and what runs it."""


@dataclasses.dataclass(frozen=True)
class Contacts:
    """The contacts of the last step, on the host; `n` is their number over all worlds.

    Attributes:
        world: world of each contact                                      (n,)
        geom: the two geoms; the normal points from the first to the second  (n, 2)
        dist: distance, m; negative when penetrating                      (n,)
        pos: position in the world frame, m                               (n, 3)
        frame: rows are normal, tangent 1, tangent 2                      (n, 3, 3)
        force: force and torque on the second geom in the contact frame, N and N m  (n, 6)
    """

    world: NDArray[np.integer]
    geom: NDArray[np.integer]
    dist: NDArray[np.floating]
    pos: NDArray[np.floating]
    frame: NDArray[np.floating]
    force: NDArray[np.floating]

    def __len__(self) -> int:
        return len(self.world)


@dataclasses.dataclass(frozen=True)
class Health:
    """Whether the simulation can be trusted.

    Attributes:
        overflow: one sentence for each buffer that was too small, with the value to raise it to
        notes: worth knowing, but the motion is right
        nan_worlds: worlds whose state is no longer finite
        failures: one sentence for each world that the physics stopped, with the reason
        ncon_peak: most contacts seen in any step, over all worlds
        nefc_peak: most constraint rows seen in any step, in one world
    """

    overflow: tuple[str, ...]
    notes: tuple[str, ...]
    nan_worlds: tuple[int, ...]
    ncon_peak: int
    nefc_peak: int
    failures: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.overflow and not self.nan_worlds and not self.failures

    @property
    def messages(self) -> list[str]:
        """What is wrong, one sentence each; empty when all is well."""
        messages = []
        if self.nan_worlds:  # first, since a world that diverged often overflows buffers too
            shown = ", ".join(map(str, self.nan_worlds[:8])) + (", ..." if len(self.nan_worlds) > 8 else "")
            messages.append(
                f"{len(self.nan_worlds)} world(s) are no longer finite ({shown}): "
                "reset them with reset(mask), or take a smaller timestep or softer contact"
            )
        return [*messages, *self.overflow, *self.failures]


@dataclasses.dataclass(frozen=True)
class Stats:
    """Work of the solver and of the step-size control since the start of each world; host, (nworld,).

    Attributes:
        steps: accepted steps
        rejections: rejected steps
        iterations: of Newton's method; if islands are solved separately, each is weighted by its dofs
        factorizations: of its Hessian, weighted in the same way
        searches: line-search evaluations, weighted in the same way
        smallest_dt: shortest step, s
        dt: size of the next step, s
        trace: per world, end times and sizes of the last steps, s; empty if not recorded
    """

    steps: NDArray[np.integer]
    rejections: NDArray[np.integer]
    iterations: NDArray[np.integer]
    factorizations: NDArray[np.integer]
    searches: NDArray[np.integer]
    smallest_dt: NDArray[np.floating]
    dt: NDArray[np.floating]
    trace: tuple[tuple[NDArray[np.floating], NDArray[np.floating]], ...] = ()


@dataclasses.dataclass(frozen=True)
class Promises:
    """What a physics promises where physics differ by design. The conformance suite holds it to these.

    Attributes:
        free_bodies_only: every joint other than a free one raises Unsupported
        contacts_per_face: contacts reported for a face of a box of 0.1 m that rests on a plane; None if a step
            separates overlapping bodies, so that no contact is left to report
        separation_speed: speed at which a step separates overlapping bodies before it reports `dist` [m/s]; 0 if `dist`
            belongs to the positions at the beginning of the step
        contact_sensors: contact sensors write to `sensordata` of `results`; if not, they raise Unsupported
        velocity_error: error of the velocity after 100 steps of 1 ms of free fall, by rounding alone [m/s]
        poses_only: of what MuJoCo derives from the state, `forward` works out poses; a step works out nothing. Sensors,
            accelerations and actuator forces raise Unsupported
    """

    free_bodies_only: bool = False
    contacts_per_face: int | None = 4
    separation_speed: float = 0.0
    contact_sensors: bool = True
    velocity_error: float = 2e-6
    poses_only: bool = False


class Physics(abc.ABC, Generic[M, D]):
    """A contact physics. `M` is its model (fixed), `D` its data (changing)."""

    name: ClassVar[str]
    """Name on the command line and in results."""
    capturable: ClassVar[bool]
    """Whether `step` can be recorded into a graph and replayed; one that loops on the host cannot."""
    shardable: ClassVar[bool] = True
    """Whether threads can share its worlds; one that uses all cores by itself, or loops in Python, gains nothing."""
    promises: ClassVar[Promises] = Promises()
    """Where it differs by design from other physics."""

    @abc.abstractmethod
    def check(self, mjm: mujoco.MjModel) -> None:
        """Raise Unsupported naming every feature of the model that this physics cannot honour."""

    @abc.abstractmethod
    def put_model(self, mjm: mujoco.MjModel) -> M:
        """The model on the current device."""

    @abc.abstractmethod
    def make_data(self, mjm: mujoco.MjModel, nworld: int, *, nconmax: int | None = None, njmax: int | None = None) -> D:
        """Fresh data at the model's start (key frame 0 if there is one) on the current device.

        Args:
            mjm: the model (host)
            nworld: number of worlds
            nconmax: contacts to allow for in each world, on average
            njmax: constraint rows to allow for in each world
        """

    @abc.abstractmethod
    def step(self, m: M, d: D) -> D:
        """Advance every world by exactly its `opt.timestep`."""

    def run(self, m: M, d: D, n: int) -> D:
        """Advance every world by n timesteps; nothing is read or written in between.

        Not called if the step is captured: then the graph is replayed n times.
        """
        for _ in range(n):
            d = self.step(m, d)
        return d

    def compile(self, m: M, d: D) -> None:
        """Compile what a step needs, without stepping; for a physics that is not captured. Called before each run."""

    @abc.abstractmethod
    def get_state(self, m: M, d: D, signature: int = INTEGRATION) -> State:
        """A copy of the parts in the signature, on the device or the host; with the warm start, the memory too.

        A physics that lacks some of the parts leaves them out.
        """

    @abc.abstractmethod
    def set_state(self, m: M, d: D, state: State, mask: wp.array | None = None) -> D:
        """Put worlds into the given state; raise InputError and change nothing if it does not fit.

        What the state does not have stays, except that nothing is remembered from the last step.

        Args:
            m, d: model and data
            state: of all worlds, or of one that stands for all
            mask: worlds, on the device (nworld,); None: all
        """

    @abc.abstractmethod
    def reset(self, m: M, d: D, mask: wp.array | None = None) -> D:
        """Bring the worlds in the mask, on the device (nworld,), or all, back to the model's start."""

    @abc.abstractmethod
    def set_model(
        self,
        m: M,
        d: D,
        fields: Mapping[str, Any],
        mask: wp.array | None = None,
        refused: wp.array | None = None,
    ) -> M:
        """Give model fields a value for every world, or one for all; derived fields follow.

        Those that no step of this physics reads may be left for `complete`.

        Args:
            m, d: model and data
            fields: values by name, of any array library
            mask: worlds, on the device (nworld,); None: all
            refused: counts worlds that were given an unfit value on the device, and keep theirs       (1,)
        """

    def model_field(self, m: M, name: str) -> wp.array:
        """The device array of a field of the model; raises InputError if it cannot differ between worlds."""
        raise Unsupported(f"{self.name} cannot change {name} of a model: build another simulation")

    def check_fields(self, m: M, fields: Mapping[str, Any], nworld: int) -> Mapping[str, wp.array]:
        """Values for `set_model` as scalars on the device, (1 or nworld, n); raises InputError if one is unfit.

        Values that are on the device already are not looked at.
        """
        raise Unsupported(f"{self.name} cannot change {', '.join(fields)} of a model: build another simulation")

    def in_place(self, m: M, d: D, names: Collection[str]) -> Callable[[wp.array | None], None] | None:
        """What to call, with a mask, after fields were written where they are; None: only `set_model` may write them.

        The fields are per world: `set_model` has written them before, for whichever worlds.
        """
        return None

    def complete(self, m: M, d: D) -> None:
        """Find derived fields that were left for later, for somebody who reads the model."""

    def captured(self, m: M) -> tuple[Any, ...]:
        """What a captured step holds of the model; the step is captured again when this has changed."""
        return (m,)

    @abc.abstractmethod
    def arrays(self, m: M, d: D) -> Mapping[str, Any]:
        """Every device array that a step reads before writing it: state, inputs, warm start, counters.

        Copying all of them back restores the simulation exactly. Each has a leading world axis, unless it counts over
        all worlds. Always among them: `qpos, qvel, ctrl, qfrc_applied, xfrc_applied`; `mocap_pos` and `mocap_quat` if
        the model has mocap bodies; `overflow`, (nworld,) integers, if the physics has buffers that can overflow. A step
        only sets bits of `overflow`; `health` explains them.
        """

    def results(self, m: M, d: D) -> Mapping[str, Any]:
        """Every device array, not among `arrays`, in which a step leaves results: contacts, sensors, poses.

        `Simulation.compile` runs a step and then restores them, so that nothing is seen of it. A physics that is not
        captured, or keeps no results on the device, has none.
        """
        return {}

    def checkpoint(self, m: M, d: D) -> Callable[[], D]:
        """A function that brings the data back to where it is now, bit for bit, with the results of the last step.

        A physics that keeps more than `arrays` and `results` on the host, or elsewhere, overrides it.
        """
        kept = {name: wp.clone(array) for name, array in {**self.results(m, d), **self.arrays(m, d)}.items()}

        def restore() -> D:
            own = {**self.results(m, d), **self.arrays(m, d)}
            for name, copy in kept.items():
                array = own[name]
                wp.copy(array if array.shape == copy.shape else array[tuple(map(slice, copy.shape))], copy)  # it grew
            return d

        return restore

    @abc.abstractmethod
    def contacts(self, m: M, d: D) -> Contacts:
        """The contacts of the last step."""

    @abc.abstractmethod
    def contact_count(self, m: M, d: D) -> int:
        """How many contacts the last step had, over all worlds; cheap, unlike `contacts`."""

    @abc.abstractmethod
    def health(self, m: M, d: D) -> Health:
        """Overflow on record, worlds that are no longer finite, peaks."""

    def forward(self, m: M, d: D) -> D:
        """Poses, sensors and contacts, with their forces, of the present state; no array of `arrays` changes.

        It only launches kernels and copies on the device: it is captured, also if `step` is not capturable.
        """
        raise Unsupported(f"{self.name} has no forward(): it shows no poses and sensors")

    @readout
    def kinematics(self, m: M, d: D, worlds: Any = None) -> None:
        """Poses, velocities and the sensors that read only these, of the present state; no array of `arrays` changes.

        Contacts, accelerations, forces and their sensors stay those of the last step. It only launches kernels and
        copies on the device. `worlds`, a mask on the device, says where it is needed; others may be brought up to date,
        too.
        """
        raise Unsupported(f"{self.name} has no kinematics(): take forward()")

    def field(self, m: M, d: D, name: str) -> Any:
        """The device array of MuJoCo's name, (nworld, ...), if this physics has or computes it; else None."""
        arrays = self.arrays(m, d)
        return arrays[name] if name in arrays else self.results(m, d).get(name)

    def make_contacts(self, m: M, d: D) -> "DeviceContacts":
        """Buffers for `fill_contacts`, on the current device."""
        raise Unsupported(f"{self.name} has no contacts on the device: copy them to the host with contacts()")

    def fill_contacts(self, m: M, d: D, out: "DeviceContacts") -> None:
        """Write what `contacts` gives into buffers of `make_contacts`; launches on the device only."""
        raise NotImplementedError(f"{self.name} has make_contacts without fill_contacts")


class GrowingPhysics(Physics[M, D]):
    """A physics with buffers of fixed size that can be made larger between two steps."""

    @abc.abstractmethod
    def growable(self, *, contacts: bool, rows: bool) -> int:
        """Bits of `overflow` against which a larger nconmax (`contacts`) or njmax (`rows`) helps."""

    @abc.abstractmethod
    def buffer_sizes(self, m: M, d: D) -> tuple[int, int]:
        """The sizes of the buffers per world: (nconmax, njmax)."""

    @abc.abstractmethod
    def needed_sizes(self, m: M, d: D, bits: int) -> tuple[int, int]:
        """Sizes that are likely to be enough after steps with these bits of `overflow`: at least twice as large.

        A size that they say nothing about stays.
        """

    @abc.abstractmethod
    def adopt(self, m: M, d: D, larger: D) -> D:
        """The data with the buffers of `larger`, which `make_data` made for the same model and number of worlds.

        Nothing that a step reads changes. Arrays whose shape does not depend on the sizes stay the same objects.
        """


class StagedPhysics(Physics[M, D]):
    """A physics whose step is a sequence of stages that can be run, and timed, one by one."""

    @abc.abstractmethod
    def stages(self, m: M, d: D) -> list[Stage]:
        """The step as named stages in order; running them all advances every world once.

        All but the last leave the state as it is and may be repeated. "contact" continues what "constraints" began, if
        there is such a stage.
        """


class CountingPhysics(Physics[M, D]):
    """A physics that counts the work of its solver."""

    @abc.abstractmethod
    def stats(self, m: M, d: D) -> Stats:
        """The counts since the start of each world."""


class DifferentiablePhysics(Physics[M, D]):
    """A physics whose step can be differentiated."""

    @abc.abstractmethod
    def jacobian(self, m: M, d: D, wrt: Sequence[str] = ("state", "ctrl")) -> dict[str, NDArray[np.floating]]:
        """Derivatives of the state after a step with respect to each name in `wrt`, (nworld, 2 nv + na, its size).

        States are differentiated in MuJoCo's tangent space: motion (nv), velocities (nv), activations (na). Names are
        "state", "ctrl", "qfrc_applied" and the parameters that the physics documents.
        """

    @abc.abstractmethod
    def hessian(
        self, m: M, d: D, cost: Callable[..., Any], wrt: Sequence[str] = ("state", "ctrl")
    ) -> NDArray[np.floating]:
        """Second derivatives of a cost of the state after a step, by all in `wrt` in this order, (nworld, n, n)."""

    @abc.abstractmethod
    def rollout(self, m: M, d: D, ctrl: ArrayLike) -> State:
        """States over the controls of T steps, (nworld, T, nu): (nworld, T + 1, ...), the current state first."""

    @abc.abstractmethod
    def gradient(
        self, m: M, d: D, ctrl: ArrayLike, cost: Callable[..., Any]
    ) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """The cost of such a rollout, (nworld,), and its derivatives by all controls, (nworld, T, nu).

        `cost` is a function of the states of one world, (T + 1, ...), in the physics' own arrays.
        """
