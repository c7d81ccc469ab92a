"""Motions that physics can follow are followed; those that it cannot come out sounder than they went in."""

import dataclasses

import mujoco
import numpy as np
import pytest

import stickslip as ss
from stickslip.mpc.retarget import rollout, score
from stickslip.mpc.retarget.motion import Motion
from stickslip.mpc.retarget.problem import Problem, compile_problem
from stickslip.mpc.retarget.settings import Settings, Weights
from tests.mpc.retarget import toy

SETTINGS = Settings(
    samples=192, horizon=12, dt=0.02, knot_steps=4, control_steps=4, iterations=12, noise=0.05, improvement=0.0
)


def feasible(problem: Problem) -> Motion:
    """What the plant does with known controls."""
    one = rollout.Plant(problem)
    frames = [one.mjd.qpos.copy()]
    for step in range(problem.steps):
        one.step(problem.reference.ctrl[step] + 0.15 * np.sin(0.3 * step + np.arange(problem.mjm.nu)))
        frames.append(one.mjd.qpos.copy())
    qpos = np.array(frames)
    joints = [problem.mjm.joint(name).qposadr[0] for name in toy.JOINTS]
    return Motion("feasible", 1.0 / problem.dt, qpos[:, joints], toy.JOINTS, qpos[:, :7])


@pytest.fixture(scope="module")
def problem() -> Problem:
    motion = feasible(toy.problem(seconds=0.4))
    return compile_problem(toy.robot(), motion, Weights(base_pos=10.0), dt=toy.SMALL.dt)


def test_a_feasible_motion_is_followed(problem: Problem):
    (ran,) = rollout.run(problem, ss.ConeSweep(), SETTINGS, device="cpu")
    assert ran.completed and len(ran.seconds) == len(ran.rounds) == 5
    assert ran.qpos.shape == (problem.steps + 1, problem.mjm.nq) and ran.ctrl.shape == (problem.steps, problem.mjm.nu)
    found, without = score.errors(ran), score.errors(rollout.open_loop(problem))
    assert found.base_pos < 0.005 and found.base_rot < 0.02
    assert found.base_pos + found.base_rot < without.base_pos + without.base_rot
    assert np.isnan(found.object_pos)
    assert abs(score.report(ran).gap) < 0.05


def test_a_sunk_motion_comes_out_on_the_floor(problem: Problem):
    """Feet 3 cm in the floor and sliding: the plant's are neither."""
    base = problem.motion.base.copy()
    base[:, 2] -= 0.03
    base[:, 0] += 0.1 * np.arange(len(base)) * problem.dt
    sunk = compile_problem(toy.robot(), dataclasses.replace(problem.motion, base=base), dt=toy.SMALL.dt)
    (ran,) = rollout.run(sunk, ss.ConeSweep(), SETTINGS, device="cpu")
    given, got = score.reference_report(sunk), score.report(ran)
    assert given.penetration > 0.025 and got.penetration < 0.005
    assert given.foot_slide > 0.08 and got.foot_slide < 0.5 * given.foot_slide


def test_spiders_metric_is_one_step_late():
    """A base that follows exactly, at a constant speed: SPIDER's error is speed times dt."""
    times = np.arange(11) / 50.0
    base = np.tile([0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0], (11, 1))
    base[:, 0] = 0.7 * times
    joints = np.outer(times, np.full(8, 0.5))
    problem = compile_problem(toy.robot(), Motion("away", 50.0, joints, toy.JOINTS, base), dt=0.02)
    r = problem.reference
    empty = np.zeros(0)
    exact = rollout.Retargeted(problem, 0, "done", r.qpos, r.qvel, r.ctrl[1:], empty, empty, empty)
    assert score.errors(exact).base_pos == pytest.approx(0.0, abs=1e-12)
    late = score.errors(exact, "spider")
    assert late.base_pos == pytest.approx(0.7 * 0.02) and late.joints == pytest.approx(np.sqrt(8) * 0.5 * 0.02)
    with pytest.raises(ss.InputError, match="metric is 'best': it must be one of aligned, spider"):
        score.errors(exact, "best")


def test_a_base_that_is_lost_ends_the_run(problem: Problem, monkeypatch):
    monkeypatch.setattr(rollout, "LOST_TIME", 0.2)
    base = problem.motion.base.copy()
    base[5:, 0] += 2.0
    away = compile_problem(toy.robot(), dataclasses.replace(problem.motion, base=base), dt=toy.SMALL.dt)
    settings = dataclasses.replace(SETTINGS, samples=4, iterations=1)
    ends = {}
    for keep_going in (False, True):
        (ran,) = rollout.run(away, ss.ConeSweep(), settings, device="cpu", keep_going=keep_going)
        ends[keep_going] = ran.reason, len(ran.ctrl)
    assert ends[True] == ("done", away.steps)
    assert ends[False][0] == "lost" and ends[False][1] == pytest.approx(5 + 0.2 / 0.02, abs=1)


def test_controls_of_the_reference_make_up_for_damping():
    """Servos in the air follow a swing: without the feed-forward they would be late by kv / kp."""
    spec = mujoco.MjSpec.from_string(toy.mjcf())
    spec.option.gravity = [0.0, 0.0, 0.0]
    robot = dataclasses.replace(toy.robot(), build=lambda options: spec.copy())
    times = np.arange(41) / 50.0
    swing = 0.4 * np.sin(4.0 * times)[:, None] * np.array([1.0, -1.0] * 4)
    joints = np.array([0.4, -0.8] * 4) + swing
    base = np.tile([0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0], (41, 1))
    problem = compile_problem(robot, Motion("swing", 50.0, joints, toy.JOINTS, base), dt=0.02)
    lag = 0.4 * 4.0 * 2.0 / 60.0
    error = np.abs(score.series(rollout.open_loop(problem))["joints"][10:]).max() / np.sqrt(8)
    assert error < 0.35 * lag


def test_bad_seeds_are_refused(problem: Problem):
    for seeds in ([], [1, 1], [-1]):
        with pytest.raises(ss.InputError, match="there must be one or more, different and not below 0"):
            rollout.run(problem, ss.ConeSweep(), SETTINGS, device="cpu", seeds=seeds)
