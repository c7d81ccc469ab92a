"""Regrasping: a planner around another one. It opens the hand when the object makes no progress, then starts again.

A plan with frozen contacts looks a few steps ahead. Fingers that block each other, or that are on the wrong side of the
object, are a local minimum of its cost. So the hand returns to its posture at the start, which is open, and the planner
is reset with the object where it is now.
"""

import math
from typing import final

import numpy as np

from stickslip.errors import InputError
from stickslip.mpc.cost import Position, Rotation
from stickslip.mpc.success import Array, Goal, pose_errors, pose_goal
from stickslip.mpc.task import Observation, Plan, Planner, Problem, Regrasp, is_hand

NOTE = "released the object to grasp it again"
"""Note of the plans that open the hand."""
ROUNDING = 0.01
"""Tolerance of times, as a fraction of a control step."""


@final
class Regrasping(Planner):
    """A planner that regrasps.

    Args:
        problem: the task, compiled
        inner: plans between releases; it is reset after each release
        rule: when to release, and for how long
    """

    def __init__(self, problem: Problem, inner: Planner, rule: Regrasp) -> None:
        self._weights = [
            sum(term.final for term in problem.task.cost if isinstance(term, kind)) for kind in (Position, Rotation)
        ]
        if not any(self._weights) or not is_hand(problem.mjm) or problem.task.bound is None:
            raise InputError(
                f"{problem.task.name} must have a hand with joint targets (`bound`) and a cost with a final weight of "
                "`Position` or `Rotation`: regrasping measures progress by it; set one, or set regrasp to None"
            )
        self.problem, self.inner, self.rule = problem, inner, rule
        self._period = problem.period
        self._posture = problem.posture
        self._goal, self._seed = pose_goal(np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0])), 0
        self._begin_trial()

    def _begin_trial(self) -> None:
        self._releases = 0
        self._now = -math.inf  # time of the last observation [s]
        self._until: float | None = None  # end of the current release [s]
        self._begin_grasp()

    def _begin_grasp(self) -> None:
        self._best = math.inf  # least remaining error
        self._since = math.inf  # when it was reached [s]

    def reset(self, goal: Goal, seed: int) -> None:
        self._goal, self._seed = goal, seed
        self._begin_trial()
        self.inner.reset(goal, seed)

    def plan(self, observation: Observation) -> Plan:
        now = observation.time
        if now < self._now:  # a new trial without a reset
            self._begin_trial()
        self._now = now
        if self._until is not None and now + ROUNDING * self._period >= self._until:
            self._until = None
            self._begin_grasp()
            self.inner.reset(self._goal, self._seed + self._releases)
        if self._until is None and self._is_stuck(observation):
            self._releases += 1
            self._until = now + self.rule.steps * self._period
        if self._until is None:
            return self.inner.plan(observation)
        joints = observation.qpos[: self.problem.nr]
        low, high = self.problem.bounds(joints)
        return Plan(joints + np.clip(self._posture - joints, low, high), self._remaining(observation), note=NOTE)

    def _remaining(self, observation: Observation) -> float:
        """Remaining error, weighted as in the terminal cost."""
        position, rotation = self._errors(observation)
        return float(self._weights[0] * position**2 + self._weights[1] * rotation)

    def _errors(self, observation: Observation) -> Array:
        return pose_errors(self.problem.mjm, observation.qpos, observation.qvel, self._goal)

    def _is_stuck(self, observation: Observation) -> bool:
        """Whether there was no progress for too long. Time at the goal does not count."""
        success, left = self.problem.task.success, self._remaining(observation)
        if left < (1.0 - self.rule.progress) * self._best:
            self._best, self._since = left, observation.time
        if success.reached(self._errors(observation)):
            self._since = observation.time
            return False
        waited = observation.time + ROUNDING * self._period - self._since
        return waited >= self.rule.patience * (self._releases + 1) * self._period
