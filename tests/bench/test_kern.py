"""`kern`: its reference against a sum over the base, its metrics on known poses, and corners of a given stiffness."""

import math

import numpy as np
import pytest

from stickslip.bench import runner
from stickslip.bench.experiments.depth.kern import Kern, Settings, base, pressed
from stickslip.bench.result import load
from tests.bench import scripted

FORCE = 4.0 * 9.81
HALF = 0.05


@pytest.mark.parametrize("share", [0.05, 0.16, 0.25, 0.33, 0.45])
def test_pressure_carries_the_load_where_it_is(share):
    exact = base(Settings())
    tilt, length = exact.tilt(share * 0.1, FORCE), exact.pressed(share * 0.1)
    x = ((np.arange(20_000) + 0.5) / 20_000 - 0.5) * 0.1
    edge = 0.05 - length  # where pressure ends, if one side is in the air
    deep = tilt * (x - edge) if length < 0.1 else FORCE / (exact.slope * 0.01) + tilt * x
    pressure = exact.slope * np.maximum(deep, 0.0)
    assert pressure.mean() * 0.01 == pytest.approx(FORCE, rel=1e-4)
    assert (pressure * x).sum() / pressure.sum() == pytest.approx(share * 0.1, rel=1e-3)


def test_the_kern_ends_at_a_sixth_and_the_box_tips_at_a_half():
    exact = base(Settings())
    assert exact.pressed(0.1 / 6.0) == pytest.approx(0.1)
    assert exact.tilt(0.1 / 6.0, FORCE) == pytest.approx(exact.tilt(0.1 / 6.0 + 1e-9, FORCE), rel=1e-6)
    assert exact.tilt(0.05, FORCE) == math.inf


def posed(tilt: float, length: float, depth: float = 0.0) -> list[float]:
    """A box tilted about y, with `length` of its lower face below the floor; or all of it, `depth` at its middle."""
    middle = -depth if length >= 0.1 else math.sin(tilt) * (0.05 - length)
    return [0.0, 0.0, middle + HALF * math.cos(tilt), math.cos(0.5 * tilt), 0.0, math.sin(0.5 * tilt), 0.0]


def test_pressed_length_is_that_below_the_floor():
    assert pressed(np.array(posed(1e-3, 0.03)), 0.1) == pytest.approx(0.03, rel=1e-6)
    assert pressed(np.array(posed(1e-4, 0.1, 1e-4)), 0.1) == 0.1
    assert pressed(np.array(posed(0.0, 0.1, -1e-7)), 0.1) == 0.1
    assert pressed(np.array(posed(0.0, 0.1, -1e-3)), 0.1) == 0.0


def test_metrics_tell_a_known_error(tmp_path):
    exact = base(Settings())

    def standing(factor: float, falls: bool) -> scripted.Scripted:
        def script(mjm, mjd):
            off = float(mjm.body_ipos[1, 0])
            tilt = exact.tilt(off, FORCE) * factor
            depth = FORCE / (exact.slope * 0.01)
            mjd.qpos[:] = posed(1.0 if math.isinf(tilt) and falls else 0.0 if math.isinf(tilt) else tilt,
                                exact.pressed(off), depth)  # fmt: skip

        return scripted.Scripted(script)

    physics = {"exact": standing(1.0, True), "stiff": standing(1.0 / 3.0, False)}
    result = scripted.run(Kern(), physics, tmp_path, settings={"eccentricities": "0.08,0.33,0.55", "timestep": 0.01})
    for label, error in (("exact", 0.0), ("stiff", -66.7)):
        for case in ("e = 0.08 b", "e = 0.33 b"):
            assert result.metric(label, case, "tilt_percent") == pytest.approx(error, abs=0.1)
            assert result.metric(label, case, "pressed_error_percent") == pytest.approx(0.0, abs=0.1)
        assert result.metric(label, "e = 0.55 b", "wrong") == float(label == "stiff")
        assert math.isnan(result.metric(label, "e = 0.55 b", "tilt_percent"))


def test_a_rigid_box_does_not_tilt_and_tips(tmp_path):
    settings = {"eccentricities": "0.33,0.45,0.55"}
    result = load(runner.run(Kern(), tmp_path, methods=["cone-sweep"], device="cpu", settings=settings, picture=False))
    assert result.metric("cone-sweep", "e = 0.33 b", "tilt_percent") == pytest.approx(-100.0, abs=1.0)
    assert [result.metric("cone-sweep", case, "wrong") for case in result.cases] == [0.0] * 3


def test_patches_tilt_and_lift_as_they_should(tmp_path):
    result = load(runner.run(Kern(), tmp_path, methods=["icf"], device="cpu", picture=False))
    for share in (0.08, 0.16, 0.25, 0.33):
        assert result.metric("icf", f"e = {share} b", "tilt_percent") == pytest.approx(0.0, abs=1.0)
        assert result.metric("icf", f"e = {share} b", "pressed_error_percent") == pytest.approx(0.0, abs=0.3)
    assert [result.metric("icf", case, "wrong") for case in result.cases] == [0.0] * len(result.cases)
