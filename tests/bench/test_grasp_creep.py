"""`grasp-creep`: what a pad must press with, its metrics on known motion, and how MuJoCo and ComFree hold."""

import math

import mujoco
import numpy as np
import pytest

from stickslip import mjcf
from stickslip.bench import runner
from stickslip.bench.experiments.friction.grasp_creep import GraspCreep, needed
from stickslip.bench.result import load
from tests.bench import scripted

SETTINGS = {"pinches": "2", "duration": "2", "timesteps": "0.01"}
CASE = "pinch 2x, dt 10 ms"


def test_needed_is_where_friction_on_both_sides_carries_the_weight():
    assert 2 * 0.4 * needed(0.3, 0.4) == pytest.approx(0.3 * 9.81)


@pytest.mark.parametrize(("share", "falls"), [(1.2, False), (0.8, True)])
def test_mujoco_in_c_holds_with_more_than_needed_and_drops_with_less(share, falls):
    model = mjcf.load(f"pinch:mass=0.2,mu=0.5,force={share * needed(0.2, 0.5)}")
    model.opt.cone, model.opt.impratio = mujoco.mjtCone.mjCONE_ELLIPTIC, 100.0
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    for _ in range(250):
        mujoco.mj_step(model, data)
    sunk = -data.body("capsule").xpos[2]
    # what friction does not carry: 0.2 g over half a second
    assert sunk == pytest.approx(0.5 * (1 - share) * 9.81 * 0.5**2, rel=0.1) if falls else sunk < 0.002


@pytest.mark.parametrize("creep", [0.0, 0.004])
def test_metrics_tell_a_known_creep(creep, tmp_path):
    def script(mjm, mjd):
        # sinks 1 mm at once, then creeps; turns about a slanted axis, 20 times as fast before the last quarter
        spin = 5.0 * creep * (20.0 * min(mjd.time, 1.5) + max(mjd.time - 1.5, 0.0))
        mjd.qpos[2:5] = 0.0, 0.0, -0.001 - creep * mjd.time
        mjd.qpos[5:] = math.cos(spin / 2), *(math.sin(spin / 2) * np.array([0.6, 0.0, 0.8]))

    result = scripted.run(GraspCreep(), {"fake": scripted.Scripted(script)}, tmp_path, settings=SETTINGS, picture=False)
    assert result.metric("fake", CASE, "drift_mm_per_s") == pytest.approx(1e3 * creep, abs=1e-4)
    for name in ("sink_mm", "moved_mm"):
        assert result.metric("fake", CASE, name) == pytest.approx(1.0 + 2e3 * creep, abs=1e-4)
    assert result.metric("fake", CASE, "turned_deg") == pytest.approx(math.degrees(5.0 * creep * 30.5), abs=1e-3)
    assert result.metric("fake", CASE, "turn_deg_per_s") == pytest.approx(math.degrees(5.0 * creep), abs=1e-4)
    assert result.metric("fake", CASE, "dropped") == 0.0
    assert result.metric("fake", CASE, "held_s") == pytest.approx(2.0)


def test_what_comes_early_sideways_or_faster_than_is_sampled_is_seen(tmp_path):
    def along(mjm, mjd):
        mjd.qpos[2] = 0.02 * mjd.time  # along its axis

    def early(mjm, mjd):
        mjd.qpos[4] = 0.07 if 0.1 < mjd.time < 0.5 else 0.03  # up, and back in part
        half = 0.5 * min(2.0 * mjd.time, 0.5)
        mjd.qpos[5:] = math.cos(half), math.sin(half), 0.0, 0.0

    def spinning(mjm, mjd):
        half = math.pi * 2.0 * mjd.time  # a whole turn in the last quarter
        mjd.qpos[5:] = math.cos(half), math.sin(half), 0.0, 0.0

    physics = {"along": along, "early": early, "spinning": spinning}
    fakes = {label: scripted.Scripted(script) for label, script in physics.items()}
    result = scripted.run(GraspCreep(), fakes, tmp_path, settings=SETTINGS, picture=False)

    def told(name):
        return [result.metric(label, CASE, name) for label in physics]

    assert told("drift_mm_per_s") == pytest.approx([20.0, 0.0, 0.0], abs=1e-3)
    assert told("moved_mm") == pytest.approx([40.0, 70.0, 0.0], abs=1e-3)
    assert told("turned_deg") == pytest.approx([0.0, math.degrees(0.5), 180.0], abs=8.0)
    assert told("turned_deg")[1] == pytest.approx(math.degrees(0.5), abs=1e-3)
    assert told("turn_deg_per_s") == pytest.approx([0.0, 0.0, 360.0], abs=16.0)
    assert told("dropped") == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(("place", "way"), [(2, 0.05), (2, -0.05), (4, 0.09)])
def test_a_capsule_past_any_edge_of_the_pads_is_dropped(place, way, tmp_path):
    def script(mjm, mjd):
        mjd.qpos[place] = way

    result = scripted.run(GraspCreep(), {"fake": scripted.Scripted(script)}, tmp_path, settings=SETTINGS, picture=False)
    assert result.metric("fake", CASE, "dropped") == 1.0
    assert result.metric("fake", CASE, "held_s") == 0.0
    assert math.isnan(result.metric("fake", CASE, "moved_mm"))


def test_a_dropped_capsule_has_no_creep(tmp_path):
    def script(mjm, mjd):
        mjd.qpos[4] = -0.101 * mjd.time  # leaves the pads, 80 mm below its start, between 0.79 and 0.8 s

    result = scripted.run(GraspCreep(), {"fake": scripted.Scripted(script)}, tmp_path, settings=SETTINGS, picture=False)
    assert result.metric("fake", CASE, "dropped") == 1.0
    assert result.metric("fake", CASE, "held_s") == pytest.approx(0.79)
    for name in ("drift_mm_per_s", "moved_mm", "sink_mm", "turned_deg", "turn_deg_per_s"):
        assert math.isnan(result.metric("fake", CASE, name))
    assert result.series("fake", CASE, "sink_mm").max() < 80.0


def test_a_capsule_that_is_nowhere_is_not_held(tmp_path):
    def script(mjm, mjd):
        mjd.qpos[4] = math.nan if mjd.time > 0.505 else 0.0

    result = scripted.run(GraspCreep(), {"fake": scripted.Scripted(script)}, tmp_path, settings=SETTINGS, picture=False)
    assert math.isnan(result.metric("fake", CASE, "drift_mm_per_s"))
    assert math.isnan(result.metric("fake", CASE, "dropped"))
    assert math.isnan(result.metric("fake", CASE, "held_s"))
    assert result.series("fake", CASE, "time")[-1] == pytest.approx(0.5)
    assert result.problems("fake", CASE)


def test_scores_name_cases_and_metrics_that_exist(tmp_path):
    experiment = GraspCreep()
    settings = {"duration": "0.1", "timesteps": "0.002,0.01"}
    result = scripted.run(experiment, {"fake": scripted.Scripted(lambda m, d: None)}, tmp_path, settings=settings)
    for score in experiment.scores(experiment.make_settings(settings)):
        assert not math.isnan(result.metric("fake", score.case, score.metric)), score


def test_mujoco_creeps_and_comfree_drops(tmp_path):
    """Known of a box grasped twice as hard as needed: 6 mm/s, 0.03 mm/s, dropped. A capsule has half the contacts."""
    names = ["mujoco", "mujoco-anti-creep", "comfree"]
    settings = {"pinches": "2", "duration": "1", "timesteps": "0.002"}
    result = load(runner.run(GraspCreep(), tmp_path, methods=names, device="cpu", settings=settings))
    creep = [result.metric(n, "pinch 2x, dt 2 ms", "drift_mm_per_s") for n in names]
    assert creep[0] == pytest.approx(10.4, abs=0.3)
    assert creep[1] == pytest.approx(0.052, abs=0.005)
    assert math.isnan(creep[2])
    assert [result.metric(n, "pinch 2x, dt 2 ms", "dropped") for n in names] == [0.0, 0.0, 1.0]
