"""`stick`: its reference, its metrics on known motion, and the metrics MuJoCo is known for."""

import math

import mujoco
import numpy as np
import pytest

from stickslip.bench import runner
from stickslip.bench.experiments.friction.stick import Stick, farthest
from stickslip.bench.references.motion import down_slope as slide
from stickslip.bench.result import load
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
    assert result.metric("fake", "stick, dt 10 ms", "late_speed_mm_per_s") == pytest.approx(1e3 * creep, abs=1e-2)
    assert result.metric("fake", "stick, dt 10 ms", "moved_mm") == pytest.approx(2e3 * creep, abs=1e-2)
    assert result.metric("fake", "slide, dt 10 ms", "error_mm") == pytest.approx(257.6 * (factor - 1), abs=0.1)


@pytest.mark.parametrize(
    ("direction", "turn", "way"),
    [
        ((1.0, 0.0, 0.0), 0.0, 0.3),
        ((0.0, 3.0, 4.0), 0.0, 1.5),
        ((0.0, 0.0, 0.0), 1.2, 2 * 0.05 * math.sqrt(2) * 0.5646),
    ],
)
def test_farthest_is_that_of_a_corner_at_any_time(direction, turn, way):
    share = np.array([0.0, 1.0, 0.2])[:, None]  # it comes back
    angle = 0.5 * turn * share
    pose = np.hstack([0.3 * share * direction, np.cos(angle), 0.0 * share, 0.0 * share, np.sin(angle)])
    assert farthest(pose, 0.05) == pytest.approx(way, rel=1e-3)


def test_early_slips_sideways_motion_and_turning_are_seen(tmp_path):
    def moving(sideways, slip=0.0, spin=0.0):
        def script(mjm, mjd):
            q = mjm.body("box").quat
            angle = 2.0 * math.atan2(q[2], q[0])
            way = slip * min(mjd.time, 1.0) if angle < 0.3 else slide(angle, 0.4, mjd.time)
            mjd.qpos[:3] = mjm.body("box").pos + way * np.array([math.cos(angle), 0.0, -math.sin(angle)])
            mjd.qpos[1] += sideways * mjd.time
            half = 0.5 * spin * min(mjd.time, 1.0)  # about the slope's normal
            turned = np.zeros(4)
            mujoco.mju_mulQuat(turned, q, np.array([math.cos(half), 0.0, 0.0, math.sin(half)]))
            mjd.qpos[3:7] = turned

        return scripted.Scripted(script)

    physics = {
        "still": moving(0.0),
        "slipped": moving(0.0, slip=0.7),
        "aside": moving(-0.5),
        "spun": moving(0.0, spin=1),
    }
    result = scripted.run(Stick(), physics, tmp_path, settings={"timesteps": "0.01"}, picture=False)
    way = {label: result.metric(label, "stick, dt 10 ms", "farthest_mm") for label in physics}
    creep = {label: result.metric(label, "stick, dt 10 ms", "late_speed_mm_per_s") for label in physics}
    error = {label: result.metric(label, "slide, dt 10 ms", "error_mm") for label in physics}
    corner = 2e3 * 0.05 * math.sqrt(2) * math.sin(0.5)
    assert way == pytest.approx({"still": 0.0, "slipped": 700.0, "aside": 1000.0, "spun": corner}, abs=1e-2)
    assert creep == pytest.approx({"still": 0.0, "slipped": 0.0, "aside": 500.0, "spun": 0.0}, abs=1e-2)
    assert np.abs(list(error.values())) == pytest.approx([0.0, 0.0, 1000.0, 0.0], abs=1e-2)
    assert result.metric("aside", "slide, dt 10 ms", "sideways_mm") == pytest.approx(-1000.0)


def test_mujoco_creeps_as_it_is_known_to_and_comfree_does_not_stick(tmp_path):
    """1.1 mm/s and 21 mm are known of MuJoCo Warp 4.0; 0.006 mm/s and 12 mm of its anti-creep settings."""
    names = ["mujoco", "mujoco-anti-creep", "comfree"]
    result = load(runner.run(Stick(), tmp_path, methods=names, device="cpu", settings={"timesteps": "0.002"}))
    creep = [result.metric(n, "stick, dt 2 ms", "late_speed_mm_per_s") for n in names]
    error = [result.metric(n, "slide, dt 2 ms", "error_mm") for n in names]
    assert creep[0] == pytest.approx(1.07, abs=0.05)
    assert creep[1] == pytest.approx(0.006, abs=0.002)
    assert error[0] == pytest.approx(21.0, abs=1.0)
    assert error[1] == pytest.approx(12.0, abs=1.0)
    way = [result.metric(n, "stick, dt 2 ms", "farthest_mm") for n in names]
    assert way[:2] == pytest.approx([2.13, 0.146], rel=0.05)  # 0.05 and 0.1 mm of it are into the slope
    assert creep[2] > 100.0
    assert error[2] > 1000.0
