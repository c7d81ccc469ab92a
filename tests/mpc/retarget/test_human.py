"""A human's motion on a robot: size, heading and sides are kept, feet that stand do so, and nothing is in the floor."""

import json

import mujoco
import numpy as np
import pytest

from stickslip.errors import InputError
from stickslip.mpc import retarget
from stickslip.mpc.retarget import g1, robots
from stickslip.mpc.retarget.contacts import spans
from stickslip.mpc.retarget.files.deepmimic import JOINTS, read_human
from stickslip.mpc.retarget.ground import lowest
from stickslip.mpc.retarget.human import onto
from stickslip.mpc.retarget.human.skeleton import LEG, SHIN, SOLE, THIGH
from stickslip.mpc.retarget.motion import Motion, qpos_of, rotated

FPS = 30.0
CROUCH = 0.2
HIPS = 0.03 + 0.053 * np.sin(0.175) + 0.301 * np.cos(0.175) + 0.353  # of the robot over its soles, legs straight


def about(axis: int, angle) -> np.ndarray:
    """Quaternions about an axis of DeepMimic: 0 forward, 1 up, 2 to the right."""
    angle = np.asarray(angle, dtype=np.float64)
    quat = np.zeros((*angle.shape, 4))
    quat[..., 0], quat[..., 1 + axis] = np.cos(0.5 * angle), np.sin(0.5 * angle)
    return quat


def standing(frames: int = 8, at: float = 0.0, left=CROUCH, right=CROUCH) -> np.ndarray:
    """A human with bent legs and level feet; the bend of a leg lifts its foot [rad]."""
    rows = np.zeros((frames, 44))
    rows[:, 0], rows[:, 1] = 1.0 / FPS, at
    rows[:, 2] = SOLE + (THIGH + SHIN) * np.cos(CROUCH)
    for name, joint in JOINTS.items():
        if not name.endswith(("knee", "elbow")):
            rows[:, joint.column] = 1.0
    for side, bend in (("left", left), ("right", right)):
        hip, knee, ankle = (JOINTS[f"{side}_{joint}"].column for joint in ("hip", "knee", "ankle"))
        rows[:, hip : hip + 4], rows[:, ankle : ankle + 4] = about(2, bend), about(2, bend)
        rows[:, knee] = -2.0 * np.asarray(bend)
    return rows


def marching() -> np.ndarray:
    """The left foot goes up and down, then the right."""
    time = np.arange(48) / FPS
    bends = [
        CROUCH + 0.7 * np.where((time > begin) & (time < begin + 0.5), np.sin(2.0 * np.pi * (time - begin)) ** 2, 0.0)
        for begin in (0.2, 0.9)
    ]
    return standing(48, left=bends[0], right=bends[1])


def brought(tmp_path, rows, name: str = "human", **options) -> Motion:
    path = tmp_path / f"{name}.txt"
    path.write_text(json.dumps({"Frames": np.asarray(rows).tolist()}))
    return retarget.load(path, **options)


def sites(motion: Motion, mjm: mujoco.MjModel) -> dict[str, np.ndarray]:
    mjd, found = mujoco.MjData(mjm), {name: [] for name in (*g1.FEET, *g1.HANDS)}
    for qpos in qpos_of(motion, mjm, g1.BASE):
        mjd.qpos[:] = qpos
        mujoco.mj_kinematics(mjm, mjd)
        for name, places in found.items():
            places.append(mjd.site(name).xpos.copy())
    return {name: np.array(places) for name, places in found.items()}


@pytest.fixture(scope="module")
def mjm() -> mujoco.MjModel:
    return robots.ROBOTS["g1"].build(robots.Options()).compile()


def test_feet_that_stand_do_not_slide_and_sides_are_kept(tmp_path, mjm):
    motion = brought(tmp_path, marching(), "march")
    assert motion.name == "march" and motion.fps == pytest.approx(FPS) and motion.source.endswith("march.txt")
    low, high = mjm.jnt_range[1:].T
    assert (motion.joints >= low).all() and (motion.joints <= high).all()
    places = sites(motion, mjm)
    for foot, begin in (("left_foot", 0.2), ("right_foot", 0.9)):
        on = motion.contacts[foot] > 0.0
        assert len(spans(on)) == 2
        for first, last in spans(on):
            here = places[foot][first:last]
            assert np.ptp(here[:, :2], axis=0).max() < 1e-3 and np.abs(here[:, 2]).max() < 2e-3
        top = int(round((begin + 0.25) * FPS))
        assert not on[top] and places[foot][top, 2] > 0.1
        other = "right_foot" if foot == "left_foot" else "left_foot"
        assert abs(places[other][top, 2]) < 2e-3
    assert np.abs(lowest(motion, mjm, g1.BASE)).max() < 2e-3
    assert (places["left_foot"][:, 1] > 0.08).all() and (places["right_foot"][:, 1] < -0.08).all()
    assert (places["left_hand"][:, 1] > 0.1).all() and (places["right_hand"][:, 1] < -0.1).all()
    assert not any(motion.contacts[hand].any() for hand in g1.HANDS)
    assert np.abs(np.diff(motion.joints, axis=0)).max() * FPS <= 20.0 + 1e-6


def test_the_size_is_that_of_the_legs_and_the_way_with_it(tmp_path):
    here, there = (brought(tmp_path, standing(at=at), f"at{at:g}") for at in (0.0, 2.0))
    scale = HIPS / LEG
    np.testing.assert_allclose(there.base[:, 0] - here.base[:, 0], 2.0 * scale, atol=2e-3)
    assert f"scaled by {scale:.3f}" in " ".join(here.notes)
    assert "off their targets by" in " ".join(here.notes) and "frame" in " ".join(here.notes)
    height = scale * (SOLE + (THIGH + SHIN) * np.cos(CROUCH)) + 0.103
    np.testing.assert_allclose(here.base[:, 2], height, atol=5e-3)


def test_the_heading_is_kept(tmp_path, mjm):
    """About DeepMimic's y by 120 degrees: our z, to the left."""
    rows, turn = standing(), 2.0 * np.pi / 3.0
    rows[:, 4:8] = about(1, turn)
    motion = brought(tmp_path, rows)
    forward = rotated(motion.base[:, 3:], (1.0, 0.0, 0.0))
    np.testing.assert_allclose(forward, np.tile([np.cos(turn), np.sin(turn), 0.0], (8, 1)), atol=0.02)
    places = sites(motion, mjm)
    apart = places["left_foot"][0] - places["right_foot"][0]
    assert apart @ [-np.sin(turn), np.cos(turn), 0.0] > 0.2


def test_arms_have_the_humans_directions(tmp_path, mjm):
    """The left arm stretched forward, the right one down and bent by 90 degrees."""
    rows = standing()
    column = JOINTS["left_shoulder"].column
    rows[:, column : column + 4] = about(2, np.full(8, 0.5 * np.pi))
    rows[:, JOINTS["right_elbow"].column] = 0.5 * np.pi
    motion = brought(tmp_path, rows)
    mjd = mujoco.MjData(mjm)
    mjd.qpos[:] = qpos_of(motion, mjm, g1.BASE)[-1]
    mujoco.mj_kinematics(mjm, mjd)
    for side, upper, fore in (("left", (1.0, 0.0, 0.0), (1.0, 0.0, 0.0)), ("right", (0.0, 0.0, -1.0), (1.0, 0.0, 0.0))):
        shoulder, elbow = (mjd.body(f"{side}_{link}_link").xpos for link in ("shoulder_roll", "elbow"))
        for vector, wanted in ((elbow - shoulder, upper), (mjd.site(f"{side}_hand").xpos - elbow, fore)):
            assert vector @ wanted / np.linalg.norm(vector) > np.cos(0.15), side


def test_a_human_that_lies_lies_on_the_floor(tmp_path, mjm):
    rows = standing(left=0.0, right=0.0)
    rows[:, 2], rows[:, 4:8] = 0.12, about(2, np.full(8, 0.5 * np.pi))  # on its back
    motion = brought(tmp_path, rows)
    assert np.abs(lowest(motion, mjm, g1.BASE)).max() < 5e-3
    assert rotated(motion.base[:, 3:], (1.0, 0.0, 0.0))[:, 2].min() > 0.95
    assert motion.base[:, 2].max() < 0.2
    assert not any(motion.contacts[foot].any() for foot in g1.FEET)


def test_a_jump_is_as_high_as_the_size_says(tmp_path, mjm):
    rows = standing(30)
    up = np.maximum(0.0, np.sin(np.pi * (np.arange(30) - 8) / 14.0)) * (np.abs(np.arange(30) - 15) < 8)
    rows[:, 2] += 0.4 * up
    motion = brought(tmp_path, rows)
    low = lowest(motion, mjm, g1.BASE)
    assert low[15] == pytest.approx(0.4 * HIPS / LEG, abs=0.03)
    assert np.abs(low[[0, -1]]).max() < 3e-3
    assert not motion.contacts["left_foot"][12:19].any()


def test_progress_parts_and_other_robots(tmp_path):
    told: list[float] = []
    motion = brought(tmp_path, standing(), robot=robots.ROBOTS["g1-box"], progress=told.append, begin=0.1, fps=15.0)
    assert told == sorted(told) and told[-1] == pytest.approx(1.0)
    assert motion.fps == 15.0 and motion.frames == 6 and len(motion.joint_names) == 29
    assert any("15 frames per second, as given; the file says 30" in note for note in motion.notes)


def test_what_does_not_fit_is_named(tmp_path):
    path = tmp_path / "human.txt"
    path.write_text(json.dumps({"Frames": standing().tolist()}))
    human = read_human(path)
    with pytest.raises(InputError, match="leap lacks a free base, body pelvis.*and .* more.*choose g1"):
        onto(human, robots.ROBOTS["leap"])
    spec = robots.ROBOTS["g1"].build(robots.Options())
    for site in g1.HANDS:
        spec.delete(spec.site(site))
    spec.compile()
    path = tmp_path / "handless.xml"
    path.write_text(spec.to_xml())
    with pytest.raises(InputError, match="the robot handless lacks site left_hand, site right_hand:"):
        onto(human, robots.from_file(path))
    with pytest.raises(InputError, match="one meaning; leave out quat"):
        brought(tmp_path, standing(), quat="xyzw")
