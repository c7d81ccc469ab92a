"""The command line: what it prints, what it writes, and how it ends."""

import dataclasses
import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from stickslip import files, parameters, spec
from stickslip.cli import main as cli
from stickslip.physics import registry
from stickslip.physics.registry import DEFAULT

ROOT = Path(__file__).parents[1]
PILE = "scaling"  # the smallest scene with several contacts


def _accept_ctrl_c():
    """A shell starts what it puts in the background with SIGINT ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _start(*args):
    command = [sys.executable, "-m", "stickslip", *args]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=ROOT, preexec_fn=_accept_ctrl_c, **pipes)


def test_help_is_quick_and_names_every_command():
    heavy = "import sys, stickslip.cli.main; print([m for m in ('warp', 'mujoco', 'matplotlib') if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", heavy], cwd=ROOT, capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"
    process = _start("--help")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    for command in ("run", "scenes", "physics", "points", "plan", "tasks", "bench", "demo"):
        assert command in out


def test_importing_the_cli_imports_nothing_heavy():
    code = "import sys, stickslip.cli.main; print({'mujoco', 'warp', 'matplotlib', 'numpy'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert out.strip() == "set()"


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("stickslip 0.")


def test_scenes_lists_every_scene(capsys):
    from stickslip.scenes import CATALOGUE

    assert cli.main(["scenes"]) == 0
    out = capsys.readouterr().out
    for name in CATALOGUE:
        assert name in out


def test_bench_list_tells_every_setting(capsys):
    from stickslip import bench

    assert cli.main(["bench", "list", "--settings"]) == 0
    out = capsys.readouterr().out
    for experiment in bench.EXPERIMENTS.values():
        for field in dataclasses.fields(experiment.settings):
            assert f"{field.name}=" in out


def test_ctrl_c_in_a_benchmark_keeps_what_is_finished(tmp_path):
    args = ["bench", "run", "stick", "--physics", "mujoco", "--device", "cpu", "--out", str(tmp_path)]
    process = _start(*args, "--set", "duration=20", "--set", "timesteps=0.1,0.00001")
    path = tmp_path / "stick.json"
    try:
        while not path.exists() and process.poll() is None:
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in err
    assert list(json.loads(path.read_text())["outcomes"]["mujoco"]) == ["stick, dt 100 ms"]


def test_bench_list_names(capsys):
    from stickslip import bench

    assert cli.main(["bench", "list", "--names"]) == 0
    assert capsys.readouterr().out.split() == list(bench.EXPERIMENTS)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["run", "drop-tset"], ["drop-tset", "drop-test"]),
        (["run", PILE, "--physics", "comfee"], ["comfee", "'comfree'", "mujoco"]),
        (["run", PILE, "--physics", "mujoco:stiffness=0.1"], ["mujoco", "stiffness"]),
        (["run", PILE, "--physics", "cone-sweep:stiffness=0.1"], ["cone-sweep", "stiffness", "substeps"]),
        (["run", PILE, "--physics", "cone-sweep:carry=true"], ["cone-sweep", "'carry'", "'warm_start'"]),
        (["run", PILE, "--physics", "comfree:stiffness=-1"], ["stiffness", "-1"]),
        (["run", PILE, "--physics", "cone-sweep:sweeps=0"], ["sweeps", "0", "1 to 1000"]),
        (["run", PILE, "--physics", "cone-sweep:restitution=1.5"], ["restitution", "1.5", "0 to 1"]),
        (["run", PILE, "--physics", "cone-sweep:restitution"], ["restitution", "key=value"]),
        (["run", PILE, "--substeps", "10"], ["--substeps", "--physics cone-sweep:substeps=10"]),
        (["run", PILE, "--physics", "cenic", "--accuracy=1e-4"], ["--physics cenic:accuracy=1e-4"]),
        (["run", PILE, "--physics", "comfree:damping=0", "--stiffness", "1"], ["comfree:damping=0,stiffness=1"]),
        (["run", PILE, "--nconmax", "0"], ["nconmax", "0", "at least 1"]),
        (["run", PILE, "--nworld", "1000000000", "--device", "cpu"], ["nworld is 1000000000", "worlds"]),
        (["physics", "comfee"], ["comfee", "'comfree'"]),
        (["run", PILE, "--steps", "0"], ["steps", "0"]),
        (["run", PILE, "--nworld", "0"], ["nworld", "0"]),
        (["run", PILE, "--device", "cuda:99"], ["cuda:99"]),
        (["run", PILE, "--out", "{file}"], ["{file}"]),
        (["bench", "run", "spede"], ["spede", "'speed'"]),
        (["bench", "run"], ["all", "speed"]),
        (["bench", "run", "stick", "--physics", "comfee", "--out", "{folder}"], ["comfee", "'comfree'"]),
        (["bench", "run", "stick", "--physics", "mujoco", "--physics", "comfree"], ["--physics", "2 times"]),
        (["bench", "run", "stick", "--set", "mu=-1", "--set", "mass=3"], ["mu", "-1"]),
        (["bench", "run", "stick", "--set", "mu"], ["mu", "name=value"]),
        (["bench", "run", "stick", "--set", "mew=1"], ["'mew'", "there are: mass, half, mu,"]),
        (["bench", "run", "stick", "--set", "mu=-1"], ["mu", "-1", "from 0 to 5"]),
        (["bench", "run", "stick", "--device", "cuda:99"], ["cuda:99"]),
        (["bench", "run", "stick", "--out", "{file}"], ["{file}"]),
        (["bench", "report", "{folder}"], ["{folder}", "bench run"]),
        (["bench", "report", "{file}"], ["{file}", "folder"]),
    ],
)
def test_wrong_input_ends_with_one_line_and_status_2(args, words, capsys, tmp_path):
    file = tmp_path / "file"
    file.write_text("not a folder")
    places = {"file": file, "folder": tmp_path}
    assert cli.main([a.format(**places) for a in args]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    for word in words:
        assert word.format(**places) in err


def test_run_writes_trajectory_picture_and_summary(tmp_path, capsys):
    args = ["run", PILE, "--steps", "30", "--nworld", "2", "--device", "cpu", "--out", str(tmp_path)]
    assert cli.main(args) == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["final.png", "summary.json", "trajectory.npz"]
    summary = json.loads((tmp_path / "summary.json").read_text())
    dt = summary["settings"]["timestep_s"]
    assert summary["settings"]["physics"] == DEFAULT
    assert summary["health"]["ok"]
    assert summary["metrics"]["simulated_s"] == pytest.approx(30 * dt, rel=1e-4)
    with np.load(tmp_path / "trajectory.npz") as trajectory:
        np.testing.assert_allclose(trajectory["time"][:, 0], np.arange(31) * dt, atol=1e-5)
        assert trajectory["qpos"].shape[:2] == (31, 2)
        # nothing has touched the ground yet after two steps: free fall, z'' = -g
        np.testing.assert_allclose(trajectory["qvel"][2, 0, 2], -9.81 * 2 * dt, rtol=1e-4)
    assert (tmp_path / "final.png").read_bytes().startswith(b"\x89PNG")
    assert "steps/s" in capsys.readouterr().out


def test_a_long_run_records_a_bounded_number_of_frames(tmp_path, monkeypatch):
    from stickslip.cli import recording

    monkeypatch.setattr(recording, "MAX_FRAMES", 4)
    monkeypatch.setattr(recording, "MAX_WORLDS", 1)
    monkeypatch.setenv("MUJOCO_GL", "off")
    assert cli.main(["run", PILE, "--steps", "10", "--nworld", "2", "--device", "cpu", "--out", str(tmp_path)]) == 0
    with np.load(tmp_path / "trajectory.npz") as trajectory:
        assert trajectory["qpos"].shape[:2] == (5, 1)
        np.testing.assert_allclose(trajectory["time"][:, 0] / 0.002, [0, 3, 6, 9, 10], rtol=1e-4)


def test_ctrl_c_while_stepping_keeps_what_was_computed(tmp_path):
    process = _start("run", "bouncing-ball", "--steps", "1000000000", "--device", "cpu", "--out", str(tmp_path))
    assert process.stdout is not None
    assert "Compiling" in process.stdout.readline()
    assert "Ctrl-C ends the run early" in process.stdout.readline()
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()  # if it ignored the signal, it would run for days
    assert process.returncode == 130
    assert "Traceback" not in err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["final.png", "summary.json", "trajectory.npz"]
    summary = json.loads((tmp_path / "summary.json").read_text())
    done, dt = summary["steps"], summary["settings"]["timestep_s"]
    assert summary["interrupted"] and 0 < done < summary["settings"]["steps"] == 1000000000
    assert f"interrupted after {done} of 1000000000 steps" in out
    assert "steps/s" in out
    with np.load(tmp_path / "trajectory.npz") as trajectory:  # the start, and where it was stopped
        np.testing.assert_allclose(trajectory["time"][:, 0], [0.0, done * dt], rtol=1e-3)


def test_ctrl_c_before_stepping_leaves_the_files_of_the_run_before(tmp_path, monkeypatch, capsys):
    import stickslip as ss

    names = ("trajectory.npz", "final.png", "summary.json")
    for name in names:
        (tmp_path / name).write_text(f"old {name}")

    def interrupt(_sim):
        raise KeyboardInterrupt

    monkeypatch.setattr(ss.Simulation, "compile", interrupt)
    assert cli.main(["run", PILE, "--device", "cpu", "--out", str(tmp_path)]) == 130
    assert capsys.readouterr().err == "interrupted; every file written so far is whole\n"
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {name: f"old {name}" for name in names}


def test_a_full_disk_names_the_file_after_the_results_are_printed(tmp_path, monkeypatch, capsys):
    def fsync(_):
        if any(p.name.startswith(".trajectory") for p in tmp_path.iterdir()):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # as write() raises it: without a name

    monkeypatch.setattr(os, "fsync", fsync)
    assert cli.main(["run", PILE, "--steps", "3", "--device", "cpu", "--out", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert "steps/s" in printed.out
    assert printed.err == f"error: {tmp_path / 'trajectory.npz'}: No space left on device\n"
    assert list(tmp_path.iterdir()) == []


def test_a_diverged_run_says_so_first(tmp_path, capsys):
    text = (
        '<mujoco><worldbody><geom type="plane" size="1 1 1"/><body pos="0 0 1"><freejoint/>'
        '<geom type="sphere" size="0.1" mass="1"/></body></worldbody>'
        '<keyframe><key qvel="0 0 -1e30 0 0 0"/></keyframe></mujoco>'
    )
    scene = tmp_path / "fast.xml"
    scene.write_text(text)
    assert cli.main(["run", str(scene), "--steps", "20", "--physics", "mujoco", "--device", "cpu"]) == 1
    out = capsys.readouterr().out
    assert out.split("warning: ")[1].startswith("1 world(s) are no longer finite")
    assert "no world is finite" in out


@pytest.mark.parametrize("name", registry.names())
def test_physics_lists_every_parameter_of_every_physics(name, capsys):
    assert cli.main(["physics"]) == 0
    assert name in capsys.readouterr().out
    assert cli.main(["physics", name]) == 0
    out = capsys.readouterr().out
    for field in dataclasses.fields(registry.PHYSICS[name]):
        assert field.name in out
        assert parameters.declaration(field).meaning  # declared, not a bare field


@pytest.mark.parametrize("name", registry.names())
def test_every_parameter_of_every_physics_can_be_given_as_text(name):
    kind = registry.PHYSICS[name]
    for field in dataclasses.fields(kind):
        if parameters.declaration(field).kind is not object:
            text = f"{name}:{field.name}={parameters.text(field.default)}"
            assert spec.resolve(text, registry.PHYSICS, "physics") == kind()


def test_demo_writes_picture_and_figures(tmp_path, capsys):
    args = ["demo", "--scene", PILE, "--steps", "100", "--device", "cpu", "--out", str(tmp_path)]
    assert cli.main(args) == 0
    report = json.loads((tmp_path / "demo.json").read_text())
    assert [r["physics"] for r in report["results"]] == ["mujoco", "comfree", "cone-sweep"]  # those made for piles
    for result in report["results"]:
        assert result["health"] == []
        assert 0.0 < result["penetration_mean_m"] <= result["penetration_max_m"] < 0.03
        assert result["contacts"] > 0
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    out = capsys.readouterr().out
    assert "MuJoCo" in out
    assert "ComFree" in out
    assert "Cone sweep" in out
    assert "first time" in out


def test_an_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = files.write_json(tmp_path / "deep" / "a.json", {"a": np.float32(1.5), "b": np.arange(2), "c": float("nan")})
    assert files.read_json(path) == {"a": 1.5, "b": [0, 1], "c": None}

    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        files.write_bytes_atomic(path, b"half")
    assert json.loads(path.read_text())["a"] == 1.5
    assert [p.name for p in path.parent.iterdir()] == ["a.json"]
