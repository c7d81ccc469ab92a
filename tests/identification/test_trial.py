"""Trials and their files: what is stored comes back, and what is wrong is named."""

import numpy as np
import pytest

import stickslip as ss

TIME = np.array([0.0, 0.1, 0.25])
MEASURED = np.array([[0.0, 1.0], [0.1, 1.1], [0.3, 0.9]])

CSV = """# a comment
time, ctrl[0], x, sensor:y, start:qpos[0], start:qpos[1], start:qvel[0]
0.0, 0.5, 0.0, 1.0, 0.25, -1, 2
0.05, 0.6, , , , ,
0.1, 0.7, 0.1, , , ,
0.25, 0.7, 0.3, 0.9, , ,
"""


def test_a_trial_is_the_same_after_npz(tmp_path):
    trial = ss.Trial(
        TIME, MEASURED, [0.1, 0.2], ["qpos[0]", "qpos[1]"], ctrl=[[1.0], [2.0]], ctrl_time=[0.0, 0.2], qpos=[0, 1],
        qvel=[3, 4], name="push",
    )  # fmt: skip
    again = ss.Trial.load(trial.save(tmp_path / "push.npz"))
    for name in ("time", "measured", "noise", "ctrl", "ctrl_time", "qpos", "qvel"):
        assert (getattr(again, name) == getattr(trial, name)).all()
    assert again.channels == trial.channels and again.act is None and again.name == "push"


def test_a_csv_file_has_controls_start_and_what_was_measured(tmp_path):
    path = tmp_path / "run.csv"
    path.write_text(CSV)
    trial = ss.Trial.load(path, noise=[0.1, 0.2])
    assert trial.channels == ("x", "sensor:y")
    assert trial.time.tolist() == [0.0, 0.1, 0.25]  # the second row has controls alone
    assert trial.ctrl_time is not None and trial.ctrl_time.tolist() == [0.0, 0.05, 0.1, 0.25]
    assert trial.ctrl is not None and trial.ctrl[:, 0].tolist() == [0.5, 0.6, 0.7, 0.7]
    assert trial.noise.tolist() == [[0.1, 0.2], [0.1, np.inf], [0.1, 0.2]]
    assert trial.measured[:, 0].tolist() == [0.0, 0.1, 0.3]
    assert trial.qpos is not None and trial.qpos.tolist() == [0.25, -1.0]
    assert trial.qvel is not None and trial.qvel.tolist() == [2.0]


def test_a_csv_file_without_noise_is_refused(tmp_path):
    path = tmp_path / "run.csv"
    path.write_text(CSV)
    with pytest.raises(ss.InputError, match="does not say the noise"):
        ss.Trial.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"measured": MEASURED[:2]}, r"measured of trial has shape \(2, 2\), expected \(3, ny\)"),
        ({"measured": MEASURED * [1, np.nan]}, "measured of trial is nan at time 0 s, column 1"),
        ({"measured": "ten"}, "measured of trial must be numbers"),
        ({"time": [0.0, 0.2, 0.1]}, "time of trial must ascend: 0.1 s follows 0.2 s in row 2"),
        ({"time": [-0.1, 0.2, 0.3]}, "begins at -0.1 s"),
        ({"time": [0.0, np.inf, 0.3]}, "time of trial is not finite in row 1"),
        ({"noise": 0.0}, "noise of trial is 0 somewhere"),
        ({"noise": -1.0}, "noise of trial is -1 somewhere"),
        ({"noise": [1.0, 1.0, 1.0]}, r"noise of trial has shape \(3,\)"),
        ({"noise": np.inf}, "nothing was measured"),
        ({"ctrl": [1.0, 2.0]}, r"ctrl of trial has shape \(2,\)"),
        ({"ctrl": [[np.nan]]}, "ctrl of trial is not finite in row 0"),
        ({"ctrl_time": [0.0]}, "ctrl_time without ctrl"),
        ({"ctrl": [[1.0]], "ctrl_time": [0.0, 1.0]}, "1 controls and 2 times"),
        ({"qpos": [np.nan]}, "qpos of trial must be one row of finite numbers"),
    ],
)
def test_what_is_wrong_with_a_trial_is_named(change, message):
    with pytest.raises(ss.InputError, match=message):
        ss.Trial(**({"time": TIME, "measured": MEASURED, "noise": 0.1} | change))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("time,x\n", "no rows"),
        ("t,x\n0,1\n", "no column `time`"),
        ("time\n0\n", "no measured column"),
        ("time,x,x\n0,1,1\n", "two columns 'x'"),
        ("time,x\n0,1,2\n", "line 2: 3 fields, the first line names 2"),
        ("time,x\n0,one\n", "line 2, column 'x': 'one' is not a number"),
        ("time,x\n0,nan\n", "leave it empty if it is missing"),
        ("time,x,start:pose[0]\n0,1,2\n", "must be start:qpos"),
        ("time,x,ctrl[1]\n0,1,2\n", r"must be ctrl\[0\] to ctrl\[0\]"),
    ],
)
def test_what_is_wrong_with_a_csv_file_is_named(tmp_path, text, message):
    path = tmp_path / "run.csv"
    path.write_text(text)
    with pytest.raises(ss.InputError, match=message):
        ss.Trial.load(path, noise=0.1)


def test_what_is_no_trial_is_refused(tmp_path):
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    with pytest.raises(ss.InputError, match="is not a trial: it has x"):
        ss.Trial.load(tmp_path / "other.npz")
    (tmp_path / "cut.npz").write_bytes(b"PK\x03\x04")
    with pytest.raises(ss.InputError, match="is not a trial as it was written: it has 4 bytes"):
        ss.Trial.load(tmp_path / "cut.npz")
    np.savez(tmp_path / "pickle.npz", time=np.array([{}], dtype=object), measured=np.zeros(3))
    with pytest.raises(ss.InputError, match="time: it holds Python objects, a pickle"):
        ss.Trial.load(tmp_path / "pickle.npz")
    with pytest.raises(ss.InputError, match="no such file"):
        ss.Trial.load(tmp_path / "none.npz")
    with pytest.raises(ss.InputError, match=".npz or .csv"):
        ss.Trial.load(tmp_path / "run.txt")
    with pytest.raises(ss.InputError, match="written as .npz"):
        ss.Trial(TIME, MEASURED, 0.1).save(tmp_path / "run.csv")
