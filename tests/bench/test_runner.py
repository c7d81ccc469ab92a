"""Running experiments: settings, methods, what is kept after an interruption, and who cannot take part."""

import dataclasses
import json
import math
import multiprocessing

import pytest
from rich.console import Console

import stickslip as ss
from stickslip import parameters
from stickslip.bench import EXPERIMENTS, methods, runner
from stickslip.bench.baselines.pbd_paper.physics import PbdRPaper
from stickslip.bench.experiment import Experiment, Outcome, Score
from stickslip.bench.experiments.friction.stick import Stick
from stickslip.bench.report import style
from stickslip.bench.result import load
from stickslip.errors import InputError, MissingExtra, Unsupported
from stickslip.parameters import parameter
from stickslip.physics import registry
from stickslip.physics.base import Physics
from tests.bench import scripted


@dataclasses.dataclass(frozen=True)
class Settings:
    size: float = parameter(1.0, "size of it [m]", low=0.1, high=10.0)
    count: int = parameter(3, "number of cases", low=1, high=9)
    steps: tuple[float, ...] = parameter((0.1, 0.2), "lengths [s]", low=0.01, high=1.0)
    careful: bool = parameter(True, "whether to take care")
    kind: str = parameter("plain", "what kind")


class Counting(Experiment[Settings]):
    """Gives the size times the case, and counts how often it is asked."""

    name = "counting"
    summary = "counts"
    source = "stickslip"
    settings = Settings
    quick = {"count": 1}

    def __init__(self, *, timing=False, fail_at=None, raises=None):
        self.timing, self.fail_at, self.raises, self.asked = timing, fail_at, raises, []

    def cases(self, settings):
        return {f"case {i}": i for i in range(settings.count)}

    def measure(self, case, physics, settings, trial):
        if self.fail_at is not None and len(self.asked) == self.fail_at:
            raise KeyboardInterrupt
        if self.raises and physics.name == "scripted" and case == 1:
            raise self.raises
        self.asked.append(case)
        trial.progress(1.0)
        value = math.nan if case == 2 else settings.size * case
        return Outcome({"value": value}, {"list": [1.23456789, math.inf, 0.0]}, ["broke"] if case == 2 else [])

    def scores(self, settings):
        return [Score("value of it", f"case {i}", "value", "m") for i in range(settings.count)]

    def draw(self, result):
        from stickslip.bench.report import style

        return style.figure("counting")[0]


def fake():
    return {"fake": scripted.Scripted(lambda mjm, mjd: None)}


def test_settings_are_taken_from_text_and_checked():
    made = Counting().make_settings({"size": "2.5", "steps": "0.5,0.25", "careful": "False", "count": "4"})
    assert made == Settings(size=2.5, count=4, steps=(0.5, 0.25), careful=False)
    assert Counting().make_settings({"steps": [0.5]}, quick=True) == Settings(count=1, steps=(0.5,))


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("sise", "1", ["sise", "'size'", "steps"]),
        ("size", "11", ["11", "from 0.1 to 10"]),
        ("size", "nan", ["nan"]),
        ("size", "big", ["big", "a number from 0.1 to 10"]),
        ("size", True, ["True"]),
        ("count", "2.5", ["2.5"]),
        ("steps", "0.1,9", ["9", "from 0.01 to 1"]),
        ("steps", "", ["''"]),
        ("steps", (), ["one or more"]),
        ("careful", "maybe", ["maybe"]),
        ("kind", 3, ["3"]),
    ],
)
def test_a_wrong_setting_is_named_with_its_limit(name, value, words):
    with pytest.raises(InputError) as error:
        Counting().make_settings({name: value})
    for word in [name, *words]:
        assert word in str(error.value)


def test_every_physics_takes_part_and_mujoco_twice():
    entries = methods.entries()
    named = {name for name in ss.PHYSICS if entries[name].role != "production"}
    assert named == {"scm"}
    assert {*methods.names(), *named} == {*ss.PHYSICS, "mujoco-anti-creep"}
    found = methods.resolve(methods.names())
    assert found["mujoco"].subject == ss.MuJoCo()
    assert found["mujoco-anti-creep"].subject == ss.MuJoCo(anti_creep=True)


def test_a_new_physics_joins_by_existing(monkeypatch):
    entry = dataclasses.replace(registry.find("comfree"), name="new")
    known = registry.entries() | {"new": entry}
    monkeypatch.setattr(registry, "entries", lambda: known)
    assert "new" in methods.names()
    assert methods.resolve(["new:stiffness=0.1"])["new:stiffness=0.1"].subject == ss.ComFree(stiffness=0.1)


def test_a_method_may_have_parameters_of_its_own():
    spec = "comfree:stiffness=0.1,damping=0.002,impedance=exact"
    want = ss.ComFree(stiffness=0.1, damping=0.002, impedance="exact")
    assert methods.resolve([spec])[spec].subject == want
    assert methods.resolve(["mujoco:anti_creep=true"])["mujoco:anti_creep=true"].subject == ss.MuJoCo(anti_creep=True)


def test_the_published_method_takes_parameters_but_is_no_physics_of_its_own():
    spec = "pbd-r-paper:velocity=false,resolution=3"
    assert methods.resolve([spec])[spec].subject == PbdRPaper(velocity=False, resolution=3)
    assert methods.resolve(["pbd-r-paper"])["pbd-r-paper"].subject == PbdRPaper() != ss.PbdR()
    assert "pbd-r-paper" not in methods.names()


def test_an_experiment_may_name_who_runs_by_default(tmp_path):
    class Choosy(Counting):
        only = ("comfree",)
        extra = ("comfree:stiffness=0.1",)

    assert runner.methods_of(Counting()) == methods.names()
    result = load(runner.run(Choosy(), tmp_path, device="cpu"))
    assert list(result.methods) == ["comfree", "comfree:stiffness=0.1"]
    quick = load(runner.run(Choosy(), tmp_path / "quick", device="cpu", quick=True))
    assert list(quick.methods) == ["comfree"]


@pytest.mark.parametrize(
    ("method", "text"),
    [
        ("pbd-r", "pbd-r"),
        ("comfree:stiffness=0.1,damping=0.001", "comfree 0.1, 0.001"),
        ("pbd-r-ablated:inertia=packed,iterations=10", "pbd-r-ablated inertia packed, 10"),
        ("pbd-r-paper:velocity=false", "pbd-r-paper without velocity"),
        ("mujoco:anti_creep=True", "mujoco with anti_creep"),
    ],
)
def test_a_label_tells_numbers_choices_and_switches(method, text):
    assert style.short(method) == text


@pytest.mark.parametrize(
    ("method", "text"),
    [
        ("pbd-r", "pbd-r"),
        ("pbd-r-ablated:inertia=packed,iterations=10", "pbd-r-ablated: inertia packed, iterations 10"),
        ("pbd-r-paper:velocity=false", "pbd-r-paper: without velocity"),
    ],
)
def test_a_label_in_full_names_every_value(method, text):
    assert style.in_full(method) == text


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("comfee", ["comfee", "'comfree'", "mujoco-anti-creep"]),
        ("comfree:stifness=0.1", ["stifness", "stiffness, damping"]),
        ("comfree:stiffness", ["'stiffness'"]),
        ("comfree:stiffness=-1", ["stiffness", "-1"]),
        ("comfree:stiffness=hard", ["stiffness", "hard"]),
        ("mujoco:anti_creep=5", ["anti_creep", "5"]),
        ("mujoco-anti-creep:a=1", ["mujoco:anti_creep=true,a=1"]),
        ("pbd-r-paper:velocity=5", ["velocity", "5"]),
        ("pbd-r-paper:speed=5", ["'speed'", "velocity, linear, angular"]),
    ],
)
def test_a_wrong_method_is_named_with_the_choices(spec, words):
    with pytest.raises(InputError) as error:
        methods.resolve([spec])
    for word in words:
        assert word in str(error.value)


def test_what_is_stored(tmp_path):
    path = runner.run(Counting(), tmp_path, methods=fake(), device="cpu", settings={"size": 2.0}, seed=7)
    result = load(path)
    assert result.complete
    assert (result.seed, result.device, result.quick) == (7, "cpu", False)
    assert result.settings == {"size": 2.0, "count": 3, "steps": [0.1, 0.2], "careful": True, "kind": "plain"}
    assert {"device", "cores", "arch"} <= result.machine.keys()
    assert {"stickslip", "mujoco", "mujoco-warp", "warp-lang", "numpy", "python"} <= result.versions.keys()
    assert result.metric("fake", "case 1", "value") == 2.0
    assert math.isnan(result.metric("fake", "case 2", "value"))
    assert result.problems("fake", "case 2") == ["broke"]
    stored = json.loads(path.read_text())["outcomes"]["fake"]["case 1"]["series"]["list"]
    assert stored == [1.23457, None, 0.0]
    assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_an_interruption_keeps_what_is_finished_and_a_rerun_goes_on(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        runner.run(Counting(fail_at=2), tmp_path, methods=fake(), device="cpu")
    path = tmp_path / "counting.json"
    assert list(load(path).outcomes["fake"]) == ["case 0", "case 1"]
    assert not load(path).complete
    second = Counting()
    runner.run(second, tmp_path, methods=fake(), device="cpu")
    assert second.asked == [2]
    assert load(path).complete
    third = Counting()
    runner.run(third, tmp_path, methods=fake(), device="cpu")
    assert third.asked == []
    runner.run(third, tmp_path, methods=fake(), device="cpu", again=True)
    assert third.asked == [0, 1, 2]


def test_the_small_form_does_not_replace_what_was_measured(tmp_path):
    path = runner.run(Counting(), tmp_path, methods=fake(), device="cpu")
    before = path.read_bytes()
    with pytest.raises(InputError, match="--again"):
        runner.run(Counting(), tmp_path, methods=fake(), device="cpu", quick=True)
    assert path.read_bytes() == before
    runner.run(Counting(), tmp_path, methods=fake(), device="cpu", quick=True, again=True)
    assert load(path).quick


def test_what_is_there_stays_until_there_is_something_new(tmp_path):
    path = runner.run(Counting(), tmp_path, methods=fake(), device="cpu")
    before = path.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        runner.run(Counting(fail_at=0), tmp_path, methods=fake(), device="cpu", settings={"size": 2.0})
    assert path.read_bytes() == before
    assert path.with_suffix(".png").exists()
    with pytest.raises(KeyboardInterrupt):
        runner.run(Counting(fail_at=1), tmp_path, methods=fake(), device="cpu", settings={"size": 2.0})
    assert load(path).settings["size"] == 2.0
    assert not path.with_suffix(".png").exists()


def test_what_other_code_measured_is_measured_again(tmp_path, monkeypatch):
    runner.run(Counting(), tmp_path, methods=fake(), device="cpu")
    monkeypatch.setattr(runner, "source", lambda experiment, modules: "other")
    second = Counting()
    runner.run(second, tmp_path, methods=fake(), device="cpu")
    assert second.asked == [0, 1, 2]


@pytest.mark.parametrize("change", [{"settings": {"size": 2.0}}, {"seed": 1}], ids=["settings", "seed"])
def test_nothing_is_taken_over_from_other_conditions(change, tmp_path):
    runner.run(Counting(), tmp_path, methods=fake(), device="cpu")
    second = Counting()
    runner.run(second, tmp_path, methods=fake(), device="cpu", **change)
    assert second.asked[0] == 0


def test_another_method_is_added_to_what_is_there(tmp_path):
    runner.run(Counting(), tmp_path, methods=fake(), device="cpu")
    second = Counting()
    both = {**fake(), "other": scripted.Scripted(lambda mjm, mjd: None)}
    result = load(runner.run(second, tmp_path, methods=both, device="cpu"))
    assert second.asked == [0, 1, 2]
    assert result.ran("case 0") == ["fake", "other"]


def test_what_was_not_asked_for_is_kept(tmp_path):
    both = {**fake(), "other": scripted.Scripted(lambda mjm, mjd: None)}
    runner.run(Counting(), tmp_path, methods=both, device="cpu")
    third = {"third": scripted.Scripted(lambda mjm, mjd: None)}
    assert load(runner.run(Counting(), tmp_path, methods=third, device="cpu")).ran("case 0") == [
        "fake",
        "other",
        "third",
    ]
    again = Counting()
    result = load(runner.run(again, tmp_path, methods=fake(), device="cpu", again=True))
    assert again.asked == [0, 1, 2]
    assert sorted(result.ran("case 0")) == ["fake", "other", "third"]
    assert result.complete


def other():
    return {"other": scripted.Scripted(lambda mjm, mjd: None)}


def test_a_method_is_measured_again_and_the_others_are_kept(tmp_path, monkeypatch):
    both = {**fake(), **other()}
    path = runner.run(Counting(), tmp_path, methods=both, device="cpu")
    old = load(path)
    monkeypatch.setattr(runner, "source", lambda experiment, modules: "changed")
    second = Counting()
    result = load(runner.run(second, tmp_path, methods=other(), device="cpu"))
    assert second.asked == [0, 1, 2]
    assert result.complete and result.ran("case 0") == ["fake", "other"]
    assert result.methods["fake"] == old.methods["fake"]
    assert result.outcomes["fake"] == old.outcomes["fake"]
    assert result.methods["other"].source == "changed" != result.methods["fake"].source
    assert result.methods["other"].time >= old.methods["other"].time
    assert result.methods["other"].seconds > 0.0


@pytest.mark.parametrize(("field", "key"), [("machine", "cores"), ("versions", "numpy")])
def test_nothing_is_kept_of_another_machine_or_of_other_versions(field, key, tmp_path, monkeypatch):
    here = dict(getattr(load(runner.run(Counting(), tmp_path, methods=fake(), device="cpu")), field))
    monkeypatch.setattr(runner, field, lambda *args: {**here, key: "new"})
    report = Console(record=True, width=400)
    result = load(runner.run(Counting(), tmp_path, methods=other(), device="cpu", console=report))
    assert list(result.methods) == ["other"]
    assert f"{field} ({key}: {here[key]} there, new here)" in report.export_text()


def test_two_results_meet_in_one_file(tmp_path):
    """A second run writes between two measurements of the first."""

    class Nested(Counting):
        def measure(self, case, physics, settings, trial):
            if case == 1:
                runner.run(Counting(), tmp_path, methods=other(), device="cpu", picture=False)
            return super().measure(case, physics, settings, trial)

    result = load(runner.run(Nested(), tmp_path, methods=fake(), device="cpu"))
    assert result.complete
    assert result.ran("case 0") == ["fake", "other"]


@pytest.mark.parametrize(
    ("timing", "inner", "words"),
    [(False, {"seed": 1}, "seed (1 there, 0 here)"), (True, {}, "within one run only")],
    ids=["conditions", "timing"],
)
def test_a_run_that_cannot_share_the_file_stops(timing, inner, words, tmp_path):
    class Nested(Counting):
        def measure(self, case, physics, settings, trial):
            if case == 1:
                runner.run(Counting(timing=timing), tmp_path, methods=other(), device="cpu", picture=False, **inner)
            return super().measure(case, physics, settings, trial)

    with pytest.raises(InputError, match="another process") as error:
        runner.run(Nested(timing=timing), tmp_path, methods=fake(), device="cpu")
    assert words in str(error.value)
    assert load(tmp_path / "counting.json").ran("case 0") == ["other"]


def _many(label, out, start):
    start.wait()
    runner.run(Counting(), out, methods={label: fake()["fake"]}, device="cpu", settings={"count": 9}, picture=False)


def test_two_processes_lose_nothing_of_each_other(tmp_path):
    """Both write nine times into one file; without the lock, one overwrites what the other has just stored."""
    context = multiprocessing.get_context("fork")
    start = context.Barrier(3)
    workers = [context.Process(target=_many, args=(label, tmp_path, start)) for label in ("a", "b")]
    for worker in workers:
        worker.start()
    start.wait()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    result = load(tmp_path / "counting.json")
    assert set(result.methods) == {"a", "b"}
    assert result.complete
    assert not list(tmp_path.glob(".*"))


def test_step_times_are_never_put_together_from_two_runs(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        runner.run(Counting(timing=True, fail_at=2), tmp_path, methods=fake(), device="cpu")
    second = Counting(timing=True)
    runner.run(second, tmp_path, methods=fake(), device="cpu")
    assert second.asked == [0, 1, 2]
    told = Console(record=True, width=200)
    other = {"other": scripted.Scripted(lambda mjm, mjd: None)}
    runner.run(Counting(timing=True), tmp_path / "copy", methods=fake(), device="cpu")
    runner.run(Counting(timing=True), tmp_path / "copy", methods=other, device="cpu", console=told, again=True)
    assert "dropped: fake" in told.export_text()
    third = Counting(timing=True)
    runner.run(third, tmp_path, methods=fake(), device="cpu")
    assert third.asked == []


@pytest.mark.parametrize("error", [Unsupported("fake knows no balls"), MissingExtra("needs balls: pip install balls")])
def test_who_cannot_run_a_case_is_listed_with_the_reason(error, tmp_path):
    result = load(runner.run(Counting(raises=error), tmp_path, methods=fake(), device="cpu"))
    assert result.unsupported("fake") == {"case 1": str(error)}
    assert result.ran("case 1") == []
    assert result.complete


def test_a_file_of_another_kind_is_not_taken_for_a_result(tmp_path):
    path = tmp_path / "counting.json"
    for content in ("{", "[]", '{"format": 1}', '{"format": 3}', ""):
        path.write_text(content)
        with pytest.raises(InputError, match=str(path)):
            load(path)
    runner.run(Counting(), tmp_path, methods=fake(), device="cpu")
    assert load(path).complete


def test_a_run_of_hardly_any_steps_is_an_error(tmp_path):
    settings = {"duration": 0.1, "timesteps": 0.05}
    with pytest.raises(InputError, match=r"2 steps of 0.05 s, at least 4 .* raise the duration"):
        runner.run(Stick(), tmp_path, methods=fake(), device="cpu", settings={**settings, "timesteps": "0.05"})


def test_a_negative_seed_is_an_error(tmp_path):
    with pytest.raises(InputError, match="seed is -1"):
        runner.run(Counting(), tmp_path, methods=fake(), device="cpu", seed=-1)


def test_no_physics_at_all_is_an_error(tmp_path):
    with pytest.raises(InputError, match="no physics"):
        runner.run(Counting(), tmp_path, methods=[], device="cpu")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_is_complete(name):
    experiment = EXPERIMENTS[name]
    assert experiment.name == name
    assert experiment.summary
    assert experiment.source
    methods.resolve(runner.methods_of(experiment))
    for field in dataclasses.fields(experiment.settings):
        assert parameters.declaration(field).meaning
    for quick in (False, True):
        settings = experiment.make_settings(quick=quick)
        assert experiment.make_settings(dataclasses.asdict(settings)) == settings
        cases = experiment.cases(settings)
        scores = experiment.scores(settings)
        assert scores
        assert {score.case for score in scores} <= set(cases)


def test_physics_are_instances():
    assert all(isinstance(m.subject, Physics) for m in methods.resolve(methods.names()).values())
