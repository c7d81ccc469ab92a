"""The sampling planners, one trial at a time; see `batch.py`."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from stickslip.mpc.planners.sampling.batch import Batch, usual_physics
from stickslip.mpc.planners.sampling.settings import Cem, Dial, Mppi, Predictive, Settings
from stickslip.mpc.success import Goal
from stickslip.mpc.task import Observation, Plan, Planner, Problem
from stickslip.physics.base import Physics

__all__ = ["Batch", "Cem", "Dial", "Mppi", "Predictive", "Sampler", "Settings", "time_plans", "usual_physics"]


class Sampler(Planner):
    """Plans by sampling.

    Args:
        problem: the task, compiled
        physics: contact physics of the rollouts; default: `usual_physics()`
        settings: parameters, which say which planner it is: `Mppi`, `Predictive`, `Cem` or `Dial`
        device: "cpu", "cuda:0", ...; default: the first CUDA device, or the CPU if there is none

    Attributes:
        batch: the batch of one trial that computes the plans
    """

    def __init__(
        self,
        problem: Problem,
        physics: Physics[Any, Any] | None = None,
        settings: Settings | None = None,
        device: str | None = None,
    ) -> None:
        self.batch = Batch(problem, physics, settings, device)
        self.problem, self.settings = problem, self.batch.settings

    def reset(self, goal: Goal, seed: int) -> None:
        self.batch.reset([goal], [seed])

    def plan(self, observation: Observation) -> Plan:
        return self.batch.plan([observation])[0]

    def compile(self) -> None:
        """Compile all kernels and capture the plan; this takes a minute the first time."""
        self.batch.compile()


def time_plans(
    planner: Sampler,
    observation: Observation,
    n: int = 100,
    warmup: int = 5,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Wall-clock time of a plan, with upload and download, over n plans [s]: p50, p95, mean."""
    for _ in range(warmup):
        planner.plan(observation)
    seconds = []
    for _ in range(n):
        begin = clock()
        planner.plan(observation)
        seconds.append(clock() - begin)
    p50, p95 = np.percentile(seconds, [50, 95])
    return {"p50": float(p50), "p95": float(p95), "mean": float(np.mean(seconds))}
