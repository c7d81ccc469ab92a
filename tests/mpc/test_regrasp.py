"""Letting go of an object that gets no further: when, how, for how long, and that a trial profits from it."""

import dataclasses

import numpy as np
import pytest

from stickslip.errors import InputError
from stickslip.mpc.planners.catalogue import make_planner
from stickslip.mpc.planners.newton.planner import Newton
from stickslip.mpc.success import Array, Goal, pose_goal, quat_of
from stickslip.mpc.task import Observation, Plan, Planner, Problem, Regrasp, compile_problem
from stickslip.mpc.tasks import TASKS, allegro
from stickslip.mpc.trial import trial
from stickslip.mpc.trial.regrasp import NOTE, Regrasping

RULE = Regrasp(patience=4, steps=3, progress=0.1)


class Still(Planner):
    """Stays where it is, and counts how often it was reset."""

    def __init__(self) -> None:
        self.resets = 0

    def reset(self, goal: Goal, seed: int) -> None:
        self.resets += 1

    def plan(self, observation: Observation) -> Plan:
        return Plan(observation.ctrl, 0.0)


@pytest.fixture(scope="module")
def problem() -> Problem:
    return compile_problem(allegro.ALLEGRO, "cube")


def turned(problem: Problem, yaw: float) -> Array:
    """The hand away from its posture, and the cube turned."""
    return np.array([*problem.posture - 0.3, *allegro.CENTER, allegro.PALM + 0.03, *quat_of(0.0, 0.0, yaw)])


def let_go(problem: Problem, yaws: list[float], every: float = 1.0) -> tuple[list[bool], Still]:
    """Whether the hand lets go, plan by plan, when the cube is seen at these angles; the goal is 0."""
    inner = Still()
    planner = Regrasping(problem, inner, RULE)
    planner.reset(pose_goal(turned(problem, 0.0)[-7:-4], quat_of(0.0, 0.0, 0.0)), 0)
    period = every * problem.task.substeps * problem.mjm.opt.timestep
    out = []
    for step, yaw in enumerate(yaws):
        qpos = turned(problem, yaw)
        out.append(planner.plan(Observation(step * period, qpos, np.zeros(22), qpos[:16])).note == NOTE)
    return out, inner


def test_a_hand_lets_go_when_nothing_changes_and_waits_longer_each_time(problem: Problem) -> None:
    """Four steps of patience and three to let go, then eight, then twelve; the planner starts again each time."""
    seen, inner = let_go(problem, [1.0] * 32)
    want = [False] * 4 + [True] * 3 + [False] * 8 + [True] * 3 + [False] * 12 + [True] * 2
    assert seen == want
    assert inner.resets == 3


def test_time_counts_not_plans(problem: Problem) -> None:
    """Two plans in a control step, as there may be in real time."""
    seen, _ = let_go(problem, [1.0] * 16, every=0.5)
    assert seen == [False] * 8 + [True] * 6 + [False] * 2


def test_progress_is_waited_for(problem: Problem) -> None:
    """An object that goes on turning is held, one that only creeps is not."""
    assert not any(let_go(problem, list(np.linspace(2.0, 0.5, 20)))[0])
    assert any(let_go(problem, list(np.linspace(1.0, 0.99, 20)))[0])


def test_an_object_at_its_goal_is_held(problem: Problem) -> None:
    assert not any(let_go(problem, [0.35] * 20)[0])  # 20 degrees
    assert any(let_go(problem, [0.45] * 20)[0])  # 26 degrees
    assert not any(let_go(problem, [0.38] * 15 + [0.41] * 2 + [0.38] * 10)[0])  # a bad look is not a reason


def test_a_trial_that_nobody_told_of_begins_anew(problem: Problem) -> None:
    planner = Regrasping(problem, Still(), RULE)
    qpos = turned(problem, 1.0)
    planner.reset(pose_goal(qpos[-7:-4], quat_of(0.0, 0.0, 0.0)), 0)
    for _ in range(2):
        notes = [planner.plan(Observation(0.1 * i, qpos, np.zeros(22), qpos[:16])).note for i in range(6)]
        assert notes == [""] * 4 + [NOTE] * 2


@pytest.mark.parametrize("bad", [{"patience": -1}, {"steps": 0}, {"progress": 1.0}, {"progress": float("nan")}])
def test_a_rule_that_makes_no_sense_is_refused(bad: dict) -> None:
    with pytest.raises(InputError, match=f"{next(iter(bad))} is .* it must be"):
        Regrasp(**bad)


def test_a_cost_that_does_not_tell_what_is_to_go_is_refused(problem: Problem) -> None:
    nothing = dataclasses.replace(problem.task, cost=problem.task.cost[:2])
    with pytest.raises(InputError, match="final weight of `Position` or `Rotation`"):
        Regrasping(dataclasses.replace(problem, task=nothing), Still(), RULE)


def test_the_hand_opens_towards_its_posture_within_bounds(problem: Problem) -> None:
    """0.3 rad away, it goes 0.2 in a step: the bound."""
    np.testing.assert_allclose(problem.posture, np.ravel(allegro.HOME))
    planner = Regrasping(problem, Still(), dataclasses.replace(RULE, patience=0))
    qpos = turned(problem, 1.0)
    planner.reset(pose_goal(qpos[-7:-4], quat_of(0.0, 0.0, 0.0)), 0)
    target = planner.plan(Observation(0.0, qpos, np.zeros(22), qpos[:16])).target
    np.testing.assert_allclose(target - qpos[:16], problem.task.bound)


def test_planners_of_tasks_with_a_rule_let_go() -> None:
    hand, tips = compile_problem(allegro.ALLEGRO, "cube"), compile_problem(TASKS["fingertips-rotate"], "cube")
    assert isinstance(make_planner("newton", hand), Regrasping)
    assert isinstance(make_planner("newton", tips), Newton)


def test_a_jam_is_left() -> None:
    """With the paper's weights and friction, a stick that newton alone does not turn: the fingers jam for good."""
    hand = allegro.ALLEGRO
    assert hand.model is not None
    task = dataclasses.replace(hand, longest=300, model=dataclasses.replace(hand.model, friction=0.5))
    stick = compile_problem(task, "stick")
    assert trial.run(stick, Newton(stick), 100).reason == trial.TOO_LONG
    assert trial.run(stick, make_planner("newton", stick), 100).success


def test_terms_of_plans_are_kept_beside_releases(problem: Problem) -> None:
    """A release has no terms: they are NaN there."""

    class Telling(Still):
        def plan(self, observation: Observation) -> Plan:
            return Plan(observation.ctrl, 0.0, terms={"reach": 2.0})

    short = dataclasses.replace(problem, task=dataclasses.replace(problem.task, longest=8))
    ran = trial.run(short, Regrasping(short, Telling(), RULE), 0)
    np.testing.assert_array_equal(ran.terms["reach"], [2.0] * 4 + [np.nan] * 3 + [2.0])
