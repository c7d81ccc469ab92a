"""A robot for the tests: a table on four legs, each with a hip and a knee, and motions of it."""

import mujoco
import numpy as np

from stickslip.mpc.retarget.motion import Motion, exponential
from stickslip.mpc.retarget.problem import Problem, compile_problem
from stickslip.mpc.retarget.robots import Options, Robot
from stickslip.mpc.retarget.settings import Settings, Weights

LEGS = ("fl", "fr", "bl", "br")
JOINTS = tuple(f"{leg}_{part}" for leg in LEGS for part in ("hip", "knee"))
SMALL = Settings(samples=48, horizon=12, dt=0.02, knot_steps=4, control_steps=4, iterations=4, noise=0.1)
HEIGHT = 0.02 + 0.15 * (np.cos(0.4) + np.cos(0.4))


def _leg(name: str, x: float, y: float) -> str:
    return f"""
      <body name="{name}_upper" pos="{x} {y} 0">
        <joint name="{name}_hip" axis="0 1 0" range="-1.5 1.5"/>
        <geom type="capsule" size="0.015" fromto="0 0 0 0 0 -0.15" mass="0.3" contype="0" conaffinity="0"/>
        <body name="{name}_lower" pos="0 0 -0.15">
          <joint name="{name}_knee" axis="0 1 0" range="-2.5 0.1"/>
          <geom type="capsule" size="0.012" fromto="0 0 0 0 0 -0.15" mass="0.2" contype="0" conaffinity="0"/>
          <geom name="{name}_foot" type="sphere" size="0.02" pos="0 0 -0.15" mass="0.05" contype="2" conaffinity="1"/>
          <site name="{name}_foot" pos="0 0 -0.17"/>
        </body>
      </body>"""


def mjcf(thing: bool = False) -> str:
    """The robot, with a ball on the floor if asked."""
    legs = "".join(
        _leg(leg, x, y)
        for leg, (x, y) in zip(LEGS, ((0.2, 0.12), (0.2, -0.12), (-0.2, 0.12), (-0.2, -0.12)), strict=True)
    )
    home = [0, 0, HEIGHT, 1, 0, 0, 0, *([0.4, -0.8] * 4)]
    ball = """
    <body name="ball" pos="0.6 0 0.05">
      <freejoint name="ball"/><geom type="sphere" size="0.05" mass="0.2" contype="2" conaffinity="3"/>
    </body>"""
    key = " ".join(map(str, [*home, *([0.6, 0, 0.05, 1, 0, 0, 0] if thing else [])]))
    servos = "".join(f'<position name="{joint}" joint="{joint}"/>' for joint in JOINTS)
    return f"""
<mujoco>
  <compiler angle="radian"/>
  <option timestep="0.004" integrator="implicitfast"/>
  <default>
    <joint armature="0.01" limited="true"/>
    <geom friction="1"/>
    <position kp="60" kv="2" ctrlrange="-2.5 1.5" forcerange="-20 20"/>
  </default>
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1" contype="1" conaffinity="2"/>
    <body name="table" pos="0 0 {HEIGHT}">
      <freejoint name="base"/>
      <geom type="box" size="0.22 0.1 0.03" mass="3" contype="2" conaffinity="1"/>
      {legs}
    </body>
    {ball if thing else ""}
  </worldbody>
  <actuator>{servos}</actuator>
  <keyframe><key name="home" qpos="{key}"/></keyframe>
</mujoco>"""


def robot(thing: bool = False) -> Robot:
    """The robot."""
    feet = tuple(f"{leg}_foot" for leg in LEGS)
    return Robot(
        "toy",
        "a table on four legs",
        lambda options: mujoco.MjSpec.from_string(mjcf(thing)),
        base="base",
        object="ball" if thing else "",
        feet=feet,
        contacts=feet,
    )


def motion(seconds: float = 0.4, fps: float = 50.0, thing: bool = False) -> Motion:
    """It bends its legs and straightens them again, and turns; feet stay on the floor only roughly."""
    times = np.arange(round(seconds * fps) + 1) / fps
    bend = 0.4 + 0.2 * np.sin(2.0 * np.pi * times / seconds)
    joints = np.stack([bend, -2.0 * bend] * 4, axis=1)
    base = np.zeros((len(times), 7))
    base[:, 2] = 0.02 + 0.3 * np.cos(bend)
    base[:, 3:] = exponential(np.outer(0.1 * times, [0.0, 0.0, 1.0]))
    objects = {"ball": np.tile([0.6, 0.0, 0.05, 1.0, 0.0, 0.0, 0.0], (len(times), 1))} if thing else {}
    contacts = {f"{leg}_foot": np.ones(len(times)) for leg in LEGS}
    return Motion("bend", fps, joints, JOINTS, base, objects, contacts)


def problem(weights: Weights | None = None, thing: bool = False, **options: float) -> Problem:
    """The motion on the robot."""
    return compile_problem(robot(thing), motion(thing=thing, **options), weights, Options(), dt=SMALL.dt)
