"""The file of a study: what it may say, and what it answers to what it may not."""

import numpy as np
import pytest

from stickslip.errors import InputError
from stickslip.studies import load, parse

FUNCTION = "tests.studies.functions:plain"
STUDY = """
run = "tests.studies.functions:plain"
tries = 3
[fixed]
x = 1.5
[grid]
seed = {from = 0, to = 3}
[samples]
count = 4
method = "random"
[samples.ranges]
mass = [0.5, 2.0]
stiffness = {from = 1e-3, to = 1e3, log = true}
worlds = {from = 1, to = 3, whole = true}
"""


def test_a_file_gives_all_combinations(tmp_path):
    path = tmp_path / "fall.toml"
    path.write_text(STUDY)
    study = load(path)
    found = list(study.combinations())
    assert study.settings.name == "fall" and study.settings.tries == 3
    assert study.count == len(found) == 16
    assert {row["seed"] for row in found} == {0, 1, 2, 3} and {row["x"] for row in found} == {1.5}
    assert all(0.5 <= row["mass"] <= 2.0 and 1e-3 <= row["stiffness"] <= 1e3 for row in found)
    assert {row["worlds"] for row in found} <= {1, 2, 3}
    assert study.varied == ["seed", "mass", "stiffness", "worlds"]
    assert parse(study.written()) == study


def test_a_list_is_combined_with_the_grid():
    study = parse({"run": FUNCTION, "list": [{"a": 1}, {"a": 2, "b": 3}], "grid": {"c": [4, 5]}})
    assert list(study.combinations()) == [
        {"a": 1, "c": 4},
        {"a": 1, "c": 5},
        {"a": 2, "b": 3, "c": 4},
        {"a": 2, "b": 3, "c": 5},
    ]


def test_parameters_of_scenes_may_be_in_tables_of_their_own():
    tables = {"run": FUNCTION, "fixed": {"scene": "pendulum"}, "grid": {"scene": {"length": [1.0, 2.0]}}}
    assert parse(tables).grid == {"scene.length": [1.0, 2.0]}


def test_ranges():
    grid = {"a": {"from": 1.0, "to": 3.0, "count": 5}, "b": {"from": 1.0, "to": 100.0, "count": 3, "log": True}}
    found = parse({"run": FUNCTION, "grid": grid}).grid
    assert found["a"] == [1.0, 1.5, 2.0, 2.5, 3.0]
    assert found["b"] == pytest.approx([1.0, 10.0, 100.0])


@pytest.mark.parametrize("method", ["sobol", "random"])
def test_more_samples_begin_with_those_of_fewer(method):
    if method == "sobol":
        pytest.importorskip("scipy")

    def drawn(count):
        samples = {"count": count, "method": method, "seed": 3, "ranges": {"a": [0.0, 1.0], "b": [0.0, 1.0]}}
        return list(parse({"run": FUNCTION, "samples": samples}).combinations())

    assert drawn(64)[:16] == drawn(16)


def test_sobol_points_are_spread_better_than_random_ones():
    pytest.importorskip("scipy")

    def worst_gap(method):
        samples = {"count": 64, "method": method, "seed": 0, "ranges": {"a": [0.0, 1.0], "b": [0.0, 1.0]}}
        points = np.array([list(row.values()) for row in parse({"run": FUNCTION, "samples": samples}).combinations()])
        counts, _, _ = np.histogram2d(*points.T, bins=8, range=[[0, 1], [0, 1]])
        return counts.max()

    assert worst_gap("sobol") == 1 < worst_gap("random")  # one point in each of the 64 squares


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({}, "run is missing"),
        ({"run": "rollout", "girds": {}}, "did you mean 'grid'"),
        ({"run": "rollout", "tries": 0}, "tries is 0: it must be a whole number from 1 to 100"),
        ({"run": "rollout", "device": "gpu"}, "one of '', 'cpu', 'cuda'"),
        ({"run": "rollout", "grid": {"seed": 3}}, "give a list of values"),
        ({"run": "rollout", "grid": {"seed": []}}, "empty list"),
        ({"run": "rollout", "grid": {"seed": [1, 1]}}, "1 twice"),
        ({"run": "rollout", "grid": {"a": {"from": 0.0, "to": 1.0}}}, "needs count"),
        ({"run": "rollout", "grid": {"a": {"form": 0.0, "to": 1.0}}}, "did you mean 'from'"),
        ({"run": "rollout", "grid": {"a": {"from": 1.0, "to": 0.0, "count": 3}}}, "`to` must be above"),
        ({"run": "rollout", "fixed": {"a": 1}, "grid": {"a": [1, 2]}}, "a is in fixed and in grid"),
        ({"run": "rollout", "fixed": {"a": float("nan")}}, "must be finite"),
        ({"run": "rollout", "fixed": {"a": None}}, "give text, a number"),
        ({"run": "rollout", "samples": {"ranges": {"a": [0.0, 1.0]}}}, "count is missing"),
        ({"run": "rollout", "samples": {"count": 2}}, "ranges is missing"),
        ({"run": "rollout", "samples": {"count": 2, "method": "sobal", "ranges": {"a": [0, 1]}}}, "'sobol'"),
        ({"run": "rollout", "samples": {"count": 2, "ranges": {"a": ["x", "y"]}}}, "from is 'x'"),
        ({"run": "rollout", "samples": {"count": 2, "ranges": {"a": {"from": 0, "to": 1, "log": True}}}}, "above 0"),
        ({"run": "rollout", "list": {"a": 1}}, "write \\[\\[list\\]\\]"),
        ({"run": "rollout", "grid": {"a": list(range(5000)), "b": list(range(5000))}}, "at most 10,000,000"),
    ],
)
def test_what_is_wrong_is_named(table, says):
    with pytest.raises(InputError, match=says):
        parse(table)


def test_a_file_that_is_none_is_named(tmp_path):
    with pytest.raises(InputError, match=r"no.toml' is not a file"):
        load(tmp_path / "no.toml")
    (tmp_path / "bad.toml").write_text("run = ")
    with pytest.raises(InputError, match="is not TOML"):
        load(tmp_path / "bad.toml")
