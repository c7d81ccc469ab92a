"""Scene "sliding-cube": a cube thrown flat over a plane, which lands, slides and comes to rest."""

from __future__ import annotations

from stickslip.scenes import look
from stickslip.scenes.scene import Parameter, Scene

HALF = 0.05
"""Half of the cube's side [m]."""
GAP = 0.005
"""Height of the cube's lower face above the plane at the start [m]."""


def _content(mu: float) -> str:
    middle = (0.38, 0.0, 0.0)
    return (
        look.statistic((0.3, 0.0, HALF), 1.0)
        + "  <worldbody>\n"
        + look.lights(middle, 1.5)
        + look.camera((0.62, -1.15, 0.68), middle)
        + f"""\
    <geom name="floor" type="plane" size="0 0 0.5" material="floor" friction="{mu:.9g} 0.005 0.0001"/>
    <body name="cube" pos="0 0 {HALF + GAP:.7g}">
      <freejoint name="cube"/>
      <geom name="cube" type="box" size="{HALF} {HALF} {HALF}" mass="1" material="coral"
        friction="{mu:.9g} 0.005 0.0001"/>
    </body>
  </worldbody>
  <keyframe><key name="home" qvel="2 0 0 0.1 0.1 0.1"/></keyframe>
"""
    )


SCENE = Scene(
    name="sliding-cube",
    summary="a cube thrown flat over a plane at 2 m/s: impact, sliding, rest",
    content=_content,
    nconmax=8,
    njmax=32,
    parameters=(Parameter("mu", 0.3, 0.0, 5.0, "coefficient of friction between cube and plane"),),
)
