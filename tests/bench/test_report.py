"""The report: best marked, nobody dropped, nothing fetched, and the documentation in step with the stored results."""

import dataclasses
import json
import math
import re

import pytest

from stickslip import files
from stickslip.bench import EXPERIMENTS, runner
from stickslip.bench.experiment import Reported, Score
from stickslip.bench.report import page as report
from stickslip.bench.report import summary
from stickslip.bench.result import load
from stickslip.errors import InputError, Unsupported
from tests.bench import scripted
from tests.bench.test_runner import Counting


class Telling(Counting):
    """Three fakes of known metrics, one of which cannot run a case, and a paper to compare with."""

    def reported(self, result):
        return [Reported("value <of> it", "1 m", f"{result.metric('fake', 'case 1', 'value'):g} m")]


@pytest.fixture
def folder(tmp_path):
    physics = {name: scripted.Scripted(lambda mjm, mjd: None) for name in ("fake", "other", "fake:size=2")}
    experiment = Telling(raises=Unsupported("fake knows no <balls>"))
    path = runner.run(experiment, tmp_path / "machine", methods=physics, device="cpu")
    result = load(path)
    result.outcomes["other"]["case 1"] = {"metrics": {"value": -0.5}, "series": {}, "problems": []}
    result.outcomes["other"]["case 0"]["metrics"]["value"] = 1e-9
    result.save(path)
    return tmp_path


def tables(folder):
    return summary.read(folder, {"counting": Telling()})


def test_the_best_of_each_row_is_marked_by_magnitude(folder):
    ((experiment, result),) = tables(folder)[0].results
    rows = summary.rows(experiment, result, ["fake", "other"])
    assert [(c.text, c.best) for c in rows[0].cells.values()] == [("0", True), ("1.00e-09", False)]
    assert [(c.text, c.best) for c in rows[1].cells.values()] == [("cannot", False), ("-0.5", False)]
    assert [(c.text, c.best) for c in rows[2].cells.values()] == [("no value", False)] * 2
    assert [c.value for row in rows for c in row.cells.values()] == [True, True, False, True, False, False]
    assert rows[1].cells["fake"].note == "fake knows no <balls>"
    assert rows[2].cells["fake"].note == "broke"


def test_equal_in_print_is_equally_good_and_more_can_be_better():
    low = Score("t", "c", "f", "m")
    high = Score("t", "c", "f", "m", best="high")
    assert summary._best([1.0, 1.0004, 2.0], low) == 1.0
    assert summary._best([-3.0, 1.0004, 2.0], high) == 2.0
    assert summary._best([-0.5, 2.0], low) == 0.5
    assert summary._best([1.0], low) is None
    assert summary._best([1.0, -1.0], low) is None
    assert summary._best([1.0, float("nan")], low) == 1.0
    assert summary._best([float("nan"), float("nan")], low) is None


def test_nobody_is_best_alone_or_in_doubt(folder):
    ((experiment, result),) = tables(folder)[0].results
    del result.outcomes["other"]
    row = summary.rows(experiment, result, ["fake", "other"])[0]
    assert [(c.text, c.best) for c in row.cells.values()] == [("0", False), ("–", False)]
    result.outcomes["other"] = {"case 0": {"metrics": {"value": 2.0}, "problems": []}}
    result.outcomes["fake"]["case 0"]["problems"] = ["contacts were dropped"]
    row = summary.rows(experiment, result, ["fake", "other"])[0]
    assert [(c.text, c.best, c.note) for c in row.cells.values()] == [
        ("0", False, "contacts were dropped"),
        ("2", False, ""),
    ]
    assert "| 0 † |" in report.markdown([summary.Folder(folder, "m", [(experiment, result)], [])], folder)


def test_a_large_number_is_not_greyed_like_a_missing_one():
    assert "none" not in report._html_cell(summary.Cell("2.36 M", value=True))
    assert "none" in report._html_cell(summary.Cell("dropped"))


def test_a_score_tells_in_its_own_word_why_there_is_no_value(folder):
    ((experiment, result),) = tables(folder)[0].results
    result.outcomes["fake"]["case 2"]["problems"] = []
    score = dataclasses.replace(experiment.scores(experiment.make_settings(result.settings))[2], absent="dropped")
    assert summary._cell(result, "fake", score, math.nan, None) == summary.Cell("dropped")


def test_variants_stay_out_of_the_summary(folder):
    ((_, result),) = tables(folder)[0].results
    assert summary.columns([result]) == ["fake", "other"]
    for name in ("pbd-r-paper", "newton", "implicit", "pbd"):
        result.methods[name] = result.methods["fake"]
    assert summary.columns([result]) == ["fake", "other"]


def test_an_experiment_of_others_has_no_row_in_the_summary(folder):
    ((experiment, result),) = tables(folder)[0].results
    assert summary.rows(experiment, result, ["third"]) == []
    assert summary.rows(experiment, result, ["third", "fake"])


def test_what_was_not_run_is_a_dash_without_a_doubt(folder):
    ((experiment, result),) = tables(folder)[0].results
    del result.outcomes["other"]["case 1"]
    for label in ("other", "third"):
        cell = summary.rows(experiment, result, ["fake", label])[1].cells[label]
        assert cell == summary.Cell("–")
        assert report._markdown_cell(cell) == "–"


def test_the_page_holds_everything_and_fetches_nothing(folder):
    page = report.page(tables(folder))
    for text in (
        "counting",
        "fake:size=2",
        "value &lt;of&gt; it",
        "fake knows no &lt;balls&gt;",
        "size of it [m]",
        "broke",
    ):
        assert text in page
    assert page.count('<img alt="counting') == 1
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    assert "<script" not in page


def test_the_markdown_tells_the_same(folder):
    text = report.markdown(tables(folder), folder / "docs")
    assert "| [counting](#counting-on-machine) | value of it [m] | **0** ★ | 1.00e-09 |" in text
    assert "![counting](../machine/counting.png)" in text
    assert "### counting on machine" in text
    assert "fake cannot run: fake knows no <balls> (case 1)" in text


def test_results_of_variants_alone_still_have_a_table(folder):
    ((_, result),) = tables(folder)[0].results
    result.methods = {"fake:size=2": result.methods["fake:size=2"]}
    assert summary.columns([result]) == ["fake:size=2"]


@pytest.mark.parametrize(
    ("field", "value", "word"),
    [
        ("settings", {"size": 99.0, "count": 3, "steps": [0.1], "careful": True, "kind": "plain"}, "from 0.1 to 10"),
        ("settings", {"size": 1.0}, "another version"),
        ("settings", [], "settings is not a dict"),
        ("outcomes", [], "outcomes is not a dict"),
        ("outcomes", {"fake": {"case 0": None}}, "outcomes of fake"),
        ("machine", {}, "machine does not name"),
        ("experiment", "unheard-of", "no experiment"),
    ],
)
def test_a_damaged_file_does_not_take_the_report_with_it(field, value, word, folder):
    path = folder / "machine" / "counting.json"
    content = files.read_json(path)
    (folder / "machine" / "damaged.json").write_text(json.dumps({**content, field: value}))
    page = report.page(tables(folder))
    assert ">counting</h3>" in page
    assert word in page


def test_a_result_that_cannot_be_drawn_is_named(folder, monkeypatch):
    def broken(self, result):
        raise ValueError("ragged")

    monkeypatch.setattr(Telling, "draw", broken)
    assert "counting cannot be shown, its file is damaged: ValueError(&#x27;ragged&#x27;)" in report.page(
        tables(folder)
    )


def test_results_may_lie_in_the_folder_itself(folder):
    out = report.write(folder / "machine", folder / "page.md", {"counting": Telling()})
    assert "![counting](machine/counting.png)" in out.read_text()


def test_files_that_are_no_results_are_named(folder):
    (folder / "machine" / "speed.json").write_text('{"format": 1}')
    assert "speed.json has format 1" in report.page(tables(folder))


@pytest.mark.parametrize("kind", ["missing", "empty", "other"])
def test_a_folder_without_results_is_an_error(kind, tmp_path):
    place = tmp_path / "results"
    if kind != "missing":
        place.mkdir()
    if kind == "other":
        (place / "a.json").write_text("{}")
    with pytest.raises(InputError, match=str(place)):
        summary.read(place, EXPERIMENTS)


def test_the_page_is_written_as_its_name_says(folder):
    out = report.write(folder, folder / "page.html", {"counting": Telling()})
    assert out.read_text().startswith("<!doctype html>")
    out = report.write(folder, folder / "docs" / "page.md", {"counting": Telling()})
    assert "](../machine/counting.png)" in out.read_text()
