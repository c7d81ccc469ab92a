"""Small MJCF models that together reach every branch of a ComFree step.

Each model carries its initial states as keyframes. Contacts and limits start violated by about a millimetre to a
centimetre, so that single precision leaves their forces enough digits to be compared.
"""

import dataclasses
import functools

import mujoco
import numpy as np

from tests.reference import comfree


@dataclasses.dataclass(frozen=True)
class Case:
    """One test model.

    Attributes:
        name: name.
        xml: MJCF, with at least one keyframe.
        covers: what the model is for; `test_reference.py` checks that the claims are true.
        same_contacts: whether two narrow phases must agree on number and distance of contacts. False where the
            manifold is not unique (box against box, a flat side on a flat side) or found by iteration.
        settle: number of steps after which the model is taken to be at rest.
    """

    name: str
    xml: str
    covers: frozenset[str]
    same_contacts: bool = True
    settle: int = 150


def _case(name: str, covers: str, xml: str, *, same_contacts: bool = True, settle: int = 150) -> Case:
    return Case(
        name,
        f'<mujoco model="{name}"><size memory="1M"/>{xml}</mujoco>',
        frozenset(covers.split()),
        same_contacts,
        settle,
    )


_CASES = [
    _case(
        "sphere_frictionless",
        "condim1 free sphere plane euler",
        """
        <option timestep="0.002"/>
        <worldbody>
          <geom type="plane" size="5 5 0.1" condim="1"/>
          <body pos="0 0 0.099"><freejoint/><geom type="sphere" size="0.1" mass="0.5" condim="1"/></body>
        </worldbody>
        <keyframe>
          <key qpos="0 0 0.099 1 0 0 0" qvel="0.3 0 -0.4 0 2 0"/>
          <key qpos="0.2 0.1 0.2 1 0 0 0" qvel="0 0 0 0 0 0"/>
        </keyframe>
        """,
    ),
    _case(
        "box_slope",
        "condim3 free box plane euler solimp",
        """
        <option timestep="0.002"/>
        <worldbody>
          <geom type="plane" size="5 5 0.1" euler="0 14 0" friction="0.4 0.005 0.0001"/>
          <body euler="0 14 0">
            <freejoint/><geom type="box" size="0.1 0.08 0.05" mass="4" friction="0.4 0.005 0.0001"
            solimp="0.8 0.97 0.003 0.3 3"/>
          </body>
        </worldbody>
        <keyframe>
          <key qpos="0.012 0 0.0475 0.99255 0 0.12187 0" qvel="0.2 0.1 -0.05 0.3 -0.2 0.1"/>
          <key qpos="0.012 0 0.0495 0.98 0.05 0.12 0.1" qvel="-0.5 0.1 -0.5 2 -1 1"/>
        </keyframe>
        """,
    ),
    _case(
        "spin_torsion",
        "condim4 free slide hinge sphere ellipsoid plane euler",
        """
        <option timestep="0.002"/>
        <worldbody>
          <geom type="plane" size="5 5 0.1" condim="4" friction="0.8 0.02 0.0001"/>
          <body pos="0 0 0.098">
            <joint type="slide" axis="0 0 1"/><joint type="hinge" axis="0 0 1"/>
            <geom type="sphere" size="0.1" mass="1" condim="4" friction="0.8 0.02 0.0001"/>
          </body>
          <body pos="0.5 0 0.058">
            <freejoint/><geom type="ellipsoid" size="0.12 0.1 0.06" mass="0.7" condim="4" friction="0.5 0.03 0.001"/>
          </body>
        </worldbody>
        <keyframe>
          <key qpos="0 0 0.5 0 0.058 1 0 0 0" qvel="-0.1 5 0.4 -0.3 -0.1 0.2 0.1 4"/>
          <key qpos="-0.001 1 0.5 0 0.06 0.98 0.1 0.1 0" qvel="0 -3 0 0.3 -0.5 1 2 -3"/>
        </keyframe>
        """,
    ),
    _case(
        "rolling",
        "condim6 free cylinder capsule sphere plane euler elliptic",
        """
        <option timestep="0.001" cone="elliptic"/>
        <default><geom condim="6" friction="0.7 0.01 0.004"/></default>
        <worldbody>
          <geom type="plane" size="5 5 0.1"/>
          <body pos="0 0 0.1"><freejoint/><geom type="cylinder" size="0.1 0.15" mass="1"/></body>
          <body pos="0.6 0 0.05"><freejoint/><geom type="capsule" size="0.05 0.1" mass="0.4"/></body>
          <body pos="-0.6 0 0.05"><freejoint/><geom type="sphere" size="0.05" mass="0.2"/></body>
        </worldbody>
        <keyframe>
          <key qpos="0 0 0.098 0.7071068 0.7071068 0 0  0.6 0 0.049 0.7071068 0.7071068 0 0  -0.6 0 0.0485 1 0 0 0"
               qvel="0.5 0 -0.1 0.1 0.3 5  -0.4 0.1 -0.1 0.2 0.1 6  0.3 0.2 -0.05 3 -4 5"/>
          <key qpos="0 0 0.1 0.72 0.68 0.05 0.05  0.6 0 0.05 0.7 0.72 0.02 -0.03  -0.6 0 0.049 0.9 0.1 0 0.3"
               qvel="-0.5 0.2 -0.3 1.1 0.3 -5  0.4 0.1 -0.1 0.2 1.1 -6  0.3 -0.2 -0.05 3 4 -5"/>
        </keyframe>
        """,
    ),
    _case(
        "pile",
        "condim3 condim4 condim6 free box capsule sphere plane euler trees priority",
        """
        <option timestep="0.002"/>
        <worldbody>
          <geom type="plane" size="5 5 0.1" friction="0.9 0.01 0.001"/>
          <body name="base"><freejoint/><geom type="box" size="0.2 0.2 0.05" mass="3" friction="0.5 0.01 0.001"
            solmix="2" solimp="0.85 0.95 0.002 0.4 2"/></body>
          <body><freejoint/><geom type="sphere" size="0.06" mass="0.5" condim="4" friction="0.8 0.03 0.001"/></body>
          <body><freejoint/><geom type="capsule" size="0.04 0.08" mass="0.3" condim="6" friction="0.6 0.02 0.002"
            priority="1"/></body>
        </worldbody>
        <keyframe>
          <key qpos="0 0 0.048 1 0 0 0  0.1 0.05 0.1555 1 0 0 0  0.015 0.05 0.1365 0.7071068 0.7071068 0 0"
               qvel="0.1 0 -0.1 0 0.1 0  0.3 0.1 -0.3 2 1 -1  0.1 0.4 -0.2 1 -2 3"/>
          <key qpos="0 0 0.049 0.999 0.01 0.005 0.02  0.1 -0.05 0.156 0.8 0 0.6 0  0.005 -0.05 0.139 0.6 0.78 0.1 0"
               qvel="0.5 0.2 -0.1 0.3 -0.1 0.2  -0.3 -0.1 0.3 2 -1 1  0.3 -0.4 -0.2 1 2 -3"/>
        </keyframe>
        """,
    ),
    _case(
        "pair_margin_gap",
        "condim3 condim6 free slide sphere box plane euler pair margin gap trees",
        """
        <option timestep="0.004"/>
        <worldbody>
          <geom name="floor" type="plane" size="5 5 0.1" margin="0.004"/>
          <body pos="0 0 0.1"><freejoint/><geom name="a" type="sphere" size="0.1" mass="1" margin="0.003" gap="0.02"/>
          </body>
          <body pos="0.19 0 0.1"><freejoint/><geom name="b" type="sphere" size="0.08" mass="0.6" gap="0.01"/></body>
          <body pos="-0.3 0 0.1"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/>
            <geom name="c" type="box" size="0.1 0.1 0.1" mass="2"/></body>
        </worldbody>
        <contact>
          <pair geom1="a" geom2="b" condim="6" friction="0.9 0.3 0.05 0.01 0.002" solimp="0.7 0.99 0.01 0.6 4"
                margin="0.01" gap="0.005"/>
          <pair geom1="a" geom2="c" condim="3" friction="0.2 1.1 0 0 0" solimp="0.9 0.9 0.001 0.5 2"/>
          <pair geom1="floor" geom2="b" condim="1"/>
        </contact>
        <keyframe>
          <key qpos="0 0 0.104 1 0 0 0  0.182 0.01 0.088 1 0 0 0  0.098 0.001"
               qvel="0.2 0.1 -0.1 1 2 3  -0.3 0.1 0.1 -2 1 2  0.2 -0.1"/>
          <key qpos="0 0 0.115 0.9 0.1 0.2 0.1  0.175 -0.03 0.078 1 0 0 0  0.103 -0.002"
               qvel="0.2 -0.1 -0.1 1 -2 3  -0.3 0.1 -0.1 -2 1 -2  0.2 0.1"/>
        </keyframe>
        """,
    ),
    _case(
        "arm",
        "condim3 hinge capsule sphere plane euler damping dampingpoly limit_hinge dry_joint spring same_tree armature",
        """
        <option timestep="0.002"/>
        <default><joint damping="0.3" armature="0.01"/><geom mass="0.5"/></default>
        <worldbody>
          <geom type="plane" size="5 5 0.1" pos="0 0 -0.02"/>
          <body pos="0 0 0.3">
            <joint axis="0 1 0" range="-40 80" limited="true" frictionloss="0.4"/>
            <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.04"/>
            <body pos="0.3 0 0">
              <joint axis="0 1 0" range="-30 170" limited="true" stiffness="3" springref="20" damping="0.5 0.1 0.02"/>
              <geom type="capsule" fromto="0 0 0 0.25 0 0" size="0.03"/>
              <body pos="0.25 0 0">
                <joint axis="0 1 0" frictionloss="0.1" margin="0.02" range="-150 160" limited="true"/>
                <joint axis="0 0 1" range="-20 20" limited="true" solimplimit="0.7 0.95 0.05 0.5 2"/>
                <geom type="capsule" fromto="0 0 0 0.15 0 0" size="0.025"/>
                <geom type="sphere" pos="0.15 0 0" size="0.05"/>
              </body>
            </body>
          </body>
        </worldbody>
        <keyframe>
          <key qpos="-0.75 2.5 0.97 0.38" qvel="-0.5 1 0.3 0.4"/>
          <key qpos="1.284 1.811 0.704 -0.228" qvel="1 -0.5 0.2 -3"/>
          <key qpos="-0.351 2.21 2.014 -0.256" qvel="0.3 0.2 1 0.5"/>
          <key qpos="0.3 -0.55 2.82 0.1" qvel="0 -0.4 2 0.02"/>
        </keyframe>
        """,
    ),
    _case(
        "finger_servo",
        "condim4 hinge free capsule box sphere plane implicitfast position velocity activation trees limit_hinge",
        """
        <option timestep="0.002" integrator="implicitfast"/>
        <default><joint damping="0.05" armature="0.002"/></default>
        <worldbody>
          <geom type="plane" size="5 5 0.1"/>
          <body name="cube" pos="0 0 0.05"><freejoint/>
            <geom type="box" size="0.05 0.05 0.05" mass="0.3" condim="4" friction="0.7 0.01 0.0001"/></body>
          <body pos="-0.2 0 0.16">
            <joint name="j0" axis="0 1 0" range="-60 60" limited="true"/>
            <geom type="capsule" fromto="0 0 0 0.12 0 0" size="0.015" mass="0.1"/>
            <body pos="0.12 0 0">
              <joint name="j1" axis="0 1 0" range="-20 80" limited="true"/>
              <geom type="capsule" fromto="0 0 0 0.08 0 0" size="0.012" mass="0.05"/>
              <body pos="0.08 0 0">
                <joint name="j2" axis="0 0 1"/>
                <geom type="sphere" pos="0.02 0 0" size="0.02" mass="0.03" friction="1.2 0.01 0.0001"/>
              </body>
            </body>
          </body>
        </worldbody>
        <actuator>
          <position joint="j0" kp="4" kv="0.2"/>
          <velocity joint="j1" kv="0.4"/>
          <position joint="j2" kp="2" kv="0.1" timeconst="0.02"/>
          <general joint="j1" dyntype="integrator" gainprm="1.5" actlimited="true" actrange="-1 1"/>
        </actuator>
        <keyframe>
          <key qpos="0 0 0.049 1 0 0 0  -0.089 1.459 -0.221" qvel="0.1 0 -0.05 0.2 0.1 -0.3  0.5 0.4 1"
               ctrl="0.4 1 0.2 0.5" act="0.1 0.3"/>
          <key qpos="0 0 0.0495 0.998 0.02 0 0.05  0.204 0.057 0.982" qvel="0 0 0 0 0 0  0.1 -1 -2"
               ctrl="-0.2 3 -0.2 -2" act="-0.3 0.99"/>
        </keyframe>
        """,
        same_contacts=False,
    ),
    _case(
        "ball_chain",
        "condim3 ball capsule sphere plane euler limit_ball damping dry_joint",
        """
        <option timestep="0.002"/>
        <worldbody>
          <geom type="plane" size="5 5 0.1"/>
          <body pos="0 0 0.5">
            <joint type="ball" range="0 50" limited="true" damping="0.02" frictionloss="0.03"/>
            <geom type="capsule" fromto="0 0 0 0 0 -0.25" size="0.03" mass="0.4"/>
            <body pos="0 0 -0.25">
              <joint type="ball" range="0 35" limited="true" damping="0.02" margin="0.01"/>
              <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.03" mass="0.3"/>
              <geom type="sphere" pos="0 0 -0.2" size="0.055" mass="0.2"/>
            </body>
          </body>
        </worldbody>
        <keyframe>
          <key qpos="1 0 0 0  1 0 0 0" qvel="1 0.5 2 -1 0.3 0.4"/>
          <key qpos="0.88 0.35 0.28 0.1  0.93 -0.3 0.2 0.05" qvel="1 -0.5 2 -1 0.6 1"/>
        </keyframe>
        """,
    ),
    _case(
        "gantry",
        "condim3 slide hinge box sphere capsule plane euler limit_slide damping dry_joint gravcomp motor same_tree",
        """
        <option timestep="0.005"/>
        <worldbody>
          <geom type="plane" size="5 5 0.1"/>
          <body pos="0 0 0.4">
            <joint name="x" type="slide" axis="1 0 0" range="-0.1 0.1" limited="true" damping="4" frictionloss="1.5"/>
            <geom type="box" size="0.05 0.05 0.02" mass="1"/>
            <body pos="0 0 -0.1">
              <joint name="z" type="slide" axis="0 0 1" range="-0.3 0.05" limited="true" margin="0.005" damping="2"/>
              <geom type="sphere" size="0.04" mass="0.5"/>
              <body pos="0.02 0 -0.1" gravcomp="1">
                <joint axis="1 0 0" damping="0.01"/>
                <geom type="capsule" fromto="-0.05 0 0 0.05 0 -0.05" size="0.03" mass="0.2"/>
                <geom type="sphere" pos="0 0 0.13" size="0.05" mass="0.1"/>
              </body>
            </body>
          </body>
        </worldbody>
        <actuator><motor joint="x" gear="10"/><motor joint="z" gear="5" ctrllimited="true" ctrlrange="-1 1"/></actuator>
        <keyframe>
          <key qpos="0.105 -0.128 0.097" qvel="0.5 -0.3 1" ctrl="0.5 0.2"/>
          <key qpos="-0.106 0.06 0.726" qvel="-0.2 0.1 -2" ctrl="-1 3"/>
        </keyframe>
        """,
        same_contacts=False,
    ),
    _case(
        "tendons",
        "condim3 hinge sphere capsule implicitfast limit_tendon_fixed limit_tendon_spatial dry_tendon tendon_spring"
        " tendon_actuator",
        """
        <option timestep="0.002" integrator="implicitfast"/>
        <worldbody>
          <site name="anchor" pos="0 0 0.9"/>
          <geom name="pulley" type="sphere" size="0.04" pos="0.12 0 0.72" contype="0" conaffinity="0"/>
          <site name="side" pos="0.12 0 0.8"/>
          <body pos="0 0 0.6">
            <joint name="a" axis="0 1 0" damping="0.02"/>
            <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03" mass="0.5"/>
            <body pos="0.3 0 0">
              <joint name="b" axis="0 1 0" damping="0.02"/>
              <geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.03" mass="0.3"/>
              <site name="tip" pos="0.15 0 0.03"/>
            </body>
          </body>
          <geom type="sphere" size="0.1" pos="0.285 0 0.38"/>
        </worldbody>
        <tendon>
          <fixed name="f" limited="true" range="-0.2 0.3" frictionloss="0.2" stiffness="2" damping="0.1">
            <joint joint="a" coef="1"/><joint joint="b" coef="-0.5"/>
          </fixed>
          <spatial name="s" limited="true" range="0 0.5" margin="0.01" damping="0.5" solimplimit="0.8 0.95 0.02 0.5 2">
            <site site="anchor"/><geom geom="pulley" sidesite="side"/><site site="tip"/>
          </spatial>
          <spatial name="l" limited="true" range="0.35 0.9" frictionloss="0.5">
            <site site="anchor"/><site site="tip"/>
          </spatial>
        </tendon>
        <actuator><position tendon="f" kp="2" kv="0.1"/><motor tendon="s" gear="-1"/></actuator>
        <keyframe>
          <key qpos="0.32 0.02" qvel="1 -0.5" ctrl="0.1 0.5"/>
          <key qpos="-0.5 -0.35" qvel="-1 -0.2" ctrl="-0.1 -0.5"/>
          <key qpos="0.25 0.4" qvel="0.1 0.2" ctrl="0 0"/>
        </keyframe>
        """,
    ),
    _case(
        "loops",
        "condim3 free hinge capsule box sphere plane euler equality_connect equality_weld damping trees mocap",
        """
        <option timestep="0.002"/>
        <worldbody>
          <geom type="plane" size="5 5 0.1"/>
          <body name="crank" pos="0 0 0.3"><joint axis="0 1 0" damping="0.05"/>
            <geom type="capsule" fromto="0 0 0 0.1 0 0" size="0.015" mass="0.2"/>
            <body name="rod" pos="0.1 0 0"><joint axis="0 1 0" damping="0.02"/>
              <geom type="capsule" fromto="0 0 0 0.25 0 0" size="0.012" mass="0.2"/></body></body>
          <body name="rocker" pos="0.3 0 0.3"><joint axis="0 1 0" damping="0.05"/>
            <geom type="capsule" fromto="0 0 0 0 0 0.15" size="0.015" mass="0.2"/></body>
          <body name="block" pos="0 0.5 0.1"><freejoint/><geom type="box" size="0.05 0.05 0.05" mass="0.5"/></body>
          <body name="bob" pos="0 0.5 0.02"><freejoint/><geom type="sphere" size="0.05" mass="0.3"/></body>
          <body name="hand" mocap="true" pos="0 0.5 0.2"><geom type="sphere" size="0.02" contype="0" conaffinity="0"/>
          </body>
        </worldbody>
        <equality>
          <connect body1="rod" body2="rocker" anchor="0.25 0 0"/>
          <weld body1="block" body2="hand" torquescale="0.5" relpose="0 0 0.1 1 0 0 0"/>
          <weld body1="bob" body2="block" relpose="0.1 0 -0.05 0.9689 0.2474 0 0" solimp="0.9 0.95 0.01 0.5 2"/>
        </equality>
        <keyframe>
          <key qpos="-0.3 0.5 0.2  0.005 0.5 0.1 0.998 0.05 0.02 0  0.1 0.504 0.048 1 0 0 0"
               qvel="1 -1 0.5  0.1 0.2 -0.1 0.5 1 -0.5  -0.2 0.1 -0.3 1 2 3" mpos="0 0.5 0.2" mquat="1 0 0 0"/>
          <key qpos="0.1 -0.5 0.4  -0.02 0.51 0.11 0.95 -0.15 0.2 0.1  0.12 0.49 0.045 0.9 0.3 0.1 0"
               qvel="-1 1 0.5  0.1 -0.2 0.1 0.5 -1 -0.5  0.2 0.1 0.3 1 -2 3" mpos="0.01 0.49 0.2"
               mquat="0.99 0.1 0 0"/>
        </keyframe>
        """,
    ),
    _case(
        "couplings",
        "hinge slide capsule euler equality_joint equality_tendon damping spring dry_tendon",
        """
        <option timestep="0.002"/>
        <default><geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.02" mass="0.3"/><joint damping="0.02"/></default>
        <worldbody>
          <body pos="0 0 1"><joint name="a" axis="0 1 0" stiffness="1"/><geom/>
            <body pos="0.2 0 0"><joint name="b" axis="0 1 0"/><geom/></body></body>
          <body pos="0 1 1"><joint name="c" axis="0 1 0"/><geom/></body>
          <body pos="0 2 1"><joint name="d" type="slide" axis="0 0 1" stiffness="20"/><geom/></body>
        </worldbody>
        <tendon>
          <fixed name="t1" frictionloss="0.3"><joint joint="a" coef="1"/><joint joint="c" coef="1"/></fixed>
          <fixed name="t2"><joint joint="d" coef="2"/></fixed>
        </tendon>
        <equality>
          <joint joint1="b" joint2="a" polycoef="0.1 -0.8 0.3 0 0"/>
          <joint joint1="c" polycoef="0.2 0 0 0 0" solimp="0.8 0.95 0.1 0.5 2"/>
          <tendon tendon1="t1" tendon2="t2" polycoef="0.05 1 0 0 0"/>
        </equality>
        <keyframe>
          <key qpos="0.1 0.06 0.23 0.1" qvel="1 -1 0.5 0.2"/>
          <key qpos="-0.4 0.5 0.1 -0.15" qvel="-2 1 0.5 -0.4"/>
        </keyframe>
        """,
    ),
    _case(
        "conveyor",
        "condim3 condim4 free box sphere euler surfacevel",
        """
        <option timestep="0.002"/>
        <worldbody>
          <geom type="box" size="1 0.5 0.05" pos="0 0 -0.05" surfacevel="0.5 0.1 0 0 0 0" friction="0.6 0.01 0.001"/>
          <geom type="cylinder" size="0.5 0.05" pos="3 0 -0.05" surfacevel="0 0 0 0 0 2" condim="4"
                friction="0.6 0.02 0.001"/>
          <body><freejoint/><geom type="sphere" size="0.08" mass="0.6"/></body>
          <body><freejoint/><geom type="sphere" size="0.06" mass="0.4" condim="4" friction="0.7 0.02 0.001"/></body>
        </worldbody>
        <keyframe>
          <key qpos="0.2 0.1 0.0785 1 0 0 0  3.2 0.1 0.059 1 0 0 0" qvel="0 0 -0.05 0 0 0  0.1 0 -0.05 0 0 0"/>
          <key qpos="-0.5 0.3 0.077 1 0 0 0  3.0 -0.2 0.058 1 0 0 0" qvel="0.6 0 -0.3 0 5 1  0.1 0.5 0.05 1 2 3"/>
        </keyframe>
        """,
        same_contacts=False,
    ),
    _case(
        "tumbling_implicitfast",
        "condim3 free box ellipsoid capsule plane implicitfast gyroscopic",
        """
        <option timestep="0.004" integrator="implicitfast"/>
        <worldbody>
          <geom type="plane" size="5 5 0.1"/>
          <body><freejoint/><geom type="box" size="0.15 0.08 0.02" mass="0.8"/></body>
          <body><freejoint/><geom type="ellipsoid" size="0.1 0.06 0.05" mass="0.5"/>
            <geom type="capsule" fromto="0 0 0 0.15 0.05 0.05" size="0.02" mass="0.2"/></body>
        </worldbody>
        <keyframe>
          <key qpos="0 0 0.158 0.8 0.3 0.5 0.1  0.5 0 0.07 -0.933 -0.33 -0.759 -0.418"
               qvel="0.5 0 -1 5 8 -6  0.2 0.1 -0.2 6 -4 7"/>
          <key qpos="0 0 0.4 0.8 0.3 0.5 0.1  0.5 0 0.5 1 0 0 0" qvel="0.5 0 -1 15 8 -6  0.2 0.1 -0.2 6 -4 17"/>
        </keyframe>
        """,
        settle=300,
    ),
    _case(
        "muscle_leg",
        "condim3 slide hinge capsule sphere plane implicitfast muscle activation limit_hinge spring dampingpoly",
        """
        <option timestep="0.002" integrator="implicitfast"/>
        <worldbody>
          <geom type="plane" size="5 5 0.1" friction="0.8 0.005 0.0001"/>
          <body pos="0 0 0.52">
            <joint type="slide" axis="0 0 1"/><joint type="slide" axis="1 0 0" damping="1 0.5"/>
            <geom type="sphere" size="0.06" mass="2"/>
            <body><joint name="hip" axis="0 1 0" range="-60 60" limited="true" damping="0.2"/>
              <geom type="capsule" fromto="0 0 0 0 0 -0.25" size="0.03" mass="0.6"/>
              <body pos="0 0 -0.25">
                <joint name="knee" axis="0 1 0" range="0 120" limited="true" damping="0.1" stiffness="2"/>
                <geom type="capsule" fromto="0 0 0 0 0 -0.22" size="0.025" mass="0.4"/>
                <geom type="sphere" pos="0 0 -0.24" size="0.035" mass="0.1" friction="1 0.005 0.0001"/>
              </body></body></body>
        </worldbody>
        <actuator>
          <muscle joint="knee" lengthrange="0 2" force="20"/>
          <position joint="hip" kp="30" dampratio="1"/>
          <general joint="hip" dyntype="filterexact" dynprm="0.05" gainprm="3"/>
        </actuator>
        <keyframe>
          <key qpos="0 0 0.05 -0.03" qvel="-0.3 0.2 1 -0.5" ctrl="0.6 0.1 0.3" act="0.2 0.1"/>
          <key qpos="-0.025 -0.008 -0.35 0.635" qvel="-0.3 -0.5 1 2" ctrl="0.1 -0.4 -0.3" act="0.8 -0.5"/>
        </keyframe>
        """,
        settle=300,
    ),
]

CASES: dict[str, Case] = {case.name: case for case in _CASES}


@functools.cache
def load(name: str) -> mujoco.MjModel:
    """The compiled model; shared, so leave it as it is."""
    return mujoco.MjModel.from_xml_string(CASES[name].xml)


def to_single(mjd: mujoco.MjData) -> None:
    """Round the state and the inputs to single precision, so that both sides of a comparison start from the same."""
    for field in ("qpos", "qvel", "act", "ctrl", "qfrc_applied", "xfrc_applied", "mocap_pos", "mocap_quat"):
        value = getattr(mjd, field)
        value[:] = value.astype(np.float32)


def start(name: str, key: int = 0) -> mujoco.MjData:
    """Data at a keyframe, quaternions normalized, rounded to single precision."""
    mjm = load(name)
    mjd = mujoco.MjData(mjm)
    mujoco.mj_resetDataKeyframe(mjm, mjd, key)
    mujoco.mj_normalizeQuat(mjm, mjd.qpos)
    to_single(mjd)
    return mjd


def perturbed(name: str, seed: int) -> mujoco.MjData:
    """A keyframe with random velocities, forces and slightly different positions, rounded to single precision."""
    mjm = load(name)
    rng = np.random.default_rng(seed)
    mjd = start(name, int(rng.integers(mjm.nkey)))
    mujoco.mj_integratePos(mjm, mjd.qpos, rng.normal(0.0, 1.0, mjm.nv), 1e-3)
    mjd.qvel[:] += rng.normal(0.0, 0.5, mjm.nv)
    mjd.qfrc_applied[:] = rng.normal(0.0, 0.1, mjm.nv)
    mjd.xfrc_applied[1:] = rng.normal(0.0, 0.1, (mjm.nbody - 1, 6))
    to_single(mjd)
    return mjd


@functools.cache
def settled(name: str, key: int) -> mujoco.MjData:
    """The data after `Case.settle` reference steps from a keyframe, rounded to single precision; leave it as it is."""
    mjm, mjd = load(name), start(name, key)
    for _ in range(CASES[name].settle):
        comfree.advance(mjd, comfree.step(mjm, mjd, stiffness=0.2, damping=0.001))
    to_single(mjd)
    return mjd
