"""Running experiments: settings, contenders, what is kept after an interruption, and who cannot take part."""

import dataclasses
import json
import math

import pytest
from rich.console import Console

import stickslip as ss
from stickslip.bench import EXPERIMENTS, contenders, runner, style, summary
from stickslip.bench.experiment import Experiment, Outcome, Score, setting
from stickslip.bench.result import load
from stickslip.bench.stick import Stick
from stickslip.errors import InputError, MissingExtra, Unsupported
from stickslip.physics.base import Physics
from tests.bench import scripted


@dataclasses.dataclass(frozen=True)
class Settings:
    size: float = setting(1.0, "size of it [m]", low=0.1, high=10.0)
    count: int = setting(3, "number of cases", low=1, high=9)
    steps: tuple[float, ...] = setting((0.1, 0.2), "lengths [s]", low=0.01, high=1.0)
    careful: bool = setting(True, "whether to take care")
    kind: str = setting("plain", "what kind")


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
        from stickslip.bench import style

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
        ("sise", "1", ["sise", "size=1.0", "steps=0.1,0.2"]),
        ("size", "11", ["11", "between 0.1 and 10", "size of it"]),
        ("size", "nan", ["nan"]),
        ("size", "big", ["big", "size=1.0"]),
        ("size", True, ["True"]),
        ("count", "2.5", ["2.5"]),
        ("steps", "0.1,9", ["9", "between 0.01 and 1"]),
        ("steps", "", ["''"]),
        ("steps", (), ["one value or more"]),
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
    assert {*contenders.names(), *contenders.FOILS, *contenders.APART} == {*ss.PHYSICS, "mujoco-anti-creep"}
    entrants = contenders.resolve(contenders.names())
    assert entrants["mujoco"] == ss.MuJoCo()
    assert entrants["mujoco-anti-creep"] == ss.MuJoCo(anti_creep=True)


def test_a_new_physics_joins_by_existing(monkeypatch):
    monkeypatch.setitem(ss.PHYSICS, "new", ss.ComFree)
    assert "new" in contenders.names()


def test_a_contender_may_have_parameters_of_its_own():
    spec = "comfree:stiffness=0.1,damping=0.002,impedance=exact"
    want = ss.ComFree(stiffness=0.1, damping=0.002, impedance="exact")
    assert contenders.resolve([spec]) == {spec: want}
    assert contenders.resolve(["mujoco:anti_creep=true"])["mujoco:anti_creep=true"] == ss.MuJoCo(anti_creep=True)


def test_the_published_method_takes_parameters_but_is_no_physics_of_its_own():
    spec = "pbd-r-paper:velocity=false,resolution=3"
    assert contenders.resolve([spec])[spec] == ss.PbdR.paper(velocity=False, resolution=3)
    assert contenders.resolve(["pbd-r-paper"])["pbd-r-paper"] == ss.PbdR.paper() != ss.PbdR()
    assert "pbd-r-paper" not in contenders.names()


def test_an_experiment_may_name_who_runs_by_default(tmp_path):
    class Choosy(Counting):
        only = ("comfree",)
        extra = ("comfree:stiffness=0.1",)

    assert runner.entrants_of(Counting()) == contenders.names()
    result = load(runner.run(Choosy(), tmp_path, device="cpu"))
    assert list(result.contenders) == ["comfree", "comfree:stiffness=0.1"]


@pytest.mark.parametrize(
    ("contender", "text"),
    [
        ("pbd-r", "pbd-r"),
        ("comfree:stiffness=0.1,damping=0.001", "comfree 0.1, 0.001"),
        ("pbd-r:inertia=packed,iterations=10", "pbd-r inertia packed, 10"),
        ("pbd-r-paper:velocity=false", "pbd-r-paper without velocity"),
        ("mujoco:anti_creep=True", "mujoco with anti_creep"),
    ],
)
def test_a_label_tells_numbers_choices_and_switches(contender, text):
    assert style.short(contender) == text


@pytest.mark.parametrize(
    ("contender", "text"),
    [
        ("pbd-r", "pbd-r"),
        ("pbd-r:inertia=packed,iterations=10", "pbd-r: inertia packed, iterations 10"),
        ("pbd-r-paper:velocity=false", "pbd-r-paper: without velocity"),
    ],
)
def test_a_label_in_full_names_every_value(contender, text):
    assert style.in_full(contender) == text


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
        ("pbd-r-paper:speed=5", ["speed=5", "velocity, linear, angular"]),
    ],
)
def test_a_wrong_contender_is_named_with_the_choices(spec, words):
    with pytest.raises(InputError) as error:
        contenders.resolve([spec])
    for word in words:
        assert word in str(error.value)


def test_what_is_stored(tmp_path):
    path = runner.run(Counting(), tmp_path, physics=fake(), device="cpu", settings={"size": 2.0}, seed=7)
    result = load(path)
    assert result.complete
    assert (result.seed, result.device, result.quick) == (7, "cpu", False)
    assert result.settings == {"size": 2.0, "count": 3, "steps": [0.1, 0.2], "careful": True, "kind": "plain"}
    assert {"device", "cores", "arch"} <= result.machine.keys()
    assert {"stickslip", "mujoco", "mujoco-warp", "warp-lang", "numpy", "python"} <= result.versions.keys()
    assert result.figure("fake", "case 1", "value") == 2.0
    assert math.isnan(result.figure("fake", "case 2", "value"))
    assert result.problems("fake", "case 2") == ["broke"]
    stored = json.loads(path.read_text())["outcomes"]["fake"]["case 1"]["series"]["list"]
    assert stored == [1.23457, None, 0.0]
    assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_an_interruption_keeps_what_is_finished_and_a_rerun_goes_on(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        runner.run(Counting(fail_at=2), tmp_path, physics=fake(), device="cpu")
    path = tmp_path / "counting.json"
    assert list(load(path).outcomes["fake"]) == ["case 0", "case 1"]
    assert not load(path).complete
    second = Counting()
    runner.run(second, tmp_path, physics=fake(), device="cpu")
    assert second.asked == [2]
    assert load(path).complete
    third = Counting()
    runner.run(third, tmp_path, physics=fake(), device="cpu")
    assert third.asked == []
    runner.run(third, tmp_path, physics=fake(), device="cpu", again=True)
    assert third.asked == [0, 1, 2]


def test_the_small_form_does_not_replace_what_was_measured(tmp_path):
    path = runner.run(Counting(), tmp_path, physics=fake(), device="cpu")
    before = path.read_bytes()
    with pytest.raises(InputError, match="--again"):
        runner.run(Counting(), tmp_path, physics=fake(), device="cpu", quick=True)
    assert path.read_bytes() == before
    runner.run(Counting(), tmp_path, physics=fake(), device="cpu", quick=True, again=True)
    assert load(path).quick


def test_what_is_there_stays_until_there_is_something_new(tmp_path):
    path = runner.run(Counting(), tmp_path, physics=fake(), device="cpu")
    before = path.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        runner.run(Counting(fail_at=0), tmp_path, physics=fake(), device="cpu", settings={"size": 2.0})
    assert path.read_bytes() == before
    assert path.with_suffix(".png").exists()
    with pytest.raises(KeyboardInterrupt):
        runner.run(Counting(fail_at=1), tmp_path, physics=fake(), device="cpu", settings={"size": 2.0})
    assert load(path).settings["size"] == 2.0
    assert not path.with_suffix(".png").exists()


def test_other_code_starts_over(tmp_path, monkeypatch):
    runner.run(Counting(), tmp_path, physics=fake(), device="cpu")
    monkeypatch.setattr(runner, "source", lambda experiment: "other")
    second = Counting()
    runner.run(second, tmp_path, physics=fake(), device="cpu")
    assert second.asked == [0, 1, 2]


@pytest.mark.parametrize("change", [{"settings": {"size": 2.0}}, {"seed": 1}], ids=["settings", "seed"])
def test_nothing_is_taken_over_from_other_conditions(change, tmp_path):
    runner.run(Counting(), tmp_path, physics=fake(), device="cpu")
    second = Counting()
    runner.run(second, tmp_path, physics=fake(), device="cpu", **change)
    assert second.asked[0] == 0


def test_another_contender_is_added_to_what_is_there(tmp_path):
    runner.run(Counting(), tmp_path, physics=fake(), device="cpu")
    second = Counting()
    both = {**fake(), "other": scripted.Scripted(lambda mjm, mjd: None)}
    result = load(runner.run(second, tmp_path, physics=both, device="cpu"))
    assert second.asked == [0, 1, 2]
    assert result.ran("case 0") == ["fake", "other"]


def test_what_was_not_asked_for_is_kept(tmp_path):
    both = {**fake(), "other": scripted.Scripted(lambda mjm, mjd: None)}
    runner.run(Counting(), tmp_path, physics=both, device="cpu")
    third = {"third": scripted.Scripted(lambda mjm, mjd: None)}
    assert load(runner.run(Counting(), tmp_path, physics=third, device="cpu")).ran("case 0") == [
        "fake",
        "other",
        "third",
    ]
    again = Counting()
    result = load(runner.run(again, tmp_path, physics=fake(), device="cpu", again=True))
    assert again.asked == [0, 1, 2]
    assert sorted(result.ran("case 0")) == ["fake", "other", "third"]
    assert result.complete


def other():
    return {"other": scripted.Scripted(lambda mjm, mjd: None)}


@pytest.fixture
def measured_earlier(tmp_path, monkeypatch):
    """The file of a run of `fake`, after which the code has changed."""
    path = runner.run(Counting(), tmp_path, physics=fake(), device="cpu")
    monkeypatch.setattr(runner, "source", lambda experiment: "changed")
    return path


def test_a_contender_is_added_with_the_code_and_the_time_of_its_own(measured_earlier):
    path = measured_earlier
    old = load(path)
    second = Counting()
    result = load(runner.run(second, path.parent, physics=other(), device="cpu", add=True))
    assert second.asked == [0, 1, 2]
    assert result.complete
    assert result.ran("case 0") == ["fake", "other"]
    assert result.outcomes["fake"] == old.outcomes["fake"]
    assert (result.source, result.time, result.seconds) == (old.source, old.time, old.seconds)
    assert list(result.added) == ["other"]
    assert result.added["other"]["source"] == result.source_of("other") == "changed" != result.source_of("fake")
    assert result.added["other"]["time"] >= old.time
    assert result.added["other"]["seconds"] > 0.0
    (note,) = [note for note in summary.notes(result) if "added" in note]
    assert note.startswith("other was added by a later run") and "changed" in note and old.source in note


def test_adding_goes_on_where_it_stopped_and_does_nothing_twice(measured_earlier):
    path = measured_earlier
    with pytest.raises(KeyboardInterrupt):
        runner.run(Counting(fail_at=2), path.parent, physics=other(), device="cpu", add=True)
    began = load(path).added["other"]["time"]
    for asked in ([2], []):
        again = Counting()
        runner.run(again, path.parent, physics=other(), device="cpu", add=True)
        assert again.asked == asked
    assert load(path).complete
    assert load(path).added["other"]["time"] == began


def test_what_was_measured_by_other_code_is_replaced_if_it_is_added(measured_earlier):
    path = measured_earlier
    second = Counting()
    result = load(runner.run(second, path.parent, physics=fake(), device="cpu", add=True))
    assert second.asked == [0, 1, 2]
    assert result.source_of("fake") == "changed" != result.source


def test_what_was_added_by_other_code_is_measured_anew_if_it_is_asked_for(measured_earlier, monkeypatch):
    path = measured_earlier
    first = load(path).source
    runner.run(Counting(), path.parent, physics=other(), device="cpu", add=True)
    monkeypatch.setattr(runner, "source", lambda experiment: first)
    third = Counting()
    result = load(runner.run(third, path.parent, physics=fake(), device="cpu"))
    assert third.asked == []
    assert list(result.added) == ["other"]
    result = load(runner.run(third, path.parent, physics=other(), device="cpu"))
    assert third.asked == [0, 1, 2]
    assert result.added == {}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"settings": {"size": 2.0}}, ["settings (size: 1.0 there, 2.0 now)"]),
        ({"seed": 1}, ["seed (0 there, 1 now)"]),
        ({"quick": True}, ["quick", "settings", "cases"]),
    ],
    ids=["settings", "seed", "quick"],
)
def test_nothing_is_added_under_other_conditions(change, words, measured_earlier):
    before = measured_earlier.read_bytes()
    with pytest.raises(InputError, match="would not compare") as error:
        runner.run(Counting(), measured_earlier.parent, physics=other(), device="cpu", add=True, **change)
    for word in words:
        assert word in str(error.value)
    assert measured_earlier.read_bytes() == before


@pytest.mark.parametrize(("field", "key"), [("machine", "cores"), ("versions", "numpy")])
def test_nothing_is_added_on_another_machine_or_with_other_versions(field, key, measured_earlier, monkeypatch):
    here = dict(getattr(load(measured_earlier), field))
    monkeypatch.setattr(runner, field, lambda *args: {**here, key: "new"})
    with pytest.raises(InputError, match=rf"{field} \({key}: {here[key]} there, new now\)"):
        runner.run(Counting(), measured_earlier.parent, physics=other(), device="cpu", add=True)


def test_there_must_be_something_to_add_and_to_add_to(tmp_path):
    with pytest.raises(InputError, match="nothing to add to"):
        runner.run(Counting(), tmp_path, physics=other(), device="cpu", add=True)
    runner.run(Counting(timing=True), tmp_path, physics=fake(), device="cpu")
    with pytest.raises(InputError, match="within one run only"):
        runner.run(Counting(timing=True), tmp_path, physics=other(), device="cpu", add=True)
    with pytest.raises(InputError, match="no physics given to add"):
        runner.run(Counting(), tmp_path, device="cpu", add=True)


def test_step_times_are_never_put_together_from_two_runs(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        runner.run(Counting(timing=True, fail_at=2), tmp_path, physics=fake(), device="cpu")
    second = Counting(timing=True)
    runner.run(second, tmp_path, physics=fake(), device="cpu")
    assert second.asked == [0, 1, 2]
    told = Console(record=True, width=200)
    other = {"other": scripted.Scripted(lambda mjm, mjd: None)}
    runner.run(Counting(timing=True), tmp_path / "copy", physics=fake(), device="cpu")
    runner.run(Counting(timing=True), tmp_path / "copy", physics=other, device="cpu", console=told, again=True)
    assert "dropped: fake" in told.export_text()
    third = Counting(timing=True)
    runner.run(third, tmp_path, physics=fake(), device="cpu")
    assert third.asked == []


@pytest.mark.parametrize("error", [Unsupported("fake knows no balls"), MissingExtra("needs balls: pip install balls")])
def test_who_cannot_run_a_case_is_listed_with_the_reason(error, tmp_path):
    result = load(runner.run(Counting(raises=error), tmp_path, physics=fake(), device="cpu"))
    assert result.unsupported("fake") == {"case 1": str(error)}
    assert result.ran("case 1") == []
    assert result.complete


def test_a_file_of_another_kind_is_not_taken_for_a_result(tmp_path):
    path = tmp_path / "counting.json"
    for content in ("{", "[]", '{"format": 1}', '{"format": 2}', ""):
        path.write_text(content)
        with pytest.raises(InputError, match=str(path)):
            load(path)
    runner.run(Counting(), tmp_path, physics=fake(), device="cpu")
    assert load(path).complete


def test_a_run_of_hardly_any_steps_is_an_error(tmp_path):
    settings = {"duration": 0.1, "timesteps": 0.05}
    with pytest.raises(InputError, match=r"2 steps of 0.05 s, at least 4 .* raise the duration"):
        runner.run(Stick(), tmp_path, physics=fake(), device="cpu", settings={**settings, "timesteps": "0.05"})


def test_a_negative_seed_is_an_error(tmp_path):
    with pytest.raises(InputError, match="seed is -1"):
        runner.run(Counting(), tmp_path, physics=fake(), device="cpu", seed=-1)


def test_no_physics_at_all_is_an_error(tmp_path):
    with pytest.raises(InputError, match="no physics"):
        runner.run(Counting(), tmp_path, physics=[], device="cpu")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_is_complete(name):
    experiment = EXPERIMENTS[name]
    assert experiment.name == name
    assert experiment.summary
    assert experiment.source
    contenders.resolve(runner.entrants_of(experiment))
    for field in dataclasses.fields(experiment.settings):
        assert field.metadata["meaning"]
    for quick in (False, True):
        settings = experiment.make_settings(quick=quick)
        assert experiment.make_settings(dataclasses.asdict(settings)) == settings
        cases = experiment.cases(settings)
        scores = experiment.scores(settings)
        assert scores
        assert {score.case for score in scores} <= set(cases)


def test_physics_are_instances():
    assert all(isinstance(p, Physics) for p in contenders.resolve(contenders.names()).values())
