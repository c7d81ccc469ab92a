"""Scene "bouncing-ball": a ball falls straight down on a spring-like floor that takes no energy.

MuJoCo's direct form `solref="-k -b"` sets stiffness and damping for each unit of mass that the contact moves, here the
ball's: k = stiffness / mass, b = 0 is a spring of the given stiffness without a damper, a little softer in the first
millimetre by the default `solimp`. A physics that does not know `solref` bounces by its own rule.
"""

from __future__ import annotations

from stickslip.scenes import look
from stickslip.scenes.scene import Parameter, Scene

RADIUS = 0.05
"""Radius of the ball [m]."""


def _content(height: float, mass: float, stiffness: float) -> str:
    top = height + 2.0 * RADIUS
    middle = (0.0, 0.0, 0.45 * top)
    contact = f'condim="1" solref="{-stiffness / mass:.9g} 0"'
    return (
        look.statistic(middle, 1.2 * top)
        + "  <worldbody>\n"
        + look.lights(middle, 1.5 * top)
        + look.camera((0.9 * top, -1.5 * top, 0.9 * top), middle)
        + f"""\
    <geom name="floor" type="plane" size="0 0 0.5" material="floor" {contact}/>
    <body name="ball" pos="0 0 {height + RADIUS:.9g}">
      <freejoint name="ball"/>
      <geom name="ball" type="sphere" size="{RADIUS}" mass="{mass:.9g}" material="patches" {contact}/>
    </body>
  </worldbody>
  <keyframe><key name="home"/></keyframe>
"""
    )


SCENE = Scene(
    name="bouncing-ball",
    summary="a ball dropped on a floor that is a spring without a damper: energy of an elastic contact",
    content=_content,
    nconmax=4,
    njmax=8,
    parameters=(
        Parameter("height", 1.0, 0.01, 100.0, "height of the ball's lowest point above the floor at the start [m]"),
        Parameter("mass", 0.1, 0.001, 1000.0, "mass of the ball [kg]"),
        Parameter("stiffness", 1000.0, 1.0, 1e8, "stiffness of the contact [N/m]"),
    ),
)
