"""What MuJoCo derives from masses, armature and gears, per world, against `mj_setConst` of MuJoCo in C."""

import copy

import mujoco
import numpy as np
import pytest

import stickslip as ss

DERIVED = "body_subtreemass body_invweight0 dof_invweight0 actuator_acc0 tendon_invweight0 tendon_length0".split()


SLIDES = """
<mujoco>
  <worldbody>
    <body name="goal" mocap="true"/>
    <body><joint name="x" type="slide" axis="1 0 0" armature="1"/><joint type="slide" axis="0 1 0"/>
      <geom size=".1" mass=".2"/>
      <body pos=".3 0 0"><joint type="slide" axis="0 0 1"/><geom size=".1" mass=".3"/></body>
    </body>
    <body pos="1 0 0"><joint type="slide" axis="0 0 1"/><geom size=".1" mass=".2"/></body>
    <body pos="2 0 0"><joint type="slide" axis="1 1 0"/><geom size=".1" mass=".2"/></body>
    <body pos="3 0 0"><joint type="slide" axis="1 0 0"/><joint axis="0 0 1"/><geom size=".1" mass=".2"/></body>
  </worldbody>
  <actuator><motor joint="x"/></actuator>
</mujoco>
"""
"""Bodies whose joints slide, some of which MuJoCo treats in a way of their own."""


@pytest.mark.parametrize("physics", [ss.MuJoCo(), ss.ConeSweep()], ids=["mujoco", "cone-sweep"])
@pytest.mark.parametrize("scene", ["humanoid", "stiff-arm", "gripper", "slides"])
def test_inverse_weights(scene: str, physics: ss.Physics, device: str) -> None:
    model = mujoco.MjModel.from_xml_string(SLIDES) if scene == "slides" else scene
    sim = ss.Simulation(model, physics, nworld=3, device=device)
    mjm, rng = sim.mjm, np.random.default_rng(0)
    fields = {
        "body_mass": mjm.body_mass * rng.uniform(0.5, 2.0, (3, mjm.nbody)),
        "actuator_gear": mjm.actuator_gear * rng.uniform(0.5, 2.0, (3, mjm.nu, 1)),
        "dof_armature": mjm.dof_armature + rng.uniform(0.0, 0.1, (3, mjm.nv)),
    }
    sim.set_model(**fields)
    for world in range(3):
        own = copy.copy(mjm)
        for name, value in fields.items():
            getattr(own, name)[:] = value[world]
        mujoco.mj_setConst(own, mujoco.MjData(own))
        for name in DERIVED:
            expected = getattr(own, name)
            found = getattr(sim.m, name).numpy()[world].reshape(expected.shape)
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max(initial=0.0))
