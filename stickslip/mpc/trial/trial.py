"""One trial: planner and plant take turns, and the plant waits for every plan."""

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from stickslip.errors import InputError, StickslipError
from stickslip.mpc.success import FELL, Array, Goal
from stickslip.mpc.task import Observation, Plan, Planner, Problem
from stickslip.mpc.trial.plant import NOT_FINITE, Plant

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
        errors: errors of the task, means over the last control steps that success requires; NaN without a step  (k,)
        history: errors after each control step                     (steps, k)
        seconds: time each plan took [s]                            (plans,)
        frames: qpos at the start and after each control step       (steps + 1, nq)
        goal: the goal
        notes: notes of its plans, each once; see `Plan.note`
        terms: terms of the cost at the state each plan began from, by name  (plans,); see `Plan.terms`
    """

    seed: int
    reason: str
    steps: int
    errors: Array
    history: Array
    seconds: Array
    frames: Array
    goal: Goal
    notes: tuple[str, ...] = ()
    terms: Mapping[str, Array] = dataclasses.field(default_factory=dict)

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
        self._problem, self._task, self._goal = problem, problem.task, goal
        self._errors: list[Array] = []
        self._near = 0

    def update(self, qpos: Array, qvel: Array) -> str:
        """Add the state after a control step; returns why the trial is over, or an empty string."""
        success = self._task.success
        errors = np.asarray(self._task.errors(self._problem.mjm, qpos, qvel, self._goal), dtype=np.float64)
        if errors.shape != (len(success.measures),):
            raise InputError(
                f"errors of {self._task.name} have shape {errors.shape}, and its success has {len(success.measures)} "
                "measures: give one error for each"
            )
        self._errors.append(errors)
        self._near = self._near + 1 if success.reached(errors) else 0
        if self._near >= success.steps:
            return SUCCESS
        return TOO_LONG if len(self._errors) >= self._task.longest else ""

    def history(self) -> Array:
        """Errors after each control step, (steps, k)."""
        return np.array(self._errors).reshape(-1, len(self._task.success.measures))


def last_errors(problem: Problem, history: Array) -> Array:
    """Errors (k,), means over the last control steps that success requires; NaN without a step."""
    success = problem.task.success
    return history[-success.steps :].mean(axis=0) if len(history) else np.full(len(success.measures), np.nan)


def draw(problem: Problem, seed: int) -> tuple[Array, Goal]:
    """Start qpos (nq,) and goal of a trial; they depend on the seed alone."""
    if seed < 0:
        raise InputError(f"seed {seed}: it must be at least 0; choose another")
    task, nq = problem.task, problem.mjm.nq
    drawn: Any = task.sample(np.random.default_rng(seed), problem.mjm, problem.object)
    if not (isinstance(drawn, tuple) and len(drawn) == 2 and isinstance(drawn[1], Goal)):
        raise InputError(
            f"the sampler of {task.name} gives {type(drawn).__name__}: it must give a start (nq,) and a Goal; a task "
            "without a goal gives Goal(np.zeros(0))"
        )
    start, goal = np.asarray(drawn[0], dtype=np.float64), drawn[1]
    if start.shape != (nq,) or not np.isfinite(start).all() or not np.isfinite(goal.values).all():
        raise InputError(
            f"the sampler of {task.name} gives a start of shape {start.shape} and the goal {goal.values.tolist()}: the "
            f"start must have {nq} positions, and all must be finite"
        )
    return start, goal


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
        self._terms: list[Mapping[str, float]] = []
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
        self._notes.add(plan.note)
        self._terms.append(plan.terms)
        self.reason = plan_error(plan, self._problem.nr)
        if self.reason:
            return
        self._plant.command(plan.target)
        self._plant.advance(self._problem.task.substeps)
        qpos = self._plant.mjd.qpos.copy()
        self._frames.append(qpos)
        self.reason = self._plant.failure() or self._monitor.update(qpos, self._plant.mjd.qvel.copy())

    def end(self, seconds: Sequence[float] = ()) -> Trial:
        """Outcome of the trial, given the time each plan took [s]."""
        history = self._monitor.history()
        names = dict.fromkeys(name for plan in self._terms for name in plan)
        terms = {name: np.array([plan.get(name, np.nan) for plan in self._terms]) for name in names}
        return Trial(
            self._seed,
            self.reason,
            self.steps,
            last_errors(self._problem, history),
            history,
            np.array(seconds),
            np.array(self._frames),
            self.goal,
            self._notes.all(),
            terms,
        )


class Notes:
    """The notes of a trial's plans, each once, in order."""

    def __init__(self) -> None:
        self._notes: dict[str, None] = {}

    def add(self, *notes: str) -> None:
        """Keep notes that are not empty, as long as fewer than MOST_NOTES are kept."""
        for note in notes:
            if note and len(self._notes) < MOST_NOTES:
                self._notes[note] = None

    def all(self) -> tuple[str, ...]:
        """The notes."""
        return tuple(self._notes)


def plan_error(plan: Plan, nr: int) -> str:
    """Why a plan cannot be used for a model with `nr` actuators, or an empty string."""
    shape = np.shape(plan.target)
    if shape != (nr,):
        return f"planner: controls of shape {shape}, which must be ({nr},)"
    return "" if np.isfinite(plan.target).all() else "planner: a control is not finite"


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
