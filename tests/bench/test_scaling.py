"""`scaling`: the line through known step times, their scatter, and what is and is not timed."""

import math

import numpy as np
import pytest

from stickslip.bench import timing
from stickslip.bench.experiments.speed.scaling import Scaling
from stickslip.errors import InputError
from stickslip.simulation import Simulation
from tests.bench import scripted

BLOCK, HALF = 0.1, 0.025
CASE = "2 worlds"
SETTINGS = {"worlds": 2, "steps": 40, "warm_up": 4}


def cubes_down(count):
    """A script that lays as many cubes on the block as `count` says for the step: four contacts each, a mm deep."""

    def script(mjm, mjd):
        down = count(round(mjd.time / mjm.opt.timestep) - 1)
        for body in range(12):
            place = mjd.qpos[7 * body :]
            place[:7] = (0.2 * (body - 6), 0.0, 5.0, 1.0, 0.0, 0.0, 0.0)
            if body < down:
                place[:3] = (0.06 * (body - 1.5), 0.0, BLOCK + HALF - 1e-3)

    return script


def ramp(step):
    return step // 2 % 5


def run(tmp_path, physics, clock, *, picture=False, **settings):
    options = {"settings": {**SETTINGS, "repeats": 1, **settings}, "clock": clock, "picture": picture}
    return scripted.run(Scaling(), physics, tmp_path, **options)


def test_a_known_time_for_each_contact_is_the_slope_and_nothing_scatters(tmp_path):
    clock = scripted.Clock()
    fake = scripted.Scripted(cubes_down(ramp), clock, lambda ncon: 2e-3 + 5e-6 * ncon)
    result = run(tmp_path, {"fake": fake}, clock)
    contacts = result.series("fake", CASE, "contacts")
    assert contacts.tolist() == [2 * 4 * ramp(step) for step in range(40)]
    assert result.metric("fake", CASE, "offset_ms") == pytest.approx(2.0)
    assert result.metric("fake", CASE, "ns_per_contact") == pytest.approx(5000.0)
    assert result.metric("fake", CASE, "scatter_percent") == pytest.approx(0.0, abs=1e-6)
    assert result.metric("fake", CASE, "ms_per_step") == pytest.approx(2.0 + 5e-3 * 16)
    assert result.metric("fake", CASE, "contacts_per_world") == pytest.approx(8.0)
    assert result.problems("fake", CASE) == []


def test_known_noise_in_the_time_is_the_scatter(tmp_path):
    clock, signs = scripted.Clock(), iter(np.tile([1.0, -1.0], 100))
    fake = scripted.Scripted(cubes_down(ramp), clock, lambda ncon: 2e-3 + 5e-6 * ncon + 1e-4 * next(signs))
    result = run(tmp_path, {"fake": fake}, clock)
    assert result.metric("fake", CASE, "ns_per_contact") == pytest.approx(5000.0)
    assert result.metric("fake", CASE, "scatter_percent") == pytest.approx(100 * 0.1 / 2.08)


def test_ratios_are_those_of_the_script_and_the_faster_mujoco_counts(tmp_path):
    clock = scripted.Clock()
    times = {"mujoco": 6e-3, "mujoco-anti-creep": 18e-3, "comfree": 2e-3}
    physics = {
        name: scripted.Scripted(cubes_down(ramp), clock, lambda ncon, t=t: t + 1e-9 * (ncon - 16))
        for name, t in times.items()
    }
    result = run(tmp_path, physics, clock, picture=True)
    assert result.metric("comfree", CASE, "speedup") == pytest.approx(3.0)
    assert result.metric("comfree", CASE, "speedup_over_mujoco") == pytest.approx(3.0)
    assert result.metric("comfree", CASE, "speedup_over_mujoco_anti_creep") == pytest.approx(9.0)
    assert result.metric("mujoco", CASE, "speedup") == pytest.approx(1.0)
    assert result.metric("mujoco-anti-creep", CASE, "speedup") == pytest.approx(1 / 3)
    (row,) = Scaling().reported(result)
    assert "3 x mujoco, 9 x mujoco-anti-creep" in row.measured


def test_without_mujoco_there_is_no_ratio(tmp_path):
    clock = scripted.Clock()
    result = run(tmp_path, {"comfree": scripted.Scripted(cubes_down(ramp), clock, lambda ncon: 1e-3)}, clock)
    assert math.isnan(result.metric("comfree", CASE, "speedup"))
    assert Scaling().reported(result) == []


def test_equal_numbers_of_contacts_give_no_line_and_say_so(tmp_path):
    clock = scripted.Clock()
    fake = scripted.Scripted(cubes_down(lambda step: 0), clock, lambda ncon: 1e-3)
    result = run(tmp_path, {"fake": fake}, clock, picture=True)
    assert math.isnan(result.metric("fake", CASE, "ns_per_contact"))
    assert math.isnan(result.metric("fake", CASE, "scatter_percent"))
    assert result.metric("fake", CASE, "ms_per_step") == pytest.approx(1.0)
    nothing, line = result.problems("fake", CASE)
    assert "nothing to solve" in nothing
    assert "every step had 0 contacts" in line


def test_two_points_make_no_scatter_and_too_few_steps_no_run():
    assert math.isnan(timing.fit([1.0, 2.0], [1.0, 3.0]).scatter)
    assert timing.fit([1.0, 2.0, 3.0], [1.0, 3.0, 5.0]).slope == pytest.approx(2.0)
    with pytest.raises(InputError, match="from 4 to"):
        Scaling().make_settings({"steps": 2})


def test_the_picture_tells_how_many_steps_are_above_its_axis(tmp_path):
    clock, step = scripted.Clock(), iter(range(1000))
    fake = scripted.Scripted(cubes_down(ramp), clock, lambda ncon: 1.0 if next(step) == 300 else 1e-3)
    result = run(tmp_path, {"fake": fake}, clock, steps=400)
    assert "; 1 of 400 are above the axis" in Scaling().draw(result).axes[0].get_title(loc="left")


def test_counting_contacts_is_not_timed(tmp_path, monkeypatch):
    clock, count = scripted.Clock(), Simulation.contact_count

    def slow(sim):
        clock.now += 1.0
        return count(sim)

    monkeypatch.setattr(Simulation, "contact_count", slow)
    result = run(tmp_path, {"fake": scripted.Scripted(cubes_down(ramp), clock, lambda ncon: 1e-3)}, clock)
    assert result.metric("fake", CASE, "slowest_ms") == pytest.approx(1.0)


def test_bodies_start_with_noise_in_their_linear_velocity_alone(tmp_path):
    seen = {}

    def script_of(name):
        def script(mjm, mjd):
            if abs(mjd.time - mjm.opt.timestep) < 1e-9:
                seen.setdefault(name, []).append(mjd.qvel.copy().reshape(-1, 6))

        return script

    clock = scripted.Clock()
    names = ("one", "other")
    run(tmp_path, {n: scripted.Scripted(script_of(n), clock, lambda ncon: 1e-3) for n in names}, clock, warm_up=0)
    first, second = (np.array(seen[n]) for n in names)
    assert first.shape == (2, 12, 6)  # worlds, bodies
    assert np.array_equal(first, second)
    assert not first[..., 3:].any()
    assert np.std(first[..., :3]) == pytest.approx(1e-3, rel=0.3)
    assert not np.array_equal(first[0], first[1])


def test_of_repeated_runs_the_fastest_of_each_step_counts(tmp_path):
    clock, step = scripted.Clock(), iter(range(1000))

    def seconds(ncon):  # four steps to warm up, then every seventh is held up, another one in each run
        return 2e-3 + 5e-6 * ncon + (1.0 if next(step) % 7 == 0 else 0.0)

    result = run(tmp_path, {"fake": scripted.Scripted(cubes_down(ramp), clock, seconds)}, clock, repeats=2)
    assert result.metric("fake", CASE, "scatter_percent") == pytest.approx(0.0, abs=1e-6)
    assert result.metric("fake", CASE, "ms_per_step") == pytest.approx(2.08)
    assert result.problems("fake", CASE) == []


def test_repeated_runs_that_differ_are_a_problem():
    seconds, problems = timing.fastest([[1.0, 3.0], [2.0, 2.0]], [[4, 5], [4, 6]])
    assert seconds.tolist() == [1.0, 2.0]
    assert "differ" in problems[0]


def test_a_run_that_diverges_has_no_times(tmp_path):
    def script(mjm, mjd):
        mjd.qvel[:] = np.nan

    clock = scripted.Clock()
    result = run(tmp_path, {"fake": scripted.Scripted(script, clock, lambda ncon: 1e-3)}, clock)
    assert math.isnan(result.metric("fake", CASE, "ms_per_step"))
    assert any("no longer finite" in problem for problem in result.problems("fake", CASE))
