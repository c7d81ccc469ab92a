"""`contact-force`: forces that are known at rest, its metrics on known motion, and patches that keep still."""

import math

import mujoco
import pytest

import stickslip as ss
from stickslip import mjcf
from stickslip.bench import runner
from stickslip.bench.experiments.smoothness.contact_force import GRIP, REACH, WEIGHT, ContactForce, force_on
from stickslip.bench.result import load
from tests.bench import scripted


@pytest.mark.parametrize("geom, sign", [("box", 1.0), ("floor", -1.0)])
def test_the_force_at_rest_is_the_weight(geom, sign):
    sim = ss.Simulation("eccentric-box", ss.MuJoCo(), device="cpu")
    sim.step(300)
    world, normal = force_on(sim, geom)
    assert world == pytest.approx([0.0, 0.0, sign * 4.0 * 9.81], abs=0.01)
    assert normal == pytest.approx(4.0 * 9.81, abs=0.01)


def test_the_constants_are_those_of_the_scenes():
    assert mjcf.load("cylinder").body("cylinder").mass[0] * 9.81 == pytest.approx(WEIGHT, rel=1e-5)
    mjm = mjcf.load("gripper:modulus=2e9")
    finger, squeeze = mjm.geom("left"), 1e-5
    area = (2.0 * finger.size[2]) * (2.0 * mjm.geom("peg").size[0])
    assert finger.user[3] / (2.0 * finger.size[1]) * area * squeeze == pytest.approx(GRIP)


def test_metrics_tell_a_known_slip(tmp_path):
    def slipping(way: float) -> scripted.Scripted:
        def script(mjm: mujoco.MjModel, mjd: mujoco.MjData) -> None:
            if mjm.njnt == 2:
                mjd.qpos[3] = mjd.qpos[0] + 0.1 + REACH - way * min(10.0 * mjd.time, 1.0)

        return scripted.Scripted(script)

    physics = {"still": slipping(0.0), "slips": slipping(0.001), "drops": slipping(0.05)}
    settings = {"forms": "points", "grip": 0.3, "fall": 0.1, "timestep": 0.01}
    result = scripted.run(ContactForce(), physics, tmp_path, settings=settings)
    case = "gripper, points"
    told = [result.metric(label, case, "moved_mm") for label in physics]
    assert told[:2] == pytest.approx([0.0, 1.0], abs=0.01)
    assert math.isnan(told[2])
    assert math.isnan(result.metric("still", "cylinder, points", "noise_percent"))


def test_patches_grip_and_lie_still(tmp_path):
    settings = {"forms": "patches"}
    result = load(runner.run(ContactForce(), tmp_path, methods=["icf"], device="cpu", settings=settings, picture=False))
    assert result.metric("icf", "gripper, patches", "force_percent") == pytest.approx(0.0, abs=0.5)
    assert result.metric("icf", "gripper, patches", "moved_mm") < 0.01
    assert result.metric("icf", "cylinder, patches", "force_percent") == pytest.approx(0.0, abs=0.1)
    for case in result.cases:
        assert result.metric("icf", case, "noise_percent") < 0.1
