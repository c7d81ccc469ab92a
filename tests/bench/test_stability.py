"""`stability`: its reference against a landing on a stiff floor, its metrics on known motion, and MuJoCo's metrics."""

import dataclasses
import math

import numpy as np
import pytest

from stickslip.bench import runner
from stickslip.bench.experiments.free_bodies.stability import Settings, Stability, distance, landing, rise, slide
from stickslip.bench.result import load
from stickslip.scenes.sliding_cube import HALF
from tests.bench import scripted

CASE = "dt 2 ms"
FINE = {"timesteps": "0.002"}
DEFAULTS = Settings()


@pytest.mark.parametrize(("drop", "mu"), [(0.0, 0.3), (0.005, 0.3), (0.05, 0.6)])
def test_speed_and_distance_are_those_of_a_mass_on_a_stiff_damped_floor(drop, mu):
    settings = Settings(drop=drop, mu=mu)
    dt, stiffness = 1e-5, 1e6
    x, vx, z, vz = 0.0, settings.speed, drop, 0.0
    for step in range(1, 100_001):
        normal = max(-stiffness * z - 2.0 * math.sqrt(stiffness) * vz, 0.0) if z <= 0 else 0.0
        vz += dt * (normal - 9.81)
        vx -= min(dt * mu * normal, vx)
        x, z = x + dt * vx, z + dt * vz
        if step % 5000 == 0 and abs(step * dt - landing(drop)) > 0.01:
            assert slide(settings, step * dt) == pytest.approx(vx, abs=0.02)
    assert vx == 0.0
    assert distance(settings) == pytest.approx(x, abs=0.003)


def test_a_landing_may_take_all_of_the_speed():
    settings = Settings(drop=0.2, speed=0.1)
    assert distance(settings) == pytest.approx(0.1 * math.sqrt(0.4 / 9.81))
    assert slide(settings, 0.5) == 0.0


def test_rise_is_the_climb_above_the_minimum_so_far():
    assert rise(np.array([5.0, 3.0, 4.0, 1.0, 1.5])) == 1.0
    assert rise(np.array([5.0, -2.0, 3.0]), 0.0) == 3.0
    assert rise(np.array([5.0, 4.0, -1.0, -0.5]), 0.0) == 0.0


def thrown(
    *, further: float = 0.0, aside: float = 0.0, faster: float = 0.0, hop: float = 0.0, rest: float = 0.0
) -> scripted.Scripted:
    """The exact motion, but `further`, `faster` and on a `hop` for a while, `rest` too high at the end; m and m/s."""
    stop = DEFAULTS.speed / (DEFAULTS.mu * 9.81)
    start = landing(DEFAULTS.drop)

    def script(mjm, mjd):
        time = mjd.time
        left = max(stop - time, 0.0)
        way = distance(DEFAULTS) - 0.5 * DEFAULTS.mu * 9.81 * left**2 if time > start else DEFAULTS.speed * time
        mjd.qpos[:2] = way + further, aside
        mjd.qpos[2] = HALF + max(DEFAULTS.drop - 0.5 * 9.81 * time**2, 0.0)
        mjd.qpos[2] += rest if time > 1.0 else hop if 0.2 < time < 0.3 else 0.0
        mjd.qvel[0] = slide(DEFAULTS, time) + (faster if 0.69 < time < 0.8 else 0.0)
        mjd.qvel[1:] = 0.0

    return scripted.Scripted(script)


def test_metrics_tell_a_known_error(tmp_path):
    physics = {
        "exact": thrown(),
        "wrong": thrown(further=0.01, faster=0.1, hop=0.003, rest=-0.0005),
        "off": thrown(further=-0.03, aside=-0.04, hop=0.06),
        "broken": thrown(further=math.nan),
    }
    result = scripted.run(Stability(), physics, tmp_path, settings=FINE)
    names = ("distance_error_mm", "growth_mm_per_s", "hop_mm", "height_error_mm", "end_speed_mm_per_s")
    told = {label: [result.metric(label, CASE, name) for name in names] for label in physics}
    assert told["exact"] == pytest.approx([0.0] * 5, abs=0.01)
    assert told["wrong"] == pytest.approx([10.0, 100.0, 3.0, -0.5, 0.0], abs=0.01)
    assert told["off"][0] == pytest.approx(-50.0, abs=0.01)
    assert [result.metric(label, CASE, "stable") for label in ("exact", "wrong", "off")] == [1.0, 0.0, 0.0]
    assert result.metric("exact", CASE, "rests") == 1.0
    assert all(np.isnan(value) for value in told["broken"])
    assert result.problems("broken", CASE)


def test_what_slides_on_does_not_rest(tmp_path):
    def script(mjm, mjd):
        mjd.qpos[0], mjd.qpos[2] = DEFAULTS.speed * mjd.time, HALF
        mjd.qvel[:] = [DEFAULTS.speed, 0.0, 0.0, 0.0, 0.0, 0.0]

    result = scripted.run(Stability(), {"ice": scripted.Scripted(script)}, tmp_path, settings=FINE, picture=False)
    assert result.metric("ice", CASE, "rests") == 0.0
    assert result.metric("ice", CASE, "distance_error_mm") == pytest.approx(4000.0 - 681.1, abs=0.1)


def test_the_papers_claim_stands_beside_ours(tmp_path):
    soft, broken = "comfree:stiffness=0.1,damping=0.001", "comfree:stiffness=1"
    physics = {"comfree": thrown(hop=0.06), soft: thrown(hop=0.002), broken: thrown(hop=math.nan)}
    result = scripted.run(Stability(), physics, tmp_path, settings={"timesteps": "0.002,0.02"}, picture=False)
    assert Stability().reported(result) == ()  # not what is run by default
    result.settings = dataclasses.asdict(DEFAULTS)
    *long, usual = Stability().reported(result)
    assert [row.quantity for row in long] == [f"comfree{gains} at dt 20 ms" for gains in ("", " 0.1, 0.001", " 1")]
    assert long[0].measured.startswith("not stable: hop of 60 mm, 0 mm/s left after 2 s")
    assert long[1].measured.startswith("stable: hop of 2 mm")
    assert long[2].measured == "diverges"
    assert usual.measured == "grows by × mm/s at most"


def test_mujoco_stops_where_it_must_and_comfree_further_on(tmp_path):
    """First order in time costs MuJoCo v dt / 2: 2 mm at 2 ms. Both come to rest."""
    names = ["mujoco", "mujoco-anti-creep", "comfree"]
    result = load(runner.run(Stability(), tmp_path, methods=names, device="cpu", settings=FINE, picture=False))
    error = [result.metric(name, CASE, "distance_error_mm") for name in names]
    assert error[0] == pytest.approx(-2.0, abs=1.0)
    assert abs(error[1]) < 10.0
    assert error[2] > 100.0
    assert all(result.metric(name, CASE, "stable") == 1.0 for name in names)
    assert all(result.metric(name, CASE, "rests") == 1.0 for name in names)
