"""`force-profile`: known forces, smooth ones and ones that jump."""

import math

import numpy as np
import pytest

from stickslip.bench.experiments.smoothness.force_profile import LINE, PLANE, ForceProfile, Settings, places
from tests.bench import scripted


def law(force):
    """A physics whose force on the small sphere, outwards, is a function of the distance of the centres."""

    def script(mjm, mjd):
        away = np.linalg.norm(mjd.qpos[:3])
        out = mjd.qpos[:3] / away if away > 1e-9 else np.array([1.0, 0.0, 0.0])
        mjd.qvel[:3] = mjm.opt.timestep / mjm.body_mass[1] * force(away) * out

    return scripted.Scripted(script)


def test_jumps_and_what_is_felt_apart_are_told(tmp_path):
    physics = {
        "hard": law(lambda r: max(0.0, 0.15 - r)),  # 0.15 at the centre, where it turns round
        "soft": law(lambda r: r * math.exp(-r / 0.05)),
    }
    settings = {"mass": 2.0, "line": 301, "plane": 5, "gap": 0.01}
    result = scripted.run(ForceProfile(), physics, tmp_path, settings=settings)
    spacing = 2 * 0.1875 / 300
    top = 0.15 - spacing
    assert result.metric("hard", LINE, "largest_n") == pytest.approx(top, rel=1e-3)
    assert result.metric("hard", LINE, "jump") == pytest.approx(1.0, rel=1e-3)  # from the largest to none to minus that
    assert result.metric("hard", LINE, "apart") == 0.0
    peak = 0.05 / math.e
    assert result.metric("soft", LINE, "largest_n") == pytest.approx(peak, rel=1e-3)
    assert result.metric("soft", LINE, "jump") == pytest.approx(spacing / peak, rel=0.05)  # its slope is 1 there
    assert result.metric("soft", LINE, "apart") == pytest.approx(0.16 * math.exp(-3.2) / peak, rel=1e-3)
    seen = result.series("hard", PLANE, "force_n")
    far = np.linalg.norm(places(PLANE, Settings(plane=5)), axis=1)
    assert seen == pytest.approx(np.maximum(0.0, 0.15 - far), abs=1e-5)


def test_places_pass_through_the_centre():
    line = places(LINE, Settings())
    assert np.abs(line).sum(axis=1).min() == 0.0
    assert line[0] == pytest.approx(-line[-1])
    assert len(places(PLANE, Settings())) == 41**2
