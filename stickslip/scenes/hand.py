"""Scene "hand": a palm-up hand with three fingers and a thumb, 16 hinges, that holds a cube by its fingertips.

Sizes and masses are close to those of the Allegro hand. The grasp was found by solving for the joint angles that put
the fingertips on two opposite faces of the cube, then moving the servo targets inwards by the torque J^T f / kp of the
wanted contact forces f. The cube hangs in the grasp, a little above the palm.
"""

from __future__ import annotations

import math

from stickslip.scenes import look
from stickslip.scenes.scene import Scene

HALF = 0.0325
"""Half of the cube's side [m]."""
PALM = 0.12
"""Height of the upper face of the palm above the floor [m]."""
GAP = 0.006
"""Height of the cube's lower face above the palm at the start [m]."""
CUBE = (0.012, 0.0, PALM + GAP + HALF)
"""Where the cube's middle starts [m]."""

# Geoms collide by class: links touch the cube and the floor; fingertips also touch one another and the palm.
_DEFAULTS = """\
  <default>
    <geom friction="1 0.01 0.0001" condim="4" solref="0.01 1" solimp="0.99 0.999 0.001"/>
    <joint axis="0 -1 0" damping="0.1" armature="0.001" frictionloss="0.005"/>
    <position kp="2" forcerange="-0.7 0.7"/>
    <default class="link">
      <geom type="capsule" contype="1" conaffinity="0" material="slate"/>
    </default>
    <default class="tip">
      <geom type="sphere" size="0.012" contype="5" conaffinity="4" material="coral" mass="0.0096"/>
    </default>
  </default>
"""

# One finger reaches along its x axis and curls up towards z. {f} names it.
_FINGER = """\
      <body name="{f}_base" pos="{pos}" quat="{quat}" childclass="link">
        <joint name="{f}_0" axis="1 0 0" range="-0.57 0.57"/>
        <geom name="{f}_base" size="0.012" fromto="0 -0.006 0 0 0.006 0" mass="0.0119"/>
        <body name="{f}_proximal" pos="0.0164 0 0">
          <joint name="{f}_1" range="-0.3 1.71"/>
          <geom name="{f}_proximal" size="0.0105" fromto="0 0 0 0.054 0 0" mass="0.065"/>
          <body name="{f}_middle" pos="0.054 0 0">
            <joint name="{f}_2" range="-0.27 1.81"/>
            <geom name="{f}_middle" size="0.0102" fromto="0 0 0 0.0384 0 0" mass="0.0355"/>
            <body name="{f}_distal" pos="0.0384 0 0">
              <joint name="{f}_3" range="-0.33 1.72"/>
              <geom name="{f}_distal" size="0.0098" fromto="0 0 0 0.026 0 0" mass="0.0096"/>
              <geom name="{f}_tip" class="tip" pos="0.0307 0 0"/>
              <site name="{f}_tip" pos="0.0307 0 0" size="0.0135" group="4"/>
            </body>
          </body>
        </body>
      </body>
"""

# Where each finger starts in the palm [m], its heading about z, joint angles of the grasp and servo targets [rad].
_FINGERS: dict[str, tuple[tuple[float, float, float], float, tuple[float, ...], tuple[float, ...]]] = {
    "index": ((0.052, 0.042, -0.01), 0.0, (0.2856, 0.6563, 1.6128, 1.0547), (0.2786, 0.7006, 1.6156, 1.0465)),
    "middle": ((0.052, 0.0, -0.01), 0.0, (-0.0, 0.6446, 1.6465, 1.0741), (-0.0, 0.6879, 1.6476, 1.065)),
    "ring": ((0.052, -0.042, -0.01), 0.0, (-0.2856, 0.6563, 1.6128, 1.0547), (-0.2786, 0.7006, 1.6156, 1.0465)),
    "thumb": ((-0.052, 0.0, -0.01), math.pi, (0.0, 1.073, 1.5581, 0.9017), (0.0, 1.1669, 1.5505, 0.8731)),
}


def _content() -> str:
    fingers = ""
    actuators = ""
    sensors = ""
    for name, (pos, heading, _, _) in _FINGERS.items():
        quat = (math.cos(0.5 * heading), 0.0, 0.0, math.sin(0.5 * heading))
        fingers += _FINGER.format(f=name, pos=look.numbers(pos), quat=look.numbers(quat))
        for i, limits in enumerate(("-0.57 0.57", "-0.3 1.71", "-0.27 1.81", "-0.33 1.72")):
            actuators += f'    <position name="{name}_{i}" joint="{name}_{i}" ctrlrange="{limits}"/>\n'
        sensors += f'    <touch name="{name}_touch" site="{name}_tip"/>\n'
    qpos = [angle for _, _, grasp, _ in _FINGERS.values() for angle in grasp] + [*CUBE, 1.0, 0.0, 0.0, 0.0]
    ctrl = [angle for _, _, _, target in _FINGERS.values() for angle in target]
    middle = (0.015, 0.0, 0.115)
    return (
        look.statistic(middle, 0.35)
        + _DEFAULTS
        + "  <worldbody>\n"
        + look.lights(middle, 0.6)
        + look.camera((0.22, -0.34, 0.30), middle)
        + '    <geom name="floor" type="plane" size="0 0 0.5" material="floor" conaffinity="1"/>\n'
        + f"""\
    <body name="palm" pos="0 0 {PALM:g}">
      <geom name="palm" type="box" size="0.0475 0.0565 0.014" pos="0 0 -0.014" mass="0.4154" material="stone"
        contype="1" conaffinity="4"/>
      <geom name="stand" type="cylinder" size="0.03 {0.5 * PALM - 0.012:g}" pos="0 0 {-0.5 * PALM - 0.016:g}"
        material="slate" contype="0" conaffinity="0"/>
{fingers}\
    </body>
    <body name="cube" pos="{look.numbers(CUBE)}">
      <freejoint name="cube"/>
      <geom name="cube" type="box" size="{HALF} {HALF} {HALF}" mass="0.1" material="sand" contype="1" conaffinity="1"/>
    </body>
  </worldbody>
  <actuator>
{actuators}\
  </actuator>
  <sensor>
{sensors}\
    <framepos name="cube_position" objtype="body" objname="cube"/>
    <framequat name="cube_orientation" objtype="body" objname="cube"/>
  </sensor>
  <keyframe><key name="home" qpos="{look.numbers(qpos)}" ctrl="{look.numbers(ctrl)}"/></keyframe>
"""
    )


SCENE = Scene(
    name="hand",
    summary="a palm-up hand with three fingers and a thumb, 16 hinges, that holds a cube by its fingertips",
    content=_content,
    nconmax=32,
    njmax=192,
)
