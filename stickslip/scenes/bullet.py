"""Scene "bullet": a small body shot straight down at a thin plate, which must stop it.

Contacts are found where the distance is below margin + gap and act where it is below the margin: `gap` shows a physics
what a step would run into, for it to heed or not. Geoms add theirs up; here the bullet has all of it.
"""

from __future__ import annotations

from stickslip.scenes import look
from stickslip.scenes.scene import Parameter, Scene

HEIGHT = 0.3
"""Height of the bullet's lowest point above the plate at the start [m]."""
MASS = 0.03
"""Mass of the bullet [kg], about that of a steel ball of 1 cm radius."""


def _content(speed: float, thickness: float, radius: float, gap: float, flat: int) -> str:
    half = 0.5 * thickness
    low = half if flat else radius
    kind = f'type="box" size="{radius:.9g} {radius:.9g} {half:.9g}"' if flat else f'type="sphere" size="{radius:.9g}"'
    middle = (0.0, 0.0, 0.4 * HEIGHT)
    return (
        look.statistic(middle, 2.0 * HEIGHT)
        + "  <worldbody>\n"
        + look.lights(middle, 3.0 * HEIGHT)
        + look.camera((1.2 * HEIGHT, -2.2 * HEIGHT, 0.9 * HEIGHT), middle)
        + f"""\
    <geom name="plate" type="box" size="0.2 0.2 {half:.9g}" pos="0 0 {-half:.9g}" material="stone"/>
    <body name="bullet" pos="0 0 {HEIGHT + low:.9g}">
      <freejoint name="bullet"/>
      <geom name="bullet" {kind} mass="{MASS:g}" gap="{gap:.9g}" material="coral"/>
    </body>
  </worldbody>
  <keyframe><key name="home" qvel="0 0 {-speed:.9g} 0 0 0"/></keyframe>
"""
    )


SCENE = Scene(
    name="bullet",
    summary="a small ball or plate shot down at a thin plate: fast bodies pass through what a step jumps over",
    content=_content,
    nconmax=16,
    njmax=64,
    parameters=(
        Parameter("speed", 5.0, 0.0, 100.0, "velocity downwards at the start [m/s]"),
        Parameter("thickness", 0.005, 0.0001, 1.0, "of the plate, and of a bullet that is one [m]"),
        Parameter("radius", 0.01, 0.001, 0.1, "of the ball, or half the side of a bullet that is a plate [m]"),
        Parameter("gap", 0.0, 0.0, 10.0, "distance at which contacts are found before they act [m]"),
        Parameter("flat", 0, 0, 1, "0: the bullet is a ball, 1: it is a plate"),
    ),
)
