"""What the models of other projects brought to light: each once, in the smallest model that shows it."""

import mujoco
import numpy as np
import pytest

import stickslip as ss
from stickslip import mjcf
from stickslip.errors import Unsupported

SLIDES = """<mujoco><worldbody><body>
    <joint name="x" type="slide" axis="1 0 0"/><joint name="y" type="slide" axis="0 1 0"/>
    <joint name="across" type="slide" axis="1 1 0" armature="{armature}"/><geom size=".05" mass="1"/></body></worldbody>
  <actuator><motor joint="across" gear="2"/></actuator></mujoco>"""
"""Three slides in a plane: any motion of the third is one of the others, so that M has no inverse."""


@pytest.mark.parametrize("name", ["mujoco", "comfree", "cone-sweep", "icf", "cenic", "scm"])
def test_joints_that_cannot_be_told_apart_are_refused(name: str) -> None:
    """In single precision the accelerations were NaN, or noise of 1e7 m/s^2; MuJoCo in C warns and divides by 1e-15."""
    with pytest.warns(UserWarning, match="singular"):  # MuJoCo's own
        mjm = mjcf.load(SLIDES.format(armature=0))
    with pytest.raises(Unsupported, match=f"{name} does not support: a singular inertia matrix.*'x'.*give.*armature"):
        ss.PHYSICS[name]().check(mjm)


def test_armature_tells_joints_apart(device: str) -> None:
    sim = ss.Simulation(mjcf.load(SLIDES.format(armature=0.1)), ss.ConeSweep(), nworld=1, device=device)
    sim.ctrl = np.ones((1, 1))
    sim.step()
    # the force acts on the third slide alone: 2 N move 0.1 kg, and the body, held by nothing else, stays
    np.testing.assert_allclose(sim.qvel.numpy()[0] / 0.002, [-20.0 / 2**0.5, -20.0 / 2**0.5, 20.0], rtol=1e-4)


APART = """<mujoco><worldbody>
    <body name="b"><freejoint/><geom name="box" type="box" size=".1 .1 .1"/></body>
    <body name="c" pos="0 0 .5"><geom name="other" type="box" size=".1 .2 .1" euler="0 0 30"/><geom size=".05"/></body>
  </worldbody>
  <sensor><distance {between} cutoff="1"/><normal {between} cutoff="1"/><fromto {between} cutoff="1"/></sensor>
</mujoco>"""


@pytest.mark.parametrize("between", ['geom1="box" geom2="other"', 'body1="c" geom2="box"', 'body1="b" body2="c"'])
@pytest.mark.parametrize("name", ["comfree", "cone-sweep", "icf"])
def test_distance_between_boxes(device: str, name: str, between: str) -> None:
    """The sensor said `cutoff`, since the routine that finds all points of two boxes knows none that are apart."""
    mjm = mjcf.load(APART.format(between=between))
    mjd = mujoco.MjData(mjm)
    mujoco.mj_forward(mjm, mjd)
    sim = ss.Simulation(mjm, ss.PHYSICS[name](), nworld=1, device=device)
    sim.forward()
    got = sim.sensordata.numpy()[0]
    assert 0.29 < got[0] < 0.31
    # where two faces lie above each other, the segment may be anywhere between them
    np.testing.assert_allclose(
        np.r_[got[:4], got[6], got[9]], np.r_[mjd.sensordata[:4], mjd.sensordata[[6, 9]]], atol=1e-4
    )
