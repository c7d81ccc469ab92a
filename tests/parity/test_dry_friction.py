"""Dry friction that the model does not have, given later: it acts as it does in MuJoCo Warp, world by world."""

from types import ModuleType

import mujoco
import numpy as np
import pytest
import warp as wp

import stickslip as ss
import stickslip.comfree as cf
import stickslip.conesweep as cs
from stickslip.errors import InputError

LOSSES = (0.0, 0.02, 0.05)
SPEED = 5.0
PHYSICS = ["comfree", "cone-sweep", "icf", "cenic"]
each_physics = pytest.mark.parametrize("name", PHYSICS)
HINGE = """
<mujoco><option timestep="0.002" gravity="0 0 0"/><worldbody><body>
  <joint name="hinge" axis="0 1 0"/><geom type="capsule" size="0.02" fromto="0 0 0 0.2 0 0" mass="0.1"/>
</body></worldbody></mujoco>
"""
ARM = """
<mujoco><compiler angle="radian"/><option timestep="0.002" gravity="0 0 0"/><worldbody>
  <body><joint name="upper" axis="0 1 0" range="-3 3" limited="true"/>
    <geom type="capsule" size="0.02" fromto="0 0 0 0.2 0 0" mass="0.1"/>
    <body pos="0.2 0 0"><joint name="lower" axis="0 1 0"/>
      <geom type="capsule" size="0.02" fromto="0 0 0 0.2 0 0" mass="0.1" contype="0" conaffinity="0"/></body></body>
  <body pos="2 0 0"><freejoint/><geom size="0.1"/></body></worldbody>
  <tendon><fixed name="both"><joint joint="upper" coef="1"/><joint joint="lower" coef="0.5"/></fixed></tendon>
</mujoco>
"""


def speeds(sim: ss.Simulation, steps: int = 300, every: int = 50) -> np.ndarray:
    """Velocities now and then, (time, world, nv)."""
    out = []
    for _ in range(steps // every):
        sim.step(every)
        out.append(sim.qvel.numpy().copy())
    return np.stack(out)


def simulation(xml: str, physics: ss.Physics, device: str, nworld: int = 1) -> ss.Simulation:
    """Worlds that start at SPEED."""
    sim = ss.Simulation(xml, physics, nworld=nworld, device=device)
    sim.qvel = np.full((nworld, sim.mjm.nv), SPEED)
    return sim


@pytest.mark.parametrize("name", ["mujoco", *PHYSICS])
def test_a_hinge_without_friction_is_given_some(name: str, device: str) -> None:
    """The one of the issue: at 5 rad/s, it goes on without friction, and stops with it. v = 5 - loss t / I."""
    sim = simulation(HINGE, ss.PHYSICS[name](), device, len(LOSSES))
    sim.step()
    sim.set_model(dof_frictionloss=np.array(LOSSES)[:, None])
    sim.qvel = np.full((len(LOSSES), 1), SPEED)
    mjd = mujoco.MjData(sim.mjm)
    mujoco.mj_forward(sim.mjm, mjd)
    inertia = float(mjd.M[0])
    at_once = SPEED - 10 * sim.mjm.opt.timestep * np.array(LOSSES) / inertia
    np.testing.assert_allclose(speeds(sim, 10, 10)[-1, :, 0], at_once, rtol=3e-2 if name == "comfree" else 1e-3)
    end = speeds(sim, 1000)[-1, :, 0]  # ComFree's creeps to its end
    np.testing.assert_allclose(end, [SPEED, 0.0, 0.0], atol=2e-3)


GIVEN = {
    "hinge": (HINGE, 'axis="0 1 0"', "dof_frictionloss", [0.02]),
    "ball": (HINGE.replace('axis="0 1 0"', 'type="ball"'), 'type="ball"', "dof_frictionloss", [0.02, 0.02, 0.02]),
    "joint of an arm": (ARM, 'name="lower"', "dof_frictionloss", [0.0, 0.02, *[0.0] * 6]),
    "tendon of an arm": (ARM, 'name="both"', "tendon_frictionloss", [0.02]),
}


@each_physics
@pytest.mark.parametrize("case", list(GIVEN))
def test_friction_given_later_is_that_of_the_model(name: str, case: str, device: str) -> None:
    """World 1 is given what another model has from the start: it moves as that one, and world 0 as before."""
    xml, place, field, losses = GIVEN[case]
    sim = simulation(xml, ss.PHYSICS[name](), device, 2)
    sim.set_model(**{field: np.stack([0.0 * np.array(losses), losses])})
    got = speeds(sim)
    without = speeds(simulation(xml, ss.PHYSICS[name](), device))
    having = speeds(simulation(xml.replace(place, f'{place} frictionloss="0.02"'), ss.PHYSICS[name](), device))
    np.testing.assert_allclose(got[:, 0], without[:, 0], atol=1e-4)
    np.testing.assert_allclose(got[:, 1], having[:, 0], atol=1e-4)
    assert np.abs(having - without).max() > 0.1
    assert sim.d.nf.numpy().tolist() == [0, np.count_nonzero(losses)]


@pytest.mark.parametrize("module", [cf, cs], ids=["comfree", "cone-sweep"])
def test_drop_in_takes_friction_written_in_place(module: ModuleType, device: str) -> None:
    """With a graph that was captured before, and with one value for each world."""
    mjm = mujoco.MjModel.from_xml_string(HINGE)
    m = module.put_model(mjm, {"dof_frictionloss": 3})
    d = module.make_data(mjm, nworld=3)
    module.step(m, d)
    with wp.ScopedCapture() as capture:
        module.step(m, d)
    assert (d.nf.numpy() == 0).all() and (d.nefc.numpy() == 0).all()
    m.dof_frictionloss.assign(np.array(LOSSES, dtype=np.float32)[:, None])
    d.qvel.fill_(SPEED)
    for _ in range(1000):
        wp.capture_launch(capture.graph)
    np.testing.assert_allclose(d.qvel.numpy()[:, 0], [SPEED, 0.0, 0.0], atol=2e-3)
    np.testing.assert_array_equal(d.nf.numpy(), [0, 1, 1])
    m.dof_frictionloss.zero_()
    d.qvel.fill_(SPEED)
    for _ in range(10):
        wp.capture_launch(capture.graph)
    np.testing.assert_allclose(d.qvel.numpy()[:, 0], SPEED, rtol=1e-5)


@pytest.mark.parametrize("name", ["cone-sweep", "icf", "cenic"])
def test_free_joints_need_friction_in_the_model(name: str, device: str) -> None:
    """The message names the value and what to do; nothing is changed. With a little in the model it can be set."""
    sim = ss.Simulation(ARM, ss.PHYSICS[name](), nworld=2, device=device)
    losses = np.zeros(8)
    losses[4] = 3.0
    with pytest.raises(InputError, match="dof 4, of a free joint.* set to 3; give that joint a small positive"):
        sim.set_model(dof_frictionloss=losses)
    assert not sim.m.dof_frictionloss.numpy().any()
    xml = ARM.replace("<freejoint/>", '<joint type="free" frictionloss="1e-6"/>')
    other = ss.Simulation(xml, ss.PHYSICS[name](), nworld=2, device=device)
    other.set_model(dof_frictionloss=np.stack([0.0 * losses, losses]))
    other.qvel = np.full((2, 8), 0.1)
    other.step(200)
    np.testing.assert_allclose(other.qvel.numpy()[:, 4], [0.1, 0.0], atol=1e-3)
