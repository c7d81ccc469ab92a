"""The method `mujoco-c`: its steps are those of MuJoCo in C, whatever is written from outside in between."""

import mujoco
import numpy as np
import pytest
import warp as wp

import stickslip as ss
from stickslip import mjcf
from stickslip.bench import methods
from stickslip.bench.baselines.mujoco_c import MujocoC
from stickslip.errors import Unsupported


def in_c(scene: str) -> tuple[mujoco.MjModel, mujoco.MjData]:
    mjm = mjcf.load(scene)
    mjd = mujoco.MjData(mjm)
    mujoco.mj_resetDataKeyframe(mjm, mjd, 0)
    return mjm, mjd


def test_it_is_a_method_but_no_physics_of_the_library():
    assert methods.resolve(["mujoco-c"])["mujoco-c"].subject == MujocoC()
    assert "mujoco-c" not in methods.names()
    assert "mujoco-c" not in ss.PHYSICS


@pytest.mark.parametrize("scene", ["scaling", "humanoid", "hand"])
def test_steps_are_those_of_mujoco_in_c(scene):
    """State in double precision between two calls; contacts and forces of the last step."""
    sim = ss.Simulation(scene, MujocoC(), nworld=2, device="cpu")
    mjm, mjd = in_c(scene)
    for n in (1, 7, 52):
        sim.step(n)
        mujoco.mj_step(mjm, mjd, n)
        for world in range(2):
            np.testing.assert_array_equal(sim.qpos.numpy()[world], mjd.qpos.astype(np.float32))
            np.testing.assert_array_equal(sim.d.worlds[world].qvel, mjd.qvel)
    contacts = sim.contacts()
    assert sim.contact_count() == len(contacts) == 2 * mjd.ncon > 0
    force = np.zeros((mjd.ncon, 6))
    for index in range(mjd.ncon):
        mujoco.mj_contactForce(mjm, mjd, index, force[index])
    np.testing.assert_array_equal(contacts.force, np.tile(force, (2, 1)))
    np.testing.assert_array_equal(contacts.dist, np.tile(mjd.contact.dist, 2))


def test_what_is_written_from_outside_counts_in_its_world_alone():
    sim = ss.Simulation("hand", MujocoC(), nworld=2, device="cpu")
    mjm, mjd = in_c("hand")
    sim.step(3)
    mujoco.mj_step(mjm, mjd, 3)
    ctrl, qvel = sim.ctrl.numpy().copy(), sim.qvel.numpy().copy()
    ctrl[1] += 0.125
    qvel[1, :6] += 0.25
    sim.ctrl, sim.qvel = ctrl, qvel
    other = mujoco.MjData(mjm)
    mujoco.mj_copyData(other, mjm, mjd)
    other.ctrl[:], other.qvel[:] = ctrl[1], qvel[1]
    sim.step(4)
    for data in (mjd, other):
        mujoco.mj_step(mjm, data, 4)
    np.testing.assert_array_equal(sim.d.worlds[0].qpos, mjd.qpos)
    np.testing.assert_array_equal(sim.d.worlds[1].qpos, other.qpos)
    sim.reset()
    np.testing.assert_array_equal(sim.qpos.numpy()[1], mjm.key_qpos[0].astype(np.float32))
    sim.step(2)
    fresh = in_c("hand")[1]
    mujoco.mj_step(mjm, fresh, 2)
    np.testing.assert_array_equal(sim.d.worlds[1].qpos, fresh.qpos)


def test_a_world_that_is_no_longer_finite_stays_and_is_told():
    sim = ss.Simulation("scaling", MujocoC(), nworld=2, device="cpu")
    qpos = sim.qpos.numpy().copy()
    qpos[1, 0] = np.nan
    sim.qpos.assign(qpos)
    sim.step(5)
    assert sim.health().nan_worlds == (1,)
    assert sim.d.worlds[1].time == 0.0
    assert sim.d.worlds[0].time == pytest.approx(0.01)


def test_on_a_gpu_it_says_that_it_runs_on_the_cpu(monkeypatch):
    class Gpu:
        is_cpu = False
        alias = "cuda:0"

    monkeypatch.setattr(wp, "get_device", lambda: Gpu())
    with pytest.raises(Unsupported, match="mujoco-c runs on the CPU, and the device is cuda:0"):
        MujocoC().put_model(mjcf.load("scaling"))
