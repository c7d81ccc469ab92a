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
import warp as wp

from stickslip.mpc.cost import Names, Rotation, State, Term
from stickslip.mpc.success import OBJECT, Array, Goal, pose_goal, pose_success, quat_of
from stickslip.mpc.task import Sampling, Task
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


def sample(rng: np.random.Generator, mjm: mujoco.MjModel, name: str) -> tuple[Array, Goal]:
    """The hands at home, the box between them, a little off; the goal is in the air, turned about two axes."""
    start = mjm.key("home").qpos.copy()
    x, y = rng.uniform(-NOISE, NOISE, 2)
    start[-7:] = x, y, HALF[2], *quat_of(0.0, 0.0, rng.uniform(-ASKEW, ASKEW))
    goal_x, goal_y = rng.uniform(-REACH, REACH, 2)
    quat = quat_of(rng.uniform(-ROLL, ROLL), 0.0, rng.uniform(-YAW, YAW))
    return start, pose_goal(np.array([goal_x, goal_y, HALF[2] + rng.uniform(*LIFT)]), quat)


def _position(names: Names) -> wp.Function:
    body = names.body(OBJECT)

    @wp.func
    def position(s: State) -> float:
        """Distance of the box from its goal [m], smooth at zero."""
        return wp.sqrt(wp.length_sq(s.body_pos[body] - wp.vec3(s.goal[0], s.goal[1], s.goal[2])) + 1.0e-6)

    return position


def _reach(names: Names) -> wp.Function:
    left, right = (_side(names, hand) for hand in HANDS)

    @wp.func
    def reach(s: State) -> float:
        """Distances of the fingertips, and of their middle, from the side of the box they are to press [m]."""
        return left(s) + right(s)

    return reach


def _side(names: Names, hand: str) -> wp.Function:
    side = names.site(f"{hand}_side")
    thumb, front, back = (names.site(tip) for tip in TIPS if tip.startswith(hand))

    @wp.func
    def reach(s: State) -> float:
        a = s.site_pos[thumb] - s.site_pos[side]
        b = s.site_pos[front] - s.site_pos[side]
        c = s.site_pos[back] - s.site_pos[side]
        return wp.length((a + b + c) / 3.0) + 0.5 * (wp.length(a) + wp.length(b) + wp.length(c))

    return reach


def _speed(names: Names) -> wp.Function:
    first = names.qvel(OBJECT)

    @wp.func
    def speed(s: State) -> float:
        total = float(0.0)
        for i in range(6):
            total += s.qvel[first + i] * s.qvel[first + i]
        return total

    return speed


TWO_HANDS = Task(
    name="two-hands",
    summary="two hands lift a box that is too large for one, and turn it in the air",
    objects=OBJECTS,
    build=build,
    sample=sample,
    cost=(
        Term("position", _position, weight=10.0, final=10.0),
        Rotation(weight=8.0, final=8.0),
        Term("reach", _reach, weight=4.0, final=4.0),
        Term("speed", _speed, weight=0.005, final=0.005),
    ),
    success=pose_success(position=0.03, rotation=math.sin(0.1) ** 2, steps=20),
    substeps=20,
    longest=250,
    planner="mppi:samples=128,top_fraction=0.9,temperature=0.1",
    sampling=Sampling(dt=0.005, horizon=120, knot_steps=40, std=0.12, spline="linear"),
    uncertain=(OBJECT,),
)
