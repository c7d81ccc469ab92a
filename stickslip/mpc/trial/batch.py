"""A batch of trials: all plans of a control step are computed at once, then every plant advances.

Each trial is the same as it would be alone. On a GPU that one plan does not fill, the batch takes less time. Plans
share the device, so that the time of a single plan is unknown: `Trial.seconds` is empty.
"""

import concurrent.futures
from collections.abc import Callable, Sequence
from typing import Protocol

from stickslip.errors import InputError, Unsupported
from stickslip.mpc.success import Goal
from stickslip.mpc.task import Observation, Plan, Problem
from stickslip.mpc.trial.trial import Running, Trial

THREADS = 4
"""Threads for the plants. MuJoCo's steps run in parallel, the Python code around them does not: more help little."""


class Planners(Protocol):
    """A planner for several trials at once, such as `sampling.batch.Batch`."""

    def reset(self, goals: Sequence[Goal], seeds: Sequence[int]) -> None:
        """Start new trials, with a goal and a seed for each."""
        ...

    def plan(self, observations: Sequence[Observation]) -> list[Plan]:
        """A plan for every trial, for the next control step."""
        ...


def check(problem: Problem) -> None:
    """Raise Unsupported unless trials of a problem can run in a batch."""
    if problem.task.regrasp is not None:
        raise Unsupported(
            f"{problem.task.name} regrasps, which a batch of trials does not support: run trials one by one "
            "with `trial.run`, or use dataclasses.replace(task, regrasp=None)"
        )


def plan_all(planners: Planners, observations: Sequence[Observation]) -> list[Plan]:
    """The plans of all trials; raises InputError if their number is wrong."""
    plans = planners.plan(observations)
    if len(plans) != len(observations):
        raise InputError(f"{len(plans)} plans for {len(observations)} trials: there must be one for each")
    return plans


def run(
    problem: Problem,
    planners: Planners,
    seeds: Sequence[int],
    *,
    progress: Callable[[int, int], None] = lambda steps, ended: None,
) -> list[Trial]:
    """Run a trial for each seed; the plants wait for every plan. An error of the planner is raised and ends all trials.

    Args:
        problem: the task, compiled
        planners: a batch planner for that problem, with as many trials as there are seeds
        seeds: seeds of start, goal and planner
        progress: called after each plan with the control steps done and the number of trials that have ended
    """
    check(problem)
    trials = [Running(problem, seed) for seed in seeds]
    planners.reset([trial.goal for trial in trials], seeds)
    # all plans are one CUDA graph: a trial that has ended is planned for from its start, and the plan is ignored
    starts = [trial.observe() for trial in trials]
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        while any(not trial.reason for trial in trials):
            seen = [start if trial.reason else trial.observe() for trial, start in zip(trials, starts, strict=True)]
            plans = zip(trials, plan_all(planners, seen), strict=True)
            list(pool.map(lambda one: one[0].take(one[1]), [(t, plan) for t, plan in plans if not t.reason]))
            progress(max(trial.steps for trial in trials), sum(bool(trial.reason) for trial in trials))
    return [trial.end() for trial in trials]
