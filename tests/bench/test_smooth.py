"""`smooth`: known step times, ratios to MJX with the same integrator, and where the T is in each case."""

import math

import numpy as np
import pytest

from stickslip.bench.experiments.smoothness import smooth
from stickslip.bench.experiments.smoothness.smooth import AIR, FLOOR, PUSHED, Smooth
from tests.bench import scripted

FEW = {"worlds": (3,), "settle": 1, "repeats": 3, "steps": 4}


def still(clock, seconds, seen=None):
    """A physics in which nothing moves, and whose step takes so long."""

    def script(mjm, mjd):
        if mjd.qpos[2] < 1.0:
            mjd.qpos[2] = 0.025 - 1e-5  # in the floor, if on it
        if seen is not None:
            seen.append((mjd.qpos.copy(), mjd.ctrl.copy()))

    return scripted.Scripted(script, clock, seconds)


def test_times_and_ratios_are_told(tmp_path):
    clock = scripted.Clock()
    physics = {
        "mjx": still(clock, lambda ncon: 4e-3),
        "mjx:integrator=rk4": still(clock, lambda ncon: 8e-3),
        "scm:integrator=euler": still(clock, lambda ncon: 1e-3 if ncon else 0.5e-3),
        "scm:integrator=rk4": still(clock, lambda ncon: 16e-3),
    }
    result = scripted.run(Smooth(), physics, tmp_path, settings=FEW, clock=clock)
    assert result.cases == [AIR, FLOOR, PUSHED, "pushed, 3 worlds"]
    assert result.metric("scm:integrator=euler", PUSHED, "us") == pytest.approx(1e3)
    assert result.metric("scm:integrator=euler", AIR, "us") == pytest.approx(500.0)
    assert result.metric("scm:integrator=euler", PUSHED, "over_air") == pytest.approx(2.0)
    assert result.metric("scm:integrator=euler", PUSHED, "speedup") == pytest.approx(4.0)
    assert result.metric("scm:integrator=rk4", PUSHED, "speedup") == pytest.approx(0.5)
    assert result.metric("scm:integrator=euler", "pushed, 3 worlds", "us_per_world") == pytest.approx(1e3 / 3)
    assert math.isnan(result.metric("mjx", PUSHED, "speedup"))
    assert math.isnan(result.metric("mjx", PUSHED, "gradient_ratio"))
    for label in physics:
        assert result.metric(label, AIR, "contacts") == 0
        assert result.metric(label, FLOOR, "contacts") >= 4
        assert not any(result.problems(label, case) for case in result.cases)
    told = {row.quantity.split(", ")[1]: row.measured for row in Smooth().reported(result)}
    assert "4,000 us against 1,000 us: 4 times" in told["Euler"]


@pytest.mark.parametrize(("where", "touches"), [(AIR, False), (FLOOR, False), (PUSHED, True)])
def test_the_ball_is_where_the_case_says(where, touches, tmp_path):
    seen = []
    clock = scripted.Clock()
    scripted.run(
        Smooth(), {"fake": still(clock, lambda ncon: 1e-3, seen)}, tmp_path, settings=FEW, clock=clock, picture=False
    )
    rows = [row for row in seen if (row[0][2] > 100) == (where == AIR)]
    rows = rows if where == AIR else [row for row in rows if (abs(row[0][8] + 0.1575) < 1e-6) == touches]
    assert rows
    qpos, ctrl = rows[0]
    foot = -0.1375  # of the stem
    assert ctrl[1] - qpos[8] == pytest.approx(0.004 if touches else 0.0, abs=1e-6)
    assert (foot - qpos[8] == pytest.approx(0.02, abs=1e-6)) == touches


def test_the_cost_is_of_the_end():
    class States:
        qpos = np.zeros((3, 9))

    States.qpos[-1, :2] = 0.4, 0.1
    assert smooth._cost(States) == pytest.approx(0.09)
