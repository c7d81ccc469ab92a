"""Scene "stiff-arm": an arm of six hinges is led to a pose by controllers as stiff as one likes (CENIC, Fig. 12).

Each hinge has a position servo with kp = kd = `gain`. As the paper's controller does, the arm bears its own weight
(`gravcomp`). So for any gain but the lowest the inertia hardly matters: every hinge nears its target as exp(-t), with a
start that takes some inertia / gain seconds. The motion stays slow as the gain grows, and so should the steps that a
good integrator takes; one that takes the servo's force as it was needs ever shorter ones. MuJoCo's integrator is
`implicitfast` here, without which it diverges. The links touch the floor but not each other.
"""

from __future__ import annotations

from stickslip.scenes import look
from stickslip.scenes.scene import Parameter, Scene

PEDESTAL = 0.3
"""Height of the first hinge above the floor [m]."""
LIMIT = 2.8
"""Every hinge turns so far to either side [rad]."""
# of each link: name, axis of its hinge, where that is on the link before [m], length and radius [m], mass [kg], colour
LINKS = (
    ("base", "0 0 1", PEDESTAL, 0.12, 0.065, 4.0, "slate"),
    ("shoulder", "0 1 0", 0.12, 0.40, 0.055, 6.0, "blue"),
    ("elbow", "0 1 0", 0.40, 0.20, 0.045, 3.0, "teal"),
    ("forearm", "0 0 1", 0.20, 0.16, 0.040, 2.0, "sand"),
    ("wrist", "0 1 0", 0.16, 0.10, 0.035, 1.0, "coral"),
    ("hand", "0 0 1", 0.10, 0.06, 0.030, 0.5, "plum"),
)
START = (-0.8, -0.5, 1.9, 0.0, 0.6, 0.0)
"""Angles of the hinges at the start [rad]."""
TARGET = (0.7, 0.5, 0.8, 0.9, 1.1, -1.0)
"""Angles of the hinges to go to [rad]."""


def _content(gain: float) -> str:
    middle = (0.2, 0.0, 0.5)
    links = end = ""
    for depth, (name, axis, above, length, radius, mass, color) in enumerate(LINKS):
        pad = "  " * (depth + 2)
        links += (
            f'{pad}<body name="{name}" pos="0 0 {above:g}" gravcomp="1">\n'
            f'{pad}  <joint name="{name}" type="hinge" axis="{axis}" range="{-LIMIT} {LIMIT}" armature="0.05"/>\n'
            f'{pad}  <geom name="{name}" type="capsule" size="{radius}" fromto="0 0 0 0 0 {length:g}" mass="{mass:g}"'
            f' material="{color}" contype="0" conaffinity="1"/>\n'
        )
        if depth == len(LINKS) - 1:
            links += (
                f'{pad}  <geom name="tip" type="box" size="0.05 0.015 0.03" pos="0 0 {length + 0.04:g}" mass="0.2"'
                f' material="cream" contype="0" conaffinity="1"/>\n'
            )
        end = f"{pad}</body>\n" + end
    servos = "".join(
        f'    <position name="{name}" joint="{name}" kp="{gain:.9g}" kv="{gain:.9g}" inheritrange="1"/>\n'
        for name, *_ in LINKS
    )
    return (
        look.statistic(middle, 2.0)
        + '  <option integrator="implicitfast"/>\n'
        + "  <worldbody>\n"
        + look.lights(middle, 1.6)
        + look.camera((0.55, -1.75, 1.1), middle)
        + f"""\
    <geom name="floor" type="plane" size="0 0 0.5" material="floor" contype="1" conaffinity="0"/>
    <geom name="pedestal" type="cylinder" size="0.09 {0.5 * PEDESTAL - 0.035:g}" pos="0 0 {0.5 * PEDESTAL - 0.035:g}"
      material="stone" contype="0" conaffinity="0"/>
"""
        + links
        + end
        + "  </worldbody>\n  <actuator>\n"
        + servos
        + "  </actuator>\n"
        + f'  <keyframe><key name="home" qpos="{look.numbers(START)}" ctrl="{look.numbers(TARGET)}"/></keyframe>\n'
    )


SCENE = Scene(
    name="stiff-arm",
    summary="an arm led to a pose by position servos of any gain: stiff control without contact",
    content=_content,
    nconmax=16,
    njmax=64,
    parameters=(Parameter("gain", 1e2, 1.0, 1e7, "kp of the servos [N m/rad], and kd of the same size [N m s/rad]"),),
)
