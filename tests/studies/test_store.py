"""The folder of a study: whole files, resumed, shared, on a disk that fills up."""

import errno
import json
import math
import os
import subprocess

import numpy as np
import pytest

pytest.importorskip("pyarrow")

from stickslip import files, studies
from stickslip.errors import InputError
from stickslip.studies import records
from stickslip.studies.driver import DiskFull, Driver
from stickslip.studies.executors.base import Event
from stickslip.studies.records import DONE, FAILED, Record
from stickslip.studies.store import Store
from tests.studies.scripted import Inline, serial, study

SOME = {"fixed": {"x": 0.3}, "grid": {"seed": {"from": 0, "to": 11}}}


def failing(task):
    return Event(task["hash"], {"status": FAILED, "cause": "it is bad", "error": "it is bad: very"})


def test_every_cell_has_a_file_that_tells_all(tmp_path):
    store, progress, _ = serial(tmp_path / "out", study(**SOME))
    assert progress.complete and progress.done == 12
    for cell in store.manifest():
        record = store.record(DONE, cell)
        seed = json.loads(record.parameters)["seed"]
        drawn = np.random.default_rng(seed)
        assert record.metrics == {"sine": math.sin(0.3 * (seed + 1)), "drawn": drawn.normal()}  # to the last bit
        assert record.labels == {"word": f"w{seed % 3}"}
        np.testing.assert_array_equal(studies.arrays(tmp_path / "out", cell)["path"], drawn.normal(size=4))
        assert json.loads(record.machine)["cores"] and json.loads(record.versions)["mujoco"]
        assert record.began.endswith("+00:00") and record.wall_s > 0.0 and record.tries == 1
        assert len(record.source) == 16


def test_what_is_there_is_not_run_again(tmp_path):
    _, _, first = serial(tmp_path / "out", study(**SOME))
    _, progress, second = serial(tmp_path / "out", study(**SOME))
    assert len(first.ran) == 12 and not second.ran and progress.complete
    more = {**SOME, "grid": {"seed": {"from": 0, "to": 15}}}
    store, progress, third = serial(tmp_path / "out", study(**more))
    assert len(third.ran) == 4 and progress.done == 16
    assert studies.table(tmp_path / "out")["seed"].to_pylist() == list(range(16))
    serial(tmp_path / "out", study(**SOME))
    assert studies.table(tmp_path / "out").num_rows == 12  # those of the study as it is now
    assert studies.table(tmp_path / "out", everything=True).num_rows == 16


def test_a_cell_that_fails_keeps_its_error_and_is_tried_as_often_as_said(tmp_path):
    store, progress, executor = serial(tmp_path / "out", study(**SOME), failing, tries=3)
    assert progress.failed == 12 and len(executor.ran) == 36
    record = store.record(FAILED, executor.ran[0])
    assert (record.cause, record.error, record.tries) == ("it is bad", "it is bad: very", 3)
    _, _, again = serial(tmp_path / "out", study(**SOME), tries=3)
    assert not again.ran  # given up
    assert studies.retry(tmp_path / "out") == 12
    store, progress, again = serial(tmp_path / "out", study(**SOME), tries=3)
    assert progress.complete and len(again.ran) == 12 and not store.listed(FAILED)
    assert studies.table(tmp_path / "out")["status"].to_pylist() == [DONE] * 12


def test_a_cell_that_is_lost_runs_again_and_is_not_to_blame(tmp_path):
    lost = []

    def script(task):
        if len(lost) < 5:
            lost.append(task["hash"])
            return Event(task["hash"], None, lost="a node went away")
        return None

    store, progress, _ = serial(tmp_path / "out", study(**SOME), script, tries=1)
    assert progress.complete and lost[0] == lost[4]
    assert {record.tries for record in records.decode(store.table())} == {1}


def test_a_cell_that_is_lost_for_ever_fails(tmp_path):
    gone = study(fixed={"x": 0.1})
    _, progress, executor = serial(tmp_path / "out", gone, lambda task: Event(task["hash"], None, lost="gone"), tries=1)
    assert progress.failed == 1 and len(executor.ran) == 10


def test_done_beats_failed_whoever_comes_last(tmp_path):
    store = Store(tmp_path)
    done = Record("ab12", "f", "{}", metrics={"y": 1.0})
    failed = Record("ab12", "f", "{}", status=FAILED, cause="slow machine")
    assert store.put(failed) and store.listed(FAILED) == {"ab12"}
    assert store.put(done)
    assert not store.put(failed)
    assert store.listed(DONE) == {"ab12"} and not store.listed(FAILED)


def test_numbers_come_back_to_the_last_bit():
    values = [0.1 + 0.2, math.pi, 5e-324, -0.0, math.inf, 2.0**53, float(np.nextafter(1.0, 2.0))]
    record = Record("a", "f", "{}", metrics={str(i): value for i, value in enumerate(values)} | {"nan": math.nan})
    (back,) = records.decode(records.opened(records.encode([record])))
    assert [value.hex() for value in list(back.metrics.values())[:-1]] == [value.hex() for value in values]
    assert math.isnan(back.metrics["nan"]) and records.same(record, back)


def test_parts_hold_what_the_files_hold_and_may_be_removed(tmp_path):
    store, _, _ = serial(tmp_path / "out", study(**SOME))
    parts = list((tmp_path / "out" / "parts").iterdir())
    with_parts = store.table()
    for part in parts:
        part.unlink()
    assert parts and store.table().equals(with_parts)


@pytest.mark.parametrize("damage", [b"", b"PAR1 no", None])
def test_a_damaged_file_is_found_and_its_cell_runs_again(tmp_path, damage):
    store, _, executor = serial(tmp_path / "out", study(**SOME))
    path = store.path(DONE, executor.ran[3])
    path.write_bytes(path.read_bytes()[:-20] if damage is None else damage)
    assert store.check() == [executor.ran[3]]
    _, progress, again = serial(tmp_path / "out", study(**SOME))
    assert again.ran == [executor.ran[3]] and progress.complete


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("...")
    with pytest.raises(InputError, match="no study"):
        serial(tmp_path, study(**SOME))
    with pytest.raises(InputError, match="holds no study"):
        Store(tmp_path).about()
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_no_pickle_is_read_from_the_folder(tmp_path):
    """An array of objects in a file beside a cell, which would be unpickled, is refused."""
    store, _, executor = serial(tmp_path / "out", study(**SOME))
    path = store.path(DONE, executor.ran[0], ".npz")
    np.savez(path, path=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError, match="path: it holds Python objects, a pickle"):
        studies.arrays(tmp_path / "out", executor.ran[0])


def test_two_drivers_share_a_study(tmp_path):
    """One driver does cells while the other one waits for a reply: it finds them done."""
    definition = study(**SOME)
    cells = studies.plan(definition)
    store = Store(tmp_path / "out")
    store.begin(definition, cells)
    other = []

    def script(task):
        if not other:
            other.append(serial(tmp_path / "out", definition)[1])
        return None

    with store.scratch() as scratch:
        executor = Inline(scratch / "first", script)
        progress = Driver(store, cells, executor, tries=1).run()
    assert progress.complete and other[0].complete and len(executor.ran) == 1
    assert len(store.listed(DONE)) == 12


def test_a_full_disk_is_told_and_nothing_is_lost(tmp_path, monkeypatch):
    write, count = files.write_bytes_atomic, [0]

    def full_later(path, data):
        count[0] += 1
        if count[0] > 7:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return write(path, data)

    monkeypatch.setattr(files, "write_bytes_atomic", full_later)
    with pytest.raises(DiskFull, match=r"the disk is full .* run the study again"):
        serial(tmp_path / "out", study(**SOME))
    monkeypatch.undo()
    store = Store(tmp_path / "out")
    kept = store.listed(DONE)
    assert 0 < len(kept) < 12 and not store.check()
    _, progress, executor = serial(tmp_path / "out", study(**SOME))
    assert progress.complete and set(executor.ran) == store.manifest().keys() - kept


def test_a_disk_that_is_really_full(tmp_path):
    """A file system of 400 kB in memory, where this process may mount one."""
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", small], capture_output=True)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    many = study(fixed={"x": 0.3}, grid={"seed": {"from": 0, "to": 299}})
    try:
        with pytest.raises(DiskFull, match="the disk is full"):
            serial(small / "out", many)
        store = Store(small / "out")
        kept = {cell: store.record(DONE, cell) for cell in store.listed(DONE)}
        assert len(kept) > 5 and None not in kept.values() and not store.check()
        subprocess.run(["mount", "-o", "remount,size=40m", small], check=True)
        _, progress, executor = serial(small / "out", many)
        assert progress.complete and not kept.keys() & set(executor.ran)
    finally:
        subprocess.run(["umount", "-l", small], check=True)


@pytest.mark.parametrize(
    ("metrics", "says"),
    [
        ({"x": 1.0}, "'x' is a metric, and a column"),
        ({"status": 1.0}, "column of another kind"),
        ({"y": 2**60}, "2.53"),
    ],
)
def test_metrics_that_cannot_be_stored_are_refused(metrics, says):
    with pytest.raises(InputError, match=says):
        records.check_names(records.metrics_of(metrics), ["x"])
