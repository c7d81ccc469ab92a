"""A robot of 12 kg with four legs of three hinges, that walks with a commanded velocity.

It is the robot of the benchmark of speed, without dry friction in its joints and with damped servos. Joints: the
trunk's free joint, then hip, thigh and calf of the legs front left, front right, rear left, rear right. Controls: joint
targets [rad]. The goal holds the velocity of the trunk in its own frame: vx, vy [m/s] and the yaw rate [rad/s].
Sensors: velocity (3,) and angular velocity (3,) of the trunk in its frame, and its z axis in the world (3,). Feet and
trunk touch only the floor. Targets are bounded more tightly than joints: by postures that a walk needs.
"""

import math
import pathlib

import mujoco
import numpy as np
from numpy.typing import NDArray

FILE = pathlib.Path(__file__).with_suffix(".xml")
OBJECTS = ("robot",)
FEET = ("front_left_foot", "front_right_foot", "rear_left_foot", "rear_right_foot")
"""Sites at the centers of the feet."""
FOOT = 0.022
"""Radius of a foot [m]."""
FORWARD, SIDEWAYS, TURNING = (-0.2, 0.4), 0.15, 0.4
"""Range of the commanded velocity forwards [m/s], and the largest sideways [m/s] and about the vertical [rad/s]."""
FALLEN = 0.16
"""Height of the trunk below which the robot has fallen [m]; it stands at 0.32 m."""
UPRIGHT = 0.5
"""Vertical part of the trunk's z axis below which the robot has fallen."""


def build(name: str) -> mujoco.MjSpec:
    """The robot on the floor; there is one."""
    spec = mujoco.MjSpec.from_file(str(FILE))
    spec.modelname = f"quadruped-{name}"
    return spec


def sample(rng: np.random.Generator, mjm: mujoco.MjModel, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The robot stands at home with any heading; the command is forwards, sideways and turning at once."""
    start = mjm.key("home").qpos.copy()
    heading = rng.uniform(-math.pi, math.pi)
    start[3:7] = math.cos(0.5 * heading), 0.0, 0.0, math.sin(0.5 * heading)
    command = rng.uniform(*FORWARD), rng.uniform(-SIDEWAYS, SIDEWAYS), rng.uniform(-TURNING, TURNING)
    return start, np.array(command)
