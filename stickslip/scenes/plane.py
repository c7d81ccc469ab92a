"""A body at rest on an endless plane, flat or tilted: what the scenes "pushed-box" and "bunny" share.

The plane falls along +x. Without friction the contacts have condim 1, because MuJoCo never takes a coefficient below
1e-5, and that already slows a spinning body.
"""

from __future__ import annotations

import math

from stickslip.scenes import look
from stickslip.scenes.scene import Parameter

ANGLE = Parameter("angle", 0.0, 0.0, 1.2, "slope of the plane, which falls along +x [rad]")
MU = Parameter("mu", 0.4, 0.0, 5.0, "coefficient of friction; 0 makes contacts without any")


def friction(mu: float) -> str:
    """Attributes of every geom that shall slide with the coefficient `mu`."""
    return f'friction="{mu:.9g} 0.005 0.0001" condim="{3 if mu > 0 else 1}"'


def content(angle: float, mu: float, name: str, height: float, geom: str, assets: str = "") -> str:
    """The scene of one free body.

    Args:
        angle: slope [rad]
        mu: coefficient of friction
        name: of the body
        height: of the body's frame above the plane [m]
        geom: the body's geom in the body's frame, without friction and end: `<geom type="box" size="..."`
        assets: what stands inside `<asset>`
    """
    sine, cosine = math.sin(angle), math.cos(angle)
    quat = look.numbers((math.cos(0.5 * angle), 0.0, math.sin(0.5 * angle), 0.0))
    position = look.numbers((height * sine, 0.0, height * cosine))
    target = (0.25 * cosine, 0.0, 0.08 - 0.25 * sine)
    return (
        look.statistic((0.0, 0.0, height), 1.0)
        + (f"  <asset>\n{assets}  </asset>\n" if assets else "")
        + "  <worldbody>\n"
        + look.lights((0.0, 0.0, 0.0), 1.5)
        + look.camera((0.75, -1.05, 0.65), target)
        + f"""\
    <geom name="plane" type="plane" size="0 0 0.5" quat="{quat}" material="floor" {friction(mu)}/>
    <body name="{name}" pos="{position}" quat="{quat}">
      <freejoint name="{name}"/>
      {geom} {friction(mu)}/>
    </body>
  </worldbody>
  <keyframe><key name="home"/></keyframe>
"""
    )
