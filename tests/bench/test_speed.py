"""`speed`: cases in words, known step and stage times, and a small run with every part of it."""

import dataclasses
import math

import numpy as np
import pytest
import warp as wp

import stickslip as ss
from stickslip.bench import runner, timing
from stickslip.bench.experiment import Trial
from stickslip.bench.experiments.speed import speed
from stickslip.bench.experiments.speed.speed import Case, Settings, Speed, array_bytes, parse
from stickslip.bench.report import summary
from stickslip.bench.result import load
from stickslip.errors import HealthWarning, InputError
from stickslip.physics.base import StagedPhysics
from tests.bench import scripted

CASE = "scaling, 2 worlds"


def one_cube(mjm, mjd):
    """One cube a millimetre deep in the block: four contacts."""
    for body in range(12):
        mjd.qpos[7 * body : 7 * body + 7] = (0.2 * body, 0.0, 5.0, 1.0, 0.0, 0.0, 0.0)
    mjd.qpos[:3] = (0.0, 0.0, 0.1 + 0.025 - 1e-3)


def test_cases_are_written_in_words():
    settings = Settings()
    assert parse("hand x 4096", settings) == Case("hand", 4096, False, 300, 300, 1)
    assert parse("hand x 16 commanded after 1000 for 20", Settings(repeats=3)) == Case("hand", 16, True, 1000, 20, 3)
    assert parse("hand x 1 after 0 once", Settings(repeats=3)) == Case("hand", 1, False, 0, 300, 1)
    assert parse("hand x 16 commanded", settings).label == "hand, commanded, 16 worlds"
    for wrong in ("hand", "hand x", "hand x 0", "hand x 2 for 0", "hand x -1", "hand x 2 sometimes"):
        with pytest.raises(InputError, match="SCENE x WORLDS"):
            parse(wrong, settings)
    with pytest.raises(InputError, match="twice"):
        Speed().cases(Settings(cases=("hand x 2", "hand x 2 for 5")))


def test_a_cpu_gets_cases_of_its_own_and_what_is_given_goes_first():
    speed = Speed()
    assert speed.make_settings(device="cuda:0") == speed.make_settings() == Settings()
    assert speed.make_settings(device="cpu").cases == Speed.cpu["cases"]
    assert speed.make_settings(device="cpu", quick=True).cases == Speed.quick["cases"]
    assert speed.make_settings({"cases": "hand x 3"}, device="cpu", quick=True).cases == ("hand x 3",)
    for name in ("scaling", "drop-test", "humanoid, commanded", "humanoid", "hand, commanded", "hand"):
        assert f"{name}, 1 world" in speed.cases(speed.make_settings(device="cpu"))


def test_only_steps_after_the_transient_are_timed(tmp_path):
    clock, step = scripted.Clock(), iter(range(1000))
    fake = scripted.Scripted(one_cube, clock, lambda ncon: 1e-3 if next(step) >= 25 else 1.0)
    settings = {"cases": "scaling x 2 after 25 for 33 once"}
    result = scripted.run(Speed(), {"fake": fake}, tmp_path, settings=settings, clock=clock, picture=False)
    assert next(step) == 25 + 33
    assert result.metric("fake", CASE, "ms_per_step") == pytest.approx(1.0)
    assert result.metric("fake", CASE, "median_ms") == pytest.approx(1.0)
    assert result.metric("fake", CASE, "world_steps_per_s") == pytest.approx(2000.0)
    assert result.metric("fake", CASE, "contacts_per_world") == pytest.approx(4.0)
    assert result.metric("fake", CASE, "penetration_mm") == pytest.approx(1.0, rel=1e-3)
    assert result.metric("fake", CASE, "penetration_max_mm") == pytest.approx(1.0, rel=1e-3)


def test_of_repeated_runs_the_fastest_of_each_chunk_counts(tmp_path):
    clock, step = scripted.Clock(), iter(range(1000))
    fake = scripted.Scripted(one_cube, clock, lambda ncon: 1.0 if next(step) in (7, 45) else 1e-3)
    settings = {"cases": "scaling x 2", "after": 0, "steps": 30, "chunk": 10, "repeats": 2}
    result = scripted.run(Speed(), {"fake": fake}, tmp_path, settings=settings, clock=clock, picture=False)
    assert next(step) == 60
    assert result.metric("fake", CASE, "ms_per_step") == pytest.approx(1.0)
    assert result.problems("fake", CASE) == []


def test_ratios_are_those_of_the_script_and_the_faster_mujoco_counts(tmp_path):
    clock = scripted.Clock()
    times = {"mujoco": 5e-3, "mujoco-anti-creep": 20e-3, "comfree": 2e-3}
    physics = {n: scripted.Scripted(one_cube, clock, lambda ncon, t=t: t) for n, t in times.items()}
    result = scripted.run(Speed(), physics, tmp_path, quick=True, clock=clock)
    assert result.metric("comfree", CASE, "speedup") == pytest.approx(2.5)
    assert result.metric("comfree", CASE, "speedup_over_mujoco_anti_creep") == pytest.approx(10.0)
    assert result.metric("mujoco-anti-creep", CASE, "speedup") == pytest.approx(0.25)
    assert math.isnan(result.metric("comfree", CASE, "memory_gain"))


def test_time_over_that_of_mujoco_in_c_is_a_score_of_one_world(tmp_path):
    clock = scripted.Clock()
    times = {"mujoco": 5e-3, "cone-sweep": 3e-3, "mujoco-c": 2e-3}
    physics = {n: scripted.Scripted(one_cube, clock, lambda ncon, t=t: t) for n, t in times.items()}
    settings = {"cases": "scaling x 1,scaling x 2", "steps": 20, "repeats": 1}
    result = scripted.run(Speed(), physics, tmp_path, settings=settings, clock=clock)
    ratios = {n: result.metric(n, "scaling, 1 world", "time_over_mujoco_c") for n in times}
    assert ratios == pytest.approx({"mujoco": 2.5, "cone-sweep": 1.5, "mujoco-c": 1.0})
    table = summary.rows(Speed(), result, list(times))
    (row,) = [row for row in table if row.score.metric == "time_over_mujoco_c"]
    assert row.score.title == "time of a step over that of MuJoCo in C, one core, scaling, 1 world"
    assert row.cells["cone-sweep"].text == "1.5"
    assert row.cells["mujoco-c"].best
    texts = [text.get_text() for text in Speed().draw(result).axes[0].texts]
    assert texts[1] == "3 ms (1.67 x), 1.5 x C, 4"
    titles = [score.title for score in Speed().scores(Speed().make_settings(device="cpu"))]
    for name in ("humanoid", "hand", "scaling", "drop-test"):
        assert f"time of a step over that of MuJoCo in C, one core, {name}, 1 world" in titles
    assert not [score for score in Speed().scores(Settings()) if score.metric == "time_over_mujoco_c"]


class Staged(scripted.Scripted, StagedPhysics):
    """Its stages take known times; "contact" does what "constraints" did before it once more."""

    def stages(self, m, d):
        def stage(seconds):
            def run():
                assert self.clock is not None
                self.clock.now += seconds

            return run

        return [("kinematics", stage(1e-3)), ("constraints", stage(2e-3)), ("contact", stage(3e-3))]


def test_stages_take_the_times_of_the_script_and_contact_is_told_from_what_it_repeats(tmp_path):
    clock = scripted.Clock()
    fake = Staged(one_cube, clock, lambda ncon: 6e-3)
    result = scripted.run(Speed(), {"fake": fake}, tmp_path, quick=True, clock=clock)
    stages = {n: result.metric("fake", CASE, f"stage_ms: {n}") for n in ("kinematics", "constraints", "contact")}
    assert stages == pytest.approx({"kinematics": 1.0, "constraints": 2.0, "contact": 3.0})
    assert result.metric("fake", CASE, "contact_share") == pytest.approx(0.5)


@wp.struct
class Struct:
    numbers: wp.array[float]
    count: int


def test_bytes_of_nested_arrays():
    @dataclasses.dataclass
    class Inner:
        a: wp.array
        b: int

    @dataclasses.dataclass
    class Outer:
        c: wp.array
        inner: Inner

    with wp.ScopedDevice("cpu"):
        data = Outer(wp.zeros(10, dtype=wp.vec3), Inner(wp.zeros((2, 3), dtype=float), 7))
        struct = Struct()
        struct.numbers, struct.count = wp.zeros(5, dtype=float), 3
    assert array_bytes(data) == 10 * 12 + 6 * 4
    assert array_bytes(struct) == 5 * 4
    assert array_bytes(Outer(data.c, Inner(data.c, 7))) == 10 * 12  # once
    assert array_bytes(Outer(data.c[2:5], Inner(data.c, 7))) == 10 * 12
    assert array_bytes("text") == 0


def test_small_run_has_every_metric(tmp_path):
    names = ["mujoco", "comfree"]
    everyone = [*names, "mujoco-c"]
    result = load(runner.run(Speed(), tmp_path, methods=everyone, device="cpu", quick=True))
    assert result.settings["cases"] == ["scaling x 2"]
    for name in names:
        for metric in ("ms_per_step", "bytes_per_world", "compile_s", "stage_ms: collision", "stage_ms: contact"):
            assert result.metric(name, CASE, metric) > 0.0
        assert result.problems(name, CASE) == []
    assert result.metric("comfree", CASE, "memory_gain") > 1.0
    assert result.metric("mujoco-c", CASE, "ms_per_step") > 0.0
    assert result.metric("mujoco-c", CASE, "contacts_per_world") == pytest.approx(
        result.metric("mujoco", CASE, "contacts_per_world"), rel=0.05
    )
    assert result.problems("mujoco-c", CASE) == []
    assert (tmp_path / "speed.png").exists()


def test_commands_are_about_the_first_targets(tmp_path):
    seen = []
    clock = scripted.Clock()
    fake = scripted.Scripted(lambda mjm, mjd: seen.append(mjd.ctrl - mjm.key_ctrl[0]), clock, lambda ncon: 1e-3)
    settings = {"cases": "hand x 2 commanded after 0 for 120 once", "noise": 0}
    scripted.run(Speed(), {"fake": fake}, tmp_path, settings=settings, clock=clock, picture=False)
    given = np.reshape(seen, (120, 2, 16))
    random = np.random.default_rng(0)
    random.normal(0.0, 0.0, (2, 22))
    commands = [random.uniform(-0.5, 0.5, (2, 16)) for _ in range(3)]
    assert given == pytest.approx(np.repeat(commands, 50, axis=0)[:120], abs=1e-6)


def test_stages_are_timed_although_a_world_is_no_longer_finite(monkeypatch):
    run = speed._run

    def break_one(sim, *rest):
        rows = run(sim, *rest)
        qpos = sim.qpos.numpy().copy()
        qpos[1, 0] = math.nan
        sim.qpos.assign(qpos)
        return rows

    monkeypatch.setattr(speed, "_run", break_one)
    monkeypatch.setattr(timing, "BROKEN", 0.5)
    settings = Settings(cases=("scaling x 2 after 0 for 5",), chunk=5, stage_repeats=1, repeats=1)
    with pytest.warns(HealthWarning, match="no longer finite"):
        outcome = Speed().measure(Speed().cases(settings)[CASE], ss.MuJoCo(), settings, Trial("cpu"))
    assert outcome.metrics["ms_per_step"] > 0
    assert outcome.metrics["stage_ms: contact"] > 0
    assert "no longer finite (1)" in outcome.problems[0]


def test_the_contact_stage_starts_as_warm_as_in_a_step(monkeypatch):
    """All that a step reads from before is there in each stage, and again after all of them."""
    seen, stages = [], ss.MuJoCo.stages

    def watched(self, m, d):
        def looking(run):
            def look():
                seen.append(d.qacc_warmstart.numpy().copy())
                run()

            return look

        return [(name, looking(run) if name == "contact" else run) for name, run in stages(self, m, d)]

    monkeypatch.setattr(ss.MuJoCo, "stages", watched)
    physics = ss.MuJoCo()
    sim = ss.Simulation("scaling", physics, nworld=2, device="cpu")
    sim.step(150)
    warm = sim.d.qacc_warmstart.numpy().copy()
    before = {name: array.numpy().copy() for name, array in physics.arrays(sim.m, sim.d).items()}
    assert np.abs(warm).max() > 0.0
    seen.clear()
    times = speed._time_stages(sim, physics, 2, Trial("cpu"))
    assert times["contact"] > 0.0
    assert len(seen) >= 2
    for start in seen:
        np.testing.assert_array_equal(start, warm)
    for name, array in physics.arrays(sim.m, sim.d).items():
        np.testing.assert_array_equal(array.numpy(), before[name], err_msg=name)


def test_the_picture_shows_contacts_and_memory(tmp_path):
    clock = scripted.Clock()
    result = scripted.run(
        Speed(), {"fake": scripted.Scripted(one_cube, clock, lambda ncon: 2e-3)}, tmp_path, quick=True, clock=clock
    )
    result.outcomes["fake"][CASE]["metrics"]["bytes_per_world"] = 12_300.0
    (text,) = [text.get_text() for text in Speed().draw(result).axes[0].texts]
    assert text == "2 ms, 4, 12.3 kB"
