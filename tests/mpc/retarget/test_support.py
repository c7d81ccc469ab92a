"""What contacts cannot give: nothing to a robot that stands or falls freely, its weight to one that floats."""

import dataclasses

import mujoco
import numpy as np
import pytest

from stickslip.errors import InputError
from stickslip.mpc.retarget import made, support
from stickslip.mpc.retarget.motion import Motion
from stickslip.mpc.retarget.robots import ROBOTS, Options

G1 = ROBOTS["g1"]


def model() -> mujoco.MjModel:
    return G1.build(Options()).compile()


def standing(frames: int = 30) -> Motion:
    """The first frame of the squat, held."""
    squat = made.make("squat")
    assert squat.base is not None
    return Motion(
        "standing",
        squat.fps,
        np.tile(squat.joints[0], (frames, 1)),
        squat.joint_names,
        np.tile(squat.base[0], (frames, 1)),
    )


def moved(motion: Motion, shift: np.ndarray) -> Motion:
    """The motion with its base shifted by (T, 3)."""
    assert motion.base is not None
    base = motion.base.copy()
    base[:, :3] += shift
    return dataclasses.replace(motion, base=base)


def missing(motion: Motion) -> np.ndarray:
    return support.missing(motion, model(), G1.base)


def test_a_robot_that_stands_misses_nothing_and_one_that_floats_its_weight():
    still = standing()
    assert missing(still).max() < 1e-3
    np.testing.assert_allclose(missing(moved(still, np.array([0.0, 0.0, 0.05]))), 1.0, atol=1e-4)


def test_free_fall_needs_no_contacts():
    still = standing()
    times = np.arange(still.frames) / still.fps
    fall = np.outer(-0.5 * 9.81 * times**2, [0.0, 0.0, 1.0]) + [0.0, 0.0, 2.0]
    assert missing(moved(still, fall))[6:-6].max() < 1e-2  # ends are averaged over fewer frames


def test_a_push_is_given_up_to_friction():
    still = standing()
    times = np.arange(still.frames) / still.fps
    for share, least, most in ((0.1, 0.0, 0.05), (2.0, 0.8, 2.5)):
        slid = np.outer(0.5 * share * 9.81 * times**2, [0.0, 1.0, 0.0])
        assert least <= missing(moved(still, slid))[8:-8].mean() <= most


def test_our_motions_can_nearly_be_produced():
    for name, most in (("squat", 1e-3), ("wave", 1e-3), ("kick", 0.02), ("getup", 0.02), ("cartwheel", 0.12)):
        assert missing(made.make(name)).mean() < most, name
    assert missing(made.make("kick-sunk")).mean() < 0.02  # contacts are there; that they are too deep is another matter


def test_a_fixed_base_is_refused():
    turn = made.make("cube-turn")
    with pytest.raises(InputError, match="'cube-turn' has a fixed base"):
        support.missing(turn, ROBOTS["leap"].build(Options()).compile(), "")
