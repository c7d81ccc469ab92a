"""A T on a table and a round finger on two servos, which pushes it to a goal pose.

The T is that of the scene "push-t": 25 cm wide, 20 cm long, 0.5 kg, of two boxes. The finger moves in the plane at half
its height and touches only the T. Joints: x and y of the finger, then the T's free joint. Controls: targets of x and y
[m]. The goal holds x [m], y [m] and yaw [rad] of the T.
"""

import math
import pathlib

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.scenes import push_t

FILE = pathlib.Path(__file__).with_suffix(".xml")
OBJECTS = ("t",)
HEIGHT = 0.5 * push_t.HEIGHT
"""Height of the center of T and finger [m]."""
REACH = 0.12
"""Largest distance of the T's start and goal from the middle, along x and y [m]."""
TURN = math.pi
"""Largest angle between start and goal [rad]."""
TABLE = 0.3
"""Largest distance of the finger's start from the middle, along x and y [m]; its servos reach 0.4 m."""
CLEARANCE = 0.02
"""Smallest distance between finger and T at the start [m]."""


def build(name: str) -> mujoco.MjSpec:
    """The table with finger, T and goal; there is one object."""
    spec = mujoco.MjSpec.from_file(str(FILE))
    spec.modelname = f"push-{name}"
    return spec


def sample(rng: np.random.Generator, mjm: mujoco.MjModel, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The T near the middle, the goal near the middle with any heading, the finger beside the T."""
    x, y, goal_x, goal_y = rng.uniform(-REACH, REACH, 4)
    yaw = rng.uniform(-math.pi, math.pi)
    turn = rng.uniform(-TURN, TURN)
    while True:
        finger = rng.uniform(-TABLE, TABLE, 2)
        if gap(finger, x, y, yaw) >= CLEARANCE:
            break
    quat = (math.cos(0.5 * yaw), 0.0, 0.0, math.sin(0.5 * yaw))
    return np.array([*finger, x, y, HEIGHT, *quat]), np.array([goal_x, goal_y, math.remainder(yaw + turn, math.tau)])


def gap(finger: NDArray[np.float64], x: float, y: float, yaw: float) -> float:
    """Distance between a finger at `finger` (2,) and a T at x, y, yaw [m]; negative inside."""
    c, s = math.cos(yaw), math.sin(yaw)
    own = np.array([[c, s], [-s, c]]) @ (finger - (x, y))
    bar, stem = (0.0, push_t.centre()), (0.0, push_t.centre() - 0.5 * push_t.LENGTH)
    halves = (
        (0.5 * push_t.WIDTH, 0.5 * push_t.BEAM),
        (0.5 * push_t.BEAM, 0.5 * (push_t.LENGTH - push_t.BEAM)),
    )
    outside = [np.abs(own - middle) - half for middle, half in zip((bar, stem), halves, strict=True)]
    return min(float(np.linalg.norm(np.maximum(d, 0.0)) + min(d.max(), 0.0)) for d in outside) - push_t.RADIUS


def goal_pose(goal: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Position [m] and orientation, a quaternion, of the body that shows the goal."""
    x, y, yaw = goal
    return np.array([x, y, HEIGHT]), np.array([math.cos(0.5 * yaw), 0.0, 0.0, math.sin(0.5 * yaw)])
