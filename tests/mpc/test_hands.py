"""The TriFinger-like and Allegro-like hands: their models, where trials start, and a trial of each."""

import math

import mujoco
import numpy as np
import pytest

from stickslip.mpc.planners.catalogue import make_planner
from stickslip.mpc.success import pose_errors
from stickslip.mpc.task import Task, compile_problem
from stickslip.mpc.tasks import TASKS, allegro, objects, trifinger
from stickslip.mpc.trial import trial
from stickslip.mpc.trial.plant import Plant

HANDS = (trifinger.TRIFINGER, allegro.ALLEGRO)
HANDS_IDS = [task.name for task in HANDS]
EVERY = [pytest.param(task, name, id=f"{task.name}-{name}") for task in HANDS for name in task.objects]
SEEDS = range(20)


@pytest.mark.parametrize("task", HANDS, ids=HANDS_IDS)
def test_tasks_are_listed(task: Task) -> None:
    assert TASKS[task.name] is task


@pytest.mark.parametrize(("task", "name"), EVERY)
def test_joints_come_first_with_one_servo_each_in_their_order(task: Task, name: str) -> None:
    problem = compile_problem(task, name)
    mjm, nr = problem.mjm, problem.nr
    assert nr == {"trifinger": 9, "allegro": 16}[task.name]
    assert (mjm.nq, mjm.nv, mjm.njnt) == (nr + 7, nr + 6, nr + 1)
    assert (mjm.jnt_type[:nr] == mujoco.mjtJoint.mjJNT_HINGE).all()
    np.testing.assert_array_equal(mjm.actuator_trnid[:, 0], np.arange(nr))
    low, high = problem.limits()
    assert np.isfinite(low).all()
    assert (low < high).all()


@pytest.mark.parametrize(("task", "name"), EVERY)
def test_starts_and_goals(task: Task, name: str) -> None:
    """Nothing starts deep inside something else, joints are within their limits, goals within their range."""
    problem = compile_problem(task, name)
    mjd = mujoco.MjData(problem.mjm)
    low, high = problem.limits()
    for seed in SEEDS:
        start, goal = trial.draw(problem, seed)
        again, same = trial.draw(problem, seed)
        np.testing.assert_array_equal(start, again)
        np.testing.assert_array_equal(goal.quat, same.quat)
        assert (start[: problem.nr] >= low).all()
        assert (start[: problem.nr] <= high).all()
        mjd.qpos[:] = start
        mujoco.mj_forward(problem.mjm, mjd)
        assert min((c.dist for c in mjd.contact), default=0.0) > -0.004
        assert np.linalg.norm(goal.quat) == pytest.approx(1.0)
        if task.name == "trifinger":
            assert np.abs(np.array([start[-7:-5], goal.pos[:2]])).max() <= trifinger.REACH
            assert goal.pos[2] == start[-5] == objects.THINGS[name].height
        else:
            np.testing.assert_array_equal(goal.pos, [*allegro.CENTER, start[-5]])
            assert pose_errors(problem.mjm, start, np.zeros(0), goal)[0] < 5.0 * allegro.NOISE
            assert pose_errors(problem.mjm, start, np.zeros(0), goal)[1] == pytest.approx(math.sin(0.25 * math.pi) ** 2)


@pytest.mark.parametrize(("task", "name"), EVERY)
def test_object_rests(task: Task, name: str) -> None:
    """With the hand still, the object stays where it is for a second."""
    problem = compile_problem(task, name)
    start, goal = trial.draw(problem, 0)
    if task.name == "allegro":
        start[-7:-5] = allegro.CENTER
    plant = Plant(problem)
    plant.reset(start, goal)
    plant.advance(500)
    assert plant.failure() == ""
    assert np.abs(plant.mjd.qpos[-7:-4] - start[-7:-4]).max() < 0.003
    assert abs(plant.mjd.qpos[-4:] @ start[-4:]) > math.cos(0.5 * math.radians(5.0))


@pytest.mark.parametrize(
    ("task", "name", "seed"), [(trifinger.TRIFINGER, "can", 1), (allegro.ALLEGRO, "duck", 0)], ids=HANDS_IDS
)
def test_trial_succeeds(task: Task, name: str, seed: int) -> None:
    problem = compile_problem(task, name)
    done = trial.run(problem, make_planner("newton", problem), seed)
    assert done.reason == trial.SUCCESS
    assert done.steps < 150


def test_object_that_drops_off_the_palm_has_fallen() -> None:
    problem = compile_problem(allegro.ALLEGRO, "cube")
    start, goal = trial.draw(problem, 0)
    start[-7:-4] = -0.2, 0.0, allegro.PALM
    plant = Plant(problem)
    plant.reset(start, goal)
    plant.advance(250)
    assert plant.failure() == "fell"
