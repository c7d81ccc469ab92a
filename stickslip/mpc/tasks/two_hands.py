"""Two hands of three fingers that lift and turn a box that is larger than a hand can grasp.

A hand is a palm on three slides with a wrist of two hinges, yaw and roll, and three fingers of two hinges, 11 joints in
all. The hands face each other along x, the box is between them. Joints: left hand, right hand, the box's free joint.
Controls: joint targets in the order of the joints [m or rad]; forward is towards the box for both. The goal holds
position [m] and orientation, a quaternion, of the box. Fingertips and palms touch box and floor, not each other. The
box is 22 cm long and weighs 0.5 kg; hands of 5 cm must press from both sides and lift together.
"""

import math
import pathlib

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.scenes import finger

FILE = pathlib.Path(__file__).with_suffix(".xml")
OBJECTS = ("box",)
HANDS = ("left", "right")
TIPS = tuple(f"{hand}_{name}_tip" for hand in HANDS for name in ("thumb", "front", "back"))
"""Sites at the fingertips."""
HALF = (0.11, 0.07, 0.07)
"""Half sizes of the box [m]."""
NOISE, ASKEW = 0.01, 0.1
"""Largest initial distance of the box from the middle, along x and y [m], and its largest yaw [rad]."""
REACH = 0.05
"""Largest distance of the goal from the middle, along x and y [m]."""
LIFT = (0.05, 0.15)
"""Range of the height of the goal above the box on the floor [m]."""
YAW, ROLL = 0.5, 0.8
"""Largest turn of the goal about the vertical, and about the line between the hands [rad]."""


def build(name: str) -> mujoco.MjSpec:
    """The hands and the box; there is one."""
    spec = mujoco.MjSpec.from_file(str(FILE))
    spec.modelname = f"two-hands-{name}"
    finger.share_materials(spec)
    return spec


def sample(rng: np.random.Generator, mjm: mujoco.MjModel, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The hands at home, the box between them, a little off; the goal is in the air, turned about two axes."""
    start = mjm.key("home").qpos.copy()
    x, y = rng.uniform(-NOISE, NOISE, 2)
    start[-7:] = x, y, HALF[2], *_quat(0.0, rng.uniform(-ASKEW, ASKEW))
    goal_x, goal_y = rng.uniform(-REACH, REACH, 2)
    quat = _quat(rng.uniform(-ROLL, ROLL), rng.uniform(-YAW, YAW))
    return start, np.array([goal_x, goal_y, HALF[2] + rng.uniform(*LIFT), *quat])


def _quat(roll: float, yaw: float) -> NDArray[np.float64]:
    """Unit quaternion, w first, of a rotation about x, then one about the fixed z [rad]."""
    a, b = 0.5 * roll, 0.5 * yaw
    return np.array(
        [math.cos(a) * math.cos(b), math.sin(a) * math.cos(b), math.sin(a) * math.sin(b), math.cos(a) * math.sin(b)]
    )


def goal_pose(goal: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Position [m] and orientation, a quaternion, of the body that shows the goal."""
    return goal[:3], goal[3:]
