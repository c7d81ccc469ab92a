"""What several experiments share: the usual step length, the end of a run, and metrics case by case."""

import numpy as np
import pytest

from stickslip.bench.experiments.friction.stick import Stick
from stickslip.bench.references import timesteps
from stickslip.bench.report import series
from tests.bench import scripted


def test_the_usual_step_is_mujocos_or_nearest_to_it():
    assert timesteps.usual((0.01, 0.005, 0.002, 0.001)) == 0.002
    assert timesteps.usual((0.02, 0.01)) == 0.01
    assert timesteps.tick(0.0005) == "dt 0.5 ms"


@pytest.mark.parametrize(("samples", "count"), [(5, 2), (201, 51)])
def test_late_is_the_last_quarter_with_its_first_moment(samples, count):
    late = timesteps.late(np.linspace(0.0, 0.8, samples))
    assert late.sum() == count
    assert late[-count:].all()


def test_metrics_are_those_of_whoever_ran_a_case(tmp_path):
    physics = {"one": scripted.Scripted(lambda m, d: None), "other": scripted.Scripted(lambda m, d: None)}
    result = scripted.run(Stick(), physics, tmp_path, quick=True, picture=False)
    cases = ["stick, dt 2 ms", "slide, dt 2 ms"]
    result.outcomes["one"][cases[1]] = {"unsupported": "no"}
    result.outcomes["other"] = {case: {"unsupported": "no"} for case in cases}
    found = series.metrics(result, cases, "moved_mm")
    assert list(found) == ["one"]
    assert found["one"] == pytest.approx([0.0, np.nan], nan_ok=True)
