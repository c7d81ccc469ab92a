"""`creep-floor`: the floor against contacts of any gain and load, its metrics on known motion, and ComFree's grid."""

import math

import numpy as np
import pytest

import stickslip as ss
from stickslip.bench import runner
from stickslip.bench.experiments.friction.creep_floor import CASE, CreepFloor, floor, has_grid
from stickslip.bench.result import load
from stickslip.errors import InputError
from tests.bench import scripted

SMALL = {"stiffnesses": "0.1,0.4", "dampings": "0.001,0.004,0.008"}


@pytest.mark.parametrize("angle, mu", [(0.05, 0.4), (0.15, 0.4), (0.25, 0.4), (0.35, 0.4), (0.7, 1.0)])
def test_no_facets_with_one_gain_hold_more(angle, mu):
    """At the slip of the floor, no contacts that touch have more friction per load than the slope asks for."""
    random, dt, gravity = np.random.default_rng(0), 0.002, 9.81
    approach = gravity * dt * math.cos(angle)
    slip = floor(angle, mu, dt) + gravity * dt * math.sin(angle)

    def friction_per_load(gains, springs):
        across = springs + gains * approach  # each of two facets
        up, down = across + gains * mu * slip, np.maximum(across - gains * mu * slip, 0.0)
        return mu * (up - down).sum() / (2.0 * across + up + down).sum()

    limits = [
        friction_per_load(random.lognormal(size=count), random.exponential(size=count) * pressed)
        for count in (1, 4, 16)
        for pressed in (0.0, 1e-3, 1.0)
        for _ in range(200)
    ]
    assert max(limits) == pytest.approx(math.tan(angle), rel=1e-9)
    assert max(friction_per_load(random.lognormal(size=4), np.ones(4)) for _ in range(200)) < 0.999 * math.tan(angle)


def test_metrics_tell_a_known_creep_and_a_hop(tmp_path):
    def moving(speed, hop):
        def script(mjm, mjd):
            start = mjm.body("box").pos
            up = hop * abs(math.sin(20.0 * mjd.time))
            mjd.qpos[:3] = start + (speed * mjd.time * math.cos(0.25), 0.0, -speed * mjd.time * math.sin(0.25))
            mjd.qpos[:3] += up * start / np.linalg.norm(start)

        return scripted.Scripted(script)

    physics = {"still": moving(0.0, 0.0), "creeping": moving(0.012, 0.0), "hopping": moving(0.012, 1e-3)}
    result = scripted.run(CreepFloor(), physics, tmp_path, settings={"timestep": "0.01"}, picture=False)
    creep = {label: result.metric(label, CASE, "creep_mm_per_s") for label in physics}
    assert creep == pytest.approx({"still": 0.0, "creeping": 12.0, "hopping": 12.0}, abs=1.5)
    assert creep["creeping"] == pytest.approx(12.0, abs=1e-3)
    assert {label: result.metric(label, CASE, "hops") for label in physics} == {
        "still": 0.0,
        "creeping": 0.0,
        "hopping": 1.0,
    }
    assert math.isnan(result.metric("still", CASE, "least_mm_per_s"))


def test_comfree_stays_above_the_floor_and_below_it_with_two_gains(tmp_path):
    names = ["comfree", "comfree:tangential=2", "cone-sweep"]
    result = load(runner.run(CreepFloor(), tmp_path, methods=names, device="cpu", settings=SMALL, picture=False))
    lowest = 1e3 * floor(0.25, 0.4, 0.002)
    assert lowest == pytest.approx(115.398, abs=1e-3)
    creep, hops = (result.series("comfree", CASE, name) for name in ("creep_mm_per_s", "hops"))
    assert len(creep) == 7 and 0 < hops.sum() < 4
    assert creep.min() > lowest
    assert creep.min() < 1.4 * lowest
    assert result.metric("comfree", CASE, "least_mm_per_s") == pytest.approx(creep.min(), rel=1e-5)
    assert result.metric("comfree", CASE, "creep_mm_per_s") == pytest.approx(creep[0], rel=1e-5)  # its own gains
    assert creep[0] > 300.0
    two = result.series("comfree:tangential=2", CASE, "creep_mm_per_s")
    assert two.max() < 0.2 * lowest and not result.series("comfree:tangential=2", CASE, "hops").any()
    assert result.metric("cone-sweep", CASE, "creep_mm_per_s") < 1e-3
    assert len(result.series("cone-sweep", CASE, "creep_mm_per_s")) == 1


def test_who_has_a_grid():
    assert has_grid(ss.ComFree()) and has_grid(ss.ComFree(tangential=1.0))
    assert not has_grid(ss.ComFree(stiffness=(0.1, 0.2)))
    assert not any(has_grid(physics) for physics in (ss.MuJoCo(), ss.ConeSweep(), ss.Icf()))


def test_a_slope_that_cannot_hold_is_refused():
    experiment = CreepFloor()
    with pytest.raises(InputError, match=r"angle is 0.5 rad and mu 0.4: the box slides; raise mu above .* 0.546"):
        experiment.cases(experiment.make_settings({"angle": 0.5}))
