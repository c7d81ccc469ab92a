"""`particles`: known step times, what is made of how many spheres, and what is left out."""

import math

import numpy as np
import pytest

import stickslip as ss
from stickslip.bench import timing
from stickslip.bench.experiments.speed.particles import Particles, Settings
from stickslip.errors import InputError
from tests.bench import scripted

FEW = {"resolutions": (2, 3), "worlds": (4,), "settle": 3, "repeats": 3, "steps": 5}


class Ticking:
    """A clock that goes on by a millisecond whenever it is looked at: whatever is timed takes a millisecond."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1e-3
        return self.now


def standing(mjm, mjd):
    """A box that goes as far as its force says, and touches the plane all the time."""
    mjd.qpos[0] = 0.01 * mjd.time * mjd.xfrc_applied[1, 0]


def run(tmp_path, physics, clock, *, picture=False, **settings):
    options = {"settings": {**FEW, **settings}, "clock": clock, "picture": picture}
    return scripted.run(Particles(), physics, tmp_path, **options)


def test_a_known_time_is_told_for_each_step_and_each_sphere(tmp_path):
    """A batch of five steps takes a millisecond; spheres and their contacts are those of a grid."""
    result = run(tmp_path, {"pbd-r": ss.PbdR(), "mujoco": ss.MuJoCo()}, Ticking(), picture=True)
    assert result.cases == ["8 spheres", "27 spheres", "8 spheres, 4 worlds"]
    for case, count, worlds, contacts in zip(result.cases, (8, 27, 8), (1, 1, 4), (4, 9, 4), strict=True):
        for motion in ("resting", "sliding"):
            assert result.metric("pbd-r", case, "spheres") == count
            assert result.metric("pbd-r", case, f"{motion}_us") == pytest.approx(200.0)
            assert result.metric("pbd-r", case, f"{motion}_ns_per_sphere") == pytest.approx(2e5 / (count * worlds))
            assert result.metric("pbd-r", case, f"{motion}_contacts") == contacts
            assert result.metric("pbd-r", case, f"{motion}_speedup") == pytest.approx(1.0)
            assert result.metric("mujoco", case, f"{motion}_us") == pytest.approx(200.0)
            assert math.isnan(result.metric("mujoco", case, f"{motion}_ns_per_sphere"))
        assert math.isnan(result.metric("mujoco", case, "spheres"))
        assert result.problems("pbd-r", case) == []


def test_the_median_batch_counts_and_the_ratio_is_to_mujoco(tmp_path):
    clock = scripted.Clock()

    def physics(seconds):
        steps = iter(range(10_000))
        # 3 steps to settle and 5 to look how long one takes, of which the first is held up; then batches of five, of
        # which one is held up
        each = 3 + timing.LOOKS + 3 * 5
        held_up = (3, 3 + timing.LOOKS + 2)
        return scripted.Scripted(standing, clock, lambda ncon: seconds + (next(steps) % each in held_up))

    result = run(tmp_path, {"mujoco": physics(6e-5), "other": physics(2e-5)}, clock)
    for case in result.cases:
        assert result.metric("mujoco", case, "sliding_us") == pytest.approx(60.0)
        assert result.metric("other", case, "resting_us") == pytest.approx(20.0)
        assert result.metric("other", case, "sliding_speedup") == pytest.approx(3.0)
        assert result.metric("other", case, "resting_speedup_over_mujoco") == pytest.approx(3.0)


def test_one_step_that_is_held_up_does_not_make_batches_shorter(tmp_path):
    clock, count = scripted.Clock(), []

    def seconds(ncon):
        count.append(ncon)
        return 0.5 if (len(count) - 1) % each == 3 else 1e-3  # the first of those that are looked at

    each = 3 + timing.LOOKS + 3 * 5
    fake = scripted.Scripted(standing, clock, seconds)
    run(tmp_path, {"fake": fake}, clock, resolutions=(2,), worlds=(2,), longest=0.1)
    assert len(count) == 2 * 2 * each


def test_the_ratio_is_to_the_median_of_what_is_one_scene_to_mujoco(tmp_path):
    """Its times of a box alone are 60, 20 and 50 us, and of four boxes 400 us."""
    clock, told = scripted.Clock(), []

    def seconds(ncon):
        told.append(ncon)
        each = 2 * (3 + timing.LOOKS + 3 * 5)
        return (6e-5, 2e-5, 5e-5, 4e-4)[(len(told) - 1) // each]

    physics = {
        "mujoco": scripted.Scripted(standing, clock, seconds),
        "other": scripted.Scripted(standing, clock, lambda ncon: 2.5e-5),
    }
    result = run(tmp_path, physics, clock, resolutions=(2, 3, 4))
    assert [result.metric("mujoco", case, "sliding_us") for case in result.cases] == pytest.approx([60, 20, 50, 400])
    assert [result.metric("other", case, "sliding_speedup") for case in result.cases] == pytest.approx([2, 2, 2, 16])
    assert result.metric("mujoco", result.cases[0], "resting_speedup") == pytest.approx(50 / 60)


def test_a_batch_has_fewer_steps_where_a_step_takes_long(tmp_path):
    clock, count = scripted.Clock(), []
    fake = scripted.Scripted(standing, clock, lambda ncon: count.append(ncon) or 0.04)
    result = run(tmp_path, {"fake": fake}, clock, resolutions=(2,), worlds=(2,), longest=0.1)
    assert result.metric("fake", "8 spheres", "resting_us") == pytest.approx(4e4)
    each = 3 + timing.LOOKS + 3 * 2  # to settle, to look how long it takes, three batches of two
    assert len(count) == 2 * 2 * each


def test_boxes_rest_and_slide(tmp_path):
    """Each motion begins at the start, under its own force: the script goes 1 mm in 0.1 s for every newton."""
    clock = scripted.Clock()
    fake = scripted.Scripted(standing, clock, lambda ncon: 1e-4)
    result = run(tmp_path, {"pbd-r": ss.PbdR(), "fake": fake}, clock, settle=80)  # and 5 + 3 * 5 of timing
    for case in result.cases:
        assert result.metric("fake", case, "resting_moved_mm") == 0.0
        assert result.metric("fake", case, "sliding_moved_mm") == pytest.approx(17.0, rel=1e-4)
        assert result.metric("pbd-r", case, "resting_moved_mm") == pytest.approx(0.0, abs=1e-3)
        assert result.metric("pbd-r", case, "sliding_moved_mm") == pytest.approx(1.63, abs=0.05)


def test_what_has_too_many_spheres_is_left_out_and_the_picture_says_so(tmp_path):
    result = run(tmp_path, {"pbd-r": ss.PbdR()}, Ticking(), most=27)
    assert result.cases == ["8 spheres", "27 spheres"]
    assert "more than 27 spheres left out" in Particles().draw(result).get_suptitle()
    assert list(Particles().cases(Settings()))[-3:] == [
        "1,000,000 spheres",
        "64 spheres, 256 worlds",
        "64 spheres, 4,096 worlds",
    ]
    on_cpu = Particles().make_settings(device="cpu")
    assert list(Particles().cases(on_cpu))[-2:] == ["97,336 spheres", "64 spheres, 256 worlds"]
    with pytest.raises(InputError, match="raise most"):
        Particles().cases(Settings(most=63))


def test_a_box_in_the_air_is_a_problem(tmp_path):
    def lifted(mjm, mjd):
        mjd.qpos[2] = 1.0

    clock = scripted.Clock()
    result = run(tmp_path, {"fake": scripted.Scripted(lifted, clock, lambda ncon: 1e-3)}, clock, picture=True)
    assert "resting: there was no contact in what was timed" in result.problems("fake", "8 spheres")


def test_a_run_that_diverges_has_no_times(tmp_path):
    def broken(mjm, mjd):
        mjd.qvel[:] = np.nan

    clock = scripted.Clock()
    result = run(tmp_path, {"fake": scripted.Scripted(broken, clock, lambda ncon: 1e-3)}, clock)
    assert math.isnan(result.metric("fake", "8 spheres", "sliding_us"))


def test_what_the_paper_says_of_ten_thousand_spheres_stands_beside_ours(tmp_path):
    result = run(tmp_path, {"pbd-r": ss.PbdR()}, Ticking())
    assert Particles().reported(result) == ()
    result.outcomes["pbd-r"]["10,648 spheres"] = {"metrics": {"sliding_speedup_over_mujoco": 2.0}}
    (row,) = Particles().reported(result)
    assert "2/3" in row.paper
    assert row.measured.startswith("pbd-r 0.5, at 10,648 spheres")
