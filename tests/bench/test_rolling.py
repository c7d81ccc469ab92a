"""`rolling`: its reference against forces, its metrics on known motion, and the metrics MuJoCo is known for."""

import math

import numpy as np
import pytest

from stickslip import mjcf
from stickslip.bench import runner
from stickslip.bench.experiments.friction.rolling import Rolling, exact
from stickslip.bench.result import load
from tests.bench import scripted

CASE = "rolling 10 mm"
SETTINGS = {"rollings": "0.01"}


@pytest.mark.parametrize("rolling", [0.001, 0.01, 0.05])
def test_speed_is_the_integral_of_dry_friction_and_rolling_torque(rolling):
    """Friction answers slip with a stiff damper, cut at mu m g: it keeps the cylinder rolling by itself."""
    mjm = mjcf.load("cylinder-roll")
    mass, inertia = mjm.body("cylinder").mass[0], mjm.body("cylinder").inertia
    radius, inertia = mjm.geom("cylinder").size[0], min(inertia)  # about the axis: m r^2 / 2
    assert inertia == pytest.approx(0.5 * mass * radius**2)
    reference = exact(rolling, 1.0)
    dt = 1e-4
    speed, spin = 1.0, 1.0 / radius
    for step in range(1, round(0.8 * reference.stop / dt) + 1):
        slip = speed - radius * spin
        force = float(np.clip(1e3 * slip, -mass * 9.81, mass * 9.81))
        torque = rolling * mass * 9.81
        speed -= dt * force / mass
        spin += dt * (force * radius - torque) / inertia
        if step % 500 == 0:
            assert reference.speed(step * dt) == pytest.approx(speed, abs=3e-3)
            assert radius * spin == pytest.approx(speed, abs=5e-3)
    assert reference.stop == pytest.approx(1.0 / (2.0 / 3.0 * 9.81 * rolling / 0.1))
    assert reference.speed(2.0 * reference.stop) == 0.0


def test_metrics_tell_a_known_error(tmp_path):
    reference = exact(0.01, 1.0)

    def moving(share: float) -> scripted.Scripted:
        def script(mjm, mjd):
            mjd.qvel[0] = max(1.0 - share * reference.rate * mjd.time, 0.0)

        return scripted.Scripted(script)

    physics = {"exact": moving(1.0), "weak": moving(0.8)}
    result = scripted.run(Rolling(), physics, tmp_path, settings=SETTINGS)
    names = ("rms_percent", "left_percent", "braking_percent")
    rms = 100.0 * math.sqrt((0.04 / 3 + 0.2**3 / 2.4) / 2.0)
    assert [result.metric("exact", CASE, name) for name in names] == pytest.approx([0.0] * 3, abs=0.2)
    assert [result.metric("weak", CASE, name) for name in names] == pytest.approx([rms, 20.0, -20.0], abs=0.2)


def test_mujoco_brakes_as_it_is_known_to_and_comfree_too_little(tmp_path):
    """MuJoCo Warp 4.0 leaves 9.6 % of the speed, its anti-creep settings 0.3 %; its pyramid brakes 6 to 8 % less."""
    names = ["mujoco", "mujoco-anti-creep", "comfree"]
    result = load(runner.run(Rolling(), tmp_path, methods=names, device="cpu", settings=SETTINGS, picture=False))
    left = [result.metric(name, CASE, "left_percent") for name in names]
    braking = [result.metric(name, CASE, "braking_percent") for name in names]
    assert left[:2] == pytest.approx([9.6, 0.3], abs=0.5)
    assert braking[:2] == pytest.approx([-7.8, -0.3], abs=0.8)
    assert left[2] > 50.0
