"""Scene "cylinder-roll": a cylinder rolls without slip along x.

Rolling friction brakes it at (rolling / r) * g / (1 + I / (m r^2)) = (2/3) g rolling / r for a solid cylinder.
"""

from __future__ import annotations

from stickslip.scenes import look
from stickslip.scenes.scene import Parameter, Scene

RADIUS = 0.1
"""Radius of the cylinder [m]."""


def _content(rolling: float, speed: float) -> str:
    middle = (0.55, 0.0, 0.05)
    friction = f"1 0.005 {rolling:.9g}"
    quat = "0.70710678 0.70710678 0 0"
    return (
        look.statistic((0.0, 0.0, RADIUS), 1.2)
        + "  <worldbody>\n"
        + look.lights(middle, 1.5)
        + look.camera((1.05, -1.6, 0.85), middle)
        + f"""\
    <geom name="floor" type="plane" size="0 0 0.5" material="floor" condim="6" friction="{friction}"/>
    <body name="cylinder" pos="0 0 {RADIUS - 1e-5:.7g}">
      <freejoint name="cylinder"/>
      <geom name="cylinder" type="cylinder" size="{RADIUS} {RADIUS}" quat="{quat}" mass="1" material="teal"
        condim="6" friction="{friction}"/>
      <geom name="stripe" type="box" size="{0.9 * RADIUS:g} {1.01 * RADIUS:g} 0.012" mass="0" material="cream"
        contype="0" conaffinity="0"/>
    </body>
  </worldbody>
  <keyframe><key name="home" qvel="{speed:.9g} 0 0 0 {speed / RADIUS:.9g} 0"/></keyframe>
"""
    )


SCENE = Scene(
    name="cylinder-roll",
    summary="a cylinder rolling without slip on a plane: rolling friction (condim 6)",
    content=_content,
    nconmax=8,
    njmax=80,
    parameters=(
        Parameter("rolling", 0.001, 0.0, 1.0, "coefficient of rolling friction [m]"),
        Parameter("speed", 1.0, -20.0, 20.0, "velocity at the start [m/s]"),
    ),
)
