"""A cart on a rail with a motor, and a pole that is to be swung up and balanced.

The pole is 0.6 m long and weighs 0.2 kg, the cart 1 kg. Joints: position of the cart [m], angle of the pole [rad]: zero
is upright, pi is hanging. Control: force on the cart [N]. The goal holds the position of the cart [m]. Full force
from rest does not lift the pole: it must swing. There are no contacts.
"""

import math
import pathlib

import mujoco
import numpy as np
from numpy.typing import NDArray

FILE = pathlib.Path(__file__).with_suffix(".xml")
OBJECTS = ("pole",)
RAIL = 0.8
"""Height of the rail [m]."""
REACH = 0.5
"""Largest distance of the cart's start and goal from the middle [m]; the rail ends at 1.4 m."""
SWAY = 0.2
"""Largest initial angle of the pole from hanging [rad]."""


def build(name: str) -> mujoco.MjSpec:
    """The cart with its pole; there is one variant."""
    spec = mujoco.MjSpec.from_file(str(FILE))
    spec.modelname = f"cart-{name}"
    return spec


def sample(rng: np.random.Generator, mjm: mujoco.MjModel, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The pole hangs, nearly; cart and goal are near the middle of the rail."""
    x, goal = rng.uniform(-REACH, REACH, 2)
    return np.array([x, math.pi + rng.uniform(-SWAY, SWAY)]), np.array([goal])


def goal_pose(goal: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Position [m] and orientation, a quaternion, of the body that shows the goal."""
    return np.array([goal[0], 0.0, RAIL]), np.array([1.0, 0.0, 0.0, 0.0])
