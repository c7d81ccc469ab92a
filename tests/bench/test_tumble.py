"""`tumble`: the free flight, its metrics on known motion, and what MuJoCo and ComFree are known for."""

from typing import Any

import mujoco
import numpy as np
import pytest

from stickslip import mjcf
from stickslip.bench import runner
from stickslip.bench.experiments.free_bodies.tumble import (
    CASE,
    MEMORY,
    SOFT,
    STIFF,
    Settings,
    Tumble,
    corners,
    energy,
    flight,
    gained,
    growth,
    touch_time,
)
from stickslip.bench.result import load
from tests.bench import scripted

START = 0.01 * 9.81 * 0.2 + 0.5 * 0.01 * 1.0**2 + 0.5 * (0.01 * 0.1**2 / 6) * 20.0**2
"""Energy at the start [J]."""


def test_flight_is_mujocos_at_a_small_step():
    mjm = mjcf.load("thrown-cube", timestep=1e-5)
    mjd = mujoco.MjData(mjm)
    mujoco.mj_resetDataKeyframe(mjm, mjd, 0)
    assert energy(Settings(), mjd.qpos[None], mjd.qvel[None]) == pytest.approx(START)
    for _ in range(15_000):
        mujoco.mj_step(mjm, mjd)
    np.testing.assert_allclose(flight(Settings(), mjd.time)[0], mjd.qpos, atol=2e-5)
    assert energy(Settings(), mjd.qpos[None], mjd.qvel[None]) == pytest.approx(START, rel=1e-4)
    mujoco.mj_forward(mjm, mjd)
    tops = mjd.geom("cube").xpos + 0.05 * np.array([-1.0, -1.0, -1.0]) @ mjd.geom("cube").xmat.reshape(3, 3).T
    np.testing.assert_allclose(corners(mjd.qpos[None], 0.05)[0, 0], tops, atol=1e-12)


def test_touch_is_when_mujoco_finds_the_first_contact():
    mjm = mjcf.load("thrown-cube", timestep=1e-5)
    mjd = mujoco.MjData(mjm)
    mujoco.mj_resetDataKeyframe(mjm, mjd, 0)
    while not mjd.ncon:
        mujoco.mj_step(mjm, mjd)
    assert touch_time(Settings()) == pytest.approx(mjd.time, abs=1e-4)
    level = Settings(spin=0.0)
    assert touch_time(level) == pytest.approx((2 * 0.2 / 9.81) ** 0.5, abs=1e-8)


def test_growth_passes_over_dips_that_are_short():
    level = np.array([5.0, 4.0, 1.0, 3.0, 4.5, 2.0])
    np.testing.assert_allclose(growth(level, 1), [0.0, 0.0, 0.0, 2.0, 3.5, 1.0])
    np.testing.assert_allclose(growth(level, 2), [0.0, 0.0, 0.0, 0.0, 1.5, 0.0])
    np.testing.assert_allclose(growth(level, 3), [0.0, 0.0, 0.0, 0.0, 0.5, 0.0])
    np.testing.assert_allclose(growth(level, 9), np.zeros(6))


def test_energy_counts_as_gained_if_no_contact_can_have_stored_it():
    level, above, deep = np.array([5.0, 4.0, 1.0, 3.0, 4.5, 2.0]), np.full(6, 0.1), np.full(6, -0.1)

    def gain(low: Any, level: Any = level, weight: float = 0.0, span: int = 9) -> float:
        return gained(np.asarray(level), np.asarray(low), weight, span)

    # in the air nothing stores energy
    assert gain(above) == pytest.approx(3.5)
    assert gain([0.1, 0.1, -0.1, -0.1, 0.1, 0.1]) == pytest.approx(0.5)
    # in touch a dip may be stored, but not for long, and never is there more than at the start
    assert gain(deep) == 0.0
    assert gain(deep, span=2) == pytest.approx(1.5)
    assert gain(deep, level=[5.0, 4.0, 1.0, 3.0, 5.2, 2.0]) == pytest.approx(0.2)
    # what a cube of 10 N gains by being lifted out of the floor came from the contact, and so does not count
    rising = [5.0, 1.0, 1.0, 1.0, 1.5, 2.0]
    assert gain([0.1, -0.1, -0.1, -0.1, -0.05, 0.0], level=rising, weight=10.0, span=2) == 0.0
    assert gain([0.1, -0.1, -0.1, -0.1, -0.05, -0.05], level=rising, weight=10.0, span=2) == pytest.approx(0.5)
    # nor does what it gains on the way in: its energy did not change
    falling = [0.1, 0.0, 0.0, 0.0, -0.05, -0.1]
    assert gain(falling, level=[5.0, 1.0, 1.0, 1.0, 1.0, 1.0], weight=10.0, span=2) == 0.0
    # rounding
    assert gain([0.1, 0.1], level=[5.0, 5.0 + 1e-7]) == 0.0
    assert gain([0.1, 0.1], level=[5.0, 5.0 + 1e-5]) == pytest.approx(1e-5)


def fly(mjd, settings=Settings()):  # noqa: B008
    mjd.qpos[:] = flight(settings, mjd.time)[0]
    mjd.qvel[:] = [settings.speed, 0.0, -9.81 * mjd.time, settings.spin, 0.0, 0.0]


def lie(mjd: mujoco.MjData, depth: float = 0.0) -> None:
    mjd.qpos[:] = [0.2, 0.0, 0.05 - depth, 1.0, 0.0, 0.0, 0.0]
    mjd.qvel[:] = 0.0


def measured(script, tmp_path):
    result = scripted.run(Tumble(), {"fake": scripted.Scripted(script)}, tmp_path)
    return result.outcomes["fake"][CASE]["metrics"]


def test_exact_flight_and_sudden_rest_have_no_error(tmp_path):
    metrics = measured(lambda mjm, mjd: fly(mjd) if mjd.time < 0.19 else lie(mjd), tmp_path)
    assert metrics["flight_error_mm"] == pytest.approx(0.0, abs=1e-4)
    assert metrics["penetration_mm"] == pytest.approx(0.0, abs=1e-5)
    assert metrics["energy_gained_percent"] == pytest.approx(0.0, abs=1e-4)
    assert metrics["end_speed_mm_per_s"] == 0.0
    last = -9.81 * 0.188
    assert metrics["jolt"] == pytest.approx(np.hypot(1.0, last), rel=1e-4)
    assert metrics["vertical_variation"] == pytest.approx(-2 * last, rel=1e-4)


def test_metrics_tell_a_known_error(tmp_path):
    """Flies 3 mm off its path, is sped up at 0.1 s, ends 4 mm deep and still turning."""

    def script(mjm, mjd):
        if mjd.time > 0.189:
            lie(mjd, depth=0.004)
            mjd.qvel[3] = 2.0
            return
        fly(mjd)
        mjd.qpos[1] = 0.003
        if mjd.time > 0.1:
            mjd.qvel[0] = 1.5

    metrics = measured(script, tmp_path)
    assert metrics["flight_error_mm"] == pytest.approx(3.0, abs=1e-4)
    assert metrics["penetration_mm"] == pytest.approx(4.0, abs=1e-4)
    assert metrics["energy_gained_percent"] == pytest.approx(100 * 0.5 * 0.01 * (1.5**2 - 1.0) / START, rel=1e-3)
    assert metrics["end_speed_mm_per_s"] == pytest.approx(1e3 * 3**0.5 * 0.05 * 2.0, rel=1e-5)
    assert metrics["jolt"] == pytest.approx(np.hypot(1.5, 9.81 * 0.188), rel=1e-3)


@pytest.mark.parametrize("speed", [0.3, 3.0])
def test_energy_gained_while_touching_counts(speed, tmp_path):
    """Lies for longer than a contact stores energy, then slides off by itself, slower or faster than it was thrown."""

    def script(mjm, mjd):
        if mjd.time < 0.19:
            fly(mjd)
            return
        lie(mjd, depth=0.001)
        since = mjd.time - 0.19 - 2.0 * MEMORY
        if since > 0.0:
            mjd.qpos[0] += speed * since
            mjd.qvel[0] = speed

    metrics = measured(script, tmp_path)
    assert metrics["energy_gained_percent"] == pytest.approx(100.0 * 0.5 * 0.01 * speed**2 / START, rel=1e-3)


def test_energy_that_a_contact_gives_back_soon_is_no_gain(tmp_path):
    """Stops in the floor for less than a contact stores energy, and goes on with nearly all it had."""

    def script(mjm, mjd):
        if mjd.time < 0.19:
            fly(mjd)
        elif mjd.time < 0.19 + 0.8 * MEMORY or mjd.time > 0.5:
            lie(mjd, depth=0.001)
        else:
            lie(mjd, depth=0.001)
            mjd.qvel[0] = (2.0 * 0.99 * START / 0.01) ** 0.5

    assert measured(script, tmp_path)["energy_gained_percent"] == 0.0


def test_a_flight_shorter_than_two_steps_has_no_error_to_tell(tmp_path):
    fake = scripted.Scripted(lambda mjm, mjd: lie(mjd))
    result = scripted.run(Tumble(), {"fake": fake}, tmp_path, settings={"timestep": "0.1"})
    assert np.isnan(result.metric("fake", CASE, "flight_error_mm"))
    assert result.metric("fake", CASE, "energy_gained_percent") == 0.0


def test_a_broken_state_has_no_metrics(tmp_path):
    def script(mjm, mjd):
        mjd.qpos[0] = np.nan

    result = scripted.run(Tumble(), {"fake": scripted.Scripted(script)}, tmp_path, quick=True)
    assert all(value is None or np.isnan(value) for value in result.outcomes["fake"][CASE]["metrics"].values())
    assert any("no longer finite" in problem for problem in result.problems("fake", CASE))


def test_all_come_to_rest_and_gain_no_energy(tmp_path):
    names = ["mujoco", SOFT, STIFF]
    result = load(runner.run(Tumble(), tmp_path, methods=names, device="cpu"))
    for name in names:
        assert result.metric(name, CASE, "end_speed_mm_per_s") < 0.1
        assert result.metric(name, CASE, "energy_gained_percent") == 0.0
        # half a step of free fall at the last sampled moment of the flight
        assert result.metric(name, CASE, "flight_error_mm") == pytest.approx(1e3 * 9.81 * 0.186 * 0.002 / 2, rel=0.02)
    assert result.metric("mujoco", CASE, "penetration_mm") == pytest.approx(12.8, abs=0.3)
    assert len(Tumble().reported(result)) == 2
