"""`bullet`: where bullets start, its metrics on known motion, and what MuJoCo lets pass."""

import math

import numpy as np
import pytest

from stickslip.bench import runner
from stickslip.bench.experiments.depth.bullet import Bullet, Settings, starts
from stickslip.bench.result import load
from tests.bench import scripted

SETTINGS = {"speeds": "1,4,2", "bullets": 4, "duration": 0.2, "timesteps": "0.01"}
BALL, PLATE = "ball, no gap, dt 10 ms", "plate, no gap, dt 10 ms"
LOW = {"ball": 0.01, "plate": 0.0025}


def shot(depth, back=0.0, keeps=math.inf, also=lambda speed, height: False):
    """Bullets move straight on. Those of up to `keeps` m/s stop `depth` m deep and come back at a share of their speed.

    `also` tells of speed and height at the start whether a bullet passes all the same.
    """
    seen = {}

    def script(mjm, mjd):
        low = mjm.geom("bullet").size[0 if mjm.geom("bullet").type == 2 else 2]
        if mjd.time < 1.5 * mjm.opt.timestep:  # the first step
            seen[id(mjd)] = -mjd.qvel[2], mjd.qpos[2] - low
        speed, height = seen[id(mjd)]
        if speed > keeps + 1e-3 or also(speed, height):
            mjd.qpos[2] = low + height - speed * mjd.time
        else:
            mjd.qpos[2] = low + max(height - speed * mjd.time, -depth)
            mjd.qvel[2] = back * speed if mjd.qpos[2] == low - depth else -speed

    return scripted.Scripted(script)


def test_bullets_of_a_speed_are_spread_over_the_way_of_one_step():
    height, speed = starts(Settings(speeds=(1.0, 4.0), bullets=4), 0.01)
    np.testing.assert_allclose(speed, [1.0] * 4 + [4.0] * 4)
    np.testing.assert_allclose(height[4:], 0.05 + 0.04 * np.array([0.0, 0.25, 0.5, 0.75]))


def test_metrics_tell_who_passes_and_how_deep_the_others_get(tmp_path):
    physics = {
        "all": shot(0.002, back=0.25),
        "none": shot(0.002, keeps=0.0),
        "slow": shot(0.002, keeps=2.0),
        "lucky": shot(0.003, also=lambda speed, height: speed > 1.5 and height < 0.0501),
        "early": shot(-0.004),
    }
    result = scripted.run(Bullet(), physics, tmp_path, settings=SETTINGS)

    def told(name, case=BALL):
        return [result.metric(label, case, name) for label in physics]

    nan = math.nan
    for case in (BALL, PLATE):
        assert told("passed_percent", case) == pytest.approx([0.0, 100.0, 100.0 / 3.0, 100.0 / 6.0, 0.0])
        assert told("stopped_up_to_m_per_s", case) == pytest.approx([4.0, 0.0, 2.0, 1.0, 4.0])
        assert told("slowest_deepest_mm", case) == pytest.approx([2.0, nan, 2.0, 3.0, -4.0], abs=1e-4, nan_ok=True)
        assert told("deepest_mm", case) == pytest.approx([2.0, nan, nan, nan, -4.0], abs=1e-4, nan_ok=True)
        assert told("kept_off_mm", case) == pytest.approx([0.0, nan, nan, nan, 4.0], abs=1e-4, nan_ok=True)
        assert told("back_percent", case) == pytest.approx([25.0, nan, nan, nan, 0.0], abs=1e-4, nan_ok=True)
    np.testing.assert_allclose(result.series("slow", BALL, "speed"), [1.0, 4.0, 2.0])
    np.testing.assert_allclose(result.series("slow", BALL, "passed_percent"), [0.0, 100.0, 0.0])
    np.testing.assert_allclose(result.series("slow", BALL, "deepest_mm"), [2.0, nan, 2.0], atol=1e-4)


def test_a_bullet_that_is_stuck_in_the_plate_has_not_passed(tmp_path):
    for depth, passed in ((0.0149, 0.0), (0.0151, 100.0)):  # its middle at the plate's lower face
        settings = {**SETTINGS, "bullets": 1}
        result = scripted.run(Bullet(), {"fake": shot(depth)}, tmp_path / str(depth), settings=settings, picture=False)
        assert result.metric("fake", BALL, "passed_percent") == passed


def test_a_kick_within_the_run_is_seen(tmp_path):
    """A bullet that jumps below the plate for one step has passed; one that is thrown back for one step comes back."""

    def dips(mjm, mjd):
        mjd.qpos[2] = -1.0 if abs(mjd.time - 0.1) < 1e-6 else 0.05

    def kicked(mjm, mjd):
        mjd.qvel[2] = 8.0 if abs(mjd.time - 0.1) < 1e-6 else 0.0

    physics = {"dips": scripted.Scripted(dips), "kicked": scripted.Scripted(kicked)}
    result = scripted.run(Bullet(), physics, tmp_path, settings=SETTINGS, picture=False)
    assert result.metric("dips", BALL, "passed_percent") == 100.0
    assert result.metric("kicked", BALL, "back_percent") == pytest.approx(800.0)


def test_cases_with_a_gap_have_one(tmp_path):
    seen = {}

    def script(mjm, mjd):
        seen.setdefault((mjm.geom("bullet").type[0] == 2, float(mjm.geom_gap.sum())), mjm.geom("plate").size[2])

    settings = {**SETTINGS, "gap": 0.125, "thickness": 0.004}
    scripted.run(Bullet(), {"fake": scripted.Scripted(script)}, tmp_path, settings=settings, picture=False)
    assert seen.keys() == {(True, 0.0), (True, 0.125), (False, 0.0), (False, 0.125)}
    assert all(half == pytest.approx(0.002) for half in seen.values())


def test_a_bullet_that_is_nowhere_gives_no_metrics(tmp_path):
    def script(mjm, mjd):
        mjd.qpos[2] = math.nan if mjd.time > 0.1 else mjd.qpos[2]

    result = scripted.run(Bullet(), {"fake": scripted.Scripted(script)}, tmp_path, settings=SETTINGS, picture=False)
    assert all(value is None for value in result.outcomes["fake"][BALL]["metrics"].values())
    assert "no longer finite" in result.problems("fake", BALL)[0]


def test_scores_name_cases_and_metrics_that_exist(tmp_path):
    experiment = Bullet()
    settings = {**SETTINGS, "timesteps": "0.002,0.01"}
    result = scripted.run(experiment, {"fake": shot(0.002)}, tmp_path, settings=settings, picture=False)
    for score in experiment.scores(experiment.make_settings(settings)):
        assert not math.isnan(result.metric("fake", score.case, score.metric)), score


def test_mujoco_stops_slow_balls_only_and_does_not_heed_the_gap(tmp_path):
    """Known of MuJoCo in C at 2 ms: every ball of 1 m/s is stopped 9 to 11 mm deep, every one of 2 m/s passes."""
    settings = {"speeds": "1,2,20", "timesteps": "0.002"}
    result = load(runner.run(Bullet(), tmp_path, methods=["mujoco"], device="cpu", settings=settings, picture=False))
    gap, none = "ball, gap, dt 2 ms", "ball, no gap, dt 2 ms"
    assert result.metric("mujoco", none, "stopped_up_to_m_per_s") == 1.0
    assert result.metric("mujoco", none, "passed_percent") == pytest.approx(200.0 / 3.0)
    assert result.metric("mujoco", none, "slowest_deepest_mm") == pytest.approx(10.6, abs=0.1)
    assert result.outcomes["mujoco"][gap] == result.outcomes["mujoco"][none]
