"""One trial in real time: the planner here, the plant in a process of its own. A late plan acts late."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from stickslip.errors import InputError
from stickslip.mpc.realtime.bus import Counts
from stickslip.mpc.realtime.child import LOOPBACK, PlantProcess, check
from stickslip.mpc.realtime.messages import MAX_JOINTS, MAX_SEED
from stickslip.mpc.realtime.planner_side import Limits, Over, PlannerSide
from stickslip.mpc.realtime.result import Result
from stickslip.mpc.realtime.sensors import Sensors
from stickslip.mpc.task import Array, Goal, Planner, Problem
from stickslip.mpc.trial import Trial, draw


@dataclasses.dataclass(frozen=True, eq=False)
class Realtime:
    """What came of a trial in real time.

    Attributes:
        trial: the trial; its steps and frames are the plant's
        plans_per_second: of the wall clock, while the plant ran [1/s]
        pose_age: of the object's pose when a plan begins, mean [s]
        latency: from a joint state to the command that answers it taking force, mean [s]
        worst_latency: the longest of these [s]
        longest_hold: time the servos held one command, the longest [s]
        real_time_factor: time of the plant by time of the wall clock; below 1 if the plant could not keep up
        slipped: time the plant gave up on [s]
        refused: messages that were whole but did not fit: of another hand, or commands out of order or from the future
        planner_counts: messages at the planner's end of the bus
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
        """Messages that were lost at either end: skipped by the sender, or no messages."""
        return sum(counts.skipped + counts.malformed for counts in (self.planner_counts, self.plant_counts))


def run_realtime(
    problem: Problem,
    planner: Planner,
    seed: int,
    *,
    sensors: Sensors | None = None,
    bus: str = LOOPBACK,
    limits: Limits | None = None,
    progress: Callable[[int], None] = lambda steps: None,
) -> Realtime:
    """Run a trial in real time; whatever goes wrong in it is the reason of the trial.

    The planner plans once before the plant's clock runs, from the exact start, and is reset: what it compiles then does
    not count. A planner that never returns cannot be ended from here.

    Args:
        problem: a task by its name in `stickslip.mpc.tasks.TASKS`, with an object
        planner: of that problem
        seed: of start, goal, planner and noise
        sensors: rates and noise of what the planner is told
        bus: "loopback", "lcm", or LCM by its URL
        limits: patience with the plant's process
        progress: is called with the control steps done
    """
    check(problem)
    if problem.nr > MAX_JOINTS:
        raise InputError(f"{problem.task.name} has {problem.nr} joints: at most {MAX_JOINTS} go in a message")
    if not 0 <= seed <= MAX_SEED:
        raise InputError(f"seed {seed}: it must be from 0 to {MAX_SEED}; choose another")
    start, goal = draw(problem, seed)
    side = PlannerSide(problem, planner, limits or Limits(), progress)
    try:
        side.warm_up(start, goal, seed)
    except Over as over:
        return _realtime(side, Result(str(over), start[None]), seed, start, goal, Counts())
    plant = PlantProcess(problem, seed, sensors or Sensors(), bus)
    try:
        outcome = side.serve(plant, seed)
        return _realtime(side, outcome, seed, start, goal, plant.bus.counts)
    finally:
        plant.close()


def _realtime(side: PlannerSide, outcome: Result, seed: int, start: Array, goal: Goal, counts: Counts) -> Realtime:
    frames = outcome.frames if len(outcome.frames) else start[None]
    seconds = np.array(side.seconds)
    told = side.notes.told()
    trial = Trial(
        seed, outcome.reason, len(frames) - 1, outcome.position, outcome.rotation, seconds, frames, goal, told
    )
    return Realtime(
        trial,
        plans_per_second=len(seconds) / outcome.wall if outcome.wall else 0.0,
        pose_age=float(np.mean(side.pose_ages)) if side.pose_ages else math.nan,
        latency=outcome.latency,
        worst_latency=outcome.worst,
        longest_hold=outcome.longest,
        real_time_factor=outcome.simulated / outcome.wall if outcome.wall else math.nan,
        slipped=outcome.slipped,
        refused=outcome.refused + side.unfit,
        planner_counts=counts,
        plant_counts=outcome.counts,
    )
