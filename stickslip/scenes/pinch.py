"""Scene "pinch": a capsule held in the air by friction alone, between two upright pads that press with a given force.

The capsule lies level, its flanks along the pads: each pad touches it at both ends of its straight part. Its four
contacts stand at the height of its middle, so it neither swings nor tips, and all that is left to do is to hold its
weight: m g / (2 mu) is what each pad must press with at the least. The pads run on slides towards each other and touch
it at the start; motors push them with a constant force. The slides are damped, so that the grasp does not wander along
them. The capsule starts at the origin, where single precision tells the slowest creep, and the floor is below.
"""

from __future__ import annotations

from stickslip.scenes import look
from stickslip.scenes.scene import Parameter, Scene

RADIUS = 0.02
"""Radius of the capsule [m]."""
STRAIGHT = 0.03
"""Half of the straight part of the capsule [m]."""
PAD = (0.045, 0.01, 0.08)
"""Halves of a pad's sides [m]; the last one is its height: the capsule starts at the middle of the pads."""
FLOOR = -0.25
"""Height of the floor below the capsule's middle at the start [m]."""


def _content(mass: float, mu: float, force: float) -> str:
    middle = (0.0, 0.0, -0.03)
    friction = f"{mu:.9g} 0.005 0.0001"
    pads = ""
    for name, side in (("left", 1), ("right", -1)):
        pads += f"""\
    <body name="{name}" pos="0 {side * (RADIUS + PAD[1]):.9g} 0">
      <joint name="{name}" type="slide" axis="0 {-side} 0" damping="5"/>
      <geom name="{name}" type="box" size="{look.numbers(PAD)}" mass="0.2" material="slate" friction="{friction}"/>
    </body>
"""
    return (
        look.statistic(middle, 0.4)
        + "  <worldbody>\n"
        + look.lights(middle, 0.6)
        + look.camera((0.42, -0.2, 0.12), middle)
        + f'    <geom name="floor" type="plane" size="0 0 0.5" pos="0 0 {FLOOR:g}" material="floor"/>\n'
        + pads
        + f"""\
    <body name="capsule">
      <freejoint name="capsule"/>
      <geom name="capsule" type="capsule" size="{RADIUS} {STRAIGHT}" quat="0.70710678 0 0.70710678 0" mass="{mass:.9g}"
        material="coral" friction="{friction}"/>
    </body>
  </worldbody>
  <actuator>
    <motor name="left" joint="left" ctrlrange="0 1000"/>
    <motor name="right" joint="right" ctrlrange="0 1000"/>
  </actuator>
  <keyframe><key name="home" ctrl="{force:.9g} {force:.9g}"/></keyframe>
"""
    )


SCENE = Scene(
    name="pinch",
    summary="a capsule held between two pads by friction alone: creep of a grasp",
    content=_content,
    nconmax=12,
    njmax=48,
    parameters=(
        Parameter("mass", 0.3, 0.001, 10.0, "mass of the capsule [kg]"),
        Parameter("mu", 1.0, 0.01, 5.0, "coefficient of friction"),
        Parameter("force", 3.0, 0.0, 1000.0, "force each pad presses with [N]"),
    ),
)
