"""Letting go: a planner around another, which opens the hand when the object gets no further, and lets it try again.

A plan with frozen contacts looks a few steps ahead. Fingers that stand in each other's way, or on the wrong side of the
object, are a minimum of its cost that it cannot leave: every way around leads through worse. So the hand goes back to
its posture at the start, which is open, and the planner begins anew with the object where it is now.
"""

import math
from typing import final

import numpy as np

from stickslip.errors import InputError
from stickslip.mpc.task import Goal, Observation, Plan, Planner, Problem, Regrasp

NOTE = "let go of the object"
"""Of the plans that open the hand."""
ROUNDING = 0.01
"""Share of a control step that times may be off by."""


@final
class Regrasping(Planner):
    """A planner that lets go, as `Regrasp` says.

    Args:
        problem: of both planners
        inner: plans while the hand is at work; it is reset after each time the hand let go
        rule: when to let go, and for how long
    """

    def __init__(self, problem: Problem, inner: Planner, rule: Regrasp) -> None:
        cost = problem.task.cost
        if cost.final_position == cost.final_orientation == 0.0:
            raise InputError(
                f"the cost of {problem.task.name} has final_position 0 and final_orientation 0: what is still to go "
                "cannot be told; give it one of them, or no rule to let go"
            )
        self.problem, self.inner, self.rule = problem, inner, rule
        self._period = problem.task.substeps * problem.mjm.opt.timestep
        self._posture = problem.posture
        self._goal, self._seed = Goal(np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0])), 0
        self._begin_trial()

    def _begin_trial(self) -> None:
        self._times = 0  # that it let go
        self._now = -math.inf  # time of the last observation [s]
        self._until: float | None = None  # when the hand has had its time to open [s]
        self._begin_grasp()

    def _begin_grasp(self) -> None:
        self._best = math.inf  # least that was still to go
        self._since = math.inf  # when that was [s]

    def reset(self, goal: Goal, seed: int) -> None:
        self._goal, self._seed = goal, seed
        self._begin_trial()
        self.inner.reset(goal, seed)

    def plan(self, observation: Observation) -> Plan:
        now = observation.time
        if now < self._now:  # a trial that nobody told of
            self._begin_trial()
        self._now = now
        if self._until is not None and now + ROUNDING * self._period >= self._until:
            self._until = None
            self._begin_grasp()
            self.inner.reset(self._goal, self._seed + self._times)  # other random numbers than the last time
        if self._until is None and self._is_stuck(observation):
            self._times += 1
            self._until = now + self.rule.steps * self._period
        if self._until is None:
            return self.inner.plan(observation)
        joints = observation.qpos[: self.problem.nr]
        low, high = self.problem.bounds(joints)
        return Plan(joints + np.clip(self._posture - joints, low, high), self._to_go(observation), note=NOTE)

    def _to_go(self, observation: Observation) -> float:
        """What is still to go, weighed as at the end of a plan."""
        position, rotation = self._goal.errors(observation.qpos)
        cost = self.problem.task.cost
        return cost.final_position * position**2 + cost.final_orientation * rotation

    def _is_stuck(self, observation: Observation) -> bool:
        """Whether there was no progress for too long; while the object is where it is to be, there is no hurry."""
        position, rotation = self._goal.errors(observation.qpos)
        success, left = self.problem.task.success, self._to_go(observation)
        if left < (1.0 - self.rule.progress) * self._best:
            self._best, self._since = left, observation.time
        if position < success.position and rotation < success.rotation:
            self._since = observation.time
            return False
        waited = observation.time + ROUNDING * self._period - self._since
        return waited >= self.rule.patience * (self._times + 1) * self._period
