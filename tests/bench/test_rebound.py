"""`rebound`: the reference against the closed form, heights out of known paths, and dissipation out of a simulation."""

import math

import numpy as np
import pytest

from stickslip.bench import runner
from stickslip.bench.experiments.identification.rebound import Rebound, first_rebound, leaves, rises
from stickslip.bench.result import load

pytest.importorskip("cmaes")


@pytest.mark.parametrize("dissipation", [0.05, 0.3, 2.0])
def test_without_weight_the_reference_is_the_closed_form(dissipation):
    speed = math.sqrt(2.0 * 9.81 * 0.3)
    assert rises(0.3, dissipation, 150.0, 0.0) == pytest.approx(leaves(speed, dissipation) ** 2 / 19.62, rel=1e-5)
    before, after = (v / dissipation - math.log1p(dissipation * v) / dissipation**2
                     for v in (speed, -leaves(speed, dissipation)))  # fmt: skip
    assert after == pytest.approx(before, rel=1e-9)


def test_without_dissipation_all_of_the_height_comes_back_and_with_weight_less_than_without():
    assert rises(0.3, 1e-6, 150.0) == pytest.approx(0.3, rel=1e-4)
    assert rises(0.3, 0.3, 150.0) < rises(0.3, 0.3, 150.0, 0.0)
    assert rises(0.3, 0.3, 3000.0) == pytest.approx(rises(0.3, 0.3, 3000.0, 0.0), rel=0.01)


def test_the_first_rebound_counts():
    t = np.linspace(0.0, 1.0, 1001)
    bounce = np.abs(0.4 - 4.9 * t**2) * (t < 0.5)  # up to the middle of the second flight
    again = np.interp(t, [0.0, 0.2, 0.5, 0.6, 0.9], [0.3, 0.0, 0.12, 0.0, 0.2])  # the second one is higher
    never = np.linspace(0.4, 0.0, 1001)
    still_rising = np.interp(t, [0.0, 0.5, 1.0], [0.4, 0.0, 0.1])
    found = first_rebound(np.stack([again, never, still_rising]))
    assert found == pytest.approx([0.12, 0.0, 0.1], abs=1e-9)
    assert first_rebound(bounce[None, :500])[0] == pytest.approx(bounce[499])


def test_dissipation_is_found_by_an_integrator_that_keeps_the_speed_and_not_by_one_that_loses_it(tmp_path):
    methods = ["cenic", "cenic:accuracy=1e-5,scheme=trapezoid"]
    settings = {"dissipations": "0.4", "heights": "0.1", "tested": "0.2", "generations": 5, "worlds": 16}
    result = load(runner.run(Rebound(), tmp_path, methods=methods, device="cpu", settings=settings))
    case = result.cases[0]
    assert abs(result.metric(methods[1], case, "dissipation_error_percent")) < 3.0
    assert result.metric(methods[1], case, "inside") == 1.0
    assert abs(result.metric(methods[1], case, "tested_error_percent")) < 1.0
    assert result.metric(methods[0], case, "dissipation") < 0.37  # what is lost beside it
    exact = result.series(methods[0], case, "exact")
    assert exact == pytest.approx([rises(h, 0.4, math.sqrt(2e4)) for h in (0.1, 0.2)], rel=1e-5)
