"""What the planner's process does in a trial: look at what has come, plan, send the command, as often as it can."""

import dataclasses
import time
from collections.abc import Callable

import numpy as np

from stickslip.errors import InputError
from stickslip.mpc.realtime.child import PlantProcess
from stickslip.mpc.realtime.messages import Command, Kind, Start, Status
from stickslip.mpc.realtime.result import Result
from stickslip.mpc.realtime.view import View
from stickslip.mpc.task import Array, Goal, Observation, Planner, Problem
from stickslip.mpc.trial import Notes, not_usable

WAIT = 0.005
"""Longest wait for messages before the plant is looked after again [s]."""
STALE = 0.1
"""Age of a joint state [s] from which on the next is waited for: the bus was full while the planner was busy."""
READY = Status(Kind.READY)


@dataclasses.dataclass(frozen=True)
class Limits:
    """Patience with the plant's process.

    Attributes:
        startup: time it may take until it is ready [s]
        silence: time it may take until the first pose, and from one joint state to the next [s]
    """

    startup: float = 60.0
    silence: float = 1.0

    def __post_init__(self) -> None:
        for name in ("startup", "silence"):
            value = getattr(self, name)
            if not 0.0 < value <= 3600.0:
                raise InputError(f"{name} {value}: it must be above 0 and at most 3600 s; choose it in between")


class Over(Exception):
    """The trial is over, for a reason of the planner's side."""


class PlannerSide:
    """The planner in one trial.

    Attributes:
        seconds: time each plan took [s]
        pose_ages: age of the object's pose when each plan began [s]
        notes: of the plans
    """

    def __init__(self, problem: Problem, planner: Planner, limits: Limits, progress: Callable[[int], None]) -> None:
        self.seconds: list[float] = []
        self.pose_ages: list[float] = []
        self.notes = Notes()
        self._problem, self._planner, self._limits, self._progress = problem, planner, limits, progress
        self._period = problem.task.substeps * float(problem.mjm.opt.timestep)
        self._view = View(problem)

    @property
    def unfit(self) -> int:
        """Joint states of another hand, which were dropped."""
        return self._view.unfit

    def warm_up(self, start: Array, goal: Goal, seed: int) -> None:
        """Let the planner plan once, and forget it: what it compiles is not to count. Raises Over if it fails."""
        nr, nv = self._problem.nr, self._problem.mjm.nv
        try:
            self._planner.reset(goal, seed)
            self._planner.plan(Observation(0.0, start.copy(), np.zeros(nv), start[:nr].copy()))
            self._planner.reset(goal, seed)
        except Exception as error:
            raise Over(_failed(error)) from error

    def serve(self, plant: PlantProcess, seed: int) -> Result:
        """Plan until the plant has ended, or must be ended."""
        try:
            self._wait_until_ready(plant)
            outcome = self._look(plant, 0.0, Start(seed))
            while outcome is None:
                begin = time.monotonic()
                self._answer(plant)
                outcome = self._look(plant, begin + self._period)
        except Over as over:
            return dataclasses.replace(plant.stop(), reason=str(over))
        self._progress(max(0, len(outcome.frames) - 1))
        return outcome

    def _wait_until_ready(self, plant: PlantProcess) -> None:
        deadline = time.monotonic() + self._limits.startup
        while time.monotonic() < deadline:
            if READY in (envelope.message for envelope in plant.bus.receive(WAIT)) or plant.poll() is not None:
                return
        raise Over(f"plant: not ready within {self._limits.startup:g} s; raise `Limits.startup` if it is only slow")

    def _look(self, plant: PlantProcess, earliest: float, start: Start | None = None) -> Result | None:
        """Wait for something new to plan from, at least until `earliest`; gives the plant's result if it ends.

        With `start`, the plant's clock is started first, and again while it still says that it is ready.
        """
        deadline = max(time.monotonic(), earliest) + self._limits.silence
        if start:
            plant.bus.publish(start)
        waited = False
        while (now := time.monotonic()) < deadline:
            for envelope in plant.bus.receive(min(WAIT, max(0.0, earliest - now)) if self._view.new() else WAIT):
                self._view.take(envelope)
                if start and envelope.message == READY:
                    plant.bus.publish(start)
            outcome = plant.poll()
            if outcome is not None:
                return outcome
            now = time.monotonic()
            if now >= earliest and self._view.new():
                if waited or now - self._view.sent < STALE:
                    return None
                waited = True
                self._view.pass_over()
        raise Over(f"plant: stopped answering, nothing new for {self._limits.silence:g} s")

    def _answer(self, plant: PlantProcess) -> None:
        """Plan from what there is, and send the command."""
        self.pose_ages.append(self._view.pose_age())
        observation = self._view.observe()
        begin = time.perf_counter()
        try:
            plan = self._planner.plan(observation)
        except Exception as error:
            raise Over(_failed(error)) from error
        self.seconds.append(time.perf_counter() - begin)
        self.notes.take(plan)
        wrong = not_usable(plan, self._problem.nr)
        if wrong:
            raise Over(wrong)
        plant.bus.publish(Command(observation.time, np.asarray(plan.target, dtype=np.float64)))
        self._progress(round(observation.time / self._period))


def _failed(error: Exception) -> str:
    return f"planner: {type(error).__name__}: {error}"
