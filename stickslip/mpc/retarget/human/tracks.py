"""Where the pelvis, feet, hands and knees of a robot are to be, from where those of a human are.

The human is made smaller by one factor, that of the legs. A foot or hand that stands gets one place for the time in
which it does.
"""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from stickslip.mpc.retarget.contacts import spans, speeds, standing
from stickslip.mpc.retarget.human.skeleton import HAND, HIP, LEG, SIDES, Human
from stickslip.mpc.retarget.motion import Array, exponential, rotated, slerp

FOOT_LOW, HAND_LOW = (0.04, 0.06), (0.04, 0.06)
"""Height of the human's sole or hand below which it begins to stand, and below which it still does [m]."""
FOOT_SLOW, HAND_SLOW = (0.4, 0.8), (0.5, 1.0)
"""Speed likewise; hands roll over the floor [m/s]."""
FLAT = 0.5
"""Angle of a sole to the floor up to which a foot stands [rad]."""
PIVOT = 3.0
"""Speed of the heading of a foot up to which it stands [rad/s]."""
FADE = 0.12
"""Time in which a foot or hand goes over from its own path to the place where it stands [s]."""
NEAR = 0.03
"""Height of the human's lowest point up to which it is at the floor: recordings are not exact [m]."""


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes of a robot.

    Attributes:
        hip: middle between the hips, in the frame of the pelvis [m]         (3,)
        width: from there to a hip [m]
        leg: from the hips to the soles, legs straight [m]
        upper_arm: from shoulder to elbow [m]
        forearm: from elbow to hand [m]
        hand: height of a hand's site when it lies on the floor [m]
    """

    hip: Array
    width: float
    leg: float
    upper_arm: float
    forearm: float
    hand: float


@dataclasses.dataclass(frozen=True, eq=False)
class Track:
    """Where a foot or a hand is to be.

    Attributes:
        pos: position [m]                                                     (T, 3)
        quat: orientation                                                     (T, 4)
        share: 1 while it stands at its place, 0 while it is free             (T,)
        on: while it stands                                                   (T,)
    """

    pos: Array
    quat: Array
    share: Array
    on: NDArray[np.bool_]


@dataclasses.dataclass(frozen=True, eq=False)
class Tracks:
    """A human's motion in the size of a robot.

    Attributes:
        scale: size of the robot over that of the human
        pelvis: position of the robot's pelvis [m]                            (T, 3)
        limbs: of "left_foot", "right_foot", "left_hand" and "right_hand"
        knees: positions, by side [m]                                         (T, 3) each
        arms: directions of upper arm and forearm, by side                    (T, 3) each
        clearance: height of the lowest point over the floor, 0 at the floor [m]     (T,)
    """

    scale: float
    pelvis: Array
    limbs: dict[str, Track]
    knees: dict[str, Array]
    arms: dict[str, tuple[Array, Array]]
    clearance: Array


def scaled(human: Human, sizes: Sizes) -> Tracks:
    """The motion of a human in the size of a robot."""
    scale = sizes.leg / LEG
    place, turn = human.positions, human.orientations
    limbs, knees, arms = {}, {}, {}
    for side, sign in SIDES.items():
        wider = rotated(turn["pelvis"], (0.0, sign * (sizes.width - scale * HIP), 0.0))
        knees[side] = scale * place[f"{side}_knee"] + wider
        upper = place[f"{side}_elbow"] - place[f"{side}_shoulder"]
        fore = place[f"{side}_hand"] - place[f"{side}_elbow"]
        arms[side] = tuple(v / np.linalg.norm(v, axis=1, keepdims=True) for v in (upper, fore))
        limbs[f"{side}_foot"] = _foot(human, f"{side}_foot", scale, wider)
        limbs[f"{side}_hand"] = _hand(human, f"{side}_hand", scale, sizes.hand)
    pelvis = scale * place["pelvis"] - rotated(turn["pelvis"], tuple(sizes.hip))
    clearance = scale * np.maximum(human.lowest() - NEAR, 0.0)
    return Tracks(scale, pelvis, limbs, knees, arms, clearance)


def _foot(human: Human, name: str, scale: float, wider: Array) -> Track:
    quat, place = human.orientations[name], human.positions[name]
    level = np.arccos(np.clip(rotated(quat, (0.0, 0.0, 1.0))[:, 2], -1.0, 1.0)) < FLAT
    forward = rotated(quat, (1.0, 0.0, 0.0))
    heading = np.unwrap(np.arctan2(forward[:, 1], forward[:, 0]))
    turning = np.abs(np.gradient(heading, 1.0 / human.fps)) > PIVOT
    speed = speeds(place, human.fps)
    on = standing(human.sole(name), speed, human.fps, FOOT_LOW, FOOT_SLOW, level & ~turning)
    return _held(scale * place + wider, quat, on, 0.0, human.fps)


def _hand(human: Human, name: str, scale: float, radius: float) -> Track:
    place = human.positions[name]
    on = standing(place[:, 2] - HAND, speeds(place, human.fps), human.fps, HAND_LOW, HAND_SLOW)
    return _held(scale * place, human.orientations[name], on, radius, human.fps)


def _held(free: Array, quat: Array, on: NDArray[np.bool_], height: float, fps: float) -> Track:
    """A path that keeps to one place, at a height and level, while something stands there."""
    frames, found = np.arange(len(free)), spans(on)
    total, there, turned = np.zeros(len(free)), np.zeros_like(free), quat
    for k, (begin, end) in enumerate(found):
        before = begin - found[k - 1][1] if k else np.inf
        after = found[k + 1][0] - end if k + 1 < len(found) else np.inf
        into, out = (min(FADE * fps, 0.5 * (gap + 1.0)) for gap in (before, after))  # nowhere two places at once
        away = np.maximum(np.maximum((begin - frames) / into, (frames - end + 1) / out), 0.0)
        part = np.clip(1.0 - away, 0.0, 1.0)
        part = part * part * (3.0 - 2.0 * part)
        forward = rotated(quat[begin:end], (1.0, 0.0, 0.0)).mean(axis=0)
        yaw = exponential(np.array([0.0, 0.0, np.arctan2(forward[1], forward[0])]))
        total += part
        there += part[:, None] * [*free[begin:end, :2].mean(axis=0), height]
        turned = slerp(turned, np.tile(yaw, (len(free), 1)), part)
    return Track(there + (1.0 - total[:, None]) * free, turned, total, on)
