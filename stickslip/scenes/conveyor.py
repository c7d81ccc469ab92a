"""Scene "conveyor": a block on a belt that swings to and fro sticks and slips by turns (CENIC, Fig. 14).

The belt is a slab on a slide with a spring and so heavy that the block hardly slows it: it moves as
amplitude cos(2 pi t / period), from rest at its turning point. While the belt's acceleration is below `static` times
gravity the block goes with it; above it breaks loose, and brakes or gains speed by `mu` times gravity, until its
velocity is the belt's again. By default the belt's greatest acceleration is 1.13 times gravity, so it does both in each
half of a period; from 1.3 on it slips all the time. A physics that knows one coefficient of friction only takes `mu`.

The belt swings by itself, and what an integrator takes from its energy it loses: compare with its own motion. The block
is flat, so that it rocks little when the belt drags it; rocking moves the contact points and changes what they carry.
"""

from __future__ import annotations

import math

from stickslip.scenes import look
from stickslip.scenes.scene import Parameter, Scene

BELT_MASS = 1000.0
"""Mass of the belt [kg]."""
MASS = 1.0
"""Mass of the block [kg]."""
BLOCK = (0.1, 0.1, 0.02)
"""Halves of the block's sides [m]."""
TOP = 0.1
"""Height of the belt's surface [m]."""
THICKNESS = 0.04
"""Thickness of the belt [m]."""
STIFFNESS = 1e5
"""Stiffness of the block, and of the belt [N/m]."""
DISSIPATION = 50.0
"""Hunt and Crossley's dissipation [s/m]."""
DEPTH = MASS * 9.81 / (4.0 * 0.5 * STIFFNESS)
"""Depth at which the four corners of the block carry it: where it starts [m]."""

# who touches whom: the block the belt and the floor, these two not each other
_FLOOR = 'contype="1" conaffinity="0"'
_BELT = 'contype="2" conaffinity="0"'
_BLOCK = 'contype="0" conaffinity="3"'


def _content(amplitude: float, period: float, static: float, mu: float) -> str:
    half = 0.2 + 2.6 * amplitude  # long enough up to twice gravity
    middle = (0.0, 0.0, TOP)
    far = 0.3 + 2.4 * (half + 0.5 * amplitude)
    surface = f'friction="{mu:.9g} 0.005 0.0001" user="{STIFFNESS:g} {DISSIPATION:g} {static:.9g}"'
    rate = 2.0 * math.pi / period
    lift = TOP - DEPTH + BLOCK[2]
    stripes = "".join(
        f'      <geom type="box" size="0.006 0.2 0.0005" pos="{x:g} 0 {0.5 * THICKNESS:g}" mass="0" material="cream"'
        ' contype="0" conaffinity="0"/>\n'
        for x in (0.15 * k for k in range(-math.floor(half / 0.15), math.floor(half / 0.15) + 1))
    )
    return (
        look.statistic(middle, 2.0 * half)
        + """\
  <size nuser_geom="3"/>
  <option><flag nativeccd="disable"/></option>
  <custom><numeric name="stiction_velocity" data="1e-4"/></custom>
  <worldbody>
"""
        + look.lights(middle, 2.0 * half)
        + look.camera((0.12 * far, -0.8 * far, TOP + 0.5 * far), middle)
        + f"""\
    <geom name="floor" type="plane" size="0 0 0.5" material="floor" {_FLOOR} friction="{mu:.9g} 0.005 0.0001"/>
    <body name="belt" pos="0 0 {TOP - 0.5 * THICKNESS:g}">
      <joint name="belt" type="slide" axis="1 0 0" stiffness="{BELT_MASS * rate * rate:.9g}"/>
      <geom name="belt" type="box" size="{half:.9g} 0.2 {0.5 * THICKNESS:g}" mass="{BELT_MASS:g}" material="slate"
        {_BELT} {surface}/>
{stripes}\
    </body>
    <body name="block" pos="{amplitude:.9g} 0 {lift:.9g}">
      <freejoint name="block"/>
      <geom name="block" type="box" size="{look.numbers(BLOCK)}" mass="{MASS:g}" material="coral" {_BLOCK} {surface}/>
    </body>
  </worldbody>
  <keyframe><key name="home" qpos="{amplitude:.9g} {amplitude:.9g} 0 {lift:.9g} 1 0 0 0"/></keyframe>
"""
    )


SCENE = Scene(
    name="conveyor",
    summary="a block on a belt that swings to and fro: static and dynamic friction, stick and slip",
    content=_content,
    nconmax=16,
    njmax=64,
    parameters=(
        Parameter("amplitude", 0.28, 0.0, 1.0, "the belt swings so far to either side [m]"),
        Parameter("period", 1.0, 0.05, 100.0, "time of one swing of the belt to and fro [s]"),
        Parameter("static", 1.0, 0.0, 5.0, "coefficient of static friction; below `mu` it is `mu`"),
        Parameter("mu", 0.5, 0.0, 5.0, "coefficient of dynamic friction"),
    ),
)
