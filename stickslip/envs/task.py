"""What a task is: a model, how actions drive it, what is observed and rewarded, when an episode ends.

Terms are functions of a `State`, torch in and torch out, for all worlds at once. They must not read values on the host
(`.item()`, `if tensor:`): on a GPU a whole step is one graph.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import mujoco

from stickslip.errors import InputError

if TYPE_CHECKING:
    import torch

    from stickslip.envs.state import State

    Term = Callable[[State], torch.Tensor]
    """Of a state: (nworld,) or (nworld, n)."""
    Start = Callable[[State], Mapping[str, torch.Tensor]]
    """Of a state: values of every world by name, see `Task.start`."""


@dataclasses.dataclass(frozen=True)
class Action:
    """How actions become controls: `ctrl = offset + scale * clip(action, -limit, limit)`, for a whole control step.

    Attributes:
        scale: one number or one for each actuator; None: half of `ctrlrange`
        offset: one number or one for each actuator; None: the controls of the first key frame, or the middle of
            `ctrlrange`
        limit: largest size of an action
        relative: controls are relative to the last control instead of `offset`
        delay: least and largest latency of a world [timesteps], drawn when an episode starts
        names: actuators that take actions, in this order; empty: all
    """

    scale: float | tuple[float, ...] | None = None
    offset: float | tuple[float, ...] | None = None
    limit: float = 1.0
    relative: bool = False
    delay: tuple[int, int] = (0, 0)
    names: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Observed:
    """A part of the observation.

    Attributes:
        value: what is observed, (nworld,) or (nworld, n)
        scale: factor
        noise: half-width of uniform noise, in units of the value; the critic sees none
        clip: largest size after scaling
        history: how many of the last control steps are observed, the latest first
    """

    value: "Term"
    scale: float = 1.0
    noise: float = 0.0
    clip: float = 100.0
    history: int = 1


@dataclasses.dataclass(frozen=True)
class Reward:
    """A part of the reward.

    Attributes:
        value: (nworld,)
        weight: of the value
        once: the value counts as it is; else it is a rate, per second, times the control step
    """

    value: "Term"
    weight: float
    once: bool = False


@dataclasses.dataclass(frozen=True)
class Push:
    """Kicks: a free joint's velocity changes at once, now and then.

    Attributes:
        joint: name of the free joint
        linear, angular: largest change along each axis [m/s], [rad/s]
        every: least and largest time between kicks [s]
    """

    joint: str
    linear: float = 0.5
    angular: float = 0.0
    every: tuple[float, float] = (4.0, 8.0)


@dataclasses.dataclass(frozen=True)
class Gains:
    """Gains of position servos, drawn when an episode starts, as factors of the model's own.

    Attributes:
        stiffness: least and largest factor of `gainprm[0]` and of `biasprm[1]`, which belong together
        damping: least and largest factor of `biasprm[2]`
        each: each servo of a world has factors of its own; else all have the same
    """

    stiffness: tuple[float, float] = (1.0, 1.0)
    damping: tuple[float, float] = (1.0, 1.0)
    each: bool = False


@dataclasses.dataclass(frozen=True)
class Task:
    """A task for reinforcement learning.

    Attributes:
        name: name on the command line
        summary: one line: what is to be done
        build: makes the model
        start: values of all worlds at the beginning of an episode, by name: `qpos`, `qvel`, `ctrl`, `mocap_pos`,
            `mocap_quat` or a name in `memory`. Of worlds that begin an episode they are written, the others keep theirs
        practice: what `stickslip train` starts with in the place of `start`, for instance now and then near the end of
            the task, so that it learns the end early. Evaluations, and all else, begin with `start`
        observations: parts of the observation, by name
        rewards: parts of the reward, by name
        terminations: ends of an episode that are states of the task, (nworld,) of bool, by name; worlds that are no
            longer finite always end
        success: whether a world has succeeded, (nworld,) of bool; counted at the end of an episode
        critic: what only the critic sees, beside the observation; by name
        memory: numbers per world that terms share, such as a goal: name to shape
        update: new values of the memory after each control step, by name, of all worlds
        curriculum: new values of the memory for worlds whose episode has just ended, by name
        action: how actions become controls
        timestep: of the physics [s]
        decimation: timesteps per action
        episode: time-out [s]; None: an episode ends by terminations only
        randomize: distributions of model fields, drawn when an episode starts, as for `Simulation.randomize`
        gains: gains of position servos, drawn when an episode starts
        pushes: kicks
        training: settings of `stickslip train` that differ from the default, by name
        threshold: success rate, or mean return if the task has no `success`, at which the task counts as learned
        camera: of films; empty: the model's first
    """

    name: str
    summary: str
    build: Callable[[], mujoco.MjSpec | mujoco.MjModel]
    start: "Start"
    observations: Mapping[str, Observed]
    rewards: Mapping[str, Reward]
    terminations: Mapping[str, "Term"] = dataclasses.field(default_factory=dict)
    practice: "Start | None" = None
    success: "Term | None" = None
    critic: Mapping[str, Observed] = dataclasses.field(default_factory=dict)
    memory: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    update: "Start | None" = None
    curriculum: "Start | None" = None
    action: Action = Action()
    timestep: float = 0.005
    decimation: int = 4
    episode: float | None = 10.0
    randomize: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    gains: Gains | None = None
    pushes: tuple[Push, ...] = ()
    training: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    threshold: float = 0.8
    camera: str = ""

    def __post_init__(self) -> None:
        what = f"task {self.name!r}"
        for field in ("observations", "rewards"):
            if not getattr(self, field):
                raise InputError(f"{what} has no {field}: give at least one")
        if not self.terminations and self.episode is None:
            raise InputError(
                f"{what} has no terminations and no time-out, so that no episode would end: give terminations, or "
                "episode=10.0 [s]"
            )
        if self.episode is not None and not self.episode >= self.dt:
            raise InputError(
                f"{what}: episode is {self.episode!r} s: it must be at least a control step, {self.dt:g} s"
            )
        if not self.timestep > 0.0:
            raise InputError(f"{what}: timestep is {self.timestep!r}: it must be above 0 s")
        if isinstance(self.decimation, bool) or not isinstance(self.decimation, int) or self.decimation < 1:
            raise InputError(f"{what}: decimation is {self.decimation!r}: it must be a whole number, at least 1")
        low, high = self.action.delay
        if not 0 <= low <= high:
            raise InputError(f"{what}: delay is {self.action.delay}: give 0 <= least <= largest, in timesteps")
        for name in self.critic:
            if name in self.observations:
                raise InputError(
                    f"{what}: {name!r} is both in observations and in critic: the critic sees both"
                    "; leave it out of critic"
                )

    def in_training(self) -> "Task":
        """The task as it is trained: it starts with `practice`."""
        return self if self.practice is None else dataclasses.replace(self, start=self.practice)

    @property
    def dt(self) -> float:
        """Duration of a control step [s]."""
        return self.timestep * self.decimation

    @property
    def longest(self) -> int | None:
        """Control steps of an episode at most."""
        return None if self.episode is None else max(1, round(self.episode / self.dt))
