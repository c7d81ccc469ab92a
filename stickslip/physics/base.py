"""The one abstraction: a contact physics that advances the worlds of a MuJoCo model.

A physics is a frozen dataclass of its parameters. Everything that changes lives in its data, so
one physics can serve any number of models. Callers write `d = physics.step(m, d)`: Warp mutates
and returns the same object, JAX returns a new one.
"""

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from stickslip.state import State

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
        notes: things worth knowing that do not make the result wrong
        nan_worlds: worlds whose state is no longer finite
        failures: one sentence for each world that a physics gave up, and why
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
        messages = [*self.overflow, *self.failures]
        if self.nan_worlds:
            shown = ", ".join(map(str, self.nan_worlds[:8])) + (", ..." if len(self.nan_worlds) > 8 else "")
            messages.append(
                f"{len(self.nan_worlds)} world(s) are no longer finite ({shown}): "
                "reset them with reset(mask), or take a smaller timestep or softer contact"
            )
        return messages


@dataclasses.dataclass(frozen=True)
class Stats:
    """What a physics with a solver, or with steps of its own, has done since the start of each world; host, (nworld,).

    Attributes:
        steps: steps that were taken
        rejections: steps that were tried and not taken
        iterations: of Newton's method; where parts of a world are solved by themselves, each counts by its dofs
        factorizations: of its Hessian, likewise
        searches: evaluations along its directions, likewise
        smallest_dt: shortest step, s
        dt: step that comes next, s
        trace: for each world when its last steps ended and how long they were, s; empty where that is not recorded
    """

    steps: NDArray[np.integer]
    rejections: NDArray[np.integer]
    iterations: NDArray[np.integer]
    factorizations: NDArray[np.integer]
    searches: NDArray[np.integer]
    smallest_dt: NDArray[np.floating]
    dt: NDArray[np.floating]
    trace: tuple[tuple[NDArray[np.floating], NDArray[np.floating]], ...] = ()


class Physics(abc.ABC, Generic[M, D]):
    """A contact physics. `M` is its model (fixed), `D` its data (changing)."""

    name: ClassVar[str]
    """Name on the command line and in results."""
    capturable: ClassVar[bool]
    """Whether `step` can be recorded into a graph and replayed; one that loops on the host cannot."""

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
        """Advance every world by n timesteps, with nobody to look or to write in between.

        A captured step is replayed n times instead.
        """
        for _ in range(n):
            d = self.step(m, d)
        return d

    def compile(self, m: M, d: D) -> None:
        """Get ready to step, without stepping; for a physics that cannot be captured and launches graphs of its own."""

    @abc.abstractmethod
    def get_state(self, m: M, d: D) -> State:
        """A copy of the state on the host."""

    @abc.abstractmethod
    def set_state(self, m: M, d: D, state: State) -> D:
        """Put every world into the given state; raise InputError and change nothing if it is unfit."""

    @abc.abstractmethod
    def reset(self, m: M, d: D, mask: NDArray[np.bool_]) -> D:
        """Bring the worlds in the mask, and only those, back to the model's start."""

    @abc.abstractmethod
    def set_model(self, m: M, d: D, fields: Mapping[str, Any]) -> M:
        """Give model fields a value for every world, or one for all; derived fields follow."""

    @abc.abstractmethod
    def arrays(self, m: M, d: D) -> Mapping[str, Any]:
        """Every device array that a step reads from before: state, inputs, memory of the solver, counters.

        `qpos, qvel, ctrl, qfrc_applied, xfrc_applied` are always among them, with a leading world axis; `mocap_pos` and
        `mocap_quat` where bodies can be moved by hand.
        Copies of all of them bring the simulation back exactly.
        """

    @abc.abstractmethod
    def contacts(self, m: M, d: D) -> Contacts:
        """The contacts of the last step."""

    @abc.abstractmethod
    def contact_count(self, m: M, d: D) -> int:
        """How many contacts the last step had, over all worlds; cheap, unlike `contacts`."""

    @abc.abstractmethod
    def health(self, m: M, d: D) -> Health:
        """Overflow since the start, a reset or `forget_overflow`; worlds that are no longer finite; peaks."""

    @abc.abstractmethod
    def forget_overflow(self, m: M, d: D) -> D:
        """Clear what `health` remembers of overflow."""


class StagedPhysics(Physics[M, D]):
    """A physics whose step is a sequence of stages that can be run, and timed, one by one."""

    @abc.abstractmethod
    def stages(self, m: M, d: D) -> list[Stage]:
        """The step as named stages in order; running them all advances every world once.

        All but the last leave the state alone and may be repeated; "contact" adds to what "constraints", where there
        is such a stage, has begun.
        """


class CountingPhysics(Physics[M, D]):
    """A physics that counts what its solver does."""

    @abc.abstractmethod
    def stats(self, m: M, d: D) -> Stats:
        """What was done since the start of each world."""


class DifferentiablePhysics(Physics[M, D]):
    """A physics whose step can be differentiated."""

    @abc.abstractmethod
    def jacobian(self, m: M, d: D, wrt: Sequence[str] = ("state", "ctrl")) -> dict[str, NDArray[np.floating]]:
        """Derivatives of the state after a step, for each name in `wrt`, (nworld, 2 nv + na, size of it).

        States are counted in MuJoCo's tangent space: a small motion (nv), velocities (nv), activations (na). Names are
        "state", "ctrl", "qfrc_applied" and the parameters that the physics documents.
        """

    @abc.abstractmethod
    def hessian(
        self, m: M, d: D, cost: Callable[..., Any], wrt: Sequence[str] = ("state", "ctrl")
    ) -> NDArray[np.floating]:
        """Second derivatives of a cost of the state after a step, by all in `wrt` in that order, (nworld, n, n)."""

    @abc.abstractmethod
    def rollout(self, m: M, d: D, ctrl: ArrayLike) -> State:
        """States over the controls of T steps, (nworld, T, nu): (nworld, T + 1, ...), the first where the data is."""

    @abc.abstractmethod
    def gradient(
        self, m: M, d: D, ctrl: ArrayLike, cost: Callable[..., Any]
    ) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """A cost of such a rollout, (nworld,), and its derivatives by all its controls, (nworld, T, nu).

        `cost` is a function of the physics' own arrays, of the states of one world, (T + 1, ...).
        """
