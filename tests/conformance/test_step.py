"""A step: captured or not, on each device, with each input; and what compiling leaves alone."""

import mujoco
import numpy as np
import pytest

import stickslip as ss
from tests import support


@pytest.mark.parametrize("scene", support.SCENES)
def test_replay_equals_eager_stepping(physics: ss.Physics, scene: str, device: str) -> None:
    """A captured step, replayed, does what calling the physics does; contact included."""
    if not physics.capturable:
        pytest.skip(f"{physics.name} is not captured")
    sim, eager = (support.perturbed_simulation(scene, physics, device, 3) for _ in range(2))
    sim.step(support.STEPS)
    assert sim._graph is not None
    for _ in range(support.STEPS):
        eager.d = physics.step(eager.m, eager.d)
    assert eager._graph is None
    support.assert_same(sim.state, eager.state, device)
    assert sim.health().ncon_peak > 0
    np.testing.assert_allclose(sim.state.time, support.STEPS * sim.mjm.opt.timestep, rtol=1e-5)


@pytest.mark.parametrize("scene", support.SCENES)
def test_the_most_contacts_are_remembered(physics: ss.Physics, scene: str, device: str) -> None:
    """Whatever is seen after a step counts, and nothing is forgotten when the worlds are reset."""
    sim = support.perturbed_simulation(scene, physics, device, 2)
    most = 0
    for _ in range(support.STEPS):
        sim.step()
        most = max(most, sim.contact_count())
    assert 0 < most <= sim.health().ncon_peak
    sim.reset()
    assert sim.health().ncon_peak >= most


@pytest.mark.parametrize("scene", support.SCENES)
def test_compile_leaves_everything_alone(physics: ss.Physics, scene: str, device: str) -> None:
    """State, inputs, contacts and all results are the same bits before and after; a second call does nothing."""
    sim = support.perturbed_simulation(scene, physics, device, 2)
    rng = np.random.default_rng(0)
    names = ("qpos", "qvel", "ctrl", "qfrc_applied", "xfrc_applied")
    for name in names[2:]:
        setattr(sim, name, rng.normal(0.0, 0.1, np.shape(getattr(sim, name).numpy())))
    before, inputs = sim.state, {name: getattr(sim, name).numpy().copy() for name in names}
    results = support.arrays_of(sim)
    sim.compile()
    sim.compile()
    assert len(sim.contacts()) == sim.contact_count() == 0  # there was no step
    after = sim.state
    for name in support.FIELDS:
        assert support.same_bits(getattr(after, name), getattr(before, name)), name
    for name in names:
        assert support.same_bits(getattr(sim, name).numpy(), inputs[name]), name
    for name, now in support.arrays_of(sim).items():
        assert support.same_bits(now, results[name]), name


def test_compiling_again_keeps_the_contacts(physics: ss.Physics, device: str) -> None:
    """After a change of the model the step is captured again; the contacts of the last step are still there."""
    sim = support.perturbed_simulation("scaling", physics, device, 2)
    sim.step(support.STEPS)
    sim.set_model(timestep=sim.mjm.opt.timestep)
    before, results = sim.contacts(), support.arrays_of(sim)
    sim.compile()
    after = sim.contacts()
    assert 0 < len(before) == len(after) == sim.contact_count()
    for name in ("world", "geom", "dist", "pos", "frame", "force"):
        assert support.same_bits(getattr(after, name), getattr(before, name)), name
    for name, now in support.arrays_of(sim).items():
        assert support.same_bits(now, results[name]), name


def test_inputs_act(physics: ss.Physics, device: str) -> None:
    """ctrl, qfrc_applied and xfrc_applied of a world reach that world."""
    reference = support.simulate("hand", physics, nworld=2, device=device)
    reference.step(20)
    mjm = reference.mjm
    cube = mujoco.mj_name2id(mjm, mujoco.mjtObj.mjOBJ_BODY, "cube")
    push = np.zeros((2, mjm.nbody, 6))
    push[1, cube, 2] = 5.0
    bend = np.zeros((2, mjm.nv))
    bend[1, 0] = 0.05
    target = np.tile(mjm.key_ctrl[0], (2, 1))
    target[1, 5] += 0.3
    for name, value in (("xfrc_applied", push), ("qfrc_applied", bend), ("ctrl", target)):
        sim = support.simulate("hand", physics, nworld=2, device=device)
        setattr(sim, name, value)
        sim.step(20)
        moved = np.abs(sim.state.qpos - reference.state.qpos).max(axis=1)
        assert moved[0] < 1e-5 < 1e-4 < moved[1], name


@pytest.mark.parametrize("scene", support.SCENES)
def test_cuda_agrees_with_the_cpu(physics: ss.Physics, scene: str, cuda: str) -> None:
    """The same trajectory on both devices, up to the order of float32 sums."""
    here, there = (support.perturbed_simulation(scene, physics, device, 3) for device in ("cpu", cuda))
    for sim in (here, there):
        sim.step(40)
    np.testing.assert_allclose(there.state.qpos, here.state.qpos, atol=1e-4)
    np.testing.assert_allclose(there.state.qvel, here.state.qvel, atol=1e-2, rtol=1e-3)
