"""Trials by a clock that is only counted: a plan takes as long as is said, whatever it takes.

What the planner is told and when, and when a plan takes force, is as in `loop.run_realtime`, with the same sensors and
the same plant. Since no clock runs, many trials go side by side, and the same seeds give the same trials again. What is
left out: the time a plan takes is always the same, and messages need none.
"""

import concurrent.futures
import math
from collections.abc import Callable, Sequence

import numpy as np

from stickslip.errors import InputError
from stickslip.mpc.crowd import THREADS, Planners, check, plan_all
from stickslip.mpc.realtime.bus import memory_pair
from stickslip.mpc.realtime.messages import Command
from stickslip.mpc.realtime.plant_loop import PlantLoop
from stickslip.mpc.realtime.sensors import Sensors
from stickslip.mpc.realtime.view import View
from stickslip.mpc.task import Observation, Plan, Problem
from stickslip.mpc.trial import Notes, Trial, draw, not_usable

LONGEST_PLAN = 10.0
"""Of a plan that is accepted [s]."""
_STRIDE = 0.05
"""Time that plants go on before their messages are read [s]; a bus does not hold more than a second's."""


class _Paced:
    """One trial: the plant, and what the planner knows of it."""

    def __init__(self, problem: Problem, seed: int, sensors: Sensors) -> None:
        self.seed, self.reason = seed, ""
        self.start, self.goal = draw(problem, seed)
        self._bus, far = memory_pair()
        self._notes = Notes()
        self._loop, self._view = PlantLoop(problem, seed, sensors, far), View(problem)
        self._told = 0.0
        self._loop.begin()
        self._listen()

    def _listen(self) -> None:
        for envelope in self._bus.receive(0.0):
            self._view.take(envelope)
        self.reason = self.reason or self._loop.reason

    def advance(self, until: float) -> None:
        """Let the plant go on until its clock shows `until` [s]."""
        while not self.reason and self._told < until:
            self._told = min(until, self._told + _STRIDE)
            self._loop.advance(self._told)
            self._listen()

    def new(self) -> bool:
        """Whether there is something to plan from, or the trial is over."""
        return bool(self.reason) or self._view.new()

    def observe(self) -> Observation:
        """What the planner sees; where the trial started, once it is over, so that there is something to plan from."""
        if not self.reason:
            return self._view.observe()
        nr = self._loop.problem.nr
        return Observation(0.0, self.start, np.zeros(self._loop.problem.mjm.nv), self.start[:nr].copy())

    def command(self, seen: Observation, plan: Plan) -> None:
        """Send the command that answers what was seen."""
        if self.reason:
            return
        self._notes.take(plan)
        self.reason = not_usable(plan, self._loop.problem.nr)
        if not self.reason:
            self._bus.publish(Command(seen.time, plan.target))

    def end(self) -> Trial:
        """What came of it."""
        found = self._loop.result(self.reason)
        steps, seconds = len(found.frames) - 1, np.zeros(0)
        told = self._notes.told()
        return Trial(
            self.seed, found.reason, steps, found.position, found.rotation, seconds, found.frames, self.goal, told
        )


def run_paced(
    problem: Problem,
    planners: Planners,
    seeds: Sequence[int],
    plan_time: float,
    *,
    sensors: Sensors | None = None,
    progress: Callable[[int, int], None] = lambda steps, ended: None,
) -> list[Trial]:
    """Run a trial for each seed; `progress` is told control steps done and trials ended.

    A planner that fails ends all trials: its error is raised.

    Args:
        problem: the task, compiled
        planners: of that problem, for as many trials as there are seeds
        seeds: of start, goal, planner and noise
        plan_time: what a plan takes [s]
        sensors: rates and noise of what the planner is told
        progress: is called after each plan
    """
    if not (math.isfinite(plan_time) and 0.0 <= plan_time <= LONGEST_PLAN):
        raise InputError(
            f"plan_time {plan_time}: it must be from 0 to {LONGEST_PLAN:g} s; "
            "plan with fewer samples or a shorter horizon if a plan does take longer"
        )
    check(problem, seeds)
    timestep = float(problem.mjm.opt.timestep)
    period = problem.task.substeps * timestep
    trials = [_Paced(problem, seed, sensors or Sensors()) for seed in seeds]
    planning, pool = concurrent.futures.ThreadPoolExecutor(1), concurrent.futures.ThreadPoolExecutor(THREADS)

    def advance(until: float) -> None:
        list(pool.map(lambda trial: trial.advance(until), trials))

    try:
        planners.reset([trial.goal for trial in trials], seeds)
        now = 0.0
        while any(not trial.reason for trial in trials):
            if not all(trial.new() for trial in trials):
                now += timestep
                advance(now)
                continue
            seen = [trial.observe() for trial in trials]
            plans = planning.submit(plan_all, planners, seen)  # plants go on meanwhile, which need nothing of it yet
            advance(now + plan_time)
            for trial, what, plan in zip(trials, seen, plans.result(), strict=True):
                trial.command(what, plan)
            now += max(period, plan_time)
            advance(now)
            progress(round(now / period), sum(bool(trial.reason) for trial in trials))
        return [trial.end() for trial in trials]
    finally:
        planning.shutdown()
        pool.shutdown()
