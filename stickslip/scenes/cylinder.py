"""Scene "cylinder": a cylinder falls askew on a table and comes to lie on its flank (CENIC, Fig. 6 a).

Its rim is sharp: it lands on one point of it, tips, and lies on a line, and the force jumps at each of these. It moves
nearly along its axis, so it slides rather than rolls. The table is rigid, so the contact has the stiffness given.

MuJoCo Warp's search loses some contacts (2 to 12 %, by place) of a cylinder that lies on a box as shallow as here,
0.03 mm, and then it rattles by some mm/s. With `plane=1` the table is an endless plane, where that does not happen.
"""

from __future__ import annotations

import math

from stickslip.scenes import look
from stickslip.scenes.scene import Parameter, Scene

RADIUS = 0.1
"""Radius of the cylinder [m]."""
LENGTH = 0.2
"""Length of the cylinder [m]; of the density of water it has 6.28 kg."""
TILT = math.radians(80.0)
"""Turn of the cylinder's axis about x, from upright [rad]."""
HEIGHT = 0.5
"""Height of the cylinder's middle at the start [m]."""
TABLE = (0.5, 0.5, 0.05)
"""Halves of the table's sides [m]; its middle is the origin."""
DISSIPATION = 50.0
"""Hunt and Crossley's dissipation [s/m]."""


def _content(stiffness: float, mu: float, speed: float, plane: int) -> str:
    middle = (0.0, 0.05, 0.22)
    friction = f"{mu:.9g} 0.005 0.0001"
    table = f'type="plane" pos="0 0 {TABLE[2]}"' if plane else 'type="box"'
    return (
        look.statistic(middle, 1.6)
        + """\
  <size nuser_geom="3"/>
  <custom><numeric name="stiction_velocity" data="1e-4"/></custom>
  <worldbody>
"""
        + look.lights(middle, 1.6)
        + look.camera((1.55, -0.85, 0.9), middle)
        + f"""\
    <geom name="floor" type="plane" size="0 0 0.5" pos="0 0 {-TABLE[2]}" material="floor" friction="{friction}"/>
    <geom name="table" {table} size="{look.numbers(TABLE)}" material="stone" friction="{friction}"/>
    <body name="cylinder" pos="0 0 {HEIGHT}" euler="{TILT:.9g} 0 0">
      <freejoint name="cylinder"/>
      <geom name="cylinder" type="cylinder" size="{RADIUS} {0.5 * LENGTH}" density="1000" material="patches"
        friction="{friction}" user="{stiffness:.9g} {DISSIPATION:g} 0"/>
    </body>
  </worldbody>
  <keyframe><key name="home" qvel="0 {speed:.9g} 0 0 0 0"/></keyframe>
"""
    )


SCENE = Scene(
    name="cylinder",
    summary="a cylinder falls askew on a table: forces that jump at a sharp rim",
    content=_content,
    nconmax=16,
    njmax=64,
    parameters=(
        Parameter("stiffness", 1e6, 1.0, 1e9, "stiffness of the cylinder [N/m]"),
        Parameter("mu", 1.0, 0.0, 5.0, "coefficient of friction"),
        Parameter("speed", 1.0, -3.0, 3.0, "velocity along y at the start [m/s]"),
        Parameter("plane", 0, 0, 1, "0: the table is a box, 1: its top is an endless plane"),
    ),
)
