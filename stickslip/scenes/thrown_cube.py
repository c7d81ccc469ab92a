"""Scene "thrown-cube": a cube thrown over a plane, from any height and with any spin about its way.

From height 0 without spin it slides v^2 / (2 mu g) and never leaves the plane. From above and with spin it falls,
rolls and slides until it rests.
"""

from __future__ import annotations

from stickslip.scenes import look
from stickslip.scenes.scene import Parameter, Scene

GRAVITY = 9.81


def _content(mu: float, mass: float, half: float, height: float, speed: float, spin: float) -> str:
    way = min(abs(speed) * abs(speed) / (2.0 * max(mu, 0.05) * GRAVITY), 2.0)
    reach = 0.5 * (way + height) + 4.0 * half
    middle = (0.5 * way if speed >= 0 else -0.5 * way, 0.0, 0.3 * height + half)
    eye = (middle[0] + 0.5 * reach, -2.6 * reach, middle[2] + 1.2 * reach)
    return (
        look.statistic(middle, 2.0 * reach)
        + "  <worldbody>\n"
        + look.lights((middle[0], 0.0, 0.0), 3.0 * reach)
        + look.camera(eye, middle)
        + f"""\
    <geom name="floor" type="plane" size="0 0 0.5" material="floor" friction="{mu:.9g} 0.005 0.0001"/>
    <body name="cube" pos="0 0 {half + height:.9g}">
      <freejoint name="cube"/>
      <geom name="cube" type="box" size="{half:.9g} {half:.9g} {half:.9g}" mass="{mass:.9g}" material="patches"
        friction="{mu:.9g} 0.005 0.0001"/>
    </body>
  </worldbody>
  <keyframe><key name="home" qvel="{speed:.9g} 0 0 {spin:.9g} 0 0"/></keyframe>
"""
    )


SCENE = Scene(
    name="thrown-cube",
    summary="a cube thrown over a plane from a height and with a spin: free fall, rolling, sliding, rest",
    content=_content,
    nconmax=8,
    njmax=32,
    parameters=(
        Parameter("mu", 0.5, 0.0, 5.0, "coefficient of friction between cube and plane"),
        Parameter("mass", 0.01, 0.001, 1000.0, "mass of the cube [kg]"),
        Parameter("half", 0.05, 0.005, 1.0, "half of the cube's side [m]"),
        Parameter("height", 0.2, 0.0, 10.0, "height of the cube's lower face at the start [m]"),
        Parameter("speed", 1.0, -20.0, 20.0, "velocity along x at the start [m/s]"),
        Parameter("spin", 20.0, -100.0, 100.0, "angular velocity about x at the start [rad/s]"),
    ),
)
