"""`stick`: its reference, its metrics on known motion, and the figures MuJoCo is known for."""

import math

import numpy as np
import pytest

from stickslip.bench import runner
from stickslip.bench.result import load
from stickslip.bench.stick import Stick, slide
from tests.bench import scripted


def test_slide_is_twice_integrated_acceleration():
    angle, mu, dt = 0.6, 0.3, 1e-4
    speed = way = 0.0
    for _ in range(10_000):
        speed += dt * 9.81 * (math.sin(angle) - mu * math.cos(angle))
        way += dt * speed
    assert slide(angle, mu, 1.0) == pytest.approx(way, rel=2e-4)
    assert slide(0.25, 0.4, 1.0) == 0.0
    assert slide(math.pi / 8, 0.4, 2.0) == pytest.approx(0.2576, abs=5e-5)


@pytest.mark.parametrize(("creep", "factor"), [(0.0, 1.0), (0.003, 1.1)])
def test_metrics_tell_a_known_creep_and_a_known_error(creep, factor, tmp_path):
    def script(mjm, mjd):
        q = mjm.body("box").quat
        angle = 2.0 * math.atan2(q[2], q[0])
        way = creep * mjd.time if angle < 0.3 else factor * slide(angle, 0.4, mjd.time)
        mjd.qpos[:3] = mjm.body("box").pos + way * np.array([math.cos(angle), 0.0, -math.sin(angle)])

    result = scripted.run(Stick(), {"fake": scripted.Scripted(script)}, tmp_path, settings={"timesteps": "0.01"})
    assert result.figure("fake", "stick, dt 10 ms", "late_speed_mm_per_s") == pytest.approx(1e3 * creep, abs=1e-2)
    assert result.figure("fake", "stick, dt 10 ms", "moved_mm") == pytest.approx(2e3 * creep, abs=1e-2)
    assert result.figure("fake", "slide, dt 10 ms", "error_mm") == pytest.approx(257.6 * (factor - 1), abs=0.1)


def test_mujoco_creeps_as_it_is_known_to_and_comfree_does_not_stick(tmp_path):
    """1.1 mm/s and 21 mm are known of MuJoCo Warp 4.0; 0.006 mm/s and 12 mm of its anti-creep settings."""
    names = ["mujoco", "mujoco-anti-creep", "comfree"]
    result = load(runner.run(Stick(), tmp_path, physics=names, device="cpu", settings={"timesteps": "0.002"}))
    creep = [result.figure(n, "stick, dt 2 ms", "late_speed_mm_per_s") for n in names]
    error = [result.figure(n, "slide, dt 2 ms", "error_mm") for n in names]
    assert creep[0] == pytest.approx(1.07, abs=0.05)
    assert creep[1] == pytest.approx(0.006, abs=0.002)
    assert error[0] == pytest.approx(21.0, abs=1.0)
    assert error[1] == pytest.approx(12.0, abs=1.0)
    assert creep[2] > 100.0
    assert error[2] > 1000.0
