"""Scene "push-cubes": a bar on a slide joint, moved by a position servo, that pushes cubes over the floor.

The cubes stand in rows of five, each turned, so that they meet the bar and one another at corners and edges. Plates at
the ends of the bar keep them before it. The bar does not touch the floor and is smooth, so that it carries none of the
cubes' weight: to push them it takes mu times that. Its servo is critically damped: it follows a moving target with a
lag of 2 / STIFF seconds.
"""

from __future__ import annotations

import math

from stickslip.scenes import look
from stickslip.scenes.scene import Parameter, Scene

HALF = 0.02
"""Half of a cube's side [m]."""
PITCH = 0.08
"""Distance between neighbours [m]; turned cubes leave 23 mm free."""
ROW = 5
"""Cubes in a row across the bar's way."""
BAR = (0.01, 0.35, 0.02)
"""Half sizes of the bar [m]; all cubes side by side find room on it."""
PLATE = 0.06
"""Half of how far the plates at its ends reach forwards [m]."""
START = -0.07
"""Where the bar's centre starts [m]; the first row stands at 0."""
BAR_MASS = 1.0
"""Mass of the bar [kg]."""
STIFF = 100.0
"""Natural frequency of the servo on the bar alone [rad/s]."""
GAIN, DAMPING = BAR_MASS * STIFF**2, 2.0 * BAR_MASS * STIFF
"""Of the servo [N/m] and [N s/m]."""


def _content(n: int, mu: float, mass: float) -> str:
    middle = (0.3, 0.0, 0.0)
    smooth = 'material="slate" contype="2" conaffinity="2" condim="1" priority="1"'
    plate = look.numbers((PLATE, BAR[0], BAR[2]))
    world = (
        look.lights(middle, 1.2)
        + look.camera((0.72, -0.95, 0.85), middle)
        + f'    <geom name="floor" type="plane" size="0 0 0.5" material="floor" friction="{mu:.9g} 0.005 0.0001"/>\n'
        + f"""\
    <body name="bar" pos="{look.numbers((START, 0.0, BAR[2] + 0.002))}">
      <joint name="bar" type="slide" axis="1 0 0"/>
      <geom name="bar" type="box" size="{look.numbers(BAR)}" mass="{BAR_MASS:g}" {smooth}/>
      <geom name="left" type="box" size="{plate}" pos="{look.numbers((PLATE, BAR[1], 0.0))}" mass="0" {smooth}/>
      <geom name="right" type="box" size="{plate}" pos="{look.numbers((PLATE, -BAR[1], 0.0))}" mass="0" {smooth}/>
    </body>
"""
    )
    for index in range(n):
        row, place = divmod(index, ROW)
        side = (place + 1) // 2 * (1 if place % 2 else -1)  # from the middle outwards
        angle = 0.5 * math.pi * math.modf(0.35 + index * 0.754877666)[0]
        quat = (math.cos(0.5 * angle), 0.0, 0.0, math.sin(0.5 * angle))
        world += (
            f'    <body name="cube_{index}" pos="{look.numbers((row * PITCH, side * PITCH, HALF))}"'
            f' quat="{look.numbers(quat)}"><freejoint/><geom name="cube_{index}" type="box" size="{HALF} {HALF} {HALF}"'
            f' mass="{mass:.9g}" material="{("coral", "sand", "teal", "blue", "plum")[place]}"'
            f' friction="{mu:.9g} 0.005 0.0001" contype="3" conaffinity="3"/></body>\n'
        )
    return (
        look.statistic(middle, 1.2)
        + f"  <worldbody>\n{world}  </worldbody>\n"
        + "  <actuator>\n"
        + f'    <position name="bar" joint="bar" kp="{GAIN:g}" kv="{DAMPING:g}" ctrlrange="-100 100"/>\n'
        + "  </actuator>\n"
        + '  <keyframe><key name="home"/></keyframe>\n'
    )


def _nconmax(n: int, mu: float, mass: float) -> int:
    # Four on the floor each, the rest on the bar and between cubes. The most C MuJoCo sees in six random starts:
    # 8, 35 and 63 contacts for 1, 5 and 10 cubes.
    return 8 + 8 * n


def _njmax(n: int, mu: float, mass: float) -> int:
    return 4 * _nconmax(n, mu, mass)


SCENE = Scene(
    name="push-cubes",
    summary="a bar on a position servo that pushes up to ten cubes over the floor",
    content=_content,
    nconmax=_nconmax,
    njmax=_njmax,
    parameters=(
        Parameter("n", 10, 1, 10, "number of cubes"),
        Parameter("mu", 0.5, 0.0, 5.0, "coefficient of friction of floor and cubes"),
        Parameter("mass", 0.1, 0.001, 1000.0, "mass of a cube [kg]"),
    ),
)
