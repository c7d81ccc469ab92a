"""A task of your own: a pole on a cart that is to be swung up and balanced.

    stickslip plan examples/cart_pole_task.py --trials 3
    stickslip plan examples/cart_pole_task.py --planner cem:samples=64

A task is a model, a cost, a start and a goal, and a test of success. Run as a script, this does one trial.
"""

import math

import mujoco
import numpy as np
import warp as wp

from stickslip.mpc.cost import Control, Names, State, Term
from stickslip.mpc.planners.catalogue import make_planner
from stickslip.mpc.success import Goal, Measure, Success
from stickslip.mpc.task import Sampling, Task, compile_problem
from stickslip.mpc.trial import trial

MODEL = """
<mujoco model="cart-pole">
  <option timestep="0.01"/>
  <asset>
    <texture type="skybox" builtin="gradient" rgb1="0.95 0.95 0.93" rgb2="0.75 0.78 0.8" width="64" height="64"/>
  </asset>
  <worldbody>
    <light pos="0 -1 3"/>
    <camera name="overview" pos="0 -2 0.1" xyaxes="1 0 0 0 0 1"/>
    <body name="cart">
      <joint name="slide" type="slide" axis="1 0 0" range="-1.5 1.5" limited="true" damping="0.1"/>
      <geom type="box" size="0.12 0.06 0.05" mass="1" rgba="0.3 0.4 0.5 1"/>
      <body name="pole">
        <joint name="hinge" axis="0 1 0" damping="0.005"/>
        <geom type="capsule" fromto="0 0 0 0 0 0.6" size="0.025" mass="0.15" rgba="0.9 0.5 0.3 1" contype="0"/>
        <site name="top" pos="0 0 0.6"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor name="push" joint="slide" ctrlrange="-12 12"/></actuator>
</mujoco>
"""


def height(names: Names) -> wp.Function:
    """How far the top of the pole is below its highest place, squared."""
    top = names.site("top")

    @wp.func
    def below(s: State) -> float:
        return (0.6 - s.site_pos[top][2]) * (0.6 - s.site_pos[top][2])

    return below


@wp.func
def away(s: State) -> float:
    """Distance of the cart from where it is wanted, squared."""
    return (s.qpos[0] - s.goal[0]) * (s.qpos[0] - s.goal[0])


@wp.func
def speed(s: State) -> float:
    return s.qvel[0] * s.qvel[0] + s.qvel[1] * s.qvel[1]


def sample(rng: np.random.Generator, mjm: mujoco.MjModel, name: str) -> tuple[np.ndarray, Goal]:
    """The pole hangs, nearly; the cart is to end up within half a metre of the middle."""
    return np.array([0.0, math.pi + rng.uniform(-0.1, 0.1)]), Goal(rng.uniform(-0.5, 0.5, 1))


def errors(mjm: mujoco.MjModel, qpos: np.ndarray, qvel: np.ndarray, goal: Goal) -> np.ndarray:
    """Angle of the pole from upright [rad], and distance of the cart from its goal [m]."""
    angle = abs((qpos[1] + math.pi) % (2.0 * math.pi) - math.pi)
    return np.array([angle, abs(qpos[0] - goal.values[0])])


TASK = Task(
    name="my-cart-pole",
    summary="a pole on a cart is swung up and balanced",
    build=lambda name: mujoco.MjSpec.from_string(MODEL),
    sample=sample,
    cost=(
        Term("height", height, weight=10.0, final=10.0),
        Term("cart", away, weight=1.0, final=1.0),
        Term("speed", speed, weight=0.01, final=0.05),
        Control(weight=1e-3),
    ),
    success=Success((Measure("angle", 0.15, "rad"), Measure("distance", 0.15, "m")), steps=50),
    errors=errors,
    substeps=2,
    longest=500,
    sampling=Sampling(horizon=80, knot_steps=10, std=0.4, temperature=0.05, spline="cubic"),
)

if __name__ == "__main__":
    problem = compile_problem(TASK)
    ran = trial.run(problem, make_planner("mppi:samples=64", problem), seed=0)
    print(f"{ran.reason} after {ran.steps * problem.period:.1f} s")
