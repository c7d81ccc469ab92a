"""A robot of 12 kg with four legs of three hinges, that walks to a goal.

It is the robot of the benchmark of speed, without dry friction in its joints and with damped servos. Joints: the
trunk's free joint, then hip, thigh and calf of the legs front left, front right, rear left, rear right. Controls: joint
targets [rad]. The goal holds the place of the trunk, x and y [m]. The cost asks for a velocity towards it.
Sensors: velocity (3,) and angular velocity (3,) of the trunk in its frame, and its z axis in the world (3,). Feet and
trunk touch only the floor. Targets are bounded more tightly than joints: by postures that a walk needs.
"""

import math
import pathlib

import mujoco
import numpy as np
import warp as wp

from stickslip.mpc.cost import Names, State, Term, summed
from stickslip.mpc.success import FELL, Array, Goal, Measure, Success, millimetres
from stickslip.mpc.task import Sampling, Task

FILE = pathlib.Path(__file__).with_suffix(".xml")
OBJECTS = ("robot",)
FEET = ("front_left_foot", "front_right_foot", "rear_left_foot", "rear_right_foot")
"""Sites at the centers of the feet."""
FOOT = 0.022
"""Radius of a foot [m]."""
AHEAD, ASIDE = (0.6, 1.0), 0.3
"""Range of the goal's distance [m], and its largest angle from straight ahead [rad]."""
SPEED, SLOWING = 0.3, 0.3
"""Wanted speed [m/s], and distance from the goal below which it decreases [m]."""
FALLEN = 0.16
"""Height of the trunk below which the robot has fallen [m]; it stands at 0.32 m."""
UPRIGHT = 0.5
"""Vertical part of the trunk's z axis below which the robot has fallen."""


def build(name: str) -> mujoco.MjSpec:
    """The robot on the floor; there is one."""
    spec = mujoco.MjSpec.from_file(str(FILE))
    spec.modelname = f"quadruped-{name}"
    return spec


def sample(rng: np.random.Generator, mjm: mujoco.MjModel, name: str) -> tuple[Array, Goal]:
    """The robot stands at home with any heading; the goal is ahead of it."""
    start: Array = mjm.key("home").qpos.copy()
    heading = rng.uniform(-math.pi, math.pi)
    start[3:7] = math.cos(0.5 * heading), 0.0, 0.0, math.sin(0.5 * heading)
    distance, course = rng.uniform(*AHEAD), heading + rng.uniform(-ASIDE, ASIDE)
    return start, Goal(np.array([distance * math.cos(course), distance * math.sin(course)]))


def _velocity(names: Names) -> wp.Function:
    body, velocity = names.body("trunk"), names.sensor("velocity")
    speed, slowing = SPEED, SLOWING

    @wp.func
    def error(s: State) -> float:
        """Squared difference from the wanted velocity, which points to the goal [m^2/s^2]."""
        x = s.goal[0] - s.body_pos[body][0]
        y = s.goal[1] - s.body_pos[body][1]
        wanted = speed / wp.max(slowing, wp.sqrt(x * x + y * y))
        seen = s.body_rot[body] * wp.vec3(s.sensor[velocity], s.sensor[velocity + 1], s.sensor[velocity + 2])
        return (seen[0] - wanted * x) * (seen[0] - wanted * x) + (seen[1] - wanted * y) * (seen[1] - wanted * y)

    return error


def _steady(names: Names) -> wp.Function:
    velocity, gyro = names.sensor("velocity"), names.sensor("gyro")

    @wp.func
    def steady(s: State) -> float:
        """Squared speeds that walking does not need: turning, tilting, hopping."""
        turn = s.sensor[gyro + 2]
        tilt = s.sensor[gyro] * s.sensor[gyro] + s.sensor[gyro + 1] * s.sensor[gyro + 1]
        hop = s.sensor[velocity + 2]
        return 9.0 * turn * turn + 0.1 * tilt + 0.5 * hop * hop

    return steady


def _upright(names: Names) -> wp.Function:
    body, home = names.body("trunk"), float(names.mjm.key("home").qpos[2])

    @wp.func
    def upright(s: State) -> float:
        """Tilt of the trunk, and its height."""
        height = s.body_pos[body][2] - home
        return 1.0 - s.body_rot[body][2, 2] + 10.0 * height * height

    return upright


def _posture(names: Names) -> wp.Function:
    return summed([_leg(i, float(names.mjm.key("home").qpos[7 + i])) for i in range(names.mjm.nu)])


def _leg(i: int, home: float) -> wp.Function:
    @wp.func
    def leg(s: State) -> float:
        away = s.qpos[7 + i] - home
        push = s.ctrl[i] - s.qpos[7 + i]
        return 0.1 * away * away + 0.02 * push * push

    return leg


def errors(mjm: mujoco.MjModel, qpos: Array, qvel: Array, goal: Goal) -> Array:
    """Distance of the trunk from its goal [m]."""
    return np.array([math.dist(qpos[:2], goal.values)])


def fallen(mjm: mujoco.MjModel, qpos: Array) -> str:
    """Why a trial ends: the trunk is too low or tilted too far."""
    up = 1.0 - 2.0 * float(qpos[4] ** 2 + qpos[5] ** 2) / float(qpos[3:7] @ qpos[3:7])
    return FELL if qpos[2] < FALLEN or up < UPRIGHT else ""


QUADRUPED = Task(
    name="quadruped",
    summary="a robot with four legs walks to a goal",
    objects=OBJECTS,
    build=build,
    sample=sample,
    cost=(
        Term("velocity", _velocity, weight=30.0),
        Term("steady", _steady, weight=1.0),
        Term("upright", _upright, weight=20.0),
        Term("posture", _posture, weight=1.0),
    ),
    success=Success((Measure("distance", 0.1, "mm", millimetres),), steps=10),
    errors=errors,
    failure=fallen,
    substeps=10,
    longest=750,
    planner="predictive:samples=96",
    sampling=Sampling(dt=0.01, horizon=50, knot_steps=17, std=0.2, spline="cubic"),
)
