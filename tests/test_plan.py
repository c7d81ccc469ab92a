"""`stickslip plan` and `tasks`: trials are stored and not run again, wrong input is refused, pictures are drawn."""

import dataclasses
import json

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from stickslip import plan
from stickslip.cli import FAILED, OK, USAGE, main
from stickslip.errors import InputError
from stickslip.mpc import film, trial
from stickslip.mpc.task import compile_problem
from stickslip.mpc.tasks import TASKS

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
    other = dataclasses.replace(plan.order(TASK, **_usual()), physics="mujoco")
    with pytest.raises(InputError, match="another order"):
        plan.run(other, **_how(tmp_path, trials=1))
    path.write_text("{}")
    with pytest.raises(InputError, match="not a result"):
        plan.run(plan.order(TASK, **_usual()), **_how(tmp_path, trials=1))


def test_trials_that_do_not_succeed_are_told_with_their_reason(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(TASKS, TASK, dataclasses.replace(TASKS[TASK], longest=3))
    assert main(["plan", TASK, "--trials", "1", "--no-video", "--out", str(tmp_path)]) == FAILED
    assert "too long" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments, told",
    [
        (["no-such-task"], "no task named"),
        ([TASK, "--object", "anvil"], "anvil"),
        ([TASK, "--planner", "simplex"], "no planner named"),
        ([TASK, "--trials", "0"], "trials is 0"),
        ([TASK, "--seed", "-1"], "seed is -1"),
        ([TASK, "--physics", "comfree"], "for --planner mppi"),
        ([TASK, "--planner", "mppi", "--physics", "magic"], "no physics named"),
    ],
)
def test_wrong_input_is_refused(arguments, told, tmp_path, capsys):
    assert main(["plan", *arguments, "--no-video", "--out", str(tmp_path)]) == USAGE
    assert told in " ".join(capsys.readouterr().err.split())


def test_filmstrip_and_film_show_the_trial(tmp_path):
    problem = compile_problem(dataclasses.replace(TASKS[TASK], longest=6), "cube")
    from stickslip.mpc.planners import make_planner

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
    return {"planner": None, "physics": None, "realtime": False, "bus": "loopback", "device": None, "samples": None}


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
