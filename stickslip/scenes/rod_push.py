"""Scene "rod-push": an upright rod that pushes a box over a plane, along a prescribed way.

The rod cannot turn and slides along x only. It is as heavy as a car and held by a stiff servo, so that it keeps to the
way it is told whatever it pushes: `command` gives the control for a wanted position, speed and acceleration. (A mocap
body would not do: to MuJoCo's contacts its velocity is zero.) It hovers a little, so that it touches the box alone.

For a physics that knows no joints, `mocap=1` makes the rod a body that is moved by hand after all.
"""

from __future__ import annotations

import math
from typing import Any

from stickslip.scenes import look, plane
from stickslip.scenes.scene import Parameter, Scene

RADIUS = 0.03
"""Of the rod [m]."""
LENGTH = 0.4
"""Of the rod [m]."""
HOVER = 0.001
"""Height of the rod's lower end above the plane [m]."""
MASS = 2.0
"""Of the rod [kg]."""
ARMATURE = 2000.0
"""Inertia of the rod's drive [kg]."""
STIFFNESS = 2e6
"""Of the servo [N/m]: the box's friction moves the rod by some 10 um."""
DAMPING = 2.0 * math.sqrt(STIFFNESS * (ARMATURE + MASS))
"""Of the servo [N s/m], critical."""


def command(position: Any, speed: Any, acceleration: Any) -> Any:
    """The control that leads the rod through a position [m] with that speed and acceleration, without lag."""
    return position + (DAMPING * speed + (ARMATURE + MASS) * acceleration) / STIFFNESS


def _content(mu: float, offset: float, distance: float, mass: float, half: float, mocap: int) -> str:
    height = HOVER + 0.5 * LENGTH
    joint = f'<joint name="rod" type="slide" axis="1 0 0" armature="{ARMATURE:.9g}"/>'
    servo = f"""\
  <actuator>
    <position name="rod" joint="rod" kp="{STIFFNESS:.9g}" kv="{DAMPING:.9g}" ctrlrange="-100 100"/>
  </actuator>
"""
    return (
        look.statistic((0.0, 0.0, half), 1.0)
        + "  <worldbody>\n"
        + look.lights((0.0, 0.0, 0.0), 1.5)
        + look.camera((0.85, -1.05, 1.05), (0.25, 0.0, 0.08))
        + f"""\
    <geom name="plane" type="plane" size="0 0 0.5" material="floor" contype="2" conaffinity="2" {plane.friction(mu)}/>
    <body name="box" pos="0 0 {half:.9g}">
      <freejoint name="box"/>
      <geom name="box" type="box" size="{look.numbers((half, half, half))}" mass="{mass:.9g}" material="coral"
        contype="3" conaffinity="3" {plane.friction(mu)}/>
    </body>
    <body name="rod" pos="{look.numbers((-distance, offset, height))}"{' mocap="true"' if mocap else ""}>
      {"" if mocap else joint}
      <geom name="rod" type="cylinder" size="{RADIUS:.9g} {0.5 * LENGTH:.9g}" mass="{MASS:.9g}" material="slate"
        {plane.friction(mu)}/>
    </body>
  </worldbody>
{"" if mocap else servo}  <keyframe><key name="home"/></keyframe>
"""
    )


SCENE = Scene(
    name="rod-push",
    summary="an upright rod on a stiff servo that pushes a box over a plane",
    content=_content,
    nconmax=16,
    njmax=64,
    parameters=(
        plane.MU,
        Parameter("offset", 0.0, -0.2, 0.2, "how far beside the box's middle the rod pushes, along +y [m]"),
        Parameter("distance", 0.16, 0.03, 10.0, "from the rod's axis to the box's middle at the start [m]"),
        Parameter("mass", 4.0, 0.001, 1000.0, "mass of the box [kg]"),
        Parameter("half", 0.1, 0.005, 1.0, "half of the box's side [m]"),
        Parameter("mocap", 0, 0, 1, "1: the rod is moved by hand, without joint and servo"),
    ),
)
