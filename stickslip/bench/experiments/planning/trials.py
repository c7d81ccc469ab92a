"""What the experiments on planning share: metrics of trials, and trials of several processes at once."""

import concurrent.futures
import functools
import math
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from stickslip.bench.experiment import Trial
from stickslip.mpc.task import Observation, Planner, Problem, Task
from stickslip.mpc.trial import regrasp
from stickslip.mpc.trial.trial import Trial as Ran


def workers() -> int:
    """Processes to run trials with: one for each core that may be used."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def many(run: Callable[..., Any], arguments: Sequence[tuple], trial: Trial) -> Iterator[Any]:
    """What `run` gives for each of the arguments, in order; several processes, unless the run is a quick one."""
    if trial.quick or len(arguments) == 1:
        for place, given in enumerate(arguments, 1):
            yield run(*given)
            trial.progress(place / len(arguments))
        return
    waiting = [_pool().submit(run, *given) for given in arguments]
    try:
        for place, one in enumerate(waiting, 1):
            yield one.result()
            trial.progress(place / len(arguments))
    finally:
        for one in waiting:
            one.cancel()


@functools.cache
def _pool() -> concurrent.futures.ProcessPoolExecutor:
    """The processes, which stay until the program ends: each takes seconds to start."""
    return concurrent.futures.ProcessPoolExecutor(workers(), mp_context=multiprocessing.get_context("spawn"))


def metrics(task: Task, trials: Sequence[Ran]) -> dict[str, float]:
    """Share of trials that succeeded, and the errors and length of those that did."""
    good = [ran for ran in trials if ran.success]
    means = {key: float(np.mean(values)) if good else math.nan for key, values in _errors(task, good).items()}
    return {
        "success": len(good) / len(trials),
        "trials": float(len(trials)),
        **means,
        "steps": float(np.median([ran.steps for ran in good])) if good else math.nan,
    }


def series(task: Task, trials: Sequence[Ran]) -> dict[str, list[float]]:
    """What was still to go at the end of each trial, and its steps."""
    return {
        "done": [float(ran.success) for ran in trials],
        **{f"final_{key}": values for key, values in _errors(task, trials).items()},
        "trial_steps": [float(ran.steps) for ran in trials],
    }


def _errors(task: Task, trials: Sequence[Ran]) -> dict[str, list[float]]:
    """Errors of all trials in the units in which they are shown."""
    return {
        measure.key: [measure.shown(float(ran.errors[i])) for ran in trials]
        for i, measure in enumerate(task.success.measures)
    }


def failures(trials: Sequence[Ran]) -> list[str]:
    """Trials that ended by what should not happen, in sentences; too long or a fall is a metric, not a problem."""
    return [f"seed {ran.seed}: {ran.reason}" for ran in trials if ran.reason not in ("success", "too long", "fell")]


def notes(trials: Sequence[Ran]) -> list[str]:
    """What went wrong in plans that were used anyway, each once."""
    return list(dict.fromkeys(f"plans: {note}" for ran in trials for note in ran.notes))


def replay(problem: Problem, planner: Planner, ran: Ran, most: int, clock: Callable[[], float]) -> dict[str, float]:
    """Time of a plan, with nothing else running: the planner goes once more through the states of a trial."""
    planner.reset(ran.goal, ran.seed)
    seconds = []
    for step, qpos in enumerate(ran.frames[: most + 1]):
        seen = Observation(step * problem.period, qpos, np.zeros(problem.mjm.nv), problem.start_ctrl(qpos))
        begin = clock()
        plan = planner.plan(seen)
        taken = clock() - begin
        if plan.note != regrasp.NOTE:  # to let go takes no planning
            seconds.append(taken)
    p50, p95 = np.quantile(seconds[1:] or seconds, [0.5, 0.95])  # the first compiles
    return {"plan_p50_ms": 1e3 * float(p50), "plan_p95_ms": 1e3 * float(p95)}
