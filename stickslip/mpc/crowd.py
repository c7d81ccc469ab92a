"""Many trials side by side: all plans of a control step are made at once, then every plant goes on.

What each trial does is what it would do alone with such a planner; on a GPU that one plan does not fill, all of them
take less time. Since plans share the device their time says nothing of one plan alone, and trials have none.
"""

import concurrent.futures
from collections.abc import Callable, Sequence
from typing import Protocol

from stickslip.errors import InputError, Unsupported
from stickslip.mpc.task import Goal, Observation, Plan, Problem
from stickslip.mpc.trial import Running, Trial

THREADS = 4
"""That plants run in: MuJoCo's steps go side by side, what is around them does not, so that more help little."""
MAX_SEED = 2**31 - 1


class Planners(Protocol):
    """Makes the plans of several trials at once, such as `mppi_batch.Batch`."""

    def reset(self, goals: Sequence[Goal], seeds: Sequence[int]) -> None:
        """Forget the last trials, and take a goal and a seed for each of the next."""
        ...

    def plan(self, observations: Sequence[Observation]) -> list[Plan]:
        """Joint targets of every trial for the control step that begins."""
        ...


def check(problem: Problem, seeds: Sequence[int]) -> None:
    """Raise unless trials of a problem with these seeds can go side by side."""
    if problem.task.regrasp is not None:
        raise Unsupported(
            f"the hand of {problem.task.name} lets go and tries again, each trial by itself: run trials one by one "
            "with `trial.run`, or take dataclasses.replace(task, regrasp=None)"
        )
    for seed in seeds:
        if not 0 <= seed <= MAX_SEED:
            raise InputError(f"seed {seed}: it must be from 0 to {MAX_SEED}; choose another")


def plan_all(planners: Planners, observations: Sequence[Observation]) -> list[Plan]:
    """The plans of all trials."""
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
    """Run a trial for each seed, whose plants wait; `progress` is told control steps done and trials ended.

    A planner that fails ends all trials: its error is raised.
    """
    check(problem, seeds)
    trials = [Running(problem, seed) for seed in seeds]
    planners.reset([trial.goal for trial in trials], seeds)
    # a trial that has ended is planned for where it started, which does no harm: the plans of all are one graph
    seen = [trial.observe() for trial in trials]
    steps = 0
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        while going := [trial for trial in trials if not trial.reason]:
            now = [seen[i] if trial.reason else trial.observe() for i, trial in enumerate(trials)]
            plans = dict(zip(map(id, trials), plan_all(planners, now), strict=True))
            list(pool.map(lambda trial: trial.take(plans[id(trial)]), going))  # noqa: B023
            steps += 1
            progress(steps, sum(bool(trial.reason) for trial in trials))
    return [trial.end() for trial in trials]
