"""`pile`: energies against MuJoCo in C, its metrics on known motion, and the pile of MuJoCo."""

import math

import mujoco
import numpy as np
import pytest

from stickslip import mjcf
from stickslip.bench import runner
from stickslip.bench.experiments.depth.pile import Bodies, Pile, on_block
from stickslip.bench.result import load
from stickslip.errors import InputError
from stickslip.scenes.pile import TOP
from tests.bench import scripted

REST = TOP + 0.025
"""Height of a cube, or of an upright cylinder, that lies on the block [m]."""
SETTINGS = {"n": 1, "layers": 1, "duration": 1.0, "landed": 0.3, "rest": 0.2, "timesteps": "0.01"}
CASE = "dt 10 ms"
AT_REST = ("speed_mm_per_s", "largest_speed_mm_per_s", "depth_mm", "deepest_mm")
MASS = 0.125
"""Of a cube [kg]."""


def run(tmp_path, picture=False, settings=SETTINGS, **scripts):
    physics = {label: scripted.Scripted(script) for label, script in scripts.items()}
    return scripted.run(Pile(), physics, tmp_path, settings=settings, picture=picture)


def landed(mjd, *heights):
    """Put bodies that have been at their start for 0.2 s to rest at these heights."""
    if mjd.time > 0.195:
        mjd.qpos.reshape(-1, 7)[:, 2] = heights


def test_kinetic_energy_is_that_of_mujoco():
    mjm = mjcf.load("drop-test:n=2")
    mjd = mujoco.MjData(mjm)
    random = np.random.default_rng(0)
    mjd.qpos.reshape(-1, 7)[:, 3:] = random.normal(size=(20, 4))
    mujoco.mj_normalizeQuat(mjm, mjd.qpos)
    mjd.qvel[:] = random.normal(size=mjm.nv)
    mujoco.mj_fwdPosition(mjm, mjd)
    mujoco.mj_energyVel(mjm, mjd)
    after = mjd.qpos.copy()
    mujoco.mj_integratePos(mjm, after, mjd.qvel, 0.01)
    pose = np.stack([mjd.qpos, after]).reshape(2, -1, 7)
    pose[1, 5, 3:] *= -1.0  # the same orientation
    bodies = Bodies.of(mjm)
    assert bodies.kinetic(pose, 0.01).sum() == pytest.approx(mjd.energy[1], rel=1e-9)
    pose[1] = pose[0]
    assert bodies.kinetic(pose, 0.01).sum() == pytest.approx(0.0, abs=1e-25)


@pytest.mark.parametrize("ahead", [0.0, 0.5])
def test_energy_in_free_fall_is_constant_whatever_the_integrator(ahead):
    """Exact, and half a step ahead as MuJoCo's Euler falls."""
    mjm = mjcf.load("drop-test:n=1")
    dt, steps = 0.01, np.arange(50)
    pose = np.tile(mjm.qpos0.reshape(-1, 7), (50, 1, 1))
    pose[..., 2] += (2.0 * dt * steps - 0.5 * 9.81 * dt**2 * steps * (steps + 2.0 * ahead))[:, None]
    bodies = Bodies.of(mjm)
    energy = (bodies.kinetic(pose, dt) + bodies.potential(pose)).sum(axis=1)
    np.testing.assert_allclose(energy, energy[0], rtol=1e-12)


def test_bodies_beside_or_below_the_upper_face_are_not_on_the_block():
    places = [[0.0, 0.0, 0.12], [0.19, -0.19, 0.5], [0.21, 0.0, 0.12], [0.0, -0.21, 0.12], [0.0, 0.0, 0.09]]
    pose = np.pad(np.array(places), ((0, 0), (0, 4)))
    assert on_block(pose, 0.2).tolist() == [True, True, False, False, False]


def test_a_pile_at_rest_scores_zero(tmp_path):
    result = run(tmp_path, picture=True, still=lambda mjm, mjd: landed(mjd, REST - 1e-3))
    metrics = result.outcomes["still"][CASE]["metrics"]
    start = mjcf.load("drop-test:n=1,layers=1").qpos0[2]
    assert metrics["dropped_j"] == pytest.approx(MASS * 9.81 * (start - REST + 1e-3), rel=1e-4)
    assert metrics["depth_mm"] == pytest.approx(1.0, abs=1e-4)
    assert metrics["deepest_mm"] == pytest.approx(1.0, abs=1e-4)
    for name in ("speed_mm_per_s", "largest_speed_mm_per_s", "energy_rise_percent", "left_percent"):
        assert metrics[name] == pytest.approx(0.0, abs=1e-4), name


def test_jitter_kicks_and_depth_are_told(tmp_path):
    def trembles(mjm, mjd):  # by 0.02 mm from step to step, and deeper in every other one
        landed(mjd, REST - 1e-3 - 2e-5 * (round(mjd.time / 0.01) % 2))

    def spins(mjm, mjd):
        landed(mjd, REST)
        half = 0.5 * 0.3 * mjd.time
        mjd.qpos[3:7] = math.cos(half), 0.0, 0.0, math.sin(half)

    def kicked(mjm, mjd):  # once, 5 mm aside
        landed(mjd, REST - 1e-3)
        mjd.qpos[0] = 0.005 if mjd.time > 0.895 else 0.0

    result = run(tmp_path, trembles=trembles, spins=spins, kicked=kicked)

    def told(name):
        return [result.metric(label, CASE, name) for label in ("trembles", "spins", "kicked")]

    spin = 1e3 * 0.3 * math.sqrt(0.05**2 / 6.0)  # a radius of gyration of side / sqrt(6)
    assert told("speed_mm_per_s") == pytest.approx([2.0, spin, 0.0], abs=0.02)
    assert told("largest_speed_mm_per_s") == pytest.approx([2.0, spin, 500.0], rel=0.01)
    assert told("depth_mm")[0] == pytest.approx(1.01, abs=1e-3)
    assert told("deepest_mm")[0] == pytest.approx(1.02, abs=1e-3)


def test_energy_that_rises_after_the_landing_is_told(tmp_path):
    def lifted(mjm, mjd):  # 10 mm, in a tenth of a second, and down again at once
        landed(mjd, REST + (0.1 * (mjd.time - 0.5) if 0.5 < mjd.time < 0.605 else 0.0))

    def bounces(mjm, mjd):  # before all have landed
        landed(mjd, REST + (0.02 if 0.195 < mjd.time < 0.225 else 0.0))

    result = run(tmp_path, lifted=lifted, bounces=bounces)
    dropped = result.metric("lifted", CASE, "dropped_j")
    down = MASS * (0.5 * 1.0**2 + 9.81 * 0.005)  # the 10 mm in one step, with the mean height of it
    assert result.metric("lifted", CASE, "energy_rise_percent") == pytest.approx(100.0 * down / dropped, rel=1e-3)
    assert result.metric("bounces", CASE, "energy_rise_percent") == pytest.approx(0.0, abs=1e-4)


def test_a_pile_that_does_not_fall_has_no_energy_to_compare_with(tmp_path):
    result = run(tmp_path, hangs=lambda mjm, mjd: None)
    assert math.isnan(result.metric("hangs", CASE, "energy_rise_percent"))
    assert math.isnan(result.metric("hangs", CASE, "depth_mm"))  # nothing touches


def test_bodies_that_roll_away_do_not_count_until_they_are_most(tmp_path):
    def one(mjm, mjd):
        landed(mjd, REST - 1e-3, 0.025)
        mjd.qpos[7] = 5.0 + mjd.time  # the upper one rolls over the floor

    def both(mjm, mjd):
        landed(mjd, 0.025, 0.025)
        mjd.qpos[[0, 7]] = 5.0 + mjd.time, -5.0

    def late(mjm, mjd):  # falls off within the last of the run
        landed(mjd, REST - 1e-3, REST if mjd.time < 0.9 else 0.025)
        mjd.qpos[7] = 0.1 if mjd.time < 0.9 else 5.0

    result = run(tmp_path, settings={**SETTINGS, "layers": 2}, one=one, both=both, late=late)

    def told(name):
        return [result.metric(label, CASE, name) for label in ("one", "both", "late")]

    assert told("left_percent") == [50.0, 100.0, 50.0]
    assert told("speed_mm_per_s") == pytest.approx([0.0, math.nan, 0.0], abs=1e-3, nan_ok=True)
    assert told("largest_speed_mm_per_s") == pytest.approx([0.0, math.nan, 0.0], abs=1e-3, nan_ok=True)
    assert all(math.isnan(told(name)[1]) for name in AT_REST)
    assert {score.absent for score in Pile().scores(Pile().make_settings())} == {"thrown apart"}


def test_a_pile_that_is_nowhere_gives_no_metrics(tmp_path):
    def script(mjm, mjd):
        mjd.qpos[2] = math.nan if mjd.time > 0.5 else mjd.qpos[2]

    result = run(tmp_path, fake=script)
    assert all(value is None for value in result.outcomes["fake"][CASE]["metrics"].values())
    assert "no longer finite" in result.problems("fake", CASE)[0]


def test_scores_name_cases_and_metrics_that_exist(tmp_path):
    settings = {**SETTINGS, "timesteps": "0.01,0.02"}
    result = run(tmp_path, settings=settings, fake=lambda mjm, mjd: landed(mjd, REST - 1e-3))
    for score in Pile().scores(Pile().make_settings(settings)):
        assert not math.isnan(result.metric("fake", score.case, score.metric)), score


@pytest.mark.parametrize("name", ["landed", "rest"])
def test_the_run_must_be_longer_than_its_parts(name):
    experiment = Pile()
    with pytest.raises(InputError, match="both must be shorter than the duration"):
        experiment.cases(experiment.make_settings({name: 10.0}))


def test_a_pile_of_mujoco_comes_to_rest_as_in_c(tmp_path):
    """Four cubes that fall flat: what MuJoCo in C has of depth and energy at the end."""
    settings = {"n": 2, "layers": 1, "duration": 1.0, "landed": 0.5, "rest": 0.2, "timesteps": "0.002"}
    result = load(runner.run(Pile(), tmp_path, methods=["mujoco"], device="cpu", settings=settings, picture=False))
    mjm = mjcf.load("drop-test:n=2,layers=1")
    mjd = mujoco.MjData(mjm)
    for _ in range(500):
        mujoco.mj_step(mjm, mjd)
    fallen = MASS * 9.81 * (mjm.qpos0 - mjd.qpos).reshape(-1, 7)[:, 2].sum()
    assert result.metric("mujoco", "dt 2 ms", "dropped_j") == pytest.approx(fallen, rel=0.02)
    assert result.metric("mujoco", "dt 2 ms", "depth_mm") == pytest.approx(-1e3 * mjd.contact.dist.mean(), rel=0.05)
    assert result.metric("mujoco", "dt 2 ms", "largest_speed_mm_per_s") < 1.0
    assert result.metric("mujoco", "dt 2 ms", "energy_rise_percent") < 0.1
    assert result.metric("mujoco", "dt 2 ms", "left_percent") == 0.0
