"""Numbers in prose: each comes from a stored result or is listed as given."""

import claims
import pytest
import readme

PAGE = """# Title

A box creeps by <!-- metric: cpu/stick ; comfree ; slide, dt 2 ms ; error_mm -->9<!-- /metric --> mm in
steps of 2 ms. It is `5 ms` in code, and in a [link](page-3-mm.md).

```
took 7 s
```

<!-- speed: h200 -->

| 3 ms |

<!-- end -->

A cube of 4 x 4 x 4 spheres, 12 bodies. It is 3.5 times faster, by 40 %.
"""


def test_a_number_with_a_unit_needs_a_source():
    assert list(claims.unsourced(PAGE, {"steps of 2 ms": "a setting"})) == [(16, "3.5 times"), (16, "40 %")]
    assert (4, "2 ms") in list(claims.unsourced(PAGE, {}))


@pytest.mark.parametrize(
    ("given", "words"), [({"steps of 3 ms": "a setting"}, "does not occur"), ({"2 ms": " "}, "without a reason")]
)
def test_the_list_of_given_numbers_must_fit_the_page(given, words):
    assert any(line == 0 and words in text for line, text in claims.unsourced(PAGE, given))


@pytest.mark.parametrize(
    "text", ["0.1 mm", "1e-5 m", "1,000 Hz", "12x", "3 times", "45 %", "5-fold", "134 kB", "-0.2 m", "2 m/s", "90°"]
)
def test_what_counts_as_a_measurement(text):
    assert [what for _, what in claims.unsourced(f"It is {text}, at most.", {})] == [text]


@pytest.mark.parametrize("text", ["3 contacts", "Python 3.11", "4 x 4 x 4", "2026-11-15", "v1.2", "page 3"])
def test_what_does_not(text):
    assert list(claims.unsourced(f"There are {text} here.", {})) == []


def test_a_marker_is_filled_from_the_stored_result(monkeypatch):
    stored = readme.load(readme.RESULTS / "cpu" / "stick.json")
    value = stored.metric("comfree", "slide, dt 2 ms", "error_mm")
    for stale, mark in (({"comfree"}, "‡"), (set(), "")):
        monkeypatch.setattr(readme.sources, "stale", lambda experiment, result, stale=stale: stale)
        assert f"-->{readme.style.number(value)}{mark}<!-- /metric --> mm" in readme.fill_metrics(PAGE)
        assert readme.metric(["cpu/stick", "comfree", "slide, dt 2 ms", "error_mm", ".2e"]) == f"{value:.2e}{mark}"


@pytest.mark.parametrize(
    "fields",
    [
        ["cpu/stick", "comfree", "slide, dt 2 ms"],
        ["cpu/nothing", "comfree", "slide, dt 2 ms", "error_mm"],
        ["cpu/stick", "comfree", "slide, dt 2 ms", "error_m"],
    ],
)
def test_a_marker_without_a_stored_value_is_an_error(fields):
    with pytest.raises(SystemExit):
        readme.metric(fields)


def test_every_marker_holds_what_is_stored():
    for page in claims.pages():
        text = page.read_text()
        assert readme.fill_metrics(text) == text, f"{page}: run `make results`"
