"""Every experiment in its small form, from the command line to the page.

Each runs with one of its methods, another one than the next: forty experiments are enough for every method to meet its
share of them. All methods with all experiments, in full, are in the stored results. `make test` has every third
experiment, since each has scenes of its own, with kernels to build; `make test-all` has all.
"""

import copy
import importlib.util
import json
import pathlib
import re

import matplotlib.figure
import pytest
import readme

from stickslip import bench
from stickslip.bench import EXPERIMENTS, methods, runner
from stickslip.bench.report import page as report
from stickslip.bench.report import summary
from stickslip.bench.result import Result, load
from stickslip.cli import main as cli
from tests import support
from tests.conftest import DEVICES

ROOT = pathlib.Path(__file__).parents[2]


HEAVY = ("force-profile", "growth", "smooth", "soft-distance")
"""Experiments that take long even in their small form, for what they build: many models, or gradients by JAX."""
LONG = [name for i, name in enumerate(EXPERIMENTS) if i % 3 or name in HEAVY]
"""Those of `make test-all`."""
NAMES = [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in EXPERIMENTS]


def share_of(name: str) -> list[str]:
    """The methods with which an experiment runs here; where times are compared, what they are compared with too."""
    experiment = EXPERIMENTS[name]
    given = runner.methods_of(experiment, quick=True)
    chosen = given[list(EXPERIMENTS).index(name) % len(given)]
    return [label for label in given if label == chosen or (experiment.timing and label == methods.REFERENCES[0])]


def run(name: str, device: str, out: pathlib.Path) -> None:
    options = ["--quick", "--device", device, "--out", str(out), "--physics", *share_of(name)]
    assert cli.main(["bench", "run", name, *options]) == 0


@pytest.fixture(scope="module", params=DEVICES)
def folder(request, tmp_path_factory):
    """Results of the experiments of `make test`."""
    out = tmp_path_factory.mktemp("results")
    for name in EXPERIMENTS:
        if name not in LONG:
            run(name, request.param, out)
    return out


@pytest.fixture
def result(name, folder):
    """Of one experiment."""
    if name in LONG:
        run(name, load(folder / "stick.json").device, folder)
    return load(folder / f"{name}.json")


def ran(folder: pathlib.Path) -> list[str]:
    """The experiments that have a result there."""
    return [name for name in EXPERIMENTS if (folder / f"{name}.json").exists()]


def test_every_physics_runs_in_several_experiments():
    for label in methods.names():
        assert sum(label in share_of(name) for name in EXPERIMENTS if name not in HEAVY) >= 4, label


@pytest.mark.parametrize("name", NAMES)
def test_every_method_has_every_score_or_a_reason(name, result, folder):
    experiment = EXPERIMENTS[name]
    assert result.complete
    assert result.quick
    assert list(result.methods) == share_of(name)
    for label in {*methods.names()} & {
        *result.methods
    }:  # those there are can run all of it, but for what has to do with joints
        reasons = result.unsupported(label).values()
        assert not reasons or (label in support.FREE_BODIES_ONLY and all("joints" in reason for reason in reasons))
    if importlib.util.find_spec("osqp") and "qp" in result.methods:
        assert not result.unsupported("qp")
    for row in summary.rows(experiment, result, list(result.methods)):
        for label, cell in row.cells.items():
            told = cell.value or cell.note or cell.text == row.score.absent != "no value"
            assert told, f"{label} has no {row.score.metric} in {row.score.case!r}, and nothing says why"
    assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def _only(result: Result, label: str) -> Result:
    return dataclass_copy(result, methods={label: result.methods[label]}, outcomes={label: result.outcomes[label]})


def dataclass_copy(result: Result, **changes) -> Result:
    other = copy.deepcopy(result)
    for name, value in changes.items():
        setattr(other, name, value)
    return other


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_can_be_drawn_of_whatever_there_is(name, result):
    experiment = EXPERIMENTS[name]
    nobody = {label: {case: {"unsupported": "no"} for case in result.cases} for label in result.methods}
    broken = copy.deepcopy(result.outcomes)
    for cases in broken.values():
        for outcome in cases.values():
            if "metrics" in outcome:
                outcome["metrics"] = dict.fromkeys(outcome["metrics"])
                outcome["series"] = {key: [None] * len(values) for key, values in outcome["series"].items()}
    for case in (
        _only(result, list(result.methods)[-1]),
        dataclass_copy(result, outcomes={}),
        dataclass_copy(result, outcomes=nobody),
        dataclass_copy(result, outcomes=broken),
    ):
        figure = experiment.draw(case)
        figure.set_layout_engine("none")  # which takes longer than all else
        figure.draw_without_rendering()
        experiment.reported(case)


def test_the_page_shows_every_experiment(folder, monkeypatch):
    """With pictures of nothing, since drawing all of them, which is tested above, takes a minute."""
    for experiment in EXPERIMENTS.values():
        if experiment.name != "stick":
            monkeypatch.setattr(experiment, "draw", lambda result: matplotlib.figure.Figure())
    assert cli.main(["bench", "report", str(folder)]) == 0
    page = (folder / "report.html").read_text()
    names = ran(folder)
    for name in names:
        assert f">{name}</h3>" in page
        assert EXPERIMENTS[name].source.replace("&", "&amp;") in page
    assert page.count("data:image/png;base64,") == len(names)
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    assert report.QUICK in page


def test_a_second_run_measures_nothing(folder, capsys):
    before = {path.name: path.read_bytes() for path in folder.glob("*.json")}
    device = load(folder / "stick.json").device
    for name in ran(folder):
        run(name, device, folder)
    assert capsys.readouterr().out.count("--again measures it again") == len(before)
    assert before == {path.name: path.read_bytes() for path in folder.glob("*.json")}


def test_all_is_every_experiment(tmp_path, monkeypatch):
    """`all` on the command line, of which there are two here."""
    monkeypatch.setattr(bench, "EXPERIMENTS", {name: EXPERIMENTS[name] for name in ("stick", "slide")})
    options = ["--quick", "--device", "cpu", "--out", str(tmp_path), "--physics", "comfree"]
    assert cli.main(["bench", "run", "all", *options]) == 0
    assert {path.stem for path in tmp_path.glob("*.json")} == {"stick", "slide"}


def test_stored_results_are_whole_and_measured():
    stored = sorted((ROOT / "benchmarks" / "results").glob("*/*.json"))
    assert {path.stem for path in stored if path.parent.name == "cpu"} == set(EXPERIMENTS)
    assert {path.stem for path in stored if path.parent.name == "h200"} == {
        "particles",
        "patch-cost",
        "penetration",
        "plan-delay",
        "plan-mismatch",
        "plan-mppi",
        "plan-settings",
        "retarget",
        "rollouts",
        "scaling",
        "smooth",
        "throughput",
        "speed",
        "work-precision",
        "worlds",
    }
    for path in stored:
        result = load(path)
        assert result.complete, path
        assert not result.quick, path
        assert path.with_suffix(".png").exists(), path
        defaults = json.loads(json.dumps(vars(EXPERIMENTS[path.stem].make_settings(device=result.device))))
        if "mesh" in defaults:  # the bunny, or its stand-in where what reads the bunny is not installed
            defaults["mesh"] = "bunny"
        assert result.settings == defaults, f"{path}: measured with other settings"


def test_the_humanoid_follows_all_motions_on_the_h200():
    """The targets of retargeting, with the cone sweep as the plan's model."""
    result = load(ROOT / "benchmarks" / "results" / "h200" / "retarget.json")
    for case in result.cases:
        assert result.metric("cone-sweep", case, "completed") == 1.0, case
        assert result.metric("cone-sweep", case, "base_pos") <= 0.03, case
        assert result.metric("cone-sweep", case, "base_rot") <= 0.07, case
        assert result.metric("cone-sweep", case, "time_ratio") <= 0.6, case
    for name in ("base_pos", "base_rot"):
        errors = {k: [result.metric(k, case, name) for case in result.cases] for k in ("cone-sweep", "mujoco")}
        assert sum(errors["cone-sweep"]) <= 1.05 * sum(errors["mujoco"]), name


def test_contact_patches_on_the_h200():
    """The targets of hydroelastic contact: eight boxes in each of 4096 worlds. Round bodies miss two of them."""
    result = load(ROOT / "benchmarks" / "results" / "h200" / "patch-cost.json")
    boxes, rounds = "8 boxes, patches", "8 round bodies, patches"
    assert result.metric("icf", boxes, "geometry_ms") <= 1.0
    assert result.metric("icf", boxes, "patches_over_points") <= 3.0
    for case, within in ((boxes, 0.05), (rounds, 0.2)):
        for label in ("icf", "cenic"):
            assert abs(result.metric(label, case, "force_percent")) <= within
            assert result.metric(label, case, "rate_over_drake") >= 100.0


def test_the_readme_is_in_step_with_the_stored_results():
    text = (ROOT / "README.md").read_text()
    assert readme.fill(text) == text, "the tables of README.md are stale: run `make results`"
    for page, filled in readme.TABLES.items():
        text = page.read_text()
        assert filled(text) == text, f"the tables of {page} are stale: run `make results`"


def test_the_documentation_is_in_step_with_the_stored_results():
    folders = summary.read(ROOT / "benchmarks" / "results", EXPERIMENTS)
    text = report.markdown(folders, ROOT / "docs", report.GENERATED)
    assert (ROOT / "docs" / "results.md").read_text() == text, "docs/results.md is stale: run `make results`"
