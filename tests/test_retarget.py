"""`stickslip retarget` and `motions`: runs are stored and not run again, wrong input is refused, pictures are drawn."""

import json

import numpy as np
import pytest
from PIL import Image

from stickslip.cli.main import FAILED, OK, USAGE, main
from stickslip.mpc import retarget
from stickslip.mpc.retarget import film, made, prepare, rollout
from stickslip.mpc.retarget.files.deepmimic import JOINTS
from stickslip.mpc.retarget.human.skeleton import LEG

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
    assert "optimised open loop reference" in told and "base position error [mm]" in told
    assert "seed 1: done after 0.30 s" in told and f"{stem}.png" in told
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


def human(path) -> str:
    """A human of DeepMimic that stands."""
    rows = np.zeros((12, 44))
    rows[:, 0], rows[:, 2] = 1.0 / 30.0, LEG
    for name, joint in JOINTS.items():
        if not name.endswith(("knee", "elbow")):
            rows[:, joint.column] = 1.0
    path.write_text(json.dumps({"Frames": rows.tolist()}))
    return str(path)


def test_a_humans_motion_is_brought_onto_the_robot_first(tmp_path, capsys):
    command = ["retarget", human(tmp_path / "stand.txt"), *FEW, "--to", "0.1", "--no-video", "--out", str(tmp_path)]
    assert main(command) == OK
    told = " ".join(capsys.readouterr().out.split())
    assert "brought onto g1 by inverse kinematics" in told and "seed 0: done after 0.10 s" in told
    stored = json.loads((tmp_path / "retarget-stand-g1-cone-sweep.json").read_text())
    assert stored["trials"][0]["base_pos"] < 0.02 and stored["options"]["self_collision"] is None


def holosoma(path, height: float) -> str:
    """A file of holosoma: the robot at home, and an object in front of it, its middle at a height [m]."""
    home = retarget.ROBOTS["g1"].build(retarget.Options()).compile().key_qpos[0]
    place, turn = np.tile([0.7, 0.0, height], (12, 1)), np.tile([1.0, 0.0, 0.0, 0.0], (12, 1))
    joints = np.array(made.make("squat").joint_names)
    np.savez(
        path,
        fps=[50], joint_pos=np.tile(home, (12, 1)), joint_names=joints, object_pos_w=place, object_quat_w=turn,
    )  # fmt: skip
    return str(path)


def test_a_file_with_an_object_takes_the_robot_with_a_box(tmp_path):
    box = (0.4, 0.4, 0.3)
    motion, robot, options = prepare.load(holosoma(tmp_path / "box.npz", 0.15), box=box)
    assert robot.name == "g1-box" and list(motion.objects) == ["box"] and options.box == box
    assert "the object 'object' of the file is the robot's 'box'" in motion.notes
    assert motion.contacts["left_foot"].all() and not motion.contacts["left_hand"].any()
    deep = prepare.load(holosoma(tmp_path / "deep.npz", 0.1), box=box)[0]
    assert "the object is 5.0 cm in the floor in the first frame, and starts above it" in deep.notes
    problem = retarget.compile_problem(robot, deep, options=options)
    assert problem.start[-5] == pytest.approx(0.15, abs=2e-3)  # the box is lifted, and the robot is not
    assert problem.start[2] == pytest.approx(problem.reference.qpos[0, 2], abs=2e-3)


def test_an_object_that_does_not_fit_is_refused(tmp_path, capsys):
    path = holosoma(tmp_path / "box.npz", 0.15)
    out = ["--device", "cpu", "--no-video", "--out", str(tmp_path / "out")]
    assert main(["retarget", path, *out]) == USAGE
    told = " ".join(capsys.readouterr().err.split())
    assert "'box' of the robot g1-box is 0.200 m in the floor" in told and "give --box" in told
    assert main(["retarget", path, "--robot", "g1", *out]) == USAGE
    assert "the robot g1 has none; choose --robot g1-box" in " ".join(capsys.readouterr().err.split())
    assert main(["retarget", "squat", "--box", "1", "1", "1", *out]) == USAGE
    assert "the robot g1 has none; choose g1-box" in " ".join(capsys.readouterr().err.split())


def test_a_film_as_mp4_needs_ffmpeg(monkeypatch):
    monkeypatch.setattr(film.shutil, "which", lambda name: None)
    assert film.mp4(None, []) is None  # type: ignore[arg-type]
