"""Scene "sheath": a sphere that a constant force drives along a plane, a small gap below a second plane.

It cannot rotate. By Coulomb's law it accelerates at force/mass - mu g and never touches the upper plane. Convex contact
models lift what slides, so that the upper plane brakes it too. The planes are endless; of the upper one a pane is
drawn.
"""

from __future__ import annotations

from stickslip.scenes import look
from stickslip.scenes.scene import Parameter, Scene


def _content(mu: float, mass: float, radius: float, gap: float, force: float) -> str:
    top = 2.0 * radius + gap
    pane = 0.1 * radius
    most = 10.0 * max(abs(force), 1.0)
    middle = (7.0 * radius, 0.0, radius)
    return (
        look.statistic(middle, 12.0 * radius)
        + "  <worldbody>\n"
        + look.lights((middle[0], 0.0, 0.0), 20.0 * radius)
        + look.camera((10.0 * radius, -17.0 * radius, 6.0 * radius), middle, 45.0)
        + f"""\
    <geom name="lower" type="plane" size="0 0 0.5" material="floor" friction="{mu:.9g} 0.005 0.0001"/>
    <geom name="upper" type="plane" size="0 0 0.5" pos="0 0 {top:.9g}" quat="0 1 0 0" group="3"
      friction="{mu:.9g} 0.005 0.0001"/>
    <geom name="pane" type="box" size="{look.numbers((10.0 * radius, 2.0 * radius, pane))}"
      pos="{look.numbers((7.0 * radius, 0.0, top + pane))}" rgba="0.5 0.62 0.72 0.3" contype="0" conaffinity="0"/>
    <body name="sphere" pos="0 0 {radius:.9g}">
      <joint name="x" type="slide" axis="1 0 0"/>
      <joint name="y" type="slide" axis="0 1 0"/>
      <joint name="z" type="slide" axis="0 0 1"/>
      <geom name="sphere" type="sphere" size="{radius:.9g}" mass="{mass:.9g}" material="coral"
        friction="{mu:.9g} 0.005 0.0001"/>
    </body>
  </worldbody>
  <actuator><motor name="force" joint="x" ctrlrange="{-most:.9g} {most:.9g}"/></actuator>
  <keyframe><key name="home" ctrl="{force:.9g}"/></keyframe>
"""
    )


SCENE = Scene(
    name="sheath",
    summary="a sphere driven along a plane, a small gap below a second one: convex models lift it and brake on both",
    content=_content,
    nconmax=4,
    njmax=16,
    parameters=(
        Parameter("mu", 0.3, 0.0, 5.0, "coefficient of friction between sphere and planes"),
        Parameter("mass", 0.2, 0.001, 1000.0, "mass of the sphere [kg]"),
        Parameter("radius", 0.05, 0.005, 1.0, "radius of the sphere [m]"),
        Parameter("gap", 0.002, 0.0, 1.0, "distance between sphere and upper plane at the start [m]"),
        Parameter("force", 1.0, -1000.0, 1000.0, "constant force along x [N]"),
    ),
)
