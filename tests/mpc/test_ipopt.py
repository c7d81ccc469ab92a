"""The planners `ipopt` and `implicit`: the same minimum as `newton`, honest notes, and nothing that is not finite."""

import dataclasses
import math
import sys

import numpy as np
import pytest

from stickslip.errors import Diverged, InputError, MissingExtra, Unsupported
from stickslip.mpc.cost import Fallen
from stickslip.mpc.model import cost, kinematics, quasidynamic
from stickslip.mpc.model.contact_rows import ContactRows, Rows
from stickslip.mpc.planners.catalogue import make_planner
from stickslip.mpc.planners.newton import planner as newton
from stickslip.mpc.planners.shooting.nlp import Settings
from stickslip.mpc.success import Array, Goal
from stickslip.mpc.task import Observation, Problem, compile_problem
from stickslip.mpc.tasks import TASKS
from stickslip.mpc.trial import trial


@pytest.fixture(autouse=True)
def casadi() -> None:
    pytest.importorskip("casadi", reason="needs the extra `mpc`")


@pytest.fixture(scope="module")
def problem() -> Problem:
    return compile_problem(dataclasses.replace(TASKS["fingertips-rotate"], longest=60), "cube")


@pytest.fixture(scope="module")
def recorded(problem: Problem) -> trial.Trial:
    return trial.run(problem, newton.Newton(problem), 0)


@pytest.fixture(scope="module")
def planner(problem: Problem):
    pytest.importorskip("casadi", reason="needs the extra `mpc`")
    from stickslip.mpc.planners.shooting.ipopt import Ipopt

    return Ipopt(problem)


def observed(qpos: Array) -> Observation:
    return Observation(0.0, qpos, np.zeros(len(qpos) - 1), qpos[:-7])


def contacts(problem: Problem, qpos: Array) -> Rows:
    return ContactRows(problem, problem.smooth("ipopt")[1]).at(qpos)


def rolled(problem: Problem, qpos: Array, goal: Goal, u: Array) -> float:
    rows, (weights, model) = contacts(problem, qpos), problem.smooth("ipopt")
    chains, posture = kinematics.chains(problem.mjm, weights.sites), problem.mjm.qpos0[:9]
    start = np.concatenate([qpos[:-4], qpos[-4:] / np.linalg.norm(qpos[-4:])])
    where = (goal.pos, goal.quat)
    return cost.of_plan(np, weights, model, chains, posture, where, start, rows.rows, rows.phi, list(u))


def test_newton_finds_what_ipopt_finds(problem: Problem, planner, recorded: trial.Trial) -> None:
    """Over states of a trial, from the last plan each: newton's cost is at most 1 % above, ipopt's what it says."""
    other = newton.Newton(problem)
    planner.reset(recorded.goal, 0)
    other.reset(recorded.goal, 0)
    for qpos in recorded.frames[:45:3]:
        plan, want = planner.plan(observed(qpos)), other.plan(observed(qpos))
        assert plan.note == ""
        least = rolled(problem, qpos, recorded.goal, planner.controls)
        assert plan.cost == pytest.approx(least, rel=1e-4)
        assert want.cost <= 1.01 * least
        assert least <= 1.01 * want.cost
        assert np.abs(plan.target - qpos[:9]).max() <= problem.task.bound + 1e-12


def test_bounds_and_joint_limits(problem: Problem, recorded: trial.Trial) -> None:
    from stickslip.mpc.planners.shooting.ipopt import Ipopt

    qpos = recorded.frames[0]
    mjm = problem.task.build("cube").compile()
    mjm.jnt_limited[:9] = 1
    mjm.jnt_range[:9] = qpos[:9, None] + np.array([-1e-3, 5e-4])
    stopped = Ipopt(dataclasses.replace(problem, mjm=mjm))
    stopped.reset(recorded.goal, 0)
    ahead = stopped.plan(observed(qpos)).target - qpos[:9]
    assert ahead.min() >= -1e-3 - 1e-9 and ahead.max() <= 5e-4 + 1e-9
    assert max(-ahead.min() / 1e-3, ahead.max() / 5e-4) > 0.9


def test_equal_observations_give_equal_plans(planner, recorded: trial.Trial) -> None:
    runs = []
    for _ in range(2):
        planner.reset(recorded.goal, 0)
        runs.append([planner.plan(observed(qpos)).target for qpos in recorded.frames[20:23]])
    np.testing.assert_array_equal(runs[0], runs[1])


def test_too_many_contacts_and_iterations_are_said(problem: Problem, recorded: trial.Trial) -> None:
    """The deepest contacts are kept; a solve that is cut short, or has no start, still gives a finite target."""
    from stickslip.mpc.planners.shooting.ipopt import Ipopt

    task = dataclasses.replace(problem.task, model=dataclasses.replace(problem.task.model, slots=1))
    small = Ipopt(dataclasses.replace(problem, task=task), Settings(iterations=1))
    small.reset(recorded.goal, 0)
    qpos = recorded.frames[30]
    assert len(contacts(problem, qpos).phi) > 4
    plan = small.plan(observed(qpos))
    assert "the deepest 1 are used" in plan.note and "Maximum_Iterations_Exceeded" in plan.note
    assert np.isfinite(plan.target).all() and np.abs(plan.target - qpos[:9]).max() <= task.bound + 1e-12
    bad = qpos.copy()
    bad[3] = math.nan
    with pytest.raises(Diverged, match="not finite"):
        small.plan(observed(bad))


def test_a_failed_solve_goes_on_with_the_last_plan(planner, recorded: trial.Trial, monkeypatch) -> None:
    planner.reset(recorded.goal, 0)
    qpos = recorded.frames[30]
    planner.plan(observed(qpos))
    before = planner.controls

    class Failing:
        def __call__(self, **arguments):
            return {name: np.full(3, math.nan) for name in ("x", "f", "g", "lam_x", "lam_g")}

        def stats(self):
            return {"iter_count": 7, "return_status": "Invalid_Number_Detected"}

    monkeypatch.setattr(planner, "_solver", Failing())
    plan = planner.plan(observed(qpos))
    assert plan.note == "IPOPT: Invalid_Number_Detected after 7 iterations; the last plan is continued"
    np.testing.assert_allclose(plan.target, qpos[:9] + before[1])


def test_implicit_satisfies_the_conditions_of_the_convex_model(problem: Problem, recorded: trial.Trial) -> None:
    """Its unknowns balance, push, do not enter, and complement each other up to the relaxation."""
    from stickslip.mpc.planners.shooting.implicit import Implicit

    task = dataclasses.replace(problem.task, iterations=300)
    planner = Implicit(dataclasses.replace(problem, task=task))
    planner.reset(recorded.goal, 0)
    qpos, model = recorded.frames[30], problem.task.model
    plan = planner.plan(observed(qpos))
    assert plan.note == "" and np.isfinite(plan.target).all()
    rows = contacts(problem, qpos).padded(model.slots)
    compliance = quasidynamic.compliance(model, 9)
    for step in planner._x:
        u, motion, force = step[:9], step[9:24], step[24:64]
        gap = rows.rows @ motion + model.distance * rows.phi
        free = quasidynamic.free_motion(np, model, u)
        np.testing.assert_allclose(motion, free + compliance * (rows.rows.T @ force), atol=1e-5)
        assert force.min() > -1e-6 and gap.min() > -1e-5
        assert (force * gap).max() < planner.product + 1e-5


def test_what_cannot_be_is_refused(problem: Problem) -> None:
    task = dataclasses.replace(problem.task, cost=(*problem.task.cost, Fallen(weight=1.0)))
    with pytest.raises(Unsupported, match=r"ipopt has no derivatives of .* fallen \(weight 1\); .* mppi"):
        make_planner("ipopt", dataclasses.replace(problem, task=task))
    with pytest.raises(InputError, match="tolerance is 0"):
        Settings(tolerance=0.0)
    with pytest.raises(InputError, match="iterations is -1"):
        Settings(iterations=-1)


def test_without_casadi_the_extra_is_named(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "casadi", None)
    with pytest.raises(MissingExtra, match=r"stickslip\[mpc\]"):
        make_planner("ipopt", problem)
