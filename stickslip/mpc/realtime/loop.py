"""One trial in real time: the planner here, the plant in a process of its own. A late plan acts late."""

import collections
import dataclasses
import math
import statistics
import time
from collections.abc import Callable

import numpy as np

from stickslip.mpc.realtime.messages import Command, Counts, Result, Signal
from stickslip.mpc.realtime.process import PlantProcess
from stickslip.mpc.realtime.sensors import STALE, Estimator, Sensors
from stickslip.mpc.success import Array, Goal
from stickslip.mpc.task import Observation, Planner, Problem
from stickslip.mpc.trial.trial import Notes, Trial, draw, last_errors, plan_error
from stickslip.parameters import checked, parameter

WAIT = 0.005
"""Longest wait for messages before the clock is checked again [s]."""
RECENT = 9
"""Plans whose median duration is expected of the next."""


@checked
@dataclasses.dataclass(frozen=True)
class Limits:
    """How long the planner's side waits for the plant's process."""

    startup: float = parameter(60.0, "until it is ready [s]", 0.0, 3600.0, above=True)
    silence: float = parameter(
        1.0, "until the first pose, and from one joint state to the next [s]", 0.0, 3600.0, above=True
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Realtime:
    """Outcome of a trial in real time.

    Attributes:
        trial: the trial, with the plant's steps and frames
        plans_per_second: plans per second of wall-clock time, while the plant ran [1/s]
        pose_age: age of the object's pose when a plan begins, mean [s]
        latency: from a joint state until the command computed from it takes effect, mean [s]
        worst_latency: maximum latency [s]
        longest_hold: longest time that the servos held one command [s]
        real_time_factor: simulated time / wall-clock time; below 1 if the plant could not keep up
        slipped: time by which the plant gave up catching up [s]
        refused: commands that the plant refused: out of order or from the future
        planner_counts: messages at the planner's end of the channel
        plant_counts: messages at the plant's end
    """

    trial: Trial
    plans_per_second: float
    pose_age: float
    latency: float
    worst_latency: float
    longest_hold: float
    real_time_factor: float
    slipped: float
    refused: int
    planner_counts: Counts
    plant_counts: Counts

    @property
    def dropped(self) -> int:
        """Messages that were skipped at either end."""
        return self.planner_counts.skipped + self.plant_counts.skipped


def run_realtime(
    problem: Problem,
    planner: Planner,
    seed: int,
    *,
    sensors: Sensors | None = None,
    limits: Limits | None = None,
    look_ahead: bool = True,
    progress: Callable[[int], None] = lambda steps: None,
) -> Realtime:
    """Run a trial in real time. An error of the planner or the plant ends the trial and is its reason.

    The planner plans once before the plant's clock starts, from the exact start, and is reset, so that compilation does
    not count. A planner that never returns from `plan` blocks this call. The plant's process is started by
    `multiprocessing` with "spawn": a script must call this under `if __name__ == "__main__":`.

    Args:
        problem: the task, compiled; its functions must be importable by another process
        planner: a planner for that problem
        seed: seed of start, goal, planner and noise
        sensors: rates, noise and delay of the measurements
        limits: how long to wait for the plant's process
        look_ahead: plan from the state predicted for the time at which the plan acts, not from the last measurements
        progress: called with the number of control steps done
    """
    start, goal = draw(problem, seed)
    loop = PlannerLoop(problem, planner, limits or Limits(), progress, look_ahead)
    try:
        loop.warm_up(start, goal, seed)
    except TrialOver as over:
        return _outcome(loop, Result(str(over)), seed, start, goal, Counts())
    plant = PlantProcess(problem, seed, sensors or Sensors())
    try:
        result = loop.serve(plant)
        return _outcome(loop, result, seed, start, goal, plant.channel.counts)
    finally:
        plant.close()


class TrialOver(Exception):
    """The trial is over, for a reason on the planner's side."""


class PlannerLoop:
    """The planner in one trial: it plans from the newest measurements as often as it can.

    Attributes:
        seconds: time each plan took [s]
        pose_ages: age of the object's pose when each plan began [s]
        notes: notes of the plans
    """

    def __init__(
        self,
        problem: Problem,
        planner: Planner,
        limits: Limits,
        progress: Callable[[int], None],
        look_ahead: bool = True,
    ) -> None:
        self.seconds: list[float] = []
        self.pose_ages: list[float] = []
        self.notes = Notes()
        self.problem, self._planner, self._limits, self._progress = problem, planner, limits, progress
        self._period = problem.period
        self._estimator = Estimator(problem, look_ahead)
        self._durations: collections.deque[float] = collections.deque(maxlen=RECENT)  # of estimate and plan

    def warm_up(self, start: Array, goal: Goal, seed: int) -> None:
        """Plan once and reset, so that compilation does not count. Raises TrialOver if the planner fails."""
        at_rest = np.zeros(self.problem.mjm.nv)
        try:
            self._planner.reset(goal, seed)
            self._planner.plan(Observation(0.0, start.copy(), at_rest, self.problem.start_ctrl(start)))
            self._planner.reset(goal, seed)
        except Exception as error:
            raise TrialOver(_failed(error)) from error

    def serve(self, plant: PlantProcess) -> Result:
        """Plan until the plant has ended, or must be ended."""
        try:
            self._wait_until_ready(plant)
            plant.publish(Signal.START)
            result = self._wait_for_state(plant, 0.0)
            while result is None:
                begin = time.monotonic()
                self._plan(plant)
                result = self._wait_for_state(plant, begin + self._period)
        except TrialOver as over:
            return dataclasses.replace(plant.stop(), reason=str(over))
        self._progress(max(0, len(result.frames) - 1))
        return result

    def _wait_until_ready(self, plant: PlantProcess) -> None:
        deadline = time.monotonic() + self._limits.startup
        while time.monotonic() < deadline:
            ready = any(envelope.message is Signal.READY for envelope in plant.receive(WAIT))
            if ready or plant.result is not None:
                return
        raise TrialOver(
            f"plant: not ready within {self._limits.startup:g} s; raise `Limits.startup` if it is only slow"
        )

    def _wait_for_state(self, plant: PlantProcess, earliest: float) -> Result | None:
        """Wait for a new state to plan from, at least until `earliest`; returns the result if the plant ends."""
        deadline = max(time.monotonic(), earliest) + self._limits.silence
        waited = False
        while (now := time.monotonic()) < deadline:
            timeout = min(WAIT, max(0.0, earliest - now)) if self._estimator.new() else WAIT
            for envelope in plant.receive(timeout):
                self._estimator.take(envelope)
            if plant.result is not None:
                return plant.result
            now = time.monotonic()
            if now >= earliest and self._estimator.new():
                if waited or now - self._estimator.published < STALE:
                    return None
                waited = True
                self._estimator.skip()
        raise TrialOver(f"plant: stopped answering, nothing new for {self._limits.silence:g} s")

    def _plan(self, plant: PlantProcess) -> None:
        """Plan from the newest state and send the command."""
        estimator, clock = self._estimator, time.monotonic()
        self.pose_ages.append(estimator.pose_age())
        now = estimator.now(clock)
        observation = estimator.observe(now + statistics.median(self._durations or [0.0]))
        begin = time.perf_counter()
        try:
            plan = self._planner.plan(observation)
        except Exception as error:
            raise TrialOver(_failed(error)) from error
        self.seconds.append(time.perf_counter() - begin)
        self.notes.add(estimator.note, plan.note)
        wrong = plan_error(plan, self.problem.nr)
        if wrong:
            raise TrialOver(wrong)
        target = np.asarray(plan.target, dtype=np.float64)
        plant.publish(Command(estimator.used, target))
        self._durations.append(time.monotonic() - clock)
        estimator.sent(now + self._durations[-1], target)
        self._progress(round(estimator.used / self._period))


def _failed(error: Exception) -> str:
    return f"planner: {type(error).__name__}: {error}"


def _outcome(loop: PlannerLoop, result: Result, seed: int, start: Array, goal: Goal, counts: Counts) -> Realtime:
    frames = result.frames if len(result.frames) else start[None]
    seconds = np.array(loop.seconds)
    trial = Trial(
        seed,
        result.reason,
        len(frames) - 1,
        last_errors(loop.problem, result.history),
        result.history,
        seconds,
        frames,
        goal,
        loop.notes.all(),
    )
    return Realtime(
        trial,
        plans_per_second=len(seconds) / result.wall if result.wall else 0.0,
        pose_age=float(np.mean(loop.pose_ages)) if loop.pose_ages else math.nan,
        latency=result.latency,
        worst_latency=result.worst,
        longest_hold=result.longest,
        real_time_factor=result.simulated / result.wall if result.wall else math.nan,
        slipped=result.slipped,
        refused=result.refused,
        planner_counts=counts,
        plant_counts=result.counts,
    )
