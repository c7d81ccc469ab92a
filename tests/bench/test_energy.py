"""`energy`: its references, its metrics on known motion, and how MuJoCo and ComFree bounce."""

import math

import mujoco
import numpy as np
import pytest

from stickslip import mjcf
from stickslip.bench import runner
from stickslip.bench.experiments.accuracy.energy import (
    DEGREE,
    Energy,
    Settings,
    _pendulum,
    crossings,
    frequency,
    period,
    rate,
    swing,
)
from stickslip.bench.result import load
from stickslip.errors import InputError
from stickslip.scenes import bouncing_ball
from tests.bench import scripted

SETTINGS = {"balls": "1", "duration": "2", "timesteps": "0.002"}
BALL, PENDULUM = "ball, dt 2 ms", "pendulum, dt 2 ms"


def integrated(length: float, angle: float, seconds: float, dt: float) -> np.ndarray:
    """The pendulum's angle at every step by Runge and Kutta's fourth order."""
    square = frequency(length) ** 2

    def slope(state):
        return np.array([state[1], -square * math.sin(state[0])])

    state = np.array([angle, 0.0])
    angles = [angle]
    for _ in range(round(seconds / dt)):
        a = slope(state)
        b = slope(state + 0.5 * dt * a)
        c = slope(state + 0.5 * dt * b)
        state = state + dt / 6.0 * (a + 2.0 * b + 2.0 * c + slope(state + dt * c))
        angles.append(state[0])
    return np.array(angles)


@pytest.mark.parametrize("angle", [0.05, 0.5 * math.pi, 3.0])
def test_swing_and_period_are_what_integration_gives(angle):
    dt = 2e-3
    angles = integrated(0.7, angle, 10.0, dt)
    time = dt * np.arange(len(angles))
    np.testing.assert_allclose(swing(0.7, angle, time), angles, atol=1e-8)
    passed = crossings(time, angles)
    assert 2.0 * (passed[-1] - passed[0]) / (len(passed) - 1) == pytest.approx(period(0.7, angle), rel=1e-6)
    assert swing(0.7, angle, period(0.7, angle)) == pytest.approx(angle, abs=1e-9)


def test_period_of_small_swings_is_the_textbook_one():
    assert period(1.0, 0.01) == pytest.approx(2.0 * math.pi / frequency(1.0), rel=1e-5)
    assert period(1.0, 0.5 * math.pi) * frequency(1.0) == pytest.approx(7.416298709205487)  # 4 K(1/2)


def test_frequency_is_that_of_the_scene():
    model = mjcf.load("pendulum:length=0.7,mass=2")
    data = mujoco.MjData(model)
    data.qpos[0] = 0.3
    mujoco.mj_forward(model, data)
    assert data.qacc[0] == pytest.approx(-(frequency(0.7) ** 2) * math.sin(0.3), rel=1e-6)


def test_rate_is_exact_on_a_parabola():
    time = 0.01 * np.arange(9)
    np.testing.assert_allclose(rate(3.0 * time**2 - time, 0.01), 6.0 * time[1:-1] - 1.0, atol=1e-12)


@pytest.mark.parametrize("reach", [4, 20])
def test_rate_is_exact_on_a_polynomial_of_its_degree(reach):
    time = np.linspace(-1.0, 1.0, 101)
    curve = np.polynomial.Polynomial([1.0, -2.0, 3.0, 0.0, 4.0, 1.0, -1.0, 2.0, 5.0])
    exact = curve.deriv()(time[reach:-reach])
    np.testing.assert_allclose(rate(curve(time), time[1] - time[0], reach, DEGREE), exact, atol=1e-9)


@pytest.mark.parametrize("timestep", Settings.timesteps)
@pytest.mark.parametrize(("length", "angle"), [(1.0, 0.5 * math.pi), (1.0, 3.0), (0.3, 0.5)])
def test_exact_swing_has_no_drift(length, angle, timestep):
    """Nor has one in single precision: what is left is far below what any physics is off by."""
    settings = Settings(length=length, angle=angle)
    time = timestep * np.arange(round(10.0 / timestep) + 1)
    exact = swing(length, angle, time)
    assert _pendulum(time, exact, settings)[0]["drift_ppm"] < 0.2
    assert _pendulum(time, exact.astype(np.float32).astype(float), settings)[0]["drift_ppm"] < 0.7


def test_drift_of_mujocos_euler_is_told():
    """In double precision it grows with the square of the step: what the exact swing would have is not among it."""
    found = []
    for timestep in (0.001, 0.01):
        square, angle, speed, angles = frequency(1.0) ** 2, 0.5 * math.pi, 0.0, [0.5 * math.pi]
        for _ in range(round(10.0 / timestep)):
            speed -= timestep * square * math.sin(angle)
            angle += timestep * speed
            angles.append(angle)
        time = timestep * np.arange(len(angles))
        found.append(_pendulum(time, np.array(angles), Settings())[0]["drift_ppm"])
    assert found[0] == pytest.approx(2.4, abs=0.1)
    assert found[1] == pytest.approx(100.0 * found[0], rel=0.03)


def test_a_run_too_short_for_its_steps_is_refused(tmp_path):
    settings = {"duration": "0.1", "timesteps": "0.002,0.1"}
    with pytest.raises(
        InputError, match=r"duration is 0.1 s and a step 0.1 s.* 8 steps.* 0.8 or more.* 0.0125 or less"
    ):
        scripted.run(Energy(), {"f": scripted.Scripted(lambda mjm, mjd: None)}, tmp_path, settings=settings)


def test_the_shortest_run_works(tmp_path):
    def script(mjm, mjd):
        if mjm.nq == 1:
            mjd.qpos[0] = swing(1.0, 0.5 * math.pi, mjd.time)

    settings = {"duration": "0.1", "timesteps": "0.002,0.0125"}
    result = scripted.run(Energy(), {"f": scripted.Scripted(script)}, tmp_path, settings=settings)
    for case in (PENDULUM, "pendulum, dt 12.5 ms"):
        assert result.metric("f", case, "drift_ppm") < 10.0


@pytest.mark.parametrize(("speed", "lean"), [(1.0, 0.0), (1.01, 0.0), (1.0, 0.5)])
def test_metrics_tell_a_known_error_of_a_pendulum(speed, lean, tmp_path):
    def script(mjm, mjd):
        if mjm.nq == 1:
            mjd.qpos[0] = swing(1.0, 0.5 * math.pi, speed * mjd.time) + math.radians(lean)

    result = scripted.run(Energy(), {"f": scripted.Scripted(script)}, tmp_path, settings=SETTINGS, picture=False)
    metrics = result.outcomes["f"][PENDULUM]["metrics"]
    if lean:
        assert metrics["angle_error_deg"] == pytest.approx(lean, abs=1e-4)
        return
    # all energy is kinetic at the lowest point, and grows with the square of the speed
    assert metrics["drift_ppm"] == pytest.approx(1e6 * (speed**2 - 1.0), abs=1.0)
    assert metrics["period_error_ppm"] == pytest.approx(1e6 * (1.0 / speed - 1.0), abs=5.0)
    moments = 0.002 * np.arange(1001)
    late = np.degrees(swing(1.0, 0.5 * math.pi, speed * moments) - swing(1.0, 0.5 * math.pi, moments))
    assert metrics["angle_error_deg"] == pytest.approx(np.abs(late).max(), abs=1e-4)


def bounce(gain: float, time: float) -> float:
    """Height of a ball dropped from 1 m whose every bounce takes 30 ms and multiplies its energy by `gain` [m]."""
    speed = math.sqrt(2.0 * 9.81)
    time -= speed / 9.81
    if time < 0.0:
        return 1.0 - 0.5 * 9.81 * (time + speed / 9.81) ** 2
    while True:
        if time < 0.03:
            return -0.04 * math.sin(math.pi * time / 0.03)
        time -= 0.03
        speed *= math.sqrt(gain)
        if time < 2.0 * speed / 9.81:
            return speed * time - 0.5 * 9.81 * time**2
        time -= 2.0 * speed / 9.81


@pytest.mark.parametrize("gain", [0.8, 1.0, 1.1])
def test_metrics_tell_what_a_ball_wins_and_loses(gain, tmp_path):
    def script(mjm, mjd):
        if mjm.nq == 7:
            mjd.qpos[2] = bouncing_ball.RADIUS + bounce(gain, mjd.time)

    fake = scripted.Scripted(script)
    result = scripted.run(Energy(), {"f": fake}, tmp_path, settings=SETTINGS, picture=gain == 1.0)
    assert result.metric("f", BALL, "bounces") == 2.0
    assert result.metric("f", BALL, "lost_percent") == pytest.approx(100.0 * (1.0 - gain**2), abs=5e-3)
    assert result.metric("f", BALL, "change_percent") == pytest.approx(100.0 * abs(1.0 - gain**2), abs=5e-3)
    assert result.metric("f", BALL, "growth_percent") == pytest.approx(100.0 * max(0.0, gain**2 - 1.0), abs=5e-3)
    assert result.metric("f", BALL, "left_j") == pytest.approx(0.981 * gain**2, abs=5e-5)


def test_metrics_are_of_all_balls(tmp_path):
    """Two balls, the second from a height of 1.025 m: one wins 10 percent at its bounce, the other loses 20."""
    first: dict[int, float] = {}

    def script(mjm, mjd):
        if mjm.nq == 7:
            height = first.setdefault(id(mjd), mjd.qpos[2] - bouncing_ball.RADIUS)
            scale = math.sqrt(height)  # heights grow by the square of what times grow by
            gain = 1.1 if height < 1.01 else 0.8
            mjd.qpos[2] = bouncing_ball.RADIUS + height * bounce(gain, mjd.time / scale)

    settings = {**SETTINGS, "balls": "2", "duration": "1"}
    result = scripted.run(Energy(), {"f": scripted.Scripted(script)}, tmp_path, settings=settings, picture=False)
    assert sorted(first.values()) == pytest.approx([1.0, 1.025], abs=1e-6)
    assert result.metric("f", BALL, "growth_percent") == pytest.approx(10.0, abs=5e-3)
    assert result.metric("f", BALL, "change_percent") == pytest.approx(15.0, abs=5e-3)
    assert result.metric("f", BALL, "lost_percent") == pytest.approx(5.0, abs=5e-3)
    assert result.metric("f", BALL, "left_j") == pytest.approx(0.981 * 1.1, abs=1e-4)


@pytest.mark.parametrize("end", [2.0, 1.95])
def test_energy_left_is_that_of_the_last_flight(end, tmp_path):
    """Whether the run ends in flight or in a touch, which stores energy that cannot be seen."""

    def script(mjm, mjd):
        if mjm.nq == 7:
            touching = 1.94 < mjd.time < 1.97
            height = -0.02 if touching else 0.5 + 0.01 * (mjd.time > 1.5)
            mjd.qpos[2] = bouncing_ball.RADIUS + height

    settings = {**SETTINGS, "duration": str(end)}
    result = scripted.run(Energy(), {"f": scripted.Scripted(script)}, tmp_path, settings=settings, picture=False)
    assert result.metric("f", BALL, "left_j") == pytest.approx(0.1 * 9.81 * 0.51, abs=1e-5)


def test_a_ball_that_lies_has_no_energy_left(tmp_path):
    def script(mjm, mjd):
        if mjm.nq == 7:
            mjd.qpos[2] = bouncing_ball.RADIUS + (bounce(0.5, mjd.time) if mjd.time < 1.0 else -0.01)

    result = scripted.run(Energy(), {"f": scripted.Scripted(script)}, tmp_path, settings=SETTINGS, picture=False)
    assert result.metric("f", BALL, "left_j") == 0.0
    assert result.metric("f", BALL, "lost_percent") == result.metric("f", BALL, "change_percent") == 100.0
    assert result.metric("f", BALL, "growth_percent") < 5e-3


@pytest.mark.parametrize("name", ["qpos", "qvel"])
def test_a_state_that_is_not_finite_has_no_metrics(name, tmp_path):
    def script(mjm, mjd):
        if mjd.time > 1.0:
            getattr(mjd, name)[0] = math.nan

    result = scripted.run(Energy(), {"f": scripted.Scripted(script)}, tmp_path, settings=SETTINGS, picture=False)
    for case in (BALL, PENDULUM):
        metrics = result.outcomes["f"][case]["metrics"]
        assert "bounces" in metrics or case == PENDULUM
        assert all(value is None for value in metrics.values())
        assert result.problems("f", case)


def test_mujoco_bounces_and_swings_as_its_integrator_does_and_comfree_damps(tmp_path):
    experiment = Energy()
    settings = {"timesteps": "0.005"}
    names = ["mujoco", "comfree"]
    result = load(runner.run(experiment, tmp_path, methods=names, device="cpu", settings=settings))
    ball, free = "ball, dt 5 ms", "pendulum, dt 5 ms"
    assert experiment.reported(result)[0].paper == "11"
    assert experiment.reported(result)[0].measured.startswith("mujoco 11, comfree ")
    assert result.metric("mujoco", ball, "change_percent") < 20.0
    assert result.metric("comfree", ball, "lost_percent") == 100.0
    assert result.metric("comfree", ball, "growth_percent") < 0.01
    for name in names:
        # half a step behind, at sqrt(2) times the frequency in rad/s where it is fastest
        assert result.metric(name, free, "angle_error_deg") == pytest.approx(
            math.degrees(0.0025 * math.sqrt(2.0) * frequency(1.0)), rel=0.01
        )
        assert result.metric(name, free, "drift_ppm") == pytest.approx(61.2, abs=5.0)  # in double precision
    for score in experiment.scores(experiment.make_settings(settings)):
        assert not math.isnan(result.metric("mujoco", score.case, score.metric)), score
