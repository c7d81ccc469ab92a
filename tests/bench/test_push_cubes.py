"""`push-cubes`: its reference, its metrics on known motion and known step times, and what pushes right."""

import mujoco
import numpy as np
import pytest

from stickslip import mjcf
from stickslip.bench import runner
from stickslip.bench.baselines.qp import TimedSolver
from stickslip.bench.experiments.speed.push_cubes import RIVAL, PushCubes, Settings, load, pushing_force, scattered
from stickslip.bench.result import load as read
from stickslip.scenes.push_cubes import BAR_MASS, GAIN, STIFF
from tests.bench import scripted

STEPS = {"steps": 100, "counts": "2"}
CASE = "2 cubes"


@pytest.mark.parametrize("implicit", [False, True])
def test_load_is_the_force_that_a_servo_of_known_load_meets(implicit):
    """A bar of 1 kg under a known force that changes, and its servo as at the start of a step, or as at its end."""
    dt, place, speeds, servo, forces = 0.002, 0.0, [0.0], [], []
    stop = 2 * STIFF
    for step, goal in enumerate(0.001 * np.arange(1, 401)):
        force, speed = 3.0 + np.sin(step), speeds[-1]
        if implicit:
            after = (speed + dt * (GAIN * (goal - place) - force)) / (1.0 + dt * (stop + dt * GAIN))
            servo.append(GAIN * (goal - place - dt * after) - stop * after)
        else:
            servo.append(GAIN * (goal - place) - stop * speed)
            after = speed + dt * (servo[-1] - force)
        place += dt * after
        speeds.append(after)
        forces.append(force)
    speed, servo = np.array(speeds), np.array(servo)
    assert load(servo, speed, dt) == pytest.approx(np.mean(forces), rel=1e-9)
    assert load(servo[300:], speed[300:], dt) == pytest.approx(np.mean(forces[300:]), rel=1e-9)


def test_start_is_random_but_clear():
    mjm = mjcf.load("push-cubes:n=10")
    mjd = mujoco.MjData(mjm)
    home = mjd.qpos.copy()
    starts = [scattered(home, np.random.default_rng(seed)) for seed in range(50)]
    assert np.ptp(starts, axis=0)[1:].reshape(-1, 7)[:, [0, 1, 3, 6]].min() > 0.005
    np.testing.assert_array_equal(starts[0], scattered(home, np.random.default_rng(0)))
    for start in starts:
        mjd.qpos[:] = start
        mujoco.mj_forward(mjm, mjd)
        assert set(mjd.contact.geom[:, 0]) <= {mjm.geom("floor").id}


@pytest.mark.parametrize(("factor", "depth"), [(1.0, 0.0), (0.8, 0.003)])
def test_metrics_tell_a_known_force_depth_and_time(factor, depth, tmp_path):
    """The bar speeds up steadily, by 0.3 m/s^2, which takes of its servo's force what the cubes do not; they sink."""
    settings, gain = Settings(), 0.3
    force = factor * pushing_force(settings, 2)

    def script(mjm, mjd):
        mjd.qpos[0], mjd.qvel[0] = 0.5 * gain * mjd.time**2, gain * mjd.time
        mjd.actuator_force[0] = force + BAR_MASS * gain
        for cube in range(2):
            place = mjd.qpos[1 + 7 * cube :][:3]
            place[0], place[2] = 0.7 * mjd.time, 0.02 - depth

    clock = scripted.Clock()
    fake = scripted.Scripted(script, clock, seconds=lambda ncon: 0.004)
    result = scripted.run(PushCubes(), {"fake": fake}, tmp_path, settings=STEPS, clock=clock)
    metrics = result.outcomes["fake"][CASE]["metrics"]
    assert metrics["expected_force"] == pytest.approx(0.5 * 2 * 0.1 * 9.81)
    assert metrics["force"] == pytest.approx(force, abs=2e-3)
    assert metrics["force_error_percent"] == pytest.approx(100 * (factor - 1), abs=0.2)
    assert metrics["penetration_mm"] == pytest.approx(1e3 * depth, abs=1e-4)
    assert metrics["ms_per_step"] == pytest.approx(4.0)
    assert metrics["mean_ms"] == pytest.approx(4.0)
    assert "over_qp" not in metrics and not PushCubes().reported(result)


def test_time_of_a_solver_is_told_beside_that_of_the_step(tmp_path):
    class Timed(scripted.Scripted, TimedSolver):
        """Its solver takes 3 ms of every step, in all its worlds."""

        def solver_seconds(self, d):
            return sum(0.003 * round(mjd.time / 0.002) for mjd in d.worlds)

    fakes = {"timed": Timed(lambda mjm, mjd: None), "other": scripted.Scripted(lambda mjm, mjd: None)}
    result = scripted.run(PushCubes(), fakes, tmp_path, settings=STEPS, picture=False)
    assert result.metric("timed", CASE, "solver_ms") == pytest.approx(3.0)
    assert np.isnan(result.metric("other", CASE, "solver_ms"))


def test_pushed_is_the_mean_way_of_the_cubes(tmp_path):
    starts = {}

    def script(mjm, mjd):
        for cube in range(2):
            here = mjd.qpos[1 + 7 * cube :]
            here[0] = starts.setdefault(cube, here[0]) + (1 + 2 * cube) * mjd.time

    result = scripted.run(PushCubes(), {"fake": scripted.Scripted(script)}, tmp_path, settings=STEPS)
    # the warm-up sets where the cubes are taken to start: at home, not shifted
    home = [mjcf.load("push-cubes:n=2").qpos0[1 + 7 * cube] for cube in range(2)]
    shifted = scattered(mjcf.load("push-cubes:n=2").qpos0, np.random.default_rng(0))[[1, 8]]
    expected = np.mean([home[c] + (1 + 2 * c) * 0.2 - shifted[c] for c in range(2)])
    assert result.metric("fake", CASE, "pushed_mm") == pytest.approx(1e3 * expected, abs=0.01)


def test_ratios_are_to_the_program(tmp_path):
    def still(mjm, mjd):
        pass

    clock = scripted.Clock()
    names = {"comfree": 0.002, RIVAL: 0.01}
    fakes = {name: scripted.Scripted(still, clock, seconds=lambda ncon, s=s: s) for name, s in names.items()}
    result = scripted.run(PushCubes(), fakes, tmp_path, settings=STEPS, clock=clock)
    assert result.metric("comfree", CASE, "over_qp") == pytest.approx(5.0)
    assert result.metric(RIVAL, CASE, "over_qp") == pytest.approx(1.0)
    (row,) = PushCubes().reported(result)
    assert row.paper.startswith("5 x") and row.measured.startswith("5 x")


def test_a_broken_state_has_no_metrics(tmp_path):
    def script(mjm, mjd):
        mjd.qvel[0] = np.nan

    result = scripted.run(PushCubes(), {"fake": scripted.Scripted(script)}, tmp_path, settings=STEPS)
    assert np.isnan(result.metric("fake", CASE, "ms_per_step"))
    assert any("no longer finite" in problem for problem in result.problems("fake", CASE))


def test_the_convex_model_and_mujoco_push_with_mu_times_the_weight(tmp_path):
    pytest.importorskip("osqp", reason="the method qp needs OSQP: pip install 'stickslip[bench]'")
    settings = {"steps": 400, "counts": "2"}
    names = ["qp", RIVAL, "mujoco", "comfree", "icf", "cenic"]
    result = read(runner.run(PushCubes(), tmp_path, methods=names, device="cpu", settings=settings))
    assert result.metric("qp", CASE, "force_error_percent") == pytest.approx(0.0, abs=0.1)
    assert abs(result.metric(RIVAL, CASE, "force_error_percent")) < 10.0  # OSQP stops early
    assert result.metric("mujoco", CASE, "force_error_percent") == pytest.approx(0.0, abs=2.0)
    assert result.metric("comfree", CASE, "force_error_percent") == pytest.approx(-23.5, abs=3.0)
    assert result.metric("icf", CASE, "force_error_percent") == pytest.approx(0.0, abs=2.0)  # its servo is implicit
    assert np.isnan(result.metric("cenic", CASE, "force_error_percent"))
    assert result.metric("qp", CASE, "solver_ms") > 0.0
    assert np.isnan(result.metric("mujoco", CASE, "solver_ms"))
