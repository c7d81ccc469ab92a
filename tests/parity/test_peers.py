"""What the models of other projects brought to light: each once, in the smallest model that shows it."""

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
