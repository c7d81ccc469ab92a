"""Scene "box-on-slope": a box at rest on an incline; it stays when mu > tan(angle) and slides when not.

Sliding down from rest it covers g (sin(angle) - mu cos(angle)) t^2 / 2. The incline is an endless plane, drawn as a
plank; the floor below is drawn only, so that nothing stops the box.
"""

from __future__ import annotations

import math

from stickslip.scenes import look
from stickslip.scenes.scene import Parameter, Scene


def _content(angle: float, mu: float, mass: float, half: float, overlap: float) -> str:
    sine, cosine = math.sin(angle), math.cos(angle)
    lift = half - overlap
    quat = look.numbers((math.cos(0.5 * angle), 0.0, math.sin(0.5 * angle), 0.0))
    position = look.numbers((lift * sine, 0.0, lift * cosine))
    uphill, downhill, thick = 6.0 * half, 34.0 * half, 0.4 * half
    along = 0.5 * (downhill - uphill)
    plank = (along * cosine - thick * sine, 0.0, -along * sine - thick * cosine)
    floor = -downhill * sine - 2.0 * thick
    target = (8.0 * half * cosine, 0.0, -9.0 * half * sine)
    eye = (target[0] + 6.0 * half, -27.0 * half, target[2] + 12.0 * half)
    return (
        look.statistic((0.0, 0.0, 0.0), 20.0 * half)
        + "  <worldbody>\n"
        + look.lights((0.0, 0.0, 0.0), 20.0 * half)
        + look.camera(eye, target, 45.0)
        + f"""\
    <geom name="ground" type="plane" size="0 0 0.5" pos="0 0 {floor:.7g}" material="floor" contype="0" conaffinity="0"/>
    <geom name="slope" type="plane" size="0 0 1" quat="{quat}" friction="{mu:.9g} 0.005 0.0001" group="3"/>
    <geom name="plank" type="box" size="{look.numbers((0.5 * (uphill + downhill), 5.0 * half, thick))}"
      pos="{look.numbers(plank)}" quat="{quat}" material="slate" contype="0" conaffinity="0"/>
    <body name="box" pos="{position}" quat="{quat}">
      <freejoint name="box"/>
      <geom name="box" type="box" size="{half:.9g} {half:.9g} {half:.9g}" mass="{mass:.9g}" material="coral"
        friction="{mu:.9g} 0.005 0.0001"/>
    </body>
  </worldbody>
  <keyframe><key name="home"/></keyframe>
"""
    )


SCENE = Scene(
    name="box-on-slope",
    summary="a box at rest on an incline: sticks when mu > tan(angle), slides when not",
    content=_content,
    nconmax=8,
    njmax=32,
    parameters=(
        Parameter("angle", 0.25, 0.0, 1.2, "slope of the incline [rad]"),
        Parameter("mu", 0.4, 0.0, 5.0, "coefficient of friction between box and incline"),
        Parameter("mass", 4.0, 0.001, 1000.0, "mass of the box [kg]"),
        Parameter("half", 0.05, 0.005, 1.0, "half of the box's side [m]"),
        Parameter("overlap", 1e-5, 0.0, 0.001, "depth of the box in the incline at the start, to touch at once [m]"),
    ),
)
