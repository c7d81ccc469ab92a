"""Contacts and the sensors that read them."""

import mujoco
import numpy as np
import pytest

import stickslip as ss
from tests import support


def test_contacts_name_their_world(physics: ss.Physics, device: str) -> None:
    """A world in the air has none; the others have theirs."""
    each = physics.promises.contacts_per_face
    if each is None:
        pytest.skip(f"{physics.name} separates overlapping bodies, and has no contact at the end of the step")
    sim = ss.Simulation("sliding-cube", physics, nworld=3, device=device)
    qpos = sim.qpos.numpy().copy()
    qpos[:, 2] = (0.0499, 1.0, 0.0499)
    sim.qpos = qpos
    sim.qvel = np.zeros(6)
    assert sim.contact_count() == 0
    sim.step()
    contacts = sim.contacts()
    assert len(contacts) == sim.contact_count() == 2 * each
    assert np.bincount(contacts.world, minlength=3).tolist() == [each, 0, each]
    undone = physics.promises.separation_speed * sim.mjm.opt.timestep
    np.testing.assert_allclose(contacts.dist, undone - 1e-4, rtol=0.0, atol=2e-8 if undone else 2e-6)
    np.testing.assert_allclose(np.abs(contacts.frame[:, 0, 2]), 1.0, atol=1e-5)
    assert (contacts.force[:, 0] > 0).all()


CONTACT_SENSORS = """
<mujoco><worldbody><geom name="floor" type="plane" size="1 1 .1"/>
  <body pos="0 0 .06"><freejoint/><geom name="a" type="box" size=".05 .05 .05"/></body>
  <body pos="0.01 0 .17"><freejoint/><geom name="b" type="box" size=".05 .05 .05"/></body>
</worldbody>
<sensor><contact geom1="a" geom2="floor" num="4" data="found dist pos normal"/>
  <contact geom1="a" geom2="b" num="4" reduce="mindist" data="found dist"/></sensor></mujoco>
"""


def test_position_stage_contact_sensors_see_this_step(physics: ss.Physics, device: str) -> None:
    """Contact sensors without forces read the contacts of their own step, also if stages run side by side on a GPU."""
    if not physics.promises.contact_sensors:
        with pytest.raises(ss.Unsupported, match="sensor"):
            ss.Simulation(CONTACT_SENSORS, physics, device=device)
        return
    sim = support.perturbed_simulation(CONTACT_SENSORS, physics, device, 64)
    sensordata = physics.results(sim.m, sim.d)["sensordata"]
    rng = np.random.default_rng(0)
    sim.qvel = rng.normal(0.0, 0.3, (64, sim.mjm.nv))
    for _ in range(40):
        sim.step()
        contacts, found = sim.contacts(), sensordata.numpy()
        floor = mujoco.mj_name2id(sim.mjm, mujoco.mjtObj.mjOBJ_GEOM, "floor")
        a = mujoco.mj_name2id(sim.mjm, mujoco.mjtObj.mjOBJ_GEOM, "a")
        for world in range(64):
            mine = (contacts.world == world) & (np.sort(contacts.geom, axis=1) == sorted((floor, a))).all(axis=1)
            assert found[world, 0] == mine.sum(), world
            if mine.any():
                assert np.isclose(contacts.dist[mine], found[world, 1], atol=1e-7).any(), world
