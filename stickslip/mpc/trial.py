"""One trial: a planner and a plant in turn, the plant waiting for every plan, until it is done, lost or too long."""

import dataclasses
import time
from collections.abc import Callable, Sequence

import numpy as np

from stickslip.errors import StickslipError
from stickslip.mpc.plant import Plant
from stickslip.mpc.task import Array, Goal, Observation, Plan, Planner, Problem

SUCCESS = "success"
TOO_LONG = "too long"
"""Reasons why a trial ended; others are those of `Plant.lost`, and what a planner says that fails."""
MOST_NOTES = 20
"""Of a trial; a planner that has a new one every time says enough with these."""


@dataclasses.dataclass(frozen=True, eq=False)
class Trial:
    """What came of a trial.

    Attributes:
        seed: of its start, goal and planner
        reason: why it ended; "success" if it was done
        steps: control steps it took
        position: distance from the goal, mean over the last steps that success asks for [m]
        rotation: 1 - (q.q*)^2 likewise
        seconds: time each plan took [s]                            (plans,)
        frames: qpos at the start and after each control step       (steps + 1, nq)
        goal: where the object was to go
        notes: of its plans, each once: what went wrong in them and was made do with
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
        return self.reason == SUCCESS


class Judge:
    """Watches the object of a trial, and says when it is over."""

    def __init__(self, problem: Problem, goal: Goal) -> None:
        self._task, self._goal = problem.task, goal
        self._errors: list[tuple[float, float]] = []
        self._near = 0

    def see(self, qpos: Array) -> str:
        """Take the positions after a control step; the reason why the trial is over, or nothing."""
        success = self._task.success
        position, rotation = self._goal.errors(qpos)
        self._errors.append((position, rotation))
        self._near = self._near + 1 if position < success.position and rotation < success.rotation else 0
        if self._near >= success.steps:
            return SUCCESS
        return TOO_LONG if len(self._errors) >= self._task.longest else ""

    def errors(self) -> tuple[float, float]:
        """Position [m] and rotation, means over the last steps."""
        if not self._errors:
            return np.nan, np.nan
        position, rotation = np.mean(self._errors[-self._task.success.steps :], axis=0)
        return float(position), float(rotation)


def draw(problem: Problem, seed: int) -> tuple[Array, Goal]:
    """Start (nq,) and goal of a trial; the same for every planner."""
    return problem.task.sample(np.random.default_rng(seed), problem.mjm, problem.object)


class Running:
    """A trial that is going on, whose plant waits for every plan.

    Attributes:
        reason: why it ended; empty while it goes on
        steps: control steps done
    """

    def __init__(self, problem: Problem, seed: int) -> None:
        self._problem, self._seed = problem, seed
        start, self.goal = draw(problem, seed)
        self._plant = Plant(problem)
        self._plant.reset(start, self.goal)
        self._judge = Judge(problem, self.goal)
        self._frames = [start.copy()]
        self._notes = Notes()
        self.reason = ""

    @property
    def steps(self) -> int:
        return len(self._frames) - 1

    def observe(self) -> Observation:
        """Where things are."""
        return self._plant.observe()

    def take(self, plan: Plan) -> None:
        """Do what a plan says for a control step."""
        self._notes.take(plan)
        self.reason = not_usable(plan, self._problem.nr)
        if self.reason:
            return
        self._plant.command(plan.target)
        self._plant.advance(self._problem.task.substeps)
        qpos = self._plant.mjd.qpos.copy()
        self._frames.append(qpos)
        self.reason = self._plant.lost() or self._judge.see(qpos)

    def end(self, seconds: Sequence[float] = ()) -> Trial:
        """What came of it, given the time each plan took."""
        position, rotation = self._judge.errors()
        frames, notes = np.array(self._frames), self._notes.told()
        return Trial(
            self._seed, self.reason, self.steps, position, rotation, np.array(seconds), frames, self.goal, notes
        )


class Notes:
    """The notes of a trial's plans, each once, in the order in which they came."""

    def __init__(self) -> None:
        self._notes: dict[str, None] = {}

    def take(self, plan: Plan) -> None:
        """Keep the note of a plan, if it has one and there are not too many."""
        if plan.note and len(self._notes) < MOST_NOTES:
            self._notes[plan.note] = None

    def told(self) -> tuple[str, ...]:
        return tuple(self._notes)


def not_usable(plan: Plan, nr: int) -> str:
    """Why a plan cannot be used for a hand of `nr` joints, or nothing."""
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
