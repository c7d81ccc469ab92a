"""Scene "gripper": a peg wedged between two fixed fingers keeps its place as the gripper falls on the floor (CENIC,
Fig. 6 b).

Nothing presses but the fit: the peg is 0.02 mm wider than the gap, so each finger squeezes it by 0.01 mm. It stands
upright between fingers that stick out of a post, and touches each at the four corners of a square of 10 mm. The post
runs on an upright slide without a motor, and lands flat.

Peg and fingers in series have half of `stiffness` k at each corner, which gives each finger four times k / 2 times
0.01 mm: 200 N with the default. The two hold up to 2 mu of that, 400 N, and the peg weighs 0.08 N; but at the impact of
a fall from 0.1 m it takes 260 N to stop it with the post. The grip grows with k, the impact with its square root:
a stiffer gripper holds by a larger margin; with 1e6 N/m it slips, if the impact is resolved. The paper has a contact
patch (hydroelastic) in place of the corners. MuJoCo's own contact does not know `user`, and there the peg creeps out by
5 mm/s. MuJoCo Warp's `nativeccd` loses contacts of boxes that overlap so little: it is off here.
"""

from __future__ import annotations

from stickslip.scenes import look
from stickslip.scenes.scene import Parameter, Scene

SQUEEZE = 1e-5
"""Depth of the peg in each finger [m]."""
GAP = 0.01
"""Distance between the fingers [m]."""
PEG = (0.005, 0.5 * GAP + SQUEEZE, 0.04)
"""Halves of the peg's sides [m]."""
FINGER = (0.04, 0.005, 0.005)
"""Halves of a finger's sides [m]."""
POST = (0.02, 0.02, 0.1)
"""Halves of the post's sides [m]."""
REACH = 0.14
"""Height of the fingers' middle above the bottom of the post [m]."""
DISSIPATION = 10.0
"""Hunt and Crossley's dissipation [s/m]."""

# who touches whom: the floor all, the fingers the peg
_FLOOR = 'contype="1" conaffinity="0"'
_POST = 'contype="0" conaffinity="1"'
_FINGER = 'contype="2" conaffinity="1"'
_PEG = 'contype="0" conaffinity="3"'


def _content(stiffness: float, height: float, mu: float, stiction: float) -> str:
    top = height + 2.0 * POST[2]
    middle = (POST[0], 0.0, 0.5 * top)
    far = 0.12 + top
    surface = f'friction="{mu:.9g} 0.005 0.0001" user="{stiffness:.9g} {DISSIPATION:g} 0"'
    out = POST[0] + FINGER[0]
    fingers = "".join(
        f'      <geom name="{name}" type="box" size="{look.numbers(FINGER)}" material="teal" {_FINGER} {surface}'
        f' pos="{look.numbers((out, side * (0.5 * GAP + FINGER[1]), REACH))}"/>\n'
        for name, side in (("left", 1), ("right", -1))
    )
    return (
        look.statistic(middle, 2.0 * top)
        + f"""\
  <size nuser_geom="3"/>
  <option><flag nativeccd="disable"/></option>
  <custom><numeric name="stiction_velocity" data="{stiction:.9g}"/></custom>
  <default><geom density="1000"/></default>
  <worldbody>
"""
        + look.lights(middle, 2.0 * top)
        + look.camera((0.6 * far, -0.9 * far, middle[2] + 0.45 * far), middle)
        + f"""\
    <geom name="floor" type="plane" size="0 0 0.5" material="floor" {_FLOOR} friction="{mu:.9g} 0.005 0.0001"/>
    <body name="gripper" pos="0 0 {height:.9g}">
      <joint name="gripper" type="slide" axis="0 0 1"/>
      <geom name="post" type="box" size="{look.numbers(POST)}" pos="0 0 {POST[2]}" material="slate" {_POST} {surface}/>
{fingers}\
    </body>
    <body name="peg" pos="{look.numbers((out, 0.0, height + REACH))}">
      <freejoint name="peg"/>
      <geom name="peg" type="box" size="{look.numbers(PEG)}" material="coral" {_PEG} {surface}/>
    </body>
  </worldbody>
  <keyframe><key name="home"/></keyframe>
"""
    )


SCENE = Scene(
    name="gripper",
    summary="a peg wedged between two fingers, held by friction while the gripper falls on the floor",
    content=_content,
    nconmax=32,
    njmax=128,
    parameters=(
        Parameter("stiffness", 1e7, 1.0, 1e9, "stiffness of peg, fingers and post [N/m]"),
        Parameter("height", 0.1, 0.0, 1.0, "height of the post above the floor at the start [m]"),
        Parameter("mu", 1.0, 0.0, 5.0, "coefficient of friction"),
        Parameter("stiction", 1e-4, 1e-9, 0.1, "velocity below which contacts stick [m/s]"),
    ),
)
