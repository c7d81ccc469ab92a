"""Real-time trials on a simulated clock: every plan takes a given time, whatever it takes on this machine.

Sensors, plant and the moment at which a plan acts are those of `loop.run_realtime`. Since no wall clock runs, many
trials run in one batch, and the same seeds give the same trials. Two things differ: all plans take the same time, and
messages take none.
"""

import concurrent.futures
import math
from collections.abc import Callable, Sequence

import numpy as np

from stickslip.errors import InputError
from stickslip.mpc.realtime.channel import memory_pair
from stickslip.mpc.realtime.messages import Command
from stickslip.mpc.realtime.plant import RealtimePlant
from stickslip.mpc.realtime.sensors import Estimator, Sensors
from stickslip.mpc.task import Observation, Plan, Problem
from stickslip.mpc.trial.batch import THREADS, Planners, check, plan_all
from stickslip.mpc.trial.trial import Notes, Trial, draw, last_errors, plan_error

LONGEST_PLAN = 10.0
"""Longest plan time that is accepted [s]."""
_STRIDE = 0.05
"""Longest time that a plant advances at once [s]; beyond `plant.CATCH_UP` it would give time up."""


class _Paced:
    """One trial: the plant, and the planner's estimate of its state."""

    def __init__(self, problem: Problem, believed: Problem, seed: int, sensors: Sensors, look_ahead: bool) -> None:
        self.seed, self.reason = seed, ""
        self.start, self.goal = draw(problem, seed)
        self._channel, far = memory_pair()
        self._notes = Notes()
        self._plant, self._estimator = RealtimePlant(problem, seed, sensors, far), Estimator(believed, look_ahead)
        self._time = 0.0
        self._plant.begin()
        self._receive()

    def _receive(self) -> None:
        for envelope in self._channel.receive():
            self._estimator.take(envelope)
        self.reason = self.reason or self._plant.reason

    def advance(self, until: float) -> None:
        """Advance the plant to the time `until` [s]."""
        while not self.reason and self._time < until:
            self._time = min(until, self._time + _STRIDE)
            self._plant.advance(self._time)
            self._receive()

    def new(self) -> bool:
        """Whether there is a new state to plan from, or the trial is over."""
        return bool(self.reason) or self._estimator.new()

    def observe(self, plan_time: float) -> Observation:
        """The estimate for a plan that begins now; the start once the trial is over: all plans of a batch need one."""
        if not self.reason:
            return self._estimator.observe(self._time + plan_time)
        problem = self._plant.problem
        return Observation(0.0, self.start, np.zeros(problem.mjm.nv), problem.start_ctrl(self.start))

    def command(self, plan: Plan) -> None:
        """Send the command of a plan for the last observation."""
        if self.reason:
            return
        self._notes.add(self._estimator.note, plan.note)
        self.reason = plan_error(plan, self._plant.problem.nr)
        if not self.reason:
            self._channel.publish(Command(self._estimator.used, plan.target))
            self._estimator.sent(self._time, plan.target)

    def end(self) -> Trial:
        """Outcome of the trial."""
        result = self._plant.result(self.reason)
        steps, seconds, notes = len(result.frames) - 1, np.zeros(0), self._notes.all()
        return Trial(
            self.seed,
            result.reason,
            steps,
            last_errors(self._plant.problem, result.history),
            result.history,
            seconds,
            result.frames,
            self.goal,
            notes,
        )


def run_paced(
    problem: Problem,
    planners: Planners,
    seeds: Sequence[int],
    plan_time: float,
    *,
    sensors: Sensors | None = None,
    look_ahead: bool = True,
    believed: Problem | None = None,
    progress: Callable[[int, int], None] = lambda steps, ended: None,
) -> list[Trial]:
    """Run a trial for each seed. An error of the planner is raised and ends all trials.

    Args:
        problem: the task, compiled
        planners: a batch planner for that problem, with as many trials as there are seeds
        seeds: seeds of start, goal, planner and noise
        plan_time: time that each plan takes on the simulated clock [s]
        sensors: rates, noise and delay of the measurements
        look_ahead: plan from the state predicted for the time at which the plan acts, not from the last measurements
        believed: what the planner takes the plant for, if that is another model; see `variation.varied`
        progress: called after each plan with the control steps done and the number of trials that have ended
    """
    if not (math.isfinite(plan_time) and 0.0 <= plan_time <= LONGEST_PLAN):
        raise InputError(
            f"plan_time {plan_time}: it must be from 0 to {LONGEST_PLAN:g} s; "
            "plan with fewer samples or a shorter horizon if plans take longer"
        )
    check(problem)
    timestep = float(problem.mjm.opt.timestep)
    period = problem.period
    trials = [_Paced(problem, believed or problem, seed, sensors or Sensors(), look_ahead) for seed in seeds]
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
            seen = list(pool.map(lambda trial: trial.observe(plan_time), trials))
            plans = planning.submit(plan_all, planners, seen)  # the plants advance meanwhile
            advance(now + plan_time)
            for trial, plan in zip(trials, plans.result(), strict=True):
                trial.command(plan)
            now += max(period, plan_time)
            advance(now)
            progress(round(now / period), sum(bool(trial.reason) for trial in trials))
        return [trial.end() for trial in trials]
    finally:
        planning.shutdown()
        pool.shutdown()
