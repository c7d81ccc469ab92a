"""`sheath`: its references, its metrics on known motion, and the plateau that the convex model is known for."""

import mujoco
import numpy as np
import pytest

from stickslip.bench import runner
from stickslip.bench.experiments.friction.sheath import CASE, Settings, Sheath, acceleration, convex_plateau
from stickslip.bench.result import load
from tests.bench import scripted


def test_acceleration_is_that_of_newton_and_coulomb():
    speed, dt = 0.0, 1e-4
    for _ in range(10_000):
        friction = -np.sign(speed) * 0.3 * 0.2 * 9.81
        speed += dt * (1.0 + friction) / 0.2
    assert acceleration(Settings()) == pytest.approx(speed, rel=1e-3)
    assert acceleration(Settings(force=-1.0)) == -acceleration(Settings())
    assert acceleration(Settings(mu=0.6)) == 0.0


class Pushed(scripted.Scripted):
    """Presses with 5 N on whatever it touches."""

    def advance(self, mjm: mujoco.MjModel, mjd: mujoco.MjData) -> np.ndarray:
        force = super().advance(mjm, mjd)
        force[:, 0] = 5.0
        return force


@pytest.mark.parametrize(("missing", "touching", "sunk"), [(0.0, 0.0, 0.0), (0.7, 0.25, 0.004)])
def test_metrics_tell_a_known_error(missing, touching, sunk, tmp_path):
    """A share of the speed is missing; the sphere is at the upper plane in the first steps, later in the lower one."""

    def script(mjm, mjd):
        mjd.qvel[0] = (1.0 - missing) * acceleration(Settings()) * mjd.time
        mjd.qpos[0] = 0.5 * mjd.qvel[0] * mjd.time
        mjd.qpos[2] = 0.0021 if mjd.time < touching + 0.001 else -sunk

    result = scripted.run(Sheath(), {"fake": Pushed(script)}, tmp_path)
    exact = acceleration(Settings())
    assert result.metric("fake", CASE, "speed_error") == pytest.approx(-missing * exact, abs=1e-5)
    assert result.metric("fake", CASE, "upper_percent") == pytest.approx(100.0 * touching)
    assert result.metric("fake", CASE, "sink_mm") == pytest.approx(1e3 * sunk, abs=1e-4)
    assert result.metric("fake", CASE, "lift_mm") == pytest.approx(2.1 if touching else 0.0, abs=1e-4)
    assert result.metric("fake", CASE, "late_acceleration") == pytest.approx((1.0 - missing) * exact, rel=1e-4)
    assert np.isnan(result.metric("fake", CASE, "plateau_speed"))
    assert Sheath().reported(result) == ()


def test_a_plateau_is_told(tmp_path):
    def script(mjm, mjd):
        mjd.qvel[0] = 0.4 if mjd.time < 0.5 else 0.6

    result = scripted.run(Sheath(), {"fake": scripted.Scripted(script)}, tmp_path)
    assert result.metric("fake", CASE, "plateau_speed") == pytest.approx(0.6)


def test_a_broken_state_has_no_metrics(tmp_path):
    def script(mjm, mjd):
        mjd.qvel[0] = np.nan if mjd.time > 0.5 else 0.1

    result = scripted.run(Sheath(), {"fake": scripted.Scripted(script)}, tmp_path)
    assert np.isnan(result.metric("fake", CASE, "speed_error"))
    assert np.isnan(result.metric("fake", CASE, "upper_percent"))
    assert any("no longer finite" in problem for problem in result.problems("fake", CASE))


def test_convex_model_levels_off_in_the_middle_of_the_gap(tmp_path):
    pytest.importorskip("osqp", reason="the method qp needs OSQP: pip install 'stickslip[bench]'")
    result = load(runner.run(Sheath(), tmp_path, methods=["qp"], device="cpu"))
    assert convex_plateau(Settings()) == pytest.approx(1.0 / 3.0)
    assert result.metric("qp", CASE, "plateau_speed") == pytest.approx(1.0 / 3.0, rel=1e-4)
    assert result.metric("qp", CASE, "end_speed") == pytest.approx(1.0 / 3.0, rel=1e-4)
    assert result.metric("qp", CASE, "lift_mm") == pytest.approx(1.0, abs=1e-3)
    assert result.metric("qp", CASE, "upper_percent") > 80.0


def test_mujoco_levels_off_too_at_this_step_and_comfree_does_not(tmp_path):
    """MuJoCo in C gives 0.6111 m/s at the end of the same run."""
    names = ["mujoco", "comfree", Sheath.extra[1]]
    result = load(runner.run(Sheath(), tmp_path, methods=names, device="cpu"))
    assert result.metric("mujoco", CASE, "end_speed") == pytest.approx(0.611, abs=0.05)
    assert result.metric("mujoco", CASE, "plateau_speed") == pytest.approx(0.594, abs=0.03)
    for name in names[1:]:
        assert np.isnan(result.metric(name, CASE, "plateau_speed"))
        assert result.metric(name, CASE, "upper_percent") == 0.0
        assert result.metric(name, CASE, "sink_mm") > 5.0
