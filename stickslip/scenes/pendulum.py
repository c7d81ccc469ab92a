"""Scene "pendulum": a ball on a weightless rod, released from rest, without damping and without contact.

The energy m g l (1 - cos(angle)) + I (d angle/dt)^2 / 2 stays what it is, with I = m (l^2 + 2/5 r^2).
"""

from __future__ import annotations

import math

from stickslip.scenes import look
from stickslip.scenes.scene import Parameter, Scene

RADIUS = 0.06
"""Radius of the ball [m]."""


def _content(length: float, mass: float, angle: float) -> str:
    pivot = 1.25 * length + 2.0 * RADIUS
    middle = (0.0, 0.0, 0.6 * pivot)
    return (
        look.statistic(middle, 2.0 * pivot)
        + "  <worldbody>\n"
        + look.lights(middle, 1.5 * pivot)
        + look.camera((0.5 * pivot, -2.3 * pivot, 1.1 * pivot), middle, 45.0)
        + f"""\
    <geom name="ground" type="plane" size="0 0 0.5" material="floor" contype="0" conaffinity="0"/>
    <body name="pendulum" pos="0 0 {pivot:.9g}">
      <joint name="pendulum" type="hinge" axis="0 -1 0"/>
      <geom name="pivot" type="cylinder" size="0.02 0.05" quat="0.70710678 0.70710678 0 0" mass="0" material="slate"
        contype="0" conaffinity="0"/>
      <geom name="rod" type="capsule" size="0.012" fromto="0 0 0 0 0 {-length:.9g}" mass="0" material="stone"
        contype="0" conaffinity="0"/>
      <geom name="ball" type="sphere" size="{RADIUS}" pos="0 0 {-length:.9g}" mass="{mass:.9g}" material="coral"
        contype="0" conaffinity="0"/>
    </body>
  </worldbody>
  <keyframe><key name="home" qpos="{angle:.9g}"/></keyframe>
"""
    )


SCENE = Scene(
    name="pendulum",
    summary="a free pendulum released from rest: energy and period without contact",
    content=_content,
    nconmax=4,
    njmax=8,
    parameters=(
        Parameter("length", 1.0, 0.1, 100.0, "distance from the pivot to the ball's middle [m]"),
        Parameter("mass", 1.0, 0.001, 1000.0, "mass of the ball [kg]"),
        Parameter("angle", 0.5 * math.pi, -3.1, 3.1, "angle from the lowest point at the start [rad]"),
    ),
)
