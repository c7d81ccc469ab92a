"""Stored results: what the digests call stale is marked wherever it is printed, and nothing else is."""

import copy
import pathlib
import re

import pytest
import readme

from stickslip import provenance
from stickslip.bench import EXPERIMENTS, methods, sources
from stickslip.bench.report import page, summary
from stickslip.bench.result import load
from stickslip.bench.runner import _record

ROOT = pathlib.Path(__file__).parents[2]
STORED = sorted((ROOT / "benchmarks" / "results").glob("*/*.json"))


def _rows(text: str, heading: str) -> dict[str, bool]:
    """The methods in the first table below a heading, and whether each is marked stale."""
    table = text.split(f"### {heading}\n", 1)[1].split("| --- |", 1)[1].split("\n\n", 1)[0]
    found = re.findall(rf"^\| `([^`]+)`( {page.STALE})? \|", table, re.MULTILINE)
    return {label: bool(mark) for label, mark in found}


@pytest.mark.parametrize("path", STORED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_the_documentation_marks_what_is_stale(path):
    result = load(path)
    old = sources.stale(EXPERIMENTS[path.stem], result)
    text = (ROOT / "docs" / "results.md").read_text()
    assert _rows(text, f"{path.stem} on {path.parent.name}") == {label: label in old for label in result.methods}


def test_the_readme_marks_what_is_stale():
    """Every column, or every value, of a stale method carries the mark, and the legend explains it."""
    results = {name: load(readme.RESULTS / "cpu" / f"{name}.json") for name, _ in readme.ACCURACY}
    old = {name: sources.stale(EXPERIMENTS[name], result) for name, result in results.items()}
    text = readme.accuracy()
    head, _, *lines = text.split("\n\n")[0].splitlines()
    columns = [cell.strip() for cell in head.split("|")[3:-1]]
    for line in lines:
        _, _, name, *cells, _ = (cell.strip() for cell in line.split("|"))
        for column, cell in zip(columns, cells, strict=True):
            label = column.removesuffix(page.STALE).strip().strip("`")
            if re.search(r"\d", cell):
                marked = column.endswith(page.STALE) or cell.endswith(page.STALE)
                assert marked == (label in old[name.strip("`")]), (name, label)
    assert (page.LEGEND in text) == any(old.values())
    assert text in (ROOT / "README.md").read_text()


def test_every_stored_method_has_a_record():
    for path in STORED:
        for label, record in load(path).methods.items():
            assert methods.entry(label) is not None, f"{path}: {label} is no method"
            assert record.name and record.parameters is not None


def test_a_method_is_current_until_its_code_or_that_of_the_experiment_changes(monkeypatch):
    experiment = EXPERIMENTS["stick"]
    result = copy.deepcopy(load(ROOT / "benchmarks" / "results" / "cpu" / "stick.json"))
    result.methods = {label: _record(experiment, method) for label, method in methods.resolve(methods.names()).items()}
    assert sources.stale(experiment, result) == set()
    real = provenance._file_digest
    for module, changed in (
        ("stickslip.physics.conesweep.sweep.cone", {"cone-sweep"}),
        ("stickslip.bench.experiments.friction.stick", set(methods.names())),
        ("stickslip.scenes.hand", set()),
    ):
        path = provenance._path_of(module)
        monkeypatch.setattr(provenance, "_file_digest", lambda p, path=path: "new" if p == path else real(p))
        sources._digest.cache_clear()
        assert sources.stale(experiment, result) == changed, module
    monkeypatch.undo()
    sources._digest.cache_clear()
    del result.methods["comfree"].modules[:]
    result.methods["icf"].modules[:] = ["stickslip.physics.gone"]
    assert sources.stale(experiment, result) == {"comfree", "icf"}


def test_stale_values_are_marked_in_a_report(monkeypatch):
    experiment = EXPERIMENTS["stick"]
    result = load(ROOT / "benchmarks" / "results" / "cpu" / "stick.json")
    folder = summary.Folder(ROOT / "benchmarks", "m", [(experiment, result)], [])
    monkeypatch.setattr(sources, "stale", lambda experiment, result: {"comfree"})
    text = page.markdown([folder], ROOT)
    (head,) = [line for line in text.splitlines() if line.startswith("| experiment |")]
    assert f"| comfree {page.STALE} |" in head and head.count(page.STALE) == 1
    assert _rows(text, "stick on m") == {label: label == "comfree" for label in result.methods}
    assert f"comfree {page.STALE}</th>" in page.page([folder])
