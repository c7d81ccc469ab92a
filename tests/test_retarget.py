"""`stickslip retarget` and `motions`: runs are stored and not run again, wrong input is refused, pictures are drawn."""

import json

import numpy as np
import pytest
from PIL import Image

from stickslip.cli.main import FAILED, OK, USAGE, main
from stickslip.mpc import retarget
from stickslip.mpc.retarget import film, made, rollout

FEW = ["--samples", "4", "--iterations", "2", "--horizon", "8", "--device", "cpu"]


def test_motions_are_listed_with_robots(capsys):
    assert main(["motions"]) == OK
    told = capsys.readouterr().out
    for name in (*made.MOTIONS, *retarget.ROBOTS):
        assert name in told


def test_a_run_is_stored_with_pictures_and_not_run_again(tmp_path, capsys, monkeypatch):
    command = ["retarget", "squat", *FEW, "--to", "0.3", "--trials", "2", "--export", "lafan1", "--out", str(tmp_path)]
    assert main(command) == OK
    stem = "retarget-squat-g1-cone-sweep"
    stored = json.loads((tmp_path / f"{stem}.json").read_text())
    assert [row["seed"] for row in stored["trials"]] == [0, 1]
    for row in stored["trials"]:
        assert row["reason"] == "done" and row["steps"] == 18 and row["base_pos"] < 0.02
        assert row["spider_base_pos"] != row["base_pos"] and row["penetration"] < 0.005
    assert stored["settings"]["samples"] == 4 and stored["physics"]["name"] == "cone-sweep"
    told = " ".join(capsys.readouterr().out.split())
    assert "optimised open loop reference" in told and "seed 1: done after 0.30 s" in told and f"{stem}.png" in told
    with Image.open(tmp_path / f"{stem}.png") as image:
        assert image.width > 1000 and len(np.unique(np.asarray(image.convert("L")))) > 50
    assert (tmp_path / f"{stem}.gif").exists()
    again = retarget.load(tmp_path / f"{stem}-1.npz")
    assert again.frames == 19 and again.joint_names == made.make("squat").joint_names
    exported = np.loadtxt(tmp_path / f"{stem}-0-lafan1.csv", delimiter=",")
    assert exported.shape[1] == 36
    np.testing.assert_allclose(exported[0, :3], again.base[0, :3], atol=1e-5)

    def never(*_args, **_options):
        raise AssertionError("a stored run ran again")

    monkeypatch.setattr(rollout, "run", never)
    assert main(command) == OK
    assert json.loads((tmp_path / f"{stem}.json").read_text()) == stored
    assert main([*command, "--servo", "stiff"]) == USAGE
    assert "holds trials with another options; replace them with --again" in " ".join(capsys.readouterr().err.split())


def test_a_motion_that_cannot_be_read_does_not_end_the_others(tmp_path, capsys):
    bad = tmp_path / "bad.csv"
    bad.write_text("1,2,3\n4,5,6\n")
    command = ["retarget", str(bad), "squat", *FEW, "--to", "0.1", "--no-video", "--out", str(tmp_path)]
    assert main(command) == FAILED
    told = " ".join(capsys.readouterr().out.split())
    assert "bad.csv" in told and "columns" in told
    assert json.loads((tmp_path / "retarget-squat-g1-cone-sweep.json").read_text())["trials"][0]["reason"] == "done"
    assert not list(tmp_path.glob("*.state.npz"))


@pytest.mark.parametrize(
    "arguments, told",
    [
        (["moonwalk"], "'moonwalk' is neither a file nor one of our motions: squat"),
        (["squat", "--robot", "t1000"], "no robot named 't1000'"),
        (["squat", "--robot", "leap"], "joints that the robot does not have as hinge or slide: left_hip_pitch_joint"),
        (["squat", "--physics", "magic"], "no physics named"),
        (["squat", "--physics", "cenic"], "cannot be captured"),
        (["squat", "--trials", "0"], "trials is 0"),
        (["squat", "--from", "2", "--to", "99"], "it lasts from 0 to"),
        (["squat", "--samples", "1"], "samples is 1"),
        (["squat", "--guidance", "0.5", "--iterations", "2"], "use 3 iterations or more"),
        (["squat", "--horizon", "4"], "control_steps is 6: it must be at most the horizon, 4"),
        (["squat", "--dt", "0.5"], "dt is 0.5: it must be above 0 and at most 0.1 s"),
        ([], "give a motion or more; `stickslip motions` lists them"),
    ],
)
def test_wrong_input_is_refused(arguments, told, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["retarget", *arguments, "--device", "cpu", "--no-video", "--out", str(out)]) == USAGE
    assert told in " ".join(capsys.readouterr().err.split())
    assert not out.exists()


def test_a_film_as_mp4_needs_ffmpeg(monkeypatch):
    monkeypatch.setattr(film.shutil, "which", lambda name: None)
    assert film.mp4(None, []) is None  # type: ignore[arg-type]
