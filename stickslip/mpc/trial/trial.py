"""One trial: planner and plant take turns, and the plant waits for every plan."""

import dataclasses
import time
from collections.abc import Callable, Sequence

import numpy as np

from stickslip.errors import InputError, StickslipError
from stickslip.mpc.task import Array, Goal, Observation, Plan, Planner, Problem
from stickslip.mpc.trial.plant import FELL, NOT_FINITE, Plant

SUCCESS = "success"
TOO_LONG = "too long"
"""Reasons why a trial ended. Others are those of `Plant.failure`, and errors of the planner."""
MOST_NOTES = 20
"""Notes that a trial keeps at most."""


@dataclasses.dataclass(frozen=True, eq=False)
class Trial:
    """Outcome of a trial.

    Attributes:
        seed: seed of its start, goal and planner
        reason: why it ended; "success" if the goal was reached
        steps: control steps it took
        position: distance from the goal, mean over the last control steps that success requires [m]
        rotation: 1 - (q.q*)^2, the same mean
        seconds: time each plan took [s]                            (plans,)
        frames: qpos at the start and after each control step       (steps + 1, nq)
        goal: goal pose of the object
        notes: notes of its plans, each once; see `Plan.note`
    """

    seed: int
    reason: str
    steps: int
    position: float
    rotation: float
    seconds: Array
    frames: Array
    goal: Goal
    notes: tuple[str, ...] = ()

    @property
    def success(self) -> bool:
        """Whether the goal was reached."""
        return self.reason == SUCCESS

    @property
    def aborted(self) -> bool:
        """Whether an error of the planner or of the plant's process ended it."""
        return self.reason not in (SUCCESS, TOO_LONG, FELL, NOT_FINITE)


class Monitor:
    """Decides when a trial is over: success, or too long."""

    def __init__(self, problem: Problem, goal: Goal) -> None:
        self._task, self._goal = problem.task, goal
        self._errors: list[tuple[float, float]] = []
        self._near = 0

    def update(self, qpos: Array) -> str:
        """Add the positions after a control step; returns why the trial is over, or an empty string."""
        success = self._task.success
        position, rotation = self._goal.errors(qpos)
        self._errors.append((position, rotation))
        self._near = self._near + 1 if position < success.position and rotation < success.rotation else 0
        if self._near >= success.steps:
            return SUCCESS
        return TOO_LONG if len(self._errors) >= self._task.longest else ""

    def errors(self) -> tuple[float, float]:
        """Position [m] and rotation error, means over the last steps."""
        if not self._errors:
            return np.nan, np.nan
        position, rotation = np.mean(self._errors[-self._task.success.steps :], axis=0)
        return float(position), float(rotation)


def draw(problem: Problem, seed: int) -> tuple[Array, Goal]:
    """Start qpos (nq,) and goal of a trial; they depend on the seed alone."""
    if seed < 0:
        raise InputError(f"seed {seed}: it must be at least 0; choose another")
    return problem.task.sample(np.random.default_rng(seed), problem.mjm, problem.object)


class Running:
    """A trial in progress, whose plant waits for every plan.

    Attributes:
        reason: why it ended; empty while it runs
    """

    def __init__(self, problem: Problem, seed: int) -> None:
        self._problem, self._seed = problem, seed
        start, self.goal = draw(problem, seed)
        self._plant = Plant(problem)
        self._plant.reset(start, self.goal)
        self._monitor = Monitor(problem, self.goal)
        self._frames = [start.copy()]
        self._notes = Notes()
        self.reason = ""

    @property
    def steps(self) -> int:
        """Control steps done."""
        return len(self._frames) - 1

    def observe(self) -> Observation:
        """The exact state."""
        return self._plant.observe()

    def take(self, plan: Plan) -> None:
        """Apply a plan for one control step."""
        self._notes.add(plan)
        self.reason = plan_error(plan, self._problem.nr)
        if self.reason:
            return
        self._plant.command(plan.target)
        self._plant.advance(self._problem.task.substeps)
        qpos = self._plant.mjd.qpos.copy()
        self._frames.append(qpos)
        self.reason = self._plant.failure() or self._monitor.update(qpos)

    def end(self, seconds: Sequence[float] = ()) -> Trial:
        """Outcome of the trial, given the time each plan took [s]."""
        position, rotation = self._monitor.errors()
        frames, notes = np.array(self._frames), self._notes.all()
        return Trial(
            self._seed, self.reason, self.steps, position, rotation, np.array(seconds), frames, self.goal, notes
        )


class Notes:
    """The notes of a trial's plans, each once, in order."""

    def __init__(self) -> None:
        self._notes: dict[str, None] = {}

    def add(self, plan: Plan) -> None:
        """Keep the note of a plan, if it has one and fewer than MOST_NOTES are kept."""
        if plan.note and len(self._notes) < MOST_NOTES:
            self._notes[plan.note] = None

    def all(self) -> tuple[str, ...]:
        """The notes."""
        return tuple(self._notes)


def plan_error(plan: Plan, nr: int) -> str:
    """Why a plan cannot be used for a hand with `nr` joints, or an empty string."""
    shape = np.shape(plan.target)
    if shape != (nr,):
        return f"planner: joint targets of shape {shape}, which must be ({nr},)"
    return "" if np.isfinite(plan.target).all() else "planner: a joint target is not finite"


def run(
    problem: Problem,
    planner: Planner,
    seed: int,
    *,
    clock: Callable[[], float] = time.perf_counter,
    progress: Callable[[int], None] = lambda steps: None,
) -> Trial:
    """Run a trial; `progress` is called with the control steps done."""
    running = Running(problem, seed)
    planner.reset(running.goal, seed)
    seconds = []
    while not running.reason:
        observation = running.observe()
        begin = clock()
        try:
            plan = planner.plan(observation)
        except StickslipError as error:
            running.reason = f"planner: {error}"
            break
        seconds.append(clock() - begin)
        running.take(plan)
        progress(running.steps)
    return running.end(seconds)
