"""Scene "sphere-spin": a sphere spins about the vertical while its weight presses it on a plane.

Torsional friction brakes it at torsion * m * g / I, with I = 2/5 m r^2, until it stands still.
"""

from __future__ import annotations

from stickslip.scenes import look
from stickslip.scenes.scene import Parameter, Scene

RADIUS = 0.1
"""Radius of the sphere [m]."""


def _content(torsion: float, spin: float) -> str:
    middle = (0.0, 0.0, 0.8 * RADIUS)
    friction = f"1 {torsion:.9g} 0.0001"
    return (
        look.statistic(middle, 6.0 * RADIUS)
        + "  <worldbody>\n"
        + look.lights(middle, 8.0 * RADIUS)
        + look.camera((0.28, -0.52, 0.34), middle)
        + f"""\
    <geom name="floor" type="plane" size="0 0 0.5" material="floor" condim="4" friction="{friction}"/>
    <body name="sphere" pos="0 0 {RADIUS - 1e-5:.7g}">
      <joint name="height" type="slide" axis="0 0 1"/>
      <joint name="spin" type="hinge" axis="0 0 1"/>
      <geom name="sphere" type="sphere" size="{RADIUS}" mass="1" material="patches" condim="4" friction="{friction}"/>
    </body>
  </worldbody>
  <keyframe><key name="home" qvel="0 {spin:.9g}"/></keyframe>
"""
    )


SCENE = Scene(
    name="sphere-spin",
    summary="a sphere pressed on a plane, spinning about the vertical: torsional friction (condim 4)",
    content=_content,
    nconmax=4,
    njmax=24,
    parameters=(
        Parameter("torsion", 0.005, 0.0, 1.0, "coefficient of torsional friction [m]"),
        Parameter("spin", 10.0, -100.0, 100.0, "angular velocity at the start [rad/s]"),
    ),
)
