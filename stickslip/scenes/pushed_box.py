"""Scene "pushed-box": a box that just touches an endless plane, flat or tilted, to be pushed or turned.

A force F through its middle moves it by (F/m - mu g) t^2 / 2, a torque T about the normal turns it, without friction,
by T t^2 / (2 I), and on a slope it slides g (sin(angle) - mu cos(angle)) t^2 / 2.
"""

from __future__ import annotations

from stickslip.scenes import look, plane
from stickslip.scenes.scene import Parameter, Scene


def _content(angle: float, mu: float, mass: float, half: float) -> str:
    geom = f'<geom name="box" type="box" size="{look.numbers((half, half, half))}" mass="{mass:.9g}" material="coral"'
    return plane.content(angle, mu, "box", half, geom)


SCENE = Scene(
    name="pushed-box",
    summary="a box that just touches an endless plane, flat or tilted, to be pushed or turned",
    content=_content,
    nconmax=8,
    njmax=32,
    parameters=(
        plane.ANGLE,
        plane.MU,
        Parameter("mass", 4.0, 0.001, 1000.0, "mass of the box [kg]"),
        Parameter("half", 0.1, 0.005, 1.0, "half of the box's side [m]"),
    ),
)
