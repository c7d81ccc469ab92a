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

from stickslip import files, mjcf, parameters
from stickslip.cli import plan
from stickslip.cli.main import FAILED, OK, USAGE, main
from stickslip.cli.plan_store import Store
from stickslip.errors import InputError
from stickslip.mpc.planners.catalogue import PLANNERS, settings_of
from stickslip.mpc.planners.newton.planner import Newton
from stickslip.mpc.task import compile_problem
from stickslip.mpc.tasks import TASKS
from stickslip.mpc.tasks.load import load_task
from stickslip.mpc.trial import film, trial

TASK = "fingertips-rotate"
EXAMPLE = str(Path(__file__).parents[1] / "examples" / "cart_pole_task.py")


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
    assert all(row["success"] and row["position_mm"] < 20.0 and row["angle_deg"] < 14.1 for row in stored["trials"])
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
    assert [row["steps"] for row in files.read_json(path)["trials"]] == [1, 2, 1]
    other = Store(path, {"format": 2}, again=True)
    other.add(rows[0])
    assert files.read_json(path) == {"format": 2, "trials": rows[:1]}
    with pytest.raises(InputError, match="another format"):
        first.add(rows[2])  # by a process that still runs the old order: refused, and nothing is lost
    assert files.read_json(path) == {"format": 2, "trials": rows[:1]}


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
        (["nowhere.py"], "nowhere.py is not a file"),
        ([EXAMPLE, "--realtime"], "cannot import the functions of"),
        ([TASK, "--no-look-ahead"], "nothing looks ahead; add --realtime"),
        ([EXAMPLE + ":POLE"], "no task of"),
        (
            [EXAMPLE, "--planner", "newton"],
            "my-cart-pole does not fit the planner newton: it has no quasi-dynamic model",
        ),
    ],
)
def test_wrong_input_is_refused(arguments, told, tmp_path, capsys):
    assert main(["plan", *arguments, "--no-video", "--out", str(tmp_path)]) == USAGE
    assert told in " ".join(capsys.readouterr().err.split())


def test_nothing_is_written_when_a_task_cannot_be_planned(tmp_path):
    out = tmp_path / "out"
    assert main(["plan", EXAMPLE, "--planner", "newton", "--no-video", "--out", str(out)]) == USAGE
    assert not out.exists()


def test_a_task_of_a_file_is_planned(tmp_path, capsys):
    """A pole is swung up and balanced by a task that stickslip does not know; picture and film are drawn."""
    command = [
        "plan",
        EXAMPLE,
        "--trials",
        "1",
        "--planner",
        "mppi:samples=64",
        "--device",
        "cpu",
        "--out",
        str(tmp_path),
    ]
    assert main(command) == OK
    assert "1 of 1" in capsys.readouterr().out
    stored = json.loads((tmp_path / "plan-my-cart-pole-mppi.json").read_text())
    assert stored["order"]["source"] and stored["order"]["physics"]["name"] == "cone-sweep"
    assert stored["parameters"]["cost"]["height"]["weight"] == 10.0
    (row,) = stored["trials"]
    assert row["angle_rad"] < 0.15 and row["distance_m"] < 0.15
    assert (tmp_path / "my-cart-pole.png").exists() and (tmp_path / "my-cart-pole.gif").exists()
    with np.load(tmp_path / "my-cart-pole.npz") as recording:
        assert len(recording["time"]) == len(recording["qpos"]) == row["steps"] + 1
        assert mjcf.from_bytes(recording["model"].tobytes(), "the recording").nq == recording["qpos"].shape[1]


def test_trials_of_another_model_do_not_count(tmp_path):
    """A file is the same, the model it reads is not."""
    text = Path(EXAMPLE).read_text().replace("mujoco.MjSpec.from_string(MODEL)", "mujoco.MjSpec.from_file(FILE)")
    model, file = tmp_path / "model.xml", tmp_path / "own.py"
    mjcf = text.split('"""')[3]
    model.write_text(mjcf)
    file.write_text(f"FILE = {str(model)!r}\n" + text)
    heads = []
    for mass in ("0.15", "0.3"):
        model.write_text(mjcf.replace('mass="0.15"', f'mass="{mass}"'))
        heads.append(plan._head(plan.order(str(file), **_usual())))
    assert heads[0]["versions"]["model"] != heads[1]["versions"]["model"]
    assert heads[0]["order"] == heads[1]["order"]


def test_files_with_several_tasks_or_none_are_refused(tmp_path):
    file = tmp_path / "some.py"
    file.write_text("x = 1\n")
    with pytest.raises(InputError, match="must define one stickslip.mpc.task.Task, it defines none"):
        load_task(str(file))
    file.write_text("from stickslip.mpc.tasks.leap import ROLL, YAW\n")
    with pytest.raises(InputError, match="it defines ROLL, YAW; choose one with .*some.py:NAME"):
        load_task(str(file))
    assert load_task(f"{file}:YAW").name == "leap-yaw"
    file.write_text("1 / 0\n")
    with pytest.raises(InputError, match="some.py does not run: ZeroDivisionError"):
        load_task(str(file))


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
