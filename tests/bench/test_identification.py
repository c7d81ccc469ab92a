"""`identify`, `transfer`, `coverage`, `rollouts`: right models find the truth, wrong ones say that they are wrong."""

import itertools
import math

import numpy as np
import pytest

from stickslip.bench import runner
from stickslip.bench.experiments.identification import transfer
from stickslip.bench.experiments.identification.coverage import CASE, Coverage
from stickslip.bench.experiments.identification.identify import OWN, Identify, label
from stickslip.bench.experiments.identification.rollouts import RolloutRate
from stickslip.bench.experiments.identification.transfer import Transfer
from stickslip.bench.result import load
from stickslip.errors import InputError
from stickslip.identification import pushes
from stickslip.physics.registry import PHYSICS

pytest.importorskip("cmaes")

SMALL = {"worlds": 32, "generations": 10}


def run(experiment, tmp_path, methods, settings, **options):
    return load(runner.run(experiment, tmp_path, methods=methods, device="cpu", settings=settings, **options))


def test_friction_and_mass_of_a_t_are_found_in_data_of_the_same_physics_and_a_wrong_one_says_so(tmp_path):
    result = run(Identify(), tmp_path, ["cone-sweep", "comfree"], SMALL)
    for method in ("cone-sweep", "comfree"):
        assert abs(result.metric(method, label(OWN), "friction_error_percent")) < 5.0
        assert abs(result.metric(method, label(OWN), "mass_error_percent")) < 5.0
        assert result.metric(method, label(OWN), "residual_of_right") < 1.3
        assert result.metric(method, label(OWN), "explains") == result.metric(method, label(OWN), "carries") == 1.0
    case = label("mujoco-c")
    assert result.metric("comfree", case, "friction_error_percent") > 30.0  # it makes up for its creep
    assert result.metric("comfree", case, "residual_of_right") > 2.5
    assert result.metric("comfree", case, "explains") == result.metric("comfree", case, "carries") == 0.0


def test_mujoco_finds_the_truth_in_data_of_mujoco_in_c(tmp_path):
    result = run(Identify(), tmp_path, ["mujoco"], SMALL, picture=False)
    case = label("mujoco-c")
    assert abs(result.metric("mujoco", case, "friction_error_percent")) < 2.0
    assert abs(result.metric("mujoco", case, "mass_error_percent")) < 2.0
    assert result.metric("mujoco", case, "friction_inside") == result.metric("mujoco", case, "mass_inside") == 1.0


def test_who_recorded_is_in_the_recording():
    """MuJoCo in C and MuJoCo Warp move the T alike, the cone sweep moves it otherwise; the finger's way is given."""
    given = {"friction": 0.35, "mass": 0.8, "place": 1e-3, "timestep": 0.004, "duration": 0.3}
    c, warp, cone = (
        pushes.record(pushes.FOOT, **given, physics=physics)
        for physics in (None, PHYSICS["mujoco"](), PHYSICS["cone-sweep"]())
    )
    assert c.measured[0] == pytest.approx([0.0, 0.0, 0.0, *pushes.FOOT.start])
    assert np.array_equal(c.ctrl, warp.ctrl) and np.array_equal(c.time, cone.time)
    assert c.measured[-1, 1] > 0.03
    assert np.abs(c.measured - warp.measured).max() < 2e-4
    assert np.abs(c.measured - cone.measured).max() > 1e-3


@pytest.mark.parametrize("angle", [0.1, 0.35, 0.45, 0.6])
def test_ways_down_a_slope(angle):
    dt, mu, x, v = 1e-5, 0.4, 0.0, 0.3
    for _ in range(100_000):
        push, brake = 9.81 * math.sin(angle), 9.81 * mu * math.cos(angle)
        v = v + push * dt - brake * dt if v > 0.0 else 0.0
        x += max(v, 0.0) * dt
    assert transfer.exact(angle, mu, 0.3, np.array([1.0]))[0] == pytest.approx(x, rel=1e-3)


def test_friction_from_boxes_at_rest_is_taken_along_by_a_physics_that_sticks_and_not_by_one_that_creeps(tmp_path):
    settings = {"timestep": "0.005", "generations": 8, "duration": "0.8"}
    result = run(Transfer(), tmp_path, ["cone-sweep", "comfree"], settings)
    there, back = result.cases
    for case in (there, back):
        assert abs(result.metric("cone-sweep", case, "friction_error_percent")) < 1.0
        assert result.metric("cone-sweep", case, "farthest_mm") < 15.0  # of a metre; steps of 5 ms
    assert result.metric("comfree", there, "friction_error_percent") > 60.0
    assert result.metric("comfree", there, "farthest_mm") > 300.0
    assert result.metric("comfree", there, "carries") == 0.0
    assert result.metric("comfree", back, "farthest_mm") > 50.0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"resting": "0.1,0.5"}, "resting has a slope of 0.5 rad: it must be below 0.381 rad"),
        ({"sliding": "0.3"}, "sliding has a slope of 0.3 rad: it must be above 0.381 rad"),
        ({"sliding": ",".join(["0.5"] * 30)}, "more than 30 slopes"),
    ],
)
def test_slopes_that_do_not_do_as_they_are_called_are_refused(settings, words):
    experiment = Transfer()
    with pytest.raises(InputError, match=words):
        experiment.cases(experiment.make_settings(settings))


def test_coverage_counts_what_its_series_say(tmp_path):
    settings = {"times": 3, "worlds": 16, "generations": 6, "timestep": "0.008"}
    result = run(Coverage(), tmp_path, ["comfree"], settings)
    for name, (least, most) in {"friction": (0.2, 0.6), "mass": (0.4, 1.6)}.items():
        true, low, value, high = (
            result.series("comfree", CASE, f"{name}_{what}") for what in ("truth", "low", "value", "high")
        )
        assert len(np.unique(true)) == 3 and least <= true.min() and true.max() <= most
        assert result.metric("comfree", CASE, f"{name}_held") == ((low <= true) & (true <= high)).sum() >= 2
        error = 100.0 * np.sqrt(np.mean((value / true - 1.0) ** 2))
        assert result.metric("comfree", CASE, f"{name}_error_percent") == pytest.approx(error, rel=1e-3)
        assert error < 15.0


def test_rollouts_are_counted_by_the_clock(tmp_path):
    ticks = itertools.count()
    settings = {"worlds": "8,20", "duration": "0.1", "repeats": 2, "threads": 1}
    result = run(RolloutRate(), tmp_path, ["comfree"], settings, clock=lambda: 0.5 * next(ticks))
    for worlds in (8, 20):
        assert result.metric("comfree", f"{worlds} worlds", "rollouts_per_minute") == pytest.approx(120.0 * worlds)
        assert result.metric("comfree", f"{worlds} worlds", "seconds_for_640") == pytest.approx(320.0 / worlds)
        assert result.metric("comfree", f"{worlds} worlds", "lost_percent") == 0.0
