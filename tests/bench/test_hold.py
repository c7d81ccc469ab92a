"""`hold`: what counts as held, its metrics on known motion, and how long MuJoCo holds."""

import itertools
import math

import mujoco
import numpy as np
import pytest

from stickslip.bench import runner
from stickslip.bench.experiments.friction.hold import Hold, clearance, in_hand
from stickslip.bench.result import load
from stickslip.errors import InputError
from stickslip.scenes import hand
from tests.bench import scripted

SETTINGS = {"worlds": 3, "duration": 4.0, "settling": 1.0, "timesteps": "0.02"}
CASE = "dt 20 ms"
ALONE = ("drift_mm", "turn_deg", "sunk_mm", "joint_speed_mrad_per_s")


def run(tmp_path, picture=False, settings=SETTINGS, **scripts):
    physics = {label: scripted.Scripted(script) for label, script in scripts.items()}
    return scripted.run(Hold(), physics, tmp_path, settings=settings, picture=picture)


def noise(index: int) -> float:
    """Velocity along x of the cube in that world at the start."""
    return 0.01 * np.random.default_rng(0).normal(size=(3, 6))[index, 0]


def is_world(mjd: mujoco.MjData, index: int) -> bool:
    """Whether it is that world; its cube's velocity, which is not written here, still tells."""
    return abs(mjd.joint("cube").qvel[0] - noise(index)) < 1e-6


def test_clearance_is_that_of_the_lowest_corner():
    random = np.random.default_rng(1)
    corners = hand.HALF * np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
    for quat in random.normal(size=(20, 4)):
        quat /= np.linalg.norm(quat)
        turned = np.zeros(9)
        mujoco.mju_quat2Mat(turned, quat)
        pose = np.array([0.1, 0.2, 0.3, *quat])
        lowest = 0.3 + (corners @ turned.reshape(3, 3).T)[:, 2].min()
        assert clearance(pose) == pytest.approx(lowest - hand.PALM)
    assert clearance(np.array([*hand.CUBE, 1.0, 0.0, 0.0, 0.0])) == pytest.approx(hand.GAP)


def test_a_cube_is_in_the_hand_above_the_palm_and_near_its_start():
    def at(*shift):
        return in_hand(np.array([*np.add(hand.CUBE, shift), 1.0, 0.0, 0.0, 0.0]))

    assert at(0.0, 0.0, 0.0) and at(0.0, 0.09, 0.0) and at(0.0, 0.0, -0.038)
    assert not at(0.0, 0.11, 0.0) and not at(0.0, 0.0, 0.11) and not at(0.0, 0.0, -0.04)
    assert not in_hand(np.full(7, math.nan))


def test_a_hand_that_holds_still_scores_zero(tmp_path):
    result = run(tmp_path, picture=True, still=lambda mjm, mjd: None)
    metrics = result.outcomes["still"][CASE]["metrics"]
    assert metrics["held_percent"] == metrics["in_hand_percent"] == 100.0
    assert metrics["held_s"] == pytest.approx(4.0)
    assert all(abs(metrics[name]) < 1e-4 for name in ALONE), metrics


def test_metrics_are_those_of_the_worst_world_after_settling(tmp_path):
    def script(mjm, mjd):
        cube = mjd.joint("cube")
        late = max(mjd.time - 1.0, 0.0)
        worst = is_world(mjd, 1)
        # 3 mm down while it settles, then up to 4 mm aside in 2 s and half of the way back
        cube.qpos[2] = hand.CUBE[2] - 0.003 * min(mjd.time, 1.0)
        cube.qpos[1] = (0.004 if worst else 0.001) * (0.5 * late if late <= 2.0 else 1.0 - 0.5 * (late - 2.0))
        half = 0.5 * math.radians(6.0 if worst else 2.0) * late / 3.0
        cube.qpos[3:] = math.cos(half), 0.6 * math.sin(half), 0.0, 0.8 * math.sin(half)
        mjd.qvel[:16] = 0.0
        mjd.qvel[3] = 1.0 if mjd.time < 2.9 else 0.008 if worst else 0.004

    result = run(tmp_path, fake=script)
    assert result.metric("fake", CASE, "drift_mm") == pytest.approx(4.0, abs=1e-3)
    assert result.metric("fake", CASE, "turn_deg") == pytest.approx(6.0, abs=1e-3)
    assert result.metric("fake", CASE, "sunk_mm") == pytest.approx(3.0, abs=1e-3)
    assert result.metric("fake", CASE, "joint_speed_mrad_per_s") == pytest.approx(2.0, abs=1e-4)  # one joint of 16
    assert result.metric("fake", CASE, "held_percent") == 100.0


def test_a_cube_that_comes_to_lie_on_the_palm_or_leaves_is_not_held(tmp_path):
    def lies(mjm, mjd):  # in one world, where it rests from the first second on
        if is_world(mjd, 2) and mjd.time > 0.61:
            mjd.joint("cube").qpos[2] = hand.PALM + hand.HALF

    def tilted(mjm, mjd):  # its middle stays, a corner touches
        half = math.radians(10.0)
        if mjd.time > 2.01:
            mjd.joint("cube").qpos[3:] = math.cos(half), math.sin(half), 0.0, 0.0

    def visits(mjm, mjd):  # taken up again
        mjd.joint("cube").qpos[2] = hand.CUBE[2] - (0.006 if 1.01 < mjd.time < 1.21 else 0.0)

    def thrown(mjm, mjd):
        mjd.joint("cube").qpos[2] = hand.CUBE[2] + (0.2 if mjd.time > 0.51 else 0.0)

    result = run(tmp_path, lies=lies, tilted=tilted, visits=visits, thrown=thrown)

    def told(name):
        return [result.metric(label, CASE, name) for label in ("lies", "tilted", "visits", "thrown")]

    assert told("held_percent") == pytest.approx([200.0 / 3.0, 0.0, 0.0, 0.0])
    assert told("in_hand_percent") == [100.0, 100.0, 100.0, 0.0]
    assert told("held_s") == pytest.approx([0.6, 2.0, 1.0, 0.5], abs=1e-6)
    for name in ALONE:
        assert np.isnan(told(name)).all(), name
    assert np.isnan(result.series("lies", CASE, "sunk_mm")[-1])
    assert {score.absent for score in Hold().scores(Hold().make_settings())} == {"lost"}


def test_a_world_that_is_nowhere_gives_no_metrics(tmp_path):
    def script(mjm, mjd):
        mjd.qpos[0] = math.nan if mjd.time > 1.5 and is_world(mjd, 0) else mjd.qpos[0]  # a finger

    result = run(tmp_path, fake=script)
    assert all(value is None for value in result.outcomes["fake"][CASE]["metrics"].values())
    assert "no longer finite" in result.problems("fake", CASE)[0]


def test_scores_name_cases_and_metrics_that_exist(tmp_path):
    settings = {**SETTINGS, "timesteps": "0.02,0.05"}
    result = run(tmp_path, settings=settings, fake=lambda mjm, mjd: None)
    for score in Hold().scores(Hold().make_settings(settings)):
        assert not math.isnan(result.metric("fake", score.case, score.metric)), score


def test_something_must_be_left_to_measure():
    experiment = Hold()
    with pytest.raises(InputError, match="settling is 5 s and the duration 4 s"):
        experiment.cases(experiment.make_settings({"settling": 5, "duration": 4}))


def test_mujoco_creeps_onto_the_palm_unless_it_is_told_not_to(tmp_path):
    """Known of MuJoCo in C at 10 ms: 4 mm sunk after 5 s, on the palm before 10 s; 0.4 mm with anti-creep settings."""
    names = ["mujoco", "mujoco-anti-creep"]
    settings = {"worlds": 2, "duration": 10.0, "timesteps": "0.01"}
    result = load(runner.run(Hold(), tmp_path, methods=names, device="cpu", settings=settings, picture=False))
    assert [result.metric(name, "dt 10 ms", "held_percent") for name in names] == [0.0, 100.0]
    assert result.metric("mujoco", "dt 10 ms", "in_hand_percent") == 100.0
    assert 5.0 < result.metric("mujoco", "dt 10 ms", "held_s") < 8.0
    assert result.metric("mujoco-anti-creep", "dt 10 ms", "sunk_mm") == pytest.approx(0.36, abs=0.1)
    assert result.metric("mujoco-anti-creep", "dt 10 ms", "drift_mm") < 0.2
