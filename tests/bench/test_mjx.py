"""The method `mjx`: what it refuses, and its steps against MuJoCo in C."""

import sys

import mujoco
import numpy as np
import pytest

import stickslip as ss
from stickslip.bench import methods
from stickslip.bench.baselines import mjx
from stickslip.bench.baselines.mjx import Mjx
from stickslip.errors import InputError, MissingExtra, Unsupported

BALL = """<mujoco><worldbody><geom type="plane" size="1 1 1"/>
<body pos="0 0 .1"><freejoint/><geom type="sphere" size=".1" mass="1"/></body></worldbody></mujoco>"""


@pytest.fixture
def packages():
    pytest.importorskip("jax", reason="needs the extra `jax`")
    return pytest.importorskip("mujoco.mjx", reason="needs the extra `jax`")


def test_without_jax_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    mjx._packages.cache_clear()
    with pytest.raises(MissingExtra, match=r"mjx needs jax.*pip install 'stickslip\[jax\]'"):
        ss.Simulation("push-t", Mjx(), device="cpu")
    mjx._packages.cache_clear()


@pytest.mark.parametrize(
    ("wrong", "told"), [({"integrator": "magic"}, "'euler', 'rk4'"), ({"iterations": 0}, "from 1")]
)
def test_parameters_are_checked(wrong, told):
    with pytest.raises(InputError, match=told):
        Mjx(**wrong)


def test_it_is_a_method_with_parameters():
    found = methods.resolve(["mjx", "mjx:integrator=rk4,iterations=7"])
    assert found["mjx"].subject == Mjx()
    assert found["mjx:integrator=rk4,iterations=7"].subject == Mjx(integrator="rk4", iterations=7)
    assert {"jax", "mujoco-mjx"} == found["mjx"].versions.keys()


def test_steps_are_those_of_mujoco_in_c(packages):
    sim = ss.Simulation(BALL, Mjx(), nworld=2, device="cpu", timestep=0.002)
    push = np.zeros((2, 2, 6))
    push[:, 1, 0] = 1.0, 9.0
    sim.xfrc_applied = push
    sim.step(30)
    sim.step(20)
    assert sim.contact_count() == 2
    assert sim.physics.memory(sim.m, sim.d) > sim.qpos.size
    for world in range(2):
        mjd = mujoco.MjData(sim.mjm)
        mjd.xfrc_applied[:] = push[world]
        for _ in range(50):
            mujoco.mj_step(sim.mjm, mjd)
        assert sim.qpos.numpy()[world] == pytest.approx(mjd.qpos, abs=1e-4)
        assert sim.qvel.numpy()[world] == pytest.approx(mjd.qvel, abs=1e-3)
        assert sim.state.time[world] == pytest.approx(mjd.time, rel=1e-4)


def test_worlds_are_reset_one_by_one(packages):
    sim = ss.Simulation(BALL, Mjx(), nworld=2, device="cpu", timestep=0.002)
    start = sim.qpos.numpy().copy()
    sim.xfrc_applied = np.tile([20.0, 0, 0, 0, 0, 0], (2, sim.mjm.nbody, 1))
    sim.step(20)
    moved = sim.qpos.numpy().copy()
    sim.reset(np.array([True, False]))
    assert sim.qpos.numpy()[0] == pytest.approx(start[0])
    assert sim.qpos.numpy()[1] == pytest.approx(moved[1])
    assert not sim.xfrc_applied.numpy()[0].any()
    with pytest.raises(Unsupported, match="body_mass"):
        sim.set_model(body_mass=np.ones(sim.mjm.nbody))
    with pytest.raises(Unsupported, match="contact_count"):
        sim.contacts()
