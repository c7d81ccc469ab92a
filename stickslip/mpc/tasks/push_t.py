"""A T on a table and a round finger on two servos, which pushes it to a goal pose.

The T is that of the scene "push-t": 25 cm wide, 20 cm long, 0.5 kg, of two boxes. The finger moves in the plane at half
its height and touches only the T. Joints: x and y of the finger, then the T's free joint. Controls: targets of x and y
[m]. The goal holds x [m], y [m] and yaw [rad] of the T.
"""

import math
import pathlib

import mujoco
import numpy as np
import warp as wp

from stickslip.mpc.cost import Names, State, Term
from stickslip.mpc.success import OBJECT, Array, Goal, Measure, Success, millimetres
from stickslip.mpc.task import Sampling, Task
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


def sample(rng: np.random.Generator, mjm: mujoco.MjModel, name: str) -> tuple[Array, Goal]:
    """The T near the middle, the goal near the middle with any heading, the finger beside the T."""
    x, y, goal_x, goal_y = rng.uniform(-REACH, REACH, 4)
    yaw = rng.uniform(-math.pi, math.pi)
    turn = rng.uniform(-TURN, TURN)
    while True:
        finger = rng.uniform(-TABLE, TABLE, 2)
        if gap(finger, x, y, yaw) >= CLEARANCE:
            break
    quat = (math.cos(0.5 * yaw), 0.0, 0.0, math.sin(0.5 * yaw))
    goal = Goal(np.array([goal_x, goal_y, math.remainder(yaw + turn, math.tau)]))
    return np.array([*finger, x, y, HEIGHT, *quat]), goal


def gap(finger: Array, x: float, y: float, yaw: float) -> float:
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


def goal_pose(goal: Array) -> tuple[Array, Array]:
    """Position [m] and orientation, a quaternion, of the body that shows the goal."""
    x, y, yaw = goal
    return np.array([x, y, HEIGHT]), np.array([math.cos(0.5 * yaw), 0.0, 0.0, math.sin(0.5 * yaw)])


def _position(names: Names) -> wp.Function:
    body = names.body(OBJECT)

    @wp.func
    def position(s: State) -> float:
        """Distance of the T from its goal [m], smooth at zero."""
        x = s.body_pos[body][0] - s.goal[0]
        y = s.body_pos[body][1] - s.goal[1]
        return wp.sqrt(x * x + y * y + 1.0e-6)

    return position


def _heading(names: Names) -> wp.Function:
    body = names.body(OBJECT)

    @wp.func
    def heading(s: State) -> float:
        """Angle of the T from its goal [rad], smooth at zero."""
        c = s.body_rot[body][0, 0] * wp.cos(s.goal[2]) + s.body_rot[body][1, 0] * wp.sin(s.goal[2])
        d = s.body_rot[body][1, 0] * wp.cos(s.goal[2]) - s.body_rot[body][0, 0] * wp.sin(s.goal[2])
        angle = wp.atan2(d, c)
        return wp.sqrt(angle * angle + 1.0e-4)

    return heading


def _near(names: Names) -> wp.Function:
    body, finger = names.body(OBJECT), names.site("finger")

    @wp.func
    def near(s: State) -> float:
        """How much farther than 0.15 m the finger is from the T [m]."""
        return wp.max(0.0, wp.length(s.site_pos[finger] - s.body_pos[body]) - 0.15)

    return near


@wp.func
def _speed(s: State) -> float:
    return s.qvel[0] * s.qvel[0] + s.qvel[1] * s.qvel[1]


def errors(mjm: mujoco.MjModel, qpos: Array, qvel: Array, goal: Goal) -> Array:
    """Distance of the T from its goal [m], and angle [rad]."""
    yaw = 2.0 * math.atan2(qpos[8], qpos[5])
    return np.array([np.linalg.norm(qpos[2:4] - goal.values[:2]), abs(math.remainder(yaw - goal.values[2], math.tau))])


PUSH_T = Task(
    name="push-t",
    summary="a finger pushes a T on a table to a goal pose",
    objects=OBJECTS,
    build=build,
    sample=sample,
    cost=(
        Term("position", _position, weight=20.0, final=40.0),
        Term("heading", _heading, weight=2.0, final=4.0),
        Term("near", _near, weight=3.0, final=6.0),
        Term("speed", _speed, weight=0.02, final=0.04),
    ),
    success=Success(
        (Measure("position", 0.02, "mm", millimetres), Measure("angle", 0.1, "deg", math.degrees)), steps=10
    ),
    errors=errors,
    substeps=25,
    longest=400,
    planner="predictive:samples=64",
    sampling=Sampling(dt=0.01, horizon=80, knot_steps=27, std=0.2, spline="linear"),
    shown=goal_pose,
    uncertain=(OBJECT,),
)
