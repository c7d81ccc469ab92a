"""`pinch-moment`: its reference against the kinematic theorem, its limit on known motion, and points at corners."""

import math

import numpy as np
import pytest

from stickslip.bench import runner
from stickslip.bench.experiments.friction.pinch_moment import PinchMoment, Settings, between, needed
from stickslip.bench.references import patches
from stickslip.bench.result import load
from stickslip.errors import InputError
from tests.bench import scripted

SQUARE, ROUND = "square pads", "round pads"


@pytest.mark.parametrize("lever", [0.01, 0.03, 0.1])
def test_what_a_square_holds_is_the_least_that_turns_it(lever):
    """Of all centres of rotation, the one with the least work of friction over the way of the load."""
    side = ((np.arange(300) + 0.5) / 300 - 0.5) * 0.02
    x, y = np.meshgrid(side, side)
    work = [np.hypot(x + c, y).mean() / (lever + c) for c in np.linspace(-0.005, 0.1, 400)]
    assert patches.square_load(0.02, lever) == pytest.approx(min(work), rel=1e-3)


def test_the_weight_takes_little_of_what_pads_hold():
    settings = Settings()
    moment = settings.mass * 9.81 * settings.offset
    assert needed("square", settings) == pytest.approx(moment / (2.0 * 0.38260 * 0.02), rel=0.005)
    force = needed("round", settings)
    patch = patches.sphere_patch(settings.modulus, 0.02, force)
    assert 2.0 * force * 8.0 / 15.0 * patch == pytest.approx(moment, rel=1e-6)


def test_the_limit_lies_between_what_is_held_and_what_is_not():
    loads = np.array([0.5, 1.0, 2.0])
    assert between(loads, np.array([True, True, False])) == (1.0, 2.0)
    assert between(loads, np.array([True, False, True])) == (0.5, 1.0)
    assert between(loads, np.array([False, True, True])) == (0.0, 0.5)
    assert between(loads, np.array([True, True, True])) == (2.0, math.inf)
    with pytest.raises(InputError, match="each larger"):
        PinchMoment().cases(Settings(loads=(1.0, 0.5)))


def test_metrics_tell_a_known_limit(tmp_path):
    force = needed("square", Settings())

    def holding(most: float) -> scripted.Scripted:
        def script(mjm, mjd):
            turn = math.radians(5.0 if mjd.ctrl[0] < force / most else 0.5) * mjd.time
            mjd.qpos[-4:] = [math.cos(0.5 * turn), 0.0, math.sin(0.5 * turn), 0.0]

        return scripted.Scripted(script)

    physics = {"exact": holding(1.0), "strong": holding(1.85), "weak": holding(0.1), "stiff": holding(10.0)}
    result = scripted.run(PinchMoment(), physics, tmp_path, settings={"pads": "square", "timestep": 0.01})
    told = {label: result.metric(label, SQUARE, "limit_percent") for label in physics}
    assert told["exact"] == pytest.approx(0.0, abs=0.8)
    assert told["strong"] == pytest.approx(85.0, abs=1.5)
    assert told["weak"] == -100.0
    assert math.isnan(told["stiff"])
    assert result.metric("exact", SQUARE, "creep_deg_per_s") == pytest.approx(0.5, rel=1e-3)
    assert math.isnan(result.metric("weak", SQUARE, "creep_deg_per_s"))


def test_corners_hold_more_and_one_point_nothing(tmp_path):
    settings = {"loads": "0.5,1.75,1.95"}
    names = ["mujoco-anti-creep", "pbd-r"]
    result = load(runner.run(PinchMoment(), tmp_path, methods=names, device="cpu", settings=settings, picture=False))
    assert result.metric(names[0], SQUARE, "limit") == pytest.approx(math.sqrt(0.5) / 0.38260, rel=0.03)
    assert result.metric(names[0], ROUND, "limit") == 0.0
    assert all("joints" in reason for reason in result.unsupported("pbd-r").values())


def test_patches_hold_what_they_should(tmp_path):
    """Four points a triangle and 16 of a round patch: within a percent, and within three."""
    settings = {"loads": "0.7,0.95,1.05,1.2"}
    result = load(runner.run(PinchMoment(), tmp_path, methods=["icf"], device="cpu", settings=settings, picture=False))
    assert result.metric("icf", SQUARE, "limit_percent") == pytest.approx(0.0, abs=1.5)
    assert result.metric("icf", ROUND, "limit_percent") == pytest.approx(0.0, abs=3.5)
    assert result.metric("icf", SQUARE, "creep_deg_per_s") < 0.05
