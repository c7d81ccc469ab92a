"""Scene "humanoid": a walker of 1.45 m and 39 kg that has every kind of MuJoCo constraint.

Contacts of feet and body, limits of hinges, of a ball joint (neck) and of tendons, dry friction of joints and tendons,
and the equality kinds connect (a four-bar linkage on the back), weld (the backpack), joint (the two halves of the
spine bend together) and tendon (the arms swing against one another).
"""

from __future__ import annotations

from stickslip.scenes import look
from stickslip.scenes.scene import Scene

HEIGHT = 0.773
"""Height of the pelvis when standing [m]."""

_DEFAULTS = """\
  <default>
    <geom density="900" condim="3" friction="0.9 0.005 0.0001" material="cream" solref="0.015 1"/>
    <joint armature="0.02" damping="3" solreflimit="0.015 1"/>
    <site size="0.012" group="4" rgba="0.89 0.53 0.40 0.6"/>
    <position kp="150"/>
    <tendon width="0.006" rgba="0.89 0.53 0.40 1"/>
    <default class="small">
      <joint armature="0.005" damping="0.3"/>
      <geom density="600" material="slate"/>
    </default>
  </default>
"""

# One leg; {s} names the side, {y} is +1 for left and -1 for right. Pitch bends forwards for positive hip angles.
_LEG = """\
        <body name="{s}_thigh" pos="0 {hip_y:g} -0.04">
          <joint name="{s}_hip_yaw" axis="0 0 {y}" range="-0.6 0.6" frictionloss="0.3"/>
          <joint name="{s}_hip_roll" axis="{y} 0 0" range="-0.4 0.7" frictionloss="0.3"/>
          <joint name="{s}_hip_pitch" axis="0 -1 0" range="-0.6 1.9" damping="5" frictionloss="0.5"/>
          <geom name="{s}_thigh" type="capsule" size="0.058" fromto="0 0 -0.02 0 0 -0.29" material="blue"/>
          <body name="{s}_shin" pos="0 0 -0.34">
            <joint name="{s}_knee" axis="0 1 0" range="0 2.4" damping="5" frictionloss="0.5"/>
            <geom name="{s}_knee" type="sphere" size="0.052" material="slate"/>
            <geom name="{s}_shin" type="capsule" size="0.045" fromto="0 0 -0.03 0 0 -0.28"/>
            <site name="{s}_calf" pos="-0.055 0 -0.12"/>
            <body name="{s}_foot" pos="0 0 -0.345">
              <joint name="{s}_ankle_pitch" axis="0 1 0" range="-0.9 0.6" frictionloss="0.2"/>
              <joint name="{s}_ankle_roll" axis="{y} 0 0" range="-0.35 0.35" frictionloss="0.2"/>
              <geom name="{s}_foot" type="box" size="0.105 0.048 0.022" pos="0.035 0 -0.04" material="slate"/>
              <site name="{s}_heel" pos="-0.065 0 -0.03"/>
              <site name="{s}_ankle"/>
              <site name="{s}_sole" type="box" size="0.115 0.058 0.02" pos="0.035 0 -0.055"/>
            </body>
          </body>
        </body>
"""

_ARM = """\
          <body name="{s}_upper_arm" pos="0 {shoulder_y:g} 0.17">
            <joint name="{s}_shoulder_pitch" axis="0 -1 0" range="-1.6 2.6" frictionloss="0.1"/>
            <joint name="{s}_shoulder_roll" axis="{y} 0 0" range="-0.3 1.6" frictionloss="0.1"/>
            <geom name="{s}_upper_arm" type="capsule" size="0.04" fromto="0 {out:g} 0 0 {drop:g} -0.21"
              material="blue"/>
            <body name="{s}_forearm" pos="0 {drop:g} -0.25">
              <joint name="{s}_elbow" axis="0 -1 0" range="-0.3 2.2" damping="2" frictionloss="0.1"/>
              <geom name="{s}_forearm" type="capsule" size="0.033" fromto="0.01 0 -0.01 0.075 0 -0.18"/>
              <geom name="{s}_hand" type="sphere" size="0.042" pos="0.09 0 -0.22" material="slate"/>
            </body>
          </body>
"""

_BODY = """\
    <body name="pelvis" pos="0 0 {height:g}">
      <freejoint name="root"/>
      <geom name="pelvis" type="capsule" size="0.075" fromto="0 -0.065 0 0 0.065 0" material="slate"/>
{legs}\
      <body name="belly" pos="0 0 0.1">
        <joint name="spine_lower" axis="0 1 0" range="-0.3 0.5" damping="5" frictionloss="0.5"/>
        <geom name="belly" type="capsule" size="0.075" fromto="0 -0.05 0.03 0 0.05 0.03"/>
        <body name="chest" pos="0 0 0.1">
          <joint name="spine_upper" axis="0 1 0" range="-0.3 0.5" damping="5" frictionloss="0.5"/>
          <geom name="chest" type="box" size="0.075 0.125 0.095" pos="0 0 0.11" material="blue"/>
          <geom name="collar" type="capsule" size="0.062" fromto="0 -0.1 0.17 0 0.1 0.17" material="blue"/>
          <site name="imu" pos="0 0 0.11"/>
          <body name="head" pos="0 0 0.25">
            <joint name="neck" type="ball" range="0 0.6" damping="1" stiffness="8"/>
            <geom name="neck" type="capsule" size="0.035" fromto="0 0 -0.02 0 0 0.03" material="slate"/>
            <geom name="head" type="sphere" size="0.1" pos="0.01 0 0.13"/>
            <geom name="visor" type="capsule" size="0.035" fromto="0.082 -0.04 0.14 0.082 0.04 0.14" material="slate"
              mass="0.05"/>
          </body>
{arms}\
          <body name="pack" pos="-0.12 0 0.09" childclass="small">
            <joint name="pack" type="slide" axis="1 0 0" range="-0.05 0.05"/>
            <geom name="pack" type="box" size="0.035 0.09 0.09" material="teal"/>
            <body name="crank" pos="-0.05 0 0.06">
              <joint name="crank" axis="0 1 0" range="-0.8 0.8" stiffness="2"/>
              <geom name="crank" type="capsule" size="0.009" fromto="0 0 0 -0.06 0 0"/>
              <body name="coupler" pos="-0.06 0 0">
                <joint name="coupler" axis="0 1 0" range="-1.2 1.2"/>
                <geom name="coupler" type="capsule" size="0.009" fromto="0 0 0 0 0 -0.1" material="coral"/>
              </body>
            </body>
            <body name="rocker" pos="-0.05 0 -0.04">
              <joint name="rocker" axis="0 1 0" range="-0.8 0.8"/>
              <geom name="rocker" type="capsule" size="0.009" fromto="0 0 0 -0.06 0 0"/>
            </body>
          </body>
        </body>
      </body>
    </body>
"""

_TENDONS = """\
    <fixed name="{s}_hamstring" range="-1.2 2.2" frictionloss="0.5">
      <joint joint="{s}_hip_pitch" coef="1"/>
      <joint joint="{s}_knee" coef="-0.5"/>
    </fixed>
    <fixed name="{s}_swing">
      <joint joint="{s}_shoulder_pitch" coef="1"/>
      <joint joint="{s}_elbow" coef="0.3"/>
    </fixed>
    <spatial name="{s}_achilles" range="0.05 0.285" stiffness="100" damping="2" springlength="0 0.255">
      <site site="{s}_calf"/>
      <site site="{s}_heel"/>
    </spatial>
"""

_SIDE_ACTUATORS = """\
    <position name="{s}_hip_yaw" joint="{s}_hip_yaw" ctrlrange="-0.6 0.6"/>
    <position name="{s}_hip_roll" joint="{s}_hip_roll" ctrlrange="-0.4 0.7" kp="300"/>
    <position name="{s}_hip_pitch" joint="{s}_hip_pitch" ctrlrange="-0.6 1.9" kp="500"/>
    <position name="{s}_knee" joint="{s}_knee" ctrlrange="0 2.4" kp="500"/>
    <position name="{s}_ankle_pitch" joint="{s}_ankle_pitch" ctrlrange="-0.9 0.6" kp="500"/>
    <position name="{s}_ankle_roll" joint="{s}_ankle_roll" ctrlrange="-0.35 0.35" kp="150"/>
    <position name="{s}_shoulder_pitch" joint="{s}_shoulder_pitch" ctrlrange="-1.6 2.6" kp="60"/>
    <position name="{s}_shoulder_roll" joint="{s}_shoulder_roll" ctrlrange="-0.3 1.6" kp="60"/>
    <position name="{s}_elbow" joint="{s}_elbow" ctrlrange="-0.3 2.2" kp="40"/>
"""

_SIDE_SENSORS = """\
    <touch name="{s}_foot_touch" site="{s}_sole"/>
    <force name="{s}_foot_force" site="{s}_ankle"/>
"""

_REST = """\
  <contact>
    <exclude body1="pelvis" body2="chest"/>
    <exclude body1="chest" body2="coupler"/>
    <exclude body1="chest" body2="rocker"/>
    <exclude body1="chest" body2="crank"/>
    <exclude body1="pack" body2="coupler"/>
    <exclude body1="pack" body2="belly"/>
    <exclude body1="coupler" body2="rocker"/>
    <exclude body1="crank" body2="rocker"/>
    <exclude body1="belly" body2="left_thigh"/>
    <exclude body1="belly" body2="right_thigh"/>
  </contact>
  <equality>
    <connect name="linkage" body1="coupler" body2="rocker" anchor="0 0 -0.1"/>
    <weld name="straps" body1="pack" body2="chest" solref="0.015 1"/>
    <joint name="spine" joint1="spine_upper" joint2="spine_lower" polycoef="0 1 0 0 0"/>
    <tendon name="swing" tendon1="left_swing" tendon2="right_swing" polycoef="0 -1 0 0 0"/>
  </equality>
"""

# Hips and knees bent a little, so that the feet stand flat under the weight: hip + ankle - knee = 0.
_HIP, _KNEE, _ANKLE = 0.175, 0.4, -0.225
_LEG_HOME = (0.0, 0.0, _HIP, _KNEE, _ANKLE, 0.0)
_ARM_HOME = (0.0, 0.06, 0.0)


def _content() -> str:
    sides = (("left", 1), ("right", -1))
    legs = "".join(_LEG.format(s=s, y=y, hip_y=0.085 * y) for s, y in sides)
    arms = "".join(_ARM.format(s=s, y=y, shoulder_y=0.19 * y, out=0.01 * y, drop=0.025 * y) for s, y in sides)
    target = (0.0, 0.0, 0.66)

    # In the order of the joints: root, legs, spine, neck, arms, pack and linkage.
    qpos = (0.0, 0.0, HEIGHT, 1.0, 0.0, 0.0, 0.0, *_LEG_HOME, *_LEG_HOME, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
    qpos += (*_ARM_HOME, *_ARM_HOME, 0.0, 0.0, 0.0, 0.0)
    ctrl = (0.0, *_LEG_HOME, *_ARM_HOME, *_LEG_HOME, *_ARM_HOME)
    return (
        look.statistic(target, 2.0)
        + _DEFAULTS
        + "  <worldbody>\n"
        + look.lights(target, 4.0)
        + look.camera((1.75, -1.9, 1.35), (0.05, -0.02, 0.68))
        + look.FLOOR
        + _BODY.format(height=HEIGHT, legs=legs, arms=arms)
        + "  </worldbody>\n"
        + "  <tendon>\n"
        + "".join(_TENDONS.format(s=s) for s, _ in sides)
        + "  </tendon>\n"
        + _REST
        + "  <actuator>\n"
        + '    <position name="spine" joint="spine_lower" ctrlrange="-0.3 0.5" kp="600"/>\n'
        + "".join(_SIDE_ACTUATORS.format(s=s) for s, _ in sides)
        + "  </actuator>\n"
        + "  <sensor>\n"
        + '    <accelerometer name="accelerometer" site="imu"/>\n'
        + '    <gyro name="gyro" site="imu"/>\n'
        + "".join(_SIDE_SENSORS.format(s=s) for s, _ in sides)
        + "  </sensor>\n"
        + f'  <keyframe><key name="home" qpos="{look.numbers(qpos)}" ctrl="{look.numbers(ctrl)}"/></keyframe>\n'
    )


SCENE = Scene(
    name="humanoid",
    summary="a 39 kg walker with limits, tendons, dry friction and all four kinds of equality constraints",
    content=_content,
    nconmax=48,
    njmax=192,
)
