"""`stickslip plan` and `tasks`: trials are stored and not run again, wrong input is refused, pictures are drawn."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from stickslip import parameters
from stickslip.cli import plan
from stickslip.cli.main import FAILED, OK, USAGE, main
from stickslip.cli.plan_store import Store
from stickslip.errors import InputError
from stickslip.mpc.planners.catalogue import PLANNERS, settings_of
from stickslip.mpc.planners.newton.planner import Newton
from stickslip.mpc.task import compile_problem
from stickslip.mpc.tasks import TASKS
from stickslip.mpc.trial import film, trial

TASK = "fingertips-rotate"


def test_tasks_are_listed_with_their_objects(capsys):
    assert main(["tasks"]) == OK
    told = capsys.readouterr().out
    for name, task in TASKS.items():
        assert name in told and task.objects[0] in told


def test_a_trial_is_stored_and_not_run_again(tmp_path, capsys, monkeypatch):
    command = ["plan", TASK, "--trials", "2", "--seed", "7", "--no-video", "--out", str(tmp_path)]
    assert main(command) == OK
    path = tmp_path / f"plan-{TASK}-newton.json"
    stored = json.loads(path.read_text())
    assert [row["seed"] for row in stored["trials"]] == [7, 8]
    assert all(row["success"] and row["position_mm"] < 20.0 and row["rotation"] < 0.015 for row in stored["trials"])
    assert "2 of 2" in capsys.readouterr().out

    def never(*_args, **_options):
        raise AssertionError("a stored trial ran again")

    monkeypatch.setattr(trial, "run", never)
    assert main(command) == OK
    assert json.loads(path.read_text()) == stored
    other = dataclasses.replace(plan.order(TASK, **_usual()), planner="newton:iterations=7")
    with pytest.raises(InputError, match="another order"):
        plan.run(other, **_how(tmp_path, trials=1))
    path.write_text("{}")
    with pytest.raises(InputError, match="not a result"):
        plan.run(plan.order(TASK, **_usual()), **_how(tmp_path, trials=1))


def test_failed_trials_are_results_and_aborted_trials_are_errors(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(TASKS, TASK, dataclasses.replace(TASKS[TASK], longest=3))
    command = ["plan", TASK, "--trials", "1", "--no-video", "--out", str(tmp_path)]
    assert main(command) == OK
    assert "0 (too long)" in capsys.readouterr().out

    def broken(*_args, **_options):
        raise InputError("on purpose")

    monkeypatch.setattr(Newton, "plan", broken)
    assert main(command) == OK  # stored
    assert main([*command, "--again"]) == FAILED
    assert "0 (planner: on purpose)" in capsys.readouterr().out
    assert main(command) == FAILED  # stored too


def test_again_keeps_other_trials_of_the_same_order_only(tmp_path):
    path = tmp_path / "plan.json"
    rows = [{"object": "cube", "seed": seed, "steps": 1} for seed in range(3)]
    first = Store(path, {"format": 1}, again=False)
    for row in rows:
        first.add(row)
    again = Store(path, {"format": 1}, again=True)
    assert again.done == {}
    again.add({**rows[1], "steps": 2})
    assert [row["steps"] for row in json.loads(path.read_text())["trials"]] == [1, 2, 1]
    other = Store(path, {"format": 2}, again=True)
    other.add(rows[0])
    assert json.loads(path.read_text()) == {"format": 2, "trials": rows[:1]}
    with pytest.raises(InputError, match="another format"):
        first.add(rows[2])  # by a process that still runs the old order: refused, and nothing is lost
    assert json.loads(path.read_text()) == {"format": 2, "trials": rows[:1]}


def test_two_processes_with_one_folder_lose_nothing(tmp_path):
    script = (
        "import sys\nfrom pathlib import Path\nfrom stickslip.cli.plan_store import Store\n"
        "store = Store(Path(sys.argv[1]), {'format': 1}, again=False)\n"
        "print('ready', flush=True)\nsys.stdin.readline()\n"
        "for seed in range(60):\n    store.add({'object': sys.argv[2], 'seed': seed})\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(plan.__file__).parents[2])}
    path = tmp_path / "plan.json"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", script, path, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for name in ("cube", "brick")
    ]
    for writer in writers:
        assert writer.stdout and writer.stdout.readline() == "ready\n"
    for writer in writers:  # both have read the folder while it was empty
        assert writer.stdin
        writer.stdin.write("\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=60)
        assert writer.returncode == 0
    stored = sorted((row["object"], row["seed"]) for row in json.loads(path.read_text())["trials"])
    assert stored == [(name, seed) for name in ("brick", "cube") for seed in range(60)]


@pytest.mark.parametrize(
    "arguments, told",
    [
        (["no-such-task"], "no task named"),
        ([TASK, "--object", "anvil"], "anvil"),
        ([TASK, "--planner", "simplex"], "no planner named"),
        ([TASK, "--planner", "newton:iteration=3"], "did you mean 'iterations'"),
        ([TASK, "--planner", "mppi:samples=1"], "samples is 1: it must be a whole number of at least 2"),
        ([TASK, "--trials", "0"], "trials is 0"),
        ([TASK, "--seed", "-1"], "seed is -1"),
        ([TASK, "--physics", "comfree"], "for planners that sample, such as --planner mppi"),
        ([TASK, "--planner", "mppi", "--physics", "magic"], "no physics named"),
    ],
)
def test_wrong_input_is_refused(arguments, told, tmp_path, capsys):
    assert main(["plan", *arguments, "--no-video", "--out", str(tmp_path)]) == USAGE
    assert told in " ".join(capsys.readouterr().err.split())


def test_parameters_of_every_planner_are_documented():
    text = (Path(__file__).parents[1] / "docs" / "planning.md").read_text()
    for name in PLANNERS:
        for parameter, default, limits, meaning in parameters.rows(settings_of(name)):
            assert f"| `{name}` | `{parameter}` | {default} | {meaning} | {limits} |" in text


def test_filmstrip_and_film_show_the_trial(tmp_path):
    problem = compile_problem(dataclasses.replace(TASKS[TASK], longest=6), "cube")
    from stickslip.mpc.planners.catalogue import make_planner

    ran = trial.run(problem, make_planner("newton", problem), 0)
    shown, steps = film.pictures(problem, ran, 4)
    assert steps == [0, 2, 4, 6]
    assert not np.array_equal(shown[0].pixels, shown[-1].pixels)
    assert film.strip(problem, ran, shown, steps).startswith(b"\x89PNG")
    path = tmp_path / "film.gif"
    path.write_bytes(film.film(shown, 1.0))
    with Image.open(path) as film_file:
        assert film_file.n_frames == 4


def _usual() -> dict:
    return {"planner": None, "physics": None, "realtime": False, "device": None}


def _how(out, trials: int) -> dict:
    return {
        "objects": (),
        "trials": trials,
        "seed": 7,
        "again": False,
        "video": False,
        "out": out,
        "console": Console(),
    }
