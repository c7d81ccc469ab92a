"""The planner `newton`: its cost and derivatives, its kernel against NumPy, its bounds, and what it does in a trial."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from stickslip.errors import InputError
from stickslip.mpc.model import cost, kinematics
from stickslip.mpc.model.contact_rows import ContactRows
from stickslip.mpc.planners.catalogue import PLANNERS, make_planner, settings_of
from stickslip.mpc.planners.newton import planner as newton
from stickslip.mpc.planners.shooting import implicit
from stickslip.mpc.success import Array, Goal
from stickslip.mpc.task import Observation, Problem, compile_problem
from stickslip.mpc.tasks import TASKS
from stickslip.mpc.trial import trial
from tests.reference import newton_planner as newton_reference


@pytest.fixture(scope="module")
def problem() -> Problem:
    task = dataclasses.replace(TASKS["fingertips-rotate"], longest=60)
    return compile_problem(task, "cube")


@pytest.fixture(scope="module")
def recorded(problem: Problem) -> trial.Trial:
    """A trial that is far from done after 60 steps."""
    return trial.run(problem, newton.Newton(problem), 0)


def observed(qpos: Array) -> Observation:
    return Observation(0.0, qpos, np.zeros(15), qpos[:9])


def shooting(problem: Problem, qpos: Array, goal: Goal) -> newton_reference.Shooting:
    found = newton_reference.Shooting(problem)
    found.goal = goal
    found.start(qpos, ContactRows(problem, problem.smooth("newton")[1]).at(qpos))
    return found


def touching(recorded: trial.Trial) -> list[Array]:
    """Positions from the way, the fingertips on the object in most."""
    return [recorded.frames[i] for i in (10, 25, 40, 55)]


def rolled(problem: Problem, qpos: Array, goal: Goal, u: Array) -> float:
    """Cost of a plan as `cost.py` has it."""
    rows = ContactRows(problem, problem.smooth("newton")[1]).at(qpos)
    weights, model = problem.smooth("newton")
    chains, posture = kinematics.chains(problem.mjm, weights.sites), problem.mjm.qpos0[:9]
    start = np.concatenate([qpos[:-4], qpos[-4:] / np.linalg.norm(qpos[-4:])])
    where = (goal.pos, goal.quat)
    return cost.of_plan(np, weights, model, chains, posture, where, start, rows.rows, rows.phi, list(u))


def residuals(problem: Problem, shot: newton_reference.Shooting, u: Array) -> Array:
    """Roots of what is summed up in the cost, from the states that the controls lead to."""
    w, T = problem.smooth("newton")[0], problem.task.horizon
    _, _, deltas = shot._motion(u)
    qpos = np.concatenate([shot._joints, shot._pos, shot._quat])
    chains = kinematics.chains(problem.mjm, w.sites)
    out = [math.sqrt(w.control) * u.reshape(-1)]
    for t, delta in enumerate(deltas):
        qpos = kinematics.move(np, qpos, delta)
        pos, quat = qpos[9:12], qpos[12:]
        if t < T - 1:
            away = np.array([chain.position(np, qpos[:9]) - pos for chain in chains])
            seen = away @ kinematics._matrix(quat)
            units = seen / np.linalg.norm(seen, axis=1)[:, None]
            out += [math.sqrt(w.contact) * away.reshape(-1), math.sqrt(w.grasp) * units.sum(axis=0)]
    left = kinematics.multiply(np, kinematics.conjugate(np, shot.goal.quat), qpos[12:])
    out += [
        math.sqrt(w.final_position) * (qpos[9:12] - shot.goal.pos),
        math.sqrt(w.final_orientation) * left[1:],
    ]
    return np.concatenate(out)


def test_cost_and_derivatives(problem: Problem, recorded: trial.Trial) -> None:
    """The cost is that of `cost.py`; gradient and matrix are those of its residuals, differentiated numerically."""
    rng = np.random.default_rng(0)
    for qpos in touching(recorded)[:2]:
        shot = shooting(problem, qpos, recorded.goal)
        u = rng.normal(0.0, 0.003, (4, 9))
        assert shot.cost(u) == pytest.approx(rolled(problem, qpos, recorded.goal, u), rel=1e-12)
        gradient, matrix = shot.derivatives()

        def of(x: Array, shot: Any = shot) -> Array:
            return residuals(problem, shot, x.reshape(4, 9))

        flat, step = u.reshape(-1), 1e-6
        here = of(flat)
        assert here @ here == pytest.approx(shot.cost(u), rel=1e-12)
        jacobian = np.stack([(of(flat + d) - of(flat - d)) / (2 * step) for d in step * np.eye(36)], axis=1)
        np.testing.assert_allclose(gradient, 2 * jacobian.T @ here, atol=1e-6 * np.abs(gradient).max())
        np.testing.assert_allclose(matrix, 2 * jacobian.T @ jacobian, atol=1e-6 * np.abs(matrix).max())


def test_the_kernel_is_the_reference(problem: Problem, recorded: trial.Trial) -> None:
    """The same controls, cost and iterations, from the same states."""
    low, high = np.full(9, -problem.task.bound), np.full(9, problem.task.bound)
    states = touching(recorded)
    solver = newton.Solver(problem, len(states))
    for i, qpos in enumerate(states):
        rows = ContactRows(problem, problem.smooth("newton")[1]).at(qpos)
        solver.put(i, qpos, rows.rows, rows.phi, recorded.goal, low, high, np.zeros((4, 9)))
    u, costs, iterations = solver.solve()
    settings = newton_reference.Settings()
    for i, qpos in enumerate(states):
        shot = shooting(problem, qpos, recorded.goal)
        want, least, taken = newton_reference.minimize(shot, np.zeros((4, 9)), low, high, settings)
        np.testing.assert_allclose(u[i], want, atol=1e-9)
        assert costs[i] == pytest.approx(least, rel=1e-9) and iterations[i] == taken
        assert costs[i] == pytest.approx(rolled(problem, qpos, recorded.goal, u[i]), rel=1e-9)


def test_a_plan_is_a_minimum_within_bounds(problem: Problem, recorded: trial.Trial) -> None:
    """Controls inside the bounds do not want to move, those at a bound want beyond it; some are at a bound."""
    bound = problem.task.bound
    low, high = np.full(9, -bound), np.full(9, bound)
    held = 0
    for qpos in touching(recorded):
        shot = shooting(problem, qpos, recorded.goal)
        settings = newton_reference.Settings(iterations=200, tolerance=0.0)
        shot.cost(np.zeros((4, 9)))
        steepest = np.abs(shot.derivatives()[0]).max()
        u, _, _ = newton_reference.minimize(shot, np.zeros((4, 9)), low, high, settings)
        assert (np.abs(u) <= bound).all()
        shot.cost(u)
        gradient = shot.derivatives()[0].reshape(u.shape)
        wish = np.clip(u - gradient, low, high) - u
        assert np.abs(wish).max() < 1e-6 * steepest
        held += int((np.abs(u) == bound).sum())
    assert held > 0


def test_targets_respect_joint_limits(problem: Problem, recorded: trial.Trial) -> None:
    """A fingertip that wants on is stopped where its joints end."""
    free = newton.Newton(problem)
    free.reset(recorded.goal, 0)
    qpos = recorded.frames[0]
    ahead = free.plan(observed(qpos)).target - qpos[:9]
    assert np.abs(ahead).max() <= problem.task.bound + 1e-12
    eager = int(np.abs(ahead).argmax())
    mjm = problem.task.build("cube").compile()
    mjm.jnt_limited[eager] = 1
    mjm.jnt_range[eager] = qpos[eager] + np.array([-1e-4, 1e-4])
    stopped = newton.Newton(dataclasses.replace(problem, mjm=mjm))
    stopped.reset(recorded.goal, 0)
    target = stopped.plan(observed(qpos)).target[eager]
    assert abs(target - qpos[eager]) == pytest.approx(1e-4, abs=1e-9)


def test_equal_observations_give_equal_plans(problem: Problem, recorded: trial.Trial) -> None:
    """After a reset nothing is left of the trial before."""
    planner = newton.Newton(problem)
    runs = []
    for _ in range(2):
        planner.reset(recorded.goal, 0)
        runs.append([planner.plan(observed(qpos)).target for qpos in recorded.frames[:5]])
    np.testing.assert_array_equal(runs[0], runs[1])
    np.testing.assert_array_equal(trial.run(problem, planner, 0).frames, recorded.frames)


def test_the_object_is_brought_to_its_goal() -> None:
    problem = compile_problem(dataclasses.replace(TASKS["fingertips-rotate"], longest=300), "cube")
    done = trial.run(problem, newton.Newton(problem), 0)
    assert done.success and done.errors[0] < 0.02 and done.errors[1] < 0.015


def test_planners_are_made_by_name(problem: Problem) -> None:
    assert isinstance(make_planner("newton", problem, settings=newton.Settings(iterations=3)), newton.Newton)
    made = make_planner("newton:iterations=3,tolerance=0", problem)
    assert isinstance(made, newton.Newton) and made.settings == newton.Settings(iterations=3, tolerance=0.0)
    assert settings_of("implicit:product=1e-3") == implicit.Settings(product=1e-3)
    with pytest.raises(InputError, match="no parameter of mppi named 'sample'; did you mean 'samples'"):
        make_planner("mppi:sample=3", problem)
    with pytest.raises(InputError, match="give one of them"):
        make_planner("newton:iterations=3", problem, settings=newton.Settings())
    assert {"newton", "ipopt", "implicit"} <= {*PLANNERS}
    with pytest.raises(InputError, match="did you mean 'ipopt'"):
        make_planner("ipot", problem)
    with pytest.raises(InputError, match="newton"):
        make_planner("", problem)
