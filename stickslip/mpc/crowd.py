"""Many trials side by side: all plans of a control step are made at once, then every plant goes on.

What each trial does is what it would do alone, but that it takes less time: on a GPU twenty plans of `mppi` take little
longer than one. Since plans share the device their time says nothing of one plan alone, and trials have none.
"""

import concurrent.futures
import os
from collections.abc import Callable, Sequence
from typing import Protocol

from stickslip.mpc.task import Goal, Observation, Plan, Problem
from stickslip.mpc.trial import Running, Trial


class Planners(Protocol):
    """Makes the plans of several trials at once, such as `mppi_batch.Batch`."""

    def reset(self, goals: Sequence[Goal], seeds: Sequence[int]) -> None:
        """Forget the last trials, and take a goal and a seed for each of the next."""
        ...

    def plan(self, observations: Sequence[Observation]) -> list[Plan]:
        """Joint targets of every trial for the control step that begins."""
        ...


def run(
    problem: Problem,
    planners: Planners,
    seeds: Sequence[int],
    *,
    progress: Callable[[int, int], None] = lambda steps, ended: None,
) -> list[Trial]:
    """Run a trial for each seed, whose plants wait; `progress` is told control steps done and trials ended.

    A planner that fails ends all trials: its error is raised.
    """
    trials = [Running(problem, seed) for seed in seeds]
    planners.reset([trial.goal for trial in trials], seeds)
    # a trial that has ended is planned for where it started, which does no harm: the plans of all are one graph
    seen = [trial.observe() for trial in trials]
    steps = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        while going := [trial for trial in trials if not trial.reason]:
            now = [seen[i] if trial.reason else trial.observe() for i, trial in enumerate(trials)]
            plans = dict(zip(map(id, trials), planners.plan(now), strict=True))
            list(pool.map(lambda trial: trial.take(plans[id(trial)]), going))  # noqa: B023
            steps += 1
            progress(steps, sum(bool(trial.reason) for trial in trials))
    return [trial.end() for trial in trials]
