"""The page of a study: what it says of metrics, parameters, failures and films, and that it needs nothing else."""

import re
from statistics import median

import pytest

pytest.importorskip("pyarrow")

from stickslip.studies import records, report
from stickslip.studies.cell import Cell, text
from stickslip.studies.records import DONE, FAILED, Record
from stickslip.studies.store import Store
from tests.browser import Browser
from tests.studies.scripted import study

MACHINE = '{"cores": 8, "device": "a processor", "node": "n1"}'


def filled(folder, count=60, bad=7, films=2):
    """A study whose results are known: y = mass times 2 or 3 by physics."""
    grid = {"physics": ["cone-sweep", "mujoco"], "mass": {"from": 1.0, "to": float(count // 2), "count": count // 2}}
    definition = study("tests.studies.functions:quick", fixed={"x": 1.0}, grid=grid, name="masses <&>")
    store = Store(folder)
    rows = list(definition.combinations())
    texts = [text(row) for row in rows]
    cells = [Cell(f"{i:040x}", definition.run, given, "cpu", "", "s", "{}") for i, given in enumerate(texts)]
    store.begin(definition, cells)
    for place, (cell, row) in enumerate(zip(cells, rows, strict=True)):
        record = Record(cell.hash, cell.run, cell.parameters, machine=MACHINE, wall_s=2.0)
        record.began = "2026-02-03T04:05:06+00:00"
        if place < bad:
            record.status, record.cause = FAILED, "ValueError: # is <wrong>" if place % 2 else "it took too long"
            record.error = "Traceback: line 3"
        else:
            record.metrics = {"y": row["mass"] * (2.0 if row["physics"] == "mujoco" else 3.0), "same": 1.0}
            record.labels = {"reason": "done" if place % 2 else "lost"}
        beside = {}
        if place >= count - films:
            record.files = [f"{cell.hash}-film.gif"]
            beside = {record.files[0]: b"GIF89a"}
        store.put(record, beside)
    return store


def test_the_page_says_what_is_in_the_folder(tmp_path):
    store = filled(tmp_path / "out")
    path = report.write(store.folder)
    page = path.read_text()
    assert "masses &lt;&amp;&gt;" in page and "<wrong>" not in page
    for said in ("<b>60</b>cells", "<b>53</b>done", "<b>7</b>failed", "n1: a processor, 8 cores: 60 cells", "120 s of"):
        assert said in page, said
    # 23 of 30 masses of the first physics, times 3, and all of the second, times 2
    first, second = [3.0 * m for m in range(8, 31)], [2.0 * m for m in range(1, 31)]
    mean = sum(first + second) / 53.0
    row = re.search(r'<td class="name">y</td>(.*?)</tr>', page)[1]
    numbers = [cell.partition(" ")[0] for cell in re.findall(r'<td class="value">([^<]*)', row)]
    assert numbers == [
        f"{x:.3g}" for x in (mean, 2.0, median(first + second), 90.0, sum(first) / 23.0, sum(second) / 30.0)
    ]
    assert "reason" in page and "done (27)" in page
    assert page.count("<img ") == 3  # one parameter, two films: `same` has no spread
    assert re.search(r'<td class="value">4</td><td class="cause">it took too long', page)
    assert re.search(r"ValueError: # is &lt;wrong&gt;.*?mass from 2 to 6|mass = 2.0 or 4.0 or 6.0", page)
    assert re.findall(r'href="(done/00/[0-9a-f]{40}-film.gif)"', page)
    assert not re.search(r'(src|href)="(https?:)?//', page)  # nothing from the network


def test_links_to_films_follow_the_page(tmp_path):
    store = filled(tmp_path / "out")
    page = report.write(store.folder, tmp_path / "pages" / "one.html").read_text()
    for link in re.findall(r'href="([^"]+film.gif)"', page):
        assert (tmp_path / "pages" / link).resolve().is_file()


def test_all_cells_as_a_table_for_other_programs(tmp_path):
    import pyarrow.csv
    import pyarrow.parquet

    store = filled(tmp_path / "out")
    report.write(store.folder, table=tmp_path / "all.parquet")
    report.write(store.folder, table=tmp_path / "all.csv")
    whole, words = pyarrow.parquet.read_table(tmp_path / "all.parquet"), pyarrow.csv.read_csv(tmp_path / "all.csv")
    assert whole.num_rows == words.num_rows == 60 and whole.column_names == words.column_names
    assert whole["y"].to_pylist() == words["y"].to_pylist() and whole["y"].null_count == 7
    assert whole["mass"].to_pylist()[:3] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("status", [DONE, FAILED])
def test_an_empty_study_and_one_that_failed_have_a_page(tmp_path, status):
    definition = study("tests.studies.functions:quick", grid={"x": [1.0, 2.0]})
    store = Store(tmp_path)
    cells = [Cell(c * 40, definition.run, '{"x":1.0}', "cpu", "", "s", "{}") for c in "ab"]
    store.begin(definition, cells)
    if status == FAILED:
        for cell in cells:
            store.put(Record(cell.hash, cell.run, cell.parameters, status=FAILED, cause="no", error="no"))
    page = report.write(tmp_path).read_text()
    assert ("<b>2</b>failed" if status == FAILED else "<b>2</b>not run yet") in page


def test_metrics_of_some_cells_alone_leave_gaps(tmp_path):
    one = Record("a" * 40, "f", '{"x": 1}', metrics={"y": 1.0})
    two = Record("b" * 40, "f", '{"x": 2, "z": "w"}', metrics={"q": 2.0}, labels={"k": "v"})
    wide = records.wide(records.opened(records.encode([one, two])))
    assert wide.select(["x", "z", "y", "q", "k"]).to_pylist() == [
        {"x": 1, "z": None, "y": 1.0, "q": None, "k": None},
        {"x": 2, "z": "w", "y": None, "q": 2.0, "k": "v"},
    ]


def test_a_browser_shows_it(tmp_path):
    path = report.write(filled(tmp_path / "out").folder)
    with Browser() as browser:
        browser.open(f"file://{path}")
        said = browser.wait_for("Failures by cause")
        assert "it took too long" in said and "Metrics over parameters" in said
        sizes = browser.run("[...document.images].filter(i => i.src.startsWith('data:')).map(i => i.naturalWidth)")
        assert sizes and min(sizes) > 300
        assert browser.run("document.documentElement.scrollWidth <= window.innerWidth")
