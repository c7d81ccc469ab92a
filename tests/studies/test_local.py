"""Cells in processes: what they do wrong stays with them, and no killed process or driver loses or doubles a cell."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow")

from stickslip import studies
from stickslip.errors import InputError
from stickslip.studies import records
from stickslip.studies.driver import Driver
from stickslip.studies.executors.local import Local
from stickslip.studies.records import DONE
from stickslip.studies.store import Store
from tests.studies.scripted import serial, study

ROOT = Path(__file__).parents[2]
POISONED = "tests.studies.functions:poisoned"
SLOW = "tests.studies.functions:slow"


def run(out, definition, **options):
    """A study in two processes."""
    cells = studies.plan(definition)
    store = Store(out)
    store.begin(definition, cells)
    settings = definition.settings
    memory = None if settings.memory is None else int(settings.memory * 1e9)
    with store.scratch() as scratch:
        executor = Local(scratch, "cpu", settings.timeout, memory, 2)
        try:
            return store, Driver(store, cells, executor, tries=settings.tries, **options).run()
        finally:
            executor.close()


def assert_same(store, other):
    """Every cell is there once, with the same bits in records and arrays."""
    cells = store.manifest().keys()
    assert cells == other.manifest().keys() == store.listed(DONE) == other.listed(DONE)
    assert store.table()["cell"].to_pylist() == list(cells)
    for cell in cells:
        assert records.same(store.record(DONE, cell), other.record(DONE, cell))
        for name in store.record(DONE, cell).files:
            one, two = (s.path(DONE, cell).parent / name for s in (store, other))
            assert one.read_bytes() == two.read_bytes()


def processes_of(folder):
    """Workers of studies in a folder, by what they were told: children of drivers, found by their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
            place = os.readlink(path / "cwd")
        except OSError:
            continue
        if b"stickslip.studies.executors.worker" in words and place == str(folder):
            found.append(int(path.name))
    return found


def start(folder, toml):
    """A driver in a process of its own, whose workers are found by the folder in which it runs."""
    command = [sys.executable, "-m", "stickslip", "study", "run", str(toml), "--out", str(folder / "out")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen([*command, "--workers", "2"], cwd=folder, env=environment, **pipes)


def fates(folder, kinds, **limits):
    """Progress of a study of poisoned cells, their causes and their errors by kind."""
    _, progress = run(folder, study(POISONED, grid={"kind": kinds}, tries=1, **limits))
    table = studies.table(folder)
    told = [dict(zip(table["kind"].to_pylist(), table[name].to_pylist(), strict=True)) for name in ("cause", "error")]
    return progress, *told


def test_a_poisoned_cell_stops_nobody(tmp_path):
    kinds = ["good", "exit", "crash", "loop", "kill", "raise", "fork"]
    progress, causes, errors = fates(tmp_path / "out", kinds, timeout=2.0)
    assert causes == {
        "good": "",
        "exit": "its process ended with exit status 3",
        "crash": "its process was ended by SIGSEGV",
        "loop": "it took too long",
        "kill": "its process was ended by SIGKILL",
        "raise": "ValueError: seed # is wrong",
        "fork": "its process ended with exit status 4",
    }
    assert progress.done == 1 and progress.failed == 6
    assert "functions.py" in errors["crash"] and "this is crash" in errors["crash"]  # where it was, and what it printed
    assert "more than 2 s; raise timeout" in errors["loop"]
    assert "ValueError: seed 4 is wrong" in errors["raise"]


def test_a_cell_that_takes_too_much_memory_stops_nobody(tmp_path):
    """Taking it can last, on a busy machine."""
    progress, causes, errors = fates(tmp_path / "out", ["memory", "good"], timeout=120.0, memory=0.5)
    assert causes == {"good": "", "memory": "it took too much memory"}
    assert progress.done == 1 and progress.failed == 1 and "0.5 GB are allowed" in errors["memory"]


def test_processes_give_what_one_process_gives(tmp_path):
    definition = study(fixed={"x": 0.7}, grid={"seed": {"from": 0, "to": 39}})
    one, _, _ = serial(tmp_path / "one", definition)
    many, progress = run(tmp_path / "many", definition)
    assert progress.complete
    assert_same(many, one)


def test_workers_and_drivers_are_killed_and_no_cell_is_lost_or_doubled(tmp_path):
    """Workers are killed all the time, the first driver after a while; then two drivers at once finish the study."""
    toml = tmp_path / "slow.toml"
    toml.write_text(
        f'run = "{SLOW}"\ndevice = "cpu"\ntries = 50\n[fixed]\nwait = 0.05\n[grid]\nx = {{from = 0, to = 59}}\n'
    )
    rng = random.Random(1)
    store = Store(tmp_path / "out")

    def harass(drivers, until):
        end = time.monotonic() + 120.0
        while time.monotonic() < end and not until():
            found = processes_of(tmp_path)
            if len(found) > 1 and rng.random() < 0.5:
                os.kill(rng.choice(found), signal.SIGKILL)
            time.sleep(rng.uniform(1.0, 3.0))
        assert until(), [driver.poll() for driver in drivers]

    first = start(tmp_path, toml)
    harass([first], lambda: len(store.listed(DONE)) > 8)
    first.kill()
    first.wait()
    end = time.monotonic() + 30.0
    while processes_of(tmp_path) and time.monotonic() < end:  # one that had just begun ends when it has its imports
        time.sleep(0.05)
    assert not processes_of(tmp_path)  # its workers ended with it
    pair = [start(tmp_path, toml), start(tmp_path, toml)]
    harass(pair, lambda: len(store.listed(DONE)) > 35)
    for driver in pair:
        out, _ = driver.communicate(timeout=120)
        assert driver.returncode == 0, out
    one, _, _ = serial(tmp_path / "serial", studies.load(toml))
    assert_same(store, one)
    assert not list((tmp_path / "out").glob("scratch/*/*/*"))


def test_the_first_time_does_not_count_where_a_second_try_works(tmp_path):
    marks = tmp_path / "marks"
    marks.mkdir()
    definition = study("tests.studies.functions:once", fixed={"marks": str(marks)}, grid={"x": [1, 2, 3]}, tries=2)
    store, progress = run(tmp_path / "out", definition)
    assert progress.complete
    assert {record.tries for record in records.decode(store.table())} == {2}


def test_ctrl_c_lets_running_cells_end_and_the_same_command_goes_on(tmp_path):
    toml = tmp_path / "slow.toml"
    toml.write_text(f'run = "{SLOW}"\ndevice = "cpu"\n[fixed]\nwait = 0.3\n[grid]\nx = {{from = 0, to = 11}}\n')
    store = Store(tmp_path / "out")
    driver = start(tmp_path, toml)
    end = time.monotonic() + 60.0
    while not store.listed(DONE) and time.monotonic() < end:
        time.sleep(0.02)
    driver.send_signal(signal.SIGINT)
    out, _ = driver.communicate(timeout=60)
    kept = store.listed(DONE)
    assert driver.returncode == 130 and "interrupted" in out and 0 < len(kept) < 12
    assert not store.check() and not processes_of(tmp_path)
    _, progress = run(tmp_path / "out", studies.load(toml))
    assert progress.complete and progress.ran == 12 - len(kept)


def test_a_study_from_python_is_a_table(tmp_path):
    import stickslip as ss
    from tests.studies import functions

    table = ss.study(functions.quick, tmp_path / "out", grid={"x": [1.0, 2.0], "seed": [0, 1]}, device="cpu", workers=1)
    assert table.column_names[:5] == ["cell", "status", "x", "seed", "y"]
    assert table["y"].to_pylist() == [1.0, 0.5, 2.0, 1.0]
    with pytest.raises(InputError, match="in a module of its own|at the top level of a module"):
        ss.study(lambda x: {"y": x}, tmp_path / "no", grid={"x": [1.0]})


def test_a_rollout_is_the_same_in_another_process(tmp_path):
    fixed = {"scene": "pendulum", "steps": 20, "arrays": ["qpos"], "every": 5, "speeds": 0.3, "physics": "mujoco"}
    definition = study("rollout", fixed=fixed | {"measure": "tests.studies.functions:speed"}, grid={"seed": [0, 1]})
    many, progress = run(tmp_path / "many", definition)
    assert progress.complete, studies.table(tmp_path / "many")["error"].to_pylist()
    one, _, _ = serial(tmp_path / "one", definition)
    assert_same(many, one)
    first, second = (studies.arrays(tmp_path / "many", cell)["qpos"] for cell in many.manifest())
    assert first.shape[0] == 5 and not np.array_equal(first, second)
