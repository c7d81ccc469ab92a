"""Motions from files and to files: each format from a file that the test writes, and what is refused or noted."""

import json
import pickle

import mujoco
import numpy as np
import pytest

from stickslip.errors import InputError
from stickslip.mpc.retarget.files import export, load, save
from stickslip.mpc.retarget.files.export import mjlab_arrays
from stickslip.mpc.retarget.g1_joints import G1_JOINTS
from stickslip.mpc.retarget.motion import Motion, exponential, qpos_of

FRAMES = 9


def poses(fps: float = 50.0, height: float = 0.8, frames: int = FRAMES) -> np.ndarray:
    """A base that walks along x and turns about z, a little tilted."""
    times = np.arange(frames)[:, None] / fps
    turn = exponential(times * [0.0, 0.0, 1.0] + [0.1, 0.0, 0.0])
    return np.hstack([times * [1.0, 0.0, 0.0] + [0.0, 0.0, height], turn])


def angles(fps: float = 50.0, count: int = 29, frames: int = FRAMES) -> np.ndarray:
    """Joints that differ from each other in every frame."""
    return 0.01 * np.arange(count) + np.arange(frames)[:, None] / fps


def qpos(fps: float = 50.0) -> np.ndarray:
    return np.hstack([poses(fps), angles(fps)])


def write_csv(path, rows) -> str:
    path.write_text("\n".join(",".join(repr(float(v)) for v in row) for row in rows) + "\n")
    return str(path)


def lafan1(fps: float = 30.0) -> np.ndarray:
    """Rows of a csv: the quaternion has w last."""
    return np.hstack([poses(fps)[:, :3], np.roll(poses(fps)[:, 3:], -1, axis=1), angles(fps)])


def assert_g1(motion: Motion, fps: float) -> None:
    """The motion is the one of this file."""
    assert motion.fps == pytest.approx(fps) and motion.frames == FRAMES
    assert motion.joint_names == G1_JOINTS
    assert motion.base is not None
    np.testing.assert_allclose(motion.base, poses(fps), atol=1e-12)
    np.testing.assert_allclose(motion.joints, angles(fps), atol=1e-12)


def noted(motion: Motion, text: str) -> bool:
    return any(text in note for note in motion.notes)


def test_g1_has_its_29_joints():
    assert len(set(G1_JOINTS)) == 29
    assert G1_JOINTS[3] == "left_knee_joint" and G1_JOINTS[12:15] == tuple(
        f"waist_{axis}_joint" for axis in ("yaw", "roll", "pitch")
    )
    assert G1_JOINTS[18] == "left_elbow_joint" and G1_JOINTS[-1] == "right_wrist_yaw_joint"


# Our own format.


def test_own_files_come_back_as_they_were(tmp_path):
    motion = Motion(
        "walk",
        50.0,
        angles(count=2),
        ("hip", "knee"),
        poses(),
        {"box": poses(height=0.2)},
        {"left_foot": np.arange(FRAMES) % 2},
        notes=("one", "two"),
    )
    path = save(motion, tmp_path / "sub" / "walk.npz")
    again = load(path)
    assert (again.name, again.fps, again.joint_names) == ("walk", 50.0, ("hip", "knee"))
    assert again.notes == ("one", "two") and again.source == str(path)
    assert again.base is not None and motion.base is not None
    np.testing.assert_allclose(again.base, motion.base, atol=1e-15)
    np.testing.assert_array_equal(again.joints, motion.joints)
    np.testing.assert_allclose(again.objects["box"], motion.objects["box"], atol=1e-15)
    np.testing.assert_array_equal(again.contacts["left_foot"], motion.contacts["left_foot"])
    assert [file.name for file in path.parent.iterdir()] == ["walk.npz"]  # nothing left beside it


def test_a_motion_without_base_comes_back_without(tmp_path):
    again = load(save(Motion("hand", 20.0, angles(count=1), ("finger",)), tmp_path / "hand.npz"))
    assert again.base is None and again.objects == {} and again.notes == ()


def test_parts_and_rates_as_asked(tmp_path):
    path = save(Motion("walk", 50.0, angles(count=1), ("hip",), poses()), tmp_path / "walk.npz")
    part = load(path, begin=0.04, end=0.1)
    assert part.frames == 4
    np.testing.assert_array_equal(part.joints, angles(count=1)[2:6])
    slower = load(path, fps=25.0)
    assert slower.fps == 25.0 and noted(slower, "25 frames per second, as given; the file says 50")
    with pytest.raises(InputError, match="it lasts from 0 to 0.16 s"):
        load(path, begin=1.0)
    with pytest.raises(InputError, match="fps is 0; it must be above 0"):
        load(path, fps=0)
    with pytest.raises(InputError, match="no order of quaternions named 'wxzy'; did you mean 'wxyz'"):
        load(path, quat="wxzy")


# SPIDER.


def test_spider_takes_its_rate_from_the_task_or_from_the_caller(tmp_path):
    path = tmp_path / "0" / "trajectory_kinematic.npz"
    path.parent.mkdir()
    np.savez(path, qpos=qpos(), qvel=np.zeros((FRAMES, 35)), contact=np.ones((FRAMES, 4)))
    with pytest.raises(InputError, match=r"does not say its frames per second; give fps= \(--fps\)"):
        load(path)
    assert_g1(load(path, fps=50.0), 50.0)
    (tmp_path / "task_info.json").write_text(json.dumps({"ref_dt": 0.02}))
    motion = load(path)
    assert_g1(motion, 50.0)
    assert noted(motion, "50 frames per second, from ref_dt")
    assert noted(motion, "G1's order taken (0 left_hip_pitch_joint, 1 left_hip_roll_joint, 2 left_hip_yaw_joint, 3 ")
    assert noted(motion, "contacts left out")


def test_spiders_ticks_are_flattened(tmp_path):
    path = tmp_path / "trajectory_mjwp.npz"
    np.savez(path, qpos=qpos().reshape(3, 3, 36), time=np.arange(FRAMES).reshape(3, 3) / 50.0)
    assert_g1(load(path), 50.0)


def test_spider_with_an_object(tmp_path):
    np.savez(tmp_path / "box.npz", qpos=np.hstack([qpos(), poses(height=0.2)]))
    motion = load(tmp_path / "box.npz", fps=50.0, objects={"object": "box"})
    assert_g1(motion, 50.0)
    np.testing.assert_allclose(motion.objects["box"], poses(height=0.2), atol=1e-12)


def test_another_robot_by_the_names_of_its_joints(tmp_path):
    """A hand: joints first, then the object."""
    np.savez(tmp_path / "hand.npz", qpos=np.hstack([angles(count=2), poses()]))
    motion = load(tmp_path / "hand.npz", fps=50.0, joint_names=("thumb", "index"))
    assert motion.base is None and noted(motion, "taken as joints and an object, no base")
    np.testing.assert_array_equal(motion.joints, angles(count=2))
    np.testing.assert_allclose(motion.objects["object"], poses(), atol=1e-12)
    with pytest.raises(InputError, match=r"9 columns; for 4 joints there must be 4, 11 with a base or\s+an object"):
        load(tmp_path / "hand.npz", fps=50.0, joint_names=("a", "b", "c", "d"))


def test_positions_with_w_last_are_noted_and_read_if_asked(tmp_path):
    """Told by the tilt, if the base turns: read in the wrong order, it leans by its heading."""
    heading = np.linspace(1.0, 2.0, FRAMES)[:, None]
    last = np.roll(exponential(heading * [0.0, 0.0, 1.0]), -1, axis=1)
    rows = np.hstack([poses()[:, :3], last, angles(), poses(height=0.2)[:, :3], last])
    np.savez(tmp_path / "last.npz", qpos=rows)
    assert noted(load(tmp_path / "last.npz", fps=50.0), "tilted by 86 degrees on average; as xyzw by 0. If the motion")
    motion = load(tmp_path / "last.npz", fps=50.0, quat="xyzw")
    assert motion.base is not None and not noted(motion, "tilted")
    for pose in (motion.base, motion.objects["object"]):
        np.testing.assert_allclose(pose[:, 3:], np.roll(last, 1, axis=1), atol=1e-12)


# LAFAN1.


def test_lafan1_has_w_last_and_30_frames_per_second(tmp_path):
    motion = load(write_csv(tmp_path / "dance.csv", lafan1()))
    assert_g1(motion, 30.0)
    assert motion.name == "dance"
    assert motion.notes == ("a csv does not say its frames per second: 30 taken, as in LAFAN1 (fps=, --fps)",)
    assert_g1(load(write_csv(tmp_path / "fast.csv", lafan1(60.0)), fps=60.0), 60.0)


def test_a_csv_with_w_first_is_noted_and_read_if_asked(tmp_path):
    path = write_csv(tmp_path / "other.csv", qpos(30.0))
    assert noted(load(path), 'as wxyz by 6. If the motion looks wrong, give quat="wxyz" (--quat wxyz)')
    motion = load(path, quat="wxyz")
    assert_g1(motion, 30.0)
    assert not noted(motion, "tilted")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (37, "37 columns; a csv must have 36.*is the first the time or number of the frame"),
        (29, "29 are G1's joints without its base"),
        (44, "44 are the numbers of DeepMimic's human"),
        (12, "12 columns; a csv must have 36.*the nearest format: 29 are.*give joint_names="),
    ],
)
def test_a_wrong_number_of_columns_is_told(tmp_path, columns, message):
    with pytest.raises(InputError, match=message):
        load(write_csv(tmp_path / "wide.csv", np.zeros((3, columns))))


def test_a_csv_is_refused_with_the_row(tmp_path):
    rows = lafan1()
    rows[4, 8] = np.nan
    with pytest.raises(InputError, match="row 5, column 9 is not finite: nan; mend or cut it"):
        load(write_csv(tmp_path / "nan.csv", rows))
    with pytest.raises(InputError, match="has 1 frames; 2 or more are needed"):
        load(write_csv(tmp_path / "one.csv", lafan1()[:1]))
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(InputError, match="has 0 frames; 2 or more are needed"):
        load(tmp_path / "empty.csv")
    (tmp_path / "header.csv").write_text("x,y,z\n1,2,3\n")
    with pytest.raises(InputError, match="row 1 is not numbers: 'x,y,z'; cut it if it is a header"):
        load(tmp_path / "header.csv")
    (tmp_path / "uneven.csv").write_text("1,2,3\n1,2\n")
    with pytest.raises(InputError, match="row 2 has 2 columns, and those before it 3"):
        load(tmp_path / "uneven.csv")


def test_quaternions_that_are_none_are_refused_with_frame_and_norms(tmp_path):
    rows = lafan1()
    rows[6, 3:7] *= 0.9
    message = r"columns 3 to 6: the quaternion of frame 6 has the norm 0\.9 read as wxyz .* and 0\.9 as xyzw"
    with pytest.raises(InputError, match=message):
        load(write_csv(tmp_path / "short.csv", rows))
    turned = np.hstack([rows[:, :3], angles(), np.roll(poses()[:, 3:], -1, axis=1)])
    with pytest.raises(InputError, match=r"Columns 32 to 35 \(counted from 0\) are unit in every frame"):
        load(write_csv(tmp_path / "turned.csv", turned))
    rows = lafan1()
    rows[6, 3:7] *= 0.995
    motion = load(write_csv(tmp_path / "nearly.csv", rows))
    assert_g1(motion, 30.0)
    assert noted(motion, "quaternions normalised: off by up to 0.005 (frame 6)")


# mjlab and holosoma.


def bodies(*of: np.ndarray) -> dict[str, np.ndarray]:
    stacked = np.stack(of, axis=1)
    return {"body_pos_w": stacked[..., :3], "body_quat_w": stacked[..., 3:]}


WORLD = np.tile([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0], (FRAMES, 1))


def test_mjlab_with_joints_alone_takes_the_base_from_body_0(tmp_path):
    np.savez(tmp_path / "m.npz", fps=[50], joint_pos=angles(), **bodies(poses(), WORLD))
    assert_g1(load(tmp_path / "m.npz"), 50.0)
    np.savez(tmp_path / "w.npz", fps=50, joint_pos=angles(), **bodies(WORLD, poses()))
    motion = load(tmp_path / "w.npz")
    assert_g1(motion, 50.0)
    assert noted(motion, "body 0 is at the origin in every frame: taken as the world")


def test_holosoma_has_all_of_qpos_names_and_an_object(tmp_path):
    order = list(reversed(G1_JOINTS))
    box = poses(height=0.2)
    np.savez(
        tmp_path / "lift.npz",
        fps=np.array([50]),
        joint_pos=np.hstack([poses(), angles()[:, ::-1]]),
        joint_names=order,
        body_names=["world", "pelvis"],
        object_pos_w=box[:, :3],
        object_quat_w=box[:, 3:],
        **bodies(WORLD, poses()),
    )
    motion = load(tmp_path / "lift.npz")
    assert motion.joint_names == tuple(order) and motion.notes == ()
    np.testing.assert_allclose(motion.joints, angles()[:, ::-1])
    np.testing.assert_allclose(motion.base, poses(), atol=1e-12)
    np.testing.assert_allclose(motion.objects["object"], box, atol=1e-12)
    assert set(load(tmp_path / "lift.npz", objects={"object": "box"}).objects) == {"box"}
    with pytest.raises(InputError, match="no object of motion 'lift' named 'obj'; did you mean 'object'"):
        load(tmp_path / "lift.npz", objects={"obj": "box"})


def test_mjlab_without_fps_or_bodies_is_refused(tmp_path):
    np.savez(tmp_path / "m.npz", joint_pos=angles())
    with pytest.raises(InputError, match="does not say its frames per second"):
        load(tmp_path / "m.npz")
    with pytest.raises(InputError, match="has no body_pos_w; it has joint_pos"):
        load(tmp_path / "m.npz", fps=50.0)
    box = {"object_pos_w": poses()[:, :3], "object_quat_w": poses()[1:, 3:]}
    np.savez(tmp_path / "o.npz", fps=50.0, joint_pos=qpos(), **box)
    with pytest.raises(InputError, match="object_pos_w has 9 frames, and object_quat_w 8"):
        load(tmp_path / "o.npz")
    np.savez(tmp_path / "n.npz", fps=50.0, joint_pos=angles(count=23), **bodies(poses()))
    with pytest.raises(InputError, match="23 columns and no names of joints; G1 needs 29 joints, 36 with its base"):
        load(tmp_path / "n.npz")


# HDMI.


def hdmi(folder, joints=G1_JOINTS, names=("pelvis", "left_knee_link", "largebox")):
    folder.mkdir()
    columns = [G1_JOINTS.index(name) if name in G1_JOINTS else 0 for name in joints]
    arrays = bodies(poses(), WORLD, poses(height=0.2))
    np.savez(folder / "motion.npz", joint_pos=angles()[:, columns], **arrays)
    meta = {"joint_names": list(joints), "body_names": list(names), "fps": 50.0}
    (folder / "meta.json").write_text(json.dumps(meta))
    return folder


def test_hdmi_goes_by_names(tmp_path):
    motion = load(hdmi(tmp_path / "push_box", joints=tuple(reversed(G1_JOINTS))))
    assert_g1(motion, 50.0)
    assert motion.name == "push_box"
    np.testing.assert_allclose(motion.objects["largebox"], poses(height=0.2), atol=1e-12)
    assert noted(motion, "taken as objects: largebox")
    assert_g1(load(tmp_path / "push_box" / "motion.npz"), 50.0)
    assert set(load(tmp_path / "push_box", objects={"largebox": "box"}).objects) == {"box"}
    assert load(tmp_path / "push_box", objects={}).objects == {}


def test_hdmis_scene_is_neither_base_nor_object(tmp_path):
    """Folders made by its retargeting begin with the world and the terrain."""
    folder = hdmi(tmp_path / "suitcase", names=("world", "terrain", "pelvis"))
    arrays = bodies(WORLD, WORLD, poses())
    np.savez(folder / "motion.npz", joint_pos=angles(), **arrays)
    motion = load(folder)
    assert_g1(motion, 50.0)
    assert motion.objects == {}


def test_hdmis_missing_joints_are_zero_with_a_note(tmp_path):
    motion = load(hdmi(tmp_path / "few", joints=(*G1_JOINTS[:-2], "door_joint")))
    np.testing.assert_allclose(motion.joints[:, :-2], angles()[:, :-2])
    assert not motion.joints[:, -2:].any()
    assert noted(motion, "set to 0: right_wrist_pitch_joint, right_wrist_yaw_joint")
    assert noted(motion, "not G1's, left out: door_joint")


def test_hdmi_folders_that_are_none_are_refused(tmp_path):
    folder = hdmi(tmp_path / "bad", names=("pelvis", "largebox"))
    with pytest.raises(InputError, match=r"body_pos_w has the shape \(9, 3, 3\).*there are\s+2 bodies"):
        load(folder)
    with pytest.raises(InputError, match="no body in .* named 'bix'"):
        load(hdmi(tmp_path / "good"), objects={"bix": "box"})
    meta = {"joint_names": list(G1_JOINTS), "body_names": [], "fps": 50.0}
    (folder / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(InputError, match="no body in .* named ''"):
        load(folder)
    meta |= {"body_names": ["pelvis", "a_link", "b_link"], "fps": "fast"}
    (folder / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(InputError, match="fps is 'fast'; it must be a number"):
        load(folder)
    (folder / "meta.json").write_text("{}")
    with pytest.raises(InputError, match="has no list joint_names; it has nothing"):
        load(folder)
    (folder / "meta.json").write_text("{,")
    with pytest.raises(InputError, match="meta.json is not JSON"):
        load(folder)
    (folder / "meta.json").unlink()
    with pytest.raises(InputError, match="has no meta.json; a folder of HDMI holds motion.npz and meta.json"):
        load(folder)


# Pickles, and files of no format.


def script(error: InputError) -> str:
    """The script at the end of a message: two lines."""
    return "\n".join(str(error).splitlines()[-2:])


def test_a_pickle_is_refused_and_the_script_turns_it_into_ours(tmp_path):
    path = tmp_path / "walk.pkl"
    gmr = {"fps": 50.0, "root_pos": poses()[:, :3], "root_rot": np.roll(poses()[:, 3:], -1, axis=1)}
    path.write_bytes(pickle.dumps({**gmr, "dof_pos": angles()}))
    with pytest.raises(InputError, match="is a pickle, and reading a pickle runs code") as refused:
        load(path)
    exec(script(refused.value), {})
    assert_g1(load(tmp_path / "walk.npz"), 50.0)
    (tmp_path / "hidden.npz").write_bytes(path.read_bytes())
    with pytest.raises(InputError, match="is a pickle"):
        load(tmp_path / "hidden.npz")


def test_an_npz_that_needs_pickle_is_refused_and_the_script_makes_it_plain(tmp_path):
    names = np.array(G1_JOINTS, dtype=object)
    np.savez(tmp_path / "m.npz", fps=50, joint_pos=qpos(), joint_names=names, extra=np.array({"a": 1}, dtype=object))
    with pytest.raises(InputError, match="joint_names is stored as a pickle") as refused:
        load(tmp_path / "m.npz")
    exec(script(refused.value), {})
    assert_g1(load(tmp_path / "m-plain.npz"), 50.0)


def test_files_of_no_format_are_refused(tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        load(tmp_path / "none.csv")
    (tmp_path / "walk.bvh").write_text("HIERARCHY")
    with pytest.raises(InputError, match=r"no format has the suffix '.bvh'; there are: ours"):
        load(tmp_path / "walk.bvh")
    np.savez(tmp_path / "keys.npz", foo=1, bar=2)
    with pytest.raises(InputError, match=r"has the keys foo, bar; there must be those of one of: ours .*SPIDER"):
        load(tmp_path / "keys.npz")
    (tmp_path / "cut.npz").write_bytes((tmp_path / "keys.npz").read_bytes()[:40])
    with pytest.raises(InputError, match="is not a motion as it was written: it has 40 bytes"):
        load(tmp_path / "cut.npz")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"joints": angles()[:1]}, "joints has 1 frames; 2 or more are needed"),
        ({"joints": np.zeros(4)}, r"joints has the shape \(4,\); it must have 2 dimensions"),
        ({"joints": np.array([["a"]])}, "joints must be numbers; it is <U1"),
        ({"fps": np.array([1, 2])}, "fps must be one number"),
        ({"joint_names": np.arange(29)}, "joint_names must be strings"),
        ({"joint_names": np.array(["a"])}, "a column for each of the 1 joint names"),
        ({"base": np.zeros((FRAMES, 6))}, "poses have 6 columns; there must be 7"),
        ({"base": np.zeros((FRAMES, 7))}, "the quaternion of frame 0 has the norm 0 "),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path, changed, message):
    good = {"fps": 50.0, "joints": angles(), "joint_names": np.array(G1_JOINTS), "base": poses()}
    np.savez(tmp_path / "good.npz", **good)
    assert_g1(load(tmp_path / "good.npz"), 50.0)
    np.savez(tmp_path / "bad.npz", **{**good, **changed})
    with pytest.raises(InputError, match=message):
        load(tmp_path / "bad.npz")


def test_an_array_that_is_not_finite_is_refused_with_the_row(tmp_path):
    bad = qpos()
    bad[3, 10] = np.inf
    np.savez(tmp_path / "bad.npz", qpos=bad)
    with pytest.raises(InputError, match="qpos: row 3, column 10 is not finite; mend or cut it"):
        load(tmp_path / "bad.npz", fps=50.0)


def test_jumps_are_noted_with_count_worst_and_frame(tmp_path):
    rows = qpos()
    rows[4:, 7 + 3] += 3.0
    rows[6:, 7 + 5] += 2.0
    rows[5:, 0] += 1.0
    np.savez(tmp_path / "jump.npz", qpos=rows)
    motion = load(tmp_path / "jump.npz", fps=50.0)
    assert noted(motion, "2 jumps of joints above 50 rad/s; the worst: left_knee_joint, 151 rad/s from frame 3 to 4")
    assert noted(motion, "1 jumps of the base above 20 m/s; the worst: 51 m/s from frame 4 to 5")
    assert not noted(load(tmp_path / "jump.npz", fps=5.0), "jumps")


# Exports.

ROBOT = """
<mujoco>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 1"/>
    <body name="pelvis"><freejoint name="root"/><geom size="0.1"/>
      <body name="thigh" pos="0 0.1 -0.2"><joint name="hip" axis="0 1 0"/><geom size="0.1"/>
        <body name="shank" pos="0 0 -0.4"><joint name="knee" axis="0 1 0"/><geom size="0.1" pos="0 0 -0.1"/></body>
      </body>
    </body>
    <body name="box"><freejoint name="box"/><geom size="0.1"/></body>
  </worldbody>
</mujoco>
"""


def g1_motion(fps: float = 30.0) -> Motion:
    return Motion("walk", fps, angles(fps), G1_JOINTS, poses(fps))


def test_lafan1_round_trip(tmp_path):
    """Columns are written in G1's order, whatever the motion's; at 30 frames per second."""
    motion = Motion("walk", 30.0, angles(30.0)[:, ::-1], tuple(reversed(G1_JOINTS)), poses(30.0))
    again = load(export(motion, tmp_path / "walk.csv", "lafan1"))
    np.testing.assert_allclose(again.joints, angles(30.0), atol=1e-8)
    np.testing.assert_allclose(again.base, poses(30.0), atol=1e-8)
    assert again.joint_names == G1_JOINTS
    faster = export(g1_motion(60.0), tmp_path / "fast.csv", "lafan1")
    assert load(faster).frames == 5 and load(faster).duration == pytest.approx(g1_motion(60.0).duration)
    kept = export(g1_motion(60.0), tmp_path / "kept.csv", "lafan1", fps=60.0)
    assert load(kept, fps=60.0).frames == FRAMES


def test_stickslip_round_trip(tmp_path):
    again = load(export(g1_motion(), tmp_path / "walk.npz", "stickslip"))
    np.testing.assert_array_equal(again.joints, angles(30.0))
    assert load(export(g1_motion(), tmp_path / "fine.npz", "stickslip", fps=60.0)).fps == 60.0


def test_mjlab_round_trip_with_an_object(tmp_path):
    mjm = mujoco.MjModel.from_xml_string(ROBOT)
    motion = Motion("lift", 50.0, angles(count=2)[:, ::-1], ("knee", "hip"), poses(), {"box": poses(height=0.1)})
    again = load(export(motion, tmp_path / "lift.npz", "mjlab", mjm=mjm))
    assert again.joint_names == ("hip", "knee") and again.fps == 50.0
    np.testing.assert_allclose(qpos_of(again, mjm), qpos_of(motion, mjm), atol=1e-12)


def test_mjlab_has_bodies_and_their_velocities():
    """A robot that turns about a fixed axis: every point moves with omega x r."""
    mjm = mujoco.MjModel.from_xml_string(ROBOT)
    times = np.arange(FRAMES)[:, None] / 50.0
    base = np.hstack([np.tile([0.0, 0.0, 1.0], (FRAMES, 1)), exponential(times * [2.0, 1.0, 0.0])])
    motion = Motion("turn", 50.0, np.full((FRAMES, 2), 0.3), ("hip", "knee"), base)
    arrays = mjlab_arrays(motion, mjm)
    assert list(arrays["body_names"]) == ["pelvis", "thigh", "shank"]
    assert list(arrays["joint_names"]) == ["hip", "knee"] and arrays["fps"] == 50.0
    np.testing.assert_allclose(arrays["joint_vel"], 0.0, atol=1e-12)
    omega = np.broadcast_to([2.0, 1.0, 0.0], (FRAMES, 3, 3))
    np.testing.assert_allclose(arrays["body_ang_vel_w"], omega, atol=1e-9)
    place = arrays["body_pos_w"] - [0.0, 0.0, 1.0]
    np.testing.assert_allclose(arrays["body_lin_vel_w"], np.cross(omega, place), atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(place[:, 1], axis=1), np.hypot(0.1, 0.2), atol=1e-12)


def test_exports_that_cannot_be_are_refused(tmp_path):
    with pytest.raises(InputError, match="no format named 'bvh'"):
        export(g1_motion(), tmp_path / "walk.bvh", "bvh")
    with pytest.raises(InputError, match="give mjm=, the model of the robot"):
        export(g1_motion(), tmp_path / "walk.npz", "mjlab")
    with pytest.raises(InputError, match=r"name the file walk\.csv"):
        export(g1_motion(), tmp_path / "walk.txt", "lafan1")
    few = Motion("few", 30.0, angles(count=2), G1_JOINTS[:2], poses())
    with pytest.raises(InputError, match=r"it lacks the joint left_hip_yaw_joint \(27 are missing\)"):
        export(few, tmp_path / "few.csv", "lafan1")
    with pytest.raises(InputError, match="it lacks a base"):
        export(Motion("fixed", 30.0, angles(), G1_JOINTS), tmp_path / "fixed.csv", "lafan1")
    two = Motion("two", 30.0, angles(count=2), ("hip", "knee"), poses(), {"box": poses(), "ball": poses()})
    with pytest.raises(InputError, match="has 2 objects; a file of mjlab holds one"):
        export(two, tmp_path / "two.npz", "mjlab", mjm=mujoco.MjModel.from_xml_string(ROBOT))
    assert list(tmp_path.iterdir()) == []
