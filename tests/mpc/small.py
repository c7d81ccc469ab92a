"""Two small tasks of the tests: a finger with an object out of its reach, and a cart that is to stop at a goal."""

import dataclasses
from typing import Any

import mujoco
import numpy as np
import warp as wp

from stickslip.mpc.cost import (
    Control,
    Cost,
    Distance,
    Fallen,
    Grasp,
    Names,
    Outside,
    Position,
    Posture,
    Reach,
    Rotation,
    State,
    Term,
)
from stickslip.mpc.planners.sampling.planner import Mppi
from stickslip.mpc.success import Goal, Measure, Success, pose_goal, pose_success, quat_of
from stickslip.mpc.task import Observation, Problem, Sampling, Task, compile_problem

SMALL = Mppi(samples=16, horizon=6, dt=0.004, knot_steps=2, temperature=1e-3)


@wp.func
def _speed(s: State) -> float:
    """A term of a user."""
    return s.qvel[0] * s.qvel[0] + 0.1 * wp.abs(s.qvel[1])


def _sensed(names: Names) -> wp.Function:
    where, tip, last = names.sensor("tip"), names.site("tip"), names.body("last")

    @wp.func
    def sensed(s: State) -> float:
        """What a sensor, a site and a body say of the same point; and the servo's target."""
        seen = wp.vec3(s.sensor[where], s.sensor[where + 1], s.sensor[where + 2])
        there = s.body_pos[last] + s.body_rot[last] * wp.vec3(0.08, 0.01, 0.0)
        return wp.length(seen - s.site_pos[tip]) + wp.length(seen - there) + 0.1 * wp.abs(s.ctrl[2]) + seen[2]

    return sensed


COST: Cost = (
    Reach(weight=2.0, sites=("tip",)),
    Grasp(weight=0.2, sites=("tip",)),
    Control(weight=0.3),
    Posture(weight=0.05),
    Rotation(weight=1.1, final=1.7),
    Distance(weight=0.5),
    Position(final=30.0),
    Outside(weight=3.0, final=1.0, radius=0.035),
    Fallen(weight=0.6, height=0.16),
    Term("speed", _speed, weight=0.4, final=0.1),
    Term("sensed", _sensed, weight=0.7),
)
GOAL = pose_goal(np.array([0.31, 0.02, 0.17]), quat_of(0.3, -0.2, 0.9))

FINGER = """
<mujoco>
  <compiler angle="radian"/>
  <option timestep="0.002"/>
  <default>
    <joint damping="0.05" armature="0.001"/>
    <position kp="2"/>
  </default>
  <worldbody>
    <body name="rail" pos="0 0.01 0.2" euler="0.1 0.2 0.3">
      <body name="cart" pos="0.02 0 0" quat="0.9 0.1 -0.2 0.3">
        <joint name="along" type="slide" axis="1 0.2 0" ref="0.01" range="-0.1 0.1" limited="true"/>
        <joint name="swing" axis="0 1 0.3" pos="0.01 0 0.02" ref="0.2"/>
        <geom type="capsule" size="0.01" fromto="0 0 0 0.1 0 0" contype="0" conaffinity="0"/>
        <body name="fixed" pos="0.1 0 0" euler="0 0.4 0">
          <body name="last" pos="0 0 0.01">
            <joint name="bend" axis="0 0 1" range="-0.6 0.6" limited="true"/>
            <geom type="capsule" size="0.01" fromto="0 0 0 0.08 0 0"/>
            <site name="tip" pos="0.08 0.01 0"/>
          </body>
        </body>
      </body>
    </body>
    <body name="object" pos="0.3 0 0.2" gravcomp="1">
      <freejoint name="object"/>
      <geom type="sphere" size="0.02" mass="0.05"/>
    </body>
    <body name="goal" mocap="true"/>
  </worldbody>
  <actuator>
    <position joint="along" kp="50" kv="1"/><position joint="swing"/><position joint="bend"/>
  </actuator>
  <sensor><framepos name="tip" objtype="site" objname="tip"/></sensor>
</mujoco>
"""


def finger(cost: Cost = COST, **changes: Any) -> Problem:
    """A slide and two hinges, off the axes in every way, and an object that floats beyond their reach."""
    task = Task(
        name="finger",
        summary="",
        objects=("ball",),
        build=lambda name: mujoco.MjSpec.from_string(FINGER),
        sample=lambda rng, mjm, name: (mjm.qpos0.copy(), GOAL),
        cost=cost,
        success=pose_success(0.01, 0.01),
        bound=0.05,
        substeps=4,
        longest=10,
        sampling=Sampling(dt=0.004),
        uncertain=("object",),
    )
    return compile_problem(dataclasses.replace(task, **changes))


def observation(problem: Problem, seed: int = 0) -> Observation:
    """At rest, the joints a little off where they start."""
    rng = np.random.default_rng(seed)
    qpos = problem.mjm.qpos0.copy()
    qpos[: problem.nr] += rng.uniform(-0.05, 0.05, problem.nr)
    return Observation(0.0, qpos, np.zeros(problem.mjm.nv), qpos[: problem.nr].copy())


CART = """
<mujoco>
  <option timestep="0.01"/>
  <worldbody>
    <body><joint name="x" type="slide" axis="1 0 0" damping="0.1"/><geom type="sphere" size="0.1" mass="1"/></body>
  </worldbody>
  <actuator><motor name="push" joint="x" ctrlrange="-2 4"/></actuator>
</mujoco>
"""


@wp.func
def off(s: State) -> float:
    return (s.qpos[0] - s.goal[0]) * (s.qpos[0] - s.goal[0]) + 0.1 * s.qvel[0] * s.qvel[0]


def cart(text: str = CART, **changes: Any) -> Problem:
    """A cart that is to stop at a goal."""
    task = Task(
        name="cart",
        summary="",
        build=lambda name: mujoco.MjSpec.from_string(text),
        sample=lambda rng, mjm, name: (np.zeros(mjm.nq), Goal(np.array([rng.uniform(0.5, 1.0)]))),
        cost=(Term("off", off, weight=1.0, final=1.0), Control(weight=1e-4)),
        success=Success((Measure("distance", 0.05, "m"), Measure("speed", 0.1, "m/s")), steps=10),
        errors=lambda mjm, qpos, qvel, goal: np.array([abs(qpos[0] - goal.values[0]), abs(qvel[0])]),
        substeps=2,
        longest=150,
        sampling=Sampling(horizon=40, knot_steps=10, std=0.3, temperature=1e-2, spline="cubic"),
    )
    return compile_problem(dataclasses.replace(task, **changes))


def read(array: wp.array) -> np.ndarray:
    """A copy on the host: on the CPU `numpy()` alone is a view of what the next plan writes."""
    return array.numpy().copy()
