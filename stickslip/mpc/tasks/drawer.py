"""A gripper on three slides that grasps the handle of a drawer and opens it.

Joints: x, y, z of the gripper, upper and lower finger, opening of the drawer [m]. Controls: targets of the first five;
a finger at zero is closed. The goal holds the opening [m]. The drawer weighs 2.7 kg and has 5 N of dry friction and a
damping of 30 N s/m. A finger presses with 20 N at most; its friction with the handle is 1. Handle, fingers and palm are
capsules. Fingers and palm touch handle and front of the drawer; the cabinet touches nothing.
"""

import pathlib

import mujoco
import numpy as np
from numpy.typing import NDArray

FILE = pathlib.Path(__file__).with_suffix(".xml")
OBJECTS = ("drawer",)
TIPS = ("upper_tip", "lower_tip")
"""Sites at the fingertips, on the axes of the fingers; "grasp" is between them."""
OPEN = (0.08, 0.25)
"""Range of the goal's opening [m]; the drawer opens up to 0.3 m."""
AJAR = 0.03
"""Largest opening at the start [m]."""
BEFORE = (-0.08, 0.05)
"""Range of the gripper's x at the start [m]: 0.10 to 0.23 m in front of the handle of a closed drawer."""
ASIDE = 0.08
"""Largest distance of the gripper from the height and middle of the handle at the start, along y and z [m]."""
GRIP = (0.01, 0.04)
"""Range of both fingers at the start [m]."""
FRONT = (0.0, 0.0, 0.28)
"""Position of the closed drawer [m]."""


def build(name: str) -> mujoco.MjSpec:
    """The gripper and the cabinet; there is one drawer."""
    spec = mujoco.MjSpec.from_file(str(FILE))
    spec.modelname = f"drawer-{name}"
    return spec


def sample(rng: np.random.Generator, mjm: mujoco.MjModel, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The gripper in front of the handle and aside of it, the drawer nearly closed; the goal is open."""
    x = rng.uniform(*BEFORE)
    y, z = rng.uniform(-ASIDE, ASIDE, 2)
    grip = rng.uniform(*GRIP)
    return np.array([x, y, z, grip, grip, rng.uniform(0.0, AJAR)]), np.array([rng.uniform(*OPEN)])


def goal_pose(goal: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Position [m] and orientation, a quaternion, of the body that shows the goal."""
    return np.array([FRONT[0] - goal[0], *FRONT[1:]]), np.array([1.0, 0.0, 0.0, 0.0])
