"""Scene "stack": a tower of equal cubes that touch and rest, so that every motion is the contact's softness or noise.

The cube on top may be of another mass: 100 kg on cubes of 1 kg is hard for every contact solver.
"""

from __future__ import annotations

from stickslip.scenes import look
from stickslip.scenes.scene import Parameter, Scene

_MATERIALS = ("blue", "sand", "teal", "coral", "plum")


def _content(n: int, half: float, mass: float, top: float, mu: float) -> str:
    height = 2.0 * half * n
    middle = (0.0, 0.0, 0.5 * height)
    far = height + 5.0 * half
    world = (
        look.lights(middle, 1.5 * height)
        + look.camera((0.75 * far, -1.35 * far, 0.5 * height + 0.55 * far), (0.0, 0.0, 0.44 * height), 42.0)
        + f'    <geom name="floor" type="plane" size="0 0 0.5" material="floor" friction="{mu:.9g} 0.005 0.0001"/>\n'
    )
    for index in range(n):
        weight = top if index == n - 1 else mass
        world += f"""\
    <body name="box{index}" pos="0 0 {(2 * index + 1) * half:.9g}">
      <freejoint name="box{index}"/>
      <geom name="box{index}" type="box" size="{half:.9g} {half:.9g} {half:.9g}" mass="{weight:.9g}"
        material="{_MATERIALS[index % len(_MATERIALS)]}" friction="{mu:.9g} 0.005 0.0001"/>
    </body>
"""
    return (
        look.statistic(middle, 1.2 * height)
        + "  <worldbody>\n"
        + world
        + "  </worldbody>\n"
        + '  <keyframe><key name="home"/></keyframe>\n'
    )


def _nconmax(n: int, **others: float) -> int:
    # Two cubes that lie flat on one another touch in at most 8 points, turned against each other.
    return 11 * n


def _njmax(n: int, **others: float) -> int:
    # A contact with condim 3 and a pyramidal cone has four rows.
    return 4 * _nconmax(n)


SCENE = Scene(
    name="stack",
    summary="a tower of cubes at rest, one on the other: softness, jitter and mass ratios",
    content=_content,
    nconmax=_nconmax,
    njmax=_njmax,
    parameters=(
        Parameter("n", 5, 3, 10, "number of cubes"),
        Parameter("half", 0.05, 0.005, 1.0, "half of a cube's side [m]"),
        Parameter("mass", 1.0, 0.001, 1000.0, "mass of each cube but the top one [kg]"),
        Parameter("top", 1.0, 0.001, 10000.0, "mass of the top cube [kg]"),
        Parameter("mu", 1.0, 0.0, 5.0, "coefficient of friction"),
    ),
)
