"""Motions: interpolation, parts, positions of a model by name, velocities, and every error."""

import math

import mujoco
import numpy as np
import pytest

from stickslip.errors import InputError
from stickslip.mpc.retarget.motion import (
    Motion,
    conjugate,
    exponential,
    logarithm,
    multiplied,
    qpos_of,
    slerp,
    velocities,
)

MODEL = """
<mujoco>
  <worldbody>
    <body name="crate" pos="1 0 0"><freejoint/><geom size="0.1"/></body>
    <body name="trunk"><freejoint/><geom size="0.1"/>
      <body name="arm"><joint name="elbow" axis="0 1 0"/><geom size="0.1"/>
        <body name="hand"><joint name="slide" type="slide"/><geom size="0.1"/></body>
      </body>
    </body>
  </worldbody>
  <keyframe><key qpos="1 0 0 1 0 0 0   0 0 0.5 1 0 0 0   0.25 0.125"/></keyframe>
</mujoco>
"""
AXIS = np.array([2.0, -1.0, 2.0]) / 3.0


def turning(frames: int = 6, fps: float = 10.0, rate: float = 3.0, **more) -> Motion:
    """A base that moves and turns about an oblique axis, both steadily, and a joint that does."""
    times = np.arange(frames) / fps
    return Motion("turn", fps, 2.0 * times[:, None], ("elbow",), poses(times, rate), **more)


def poses(times: np.ndarray, rate: float) -> np.ndarray:
    return np.hstack([times[:, None] * [1.0, 2.0, 3.0], exponential(rate * times[:, None] * AXIS)])


def same_turn(quat: np.ndarray, other: np.ndarray, atol: float = 1e-12) -> None:
    np.testing.assert_allclose(np.abs((quat * other).sum(-1)), 1.0, atol=atol)


def test_exponential_and_logarithm_are_inverse():
    rng = np.random.default_rng(0)
    turn = rng.normal(size=(50, 3))
    turn *= (rng.uniform(0.0, 3.14, 50) / np.linalg.norm(turn, axis=1))[:, None]
    turn[0] = 0.0
    turn[1] *= 1e-9
    np.testing.assert_allclose(logarithm(exponential(turn)), turn, atol=1e-12)
    np.testing.assert_allclose(logarithm(-exponential(turn)), turn, atol=1e-12)
    quat = exponential(turn)
    identity = np.tile([1.0, 0.0, 0.0, 0.0], (50, 1))
    np.testing.assert_allclose(multiplied(quat, conjugate(quat)), identity, atol=1e-14)


def test_products_agree_with_mujoco():
    rng = np.random.default_rng(1)
    one, other, found = rng.normal(size=4), rng.normal(size=4), np.zeros(4)
    mujoco.mju_mulQuat(found, one, other)
    np.testing.assert_allclose(multiplied(one, other), found)


def test_slerp_of_a_constant_turn_is_exact_and_takes_the_shortest_way():
    part = np.linspace(0.0, 1.0, 11)
    one = np.tile(exponential(0.4 * AXIS), (11, 1))
    other = np.tile(-exponential(1.4 * AXIS), (11, 1))
    same_turn(slerp(one, other, part), exponential((0.4 + part)[:, None] * AXIS))


@pytest.mark.parametrize("fps", [10.0, 20.0, 30.0, 7.0, 4.0])
def test_resampling_of_a_constant_turn_is_exact(fps):
    motion = turning().resampled(fps)
    times = np.arange(math.floor(0.5 * fps + 1e-9) + 1) / fps
    assert motion.frames == len(times) and motion.fps == fps
    assert motion.base is not None
    expected = poses(times, 3.0)
    np.testing.assert_allclose(motion.base[:, :3], expected[:, :3], atol=1e-12)
    same_turn(motion.base[:, 3:], expected[:, 3:])
    np.testing.assert_allclose(motion.joints[:, 0], 2.0 * times, atol=1e-12)


def test_resampling_takes_objects_along_and_contacts_of_the_nearest_frame():
    times = np.arange(6) / 10.0
    motion = turning(objects={"crate": poses(times, 1.0)}, contacts={"foot": np.array([0, 0, 1, 1, 0, 0])})
    finer = motion.resampled(40.0)
    np.testing.assert_allclose(finer.objects["crate"], poses(np.arange(21) / 40.0, 1.0), atol=1e-12)
    assert finer.contacts["foot"][6] == 1.0 and finer.contacts["foot"][5] == 0.0
    assert set(finer.contacts["foot"]) == {0.0, 1.0}


def test_clip_takes_whole_frames():
    motion = turning(objects={"crate": poses(np.arange(6) / 10.0, 1.0)}, contacts={"foot": np.arange(6) % 2})
    part = motion.clip(0.15, 0.4)
    assert part.frames == 3 and part.duration == pytest.approx(0.2)
    np.testing.assert_array_equal(part.joints, motion.joints[2:5])
    np.testing.assert_array_equal(part.objects["crate"], motion.objects["crate"][2:5])
    np.testing.assert_array_equal(part.contacts["foot"], [0.0, 1.0, 0.0])
    assert motion.clip().frames == 6
    assert motion.clip(0.1).frames == 5  # 0.1 * 10 is a whole frame, rounding or not


@pytest.mark.parametrize(("begin", "end"), [(-0.1, None), (0.4, 0.4), (0.3, 0.1), (0.0, 0.7), (0.5, None)])
def test_clip_refuses_parts_that_are_not_there(begin, end):
    with pytest.raises(InputError, match=r"it lasts from 0 to 0\.5 s, and two\s+frames or more are needed"):
        turning().clip(begin, end)


def test_signs_of_quaternions_are_continuous_and_norms_one():
    times = np.arange(60) / 10.0
    wild = poses(times, 3.0)
    wild[:, 3:] *= np.where(np.arange(60) % 3 == 0, -1.0, 1.0)[:, None] * 1.005
    motion = Motion("wild", 10.0, times[:, None], ("elbow",), wild)
    assert motion.base is not None
    assert (np.einsum("ti,ti->t", motion.base[1:, 3:], motion.base[:-1, 3:]) > 0.0).all()
    np.testing.assert_allclose(np.linalg.norm(motion.base[:, 3:], axis=1), 1.0, atol=1e-12)
    same_turn(motion.base[:, 3:], poses(times, 3.0)[:, 3:])


def test_positions_of_a_model_go_by_names():
    """The motion's columns are in another order than the model's, and the base is not its first free joint."""
    mjm = mujoco.MjModel.from_xml_string(MODEL)
    times = np.arange(3) / 10.0
    crate = poses(times, 1.0)
    joints = np.stack([10.0 + times, 20.0 + times], axis=1)
    motion = Motion("by names", 10.0, joints, ("slide", "elbow"), poses(times, 3.0), {"crate": crate})
    qpos = qpos_of(motion, mjm)
    np.testing.assert_allclose(qpos[:, :7], crate)
    np.testing.assert_allclose(qpos[:, 7:14], poses(times, 3.0))
    np.testing.assert_allclose(qpos[:, mjm.joint("elbow").qposadr[0]], 20.0 + times)
    np.testing.assert_allclose(qpos[:, mjm.joint("slide").qposadr[0]], 10.0 + times)


def test_missing_joints_are_those_of_the_keyframe_or_an_error():
    mjm = mujoco.MjModel.from_xml_string(MODEL)
    motion = Motion("elbow", 10.0, np.ones((2, 1)), ("elbow",))
    np.testing.assert_allclose(qpos_of(motion, mjm)[0], [1, 0, 0, 1, 0, 0, 0, 0, 0, 0.5, 1, 0, 0, 0, 1.0, 0.125])
    with pytest.raises(InputError, match="does not have these joints of the robot: slide"):
        qpos_of(motion, mjm, missing="error")


def test_positions_refuse_what_the_model_does_not_have():
    mjm = mujoco.MjModel.from_xml_string(MODEL)
    with pytest.raises(InputError, match="does not have as hinge or slide: knee; the robot has elbow, slide"):
        qpos_of(Motion("m", 10.0, np.ones((2, 1)), ("knee",)), mjm)
    pose = np.tile([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0], (2, 1))
    with pytest.raises(InputError, match="has the object 'ball', and the model no free body of that name"):
        qpos_of(Motion("m", 10.0, np.ones((2, 1)), ("elbow",), objects={"ball": pose}), mjm)
    with pytest.raises(InputError, match="no free joint 'pelvis', and motion 'm' moves its base"):
        qpos_of(Motion("m", 10.0, np.ones((2, 1)), ("elbow",), pose), mjm, base="pelvis")
    fixed = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><body><joint name='elbow'/><geom size='1'/></body></worldbody></mujoco>"
    )
    with pytest.raises(InputError, match="moves the base, and the base of the robot is fixed"):
        qpos_of(Motion("m", 10.0, np.ones((2, 1)), ("elbow",), pose), fixed)


def test_velocities_of_a_spinning_base_have_no_jump_upside_down():
    """Two turns about the x axis at 4 rad/s, as in a cartwheel."""
    mjm = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><body><freejoint/><geom size='1'/></body></worldbody></mujoco>"
    )
    times = np.arange(160) / 50.0
    base = np.hstack([times[:, None] * [0.0, 1.0, 0.0], exponential(times[:, None] * [4.0, 0.0, 0.0])])
    motion = Motion("wheel", 50.0, np.zeros((160, 0)), (), base)
    qvel = velocities(mjm, qpos_of(motion, mjm), 1.0 / 50.0)
    np.testing.assert_allclose(qvel, np.tile([0.0, 1.0, 0.0, 4.0, 0.0, 0.0], (160, 1)), atol=1e-9)


def test_velocities_are_central_differences():
    mjm = mujoco.MjModel.from_xml_string(MODEL)
    times = np.arange(5) / 10.0
    motion = Motion("square", 10.0, times[:, None] ** 2, ("elbow",))
    qvel = velocities(mjm, qpos_of(motion, mjm), 0.1)[:, mjm.joint("elbow").dofadr[0]]
    np.testing.assert_allclose(qvel, [0.1, 0.2, 0.4, 0.6, 0.7], atol=1e-12)


GOOD = np.tile([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0], (3, 1))


def spoiled(row: int, column: int, value: float) -> np.ndarray:
    poses = GOOD.copy()
    poses[row, column] = value
    return poses


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"fps": 0.0}, r"fps is 0\.0; it must be above 0"),
        ({"fps": math.nan}, "fps is nan; it must be above 0"),
        ({"joints": np.zeros(3)}, r"joints have the shape \(3,\)"),
        ({"joints": np.zeros((1, 2))}, "there must be 2 frames or more"),
        ({"joints": np.zeros((3, 4))}, "a column for each of the\\s+2 joint names"),
        ({"joint_names": ("a", "a")}, "the joint 'a' is there twice"),
        ({"joints": np.array([[0, 0], [0, math.nan], [0, 0]])}, "joints: frame 1, column 1 is not finite"),
        ({"base": np.zeros((3, 6))}, r"base: poses have the shape \(3, 6\); they must have \(3, 7\)"),
        ({"base": spoiled(2, 0, math.inf)}, "base: frame 2, column 0 is not finite"),
        ({"base": spoiled(1, 3, 1.2)}, r"the quaternion of frame 1 has the norm 1\.2; it must be 1 within 0\.01"),
        ({"objects": {"box": spoiled(1, 3, 0.5)}}, r"object 'box': the quaternion of frame 1 has the norm 0\.5"),
        ({"contacts": {"foot": np.array([0.0, 0.5, 1.0])}}, "contact of 'foot' must be 0 or 1 in each of the 3 frames"),
        ({"contacts": {"foot": np.zeros(2)}}, "contact of 'foot' must be 0 or 1 in each of the 3 frames"),
    ],
)
def test_motions_that_are_none_are_refused(changed, message):
    good = {"name": "m", "fps": 30.0, "joints": np.zeros((3, 2)), "joint_names": ("a", "b"), "base": GOOD}
    Motion(**good)
    with pytest.raises(InputError, match=message):
        Motion(**{**good, **changed})


def test_a_motion_too_short_for_a_rate_is_refused():
    with pytest.raises(InputError, match=r"lasts 0\.5 s: at 1 frames per second that is one"):
        turning().resampled(1.0)
