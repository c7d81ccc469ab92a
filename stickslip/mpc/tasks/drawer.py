"""A gripper on three slides that grasps the handle of a drawer and opens it.

Joints: x, y, z of the gripper, upper and lower finger, opening of the drawer [m]. Controls: targets of the first five;
a finger at zero is closed. The goal holds the opening [m]. The drawer weighs 2.7 kg and has 5 N of dry friction and a
damping of 30 N s/m. A finger presses with 20 N at most; its friction with the handle is 1. Handle, fingers and palm are
capsules. Fingers and palm touch handle and front of the drawer; the cabinet touches nothing.
"""

import pathlib

import mujoco
import numpy as np
import warp as wp

from stickslip.mpc.cost import Names, State, Term
from stickslip.mpc.success import Array, Goal, Measure, Success, millimetres
from stickslip.mpc.task import Sampling, Task

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


def sample(rng: np.random.Generator, mjm: mujoco.MjModel, name: str) -> tuple[Array, Goal]:
    """The gripper in front of the handle and aside of it, the drawer nearly closed; the goal is open."""
    x = rng.uniform(*BEFORE)
    y, z = rng.uniform(-ASIDE, ASIDE, 2)
    grip = rng.uniform(*GRIP)
    return np.array([x, y, z, grip, grip, rng.uniform(0.0, AJAR)]), Goal(np.array([rng.uniform(*OPEN)]))


def goal_pose(goal: Array) -> tuple[Array, Array]:
    """Position [m] and orientation, a quaternion, of the body that shows the goal."""
    return np.array([FRONT[0] - goal[0], *FRONT[1:]]), np.array([1.0, 0.0, 0.0, 0.0])


@wp.func
def _opening(s: State) -> float:
    return wp.abs(s.qpos[5] - s.goal[0])


def _grasp(names: Names) -> wp.Function:
    grasp, handle, upper, lower = (names.site(name) for name in ("grasp", "handle", *TIPS))

    @wp.func
    def grasped(s: State) -> float:
        """Distances of the gripper and of its fingertips from the handle [m]."""
        there = s.site_pos[handle]
        tips = wp.length(s.site_pos[upper] - there) + wp.length(s.site_pos[lower] - there)
        return 2.0 * wp.length(s.site_pos[grasp] - there) + tips

    return grasped


@wp.func
def _speed(s: State) -> float:
    arm = s.qvel[0] * s.qvel[0] + s.qvel[1] * s.qvel[1] + s.qvel[2] * s.qvel[2]
    return 0.2 * arm + s.qvel[5] * s.qvel[5]


def errors(mjm: mujoco.MjModel, qpos: Array, qvel: Array, goal: Goal) -> Array:
    """Distance of the drawer from the opening that is wanted [m]."""
    return np.array([abs(qpos[5] - goal.values[0])])


DRAWER = Task(
    name="drawer",
    summary="a gripper grasps the handle of a drawer and opens it",
    objects=OBJECTS,
    build=build,
    sample=sample,
    cost=(
        Term("opening", _opening, weight=10.0, final=10.0),
        Term("grasp", _grasp, weight=2.0, final=2.0),
        Term("speed", _speed, weight=0.1, final=0.1),
    ),
    success=Success((Measure("opening", 0.01, "mm", millimetres),), steps=25),
    errors=errors,
    substeps=20,
    longest=250,
    planner="mppi:samples=64,top_fraction=0.9,temperature=0.1",
    sampling=Sampling(dt=0.005, horizon=120, knot_steps=40, std=0.2, spline="linear"),
    shown=goal_pose,
)
