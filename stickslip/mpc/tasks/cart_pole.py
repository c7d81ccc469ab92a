"""A cart on a rail with a motor, and a pole that is to be swung up and balanced.

The pole is 0.6 m long and weighs 0.2 kg, the cart 1 kg. Joints: position of the cart [m], angle of the pole [rad]: zero
is upright, pi is hanging. Control: force on the cart [N]. The goal holds the position of the cart [m]. Full force
from rest does not lift the pole: it must swing. There are no contacts.
"""

import math
import pathlib

import mujoco
import numpy as np
import warp as wp

from stickslip.mpc.cost import Control, State, Term
from stickslip.mpc.success import Array, Goal, Measure, Success, millimetres
from stickslip.mpc.task import Sampling, Task

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


def sample(rng: np.random.Generator, mjm: mujoco.MjModel, name: str) -> tuple[Array, Goal]:
    """The pole hangs, nearly; cart and goal are near the middle of the rail."""
    x, goal = rng.uniform(-REACH, REACH, 2)
    return np.array([x, math.pi + rng.uniform(-SWAY, SWAY)]), Goal(np.array([goal]))


def goal_pose(goal: Array) -> tuple[Array, Array]:
    """Position [m] and orientation, a quaternion, of the body that shows the goal."""
    return np.array([goal[0], 0.0, RAIL]), np.array([1.0, 0.0, 0.0, 0.0])


@wp.func
def _upright(s: State) -> float:
    return 1.0 - wp.cos(s.qpos[1])


@wp.func
def _place(s: State) -> float:
    return (s.qpos[0] - s.goal[0]) * (s.qpos[0] - s.goal[0])


@wp.func
def _speed(s: State) -> float:
    return 2.0 * s.qvel[0] * s.qvel[0] + s.qvel[1] * s.qvel[1]


@wp.func
def _end(s: State) -> float:
    """How near the cart is to the end of its rail [m]."""
    return wp.max(0.0, wp.abs(s.qpos[0]) - 1.3)


def errors(mjm: mujoco.MjModel, qpos: Array, qvel: Array, goal: Goal) -> Array:
    """Angle of the pole from upright [rad], and distance of the cart from its goal [m]."""
    return np.array([abs(math.remainder(qpos[1], math.tau)), abs(qpos[0] - goal.values[0])])


CART_POLE = Task(
    name="cart-pole",
    summary="a pole on a cart is swung up and balanced",
    objects=OBJECTS,
    build=build,
    sample=sample,
    cost=(
        Term("upright", _upright, weight=2.0, final=2.0),
        Term("place", _place, weight=1.0, final=1.0),
        Term("speed", _speed, weight=0.01, final=0.01),
        Term("end", _end, weight=50.0, final=50.0),
        Control(weight=1e-4),
    ),
    success=Success(
        (Measure("angle", 0.1, "deg", math.degrees), Measure("distance", 0.3, "mm", millimetres)), steps=50
    ),
    errors=errors,
    substeps=10,
    longest=500,
    planner="mppi:samples=128,top_fraction=0.9,temperature=0.1",
    sampling=Sampling(dt=0.01, horizon=100, knot_steps=20, std=0.25, spline="linear"),
    shown=goal_pose,
)
