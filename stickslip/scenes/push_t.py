"""Scene "push-t": a T that lies on the floor, and a ball on two servos that can push it about.

The T is 25 cm wide and 20 cm long, of two boxes. The ball moves in the plane at half the height of the T and touches
the T alone.
"""

from __future__ import annotations

from stickslip.scenes import look, plane
from stickslip.scenes.scene import Parameter, Scene

WIDTH, LENGTH, BEAM, HEIGHT = 0.25, 0.20, 0.05, 0.05
"""Of the T: along x, along y, of its bars, and along z [m]."""
RADIUS = 0.02
"""Of the ball [m]."""
FINGER = 0.2
"""Mass of the ball and its drive [kg]."""
KP, KV = 200.0, 12.0
"""Of the servos [N/m], [N s/m]: nearly critical."""


def centre() -> float:
    """How far the centre of mass lies from the middle of the bar, along -y [m]."""
    bar, stem = WIDTH * BEAM, (LENGTH - BEAM) * BEAM
    return stem * 0.5 * LENGTH / (bar + stem)


def corners() -> tuple[tuple[float, float], ...]:
    """Of the T from above, around it, from its centre of mass [m]."""
    half, beam = 0.5 * WIDTH, 0.5 * BEAM
    top, under, foot = centre() + beam, centre() - beam, centre() + beam - LENGTH
    right = ((half, top), (half, under), (beam, under), (beam, foot))
    return (*right, *((-x, y) for x, y in reversed(right)))


def _content(mu: float, mass: float, x: float, y: float) -> str:
    bar, stem = WIDTH * BEAM, (LENGTH - BEAM) * BEAM
    share = bar / (bar + stem)
    half = 0.5 * HEIGHT
    shift = centre()
    parts = (
        ("bar", (0.5 * WIDTH, 0.5 * BEAM, half), (0.0, shift, 0.0), share * mass),
        ("stem", (0.5 * BEAM, 0.5 * (LENGTH - BEAM), half), (0.0, shift - 0.5 * LENGTH, 0.0), (1.0 - share) * mass),
    )
    geoms = "".join(
        f'      <geom name="{name}" type="box" size="{look.numbers(size)}" pos="{look.numbers(at)}" mass="{own:.9g}" '
        f'material="coral" contype="3" conaffinity="3" {plane.friction(mu)}/>\n'
        for name, size, at, own in parts
    )
    return (
        look.statistic((0.0, 0.0, half), 0.6)
        + "  <worldbody>\n"
        + look.lights((0.0, 0.0, 0.0), 1.5)
        + look.camera((0.0, -0.55, 0.75), (0.0, 0.0, 0.0))
        + f"""\
    <geom name="floor" type="plane" size="0 0 0.5" material="floor" contype="1" conaffinity="1" {plane.friction(mu)}/>
    <body name="T" pos="0 0 {half:.9g}">
      <freejoint name="T"/>
{geoms}    </body>
    <body name="finger" pos="0 0 {half:.9g}">
      <joint name="x" type="slide" axis="1 0 0"/>
      <joint name="y" type="slide" axis="0 1 0"/>
      <geom name="finger" type="sphere" size="{RADIUS:.9g}" mass="{FINGER:.9g}" material="slate"
        contype="2" conaffinity="2" {plane.friction(mu)}/>
    </body>
  </worldbody>
  <actuator>
    <position name="x" joint="x" kp="{KP:.9g}" kv="{KV:.9g}" ctrlrange="-1 1"/>
    <position name="y" joint="y" kp="{KP:.9g}" kv="{KV:.9g}" ctrlrange="-1 1"/>
  </actuator>
  <keyframe>
    <key name="home" qpos="0 0 {half:.9g} 1 0 0 0 {x:.9g} {y:.9g}" ctrl="{x:.9g} {y:.9g}"/>
  </keyframe>
"""
    )


SCENE = Scene(
    name="push-t",
    summary="a T on the floor and a ball on two servos that pushes it",
    content=_content,
    nconmax=16,
    njmax=80,
    parameters=(
        plane.MU,
        Parameter("mass", 0.5, 0.001, 1000.0, "mass of the T [kg]"),
        Parameter("x", 0.0, -1.0, 1.0, "where the ball starts [m]"),
        Parameter("y", -0.2, -1.0, 1.0, "where the ball starts [m]"),
    ),
)
