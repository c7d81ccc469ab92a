"""`throughput`: rates of known step times, cubes that are known to fall, and the hand that MuJoCo holds still."""

import numpy as np
import pytest

from stickslip.bench import runner
from stickslip.bench.experiments.speed.throughput import Throughput
from stickslip.bench.result import load
from tests.bench import scripted

SETTINGS = {"worlds": "8", "steps": 20, "every": 5, "warm_up": 2, "repeats": 1, "commands": "0.5,0"}
COMMANDED, REST = "commands of 0.5 rad, 8 worlds", "at rest, 8 worlds"


def stay(mjm, mjd):
    pass


def run(tmp_path, physics, clock, *, picture=False, **settings):
    options = {"settings": {**SETTINGS, **settings}, "clock": clock, "picture": picture}
    return scripted.run(Throughput(), physics, tmp_path, **options)


def test_rate_and_its_spread_are_those_of_the_script(tmp_path):
    clock, steps = scripted.Clock(), iter(np.tile(np.repeat([1e-3, 2e-3], 5), 100))
    fake = scripted.Scripted(stay, clock, lambda ncon: next(steps))
    result = run(tmp_path, {"fake": fake}, clock, warm_up=0)
    assert result.metric("fake", COMMANDED, "world_steps_per_s") == pytest.approx(6000.0)
    assert result.metric("fake", COMMANDED, "world_steps_per_s_std") == pytest.approx(2000.0)
    assert result.series("fake", COMMANDED, "world_steps_per_s") == pytest.approx([8000.0, 4000.0] * 2)


def test_a_last_stretch_that_is_shorter_counts_as_fast(tmp_path):
    clock = scripted.Clock()
    fake = scripted.Scripted(stay, clock, lambda ncon: 1e-3)
    result = run(tmp_path, {"fake": fake}, clock, steps=12)
    assert result.series("fake", REST, "world_steps_per_s") == pytest.approx([8000.0] * 3)


def test_ratios_are_those_of_the_script_and_the_faster_mujoco_counts(tmp_path):
    clock = scripted.Clock()
    times = {"mujoco": 4e-3, "mujoco-anti-creep": 3e-3, "comfree": 2e-3}
    physics = {n: scripted.Scripted(stay, clock, lambda ncon, t=t: t) for n, t in times.items()}
    result = run(tmp_path, physics, clock, picture=True)
    assert result.metric("comfree", COMMANDED, "speedup") == pytest.approx(1.5)
    assert result.metric("comfree", COMMANDED, "speedup_over_mujoco") == pytest.approx(2.0)
    assert result.metric("mujoco", REST, "speedup") == pytest.approx(0.75)
    rows = Throughput().reported(result)
    assert len(rows) == 2
    assert "2 x mujoco, 1.5 x mujoco-anti-creep; 100 % of the cubes held" in rows[0].measured


def test_commands_are_random_about_the_grasp_and_cubes_that_fall_are_counted(tmp_path):
    seen = {}

    def script_of(name):
        def script(mjm, mjd):
            seen.setdefault(name, []).append(mjd.ctrl.copy())
            away = mjd.ctrl[0] - mjm.key_ctrl[0, 0]
            if abs(away) > 0.4:  # this world lets go, or throws the cube up
                mjd.joint("cube").qpos[2] = 0.03 if away > 0 else 0.3

        return script

    clock = scripted.Clock()
    physics = {name: scripted.Scripted(script_of(name), clock, lambda ncon: 1e-3) for name in ("one", "other")}
    result = run(tmp_path, physics, clock, warm_up=0)
    random = np.random.default_rng(0)
    commands = [random.uniform(-0.5, 0.5, (8, 16)) for _ in range(4)]
    let_go = np.any([np.abs(command[:, 0]) > 0.4 for command in commands], axis=0)
    assert 0 < let_go.sum() < 8
    assert result.metric("one", COMMANDED, "held_percent") == pytest.approx(100.0 * (1.0 - let_go.mean()))
    assert result.metric("one", REST, "held_percent") == 100.0
    given = {name: np.reshape(ctrl[: 20 * 8], (20, 8, 16)) for name, ctrl in seen.items()}  # steps, worlds, servos
    home = np.reshape(seen["one"][-1], 16)  # of the hand at rest
    assert np.array_equal(given["one"], given["other"])
    assert given["one"] - home == pytest.approx(np.repeat(commands, 5, axis=0), abs=1e-6)


def test_a_world_that_is_no_longer_finite_holds_nothing_and_is_noted(tmp_path):
    def script(mjm, mjd):
        if mjd.ctrl[0] - mjm.key_ctrl[0, 0] > 0.4:
            mjd.qpos[0] = np.nan  # a finger; the cube stays where it is

    clock = scripted.Clock()
    fake = scripted.Scripted(script, clock, lambda ncon: 1e-3)
    result = run(tmp_path, {"fake": fake}, clock, warm_up=0)
    random = np.random.default_rng(0)
    broken = np.any([random.uniform(-0.5, 0.5, (8, 16))[:, 0] > 0.4 for _ in range(4)], axis=0)
    assert 0 < broken.sum() < 8
    assert result.metric("fake", COMMANDED, "held_percent") == pytest.approx(100.0 * (1.0 - broken.mean()))
    assert np.isnan(result.metric("fake", COMMANDED, "world_steps_per_s"))  # more than one in a hundred
    assert "no longer finite" in result.problems("fake", COMMANDED)[0]


def test_a_time_the_clock_did_not_see_is_no_rate(tmp_path):
    clock = scripted.Clock()
    result = run(tmp_path, {"fake": scripted.Scripted(stay, clock)}, clock)
    assert np.isnan(result.metric("fake", REST, "world_steps_per_s"))
    assert "too coarse" in result.problems("fake", REST)[0]


def test_of_repeated_runs_the_fastest_counts_and_commands_are_the_same(tmp_path):
    clock, step = scripted.Clock(), iter(range(1000))
    fake = scripted.Scripted(stay, clock, lambda ncon: 1.0 if next(step) == 5 else 1e-3)
    result = run(tmp_path, {"fake": fake}, clock, repeats=2, warm_up=0)
    assert result.metric("fake", COMMANDED, "world_steps_per_s") == pytest.approx(8000.0)
    assert result.problems("fake", COMMANDED) == []


def test_mujoco_holds_the_cube_at_rest(tmp_path):
    settings = {"worlds": "2", "commands": "0", "steps": 100, "every": 50, "warm_up": 1, "repeats": 1}
    result = load(runner.run(Throughput(), tmp_path, methods=["mujoco"], device="cpu", settings=settings))
    assert result.metric("mujoco", "at rest, 2 worlds", "held_percent") == 100.0
    assert result.metric("mujoco", "at rest, 2 worlds", "contacts_per_world") == pytest.approx(4.0, abs=0.5)
    assert result.metric("mujoco", "at rest, 2 worlds", "world_steps_per_s") > 0.0
    assert result.problems("mujoco", "at rest, 2 worlds") == []
