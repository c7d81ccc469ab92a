"""DeepMimic's human: places of its parts by hand, and what is corrected or refused."""

import json

import numpy as np
import pytest

from stickslip.errors import InputError
from stickslip.mpc.retarget.files import load
from stickslip.mpc.retarget.files.deepmimic import JOINTS, human_targets, read_human
from stickslip.mpc.retarget.g1_joints import G1_JOINTS
from stickslip.mpc.retarget.motion import exponential

HIP = 0.084887
LEG = 0.421546 + 0.40987


def frames(count: int = 3, duration: float = 1.0 / 60.0) -> np.ndarray:
    """A human that stands, 0.9 m high, and walks along DeepMimic's x."""
    rows = np.zeros((count, 44))
    rows[:, 0] = duration
    rows[:, 1] = np.arange(count) * duration
    rows[:, 2] = 0.9
    for name, joint in JOINTS.items():
        if not name.endswith(("knee", "elbow")):
            rows[:, joint.column] = 1.0
    return rows


def write(path, rows, **more) -> str:
    path.write_text(json.dumps({"Loop": "none", "Frames": np.asarray(rows).tolist(), **more}))
    return str(path)


def test_a_standing_human_by_hand(tmp_path):
    """x forward, y to the left, z up; the columns cover a frame."""
    fps, places, root, turns = human_targets(write(tmp_path / "stand.txt", frames()))
    assert fps == pytest.approx(60.0)
    for name, expected in {
        "pelvis": (0.0, 0.0, 0.9),
        "left_hip": (0.0, HIP, 0.9),
        "left_knee": (0.0, HIP, 0.9 - 0.421546),
        "right_ankle": (0.0, -HIP, 0.9 - LEG),
        "right_foot": (0.045, -HIP, 0.9 - LEG - 0.05),
        "left_shoulder": (-0.02405, 0.18311, 0.9 + 0.236151 + 0.2435),
        "left_elbow": (-0.02405, 0.18311, 0.9 + 0.236151 + 0.2435 - 0.274788),
        "right_hand": (-0.02405, -0.18311, 0.9 + 0.236151 + 0.2435 - 0.274788 - 0.258947),
        "head": (0.0, 0.0, 0.9 + 0.236151 + 0.223894 + 0.175),
    }.items():
        np.testing.assert_allclose(places[name][0], expected, atol=1e-12, err_msg=name)
    np.testing.assert_allclose(places["pelvis"][:, 0], np.arange(3) / 60.0)
    np.testing.assert_allclose(root, np.tile([1.0, 0.0, 0.0, 0.0], (3, 1)))
    assert set(turns) == {"left_foot", "right_foot", "left_hand", "right_hand", "chest"}
    columns = sorted(joint.column + k for name, joint in JOINTS.items() for k in range(_width(name)))
    assert columns == list(range(4, 44))


def _width(name: str) -> int:
    return 1 if name.endswith(("knee", "elbow")) else 4


def test_knees_bend_backwards_and_elbows_forwards(tmp_path):
    rows = frames()
    rows[:, JOINTS["left_knee"].column] = -np.pi / 2
    rows[:, JOINTS["right_elbow"].column] = np.pi / 2
    places = human_targets(write(tmp_path / "bent.txt", rows))[1]
    np.testing.assert_allclose(places["left_ankle"][0] - places["left_knee"][0], [-0.40987, 0, 0], atol=1e-12)
    np.testing.assert_allclose(places["right_hand"][0] - places["right_elbow"][0], [0.258947, 0, 0], atol=1e-12)


def test_a_turn_to_the_left(tmp_path):
    """About DeepMimic's y, which is our z: x forward becomes y, and the left hip is behind."""
    rows = frames()
    rows[:, 4:8] = [np.cos(np.pi / 4), 0.0, np.sin(np.pi / 4), 0.0]
    _, places, root, turns = human_targets(write(tmp_path / "left.txt", rows))
    np.testing.assert_allclose(root[0], exponential(np.array([0.0, 0.0, np.pi / 2])), atol=1e-12)
    np.testing.assert_allclose(places["left_hip"][0], [-HIP, 0.0, 0.9], atol=1e-12)
    np.testing.assert_allclose(turns["left_foot"][0], root[0], atol=1e-12)


def test_quaternions_that_are_not_unit_are_normalised_with_a_note(tmp_path):
    rows = frames()
    column = JOINTS["right_hip"].column
    rows[1, column : column + 4] *= 0.583
    human = read_human(write(tmp_path / "kick.txt", rows))
    assert human.notes == ("1 quaternions normalised; the worst: right_hip in frame 1, of norm 0.583",)
    np.testing.assert_allclose(human.rotations["right_hip"], np.tile([1.0, 0, 0, 0], (3, 1)))
    rows[1, column : column + 4] = 0.0
    with pytest.raises(InputError, match="right_hip: the quaternion of frame 1 is zero"):
        read_human(write(tmp_path / "zero.txt", rows))


def test_the_last_frame_lasts_any_time_and_uneven_ones_are_resampled(tmp_path):
    rows = frames(4, 0.016666)
    rows[-1, 0] = 0.0
    human = read_human(write(tmp_path / "last.txt", rows))
    assert human.fps == 60.0 and human.notes == ()
    rows = frames(5, 0.1)
    rows[1, 0] = 0.2
    rows[:, 1] = [0.0, 0.1, 0.3, 0.4, 0.5]  # still at 1 m/s
    human = read_human(write(tmp_path / "uneven.txt", rows))
    assert human.notes == ("frames of uneven duration: resampled to 10 frames per second",)
    np.testing.assert_allclose(human.positions["pelvis"][:, 0], np.arange(6) / 10.0, atol=1e-12)


def test_files_that_are_none_are_refused(tmp_path):
    with pytest.raises(InputError, match="frame 0 has 20 numbers; DeepMimic's human has 44"):
        read_human(write(tmp_path / "dog.txt", np.zeros((3, 20))))
    with pytest.raises(InputError, match="has 1 frames; 2 or more are needed"):
        read_human(write(tmp_path / "one.txt", frames(1)))
    rows = frames()
    rows[2, 5] = np.nan
    with pytest.raises(InputError, match="frame 2, number 5 is not finite"):
        read_human(write(tmp_path / "nan.txt", rows))
    rows = frames()
    rows[1, 0] = 0.0
    with pytest.raises(InputError, match="frame 1 lasts 0 s; it must be above 0"):
        read_human(write(tmp_path / "still.txt", rows))
    (tmp_path / "text.txt").write_text("hello")
    with pytest.raises(InputError, match="JSON with a list `Frames`"):
        read_human(tmp_path / "text.txt")
    with pytest.raises(InputError, match="there is no file"):
        read_human(tmp_path / "none.txt")


def test_load_brings_a_human_onto_g1(tmp_path):
    motion = load(write(tmp_path / "walk.txt", frames()))
    assert motion.joint_names == G1_JOINTS and motion.frames == 3 and motion.fps == pytest.approx(60.0)
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(InputError, match=r"no format has the suffix '.txt'"):
        load(tmp_path / "notes.txt")
